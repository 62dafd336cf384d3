//! Sessions in the file.

use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{ClientId, SessionId};
use handback_core::store::{Most, Page, Session, SessionFilter, SessionPlace, weight};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::calls;
use super::database::{self, Database, Fault, growth, integer, json};
use super::usage::{Change, Missing, client_of};

/// The condition that a row belongs to the session whose id is the first value.
macro_rules! of_session {
    () => {
        "session = (SELECT session.number FROM session WHERE session.id = ?1)"
    };
}
pub(super) use of_session;

const KNOWN: &str = "SELECT client, octet_length(content), bytes FROM session WHERE id = ?1";

const SAVE: &str = "
    INSERT INTO session (id, client, agent, parent, updated, content, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
    ON CONFLICT (id) DO UPDATE SET client = excluded.client, agent = excluded.agent, parent = excluded.parent,
        updated = excluded.updated, content = excluded.content, bytes = bytes + excluded.bytes";

const FIND: &str = "SELECT id, content FROM session WHERE id = ?1";

// Sessions after a place, the last updated first. Each list has an index.
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
// A session has few children, so this list needs no index for the rest.
const LIST_OF_PARENT: &str = list!(" AND parent = ?4 AND (?5 IS NULL OR client = ?5) AND (?6 IS NULL OR agent = ?6)");

/// The session's messages, parts, runs and events are deleted with it.
const DELETE: &str = "DELETE FROM session WHERE id = ?1";

/// What the row of a session says about its size.
struct Known {
    client: Option<ClientId>,
    content_bytes: i64,
    bytes: i64,
}

fn known(connection: &Connection, session: &SessionId) -> Result<Option<Known>, Fault> {
    let mut statement = connection.prepare_cached(KNOWN)?;
    let read = |row: &Row<'_>| Ok(Known { client: client_of(row)?, content_bytes: row.get(1)?, bytes: row.get(2)? });
    Ok(statement.query_row([session.as_str()], read).optional()?)
}

pub(super) fn save(database: &mut Database, session: &Session) -> Result<(), Fault> {
    let content = serde_json::to_string(session)?;
    let known = known(&database.connection, &session.id)?;
    let before = known.as_ref().map_or(0, |known| known.content_bytes);
    let Missing { counted, added } = database.counter.take(&session.id);
    let added = growth(before, content.len()) + added;
    let (client, parent) =
        (session.client.as_ref().map(ClientId::as_str), session.parent.as_ref().map(SessionId::as_str));
    let (id, agent, updated) = (session.id.as_str(), session.agent_name(), when(session.updated));
    let values = params![id, client, agent, parent, updated, content, counted + added];
    database.connection.prepare_cached(SAVE)?.execute(values)?;
    match known {
        None => database.counter.note(Change { client: session.client.clone(), sessions: 1, bytes: added }),
        // The session moves from one client to another.
        Some(known) if known.client != session.client => {
            let bytes = known.bytes + counted;
            database.counter.note(Change { client: known.client, sessions: -1, bytes: -bytes });
            database.counter.note(Change { client: session.client.clone(), sessions: 1, bytes: bytes + added });
        }
        Some(known) => database.counter.note(Change { client: known.client, sessions: 0, bytes: added }),
    }
    Ok(())
}

pub(super) fn find(connection: &Connection, session: &SessionId) -> Result<Option<Arc<Session>>, Fault> {
    Ok(query(connection, FIND, [session.as_str()], Most::items(1))?.items.pop())
}

pub(super) fn list(
    connection: &Connection,
    filter: &SessionFilter,
    after: Option<&SessionPlace>,
    most: Most,
) -> Result<Page<Arc<Session>>, Fault> {
    let rows = integer(most.items.saturating_add(1));
    let updated = after.map_or(i64::MAX, |after| when(after.updated));
    // For SQLite a blob comes after every text.
    let id = after.map_or(ValueRef::Blob(&[]), |after| ValueRef::from(after.id.as_str()));
    let id = ToSqlOutput::Borrowed(id);
    let (client, agent) = (filter.client.as_ref().map(ClientId::as_str), filter.agent.as_deref());
    if let Some(parent) = &filter.parent {
        return query(connection, LIST_OF_PARENT, params![rows, updated, id, parent.as_str(), client, agent], most);
    }
    match (client, agent) {
        (None, None) => query(connection, LIST, params![rows, updated, id], most),
        (Some(client), None) => query(connection, LIST_OF_CLIENT, params![rows, updated, id, client], most),
        (None, Some(agent)) => query(connection, LIST_OF_AGENT, params![rows, updated, id, agent], most),
        (Some(client), Some(agent)) => query(connection, LIST_OF_BOTH, params![rows, updated, id, client, agent], most),
    }
}

fn query(connection: &Connection, sql: &str, values: impl Params, most: Most) -> Result<Page<Arc<Session>>, Fault> {
    let read = |row: &Row<'_>| {
        let session: Session = json(row, 1)?;
        Ok((weight::of_session(&session), Arc::new(session)))
    };
    database::query(connection, sql, values, "session", read, |rows| Page::fill(rows, most))
}

/// A time as SQLite's integer.
fn when(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX)
}

pub(super) fn delete(database: &mut Database, session: &SessionId) -> Result<bool, Fault> {
    let known = known(&database.connection, session)?;
    let is_known = known.is_some();
    let Missing { counted, .. } = database.counter.take(session);
    if let Some(Known { client, bytes, .. }) = known {
        database.connection.prepare_cached(DELETE)?.execute([session.as_str()])?;
        database.counter.note(Change { client, sessions: -1, bytes: -(bytes + counted) });
    }
    database.saved.forget_session(session);
    calls::delete_of_session(database, session)?;
    Ok(is_known)
}

#[cfg(test)]
mod tests;
