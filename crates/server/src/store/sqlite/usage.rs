//! How much is kept. What a session takes, with its messages and runs, is in its row; what clients have, and all of it, is
//! added up in memory. Bytes are those of the texts.
//!
//! A row is not written for this alone with every message, but with the session, or a moment later. So after a crash the
//! rows of the sessions that were written to last may say too little: those are counted anew when the file is opened.

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
    "UPDATE session SET bytes = octet_length(content)
        + (SELECT coalesce(sum(octet_length(role)), 0) FROM message WHERE message.session = session.number)
        + (SELECT coalesce(sum(octet_length(body)), 0) FROM message CROSS JOIN part ON ",
    of_message!(),
    "       WHERE message.session = session.number)
        + (SELECT coalesce(sum(octet_length(run.content)), 0) FROM run WHERE run.session = session.number)
        + (SELECT coalesce(sum(octet_length(event)), 0) FROM run CROSS JOIN run_event ON run_event.run = run.number
            WHERE run.session = session.number)
    WHERE number IN (SELECT session FROM message WHERE unanswered UNION SELECT session FROM run WHERE unfinished
        UNION SELECT session FROM (SELECT session FROM message ORDER BY number DESC LIMIT ?1)
        UNION SELECT session FROM (SELECT session FROM run ORDER BY number DESC LIMIT ?1))"
);

/// How long what was added to sessions may be missing in their rows.
pub(super) const WRITTEN_WITHIN: Duration = Duration::from_secs(1);
/// Of how many sessions it may.
const MOST_UNWRITTEN: usize = 1_024;

/// How much clients have, and all of them together: what was committed.
#[derive(Debug, Default)]
pub(super) struct Totals(Mutex<Added>);

#[derive(Debug, Default)]
struct Added {
    bytes: i64,
    /// Those that have something.
    clients: HashMap<ClientId, OfClient>,
}

#[derive(Debug, Default)]
struct OfClient {
    sessions: i64,
    bytes: i64,
}

impl Totals {
    fn lock(&self) -> MutexGuard<'_, Added> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much a client has, and how much there is.
    pub(super) fn of(&self, client: Option<&ClientId>) -> StorageUsed {
        let added = self.lock();
        let of_client = client.and_then(|client| added.clients.get(client));
        StorageUsed {
            bytes: unsigned(added.bytes),
            client_sessions: of_client.map_or(0, |of_client| unsigned(of_client.sessions)),
            client_bytes: of_client.map_or(0, |of_client| unsigned(of_client.bytes)),
        }
    }
}

impl Added {
    fn add(&mut self, Change { client, sessions, bytes }: Change) {
        self.bytes += bytes;
        let Some(client) = client else { return };
        let of_client = self.clients.entry(client.clone()).or_default();
        of_client.sessions += sessions;
        of_client.bytes += bytes;
        if of_client.sessions == 0 {
            self.clients.remove(&client);
        }
    }
}

/// Counts what transactions change.
#[derive(Debug)]
pub(super) struct Counter {
    totals: Arc<Totals>,
    /// What was committed and is not in the rows yet.
    unwritten: HashMap<SessionId, Unwritten>,
    /// Since when there is something unwritten.
    since: Option<Instant>,
    current: Current,
}

#[derive(Debug)]
struct Unwritten {
    client: Option<ClientId>,
    bytes: i64,
}

/// The transaction under way.
#[derive(Debug, Default)]
struct Current {
    /// Bytes that were added to sessions.
    added: HashMap<SessionId, i64>,
    /// Sessions whose rows have all that was committed.
    written: HashSet<SessionId>,
    /// What becomes unwritten.
    unwritten: Vec<(SessionId, Unwritten)>,
    changes: Vec<Change>,
}

/// Something was added, or taken away.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) client: Option<ClientId>,
    pub(super) sessions: i64,
    pub(super) bytes: i64,
}

/// What is missing in the row of a session.
#[derive(Debug)]
pub(super) struct Missing {
    /// Committed, and counted.
    pub(super) counted: i64,
    /// Added by this transaction.
    pub(super) added: i64,
}

impl Counter {
    /// Adds up what is there; if the file was not closed, what was written to last is counted anew.
    pub(super) fn new(connection: &Connection, was_closed: bool) -> Result<Self, Fault> {
        let newest = if was_closed { 0 } else { MOST_UNWRITTEN };
        if let Err(error) = connection.execute(RECOUNT, [integer(newest)]) {
            // A file that is damaged somewhere can be used elsewhere.
            tracing::warn!(%error, "what sessions take could not be counted anew");
        }
        let mut added = Added::default();
        let mut statement = connection.prepare(ALL)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            added.add(Change { client: client_of(row)?, sessions: row.get(1)?, bytes: row.get(2)? });
        }
        let totals = Arc::new(Totals(Mutex::new(added)));
        Ok(Self { totals, unwritten: HashMap::default(), since: None, current: Current::default() })
    }

    pub(super) fn totals(&self) -> Arc<Totals> {
        self.totals.clone()
    }

    /// A session takes so many bytes more, or less.
    pub(super) fn add(&mut self, session: &SessionId, bytes: i64) {
        if bytes != 0 {
            *self.current.added.entry(session.clone()).or_default() += bytes;
        }
    }

    /// What is missing in the row of a session: whoever asks writes it, or needs it no more.
    pub(super) fn take(&mut self, session: &SessionId) -> Missing {
        let added = self.current.added.remove(session).unwrap_or_default();
        let counted = match self.unwritten.get(session) {
            Some(unwritten) if self.current.written.insert(session.clone()) => unwritten.bytes,
            _ => 0,
        };
        Missing { counted, added }
    }

    /// What a transaction changes besides.
    pub(super) fn note(&mut self, change: Change) {
        self.current.changes.push(change);
    }

    /// Counts what the transaction has added to sessions, before it is committed. One that is gone takes nothing.
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

    /// Writes what was committed and is not in the rows yet.
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

    /// Whether there is something that is not in the rows yet.
    pub(super) fn has_unwritten(&self) -> bool {
        !self.unwritten.is_empty()
    }

    /// It is committed.
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

    /// It is rolled back.
    pub(super) fn forget(&mut self) {
        self.current = Current::default();
    }
}

/// A sum. One that a crash has made too low may go below nothing.
fn unsigned(sum: i64) -> u64 {
    u64::try_from(sum).unwrap_or_default()
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
