//! Messages and their parts in the file.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use handback_core::clock::Time;
use handback_core::id::{MessageId, PartId, SessionId};
use handback_core::message::{Message, Part, Role};
use handback_core::store::{Most, Page};
use rusqlite::{Error, OptionalExtension, Params, Row, Statement, params};

use super::database::{Database, Fault, integer, json, name};
use super::sessions;

/// Gives the row's number; none if there is no such session. A user's message is unanswered until an answer names it
/// as its parent, whichever of the two is saved first.
const SAVE: &str = "
    INSERT INTO message (session, id, parent, created, unanswered, role)
    SELECT ?1, ?2, ?3, ?4,
        ?5 AND (?3 IS NOT NULL OR NOT EXISTS (SELECT 1 FROM message WHERE session = ?1 AND parent = ?2)), ?6
    WHERE EXISTS (SELECT 1 FROM session WHERE id = ?1)
    ON CONFLICT (session, id) DO UPDATE SET parent = excluded.parent, created = excluded.created,
        unanswered = excluded.unanswered, role = excluded.role
    RETURNING number";

const ANSWER: &str = "
    UPDATE message SET unanswered = 0 WHERE session = ?1 AND id = ?2 AND parent IS NULL AND unanswered";

/// Writes nothing where nothing changes.
const SAVE_PART: &str = "
    INSERT INTO part (message, place, id, body) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT (message, place) DO UPDATE SET id = excluded.id, body = excluded.body
    WHERE id <> excluded.id OR body <> excluded.body";

const DELETE_PARTS_FROM: &str = "DELETE FROM part WHERE message = ?1 AND place >= ?2";

const LIST: &str = "SELECT number, session, id, created, role FROM message WHERE session = ?1 ORDER BY number";

/// Each with about how many bytes it takes, which can be said without reading them.
const LIST_AFTER: &str = "
    SELECT number, session, id, created, role,
        octet_length(role) + (SELECT coalesce(sum(octet_length(body)), 0) FROM part WHERE message = number)
    FROM message WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT ?3";

const NEWEST_BEFORE: &str = "
    SELECT id FROM message WHERE session = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3";

const NUMBER: &str = "SELECT number FROM message WHERE session = ?1 AND id = ?2";

/// The parts go with their messages.
const DELETE_FROM: &str = "
    DELETE FROM message WHERE session = ?1
        AND number >= (SELECT number FROM message WHERE session = ?1 AND id = ?2)";

/// Users' messages whose answers have gone want one again.
const UNANSWER: &str = "
    UPDATE message SET unanswered = 1
    WHERE session = ?1 AND parent IS NULL AND NOT unanswered AND role ->> '$.User.wants_reply'
        AND NOT EXISTS (SELECT 1 FROM message AS answer WHERE answer.session = ?1 AND answer.parent = message.id)";

const UNANSWERED: &str = "SELECT number, session, id, created, role FROM message WHERE unanswered";

const PARTS: &str = "SELECT id, body FROM part WHERE message = ?1 ORDER BY place";

/// How many parts are remembered as saved; then all are forgotten, and compared with the file again.
const REMEMBERED_PARTS: usize = 65_536;

/// The parts that the last messages were saved with, by the message's number: a message that is being written is saved
/// over and over, and most of its parts are what they were. A weak pointer keeps the part's address from being used
/// again, so that the same address is the same part.
#[derive(Debug, Default)]
pub(super) struct SavedParts {
    messages: HashMap<i64, Vec<Weak<Part>>>,
    parts: usize,
}

impl SavedParts {
    /// What a message was saved with, if that is remembered.
    fn take(&mut self, number: i64) -> Option<Vec<Weak<Part>>> {
        let parts = self.messages.remove(&number)?;
        self.parts -= parts.len();
        Some(parts)
    }

    fn remember(&mut self, number: i64, parts: &[Arc<Part>]) {
        // A message without parts takes room as well.
        if self.parts + parts.len() > REMEMBERED_PARTS || self.messages.len() >= REMEMBERED_PARTS {
            self.forget();
        }
        self.parts += parts.len();
        self.messages.insert(number, parts.iter().map(Arc::downgrade).collect());
    }

