//! The store in one SQLite file.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `open` | finding, making, locking and preparing the file |
//! | `guard` | whether the file is still the one that was opened |
//! | `probe` | whether something can be written |
//! | `schema` | versions of the file and how one becomes the next |
//! | `queue` | operations that wait, bounded |
//! | `operation` | one operation, and where its answer goes |
//! | `writer` | the thread that writes: one transaction for all that wait |
//! | `reader` | a thread that only reads |
//! | `checkpoint` | checkpoints of the write-ahead log, beside the writer |
//! | `database` | the file as the writer sees it |
//! | `usage` | how much is kept |
//! | `sessions`, `messages`, `runs`, `calls` | what is in the file |
//! | `forms` | the JSON of what the core has no serde form for |

mod calls;
mod checkpoint;
mod database;
mod forms;
mod guard;
mod messages;
mod open;
mod operation;
mod probe;
mod queue;
mod reader;
mod runs;
mod schema;
mod sessions;
mod usage;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use handback_core::id::{ClientId, MessageId, RequestId, RunId, SessionId};
use handback_core::store::{
    CallFilter, CallHead, CallStore, FinishedCall, Message, Most, Page, RunStore, Session, SessionFilter, SessionPlace,
    SessionStore, StorageUsed, StoreError, StoreFuture, ThreadRun, weight,
};
use rusqlite::Connection;
use tokio::sync::watch;

use self::checkpoint::Checkpoints;
use self::database::{Database, Fault};
use self::operation::Answer;
use self::probe::Probe;
use self::queue::{Queue, Refused};
use self::reader::Reader;
use self::usage::Totals;
use self::writer::Writer;

pub use self::open::OpenError;

/// How many threads read.
const READERS: usize = 2;

/// About how many bytes an operation takes in the queue that carries next to nothing.
const SMALL: usize = 512;

/// How much a [`Sqlite`] takes and keeps. Sessions are kept until they are deleted.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Finished calls that are kept; then the oldest are forgotten, some at a time.
    pub calls: usize,
    /// About how many bytes of finished calls are kept; likewise.
    pub call_bytes: u64,
    /// The size of the file; what would make it larger fails, and can be done again after something was deleted.
    pub file_bytes: u64,
    /// Operations that wait to be done; more fail at once.
    pub queued: usize,
    /// About how many bytes wait to be written; while it is more, operations fail at once.
    pub queued_bytes: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { calls: 10_000, call_bytes: 1 << 30, file_bytes: 64 << 30, queued: 65_536, queued_bytes: 256 << 20 }
    }
}

/// What a [`Sqlite`] has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Operations that wait.
    pub queued: usize,
    /// Transactions that were committed; with many writes at a time each holds many.
    pub commits: u64,
}

/// A store in a SQLite file.
///
/// One thread writes. It takes what waits, runs it in one transaction, and ends the futures of the writes after the
/// commit. Other threads read, and wait for nobody. Only a read that is to see writes that are not over yet passes through
/// the writer's queue, behind them: what it shows may still fail to be committed, as its writer will be told.
///
/// A write whose future has ended survives the end of the process, however sudden: the system has it. It is not waited
/// for until the disk has it (`synchronous=NORMAL`), so a power cut or a crash of the system may take the last moments
/// before it; what is left is whole all the same.
///
/// Dropping it does what [`Sqlite::close`] does, and blocks until that is done.
#[derive(Debug)]
pub struct Sqlite {
    queue: Arc<Queue>,
    bounds: Bounds,
    /// The file's name, for errors.
    file: Arc<str>,
    commits: Arc<AtomicU64>,
    /// How much of finished calls came since the oldest were last forgotten.
    unpruned: AtomicU64,
    /// What came of closing, once the thread is done.
    closed: watch::Receiver<Option<Result<(), String>>>,
    thread: Option<JoinHandle<()>>,
    probe: Probe,
    totals: Arc<Totals>,
}

