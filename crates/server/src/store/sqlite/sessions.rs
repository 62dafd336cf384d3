//! Sessions in the file.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{ClientId, SessionId};
use handback_core::message::Session;
use handback_core::store::{Most, Page, SessionFilter, SessionPlace, Usage, weight};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Params, params};

use super::calls;
use super::database::{Database, Fault, integer, json};

/// Never `REPLACE`, which would delete the row first, and the messages and runs with it.
const SAVE: &str = "
    INSERT INTO session (id, client, agent, updated, content) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (id) DO UPDATE SET client = excluded.client, agent = excluded.agent, updated = excluded.updated,
        content = excluded.content";

const FIND: &str = "SELECT id, content FROM session WHERE id = ?1";

// Those updated last first, after a place in that order; each has its index.
macro_rules! list {
    ($condition:literal) => {
        concat!(
            "SELECT id, content FROM session WHERE (updated, id) < (?2, ?3)",
            $condition,
            " ORDER BY updated DESC, id DESC LIMIT ?1"
        )
    };
}

const LIST: &str = list!("");
const LIST_OF_CLIENT: &str = list!(" AND client = ?4");
const LIST_OF_AGENT: &str = list!(" AND agent = ?4");
const LIST_OF_BOTH: &str = list!(" AND client = ?4 AND agent = ?5");

/// One row for the client, and one for everything.
const USAGE: &str = "SELECT client, sessions, bytes FROM usage WHERE client IN ('', ?1)";

/// Messages and parts, runs and events go with their session.
const DELETE: &str = "DELETE FROM session WHERE id = ?1";

pub(super) fn save(database: &mut Database, session: &Session) -> Result<(), Fault> {
    let client = session.client.as_ref().map(ClientId::as_str);
    let updated = when(session.updated);
    let content = serde_json::to_string(session)?;
    let mut statement = database.connection.prepare_cached(SAVE)?;
    statement.execute(params![session.id.as_str(), client, session.agent_name(), updated, content])?;
    Ok(())
}

pub(super) fn find(database: &mut Database, session: &SessionId) -> Result<Option<Arc<Session>>, Fault> {
    Ok(query(database, FIND, [session.as_str()], Most::items(1))?.items.pop())
}

pub(super) fn list(
    database: &mut Database,
    filter: &SessionFilter,
    after: Option<&SessionPlace>,
    most: Most,
) -> Result<Page<Arc<Session>>, Fault> {
    let rows = integer(most.items.saturating_add(1));
    let updated = after.map_or(i64::MAX, |after| when(after.updated));
    // Bytes come after every text.
    let id = after.map_or(ValueRef::Blob(&[]), |after| ValueRef::from(after.id.as_str()));
    let id = ToSqlOutput::Borrowed(id);
    match (&filter.client, filter.agent.as_deref()) {
        (None, None) => query(database, LIST, params![rows, updated, id], most),
        (Some(client), None) => query(database, LIST_OF_CLIENT, params![rows, updated, id, client.as_str()], most),
        (None, Some(agent)) => query(database, LIST_OF_AGENT, params![rows, updated, id, agent], most),
        (Some(client), Some(agent)) => {
            query(database, LIST_OF_BOTH, params![rows, updated, id, client.as_str(), agent], most)
        }
    }
}

fn query(database: &Database, sql: &str, values: impl Params, most: Most) -> Result<Page<Arc<Session>>, Fault> {
    let mut statement = database.connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(values, |row| {
        let unreadable = |cause| Fault::Row { table: "session", id: row.get(0).unwrap_or_default(), cause };
        let session: Session = json(row, 1).map_err(unreadable)?;
        Ok((weight::of_session(&session), Arc::new(session)))
    })?;
    Page::fill(rows, most)
}

/// A time, as SQLite has it.
fn when(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

pub(super) fn usage(database: &mut Database, client: Option<&ClientId>) -> Result<Usage, Fault> {
    let mut statement = database.connection.prepare_cached(USAGE)?;
    let mut rows = statement.query([client.map(ClientId::as_str)])?;
    let mut usage = Usage::default();
    while let Some(row) = rows.next()? {
        let (sessions, bytes) = (row.get::<_, i64>(1)?.cast_unsigned(), row.get::<_, i64>(2)?.cast_unsigned());
        match row.get::<_, String>(0)?.is_empty() {
            true => usage.bytes = bytes,
            false => (usage.client_sessions, usage.client_bytes) = (sessions, bytes),
        }
    }
    Ok(usage)
}

pub(super) fn delete(database: &mut Database, session: &SessionId) -> Result<bool, Fault> {
    let deleted = database.connection.prepare_cached(DELETE)?.execute([session.as_str()])? > 0;
    if deleted {
        // Rows that are gone leave their numbers to others.
        database.saved.forget();
    }
    calls::delete_of_session(database, session)?;
    Ok(deleted)
}

#[cfg(test)]
mod tests;
