//! Runs of sessions, and what they told, in the file.

use std::sync::Arc;

use handback_core::id::{RunId, SessionId};
use handback_core::thread_run::ThreadRun;
use rusqlite::{OptionalExtension, Params, params};

use super::database::{Database, Fault, integer, json};

/// Does nothing if there is no such session. Never `REPLACE`, which would delete the row first, and the events with it.
const SAVE: &str = "
    INSERT INTO run (session, id, unfinished, content)
    SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM session WHERE id = ?1)
    ON CONFLICT (session, id) DO UPDATE SET unfinished = excluded.unfinished, content = excluded.content";

const FIND: &str = "SELECT id, content FROM run WHERE session = ?1 AND id = ?2";

const LIST: &str = "SELECT id, content FROM run WHERE session = ?1 ORDER BY number";

const UNFINISHED: &str = "SELECT id, content FROM run WHERE unfinished";

const NUMBER: &str = "SELECT number FROM run WHERE session = ?1 AND id = ?2";

const LAST_EVENT: &str = "SELECT max(number) FROM run_event WHERE run = ?1";

const SAVE_EVENT: &str = "INSERT INTO run_event (run, number, event) VALUES (?1, ?2, ?3)";

const EVENTS: &str = "
    SELECT event FROM run_event
    WHERE run = (SELECT number FROM run WHERE session = ?1 AND id = ?2) AND number >= ?3 ORDER BY number";

pub(super) fn save(database: &mut Database, run: &ThreadRun) -> Result<(), Fault> {
    let content = serde_json::to_string(run)?;
    let mut statement = database.connection.prepare_cached(SAVE)?;
    statement.execute(params![run.session.as_str(), run.id.as_str(), run.is_unfinished(), content])?;
    Ok(())
}

pub(super) fn find(database: &mut Database, session: &SessionId, run: &RunId) -> Result<Option<Arc<ThreadRun>>, Fault> {
    Ok(query(database, FIND, [session.as_str(), run.as_str()], Arc::new)?.pop())
}

pub(super) fn list(database: &mut Database, session: &SessionId) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    query(database, LIST, [session.as_str()], |run| Arc::new(run.without_input()))
}

pub(super) fn unfinished(database: &mut Database) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    query(database, UNFINISHED, [], Arc::new)
}

/// Reads runs one by one, and makes of each what is wanted: those of a session are large together.
fn query(
    database: &Database,
    sql: &str,
    values: impl Params,
    wanted: fn(ThreadRun) -> Arc<ThreadRun>,
) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    let mut statement = database.connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(values, |row| {
        let unreadable = |cause| Fault::Row { table: "run", id: row.get(0).unwrap_or_default(), cause };
        json(row, 1).map(wanted).map_err(unreadable)
    })?;
    rows.collect()
}

pub(super) fn append_events(
    database: &mut Database,
    session: &SessionId,
    run: &RunId,
    first: usize,
    events: &[Arc<str>],
) -> Result<(), Fault> {
    let mut statement = database.connection.prepare_cached(NUMBER)?;
    let number: Option<i64> = statement.query_row([session.as_str(), run.as_str()], |row| row.get(0)).optional()?;
    let Some(number) = number else { return Ok(()) };
    let last: Option<i64> = database.connection.prepare_cached(LAST_EVENT)?.query_row([number], |row| row.get(0))?;
    let told = last.map_or(0, |last| last + 1);
    if integer(first) > told {
        return Err(Fault::Gap { run: run.clone(), first, told });
    }
    let mut statement = database.connection.prepare_cached(SAVE_EVENT)?;
    for (place, event) in (integer(first)..).zip(events).filter(|(place, _)| *place >= told) {
        statement.execute(params![number, place, event])?;
    }
    Ok(())
}

pub(super) fn events(
    database: &mut Database,
    session: &SessionId,
    run: &RunId,
    from: usize,
) -> Result<Vec<Arc<str>>, Fault> {
    let mut statement = database.connection.prepare_cached(EVENTS)?;
    let rows = statement.query_map(params![session.as_str(), run.as_str(), integer(from)], |row| row.get(0))?;
    let events: Result<_, _> = rows.collect();
    events.map_err(|cause| Fault::Row { table: "events of the run", id: run.to_string(), cause })
}

#[cfg(test)]
mod tests;
