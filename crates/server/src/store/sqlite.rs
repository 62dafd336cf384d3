//! The store in one SQLite file.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `open` | finds, creates, locks and prepares the file |
//! | `guard` | checks that the file is still the one that was opened |
//! | `schema` | the versions of the file and the migrations between them |
//! | `operation` | one read or write, and where its reply goes |
//! | `queue` | the operations that wait, bounded |
//! | `writer` | the thread that writes: one transaction for all that wait |
//! | `checkpoint` | checkpoints of the write-ahead log, beside the writer |
//! | `database` | the file as the writer sees it |
//! | `upkeep` | backups and checks of the whole file |
//! | `usage` | how many bytes sessions and clients take |
//! | `sessions`, `messages`, `runs`, `calls`, `clients` | the rows of the file |

mod calls;
mod checkpoint;
mod clients;
mod database;
mod guard;
mod messages;
mod open;
mod operation;
mod queue;
mod runs;
mod schema;
mod sessions;
mod upkeep;
mod usage;
mod writer;

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use handback_core::id::{ClientId, MessageId, RequestId, RunId, SessionId, ToolName};
use handback_core::store::{
    Begun, CallFilter, CallPage, CallStore, Ended, FinishedCall, IfFull, JournaledCall, Message, Most, Outcome, Page,
    RunStore, Session, SessionFilter, SessionPlace, SessionStore, StorageUsed, StoreError, StoreFuture, StoredClient,
    StoredTool, ThreadRun, weight,
};
use rusqlite::Connection;
use tokio::sync::watch;

use self::database::{Database, Fault};
use self::operation::Reply;
use self::queue::{AbandonOnDrop, Queue, Refused};
use self::usage::Totals;
use self::writer::Writer;
use crate::store::probe::Probe;
use crate::store::rank::Rank;

pub use self::open::OpenError;
pub use self::upkeep::{Checked, Glance, back_up, check, glance};

/// How many threads read.
const READERS: usize = 2;

/// About how many bytes a small operation takes in the queue.
const SMALL: usize = 512;

/// How much a [`Sqlite`] takes and keeps. Sessions are kept until they are deleted.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// How many finished calls are kept. Beyond it the oldest are deleted, some at a time.
    pub calls: usize,
    /// About how many bytes of finished calls are kept. Beyond it the oldest are deleted, some at a time.
    pub call_bytes: u64,
    /// How long finished calls are kept.
    pub call_age: Duration,
    /// The size of the file. A write that would exceed it fails, and can be tried again after something was deleted.
    pub file_bytes: u64,
    /// How many operations wait. Beyond it they fail at once.
    pub queued: usize,
    /// About how many bytes wait to be written. Beyond it writes fail at once.
    pub queued_bytes: usize,
    /// Whether a write is acknowledged after the disk has it, so that it survives a power cut.
    pub waits_for_disk: bool,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            calls: 1_000_000,
            call_bytes: 4 << 30,
            call_age: Duration::from_hours(7 * 24),
            file_bytes: 64 << 30,
            queued: 65_536,
            queued_bytes: 256 << 20,
            waits_for_disk: false,
        }
    }
}

/// What a [`Sqlite`] has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Operations that wait.
    pub queued: usize,
    /// Transactions that were committed. Under load each holds many writes.
    pub commits: u64,
}

/// A store in a SQLite file.
///
/// One thread writes. It takes the operations that wait, runs them in one transaction, and completes the futures of the
/// writes after the commit. Other threads read, and wait for nobody. Only a read that must see writes that are not
/// committed yet goes through the writer's queue, behind them. If those writes then fail to commit, their callers get an
/// error although the read showed them.
///
/// A write whose future has completed survives the end of the process, however sudden, because the system has it. Unless
/// [`Bounds::waits_for_disk`] says otherwise, it does not wait for the disk (`synchronous=NORMAL`), so a power cut or a crash of
/// the system may undo the last moments before it. The file is consistent all the same.
///
/// Dropping it does what [`Sqlite::close`] does, and blocks until that is done.
pub struct Sqlite {
    queue: Arc<Queue>,
    /// The file's name, for errors.
    file: Arc<str>,
    commits: Arc<AtomicU64>,
    /// The result of closing, once the thread is done.
    closed: watch::Receiver<Option<Result<(), String>>>,
    thread: Option<JoinHandle<()>>,
    probe: Probe,
    totals: Arc<Totals>,
}