    /// Forgets all of it.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

pub(super) fn save(database: &mut Database, message: &Message) -> Result<(), Fault> {
    let (parent, unanswered) = match &message.role {
        Role::User(user) => (None, user.wants_reply),
        Role::Assistant(assistant) => (Some(assistant.parent.as_str()), assistant.completed.is_none()),
    };
    let (session, id, created) = (message.session.as_str(), message.id.as_str(), message.created.0.cast_signed());
    let role = serde_json::to_string(&message.role)?;
    let values = params![session, id, parent, created, unanswered, role];
    let number = database.connection.prepare_cached(SAVE)?.query_row(values, |row| row.get(0)).optional()?;
    let Some(number) = number else { return Ok(()) };
    if let Some(parent) = parent {
        database.connection.prepare_cached(ANSWER)?.execute([session, parent])?;
    }
    save_parts(database, number, &message.parts)
}

fn save_parts(database: &mut Database, number: i64, parts: &[Arc<Part>]) -> Result<(), Fault> {
    let before = database.saved.take(number);
    let is_saved = |place: usize, part: &Arc<Part>| {
        before.as_ref().and_then(|before| before.get(place)).is_some_and(|known| known.as_ptr() == Arc::as_ptr(part))
    };
    let mut statement = database.connection.prepare_cached(SAVE_PART)?;
    for (place, part) in parts.iter().enumerate().filter(|(place, part)| !is_saved(*place, part)) {
        statement.execute(params![number, integer(place), part.id.as_str(), serde_json::to_string(&part.body)?])?;
    }
    if before.is_none_or(|before| before.len() > parts.len()) {
        let mut statement = database.connection.prepare_cached(DELETE_PARTS_FROM)?;
        statement.execute(params![number, integer(parts.len())])?;
    }
    database.saved.remember(number, parts);
    Ok(())
}

pub(super) fn list(database: &mut Database, session: &SessionId) -> Result<Vec<Arc<Message>>, Fault> {
    query(database, LIST, [session.as_str()])
}

/// A message's number, if it is there.
fn number(database: &Database, session: &SessionId, message: &MessageId) -> Result<Option<i64>, Fault> {
    let mut statement = database.connection.prepare_cached(NUMBER)?;
    Ok(statement.query_row([session.as_str(), message.as_str()], |row| row.get(0)).optional()?)
}

pub(super) fn exists(database: &mut Database, session: &SessionId, message: &MessageId) -> Result<bool, Fault> {
    Ok(number(database, session, message)?.is_some())
}

pub(super) fn list_after(
    database: &mut Database,
    session: &SessionId,
    after: Option<&MessageId>,
    most: Most,
) -> Result<Option<Page<Arc<Message>>>, Fault> {
    let start = match after {
        Some(after) => number(database, session, after)?,
        None => sessions::find(database, session)?.map(|_| 0),
    };
    let Some(start) = start else { return Ok(None) };
    let mut statement = database.connection.prepare_cached(LIST_AFTER)?;
    let rows = integer(most.items.saturating_add(1));
    let heads = statement.query_and_then(params![session.as_str(), start, rows], |row| {
        let message = read(row).map_err(|cause| unreadable("message", row, 2, cause))?;
        let bytes = usize::try_from(row.get::<_, i64>(5)?).unwrap_or(usize::MAX);
        Ok::<_, Fault>((bytes, (row.get::<_, i64>(0)?, message)))
    })?;
    let Page { items, has_more } = Page::fill(heads, most)?;
    let mut parts = database.connection.prepare_cached(PARTS)?;
    let whole =
        |(number, head): (i64, Message)| Ok(Arc::new(Message { parts: read_parts(&mut parts, number)?, ..head }));
    Ok(Some(Page { items: items.into_iter().map(whole).collect::<Result<_, Fault>>()?, has_more }))
}

pub(super) fn newest_before(
    database: &mut Database,
    session: &SessionId,
    before: Option<&MessageId>,
    most: usize,
) -> Result<Option<Vec<MessageId>>, Fault> {
    let end = match before {
        Some(before) => number(database, session, before)?,
        None => Some(i64::MAX),
    };
    let Some(end) = end else { return Ok(None) };
    let mut statement = database.connection.prepare_cached(NEWEST_BEFORE)?;
    let ids = statement.query_and_then(params![session.as_str(), end, integer(most)], |row| {
        name(row, 0, MessageId::parse).map_err(|cause| unreadable("message", row, 0, cause))
    })?;
    ids.collect::<Result<_, _>>().map(Some)
}

pub(super) fn delete_from(database: &mut Database, session: &SessionId, message: &MessageId) -> Result<(), Fault> {
    database.connection.prepare_cached(DELETE_FROM)?.execute([session.as_str(), message.as_str()])?;
    database.connection.prepare_cached(UNANSWER)?.execute([session.as_str()])?;
    // Numbers may be given anew.
    database.saved.forget();
    Ok(())
}

pub(super) fn unanswered(database: &mut Database) -> Result<Vec<Arc<Message>>, Fault> {
    query(database, UNANSWERED, [])
}

fn query(database: &Database, sql: &str, values: impl Params) -> Result<Vec<Arc<Message>>, Fault> {
    let mut messages = database.connection.prepare_cached(sql)?;
    let mut parts = database.connection.prepare_cached(PARTS)?;
    let rows = messages.query_and_then(values, |row| {
        let mut message = read(row).map_err(|cause| unreadable("message", row, 2, cause))?;
        message.parts = read_parts(&mut parts, row.get(0)?)?;
        Ok(Arc::new(message))
    })?;
    rows.collect()
}

/// A message, but for its parts.
fn read(row: &Row<'_>) -> Result<Message, Error> {
    Ok(Message {
        session: name(row, 1, SessionId::parse)?,
        id: name(row, 2, MessageId::parse)?,
        created: Time(row.get::<_, i64>(3)?.cast_unsigned()),
        role: json(row, 4)?,
        parts: Vec::new(),
    })
}

fn read_parts(parts: &mut Statement<'_>, message: i64) -> Result<Vec<Arc<Part>>, Fault> {
    let rows =
        parts.query_and_then([message], |row| read_part(row).map_err(|cause| unreadable("part", row, 0, cause)))?;
    rows.collect()
}

fn read_part(row: &Row<'_>) -> Result<Arc<Part>, Error> {
    Ok(Arc::new(Part { id: name(row, 0, PartId::parse)?, body: json(row, 1)? }))
}

fn unreadable(table: &'static str, row: &Row<'_>, id: usize, cause: Error) -> Fault {
    Fault::Row { table, id: row.get(id).unwrap_or_default(), cause }
}

#[cfg(test)]
mod tests;
