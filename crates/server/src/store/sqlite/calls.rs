//! The journal of calls in the file.

use std::sync::Arc;
use std::time::Duration;

use handback_core::id::{RequestId, SessionId};
use handback_core::store::{
    Begun, CallFilter, CallHead, CallPage, Ended, FinishedCall, JournaledCall, Most, Outcome, Page, weight,
};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, OptionalExtension, Params, Row, params};
use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Bounds;
use super::database::{self, Database, Fault, integer, json, name};
use crate::store::forms::{Ending, EndingRef, HeadForm, LateForm, LateRef, StateForm};

/// An open call is replaced. A call that is over is left as it is.
// One row of values: SQLite copies the pages that a statement changes unless it can change at most one row.
const BEGIN: &str = "
    INSERT INTO call (request, size, session, client, head, input, offered, state) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (request) DO UPDATE SET size = excluded.size, session = excluded.session, client = excluded.client,
        head = excluded.head, input = excluded.input, offered = excluded.offered, state = excluded.state
    WHERE ended IS NULL";

const FINISH: &str = "
    UPDATE call SET ended = ?2, size = ?3, ending = ?4, bytes_before = ?5, ended_at = unixepoch() * 1000
    WHERE request = ?1 AND ended IS NULL";

macro_rules! select {
    ($condition:literal) => {
        concat!(
            "SELECT request, session, client, head, input, ending, ended, late, state FROM call WHERE ended IS NOT NULL",
            $condition
        )
    };
}

const KEEP_LATE: &str = "
    UPDATE call SET late = ?2, size = size + ?3
    WHERE request = ?1 AND ended IS NOT NULL AND late IS NULL";

const FINISHED: &str = select!(" AND request = ?1");
// Calls that ended before a number, the newest first. Each list has an index.
const LIST: &str = select!(" AND ended < ?2 ORDER BY ended DESC LIMIT ?1");
const LIST_OF_CLIENT: &str = select!(" AND ended < ?2 AND client = ?3 ORDER BY ended DESC LIMIT ?1");
const LIST_OF_SESSION: &str = select!(" AND ended < ?2 AND session = ?3 ORDER BY ended DESC LIMIT ?1");
const LIST_OF_BOTH: &str = select!(" AND ended < ?2 AND client = ?3 AND session = ?4 ORDER BY ended DESC LIMIT ?1");

/// The oldest calls, each with how many bytes came before it and how many milliseconds ago it ended.
const OLDEST: &str = "
    SELECT ended, bytes_before, unixepoch() * 1000 - ended_at FROM call WHERE ended IS NOT NULL ORDER BY ended";

const DELETE_UP_TO: &str = "DELETE FROM call WHERE ended <= ?1";

const FORGET_OF_SESSION: &str = "
    INSERT OR REPLACE INTO forgotten_call (request, since) SELECT request, unixepoch() * 1000 FROM call
    WHERE session = ?1 AND ended IS NOT NULL";

const DELETE_OF_SESSION: &str = "DELETE FROM call WHERE session = ?1 AND ended IS NOT NULL";

const LAST: &str = "
    SELECT ended, bytes_before + size FROM call WHERE ended IS NOT NULL ORDER BY ended DESC LIMIT 1";

const OPEN: &str =
    "SELECT request, session, client, head, input, offered, state FROM call WHERE ended IS NULL ORDER BY rowid";

const FORGET_UP_TO: &str = "
    INSERT OR REPLACE INTO forgotten_call (request, since) SELECT request, unixepoch() * 1000 FROM call WHERE ended <= ?1";

const IS_FORGOTTEN: &str = "
    SELECT EXISTS (SELECT 1 FROM forgotten_call WHERE request = ?1 AND since >= unixepoch('now', '-1 day') * 1000)";

const HAS_FORGOTTEN: &str = "SELECT EXISTS (SELECT 1 FROM forgotten_call)";

/// The id of a call that is no longer stored can be used again after a day.
const FREE_IDS: &str = "
    DELETE FROM forgotten_call WHERE request IN
        (SELECT request FROM forgotten_call WHERE since < unixepoch('now', '-1 day') * 1000 ORDER BY since LIMIT ?1)";

