//! Many runs at once.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::run::{Run, RunHandle, RunRequest, RunRequestError, RunState};
use crate::lock::lock;

/// How many runs may be active at once; one more is an error.
const MAX_RUNS: usize = 10_000;
/// How many events wait for a slow listener; it misses the oldest then, and gets [`Lifecycle::Missed`].
const MAX_EVENTS: usize = 1_024;
/// How long to wait until a run is dropped, which a tool that blocks its thread delays.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The key of a run: the same thread in another room or at another server is another conversation.
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

/// An event of a run. Every `Started` is followed by one `Completed`, which is the run's last event.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Lifecycle {
    /// A run was started.
    Started {
        /// The key of the run.
        key: RunKey,
        /// The handle of the run.
        handle: RunHandle,
    },
    /// A run has run its tools, and asks the agent to continue.
    Continued {
        /// The key of the run.
        key: RunKey,
    },
    /// A run has ended.
    Completed {
        /// The key of the run.
        key: RunKey,
        /// How it ended.
        ending: Ending,
        /// The handle of the run.
        handle: RunHandle,
    },
    /// The listener was too slow, and missed this many events.
    Missed(u64),
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Ending {
    /// It ended by itself or was cancelled, in this state.
    Ended(RunState),
    /// Its request was not sent.
    Refused(RunRequestError),
    /// It was dropped in favour of another run with the same key.
    Replaced,
    /// It was dropped.
    Stopped,
}

/// Why a run was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A run with this key is active.
    #[error("a run of this thread goes on already: cancel it, wait for its end, or replace it")]
    Active,
    /// Too many runs are active.
    #[error("there are {MAX_RUNS} runs already")]
    TooMany,
    /// The registry is closed.
    #[error("the registry is closed")]
    Closed,
}

/// Many runs at once, one for each key. Clones are the same registry; when the last is dropped, so are the runs.
/// Outside of a Tokio runtime, starting a run panics.
#[derive(Clone)]
pub struct RunRegistry {
    runs: Arc<Runs>,
    _stop_on_drop: Arc<DropGuard>,
}

struct Runs {
    active: Mutex<ActiveRuns>,
    lifecycle: broadcast::Sender<Lifecycle>,
    tasks: TaskTracker,
    /// Stops all runs: the parent of every run's token.
    stop: CancellationToken,
}

type ActiveRuns = HashMap<RunKey, ActiveRun>;

struct ActiveRun {
    handle: RunHandle,
    /// Drops the run.
    stop: CancellationToken,
    /// Fires when the run is dropped.
    gone: CancellationToken,
}

impl fmt::Debug for RunRegistry {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunRegistry").field("active", &self.active()).finish_non_exhaustive()
    }
}

impl Default for RunRegistry {
    fn default() -> Self {
        let (stop, lifecycle) = (CancellationToken::new(), broadcast::Sender::new(MAX_EVENTS));
        let runs = Runs { active: Mutex::default(), lifecycle, tasks: TaskTracker::new(), stop: stop.clone() };
        Self { runs: Arc::new(runs), _stop_on_drop: Arc::new(stop.drop_guard()) }
    }
}

impl RunRegistry {
    /// A registry without runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a run in a task of its own. When this returns, it is running, and can be cancelled.
    ///
    /// # Errors
    /// [`StartError`]: also if a run with this key is active.
    pub fn start(&self, key: RunKey, run: Run, request: RunRequest) -> Result<RunHandle, StartError> {
        let active = lock(&self.runs.active);
        // A run that has ended stays in the table until its task has.
        if active.get(&key).is_some_and(|earlier| !is_over(&earlier.handle)) && !self.runs.tasks.is_closed() {
            return Err(StartError::Active);
        }
        self.spawn(active, key, run, request)
    }

    /// Starts a run that replaces an active one with the same key. The old run is dropped, and its view stays as it
    /// was. The new run sends nothing before the old one is gone.
    ///
    /// # Errors
    /// [`StartError::TooMany`], [`StartError::Closed`].
    pub fn replace(&self, key: RunKey, run: Run, request: RunRequest) -> Result<RunHandle, StartError> {
        self.spawn(lock(&self.runs.active), key, run, request)
    }

    /// The active run with this key.
    pub fn get(&self, key: &RunKey) -> Option<RunHandle> {
        lock(&self.runs.active).get(key).map(|run| run.handle.clone())
    }

    /// The keys of all active runs, in no order.
    pub fn active(&self) -> Vec<RunKey> {
        lock(&self.runs.active).keys().cloned().collect()
    }

    /// Cancels a run, which its view shows; false if none is active.
    pub fn cancel(&self, key: &RunKey) -> bool {
        // The table is no longer locked here, because a watcher of the run may read it.
        self.get(key).is_some_and(|handle| handle.cancel())
    }

