//! Messages and their parts in the file.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Weak};

use handback_core::clock::Time;
use handback_core::id::{MessageId, PartId, SessionId};
use handback_core::store::{Message, Most, Page, Part, Role};
use rusqlite::{Connection, Error, OptionalExtension, Params, Row, params};

use super::database::{self, Database, Fault, growth, integer, json, name};
use super::sessions::{self, of_session};

/// Does nothing if the message exists already, or the session does not exist.
const INSERT: &str = "
    INSERT OR IGNORE INTO message (session, id, parent, created, open, role)
    VALUES ((SELECT number FROM session WHERE id = ?1), ?2, ?3, ?4, ?5, ?6)";

const UPDATE: &str = "UPDATE message SET created = ?2, role = ?4, open = ?3 WHERE number = ?1";

const KNOWN: &str = concat!("SELECT number, octet_length(role) FROM message WHERE ", of_session!(), " AND id = ?2");

const KNOWN_PARTS: &str = "SELECT octet_length(body) FROM part WHERE number >= ?1 AND number < ?2 ORDER BY number";

/// Writes nothing if nothing changes.
const SAVE_PART: &str = "
    INSERT INTO part (number, id, body) VALUES (?1, ?2, ?3)
    ON CONFLICT (number) DO UPDATE SET id = excluded.id, body = excluded.body
    WHERE id <> excluded.id OR body <> excluded.body";

const DELETE_PARTS: &str = "DELETE FROM part WHERE number >= ?1 AND number < ?2";

/// The condition that a part belongs to a message.
macro_rules! of_message {
    () => {
        "part.number >= message.number << 24 AND part.number < (message.number + 1) << 24"
    };
}
pub(super) use of_message;

macro_rules! heads {
    ($rest:literal) => {
        concat!("SELECT message.id, message.number, session.id, message.created, message.role", $rest)
    };
}

macro_rules! parts {
    ($condition:literal) => {
        concat!(
            "SELECT part.id, message.number, part.body
            FROM session CROSS JOIN message ON message.session = session.number CROSS JOIN part ON ",
            of_message!(),
            " WHERE ",
            $condition,
            " ORDER BY message.number, part.number"
        )
    };
}

/// How many bytes a message takes, computed without reading them.
macro_rules! bytes {
    () => {
        concat!(
            "octet_length(role) + (SELECT coalesce(sum(octet_length(body)), 0) FROM part WHERE ",
            of_message!(),
            ")"
        )
    };
}

const LIST: &str = heads!(
    " FROM session CROSS JOIN message ON message.session = session.number WHERE session.id = ?1 ORDER BY message.number"
);
const PARTS: &str = parts!("session.id = ?1");

/// Each message comes with about how many bytes it takes.
const LIST_AFTER: &str = concat!(
    heads!(", "),
    bytes!(),
    " FROM session CROSS JOIN message ON message.session = session.number
    WHERE session.id = ?1 AND message.number > ?2 ORDER BY message.number LIMIT ?3"
);
const PARTS_BETWEEN: &str = parts!("session.id = ?1 AND message.number > ?2 AND message.number <= ?3");

const NEWEST_BEFORE: &str =
    concat!("SELECT id FROM message WHERE ", of_session!(), " AND number < ?2 ORDER BY number DESC LIMIT ?3");

const NUMBER: &str = concat!("SELECT number FROM message WHERE ", of_session!(), " AND id = ?2");

const BYTES_FROM: &str =
    concat!("SELECT coalesce(sum(", bytes!(), "), 0) FROM message WHERE ", of_session!(), " AND number >= ?2");

/// The parts are deleted with their messages.
const DELETE_FROM: &str = concat!("DELETE FROM message WHERE ", of_session!(), " AND number >= ?2");

// `open` is 1 in all of these rows, so their index has them in the order of their numbers.
const OPEN: &str = heads!(
    " FROM message CROSS JOIN session ON session.number = message.session
    WHERE message.open ORDER BY message.open, message.number"
);
const PARTS_OPEN: &str = concat!(
    "SELECT part.id, message.number, part.body FROM message CROSS JOIN part ON ",
    of_message!(),
    " WHERE message.open ORDER BY message.open, message.number, part.number"
);

/// How many bits of a part's number hold its place in its message.
const PLACE_BITS: u32 = 24;

/// The number of the part at a place of a message.
fn part_number(message: i64, place: usize) -> i64 {
    (message << PLACE_BITS) + integer(place)
}

/// How many parts are remembered as saved. Beyond it all are forgotten, and compared with the file again.
const REMEMBERED_PARTS: usize = 65_536;

/// The unfinished answers, and the messages that they answer, as they were last saved. They are saved over and over with
/// few changes, and this makes a save cost only what it changes.
#[derive(Default)]
pub(super) struct SavedMessages {
    messages: HashMap<(SessionId, MessageId), SavedMessage>,
    /// How many messages and parts these are together.
    count: usize,
}

