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
//! | `writer` | the thread that owns the file: one transaction for all that wait |
//! | `database` | the file as that thread sees it |
//! | `sessions`, `messages`, `runs`, `calls` | what is in the file |
//! | `forms` | the JSON of what the core has no serde form for |

mod calls;
mod database;
mod forms;
mod guard;
mod messages;
mod open;
mod operation;
mod probe;
mod queue;
mod runs;
mod schema;
mod sessions;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use handback_core::call::{CallHead, FinishedCall};
use handback_core::id::{ClientId, MessageId, RequestId, RunId, SessionId};
use handback_core::message::{Message, Session};
use handback_core::store::{
    CallFilter, Most, Page, SessionFilter, SessionPlace, Store, StoreError, StoreFuture, Usage, weight,
};
use handback_core::thread_run::ThreadRun;
use tokio::sync::watch;

use self::database::{Database, Fault};
use self::operation::{Kind, operation};
use self::probe::Probe;
use self::queue::{Queue, Refused};
use self::writer::Writer;

pub use self::open::OpenError;

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
/// One thread owns the file. It takes what waits, runs it in one transaction, and ends the futures of the writes after
/// the commit; reads pass through the same queue, and so see every write before them. They do not wait for the commit:
/// what a read shows may still fail to be committed, as its writer will be told.
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
}

impl Sqlite {
    /// Opens a file, and makes it with its directory if there is none. Calls that an earlier process left under way
    /// are ended as cancelled.
    ///
    /// It blocks, for moments mostly; a version of the file that is older than the server's is brought up to date.
    pub fn open(path: &Path, bounds: Bounds) -> Result<Self, OpenError> {
        let (database, path) = open::open(path, &bounds)?;
        let file: Arc<str> = path.to_string_lossy().into();
        let (queue, commits) = (Arc::new(Queue::new(&bounds)), Arc::default());
        let writer = Writer { database, queue: Arc::clone(&queue), file: file.clone(), commits: Arc::clone(&commits) };
        let (done, closed) = watch::channel(None);
        let work = move || {
            let result = writer.run();
            // Nobody may care any more.
            _ = done.send(Some(result));
        };
        let thread = thread::Builder::new().name("handback-store".to_owned()).spawn(work);
        let thread = thread.map_err(|error| OpenError::Unusable { path, cause: error.to_string() })?;
        let (unpruned, thread, probe) = (AtomicU64::new(0), Some(thread), Probe::default());
        Ok(Self { queue, bounds, file, commits, unpruned, closed, thread, probe })
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
        self.probe.look(|| self.write(SMALL, Database::probe)).await
    }

    /// What it has done so far.
    pub fn figures(&self) -> Figures {
        Figures { queued: self.queue.len(), commits: self.commits.load(Ordering::Relaxed) }
    }

    fn read<T, F>(&self, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
    {
        self.ask(Kind::Read, 0, work)
    }

    fn write<T, F>(&self, bytes: usize, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
    {
        self.ask(Kind::Write, bytes, work)
    }

    /// Queues an operation, now and not when the future is polled: that makes the order.
    fn ask<T, F>(&self, kind: Kind, bytes: usize, work: F) -> StoreFuture<T>
    where
        T: Send + 'static,
        F: Fn(&mut Database) -> Result<T, Fault> + Send + 'static,
    {
        let (operation, answer) = operation(kind, work);
        let file = self.file.clone();
        match self.queue.push(bytes, operation) {
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

impl Store for Sqlite {
    fn begin(&self, call: &Arc<CallHead>) -> StoreFuture<()> {
        let call = call.clone();
        self.write(weight::of_head(&call), move |database| calls::begin(database, &call))
    }

    fn finish(&self, call: &Arc<FinishedCall>) -> StoreFuture<()> {
        let (call, bytes) = (call.clone(), weight::of_call(call));
        let finished = self.write(bytes, move |database| calls::finish(database, &call));
        if self.prune_is_due(bytes) {
            let bounds = self.bounds.clone();
            // Nobody waits for this.
            drop(self.write(SMALL, move |database| calls::prune(database, &bounds)));
        }
        finished
    }

    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>> {
        let request = request.clone();
        self.read(move |database| calls::finished(database, &request))
    }

    fn list_finished(
        &self,
        filter: &CallFilter,
        before: Option<u64>,
        most: Most,
    ) -> StoreFuture<Page<(u64, Arc<FinishedCall>)>> {
        let filter = filter.clone();
        self.read(move |database| calls::list(database, &filter, before, most))
    }

    fn save_session(&self, session: &Arc<Session>) -> StoreFuture<()> {
        let session = session.clone();
        self.write(weight::of_session(&session), move |database| sessions::save(database, &session))
    }

    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>> {
        let session = session.clone();
        self.read(move |database| sessions::find(database, &session))
    }

    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>> {
        let (filter, after) = (filter.clone(), after.cloned());
        self.read(move |database| sessions::list(database, &filter, after.as_ref(), most))
    }

    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool> {
        let session = session.clone();
        self.write(SMALL, move |database| sessions::delete(database, &session))
    }

    fn save_message(&self, message: &Arc<Message>) -> StoreFuture<()> {
        let message = message.clone();
        self.write(weight::of_message(&message), move |database| messages::save(database, &message))
    }

    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>> {
        let session = session.clone();
        self.read(move |database| messages::list(database, &session))
    }

    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>> {
        let (session, after) = (session.clone(), after.cloned());
        self.read(move |database| messages::list_after(database, &session, after.as_ref(), most))
    }

    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>> {
        let (session, before) = (session.clone(), before.cloned());
        self.read(move |database| messages::newest_before(database, &session, before.as_ref(), most))
    }

    fn has_message(&self, session: &SessionId, message: &MessageId) -> StoreFuture<bool> {
        let (session, message) = (session.clone(), message.clone());
        self.read(move |database| messages::exists(database, &session, &message))
    }

    fn delete_messages_from(&self, session: &SessionId, message: &MessageId) -> StoreFuture<()> {
        let (session, message) = (session.clone(), message.clone());
        self.write(SMALL, move |database| messages::delete_from(database, &session, &message))
    }

    fn save_run(&self, run: &Arc<ThreadRun>) -> StoreFuture<()> {
        let run = run.clone();
        self.write(weight::of_run(&run), move |database| runs::save(database, &run))
    }

    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>> {
        let (session, run) = (session.clone(), run.clone());
        self.read(move |database| runs::find(database, &session, &run))
    }

    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        let session = session.clone();
        self.read(move |database| runs::list(database, &session))
    }

    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()> {
        let (session, run) = (session.clone(), run.clone());
        let bytes = SMALL + weight::of_events(&events);
        self.write(bytes, move |database| runs::append_events(database, &session, &run, first, &events))
    }

    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>> {
        let (session, run) = (session.clone(), run.clone());
        self.read(move |database| runs::events(database, &session, &run, from))
    }

    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>> {
        self.read(runs::unfinished)
    }

    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<Usage> {
        let client = client.cloned();
        self.read(move |database| sessions::usage(database, client.as_ref()))
    }

    fn flush(&self) -> StoreFuture<()> {
        self.write(SMALL, |_| Ok(()))
    }

    fn unanswered(&self) -> StoreFuture<Vec<Arc<Message>>> {
        self.read(messages::unanswered)
    }
}

fn gone(file: &str) -> StoreError {
    StoreError::Unavailable(format!("{file}: the store is closed"))
}

#[cfg(test)]
mod tests;
