//! Messages and their parts in the database.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use ahash::HashMap;
use handback_core::clock::Time;
use handback_core::id::{MessageId, PartId, SessionId};
use handback_core::store::{Message, Most, Page, Part, Role};
use tokio_postgres::Row;

use super::fault::Fault;
use super::lane::{Lane, Values};
use super::operation::Sent;
use super::rows::{integer, json, name};

const SAVE: &str = "SELECT handback.save_message($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";

const DELETE_FROM: &str = "SELECT handback.delete_messages_from($1, $2)";

/// Of a row with the columns of `message`: its content, and its parts as two arrays.
macro_rules! content {
    () => {
        "id, created, role,
        ARRAY(SELECT part.id FROM handback.part WHERE part.message = number ORDER BY part.place),
        ARRAY(SELECT part.body FROM handback.part WHERE part.message = number ORDER BY part.place)"
    };
}

const LIST: &str = concat!(
    "SELECT ",
    content!(),
    " FROM handback.message WHERE session = (SELECT session.number FROM handback.session WHERE session.id = $1)
    ORDER BY number"
);

/// Messages after a number, each with its bytes. Without the last one they have about so many bytes.
const LIST_AFTER: &str = concat!(
    "SELECT ",
    content!(),
    ", size FROM (
        SELECT *, coalesce(sum(size) OVER before, 0) AS before FROM (
            SELECT number, id, created, role, octet_length(role) + (
                SELECT coalesce(sum(octet_length(body)), 0) FROM handback.part WHERE part.message = message.number
            ) AS size
            FROM handback.message
            WHERE session = (SELECT session.number FROM handback.session WHERE session.id = $1) AND number > $2
            ORDER BY number LIMIT $3
        ) AS page
        WINDOW before AS (ORDER BY number ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)
    ) AS weighed WHERE before <= $4::BIGINT ORDER BY number"
);

const NEWEST_BEFORE: &str = "
    SELECT id FROM handback.message
    WHERE session = (SELECT session.number FROM handback.session WHERE session.id = $1) AND number < $2
    ORDER BY number DESC LIMIT $3";

const NUMBER: &str = "
    SELECT message.number FROM handback.message JOIN handback.session ON session.number = message.session
    WHERE session.id = $1 AND message.id = $2";

const OPEN: &str = concat!(
    "SELECT ",
    content!(),
    ", (SELECT session.id FROM handback.session WHERE session.number = message.session)
    FROM handback.message WHERE open ORDER BY number"
);

const SESSION: &str = "SELECT number FROM handback.session WHERE id = $1";

pub(super) const ALL: &[&str] = &[SAVE, DELETE_FROM, LIST, LIST_AFTER, NEWEST_BEFORE, NUMBER, OPEN, SESSION];

/// How many parts are remembered as saved. Beyond it all are forgotten, and sent again.
const REMEMBERED_PARTS: usize = 65_536;

/// The unfinished answers, and the messages that they answer, as they were last saved. They are saved over and over with
/// few changes, and this makes a save send only what it changes.
#[derive(Default)]
pub(super) struct SavedMessages {
    messages: HashMap<(SessionId, MessageId), SavedMessage>,
    /// How many messages and parts these are together.
    count: usize,
}

struct SavedMessage {
    /// A weak pointer keeps its address from being reused, so that the same address means the same part.
    parts: Vec<Weak<Part>>,
    /// Whether the database has it: it has not if the session is not known.
    is_saved: Arc<AtomicBool>,
}

impl SavedMessages {
    /// Takes out the parts of a message that the database has.
    fn take(&mut self, message: &Message) -> Vec<Weak<Part>> {
        let Some(saved) = self.messages.remove(&(message.session.clone(), message.id.clone())) else {
            return Vec::new();
        };
        self.count -= 1 + saved.parts.len();
        if saved.is_saved.load(Ordering::Relaxed) { saved.parts } else { Vec::new() }
    }

    fn remember(&mut self, message: &Message, is_saved: &Arc<AtomicBool>) {
        let count = 1 + message.parts.len();
        if self.count + count > REMEMBERED_PARTS {
            self.forget();
        }
        self.count += count;
        let saved =
            SavedMessage { parts: message.parts.iter().map(Arc::downgrade).collect(), is_saved: is_saved.clone() };
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

/// A message as it is sent, with the parts that may have changed.
struct Sending {
    message: Arc<Message>,
    role: String,
    places: Vec<i32>,
    bodies: Vec<String>,
    count: i32,
    /// Cleared if the message is not saved.
    is_saved: Arc<AtomicBool>,
}

pub(super) fn save<'a>(lane: &'a Lane, saved: &mut SavedMessages, message: &Arc<Message>) -> Sent<'a> {
    match prepare(saved, message) {
        Ok(sending) => Box::pin(send(lane, sending)),
        Err(fault) => Box::pin(ready(Err(fault))),
    }
}

