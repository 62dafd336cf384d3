use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use handback_core::id::SessionId;
use rusqlite::Connection;

use super::super::Bounds;
use super::super::operation::{self, Reply};
use super::super::sessions;
use super::super::tests::{Place, session};
use super::*;

fn writer(place: &Place) -> Writer {
    Writer {
        database: place.database(),
        queue: Arc::new(Queue::new(&Bounds::default())),
        bounds: Bounds::default(),
        file: "the file".into(),
        commits: Arc::default(),
        is_stuck: false,
        others: Vec::new(),
    }
}

fn write<T: Send + 'static>(
    work: impl Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
) -> (Operation, Reply<T>) {
    let (write, reply) = operation::write(work);
    (Operation::Write { write, session: None, bytes: 0, rank: Rank::Fails }, reply)
}

fn read<T: Send + 'static>(
    work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
) -> (Operation, Reply<T>) {
    let (read, reply) = operation::read(&"the file".into(), work);
    (Operation::Read(Some(read)), reply)
}

fn save(id: &str) -> (Operation, Reply<()>) {
    let session = session(id);
    write(move |database| sessions::save(database, &session))
}

fn find(id: &str) -> (Operation, Reply<bool>) {
    let id = SessionId::parse(id).unwrap();
    read(move |connection| Ok(sessions::find(connection, &id)?.is_some()))
}

/// Does half of its work, then fails.
fn failing() -> (Operation, Reply<()>) {
    write(|database| {
        sessions::save(database, &session("half"))?;
        Err(Fault::TransactionLost)
    })
}

/// The answer, which must be there.
#[track_caller]
fn now<T>(mut answer: Reply<T>) -> Result<T, String> {
    answer.try_recv().unwrap().map_err(|error| error.to_string().replace("the store failed: ", ""))
}

#[test]
fn an_operation_that_fails_fails_alone() {
    let place = Place::new();
    let mut writer = writer(&place);
    let (one, one_saved) = save("one");
    let (between, found) = find("one");
    let (half, failed) = failing();
    let (two, two_saved) = save("two");
    let (after, half_found) = find("half");
    writer.run_batch(vec![one, between, half, two, after]);
    assert_eq!((now(one_saved), now(two_saved)), (Ok(()), Ok(())));
    assert_eq!(now(failed), Err("the file: SQLite gave up the transaction".to_owned()));
    assert_eq!((now(found), now(half_found)), (Ok(true), Ok(false)));
    // Each was committed for itself.
    assert_eq!(writer.commits.load(Ordering::Relaxed), 2);
    assert!(writer.database.connection.is_autocommit());
}

#[test]
fn a_read_that_fails_spoils_nothing() {
    let place = Place::new();
    let mut writer = writer(&place);
    let (one, one_saved) = save("one");
    let (read, failed) = read(|connection| {
        connection.prepare("SELECT * FROM missing")?;
        Ok(())
    });
    let (two, two_saved) = save("two");
    writer.run_batch(vec![one, read, two]);
    assert_eq!((now(one_saved), now(two_saved)), (Ok(()), Ok(())));
    assert_eq!(now(failed), Err("the file: no such table: missing".to_owned()));
    assert_eq!(writer.commits.load(Ordering::Relaxed), 1);
}

#[test]
fn when_sqlite_gives_up_a_transaction_nothing_is_lost() {
    let place = Place::new();
    let mut writer = writer(&place);
    let (one, one_saved) = save("one");
    // As a full disk may do it.
    let (lost, rolled_back) = read(|connection| Ok(connection.execute_batch("ROLLBACK")?));
    let (two, two_saved) = save("two");
    let (after, found) = find("one");
    writer.run_batch(vec![one, lost, two, after]);
    assert_eq!((now(one_saved), now(rolled_back), now(two_saved)), (Ok(()), Ok(()), Ok(())));
    assert_eq!(now(found), Ok(true));
}

#[test]
fn while_another_program_writes_only_reads_are_done() {
    let place = Place::new();
    let mut writer = writer(&place);
    writer.database.connection.busy_timeout(Duration::ZERO).unwrap();
    let (before, saved) = save("before");
    writer.run_batch(vec![before]);
    assert_eq!(now(saved), Ok(()));

    let other = Connection::open(&place.0).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (one, one_failed) = save("one");
    let (read, found) = find("before");
    let (two, two_failed) = save("two");
    writer.run_batch(vec![one, read, two]);
    let locked = || Err("the file: database is locked".to_owned());
    assert_eq!((now(one_failed), now(found), now(two_failed)), (locked(), Ok(true), locked()));

    other.execute_batch("COMMIT").unwrap();
    let (again, saved) = save("one");
    writer.run_batch(vec![again]);
    assert_eq!(now(saved), Ok(()));
}