impl fmt::Debug for Sqlite {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Sqlite").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Sqlite {
    /// Opens a file, and creates it and its directory if they do not exist.
    ///
    /// It blocks, mostly for moments; a file of an older version is migrated.
    pub fn open(path: &Path, bounds: Bounds) -> Result<Self, OpenError> {
        let (mut database, path) = open::open(path, &bounds)?;
        let unusable = |fault: Fault| OpenError::unusable(&path, fault);
        let spawn_failed = |error: io::Error| OpenError::unusable(&path, error);
        let file: Arc<str> = path.to_string_lossy().into();
        let (queue, commits, totals) = (Arc::new(Queue::new(&bounds)), Arc::default(), database.counter.totals());
        let abandon = AbandonOnDrop(queue.clone());
        let connection = open::connect(&path).map_err(unusable)?;
        let checkpointer = checkpoint::watch(&mut database.connection).map_err(unusable)?;
        let mut others = vec![spawn("handback-ckpt", move || checkpointer.run(&connection)).map_err(spawn_failed)?];
        for _ in 0..READERS {
            let connection = open::connect_reader(&path).map_err(unusable)?;
            let abandon = AbandonOnDrop(queue.clone());
            let run = move || {
                while let Some(read) = abandon.0.take_read() {
                    read(&connection);
                }
            };
            others.push(spawn("handback-read", run).map_err(spawn_failed)?);
        }
        let writer = Writer {
            database,
            queue: queue.clone(),
            bounds,
            file: file.clone(),
            commits: Arc::clone(&commits),
            is_stuck: false,
            others,
        };
        let (done, closed) = watch::channel(None);
        let run = move || {
            let _abandon = abandon;
            // The store may be dropped, and nobody waits for the result.
            _ = done.send(Some(writer.run()));
        };
        let thread = Some(spawn("handback-store", run).map_err(spawn_failed)?);
        Ok(Self { queue, file, commits, closed, thread, probe: Probe::default(), totals })
    }

    /// Runs what waits, refuses anything new, and closes the file. When this ends without an error, everything that was
    /// accepted is in the one file, and another process can open it.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        match self.closed.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(cause))) => Err(StoreError::Failed(cause.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(closed(&self.file)),
        }
    }

    /// Tries whether something can be written. Those who ask at about the same time share one try. While writes wait for
    /// room, nothing is tried: something small may fit.
    pub async fn is_writable(&self) -> bool {
        if self.queue.has_postponed() {
            return false;
        }
        self.probe.is_writable(|| self.write(None, SMALL, Rank::Fails, Database::probe)).await
    }

    /// What it has done so far.
    pub fn figures(&self) -> Figures {
        Figures { queued: self.queue.len(), commits: self.commits.load(Ordering::Relaxed) }
    }

    /// Reads one session, or several. The read is queued now, as writes are, and not when the future is polled: that
    /// gives the order.
    fn read<T, F>(&self, session: Option<&SessionId>, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (read, reply) = operation::read(&self.file, work);
        self.wait(self.queue.read(session, read), reply)
    }

    /// Reads one session.
    fn read_session<T, F>(&self, session: &SessionId, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection, &SessionId) -> Result<T, Fault> + Send + 'static,
    {
        let id = session.clone();
        self.read(Some(session), move |connection| work(connection, &id))
    }

    /// Writes about so many bytes, to a session if one is named.
    fn write<T, F>(&self, session: Option<&SessionId>, bytes: usize, rank: Rank, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
    {
        let (write, reply) = operation::write(work);
        self.wait(self.queue.write(session.cloned(), bytes, rank, write), reply)
    }

    /// Saves a value of a session, which has about so many bytes.
    fn save<V: Send + Sync + 'static>(
        &self,
        session: &SessionId,
        bytes: usize,
        if_full: IfFull,
        value: &Arc<V>,
        save: fn(&mut Database, &V) -> Result<(), Fault>,
    ) -> StoreFuture<()> {
        let value = value.clone();
        self.write(Some(session), bytes, if_full.into(), move |database| save(database, &value))
    }

    fn wait<T: Send + 'static>(&self, queued: Result<(), Refused>, reply: Reply<T>) -> StoreFuture<T> {
        let file = self.file.clone();
        Box::pin(async move {
            match queued {
                Ok(()) => reply.await.unwrap_or_else(|_| Err(closed(&file))),
                Err(Refused::Closed) => Err(closed(&file)),
                Err(Refused::Full) => {
                    Err(StoreError::Unavailable(format!("{file}: too many operations wait to be written")))
                }
            }
        })
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.queue.close();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!(file = %self.file, "the thread of the store panicked");
        }
    }
}