/// What is known of a message in the file.
struct SavedMessage {
    number: i64,
    /// The size of the role's text.
    role_bytes: i64,
    /// The hash of the row's content, if it is known.
    hash: Option<u64>,
    parts: Vec<SavedPart>,
}

/// A part in the file. The weak pointer keeps its address from being reused, so that the same address means the same part.
/// A pointer to nothing equals no part.
struct SavedPart {
    part: Weak<Part>,
    bytes: i64,
}

impl SavedMessages {
    /// Takes out what is known of a message.
    fn take(&mut self, message: &Message) -> Option<SavedMessage> {
        let saved = self.messages.remove(&(message.session.clone(), message.id.clone()))?;
        self.count -= 1 + saved.parts.len();
        Some(saved)
    }

    fn remember(&mut self, message: &Message, saved: SavedMessage) {
        let count = 1 + saved.parts.len();
        if self.count + count > REMEMBERED_PARTS {
            self.forget();
        }
        self.count += count;
        self.messages.insert((message.session.clone(), message.id.clone()), saved);
    }

    /// Forgets the messages of a session.
    pub(super) fn forget_session(&mut self, session: &SessionId) {
        self.messages.retain(|(other, _), _| other != session);
        self.count = self.messages.values().map(|saved| 1 + saved.parts.len()).sum();
    }

