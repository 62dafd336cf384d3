//! The PostgreSQL servers that tests use.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use handback_testkit::postgres::{OwnPostgres, TestDatabase, query};
use handback_testkit::server::until;
use tokio_postgres::NoTls;

/// What is in a table of notes, or that it is not there.
fn notes(url: &str, table: &str) -> Result<Vec<String>, String> {
    query(url, &format!("SELECT text FROM {table} ORDER BY text"))
        .map_err(|error| error.as_db_error().map_or("not there", |error| error.message()).to_owned())
}

fn is_there(url: &str) -> bool {
    query(url, "SELECT 1").is_ok()
}

#[test]
fn two_databases_do_not_see_each_others_tables() {
    let [one, other] = [TestDatabase::create(), TestDatabase::create()];
    query(&one.url(), "CREATE TABLE note (text TEXT); INSERT INTO note VALUES ('mine')").unwrap();

    assert_eq!(notes(&one.url(), "note"), Ok(vec!["mine".to_owned()]));
    assert_eq!(notes(&other.url(), "note"), Err("relation \"note\" does not exist".to_owned()));
}

#[tokio::test]
async fn a_dropped_database_is_gone_even_while_somebody_is_connected() {
    let [dropped, kept] = [TestDatabase::create(), TestDatabase::create()];
    let count = format!("SELECT count(*) FROM pg_database WHERE datname = '{}'", dropped.name());
    assert_eq!(query(&kept.url(), &count).unwrap(), ["1"]);

    let connected = tokio_postgres::connect(&dropped.url(), NoTls).await.unwrap();
    drop(dropped);
    assert_eq!(query(&kept.url(), &count).unwrap(), ["0"]);
    drop(connected);
}

#[test]
fn an_own_server_keeps_what_was_committed_when_it_is_stopped_and_when_it_is_killed() {
    let mut server = OwnPostgres::start();
    let url = server.url().to_owned();
    assert_eq!(query(&url, "SHOW fsync").unwrap(), ["on"]);
    // The rows of an unlogged table survive a stop, and not a crash.
    query(&url, "CREATE TABLE kept (text TEXT); CREATE UNLOGGED TABLE fleeting (text TEXT)").unwrap();
    query(&url, "INSERT INTO kept VALUES ('a'); INSERT INTO fleeting VALUES ('a')").unwrap();

    server.stop();
    assert!(!is_there(&url), "it runs on");
    server.start_again();
    assert_eq!(server.url(), url);
    assert_eq!(notes(&url, "kept"), Ok(vec!["a".to_owned()]));
    assert_eq!(notes(&url, "fleeting"), Ok(vec!["a".to_owned()]));

    query(&url, "INSERT INTO kept VALUES ('b')").unwrap();
    server.kill();
    assert!(!is_there(&url), "it runs on");
    server.start_again();
    assert_eq!(notes(&url, "kept"), Ok(vec!["a".to_owned(), "b".to_owned()]));
    assert_eq!(notes(&url, "fleeting"), Ok(vec![]));
}

#[test]
fn nothing_of_an_own_server_is_left_when_it_is_dropped() {
    let server = OwnPostgres::start();
    let (url, directory) = (server.url().to_owned(), server.directory().to_owned());
    assert!(is_there(&url) && directory.exists());
    drop(server);
    assert!(!is_there(&url), "it runs on");
    assert!(!directory.exists());
}

#[tokio::test]
async fn nothing_of_an_own_server_is_left_when_its_process_is_killed() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("postgres.sh");
    let mut shell = Command::new("sh");
    shell.arg("-c").arg("\"$0\" create; read -r forever").arg(script);
    let mut owner = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines().map(Result::unwrap);
    let [directory, url] = [lines.next().unwrap(), lines.next().unwrap()];
    assert!(is_there(&url) && Path::new(&directory).exists());

    // It is not waited for yet: one that has ended, and whose parent has not noticed, has gone, too.
    owner.kill().unwrap();
    until("the directory is gone", async || !Path::new(&directory).exists()).await;
    assert!(!is_there(&url), "it runs on");
    owner.wait().unwrap();
}