impl CallStore for Sqlite {
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun> {
        let (session, bytes, call) = (&call.head.session, weight::of_head(&call.head), call.clone());
        self.write(Some(session), bytes, if_full.into(), move |database| calls::begin(database, &call))
    }

    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()> {
        let (session, bytes, call) = (&call.head.session, weight::of_head(&call.head), call.clone());
        self.write(Some(session), bytes, if_full.into(), move |database| calls::begin(database, &call).map(drop))
    }

    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>> {
        self.read(None, calls::open)
    }

    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()> {
        let bytes = |(_, tool): &(ToolName, Option<StoredTool>)| {
            SMALL + tool.as_ref().map_or(0, |tool| tool.schema.get().len() + tool.description.len())
        };
        let bytes = SMALL + tools.iter().map(bytes).sum::<usize>();
        self.write(None, bytes, Rank::Fails, move |database| clients::save(database, &client, &tools))
    }

    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>> {
        self.read(None, clients::list)
    }

    fn is_lasting(&self) -> bool {
        true
    }

    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended> {
        let (session, bytes, call) = (&call.head.session, weight::of_call(call), call.clone());
        self.write(Some(session), bytes, if_full.into(), move |database| calls::finish(database, &call))
    }

    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool> {
        let request = request.clone();
        let bytes = weight::of_outcome(&late);
        self.write(None, bytes, Rank::Fails, move |database| calls::keep_late(database, &request, &late))
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        let request = request.clone();
        self.read(None, move |connection| calls::finished(connection, &request))
    }

    fn list_finished(&self, filter: &CallFilter, before: Option<u64>, most: Most) -> StoreFuture<CallPage> {
        let filter = filter.clone();
        self.read(None, move |connection| calls::list(connection, &filter, before, most))
    }
}

impl SessionStore for Sqlite {
    fn save_session(&self, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()> {
        self.save(&session.id, weight::of_session(session), if_full, session, sessions::save)
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        self.read_session(session, sessions::find)
    }

    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>> {
        let (filter, after) = (filter.clone(), after.cloned());
        self.read(None, move |connection| sessions::list(connection, &filter, after.as_ref(), most))
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let id = session.clone();
        self.write(Some(session), SMALL, Rank::MakesRoom, move |database| sessions::delete(database, &id))
    }

    fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        let session = messages.first().map(|message| message.session.clone());
        let bytes = messages.iter().map(|message| weight::of_message(message)).sum();
        self.write(session.as_ref(), bytes, if_full.into(), move |database| {
            messages.iter().try_for_each(|message| messages::save(database, message))
        })
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        self.read_session(session, messages::list)
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        let after = after.cloned();
        self.read_session(session, move |connection, id| messages::list_after(connection, id, after.as_ref(), most))
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        let before = before.cloned();
        self.read_session(session, move |connection, id| messages::newest_before(connection, id, before.as_ref(), most))
    }

    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()> {
        self.save(&message.session, weight::of_message(message), IfFull::Fails, message, |database, message| {
            messages::delete_from(database, &message.session, &message.id)?;
            messages::save(database, message)
        })
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        Box::pin(std::future::ready(Ok(self.totals.of(client))))
    }

    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>> {
        self.read(None, messages::open)
    }
}

impl RunStore for Sqlite {
    fn save_run(&self, run: &Arc<ThreadRun>, if_full: IfFull) -> StoreFuture<()> {
        self.save(&run.session, weight::of_run(run), if_full, run, runs::save)
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        let run = run.clone();
        self.read_session(session, move |connection, id| runs::find(connection, id, &run))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read_session(session, runs::list)
    }

    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let (id, run, bytes) = (session.clone(), run.clone(), SMALL + weight::of_events(&events));
        self.write(Some(session), bytes, Rank::Waits, move |database| {
            runs::append_events(database, &id, &run, first, &events)
        })
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        let run = run.clone();
        self.read_session(session, move |connection, id| runs::events(connection, id, &run, from))
    }

    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read(None, runs::unfinished)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name(name.to_owned()).spawn(work)
}

fn closed(file: &str) -> StoreError {
    StoreError::Unavailable(format!("{file}: the store is closed"))
}

#[cfg(test)]
mod tests;
