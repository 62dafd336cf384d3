//! What the tests of the rooms share, and what is tested of the whole.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;

use handback_core::clock::Time;

use super::*;

/// A file in a directory of its own, which goes with it.
pub(super) struct Place(pub(super) PathBuf);

impl Place {
    pub(super) fn new() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("handback-store-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let directory = std::env::temp_dir().join(name);
        _ = fs::remove_dir_all(&directory);
        Self(directory.join("handback.db"))
    }

    pub(super) fn database(&self) -> Database {
        open::open(&self.0, &Bounds::default()).unwrap().0
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

/// A session with nothing to it.
pub(super) fn session(id: &str) -> Session {
    Session {
        id: SessionId::parse(id).unwrap(),
        client: None,
        title: String::new(),
        parent: None,
        agent: None,
        model: None,
        metadata: None,
        has_frontend: false,
        approved: Default::default(),
        created: Time(0),
        updated: Time(0),
    }
}

/// Checks that a statement looks at no more rows than it needs, and sorts none.
#[track_caller]
pub(super) fn must_use_indices(database: &Database, sql: &str) {
    let mut statement = database.connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let values = rusqlite::params_from_iter(vec![rusqlite::types::Null; count]);
    let steps: Vec<String> = statement.query_map(values, |row| row.get(3)).unwrap().collect::<Result<_, _>>().unwrap();
    let is_good = |step: &String| {
        step.starts_with("SEARCH") || step.contains("USING INDEX") || step.contains("USING COVERING INDEX")
    };
    let is_neutral = |step: &String| {
        step.starts_with("LIST SUBQUERY") || step.contains("SCALAR SUBQUERY") || step.starts_with("SCAN CONSTANT ROW")
    };
    assert!(steps.iter().all(|step| is_good(step) || is_neutral(step)), "{sql}\n{steps:#?}");
}

#[test]
fn commits_wait_for_the_disk_only_where_that_is_wanted() {
    for (waits_for_disk, full_or_normal) in [(true, 2), (false, 1)] {
        let place = Place::new();
        let (database, _) = open::open(&place.0, &Bounds { waits_for_disk, ..Bounds::default() }).unwrap();
        let set = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        assert_eq!(database.connection.query_row("PRAGMA synchronous", [], set).unwrap(), full_or_normal);
    }
}

#[tokio::test]
async fn when_the_thread_dies_nobody_waits_for_ever() {
    let place = Place::new();
    let store = Sqlite::open(&place.0, Bounds::default()).unwrap();
    let before = store.save_session(&Arc::new(session("ses_1")), IfFull::Fails);
    let dying = store.write(None, 0, Rank::Fails, |_| -> Result<(), Fault> { panic!("as the test wants it") });
    let after = store.save_session(&Arc::new(session("ses_2")), IfFull::Fails);
    let error = |result: Result<(), StoreError>| result.unwrap_err().to_string();
    let expected = format!("the store failed: {}: the store is closed", place.0.canonicalize().unwrap().display());
    assert_eq!(error(dying.await), expected);
    assert_eq!(error(after.await), expected);
    assert_eq!(error(store.save_session(&Arc::new(session("ses_3")), IfFull::Fails).await), expected);
    assert_eq!(error(store.close().await), expected);
    drop(store);
    // What was not acknowledged may be lost; what was, is not.
    let before = before.await.is_ok();
    let store = Sqlite::open(&place.0, Bounds::default()).unwrap();
    let kept = store.session(&SessionId::parse("ses_1").unwrap()).await.unwrap().is_some();
    assert!(kept || !before);
}

/// The steps to this version make copies of what is there.
#[test]
fn a_file_of_an_older_version_is_opened_although_it_has_half_of_the_bytes_that_it_may_have() {
    let place = Place::new();
    fs::create_dir_all(place.0.parent().unwrap()).unwrap();
    let mut connection = Connection::open(&place.0).unwrap();
    schema::migrate(&mut connection, 0, &schema::MIGRATIONS[..4]).unwrap();
    let session = r#"INSERT INTO session (id, updated, bytes, content) VALUES ('s', 1, 0, json_object('t', hex(zeroblob(600000))))"#;
    connection.execute_batch(session).unwrap();
    drop(connection);
    let bounds = Bounds { file_bytes: 2 << 20, ..Bounds::default() };
    let (database, _) = open::open(&place.0, &bounds).unwrap();
    let version: u32 = database.connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version as usize, schema::MIGRATIONS.len());
    // It does not grow beyond what it has by now.
    let grow = "INSERT INTO session (id, updated, bytes, content) VALUES ('t', 1, 0, hex(zeroblob(2000000)))";
    let error = database.connection.execute(grow, []).unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::DiskFull));
}

#[test]
fn a_file_that_somebody_else_reads_is_closed_with_a_word_on_what_is_beside_it() {
    let place = Place::new();
    let mut database = place.database();
    let reader = Connection::open(&place.0).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM session").unwrap();
    database.begin().unwrap();
    sessions::save(&mut database, &session("ses_1")).unwrap();
    database.commit().unwrap();
    database.connection.busy_timeout(std::time::Duration::from_millis(1)).unwrap();
    assert!(matches!(database.close(), Err(Fault::InUse)));
    drop(reader);
    assert!(sessions::find(&place.database().connection, &SessionId::parse("ses_1").unwrap()).unwrap().is_some());
}