/// How many calls, and how many ids, are deleted at a time.
const PRUNED_AT_ONCE: i64 = 1_000;
/// About how many bytes of calls are deleted at a time.
const PRUNED_BYTES_AT_ONCE: i64 = 8 << 20;
/// How often calls that have become too old are deleted.
const PRUNE_INTERVAL: Duration = Duration::from_mins(1);

/// The calls that have ended so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EndedCalls {
    /// The number of the last one.
    number: i64,
    /// How many bytes they take, with those that were deleted.
    bytes: i64,
    /// Whether the ids of some may be known that are no longer stored.
    has_forgotten: bool,
}

/// When the oldest calls are to be deleted.
#[derive(Debug, Default)]
pub(super) struct Pruning {
    /// When they were last deleted, and the calls that had ended by then; `None` if some are left that are to be deleted.
    last: Option<(Instant, EndedCalls)>,
}

impl Pruning {
    /// Whether the oldest calls are to be deleted now.
    pub(super) fn is_due(&self, ended: EndedCalls, bounds: &Bounds) -> bool {
        let Some((at, before)) = self.last else { return true };
        let (calls, call_bytes) = bounds_of_calls(bounds);
        at.elapsed() >= PRUNE_INTERVAL
            || ended.number - before.number >= (calls / 32).max(1)
            || ended.bytes - before.bytes >= (call_bytes / 32).max(1)
    }

    /// Takes note that the oldest calls are being deleted. If that fails, it is tried again later.
    pub(super) fn begin(&mut self, ended: EndedCalls) {
        self.last = Some((Instant::now(), ended));
    }

    /// Takes note that more are to be deleted.
    pub(super) fn go_on(&mut self) {
        self.last = None;
    }
}

/// How many calls are kept, and how many bytes of them.
fn bounds_of_calls(bounds: &Bounds) -> (i64, i64) {
    (integer(bounds.calls), i64::try_from(bounds.call_bytes).unwrap_or(i64::MAX))
}

pub(super) fn begin(database: &mut Database, journaled: &JournaledCall) -> Result<Begun, Fault> {
    let JournaledCall { head: call, offered, .. } = journaled;
    let request = call.request.as_str();
    if database.ended.has_forgotten
        && database.connection.prepare_cached(IS_FORGOTTEN)?.query_row([request], |row| row.get(0))?
    {
        return Ok(Begun::Gone);
    }
    let state = StateForm::of(journaled).map(|state| serde_json::to_string(&state)).transpose()?;
    let head = serde_json::to_string(&HeadForm::from(&**call))?;
    let (session, client, input) = (call.session.as_str(), call.client().as_str(), call.input.get());
    let size = integer(weight::of_head(call));
    let mut statement = database.connection.prepare_cached(BEGIN)?;
    if statement.execute(params![request, size, session, client, head, input, offered, state])? > 0 {
        return Ok(Begun::New);
    }
    drop(statement);
    Ok(finished(&database.connection, &call.request)?.map_or(Begun::Gone, Begun::Before))
}

pub(super) fn finish(database: &mut Database, call: &FinishedCall) -> Result<Ended, Fault> {
    let ending = serde_json::to_string(&EndingRef::from(call))?;
    if end(database, call, &ending)? {
        return Ok(Ended::First);
    }
    // Its beginning could not be written, or it has ended already.
    let begun = JournaledCall { claimant: call.claimant.clone(), ..JournaledCall::new(call.head.clone()) };
    Ok(match begin(database, &begun)? {
        Begun::New => {
            end(database, call, &ending)?;
            Ended::First
        }
        Begun::Before(before) => Ended::after(before, call),
        Begun::Gone => Ended::Gone,
    })
}

/// Ends an unfinished call. Returns whether there is one.
fn end(database: &mut Database, call: &FinishedCall, ending: &str) -> Result<bool, Fault> {
    let EndedCalls { number, bytes, .. } = database.ended;
    let size = integer(weight::of_call(call));
    let mut statement = database.connection.prepare_cached(FINISH)?;
    if statement.execute(params![call.head.request.as_str(), number + 1, size, ending, bytes])? == 0 {
        return Ok(false);
    }
    drop(statement);
    database.ended.number = number + 1;
    database.ended.bytes = bytes + size;
    Ok(true)
}

