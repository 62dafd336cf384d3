//! A server that keeps everything in PostgreSQL, and the commands that are about its database.

use std::process::Command;

use handback_testkit::TestDatabase;
use rustix::process::Signal;
use serde_json::Value;

use crate::processes::{Process, start};
use crate::{Ran, command, handback, run};

/// A URL that can be parsed, and at which there is nothing.
const NOWHERE: &str = "postgres://keeper:hunter2@127.0.0.1:1/chat";

/// A command whose settings name a database.
fn with(database: &str, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("HANDBACK_DATABASE", database);
    command
}

fn serve(database: &TestDatabase) -> (Process, String) {
    start(with(&database.url(), &["serve", "--listen", "127.0.0.1:0", "--log", "off"]))
}

fn say(url: &str, text: &str) {
    let said = handback(&["chat", "--url", url, text]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

/// The sessions of a server, without the ages of what is in them.
fn sessions(url: &str) -> Vec<String> {
    let listed: Value = serde_json::from_str(&handback(&["sessions", "--json", "--url", url]).stdout).unwrap();
    let sessions = listed.as_array().unwrap().iter();
    sessions.map(|session| session["id"].as_str().unwrap().to_owned()).collect()
}

fn shown(url: &str, session: &str) -> String {
    handback(&["sessions", "show", session, "--url", url]).stdout
}

#[test]
fn sessions_outlive_a_server_that_is_stopped_and_one_that_is_killed() {
    let database = TestDatabase::create();
    let (mut server, url) = serve(&database);
    say(&url, "what did I say?");
    let kept = sessions(&url);
    assert_eq!(kept.len(), 1);
    let conversation = shown(&url, &kept[0]);
    assert!(conversation.contains("what did I say?"), "{conversation}");
    for how in [Signal::TERM, Signal::KILL] {
        server.signal(how);
        server.end();
        // At once, as a supervisor does it.
        let (again, url) = serve(&database);
        assert_eq!(sessions(&url), kept);
        assert_eq!(shown(&url, &kept[0]), conversation);
        server = again;
    }
}

#[test]
fn a_second_server_is_refused_a_database_that_is_taken() {
    let database = TestDatabase::create();
    let (_first, url) = serve(&database);
    let second = handback(&["serve", "--listen", "127.0.0.1:0", "--log", "off", "--database", &database.url()]);
    let name = database.url().replace("postgres@", "");
    let refused = format!("error: {name} is in use by another server; each needs a database of its own\n");
    assert_eq!(second, Ran { code: Some(1), stdout: String::new(), stderr: refused });
    say(&url, "and the first goes on");
}

#[test]
fn a_database_that_is_not_there_is_named_without_its_password() {
    let refused = run(with(NOWHERE, &["serve", "--listen", "127.0.0.1:0", "--log", "off"]));
    let start = "error: postgres://127.0.0.1:1/chat cannot be opened: ";
    assert!(refused.code == Some(1) && refused.stderr.starts_with(start), "{refused:?}");
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
}

#[test]
fn of_the_places_to_keep_everything_only_one_can_be_given() {
    let places = [&["--data", "somewhere"][..], &["--database", NOWHERE], &["--ephemeral"]];
    for (first, one) in places.iter().enumerate() {
        for other in &places[first + 1..] {
            let refused = handback(&[&["serve", "--listen", "127.0.0.1:0"], *one, *other].concat());
            assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
            assert!(refused.stderr.contains("cannot be used with"), "{refused:?}");
        }
    }
    // What is given counts more than a setting of another.
    for place in [&["--data", "somewhere"][..], &["--ephemeral"]] {
        let shown = run(with(NOWHERE, &[&["doctor", "--json", "--url", "http://127.0.0.1:1"], place].concat()));
        assert!(!shown.stdout.contains("127.0.0.1:1/chat"), "{shown:?}");
    }
}

#[test]
fn the_url_of_a_database_is_not_shown() {
    let shown = run(with(NOWHERE, &["config"]));
    assert_eq!((shown.code, shown.stderr.as_str()), (Some(0), ""), "{shown:?}");
    let row = shown.stdout.lines().find(|line| line.starts_with("database ")).unwrap();
    assert!(row.contains("HANDBACK_DATABASE"), "{row}");
    let json = run(with(NOWHERE, &["config", "--json"]));
    for text in [&shown.stdout, &json.stdout] {
        assert!(!text.contains("hunter2") && !text.contains("keeper"), "{text}");
    }
}

#[test]
fn backups_and_checks_are_left_to_postgresql() {
    for (arguments, tools) in [
        (&["backup", "copy.db"][..], ["pg_dump --format=custom --file=copy.db URL", "pg_restore"]),
        (&["check"], ["pg_amcheck --schema=handback URL", "PostgreSQL"]),
    ] {
        let refused = run(with(NOWHERE, arguments));
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
        assert!(refused.stderr.contains("postgres://127.0.0.1:1/chat"), "{refused:?}");
        assert!(tools.iter().all(|tool| refused.stderr.contains(tool)), "{refused:?}");
        assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
    }
}

/// The doctor's word on the database: its health and what it says.
fn doctor(database: &str) -> (String, String) {
    let ran = run(with(database, &["doctor", "--json", "--url", "http://127.0.0.1:1"]));
    let report: Value = serde_json::from_str(&ran.stdout).unwrap();
    let check = report["checks"].as_array().unwrap().iter().find(|check| check["check"] == "database").unwrap();
    assert!(!ran.stdout.contains("hunter2"), "{}", ran.stdout);
    (check["health"].as_str().unwrap().to_owned(), check.to_string())
}

#[test]
fn the_doctor_says_whether_the_database_is_there() {
    let database = TestDatabase::create();
    let (health, said) = doctor(&database.url());
    assert!(health == "ok" && said.contains("is empty; the server makes its tables"), "{said}");
    let (_server, _) = serve(&database);
    let (health, said) = doctor(&database.url());
    assert!(health == "ok" && said.contains("is there (PostgreSQL ") && said.contains("has the tables"), "{said}");
    let nothing = database.url().replace(database.name(), "nothing");
    for (url, complaint) in [
        (NOWHERE, "postgres://127.0.0.1:1/chat cannot be opened: "),
        (&nothing, "database \\\"nothing\\\" does not exist"),
        ("postgres://", "it names no host"),
    ] {
        let (health, said) = doctor(url);
        assert!(health == "problem" && said.contains(complaint), "{said}");
    }
}