    /// Drops a run, whose view stays as it was; false if none is active.
    pub fn stop(&self, key: &RunKey) -> bool {
        let mut active = lock(&self.runs.active);
        let removed = active.remove(key);
        removed.map(|run| self.runs.dismiss(key.clone(), &run, Ending::Stopped)).is_some()
    }

    /// The events of all runs from now on.
    pub fn lifecycle(&self) -> BoxStream<'static, Lifecycle> {
        let receiver = self.runs.lifecycle.subscribe();
        stream::unfold(receiver, |mut receiver| async move {
            match receiver.recv().await {
                Ok(event) => Some((event, receiver)),
                Err(RecvError::Lagged(missed)) => Some((Lifecycle::Missed(missed), receiver)),
                Err(RecvError::Closed) => None,
            }
        })
        .boxed()
    }

    /// Drops all runs, and waits until they are gone. The registry starts no more after that. It can be closed twice.
    pub async fn close(&self) {
        {
            let mut active = lock(&self.runs.active);
            self.runs.tasks.close();
            for (key, run) in active.drain() {
                self.runs.dismiss(key, &run, Ending::Stopped);
            }
        }
        self.runs.stop.cancel();
        let _ = timeout(STOP_TIMEOUT, self.runs.tasks.wait()).await;
    }

    fn spawn(
        &self,
        mut active: MutexGuard<'_, ActiveRuns>,
        key: RunKey,
        mut run: Run,
        request: RunRequest,
    ) -> Result<RunHandle, StartError> {
        if self.runs.tasks.is_closed() {
            return Err(StartError::Closed);
        }
        if !active.contains_key(&key) && active.len() >= MAX_RUNS {
            return Err(StartError::TooMany);
        }
        let (handle, stop, gone) = (run.handle(), self.runs.stop.child_token(), CancellationToken::new());
        let entered = ActiveRun { handle: handle.clone(), stop: stop.clone(), gone: gone.clone() };
        let previous = active.insert(key.clone(), entered);
        if let Some(previous) = &previous {
            let state = previous.handle.state();
            let ending = if is_over(&previous.handle) { Ending::Ended(state) } else { Ending::Replaced };
            self.runs.dismiss(key.clone(), previous, ending);
        }
        // The table stays locked, so that a run in it can be cancelled at once and events of a key are sent in order.
        let begun = run.begin(request);
        self.runs.send(Lifecycle::Started { key: key.clone(), handle: handle.clone() });
        let task = Arc::new(Task { runs: Arc::clone(&self.runs), key, handle: handle.clone() });
        let continuing = Arc::clone(&task);
        run.on_continue(move || continuing.continued());
        self.runs.tasks.spawn(async move {
            let _gone = gone.drop_guard();
            if let Some(previous) = previous {
                let _ = timeout(STOP_TIMEOUT, previous.gone.cancelled()).await;
            }
            match begun {
                Err(error) => task.ended(Ending::Refused(error)),
                Ok(()) => {
                    if let Some(state) = stop.run_until_cancelled(run.go()).await {
                        task.ended(Ending::Ended(state));
                    }
                }
            }
        });
        Ok(handle)
    }
}

/// Whether a run has ended, though its task may not have.
fn is_over(handle: &RunHandle) -> bool {
    !matches!(handle.state(), RunState::Idle | RunState::Running(_))
}

impl Runs {
    /// Drops a run that was removed from the table.
    fn dismiss(&self, key: RunKey, run: &ActiveRun, ending: Ending) {
        run.stop.cancel();
        self.send(Lifecycle::Completed { key, ending, handle: run.handle.clone() });
    }

    fn send(&self, event: Lifecycle) {
        // The send fails if nobody listens.
        let _ = self.lifecycle.send(event);
    }
}

/// The task of a run. When it is dropped, the run leaves the table.
struct Task {
    runs: Arc<Runs>,
    key: RunKey,
    handle: RunHandle,
}

impl Task {
    /// Whether the table has this run, and not one that replaced it.
    fn is_current(&self, active: &ActiveRuns) -> bool {
        active.get(&self.key).is_some_and(|run| run.handle.is_same(&self.handle))
    }

    fn continued(&self) {
        let active = lock(&self.runs.active);
        if self.is_current(&active) {
            self.runs.send(Lifecycle::Continued { key: self.key.clone() });
        }
    }

    fn ended(&self, ending: Ending) {
        let mut active = lock(&self.runs.active);
        if self.is_current(&active) {
            active.remove(&self.key);
            let (key, handle) = (self.key.clone(), self.handle.clone());
            self.runs.send(Lifecycle::Completed { key, ending, handle });
        }
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.ended(Ending::Stopped);
    }
}

#[cfg(test)]
mod tests;
