//! Where the database is, and whether there is one.

use super::*;

/// What `data` is relative to the directories of the test, whether it is used, and where it was said.
fn kept(place: &Place) -> [String; 3] {
    let loaded = place.load();
    let row = loaded.rows().into_iter().find(|row| row.key == "data").unwrap();
    let [value, source] = [row.value, row.source].map(|text| text.replace(&format!("{}/", place.root.display()), ""));
    let used = match loaded.config.storage() {
        Storage::Directory(directory) => {
            assert_eq!(Some(directory), loaded.config.data.as_deref());
            "kept"
        }
        Storage::Postgres(_) => "kept elsewhere",
        Storage::Memory => "not kept",
    };
    [value, used.to_owned(), source]
}

fn with_user(mut place: Place) -> Place {
    place.inputs.data_directory = Some(place.root.join("share"));
    place
}

#[test]
fn data_is_in_the_users_directory_unless_something_else_is_said() {
    assert_eq!(kept(&with_user(Place::new())), ["share/handback", "kept", "default"]);
    let place = with_user(Place::new()).flag("ephemeral", "true", "--ephemeral");
    assert_eq!(kept(&place), ["", "not kept", "default"]);
    assert_eq!(place.given(), [["ephemeral", "true", "flag --ephemeral"]]);
    // Without a home nothing is kept; whoever serves can tell by `ephemeral` that this was not asked for.
    assert_eq!(kept(&Place::new()), ["", "not kept", "default"]);
}

#[test]
fn a_path_is_relative_to_whoever_says_it() {
    let mut place = with_user(Place::new()).file("user/handback/handback.toml", "data = \"db\"");
    assert_eq!(kept(&place), ["user/handback/db", "kept", "file user/handback/handback.toml"]);
    place = place.variable("HANDBACK_DATA", "there");
    assert_eq!(kept(&place), ["work/there", "kept", "environment HANDBACK_DATA"]);
    place = place.flag("data", "/elsewhere", "--data");
    assert_eq!(kept(&place), ["/elsewhere", "kept", "flag --data"]);
}

#[test]
fn ephemeral_wins_over_data_and_says_so_unless_it_is_a_flag() {
    let mut place = Place::new().toml("data = \"/db\"").variable("HANDBACK_EPHEMERAL", "true");
    assert_eq!(kept(&place), ["/db", "not kept", "file work/handback.toml"]);
    let expected = ["nothing is kept in data, for ephemeral is set (environment HANDBACK_EPHEMERAL)"];
    assert_eq!(place.load().warnings, expected);
    place = place.flag("ephemeral", "true", "--ephemeral");
    assert_eq!(kept(&place), ["/db", "not kept", "file work/handback.toml"]);
    assert_eq!(place.load().warnings, Vec::<String>::new());
}

#[test]
fn data_that_is_refused() {
    let expected = |found| {
        format!(
            "file work/handback.toml: data: found {found:?}, expected the path of a directory; ~ has no meaning here"
        )
    };
    for found in ["", "~/handback"] {
        assert_eq!(Place::new().toml(&format!("data = \"{found}\"")).error(), expected(found));
    }
    let place = Place::new().variable("HANDBACK_EPHEMERAL", "perhaps");
    let expected = "environment HANDBACK_EPHEMERAL: ephemeral: invalid type: string \"perhaps\", expected a boolean";
    assert_eq!(place.error(), expected);
}

#[test]
fn a_database_takes_the_place_of_a_directory() {
    const URL: &str = "postgres://user:secret@db.example:5433/handback";
    let place = with_user(Place::new()).variable("HANDBACK_DATABASE", URL);
    assert_eq!(kept(&place), ["", "kept elsewhere", "default"]);
    // Its password is not shown.
    assert_eq!(place.given(), [["database", "[redacted]", "environment HANDBACK_DATABASE"]]);
    assert!(matches!(place.load().config.storage(), Storage::Postgres(url) if url.expose() == URL));
    assert_eq!(place.load().warnings, Vec::<String>::new());
    // An empty one is none.
    let place = place.flag("database", "", "--data");
    assert_eq!(kept(&place), ["share/handback", "kept", "default"]);
}

#[test]
fn of_several_places_one_is_used_and_the_others_are_named() {
    let place = Place::new().toml("data = \"/db\"\ndatabase = \"postgresql://db.example/handback\"");
    assert_eq!(kept(&place), ["/db", "kept elsewhere", "file work/handback.toml"]);
    let file = "file work/handback.toml";
    assert_eq!(place.warnings(), [format!("nothing is kept in data ({file}), for database is set ({file})")]);
    let place = place.variable("HANDBACK_EPHEMERAL", "true");
    assert_eq!(kept(&place), ["/db", "not kept", "file work/handback.toml"]);
    let ephemeral = "for ephemeral is set (environment HANDBACK_EPHEMERAL)";
    let expected = ["data", "database"].map(|key| format!("nothing is kept in {key}, {ephemeral}"));
    assert_eq!(place.warnings(), expected);
}

#[test]
fn what_is_no_url_of_a_database_is_refused_and_not_shown() {
    let place = Place::new().variable("HANDBACK_DATABASE", "mysql://user:secret@db.example/handback");
    let expected = "environment HANDBACK_DATABASE: database: found something else, expected a URL such as \
                    postgres://user:password@host:5432/name";
    assert_eq!(place.error(), expected);
}