#[test]
fn what_nobody_waits_for_is_written_but_not_read() {
    let place = Place::new();
    let mut writer = writer(&place);
    let (write, saved) = save("one");
    let (read, looked) = read(|_| -> Result<(), Fault> { panic!("nobody wants to know") });
    drop((saved, looked));
    writer.run_batch(vec![write, read]);
    let (read, found) = find("one");
    writer.run_batch(vec![read]);
    assert_eq!(now(found), Ok(true));
}

#[test]
fn writes_are_answered_after_the_commit_and_reads_before() {
    let place = Place::new();
    let mut writer = writer(&place);
    let (first, saved) = save("one");
    let (second, found) = find("one");
    let answers = Mutex::new((saved, found));
    // The last of the batch looks at what was answered before it.
    let (last, looked) = write(move |_| {
        let (saved, found) = &mut *answers.lock().unwrap();
        Ok((saved.try_recv().is_ok(), found.try_recv().is_ok()))
    });
    writer.run_batch(vec![first, second, last]);
    assert_eq!(now(looked), Ok((false, true)));
}

/// A session's save with that rank, which fails as long as the disk is full.
fn save_ranked(id: &str, rank: Rank, is_full: &Arc<AtomicBool>) -> (Operation, Reply<()>) {
    let (saved, is_full) = (session(id), is_full.clone());
    let id = Some(saved.id.clone());
    let (write, reply) = operation::write(move |database| {
        if is_full.load(Ordering::Relaxed) {
            let full = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
            return Err(Fault::Sqlite(rusqlite::Error::SqliteFailure(full, None)));
        }
        sessions::save(database, &saved)
    });
    (Operation::Write { write, session: id, bytes: 0, rank }, reply)
}

#[test]
fn what_is_under_way_waits_while_the_disk_is_full_and_is_written_first_when_there_is_room() {
    let place = Place::new();
    let (mut writer, is_full) = (writer(&place), Arc::new(AtomicBool::new(true)));
    let (waiting, mut waits) = save_ranked("one", Rank::Waits, &is_full);
    let (refused, fails) = save_ranked("two", Rank::Fails, &is_full);
    let (later, mut waits_too) = save_ranked("three", Rank::Waits, &Arc::default());
    writer.run_batch(vec![waiting, refused, later]);
    assert!(now(fails).unwrap_err().contains("full"));
    assert!(waits.try_recv().is_err());
    assert!(waits_too.try_recv().is_err(), "what waits is written in its order");

    let (same, behind) = save_ranked("one", Rank::Fails, &Arc::default());
    let (other, fits) = save_ranked("two", Rank::Fails, &Arc::default());
    let (delete, overtakes) = save_ranked("one", Rank::MakesRoom, &Arc::default());
    let mut operations = writer.queue.take(Duration::ZERO).unwrap();
    assert_eq!(operations.len(), 2);
    operations.extend([same, other, delete]);
    writer.run_batch(operations);
    assert!(now(behind).unwrap_err().contains("earlier writes wait for room"));
    now(fits).unwrap();
    now(overtakes).unwrap();

    is_full.store(false, Ordering::Relaxed);
    let operations = writer.queue.take(Duration::from_secs(60)).expect("they are tried again by themselves");
    writer.run_batch(operations);
    now(waits).unwrap();
    now(waits_too).unwrap();
    assert!(!writer.is_stuck);
}

#[test]
fn what_waits_for_room_fails_when_the_store_is_closed() {
    let place = Place::new();
    let (mut writer, is_full) = (writer(&place), Arc::new(AtomicBool::new(true)));
    let (waiting, waits) = save_ranked("one", Rank::Waits, &is_full);
    writer.run_batch(vec![waiting]);
    writer.queue.close();
    let operations = writer.queue.take(Duration::ZERO).unwrap();
    writer.run_batch(operations);
    assert!(now(waits).unwrap_err().contains("full"));
    assert!(writer.queue.take(Duration::ZERO).is_none());
}
