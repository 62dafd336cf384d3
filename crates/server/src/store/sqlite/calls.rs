//! The journal of calls in the file.

use std::sync::Arc;

use handback_core::id::{ClientId, RequestId, SessionId};
use handback_core::store::{
    CallFilter, CallHead, CallPage, Cancellation, FinishedCall, Most, Outcome, Page, Phases, Tool, weight,
};
use rusqlite::{Connection, Error, OptionalExtension, Params, Row, params};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Bounds;
use super::database::{self, Database, Fault, integer, json, name};
use super::forms::{Ending, EndingRef, HeadForm};

/// An id may be used again once the call table has forgotten it: then the new call replaces the old one. The beginning of
/// a call that has ended already comes too late and changes nothing.
const BEGIN: &str = "
    INSERT INTO call (request, size, session, client, head, input) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (request) DO UPDATE SET ended = NULL, size = excluded.size, session = excluded.session,
        client = excluded.client, head = excluded.head, input = excluded.input, ending = NULL
    WHERE ended IS NULL OR client <> excluded.client OR session <> excluded.session
        OR head -> '$.created' <> excluded.head -> '$.created'";

const FINISH: &str = "
    UPDATE call SET ended = ?2, size = size + ?3, ending = ?4 WHERE request = ?1 AND ended IS NULL";

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT request, session, client, head, input, ending, ended FROM call WHERE ended IS NOT NULL",
            $condition
        )
    };
}

const FINISHED: &str = select!(" AND request = ?1");
// Calls that ended before a number, the newest first. Each list has an index.
const LIST: &str = select!(" AND ended < ?2 ORDER BY ended DESC LIMIT ?1");
const LIST_OF_CLIENT: &str = select!(" AND ended < ?2 AND client = ?3 ORDER BY ended DESC LIMIT ?1");
const LIST_OF_SESSION: &str = select!(" AND ended < ?2 AND session = ?3 ORDER BY ended DESC LIMIT ?1");
const LIST_OF_BOTH: &str = select!(" AND ended < ?2 AND client = ?3 AND session = ?4 ORDER BY ended DESC LIMIT ?1");

const TOTAL: &str = "SELECT count(*), coalesce(sum(size), 0) FROM call WHERE ended IS NOT NULL";

const OLDEST: &str = "SELECT ended, size FROM call WHERE ended IS NOT NULL ORDER BY ended";

const DELETE_UP_TO: &str = "DELETE FROM call WHERE ended <= ?1";

const DELETE_OF_SESSION: &str = "DELETE FROM call WHERE session = ?1 AND ended IS NOT NULL";

const LAST_ENDED: &str = "SELECT max(ended) FROM call WHERE ended IS NOT NULL";

/// The calls that an earlier process left unfinished. This runs once, at the start, so it has no index, which would slow
/// down every call.
const LEFT_OVER: &str = "SELECT request FROM call WHERE ended IS NULL ORDER BY rowid";

pub(super) fn begin(database: &mut Database, call: &CallHead) -> Result<(), Fault> {
    let head = serde_json::to_string(&HeadForm {
        message: call.message.clone(),
        call: call.call.clone(),
        tool: call.tool.spec.name.clone(),
        executor: call.tool.executor,
        effect: call.tool.spec.effect,
        timeout: call.timeout,
        created: call.created,
        deadline: call.deadline,
    })?;
    let (request, session, client) = (call.request.as_str(), call.session.as_str(), call.client().as_str());
    let input = call.input.get();
    let size = integer(request.len() + session.len() + client.len() + head.len() + input.len());
    let mut statement = database.connection.prepare_cached(BEGIN)?;
    statement.execute(params![request, size, session, client, head, input])?;
    Ok(())
}

pub(super) fn finish(database: &mut Database, call: &FinishedCall) -> Result<(), Fault> {
    let ending = EndingRef { attempt: call.attempt, phases: call.phases, outcome: &call.outcome };
    if !end(database, &call.head.request, &ending)? {
        // Its beginning could not be written, or it has ended already.
        begin(database, &call.head)?;
        end(database, &call.head.request, &ending)?;
    }
    Ok(())
}

/// Ends an unfinished call. Returns whether there is one.
fn end(database: &mut Database, request: &RequestId, ending: &EndingRef<'_>) -> Result<bool, Fault> {
    database.last_ended += 1;
    let ending = serde_json::to_string(ending)?;
    let mut statement = database.connection.prepare_cached(FINISH)?;
    Ok(statement.execute(params![request.as_str(), database.last_ended, integer(ending.len()), ending])? > 0)
}

