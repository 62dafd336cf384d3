//! The file itself: who may read it, who else has it open, and which files are refused.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use handback_core::store::{CallStore, IfFull, SessionStore};
use handback_server::store::{Bounds, OpenError, Sqlite};
use handback_testkit::Scratch;
use handback_testkit::store_contract::samples::{begun, head, session, session_id};
use rusqlite::Connection;

use super::sqlite;

fn open(path: &Path) -> Result<Sqlite, OpenError> {
    Sqlite::open(path, Bounds::default())
}

/// Why a file is refused.
fn refusal(path: &Path) -> String {
    open(path).expect_err("the file must be refused").to_string()
}

/// Whether there is nothing of the file but itself, and its lock.
fn is_alone(path: &Path) -> bool {
    ["wal", "shm", "journal"].iter().all(|end| !Path::exists(format!("{}-{end}", path.display()).as_ref()))
}

#[cfg(unix)]
#[tokio::test]
async fn the_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    let mode = |name: &str| fs::metadata(scratch.join(name)).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let store = open(&scratch.join("state/deeper/handback.db")).unwrap();
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    for name in ["state", "state/deeper"] {
        assert_eq!(mode(name), 0o700, "{name}");
    }
    for name in ["handback.db", "handback.db-wal", "handback.db-shm", "handback.db-lock"] {
        assert_eq!(mode(&format!("state/deeper/{name}")), 0o600, "{name}");
    }
    // What was there is left as it was.
    assert_eq!(mode("."), 0o755);
    drop(store);
    fs::set_permissions(scratch.join("state/deeper/handback.db"), fs::Permissions::from_mode(0o640)).unwrap();
    drop(open(&scratch.join("state/deeper/handback.db")).unwrap());
    assert_eq!(mode("state/deeper/handback.db"), 0o640);
}

#[tokio::test]
async fn a_file_has_one_store_at_a_time() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    let store = sqlite(&scratch);
    let expected =
        format!("{} is in use by another server; each needs a file of its own", path.canonicalize().unwrap().display());
    assert_eq!(refusal(&path), expected);
    // However the file is called.
    fs::create_dir(scratch.join("sub")).unwrap();
    assert_eq!(refusal(&scratch.join("sub/../handback.db")), expected);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&path, scratch.join("link.db")).unwrap();
        assert_eq!(refusal(&scratch.join("link.db")), expected);
    }
    // Those who were refused did not disturb the one who has it.
    store.begin(&begun(&Arc::new(head("r1", "desk", ""))), IfFull::Fails).await.unwrap();
    drop(store);
    drop(open(&path).unwrap());
}

#[tokio::test]
async fn others_can_read_the_file_while_it_is_open() {
    let scratch = Scratch::new();
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    let other = Connection::open(scratch.join("handback.db")).unwrap();
    let id: String = other.query_row("SELECT id FROM session", [], |row| row.get(0)).unwrap();
    assert_eq!(id, "ses_1");
    store.save_session(&Arc::new(session("ses_2")), IfFull::Fails).await.unwrap();
}

#[test]
fn a_newer_file_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let path = scratch.join("handback.db");
    drop(sqlite(&scratch));
    Connection::open(&path).unwrap().execute_batch("PRAGMA user_version = 99").unwrap();
    let before = fs::read(&path).unwrap();
    let expected = format!(
        "{} has version 99, which is newer than version 6 that this server knows",
        path.canonicalize().unwrap().display()
    );
    assert_eq!(refusal(&path), expected);
    assert!(fs::read(&path).unwrap() == before && is_alone(&path));
}

#[test]
fn what_is_no_database_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    let long = "This is a letter, and not a database.\n".repeat(1_000);
    for (name, content) in [("short", "xy"), ("line", "This is a letter.\n"), ("long", &long)] {
        let path = scratch.join(name);
        fs::write(&path, content).unwrap();
        assert_eq!(refusal(&path), format!("{} is not a database", path.canonicalize().unwrap().display()));
        assert!(fs::read(&path).unwrap() == content.as_bytes() && is_alone(&path), "{name}");
    }
}

#[test]
fn another_program_s_database_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    for (name, script) in [
        ("tables", "CREATE TABLE session (id TEXT)"),
        ("version", "PRAGMA user_version = 1"),
        ("application", "PRAGMA application_id = 7"),
        ("all", "PRAGMA application_id = 7; PRAGMA user_version = 1; CREATE TABLE t (a)"),
    ] {
        let path = scratch.join(name);
        Connection::open(&path).unwrap().execute_batch(script).unwrap();
        let before = fs::read(&path).unwrap();
        let expected = format!("{} is a database of another program", path.canonicalize().unwrap().display());
        assert_eq!(refusal(&path), expected);
        assert!(fs::read(&path).unwrap() == before && is_alone(&path), "{name}");
    }
}

#[test]
fn what_cannot_be_opened_is_named() {
    let scratch = Scratch::new();
    fs::write(scratch.join("file"), "").unwrap();
    for path in [scratch.join("file/handback.db"), scratch.join("file/deeper/handback.db")] {
        let refusal = refusal(&path);
        assert!(refusal.starts_with(&format!("{} cannot be opened: ", path.display())), "{refusal}");
    }
    let directory = scratch.join("directory");
    fs::create_dir(&directory).unwrap();
    let refusal = refusal(&directory);
    let expected = format!("{} cannot be used: ", directory.canonicalize().unwrap().display());
    assert!(refusal.starts_with(&expected), "{refusal}");
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let scratch = Scratch::new();
    fs::write(scratch.join("handback.db"), "").unwrap();
    let store = sqlite(&scratch);
    store.save_session(&Arc::new(session("ses_1")), IfFull::Fails).await.unwrap();
    assert!(store.session(&session_id("ses_1")).await.unwrap().is_some());
}
