//! How many bytes are stored. The row of a session has the bytes of its texts, with its messages and runs; the sums of each
//! client and of everything are in memory.
//!
//! A message does not write the row of its session: the row is written with the session, or a moment later. So after a
//! crash the rows of the last changed sessions may have too few bytes. They are counted again when there is time, so that a
//! start does not depend on how much is stored.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_core::id::{ClientId, SessionId};
use handback_core::store::StorageUsed;
use rusqlite::{Connection, Error, OptionalExtension, Row, params};
use tokio::time::Instant;

use super::database::{Fault, integer, name};
use super::messages::of_message;

const ALL: &str = "SELECT client, count(*), coalesce(sum(bytes), 0) FROM session GROUP BY client";

const CLIENT: &str = "SELECT client FROM session WHERE id = ?1";

const ADD: &str = "UPDATE session SET bytes = bytes + ?2 WHERE id = ?1";

const RECOUNT: &str = concat!(
    "SELECT session.client, session.bytes, octet_length(content)
        + (SELECT coalesce(sum(octet_length(role)), 0) FROM message WHERE message.session = session.number)
        + (SELECT coalesce(sum(octet_length(body)), 0) FROM message CROSS JOIN part ON ",
    of_message!(),
    "       WHERE message.session = session.number)
        + (SELECT coalesce(sum(octet_length(run.content)), 0) FROM run WHERE run.session = session.number)
        + (SELECT coalesce(sum(octet_length(event)), 0) FROM run CROSS JOIN run_event ON run_event.run = run.number
            WHERE run.session = session.number)
    FROM session WHERE id = ?1"
);

const SET: &str = "UPDATE session SET bytes = ?2 WHERE id = ?1";

/// The sessions whose rows may lack bytes after a crash.
const UNSURE: &str = "SELECT id FROM session WHERE number IN (
        SELECT session FROM message WHERE open UNION SELECT session FROM run WHERE unfinished
        UNION SELECT session FROM (SELECT session FROM message ORDER BY number DESC LIMIT ?1)
        UNION SELECT session FROM (SELECT session FROM run ORDER BY number DESC LIMIT ?1))";

/// How long a session's row may lack bytes that are committed.
pub(super) const WRITTEN_WITHIN: Duration = Duration::from_secs(1);
/// How many sessions' rows may lack bytes.
const MOST_UNWRITTEN: usize = 1_024;

/// The sums of what is committed.
#[derive(Default)]
pub(super) struct Totals(Mutex<Sums>);

#[derive(Default)]
struct Sums {
    bytes: i64,
    /// The sessions and bytes of each client that has any.
    clients: HashMap<ClientId, (i64, i64)>,
}

impl Totals {
    fn lock(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much a client has, and how much there is.
    pub(super) fn of(&self, client: Option<&ClientId>) -> StorageUsed {
        let sums = self.lock();
        let (sessions, bytes) = client.and_then(|client| sums.clients.get(client)).copied().unwrap_or_default();
        // A crash can make a sum too low, even negative.
        let [bytes, client_sessions, client_bytes] =
            [sums.bytes, sessions, bytes].map(|sum| u64::try_from(sum).unwrap_or_default());
        StorageUsed { bytes, client_sessions, client_bytes }
    }
}

impl Sums {
    fn add(&mut self, change: Change) {
        self.bytes += change.bytes;
        let Some(client) = change.client else { return };
        let (sessions, bytes) = self.clients.entry(client.clone()).or_default();
        *sessions += change.sessions;
        *bytes += change.bytes;
        if *sessions == 0 {
            self.clients.remove(&client);
        }
    }
}

/// Counts what transactions change.
pub(super) struct Counter {
    totals: Arc<Totals>,
    /// The bytes that are committed and not in the rows yet.
    unwritten: HashMap<SessionId, Unwritten>,
    /// Since when there is something unwritten.
    since: Option<Instant>,
    /// The sessions to count again.
    unsure: Vec<SessionId>,
    current: Current,
}

struct Unwritten {
    client: Option<ClientId>,
    bytes: i64,
}

/// The open transaction.
#[derive(Default)]
struct Current {
    /// The bytes that it adds to sessions.
    added: HashMap<SessionId, i64>,
    /// The sessions whose unwritten bytes it writes to their rows.
    written: HashSet<SessionId>,
    /// The bytes that it leaves unwritten.
    unwritten: Vec<(SessionId, Unwritten)>,
    changes: Vec<Change>,
}

/// A change of the sums.
pub(super) struct Change {
    pub(super) client: Option<ClientId>,
    pub(super) sessions: i64,
    pub(super) bytes: i64,
}

/// The bytes that the row of a session lacks.
pub(super) struct Missing {
    /// Those that are committed.
    pub(super) counted: i64,
    /// Those that the open transaction adds.
    pub(super) added: i64,
}

impl Counter {
    /// Adds up what the file has. If it was not closed, the last changed sessions are to be counted again.
    pub(super) fn new(connection: &Connection, was_closed: bool) -> Result<Self, Fault> {
        let totals = Arc::new(Totals::default());
        let read = |row: &Row<'_>| Ok(Change { client: client_of(row)?, sessions: row.get(1)?, bytes: row.get(2)? });
        for change in connection.prepare(ALL)?.query_map([], read)? {
            totals.lock().add(change?);
        }
        let unsure = if was_closed { Ok(Vec::new()) } else { last_changed(connection) };
        // The undamaged parts of a damaged file can still be used.
        let unsure = unsure.unwrap_or_else(|error| {
            tracing::warn!(%error, "what sessions take cannot be counted anew");
            Vec::new()
        });
        Ok(Self { totals, unwritten: HashMap::default(), since: None, unsure, current: Current::default() })
    }

