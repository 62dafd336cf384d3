//! Passwords, and certificates.

use std::path::Path;
use std::process::Command;

use handback_server::store::Postgres;
use handback_server::store::postgres::Bounds;
use handback_testkit::postgres::query;
use handback_testkit::{OwnPostgres, Scratch};

fn openssl(scratch: &Scratch, arguments: &str) {
    let output = Command::new("openssl").args(arguments.split(' ')).current_dir(scratch.path()).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes `<name>.pem` and `<name>.key`, an authority that signs certificates.
fn authority(scratch: &Scratch, name: &str) {
    let key = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(scratch, &format!("{key} -subj /CN={name} -keyout {name}.key -out {name}.pem"));
}

/// Writes a file that belongs to the server, which may be another user.
fn give(server: &OwnPostgres, name: &str, text: &str) {
    let copy = "COPY (SELECT regexp_split_to_table(trim(E'\\n' FROM $text$";
    let write = format!("{copy}{text}$text$), E'\\n')) TO PROGRAM 'umask 077; cat >{name}'");
    query(server.url(), &write).unwrap();
}

/// A server that wants TLS, and a password, from the user `keeper`.
fn guarded(scratch: &Scratch) -> OwnPostgres {
    let mut server = OwnPostgres::start();
    authority(scratch, "trusted");
    openssl(
        scratch,
        "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=database -keyout server.key -out server.csr",
    );
    std::fs::write(scratch.join("names"), "subjectAltName = IP:127.0.0.1\n").unwrap();
    let sign = "x509 -req -in server.csr -CA trusted.pem -CAkey trusted.key -CAcreateserial -days 2 -extfile names";
    openssl(scratch, &format!("{sign} -out server.crt"));
    for name in ["server.key", "server.crt"] {
        give(&server, name, &std::fs::read_to_string(scratch.join(name)).unwrap());
    }
    query(server.url(), "CREATE ROLE keeper LOGIN SUPERUSER PASSWORD 'right'").unwrap();
    query(server.url(), "ALTER SYSTEM SET ssl = on").unwrap();
    let rules = "hostssl all keeper 127.0.0.1/32 scram-sha-256\nhost all postgres 127.0.0.1/32 trust";
    give(&server, "pg_hba.conf", rules);
    server.stop();
    server.start_again();
    server
}

async fn refusal(url: &str) -> String {
    let error = Postgres::open(url, Bounds::default()).await.expect_err("the database must be refused");
    assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    error.to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_and_a_password_are_checked() {
    let scratch = Scratch::new();
    let server = guarded(&scratch);
    authority(&scratch, "other");
    let address = server.url().strip_prefix("postgres://postgres@").unwrap().to_owned();
    let file = |name: &str| scratch.join(name).display().to_string().replace('/', "%2F");
    let with = |password: &str, settings: &str| format!("postgres://keeper:{password}@{address}/postgres?{settings}");
    let trusting = |mode: &str, name: &str| format!("sslmode={mode}&sslrootcert={}", file(name));

    // The right one is accepted, and what is sent is encrypted.
    for mode in ["require", "verify-full", "prefer"] {
        let store = Postgres::open(&with("right", &trusting(mode, "trusted.pem")), Bounds::default()).await.unwrap();
        let encrypted =
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'keeper'";
        assert_eq!(query(server.url(), encrypted).unwrap(), ["t"], "{mode}");
        store.close().await.unwrap();
    }
    let start = format!("postgres://{address}/postgres cannot be opened: ");
    // A certificate of somebody else is refused, wherever there is TLS.
    for settings in [trusting("require", "other.pem"), trusting("verify-full", "other.pem"), "sslmode=require".into()] {
        let error = refusal(&with("secret", &settings)).await;
        assert!(error.starts_with(&start) && error.contains("certificate"), "{error}");
    }
    // So is one for another name.
    let elsewhere = with("secret", &trusting("verify-full", "trusted.pem")).replace("127.0.0.1", "localhost");
    let error = refusal(&elsewhere).await;
    assert!(error.contains("not valid for name"), "{error}");
    let error = refusal(&with("secret", &trusting("require", "trusted.pem"))).await;
    assert_eq!(error, format!("{start}password authentication failed for user \"keeper\""));
    // The server does not take this user without TLS.
    let error = refusal(&with("secret", "sslmode=disable")).await;
    assert!(error.starts_with(&start) && error.contains("pg_hba.conf"), "{error}");

    std::fs::write(scratch.join("empty"), "").unwrap();
    for (name, complaint) in [("nothing", "No such file"), ("empty", "there are none in it")] {
        let error = refusal(&with("secret", &trusting("require", name))).await;
        let path = scratch.join(name);
        let expected = format!("the certificates in {} cannot be read: {complaint}", Path::display(&path));
        assert!(error.starts_with(&expected), "{error}");
    }
}
