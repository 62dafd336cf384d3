//! Sessions in the file.

use std::sync::Arc;

use handback_core::id::{ClientId, SessionId};
use handback_core::message::Session;
use handback_core::store::SessionFilter;
use rusqlite::{Params, params};

use super::calls;
use super::database::{Database, Fault, integer, json};

/// Never `REPLACE`, which would delete the row first, and the messages and runs with it.
const SAVE: &str = "
    INSERT INTO session (id, client, agent, updated, content) VALUES (?1, ?2, ?3, ?4, ?5)
    ON CONFLICT (id) DO UPDATE SET client = excluded.client, agent = excluded.agent, updated = excluded.updated,
        content = excluded.content";

const FIND: &str = "SELECT id, content FROM session WHERE id = ?1";

// Those updated last first; each has its index.
const LIST: &str = "SELECT id, content FROM session ORDER BY updated DESC, id DESC LIMIT ?1";
const LIST_OF_CLIENT: &str = "
    SELECT id, content FROM session WHERE client = ?2 ORDER BY updated DESC, id DESC LIMIT ?1";
const LIST_OF_AGENT: &str = "
    SELECT id, content FROM session WHERE agent = ?2 ORDER BY updated DESC, id DESC LIMIT ?1";
const LIST_OF_BOTH: &str = "
    SELECT id, content FROM session WHERE client = ?2 AND agent = ?3 ORDER BY updated DESC, id DESC LIMIT ?1";

/// Messages and parts, runs and events go with their session.
const DELETE: &str = "DELETE FROM session WHERE id = ?1";

pub(super) fn save(database: &mut Database, session: &Session) -> Result<(), Fault> {
    let client = session.client.as_ref().map(ClientId::as_str);
    let updated = i64::try_from(session.updated.0).unwrap_or(i64::MAX);
    let content = serde_json::to_string(session)?;
    let mut statement = database.connection.prepare_cached(SAVE)?;
    statement.execute(params![session.id.as_str(), client, session.agent_name(), updated, content])?;
    Ok(())
}

pub(super) fn find(database: &mut Database, session: &SessionId) -> Result<Option<Arc<Session>>, Fault> {
    Ok(query(database, FIND, [session.as_str()])?.pop())
}

pub(super) fn list(database: &mut Database, filter: &SessionFilter, most: usize) -> Result<Vec<Arc<Session>>, Fault> {
    let most = integer(most);
    match (&filter.client, filter.agent.as_deref()) {
        (None, None) => query(database, LIST, [most]),
        (Some(client), None) => query(database, LIST_OF_CLIENT, params![most, client.as_str()]),
        (None, Some(agent)) => query(database, LIST_OF_AGENT, params![most, agent]),
        (Some(client), Some(agent)) => query(database, LIST_OF_BOTH, params![most, client.as_str(), agent]),
    }
}

fn query(database: &Database, sql: &str, values: impl Params) -> Result<Vec<Arc<Session>>, Fault> {
    let mut statement = database.connection.prepare_cached(sql)?;
    let rows = statement.query_and_then(values, |row| {
        let unreadable = |cause| Fault::Row { table: "session", id: row.get(0).unwrap_or_default(), cause };
        json(row, 1).map(Arc::new).map_err(unreadable)
    })?;
    rows.collect()
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
