//! Many runs at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::run::{Run, RunHandle, RunRequest, RunRequestError, RunState};

/// How many runs there may be at once; one more is an error.
const MOST_RUNS: usize = 10_000;
/// How many events of the lifecycle wait for one who listens; then the oldest are left out, and it is told how many.
const MOST_EVENTS: usize = 1_024;
/// How long a run that is replaced or stopped may take to be gone. One whose tool blocks its thread is not waited for
/// longer.
const STOP: Duration = Duration::from_secs(5);

/// Which conversation it is: the same thread in another room or at another server is another one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RunKey {
    /// The server.
    pub server: String,
    /// The room, or the agent.
    pub room: String,
    /// The thread.
    pub thread: String,
}

impl RunKey {
    /// A key.
    pub fn new(server: impl Into<String>, room: impl Into<String>, thread: impl Into<String>) -> Self {
        Self { server: server.into(), room: room.into(), thread: thread.into() }
    }
}

/// What becomes of runs. Every `Started` has one `Completed`, which is the last that is told of it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Lifecycle {
    /// A run was started.
    Started {
        /// Which.
        key: RunKey,
        /// To see it, and to stop it.
        handle: RunHandle,
    },
    /// Tools were run, and the run that continues it is asked for.
    Continued {
        /// Which.
        key: RunKey,
    },
    /// A run has come to its end.
    Completed {
        /// Which.
        key: RunKey,
        /// How.
        ending: Ending,
        /// To see what came of it.
        handle: RunHandle,
    },
    /// Whoever listens did not keep up, and missed so many.
    Missed(u64),
}

/// How a run came to its end.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ending {
    /// By itself, or it was cancelled: this is where it stands.
    Ended(RunState),
    /// Nothing was asked for.
    Refused(RunRequestError),
    /// Another one took its place, and it was dropped.
    Replaced,
    /// It was dropped.
    Stopped,
}

/// Why a run was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// There is a run with this key that goes on.
    #[error("a run of this thread goes on already: cancel it, wait for its end, or replace it")]
    Active,
    /// There are too many.
    #[error("there are {MOST_RUNS} runs already")]
    TooMany,
    /// No more are started.
    #[error("the registry is closed")]
    Closed,
}

/// Many runs at once, one for each thread. Clones are the same; when the last is dropped, so are the runs.
#[derive(Clone)]
pub struct RunRegistry {
    shared: Arc<Shared>,
    _stop_on_drop: Arc<DropGuard>,
}

struct Shared {
    entries: Mutex<Entries>,
    lifecycle: broadcast::Sender<Lifecycle>,
    tasks: TaskTracker,
    /// Fires when all is to stop: the parent of every run's.
    stop: CancellationToken,
}

type Entries = HashMap<RunKey, Entry>;

/// A run in its task.
struct Entry {
    handle: RunHandle,
    /// Drops the run.
    stop: CancellationToken,
    /// Fires when the run is gone.
    gone: CancellationToken,
}

impl fmt::Debug for RunRegistry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunRegistry").field("active", &self.active()).finish_non_exhaustive()
    }
}

impl Default for RunRegistry {
    fn default() -> Self {
        let stop = CancellationToken::new();
        let shared = Shared {
            entries: Mutex::default(),
            lifecycle: broadcast::Sender::new(MOST_EVENTS),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        };
        Self { shared: Arc::new(shared), _stop_on_drop: Arc::new(stop.drop_guard()) }
    }
}

impl RunRegistry {
    /// A registry without runs. Needs a Tokio runtime once there are any.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a run in a task of its own. When this returns, it is running, and can be cancelled.
    ///
    /// # Errors
    /// [`StartError`]: also if one with this key goes on.
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn start(&self, key: RunKey, run: Run, request: RunRequest) -> Result<RunHandle, StartError> {
        let entries = self.shared.entries();
        // One that has come to its end may still be on its way out.
        if entries.get(&key).is_some_and(|entry| !is_over(&entry.handle)) && !self.shared.tasks.is_closed() {
            return Err(StartError::Active);
        }
        self.enter(entries, key, run, request)
    }

    /// Starts a run in the place of one that goes on, if there is one. That is dropped in silence: what is seen of it
    /// stays as it was. The new one asks for nothing before that is gone.
    ///
    /// # Errors
    /// [`StartError::TooMany`], [`StartError::Closed`].
    ///
    /// # Panics
    /// Outside of a Tokio runtime.
    pub fn replace(&self, key: RunKey, run: Run, request: RunRequest) -> Result<RunHandle, StartError> {
        self.enter(self.shared.entries(), key, run, request)
    }

    /// The run with this key, if one goes on.
    pub fn get(&self, key: &RunKey) -> Option<RunHandle> {
        self.shared.entries().get(key).map(|entry| entry.handle.clone())
    }

    /// The keys of all runs that go on, in no order.
    pub fn active(&self) -> Vec<RunKey> {
        self.shared.entries().keys().cloned().collect()
    }