fn prepare(saved: &mut SavedMessages, message: &Arc<Message>) -> Result<Sending, Fault> {
    let count = i32::try_from(message.parts.len()).map_err(|_| Fault::TooManyParts)?;
    let known = saved.take(message);
    let (mut places, mut bodies) = (Vec::new(), Vec::new());
    for ((place, part), index) in message.parts.iter().enumerate().zip(0..) {
        if known.get(place).is_some_and(|known| known.as_ptr() == Arc::as_ptr(part)) {
            continue;
        }
        places.push(index);
        bodies.push(serde_json::to_string(&part.body)?);
    }
    let is_saved = Arc::new(AtomicBool::new(true));
    let is_changing = match &message.role {
        Role::User(_) => message.turn().is_some(),
        Role::Assistant(said) => said.completed.is_none(),
    };
    // A complete message is seldom saved again.
    if is_changing {
        saved.remember(message, &is_saved);
    }
    Ok(Sending {
        role: serde_json::to_string(&message.role)?,
        message: message.clone(),
        places,
        bodies,
        count,
        is_saved,
    })
}

async fn send(lane: &Lane, sending: Sending) -> Result<(), Fault> {
    let Sending { message, role, places, bodies, count, is_saved } = sending;
    let ids: Vec<&str> = places.iter().map(|place| message.parts[*place as usize].id.as_str()).collect();
    let values: Values<'_> = &[
        &message.session.as_str(),
        &message.id.as_str(),
        &message.answers().map(MessageId::as_str),
        &message.created.0.cast_signed(),
        &message.turn().is_some(),
        &role,
        &places,
        &ids,
        &bodies,
        &count,
    ];
    if !lane.row(SAVE, values).await?.try_get(0)? {
        is_saved.store(false, Ordering::Relaxed);
    }
    Ok(())
}

pub(super) async fn delete_from(lane: &Lane, session: SessionId, message: MessageId) -> Result<(), Fault> {
    lane.query(DELETE_FROM, &[&session.as_str(), &message.as_str()]).await.map(drop)
}

pub(super) async fn list(lane: &Lane, session: SessionId) -> Result<Vec<Arc<Message>>, Fault> {
    lane.query(LIST, &[&session.as_str()]).await?.iter().map(|row| read(row, session.clone())).collect()
}

/// The number of a message, if it exists.
async fn number(lane: &Lane, session: &SessionId, message: &MessageId) -> Result<Option<i64>, Fault> {
    let rows = lane.query(NUMBER, &[&session.as_str(), &message.as_str()]).await?;
    Ok(rows.first().map(|row| row.try_get(0)).transpose()?)
}

pub(super) async fn list_after(
    lane: &Lane,
    session: SessionId,
    after: Option<MessageId>,
    most: Most,
) -> Result<Option<Page<Arc<Message>>>, Fault> {
    let start = match after {
        Some(after) => number(lane, &session, &after).await?,
        None => lane.query(SESSION, &[&session.as_str()]).await?.first().map(|_| -1),
    };
    let Some(start) = start else { return Ok(None) };
    let (items, bytes) = (integer(most.items.saturating_add(1)), integer(most.bytes));
    let rows = lane.query(LIST_AFTER, &[&session.as_str(), &start, &items, &bytes]).await?;
    let read = |row: &Row| {
        let size: i64 = row.try_get(5)?;
        Ok::<_, Fault>((usize::try_from(size).unwrap_or(usize::MAX), read(row, session.clone())?))
    };
    Page::fill(rows.iter().map(read), most).map(Some)
}

pub(super) async fn newest_before(
    lane: &Lane,
    session: SessionId,
    before: Option<MessageId>,
    most: usize,
) -> Result<Option<Vec<MessageId>>, Fault> {
    let end = match before {
        Some(before) => number(lane, &session, &before).await?,
        None => Some(i64::MAX),
    };
    let Some(end) = end else { return Ok(None) };
    let rows = lane.query(NEWEST_BEFORE, &[&session.as_str(), &end, &integer(most)]).await?;
    rows.iter().map(|row| name(row, 0, "message", MessageId::parse)).collect::<Result<_, _>>().map(Some)
}

pub(super) async fn open(lane: &Lane) -> Result<Vec<Arc<Message>>, Fault> {
    let rows = lane.query(OPEN, &[]).await?;
    rows.iter().map(|row| read(row, name(row, 5, "message", SessionId::parse)?)).collect()
}

fn read(row: &Row, session: SessionId) -> Result<Arc<Message>, Fault> {
    let (ids, bodies): (Vec<&str>, Vec<&str>) = (row.try_get(3)?, row.try_get(4)?);
    let unreadable = |place: usize, cause: &dyn std::fmt::Display| {
        let id = ids.get(place).copied().unwrap_or_default().to_owned();
        Fault::Row { table: "part", id, cause: cause.to_string() }
    };
    let part = |(place, (id, body)): (usize, (&&str, &&str))| {
        let id = PartId::parse(id).map_err(|error| unreadable(place, &error))?;
        let body = serde_json::from_str(body).map_err(|error| unreadable(place, &error))?;
        Ok(Arc::new(Part { id, body }))
    };
    let created: i64 = row.try_get(1)?;
    Ok(Arc::new(Message {
        session,
        id: name(row, 0, "message", MessageId::parse)?,
        created: Time(created.cast_unsigned()),
        role: json(row, 2, "message")?,
        parts: ids.iter().zip(&bodies).enumerate().map(part).collect::<Result<_, Fault>>()?,
    }))
}
