use std::time::UNIX_EPOCH;

use handback_core::id::{CallId, ClientId, MessageId, ToolName};
use handback_core::store::{Effect, Executor, Origin, Phases, Tool};

use super::super::tests::{Place, must_use_indices};
use super::*;

#[test]
fn every_statement_has_its_index() {
    let place = Place::new();
    let database = place.database();
    for sql in [
        BEGIN,
        FINISH,
        KEEP_LATE,
        FINISHED,
        LIST,
        LIST_OF_CLIENT,
        LIST_OF_SESSION,
        LIST_OF_BOTH,
        OLDEST,
        DELETE_UP_TO,
        FORGET_OF_SESSION,
        DELETE_OF_SESSION,
        LAST,
        OPEN,
        FORGET_UP_TO,
        FREE_IDS,
    ] {
        must_use_indices(&database, sql);
    }
}

#[test]
fn the_oldest_are_deleted_when_there_are_more_or_after_a_while() {
    let bounds = Bounds { calls: 320, call_bytes: 32_000, ..Bounds::default() };
    let now = Instant::now();
    let ended = |number, bytes| EndedCalls { number, bytes, has_forgotten: false };
    let is_due = |at, before, after, bounds| Pruning { last: Some((at, before)) }.is_due(after, bounds);
    assert!(Pruning::default().is_due(ended(0, 0), &bounds));
    assert!(!is_due(now, ended(91, 8_001), ended(100, 9_000), &bounds));
    assert!(is_due(now, ended(90, 8_001), ended(100, 9_000), &bounds));
    assert!(is_due(now, ended(91, 8_000), ended(100, 9_000), &bounds));
    assert!(is_due(now - PRUNE_INTERVAL, ended(100, 9_000), ended(100, 9_000), &bounds));
    let least = Bounds { calls: 0, call_bytes: 0, ..Bounds::default() };
    assert!(!is_due(now, ended(1, 1), ended(1, 1), &least));
}

/// A call that failed.
fn call(request: &str) -> FinishedCall {
    let (client, tool) = (ClientId::parse("desk").unwrap(), ToolName::parse("open_file").unwrap());
    let head = CallHead {
        request: RequestId::parse(request).unwrap(),
        session: SessionId::parse("").unwrap(),
        message: MessageId::parse("").unwrap(),
        call: CallId::parse("").unwrap(),
        tool: Arc::new(Tool::remembered(client, Executor::Client, tool, Effect::Write)),
        origin: Origin::Application,
        connection: None,
        input: RawValue::from_string("{}".to_owned()).unwrap(),
        timeout: Duration::ZERO,
        created: UNIX_EPOCH,
        deadline: UNIX_EPOCH,
        expires: Instant::now(),
    };
    FinishedCall {
        head: Arc::new(head),
        attempt: 1,
        may_have_run: true,
        ask: None,
        phases: Phases::default(),
        outcome: Outcome::Error("failed".to_owned()),
        claimant: None,
        late: None,
    }
}

/// Ends so many more calls, in one transaction.
fn end_calls(database: &mut Database, count: usize) {
    let first = database.ended.number;
    database.begin().unwrap();
    for number in first..first + integer(count) {
        finish(database, &call(&format!("req_{number}"))).unwrap();
    }
    database.commit().unwrap();
}

fn count(database: &Database, table: &str) -> i64 {
    database.connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
}

#[test]
fn ends_that_are_not_committed_do_not_count() {
    let place = Place::new();
    let mut database = place.database();
    end_calls(&mut database, 3);
    let before = database.ended;
    for _ in 0..5 {
        database.begin().unwrap();
        finish(&mut database, &call("req_3")).unwrap();
        keep_late(&mut database, &RequestId::parse("req_0").unwrap(), &Outcome::Error("late".into())).unwrap();
        database.roll_back();
    }
    assert_eq!((database.ended.number, database.ended.bytes), (before.number, before.bytes));
    // Nor does a rollback of nothing.
    database.roll_back();
    end_calls(&mut database, 1);
    assert_eq!((database.ended.number, count(&database, "call")), (4, 4));
}

#[test]
fn what_is_too_old_is_deleted_some_at_a_time() {
    let place = Place::new();
    let mut database = place.database();
    let bounds = Bounds { calls: 10, ..Bounds::default() };
    let all = 2 * PRUNED_AT_ONCE + 500;
    end_calls(&mut database, usize::try_from(all).unwrap());
    for left in [all - PRUNED_AT_ONCE, all - 2 * PRUNED_AT_ONCE, 10] {
        assert!(database.pruning.is_due(database.ended, &bounds));
        database.prune(&bounds).unwrap();
        assert_eq!((count(&database, "call"), count(&database, "forgotten_call")), (left, all - left));
    }
    assert!(!database.pruning.is_due(database.ended, &bounds));
    database.connection.execute("UPDATE forgotten_call SET since = 0", []).unwrap();
    for left in [1_490, 490, 0] {
        database.pruning = Pruning::default();
        database.prune(&bounds).unwrap();
        assert_eq!(count(&database, "forgotten_call"), left);
    }
    // Large ones, by their bytes.
    let bounds = Bounds { call_bytes: 1, ..Bounds::default() };
    let large = Outcome::Error("x".repeat(3 << 20));
    let calls = ["a", "b", "c", "d", "e"].map(|request| FinishedCall { outcome: large.clone(), ..call(request) });
    database.begin().unwrap();
    calls.iter().for_each(|call| _ = finish(&mut database, call).unwrap());
    database.commit().unwrap();
    database.prune(&bounds).unwrap();
    assert_eq!(count(&database, "call"), 2);
    assert!(database.pruning.is_due(database.ended, &bounds));
}

/// As on a full disk, which shows when a transaction is committed.
#[test]
fn a_deletion_that_cannot_be_committed_is_not_tried_over_and_over() {
    let place = Place::new();
    let mut database = place.database();
    let bounds = Bounds { calls: 10, ..Bounds::default() };
    end_calls(&mut database, usize::try_from(2 * PRUNED_AT_ONCE).unwrap());
    let refuses = "CREATE TEMP TABLE one (id INTEGER PRIMARY KEY);
        CREATE TEMP TABLE other (id INTEGER REFERENCES one (id) DEFERRABLE INITIALLY DEFERRED);
        CREATE TEMP TRIGGER refuses AFTER DELETE ON main.call BEGIN INSERT INTO other VALUES (1); END";
    database.connection.execute_batch(refuses).unwrap();
    assert!(database.prune(&bounds).is_err());
    assert_eq!(count(&database, "call"), 2 * PRUNED_AT_ONCE);
    assert!(!database.pruning.is_due(database.ended, &bounds));
}

#[test]
fn a_file_that_is_lost_is_not_pruned_over_and_over() {
    let place = Place::new();
    let mut database = place.database();
    std::fs::remove_file(&place.0).unwrap();
    assert!(database.guard.check().is_err());
    database.prune(&Bounds::default()).unwrap();
    assert!(!database.pruning.is_due(database.ended, &Bounds::default()));
}
