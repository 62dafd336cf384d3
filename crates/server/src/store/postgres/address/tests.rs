use super::*;

/// Why a URL cannot be used.
fn complaint(url: &str) -> String {
    let error = read(url).map(drop).expect_err("the URL must be refused").to_string();
    assert!(!error.contains("secret"), "{error}");
    let cause = error.strip_prefix("the database's URL cannot be used: ");
    let cause = cause.and_then(|cause| cause.strip_suffix("; it looks like postgres://user:password@host:5432/name"));
    cause.unwrap_or_else(|| panic!("{error}")).to_owned()
}

#[test]
fn mistakes_in_a_url_are_named_without_the_password() {
    for (url, expected) in [
        ("postgres://", "it names no host"),
        ("user=keeper password=secret", "it names no host"),
        ("postgres://keeper:secret@db:port/chat", "invalid value for option `port`"),
        ("postgres://keeper:secret@db/chat?sslmode=maybe", "invalid value for option `sslmode`"),
        ("postgres://keeper:secret@db/chat?timeout=1", "unknown option `timeout`"),
        ("db.example.com", "unexpected EOF"),
        ("mysql://keeper:secret@db/chat", "unexpected EOF"),
        ("", "it names no host"),
    ] {
        assert_eq!(complaint(url), expected, "{url}");
    }
}

#[test]
fn a_database_is_named_without_its_user() {
    for (url, expected) in [
        ("postgres://keeper:secret@db.example.com:6543/chat", "postgres://db.example.com:6543/chat"),
        ("postgresql://keeper@db.example.com", "postgres://db.example.com:5432/keeper"),
        ("postgres://keeper@one:1,two:2/chat?sslmode=require", "postgres://one:1,two:2/chat"),
        ("postgres://keeper@one,two/chat", "postgres://one:5432,two:5432/chat"),
        ("postgres://keeper@%2Frun%2Fpostgresql/chat", "postgres:///run/postgresql/chat"),
        ("host=db user=keeper password=secret dbname=chat", "postgres://db:5432/chat"),
    ] {
        assert_eq!(name_of(url).unwrap(), expected, "{url}");
    }
}

#[test]
fn what_the_driver_does_not_know_is_taken_out() {
    for (url, expected, trusted) in [
        ("postgres://db/chat", "postgres://db/chat", None),
        ("postgres://db/chat?sslrootcert=ca.pem", "postgres://db/chat", Some("ca.pem")),
        ("postgres://db/chat?sslmode=verify-ca", "postgres://db/chat?sslmode=require", None),
        (
            "postgres://db/chat?sslmode=verify-full&sslrootcert=%2Fetc%2Fmy%20ca.pem&application_name=x",
            "postgres://db/chat?sslmode=require&application_name=x",
            Some("/etc/my ca.pem"),
        ),
    ] {
        assert_eq!(take_trusted(url), (expected.to_owned(), trusted.map(PathBuf::from)), "{url}");
    }
}

#[test]
fn a_database_elsewhere_without_tls_is_in_the_open() {
    let is_open = |url: &str| is_in_the_open(&read(url).unwrap().config);
    assert!(is_open("postgres://keeper@db.example.com/chat?sslmode=disable"));
    assert!(is_open("postgres://keeper@localhost,10.0.0.1/chat?sslmode=disable"));
    for safe in [
        "postgres://keeper@db.example.com/chat?sslmode=require",
        "postgres://keeper@localhost/chat?sslmode=disable",
        "postgres://keeper@%2Frun%2Fpostgresql/chat?sslmode=disable",
    ] {
        assert!(!is_open(safe), "{safe}");
    }
}