pub(super) fn finished(connection: &Connection, request: &RequestId) -> Result<Option<Arc<FinishedCall>>, Fault> {
    Ok(query(connection, FINISHED, [request.as_str()], Most::items(1))?.items.pop().map(|(_, call)| call))
}

pub(super) fn list(
    connection: &Connection,
    filter: &CallFilter,
    before: Option<u64>,
    most: Most,
) -> Result<CallPage, Fault> {
    let rows = integer(most.items.saturating_add(1));
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    match (&filter.client, &filter.session) {
        (None, None) => query(connection, LIST, params![rows, before], most),
        (Some(client), None) => query(connection, LIST_OF_CLIENT, params![rows, before, client.as_str()], most),
        (None, Some(session)) => query(connection, LIST_OF_SESSION, params![rows, before, session.as_str()], most),
        (Some(client), Some(session)) => {
            query(connection, LIST_OF_BOTH, params![rows, before, client.as_str(), session.as_str()], most)
        }
    }
}

fn query(connection: &Connection, sql: &str, values: impl Params, most: Most) -> Result<CallPage, Fault> {
    let read = |row: &Row<'_>| {
        let call = read(row)?;
        Ok((weight::of_call(&call), (row.get::<_, i64>(6)?.cast_unsigned(), Arc::new(call))))
    };
    database::query(connection, sql, values, "call", read, |rows| Page::fill(rows, most))
}

pub(super) fn delete_of_session(database: &mut Database, session: &SessionId) -> Result<(), Fault> {
    database.connection.prepare_cached(DELETE_OF_SESSION)?.execute([session.as_str()])?;
    Ok(())
}

/// Deletes the oldest finished calls while they exceed the bounds.
pub(super) fn prune(database: &mut Database, bounds: &Bounds) -> Result<(), Fault> {
    let mut total = database.connection.prepare_cached(TOTAL)?;
    let (mut calls, mut bytes): (i64, i64) = total.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (most_calls, most_bytes) = (integer(bounds.calls), i64::try_from(bounds.call_bytes).unwrap_or(i64::MAX));
    let mut forgotten = None;
    let mut oldest = database.connection.prepare_cached(OLDEST)?;
    let mut rows = oldest.query([])?;
    while (calls > most_calls || bytes > most_bytes)
        && let Some(row) = rows.next()?
    {
        (calls, bytes, forgotten) = (calls - 1, bytes - row.get::<_, i64>(1)?, Some(row.get::<_, i64>(0)?));
    }
    drop(rows);
    if let Some(ended) = forgotten {
        database.connection.prepare_cached(DELETE_UP_TO)?.execute([ended])?;
    }
    Ok(())
}

/// The greatest `ended` of all calls.
pub(super) fn last_ended(connection: &Connection) -> Result<i64, Fault> {
    let last = connection.query_row(LAST_ENDED, [], |row| row.get(0));
    Ok(last.optional()?.flatten().unwrap_or_default())
}

/// Ends the calls that an earlier process left unfinished, because nobody waits for them any more.
pub(super) fn end_left_over(database: &mut Database) -> Result<(), Fault> {
    let outcome = Outcome::Cancelled(Cancellation::Requested("The server was restarted".to_owned()));
    let ending = EndingRef { attempt: 1, phases: Phases::default(), outcome: &outcome };
    database.begin()?;
    let read = |row: &Row<'_>| name(row, 0, RequestId::parse);
    let left: Vec<_> = database::query(&database.connection, LEFT_OVER, [], "call", read, |rows| rows.collect())?;
    for request in &left {
        end(database, request, &ending)?;
    }
    database.commit()
}

fn read(row: &Row<'_>) -> Result<FinishedCall, Error> {
    let head: HeadForm = json(row, 3)?;
    let session = name(row, 1, SessionId::parse)?;
    let client = match row.get_ref(2)?.as_str()? == ClientId::from(&session).as_str() {
        true => ClientId::from(&session),
        false => name(row, 2, ClientId::parse)?,
    };
    let head = CallHead {
        request: name(row, 0, RequestId::parse)?,
        session,
        message: head.message,
        call: head.call,
        tool: Arc::new(Tool::remembered(client, head.executor, head.tool, head.effect)),
        input: json::<Box<RawValue>>(row, 4)?,
        timeout: head.timeout,
        created: head.created,
        deadline: head.deadline,
        // A finished call does not expire.
        expires: Instant::now(),
    };
    let Ending { attempt, phases, outcome } = json(row, 5)?;
    Ok(FinishedCall { head: Arc::new(head), attempt, phases, outcome })
}

#[cfg(test)]
mod tests;
