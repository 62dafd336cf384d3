//! Runs of sessions, and their events, in the file.

use std::sync::Arc;

use handback_core::id::{RunId, SessionId};
use handback_core::store::ThreadRun;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::database::{self, Database, Fault, growth, integer, json};
use super::sessions::of_session;

const SIZE: &str = concat!("SELECT octet_length(content) FROM run WHERE ", of_session!(), " AND id = ?2");

/// Does nothing if the session does not exist.
const SAVE: &str = "
    INSERT INTO run (session, id, unfinished, content) SELECT number, ?2, ?3, ?4 FROM session WHERE id = ?1
    ON CONFLICT (session, id) DO UPDATE SET unfinished = excluded.unfinished, content = excluded.content";

const FIND: &str = concat!("SELECT id, content FROM run WHERE ", of_session!(), " AND id = ?2");

const LIST: &str = concat!("SELECT id, content FROM run WHERE ", of_session!(), " ORDER BY number");

const UNFINISHED: &str = "SELECT id, content FROM run WHERE unfinished";

const NUMBER: &str = concat!("SELECT number FROM run WHERE ", of_session!(), " AND id = ?2");

const LAST_EVENT: &str = "SELECT max(number) FROM run_event WHERE run = ?1";

const SAVE_EVENT: &str = "INSERT INTO run_event (run, number, event) VALUES (?1, ?2, ?3)";

const EVENTS: &str = concat!(
    "SELECT event FROM run_event WHERE run = (SELECT number FROM run WHERE ",
    of_session!(),
    " AND id = ?2) AND number >= ?3 ORDER BY number"
);

pub(super) fn save(database: &mut Database, run: &ThreadRun) -> Result<(), Fault> {
    let content = serde_json::to_string(run)?;
    let (session, id) = (run.session.as_str(), run.id.as_str());
    let mut size = database.connection.prepare_cached(SIZE)?;
    let before = size.query_row([session, id], |row| row.get(0)).optional()?.unwrap_or_default();
    let mut statement = database.connection.prepare_cached(SAVE)?;
    if statement.execute(params![session, id, run.is_unfinished(), content])? > 0 {
        database.counter.add(&run.session, growth(before, content.len()));
    }
    Ok(())
}

pub(super) fn find(connection: &Connection, session: &SessionId, run: &RunId) -> Result<Option<Arc<ThreadRun>>, Fault> {
    Ok(query(connection, FIND, [session.as_str(), run.as_str()], Arc::new)?.pop())
}

pub(super) fn list(connection: &Connection, session: &SessionId) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    query(connection, LIST, [session.as_str()], |run| Arc::new(run.without_input()))
}

pub(super) fn unfinished(connection: &Connection) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    query(connection, UNFINISHED, [], Arc::new)
}

/// Reads runs and converts each at once, because the runs of a session are large together.
fn query(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    wanted: fn(ThreadRun) -> Arc<ThreadRun>,
) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    database::query(connection, sql, values, "run", |row| json(row, 1).map(wanted), |rows| rows.collect())
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
    let stored = last.map_or(0, |last| last + 1);
    if integer(first) > stored {
        return Err(Fault::Gap { run: run.clone(), first, stored });
    }
    let mut statement = database.connection.prepare_cached(SAVE_EVENT)?;
    let mut bytes = 0;
    for (place, event) in (integer(first)..).zip(events).filter(|(place, _)| *place >= stored) {
        statement.execute(params![number, place, event])?;
        bytes += event.len();
    }
    database.counter.add(session, integer(bytes));
    Ok(())
}

pub(super) fn events(
    connection: &Connection,
    session: &SessionId,
    run: &RunId,
    from: usize,
) -> Result<Vec<Arc<str>>, Fault> {
    let mut statement = connection.prepare_cached(EVENTS)?;
    let rows = statement.query_map(params![session.as_str(), run.as_str(), integer(from)], |row| row.get(0))?;
    let events: Result<_, _> = rows.collect();
    events.map_err(|cause| Fault::Row { table: "events of the run", id: run.to_string(), cause })
}

#[cfg(test)]
mod tests;