impl Sqlite {
    /// Opens a file, and makes it with its directory if there is none. Calls that an earlier process left under way
    /// are ended as cancelled.
    ///
    /// It blocks, for moments mostly; a version of the file that is older than the server's is brought up to date.
    pub fn open(path: &Path, bounds: Bounds) -> Result<Self, OpenError> {
        let (mut database, path) = open::open(path, &bounds)?;
        let file: Arc<str> = path.to_string_lossy().into();
        let (queue, commits, totals) = (Arc::new(Queue::new(&bounds)), Arc::default(), database.counter.totals());
        let unusable = |cause: String| OpenError::Unusable { path: path.clone(), cause };
        let (mut others, checkpoints) = (Vec::new(), Arc::new(Checkpoints::default()));
        let beside = open::connect_beside(&path).map_err(|fault| unusable(fault.to_string()))?;
        checkpoints.watch(&mut database.connection).map_err(|fault| unusable(fault.to_string()))?;
        let run = checkpoints.clone();
        others.push(spawn("handback-ckpt", move || run.run(&beside)).map_err(unusable)?);
        for _ in 0..READERS {
            let connection = open::connect_reader(&path).map_err(|fault| unusable(fault.to_string()))?;
            let reader = Reader { connection, queue: queue.clone(), file: file.clone() };
            others.push(spawn("handback-read", move || reader.run()).map_err(unusable)?);
        }
        let writer = Writer {
            database,
            queue: queue.clone(),
            file: file.clone(),
            commits: Arc::clone(&commits),
            checkpoints,
            others,
        };
        let (done, closed) = watch::channel(None);
        let work = move || {
            let result = writer.run();
            // Nobody may care any more.
            _ = done.send(Some(result));
        };
        let thread = Some(spawn("handback-store", work).map_err(unusable)?);
        let (unpruned, probe) = (AtomicU64::new(0), Probe::default());
        Ok(Self { queue, bounds, file, commits, unpruned, closed, thread, probe, totals })
    }

    /// Does what waits, takes nothing new, and closes the file: when this has ended without an error, everything that
    /// was accepted is in the one file, and another process can open it.
    pub async fn close(&self) -> Result<(), StoreError> {
        self.queue.close();
        match self.closed.clone().wait_for(Option::is_some).await.as_deref() {
            Ok(Some(Err(cause))) => Err(StoreError::Failed(cause.clone())),
            Ok(_) => Ok(()),
            Err(_) => Err(gone(&self.file)),
        }
    }

    /// Whether something can be written, tried out; by many who ask at the same time, once.
    pub async fn is_writable(&self) -> bool {
        self.probe.look(|| self.write(Database::probe)).await
    }

    /// What it has done so far.
    pub fn figures(&self) -> Figures {
        Figures { queued: self.queue.len(), commits: self.commits.load(Ordering::Relaxed) }
    }

    /// Reads a session, or anything. Queued now and not when the future is polled, as writes are: that makes the order.
    fn read<T, F>(&self, session: Option<&SessionId>, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let (operation, answer) = operation::read(work);
        self.wait(self.queue.read(session, operation), answer)
    }

