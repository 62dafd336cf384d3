use handback_core::clock::Time;
use handback_core::store::{Role, Session};
use rusqlite::config::DbConfig;

use super::super::database::Database;
use super::super::messages::tests::{answer, part};
use super::super::tests::{Place, session};
use super::super::{messages, sessions};
use super::*;

fn of_desk(id: &str) -> Session {
    Session { client: Some(ClientId::parse("desk").unwrap()), ..session(id) }
}

fn commit(database: &mut Database, change: impl FnOnce(&mut Database)) {
    database.begin().unwrap();
    change(database);
    database.commit().unwrap();
}

fn used(database: &Database) -> (u64, u64) {
    let usage = database.counter.totals().of(Some(&ClientId::parse("desk").unwrap()));
    (usage.client_sessions, usage.client_bytes)
}

fn in_rows(database: &Database) -> u64 {
    let sum = database.connection.query_row("SELECT sum(bytes) FROM session", [], |row| row.get::<_, i64>(0));
    sum.unwrap().cast_unsigned()
}

/// A session of a client, and a message that is being written in it; gives what they take.
fn write(database: &mut Database) -> (u64, u64) {
    commit(database, |database| sessions::save(database, &of_desk("ses_1")).unwrap());
    commit(database, |database| messages::save(database, &answer("msg_1", &[&part("a")])).unwrap());
    used(database)
}

/// Leaves the file as a process does that is killed.
fn crash(database: Database) {
    database.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).unwrap();
}

/// The file, opened again, after the writer had time.
fn recounted(place: &Place) -> Database {
    let mut database = place.database();
    assert!(database.counter.is_unsure());
    while database.counter.is_unsure() {
        database.recount().unwrap();
    }
    database
}

#[test]
fn a_row_is_written_with_its_session_or_when_there_is_time() {
    let place = Place::new();
    let mut database = place.database();
    let (_, bytes) = write(&mut database);
    assert!(in_rows(&database) < bytes);
    commit(&mut database, |database| {
        sessions::save(database, &of_desk("ses_1")).unwrap();
        // Twice in one transaction, and a message between: nothing counts twice.
        messages::save(database, &answer("msg_2", &[&part("b")])).unwrap();
        sessions::save(database, &of_desk("ses_1")).unwrap();
    });
    let (_, more) = used(&database);
    assert!(more > bytes && in_rows(&database) == more);
    commit(&mut database, |database| messages::save(database, &answer("msg_3", &[&part("c")])).unwrap());
    assert!(in_rows(&database) < used(&database).1);
    database.write_usage().unwrap();
    assert_eq!(in_rows(&database), used(&database).1);
}

#[test]
fn what_is_rolled_back_does_not_count_and_is_still_to_be_written() {
    let place = Place::new();
    let mut database = place.database();
    let before = write(&mut database);
    database.begin().unwrap();
    messages::save(&mut database, &answer("msg_2", &[&part("b")])).unwrap();
    sessions::save(&mut database, &of_desk("ses_1")).unwrap();
    sessions::delete(&mut database, &SessionId::parse("ses_1").unwrap()).unwrap();
    database.roll_back();
    assert_eq!(used(&database), before);
    database.write_usage().unwrap();
    assert_eq!(in_rows(&database), before.1);
}

#[test]
fn what_a_session_takes_goes_with_it_and_to_whoever_gets_it() {
    let place = Place::new();
    let mut database = place.database();
    let before = write(&mut database);
    // It changes hands, and back.
    commit(&mut database, |database| sessions::save(database, &session("ses_1")).unwrap());
    assert_eq!(used(&database), (0, 0));
    commit(&mut database, |database| messages::save(database, &answer("msg_1", &[&part("a"), &part("b")])).unwrap());
    commit(&mut database, |database| messages::save(database, &answer("msg_1", &[&part("a")])).unwrap());
    commit(&mut database, |database| sessions::save(database, &of_desk("ses_1")).unwrap());
    assert_eq!(used(&database), before);
    commit(&mut database, |database| messages::save(database, &answer("msg_2", &[])).unwrap());
    commit(&mut database, |database| _ = sessions::delete(database, &SessionId::parse("ses_1").unwrap()).unwrap());
    assert_eq!(used(&database), (0, 0));
    assert_eq!(database.counter.totals().of(None).bytes, 0);
}

#[test]
fn after_a_crash_a_session_in_the_middle_of_a_turn_is_counted_anew() {
    let place = Place::new();
    let mut database = place.database();
    let before = write(&mut database);
    assert!(in_rows(&database) < before.1);
    crash(database);
    let database = recounted(&place);
    assert_eq!((used(&database), in_rows(&database)), (before, before.1));
}

/// Nothing in it is unanswered, and nothing saves its session after it.
#[test]
fn after_a_crash_what_was_said_last_is_counted_anew() {
    let place = Place::new();
    let mut database = place.database();
    write(&mut database);
    database.write_usage().unwrap();
    let mut complete = answer("msg_1", &[&part("a"), &part("later")]);
    let Role::Assistant(said) = &mut complete.role else { panic!("{complete:?}") };
    said.completed = Some(Time(1));
    commit(&mut database, |database| messages::save(database, &complete).unwrap());
    let before = used(&database);
    assert!(in_rows(&database) < before.1);
    crash(database);
    let database = recounted(&place);
    assert_eq!((used(&database), in_rows(&database)), (before, before.1));
}

#[test]
fn what_is_written_before_a_session_is_counted_anew_counts_once() {
    let place = Place::new();
    let mut database = place.database();
    write(&mut database);
    crash(database);
    let mut database = place.database();
    commit(&mut database, |database| messages::save(database, &answer("msg_2", &[&part("b")])).unwrap());
    while database.counter.is_unsure() {
        database.recount().unwrap();
    }
    let (used, in_rows) = (used(&database), in_rows(&database));
    assert_eq!(used.1, in_rows);
    database.close().unwrap();
    let counted = place.database();
    assert_eq!(self::used(&counted), used);
}

#[test]
fn a_sum_that_is_too_low_never_says_that_all_is_used_up() {
    let totals = Totals::default();
    let desk = ClientId::parse("desk").unwrap();
    totals.lock().add(Change { client: Some(desk.clone()), sessions: 1, bytes: 1 });
    totals.lock().add(Change { client: Some(desk.clone()), sessions: 0, bytes: -2 });
    assert_eq!(totals.of(Some(&desk)), StorageUsed { client_sessions: 1, client_bytes: 0, bytes: 0 });
}