pub(super) fn keep_late(database: &mut Database, request: &RequestId, late: &Outcome) -> Result<bool, Fault> {
    let late = serde_json::to_string(&LateRef(late))?;
    let size = integer(late.len());
    let is_first = database.connection.prepare_cached(KEEP_LATE)?.execute(params![request.as_str(), late, size])? > 0;
    if is_first {
        database.ended.bytes += size;
    }
    Ok(is_first)
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
    database.ended.has_forgotten |=
        database.connection.prepare_cached(FORGET_OF_SESSION)?.execute([session.as_str()])? > 0;
    database.connection.prepare_cached(DELETE_OF_SESSION)?.execute([session.as_str()])?;
    Ok(())
}

/// Deletes the oldest finished calls while they exceed the bounds, some at a time. Returns whether there may be more. Calls
/// that were deleted with their sessions count until all older ones are deleted, too.
pub(super) fn prune(database: &mut Database, bounds: &Bounds) -> Result<bool, Fault> {
    let EndedCalls { number: last, bytes: all, .. } = database.ended;
    let (most_calls, most_bytes) = bounds_of_calls(bounds);
    let oldest_age = i64::try_from(bounds.call_age.as_millis()).unwrap_or(i64::MAX);
    let (mut forgotten, mut count, mut first) = (None, 0, None);
    let mut oldest = database.connection.prepare_cached(OLDEST)?;
    let mut rows = oldest.query([])?;
    let has_more = loop {
        let Some(row) = rows.next()? else { break false };
        let (number, before, age): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if last - number < most_calls && all - before <= most_bytes && age <= oldest_age {
            break false;
        }
        if count == PRUNED_AT_ONCE || before - *first.get_or_insert(before) >= PRUNED_BYTES_AT_ONCE {
            break true;
        }
        (forgotten, count) = (Some(number), count + 1);
    };
    drop(rows);
    drop(oldest);
    let freed = database.connection.prepare_cached(FREE_IDS)?.execute([PRUNED_AT_ONCE])?;
    if let Some(ended) = forgotten {
        database.ended.has_forgotten = true;
        database.connection.prepare_cached(FORGET_UP_TO)?.execute([ended])?;
        database.connection.prepare_cached(DELETE_UP_TO)?.execute([ended])?;
    }
    Ok(has_more || integer(freed) == PRUNED_AT_ONCE)
}

/// The calls that have ended so far.
pub(super) fn ended(connection: &Connection) -> Result<EndedCalls, Fault> {
    let last = connection.query_row(LAST, [], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let (number, bytes) = last.unwrap_or_default();
    Ok(EndedCalls { number, bytes, has_forgotten: connection.query_row(HAS_FORGOTTEN, [], |row| row.get(0))? })
}

/// The calls that are not over.
pub(super) fn open(connection: &Connection) -> Result<Vec<JournaledCall>, Fault> {
    let read = |row: &Row<'_>| {
        let StateForm { ask, claimant, denied } = read_state(row, 6)?;
        Ok(JournaledCall { head: Arc::new(read_head(row)?), offered: row.get(5)?, ask, claimant, denied })
    };
    database::query(connection, OPEN, [], "call", read, |rows| rows.collect())
}

fn read(row: &Row<'_>) -> Result<FinishedCall, Error> {
    let Ending { attempt, may_have_run, ask, phases, outcome } = json(row, 5)?;
    let late = match row.get_ref(7)? {
        ValueRef::Null => None,
        _ => Some(json::<LateForm>(row, 7)?.0),
    };
    let StateForm { claimant, .. } = read_state(row, 8)?;
    Ok(FinishedCall { head: Arc::new(read_head(row)?), attempt, may_have_run, ask, phases, outcome, claimant, late })
}

fn read_state(row: &Row<'_>, column: usize) -> Result<StateForm, Error> {
    match row.get_ref(column)? {
        ValueRef::Null => Ok(StateForm::default()),
        _ => json(row, column),
    }
}

fn read_head(row: &Row<'_>) -> Result<CallHead, Error> {
    let head: HeadForm = json(row, 3)?;
    let (request, session) = (name(row, 0, RequestId::parse)?, name(row, 1, SessionId::parse)?);
    let client = row.get_ref(2)?.as_str()?;
    let head = head.into_head(request, session, client, json::<Box<RawValue>>(row, 4)?);
    head.map_err(|error| database::unreadable(2, error))
}

#[cfg(test)]
mod tests;