    /// Writes to a session.
    fn write_to<T, F>(&self, session: &SessionId, bytes: usize, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
    {
        let (operation, answer) = operation::write(work);
        self.wait(self.queue.write(Some(session.clone()), bytes, operation), answer)
    }

    /// Writes to no session.
    fn write<T, F>(&self, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
    {
        let (operation, answer) = operation::write(work);
        self.wait(self.queue.write(None, SMALL, operation), answer)
    }

    fn wait<T: Send + 'static>(&self, queued: Result<(), Refused>, answer: Answer<T>) -> StoreFuture<T> {
        let file = self.file.clone();
        match queued {
            Ok(()) => Box::pin(async move { answer.await.unwrap_or_else(|_| Err(gone(&file))) }),
            Err(Refused::Closed) => Box::pin(async move { Err(gone(&file)) }),
            Err(Refused::Full) => {
                let cause = format!("{file}: too many operations wait to be written");
                Box::pin(async move { Err(StoreError::Unavailable(cause)) })
            }
        }
    }

    /// Whether enough calls came that the oldest are to be forgotten. Either bound counts: a call is so much of the
    /// allowed bytes as it takes, or as its share is.
    fn prune_is_due(&self, call_bytes: usize) -> bool {
        let share = self.bounds.call_bytes / (self.bounds.calls as u64).max(1);
        let added = share.max(call_bytes as u64);
        let unpruned = self.unpruned.fetch_add(added, Ordering::Relaxed).saturating_add(added);
        let due = unpruned >= self.bounds.call_bytes / 32;
        if due {
            self.unpruned.store(0, Ordering::Relaxed);
        }
        due
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
    fn begin(&self, call: &Arc<CallHead>) -> StoreFuture<()> {
        let call = call.clone();
        self.write_to(&call.session.clone(), weight::of_head(&call), move |database| calls::begin(database, &call))
    }

    fn finish(&self, call: &Arc<FinishedCall>) -> StoreFuture<()> {
        let (call, bytes) = (call.clone(), weight::of_call(call));
        let finished = self.write_to(&call.head.session.clone(), bytes, move |database| calls::finish(database, &call));
        if self.prune_is_due(bytes) {
            let bounds = self.bounds.clone();
            // Nobody waits for this.
            drop(self.write(move |database| calls::prune(database, &bounds)));
        }
        finished
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        let request = request.clone();
        self.read(None, move |connection| calls::finished(connection, &request))
    }

    fn list_finished(
        &self,
        filter: &CallFilter,
        before: Option<u64>,
        most: Most,
    ) -> StoreFuture<Page<(u64, Arc<FinishedCall>)>> {
        let filter = filter.clone();
        self.read(None, move |connection| calls::list(connection, &filter, before, most))
    }
}

impl SessionStore for Sqlite {
    fn save_session(&self, session: &Arc<Session>) -> StoreFuture<()> {
        let session = session.clone();
        self.write_to(&session.id.clone(), weight::of_session(&session), move |database| {
            sessions::save(database, &session)
        })
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        let id = session.clone();
        self.read(Some(session), move |connection| sessions::find(connection, &id))
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
        self.write_to(session, SMALL, move |database| sessions::delete(database, &id))
    }

    fn save_message(&self, message: &Arc<Message>) -> StoreFuture<()> {
        let (message, bytes) = (message.clone(), weight::of_message(message));
        self.write_to(&message.session.clone(), bytes, move |database| messages::save(database, &message))
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        let id = session.clone();
        self.read(Some(session), move |connection| messages::list(connection, &id))
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        let (id, after) = (session.clone(), after.cloned());
        self.read(Some(session), move |connection| messages::list_after(connection, &id, after.as_ref(), most))
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        let (id, before) = (session.clone(), before.cloned());
        self.read(Some(session), move |connection| messages::newest_before(connection, &id, before.as_ref(), most))
    }

    fn delete_messages_from(&self, session: &SessionId, message: &MessageId) -> StoreFuture<()> {
        let (id, message) = (session.clone(), message.clone());
        self.write_to(session, SMALL, move |database| messages::delete_from(database, &id, &message))
    }

    fn keeps_all(&self) -> bool {
        true
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed> {
        let usage = self.totals.of(client);
        Box::pin(async move { Ok(usage) })
    }

    fn unanswered(&self) -> StoreFuture<Vec<Arc<Message>>> {
        self.read(None, messages::unanswered)
    }
}

impl RunStore for Sqlite {
    fn save_run(&self, run: &Arc<ThreadRun>) -> StoreFuture<()> {
        let run = run.clone();
        self.write_to(&run.session.clone(), weight::of_run(&run), move |database| runs::save(database, &run))
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        let (id, run) = (session.clone(), run.clone());
        self.read(Some(session), move |connection| runs::find(connection, &id, &run))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        let id = session.clone();
        self.read(Some(session), move |connection| runs::list(connection, &id))
    }

    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let (id, run) = (session.clone(), run.clone());
        let bytes = SMALL + weight::of_events(&events);
        self.write_to(session, bytes, move |database| runs::append_events(database, &id, &run, first, &events))
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        let (id, run) = (session.clone(), run.clone());
        self.read(Some(session), move |connection| runs::events(connection, &id, &run, from))
    }

    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read(None, runs::unfinished)
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, String> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(|error| error.to_string())
}

fn gone(file: &str) -> StoreError {
    StoreError::Unavailable(format!("{file}: the store is closed"))
}

#[cfg(test)]
mod tests;