    /// Takes a session that is to be counted again.
    pub(super) fn next_unsure(&mut self) -> Option<SessionId> {
        self.unsure.pop()
    }

    /// Whether sessions are to be counted again.
    pub(super) fn is_unsure(&self) -> bool {
        !self.unsure.is_empty()
    }

    /// Counts a session again, in a transaction.
    pub(super) fn recount(&mut self, connection: &Connection, session: &SessionId) -> Result<(), Fault> {
        let read = |row: &Row<'_>| Ok((client_of(row)?, row.get::<_, i64>(1)?, row.get::<_, i64>(2)?));
        let Some((client, before, now)) = connection.query_row(RECOUNT, [session.as_str()], read).optional()? else {
            return Ok(());
        };
        let known = before + self.take(session).counted;
        connection.execute(SET, params![session.as_str(), now])?;
        self.note(Change { client, sessions: 0, bytes: now - known });
        Ok(())
    }

    pub(super) fn totals(&self) -> Arc<Totals> {
        self.totals.clone()
    }

    /// Adds bytes to a session, or takes them away.
    pub(super) fn add(&mut self, session: &SessionId, bytes: i64) {
        if bytes != 0 {
            *self.current.added.entry(session.clone()).or_default() += bytes;
        }
    }

    /// Takes the bytes that the row of a session lacks. The caller writes them, or deletes the row.
    pub(super) fn take(&mut self, session: &SessionId) -> Missing {
        let added = self.current.added.remove(session).unwrap_or_default();
        let counted = match self.unwritten.get(session) {
            Some(unwritten) if self.current.written.insert(session.clone()) => unwritten.bytes,
            _ => 0,
        };
        Missing { counted, added }
    }

    /// Adds a change of the sums to the open transaction.
    pub(super) fn note(&mut self, change: Change) {
        self.current.changes.push(change);
    }

    /// Counts what the open transaction adds to sessions that still exist. This comes before the commit.
    pub(super) fn count(&mut self, connection: &Connection) -> Result<(), Fault> {
        for (session, bytes) in self.current.added.drain() {
            let client = match self.unwritten.get(&session).filter(|_| !self.current.written.contains(&session)) {
                Some(unwritten) => unwritten.client.clone(),
                None => {
                    let mut statement = connection.prepare_cached(CLIENT)?;
                    match statement.query_row([session.as_str()], client_of).optional()? {
                        Some(client) => client,
                        None => continue,
                    }
                }
            };
            self.current.changes.push(Change { client: client.clone(), sessions: 0, bytes });
            self.current.unwritten.push((session, Unwritten { client, bytes }));
        }
        let is_due = self.since.is_some_and(|since| since.elapsed() >= WRITTEN_WITHIN);
        if is_due || self.unwritten.len() > MOST_UNWRITTEN { self.write(connection) } else { Ok(()) }
    }

    /// Writes the unwritten bytes to their rows.
    pub(super) fn write(&mut self, connection: &Connection) -> Result<(), Fault> {
        self.since = None;
        let mut add = connection.prepare_cached(ADD)?;
        for (session, Unwritten { bytes, .. }) in &self.unwritten {
            if self.current.written.insert(session.clone()) {
                add.execute(params![session.as_str(), bytes])?;
            }
        }
        Ok(())
    }

    /// Whether there are unwritten bytes.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// Takes over the changes of the transaction, which is committed.
    pub(super) fn commit(&mut self) {
        let Current { added: _, written, unwritten, changes } = std::mem::take(&mut self.current);
        let mut totals = self.totals.lock();
        changes.into_iter().for_each(|change| totals.add(change));
        drop(totals);
        for session in &written {
            self.unwritten.remove(session);
        }
        for (session, Unwritten { client, bytes }) in unwritten {
            self.unwritten.entry(session).or_insert(Unwritten { client, bytes: 0 }).bytes += bytes;
        }
        let now = || Some(Instant::now());
        self.since = if self.unwritten.is_empty() { None } else { self.since.or_else(now) };
    }

    /// Forgets the changes of the transaction, which is rolled back.
    pub(super) fn forget(&mut self) {
        self.current = Current::default();
    }
}

/// The sessions that were changed last.
fn last_changed(connection: &Connection) -> Result<Vec<SessionId>, Error> {
    let id = |row: &Row<'_>| name(row, 0, SessionId::parse);
    connection.prepare(UNSURE)?.query_map([integer(MOST_UNWRITTEN)], id)?.collect()
}

/// The client in the first column, if there is one.
pub(super) fn client_of(row: &Row<'_>) -> Result<Option<ClientId>, Error> {
    match row.get_ref(0)?.as_str_or_null()? {
        Some(_) => name(row, 0, ClientId::parse).map(Some),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