    /// Cancels a run, for all to see; false if none goes on.
    pub fn cancel(&self, key: &RunKey) -> bool {
        // Not while the entries are locked: whoever watches the run may look at them.
        self.get(key).is_some_and(|handle| handle.cancel())
    }

    /// Drops a run in silence; false if none goes on.
    pub fn stop(&self, key: &RunKey) -> bool {
        let mut entries = self.shared.entries();
        let removed = entries.remove(key);
        removed.map(|entry| self.shared.dismiss(key, &entry, Ending::Stopped)).is_some()
    }

    /// What becomes of runs from now on.
    pub fn lifecycle(&self) -> BoxStream<'static, Lifecycle> {
        let receiver = self.shared.lifecycle.subscribe();
        stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(event) => Some((event, receiver)),
                Err(RecvError::Lagged(missed)) => Some((Lifecycle::Missed(missed), receiver)),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    /// Drops all runs in silence, and waits until they are gone. No more are started. A second time does nothing.
    pub async fn close(&self) {
        {
            let mut entries = self.shared.entries();
            self.shared.tasks.close();
            for (key, entry) in entries.drain() {
                self.shared.dismiss(&key, &entry, Ending::Stopped);
            }
        }
        self.shared.stop.cancel();
        let _ = timeout(STOP, self.shared.tasks.wait()).await;
    }

    fn enter(
        &self,
        mut entries: MutexGuard<'_, Entries>,
        key: RunKey,
        mut run: Run,
        request: RunRequest,
    ) -> Result<RunHandle, StartError> {
        if self.shared.tasks.is_closed() {
            return Err(StartError::Closed);
        }
        if !entries.contains_key(&key) && entries.len() >= MOST_RUNS {
            return Err(StartError::TooMany);
        }
        let (handle, stop, gone) = (run.handle(), self.shared.stop.child_token(), CancellationToken::new());
        let entry = Entry { handle: handle.clone(), stop: stop.clone(), gone: gone.clone() };
        // The new one is there before the old one goes: nobody finds the thread without a run.
        let previous = entries.insert(key.clone(), entry);
        if let Some(previous) = &previous {
            let ending =
                if is_over(&previous.handle) { Ending::Ended(previous.handle.state()) } else { Ending::Replaced };
            self.shared.dismiss(&key, previous, ending);
        }
        // Before anybody finds it: one that was started is running, and can be cancelled.
        let begun = run.begin(request);
        // Told while the entries are locked: what is told of a thread is in the order in which it happened.
        self.shared.tell(Lifecycle::Started { key: key.clone(), handle: handle.clone() });
        let task = Arc::new(Task { shared: Arc::clone(&self.shared), key, handle: handle.clone() });
        let continuing = Arc::clone(&task);
        run.on_continue(move || continuing.continued());
        self.shared.tasks.spawn(async move {
            let _gone = gone.drop_guard();
            if let Some(previous) = previous {
                let _ = timeout(STOP, previous.gone.cancelled()).await;
            }
            match begun {
                Err(error) => task.ended(Ending::Refused(error)),
                Ok(begun) => {
                    if let Some(state) = stop.run_until_cancelled(run.go(begun)).await {
                        task.ended(Ending::Ended(state));
                    }
                }
            }
        });
        Ok(handle)
    }
}

/// Whether a run has come to its end, though its task may not have.
fn is_over(handle: &RunHandle) -> bool {
    !matches!(handle.state(), RunState::Idle | RunState::Running(_))
}

impl Shared {
    /// Guards plain data that is never left half changed, so that a panic elsewhere does not matter.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops a run that has no entry any more.
    fn dismiss(&self, key: &RunKey, entry: &Entry, ending: Ending) {
        entry.stop.cancel();
        self.tell(Lifecycle::Completed { key: key.clone(), ending, handle: entry.handle.clone() });
    }

    fn tell(&self, event: Lifecycle) {
        // Nobody needs to listen.
        let _ = self.lifecycle.send(event);
    }
}

/// A run's side of its entry.
struct Task {
    shared: Arc<Shared>,
    key: RunKey,
    handle: RunHandle,
}

impl Task {
    /// Whether the entry is still this run's.
    fn is_current(&self, entries: &Entries) -> bool {
        entries.get(&self.key).is_some_and(|entry| entry.handle.is_same(&self.handle))
    }

    fn continued(&self) {
        let entries = self.shared.entries();
        if self.is_current(&entries) {
            self.shared.tell(Lifecycle::Continued { key: self.key.clone() });
        }
    }

    /// Gives up the entry, unless another run has it by now, which was told then.
    fn ended(&self, ending: Ending) {
        let mut entries = self.shared.entries();
        if self.is_current(&entries) {
            entries.remove(&self.key);
            let (key, handle) = (self.key.clone(), self.handle.clone());
            self.shared.tell(Lifecycle::Completed { key, ending, handle });
        }
    }
}

impl Drop for Task {
    /// However the task ends, its entry does not outlive it.
    fn drop(&mut self) {
        self.ended(Ending::Stopped);
    }
}

#[cfg(test)]
mod tests;