    /// Forgets all messages.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

pub(super) fn save(database: &mut Database, message: &Message) -> Result<(), Fault> {
    let is_open = message.turn().is_some();
    let (parent, is_changing) = match &message.role {
        Role::User(_) => (None, is_open),
        Role::Assistant(assistant) => (Some(assistant.parent.as_str()), assistant.completed.is_none()),
    };
    let (session, id, created) = (message.session.as_str(), message.id.as_str(), message.created.0.cast_signed());
    let role = serde_json::to_string(&message.role)?;
    let hash = Some(BuildHasherDefault::<DefaultHasher>::default().hash_one((created, &role)));
    let known = match database.saved.take(message) {
        None => {
            let values = params![session, id, parent, created, is_open, role];
            let mut statement = database.connection.prepare_cached(INSERT)?;
            if statement.execute(values)? > 0 {
                let number = database.connection.last_insert_rowid();
                database.counter.add(&message.session, integer(role.len()));
                Some(SavedMessage { number, role_bytes: integer(role.len()), hash, parts: Vec::new() })
            } else {
                known(&database.connection, session, id)?
            }
        }
        known => known,
    };
    let Some(mut known) = known else { return Ok(()) };
    if known.hash != hash {
        let values = params![known.number, created, is_open, role];
        database.connection.prepare_cached(UPDATE)?.execute(values)?;
        database.counter.add(&message.session, growth(known.role_bytes, role.len()));
        (known.role_bytes, known.hash) = (integer(role.len()), hash);
    }
    save_parts(database, message, &mut known)?;
    // A complete message is seldom saved again.
    if is_changing {
        database.saved.remember(message, known);
    }
    Ok(())
}

/// What the file knows of a message.
fn known(connection: &Connection, session: &str, id: &str) -> Result<Option<SavedMessage>, Fault> {
    let mut statement = connection.prepare_cached(KNOWN)?;
    let head = statement.query_row([session, id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
    let Some((number, role_bytes)) = head else { return Ok(None) };
    let mut statement = connection.prepare_cached(KNOWN_PARTS)?;
    let places = [part_number(number, 0), part_number(number + 1, 0)];
    let parts = statement.query_map(places, |row| Ok(SavedPart { part: Weak::new(), bytes: row.get(0)? }))?;
    Ok(Some(SavedMessage { number, role_bytes, hash: None, parts: parts.collect::<Result<_, _>>()? }))
}

fn save_parts(database: &mut Database, message: &Message, known: &mut SavedMessage) -> Result<(), Fault> {
    if message.parts.len() >= 1 << PLACE_BITS {
        return Err(Fault::TooManyParts);
    }
    let mut growth_of_all = 0;
    let mut statement = database.connection.prepare_cached(SAVE_PART)?;
    for (place, part) in message.parts.iter().enumerate() {
        let before = known.parts.get(place);
        if before.is_some_and(|before| before.part.as_ptr() == Arc::as_ptr(part)) {
            continue;
        }
        let body = serde_json::to_string(&part.body)?;
        statement.execute(params![part_number(known.number, place), part.id.as_str(), body])?;
        growth_of_all += growth(before.map_or(0, |before| before.bytes), body.len());
        let saved = SavedPart { part: Arc::downgrade(part), bytes: integer(body.len()) };
        match known.parts.get_mut(place) {
            Some(before) => *before = saved,
            None => known.parts.push(saved),
        }
    }
    if known.parts.len() > message.parts.len() {
        let places = [part_number(known.number, message.parts.len()), part_number(known.number + 1, 0)];
        database.connection.prepare_cached(DELETE_PARTS)?.execute(places)?;
        growth_of_all -= known.parts.drain(message.parts.len()..).map(|part| part.bytes).sum::<i64>();
    }
    database.counter.add(&message.session, growth_of_all);
    Ok(())
}

pub(super) fn list(connection: &Connection, session: &SessionId) -> Result<Vec<Arc<Message>>, Fault> {
    let heads = database::query(connection, LIST, [session.as_str()], "message", read, |rows| rows.collect())?;
    with_parts(connection, heads, PARTS, [session.as_str()])
}

/// The number of a message, if it exists.
fn number(connection: &Connection, session: &SessionId, message: &MessageId) -> Result<Option<i64>, Fault> {
    let mut statement = connection.prepare_cached(NUMBER)?;
    Ok(statement.query_row([session.as_str(), message.as_str()], |row| row.get(0)).optional()?)
}

pub(super) fn list_after(
    connection: &Connection,
    session: &SessionId,
    after: Option<&MessageId>,
    most: Most,
) -> Result<Option<Page<Arc<Message>>>, Fault> {
    let start = match after {
        Some(after) => number(connection, session, after)?,
        None => sessions::find(connection, session)?.map(|_| 0),
    };
    let Some(start) = start else { return Ok(None) };
    let values = params![session.as_str(), start, integer(most.items.saturating_add(1))];
    let read = |row: &Row<'_>| Ok((usize::try_from(row.get::<_, i64>(5)?).unwrap_or(usize::MAX), read(row)?));
    let fill = |rows: &mut dyn Iterator<Item = _>| Page::fill(rows, most);
    let Page { items, has_more } = database::query(connection, LIST_AFTER, values, "message", read, fill)?;
    let end = items.last().map_or(start, |(number, _)| *number);
    let items = with_parts(connection, items, PARTS_BETWEEN, params![session.as_str(), start, end])?;
    Ok(Some(Page { items, has_more }))
}

pub(super) fn newest_before(
    connection: &Connection,
    session: &SessionId,
    before: Option<&MessageId>,
    most: usize,
) -> Result<Option<Vec<MessageId>>, Fault> {
    let end = match before {
        Some(before) => number(connection, session, before)?,
        None => Some(i64::MAX),
    };
    let Some(end) = end else { return Ok(None) };
    let (values, read) =
        (params![session.as_str(), end, integer(most)], |row: &Row<'_>| name(row, 0, MessageId::parse));
    database::query(connection, NEWEST_BEFORE, values, "message", read, |rows| rows.collect()).map(Some)
}

pub(super) fn delete_from(database: &mut Database, session: &SessionId, message: &MessageId) -> Result<(), Fault> {
    let Some(number) = number(&database.connection, session, message)? else { return Ok(()) };
    let values = params![session.as_str(), number];
    let bytes: i64 = database.connection.prepare_cached(BYTES_FROM)?.query_row(values, |row| row.get(0))?;
    database.connection.prepare_cached(DELETE_FROM)?.execute(values)?;
    database.counter.add(session, -bytes);
    database.saved.forget_session(session);
    Ok(())
}

pub(super) fn open(connection: &Connection) -> Result<Vec<Arc<Message>>, Fault> {
    let heads = database::query(connection, OPEN, [], "message", read, |rows| rows.collect())?;
    with_parts(connection, heads, PARTS_OPEN, [])
}

/// Reads the parts of messages with one query. Both are in the order of the messages' numbers.
fn with_parts(
    connection: &Connection,
    mut heads: Vec<(i64, Message)>,
    sql: &str,
    values: impl Params,
) -> Result<Vec<Arc<Message>>, Fault> {
    let read = |row: &Row<'_>| Ok((row.get(1)?, Part { id: name(row, 0, PartId::parse)?, body: json(row, 2)? }));
    database::query(connection, sql, values, "part", read, |rows| {
        let mut place = 0;
        for row in rows {
            let (number, part): (i64, Part) = row?;
            while heads.get(place).is_some_and(|(head, _)| *head < number) {
                place += 1;
            }
            if let Some((_, message)) = heads.get_mut(place).filter(|(head, _)| *head == number) {
                message.parts.push(Arc::new(part));
            }
        }
        Ok(())
    })?;
    Ok(heads.into_iter().map(|(_, message)| Arc::new(message)).collect())
}

/// The number of a message, and the message without its parts.
fn read(row: &Row<'_>) -> Result<(i64, Message), Error> {
    let message = Message {
        session: name(row, 2, SessionId::parse)?,
        id: name(row, 0, MessageId::parse)?,
        created: Time(row.get::<_, i64>(3)?.cast_unsigned()),
        role: json(row, 4)?,
        parts: Vec::new(),
    };
    Ok((row.get(1)?, message))
}

#[cfg(test)]
pub(super) mod tests;
