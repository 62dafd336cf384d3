//! What is seen of a run from outside.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use handback_wire::agui::Interrupt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::agui::agent::AgentError;
use crate::agui::conversation::{Conversation, Status};

/// What is seen of a run: where it stands, and the conversation so far.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Where it stands.
    pub state: RunState,
    /// What was said and done.
    pub conversation: Conversation,
}

/// Where a run stands. From the moment when it is asked for until it has come to its end it is [`RunState::Running`],
/// however many requests, tools and continuations there are in between.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum RunState {
    /// Nothing was asked for yet.
    #[default]
    Idle,
    /// It goes on.
    Running(Phase),
    /// It is done.
    Completed,
    /// The agent must know something before it goes on: see [`Run::resume`](super::Run::resume).
    Interrupted(Vec<Interrupt>),
    /// It failed, and can be tried again: see [`Run::retry`](super::Run::retry).
    Failed(RunError),
    /// Somebody stopped it.
    Cancelled,
}

/// What a run does right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It was asked for, and its events come.
    Streaming,
    /// Tools are run here.
    Executing,
    /// Their results are on the way to the agent.
    Continuing,
}

impl RunState {
    /// Whether it goes on, in whatever phase.
    pub fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// Whether something may be said. An interrupted run wants answers.
    pub fn can_send(&self) -> bool {
        !matches!(self, Self::Running(_) | Self::Interrupted(_))
    }

    /// Whether a front end should show that something is going on: from the first request to the last event.
    pub fn is_streaming(&self) -> bool {
        self.is_running()
    }
}

/// Why a run failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The agent could not be asked, or was lost.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The agent says that the run failed.
    #[error("{message}")]
    Reported {
        /// Why.
        message: String,
        /// Why, for programs.
        code: Option<String>,
    },
    /// The agent called tools again and again.
    #[error("the depth limit is reached: {limit} continuations, and the agent calls tools again")]
    DepthLimit {
        /// How many continuations there may be.
        limit: u32,
    },
}

/// The one place where a run is seen, and from which it is stopped.
pub(super) struct Board {
    views: watch::Sender<View>,
    /// Stops what goes on. Locked only while the views are, so that state and token are those of one turn.
    current: Mutex<CancellationToken>,
    /// Sees all that is shown, where a watcher may miss some.
    #[cfg(test)]
    pub(super) tap: Mutex<Option<Tap>>,
}

#[cfg(test)]
pub(super) type Tap = Box<dyn Fn(&View) + Send>;

impl fmt::Debug for Board {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.see(|view| formatter.debug_struct("Board").field("state", &view.state).finish_non_exhaustive())
    }
}

impl Board {
    pub(super) fn new(conversation: Conversation) -> Self {
        Self {
            views: watch::Sender::new(View { state: RunState::Idle, conversation }),
            current: Mutex::default(),
            #[cfg(test)]
            tap: Mutex::default(),
        }
    }

    pub(super) fn watch(&self) -> watch::Receiver<View> {
        self.views.subscribe()
    }

    pub(super) fn see<T>(&self, look: impl FnOnce(&View) -> T) -> T {
        look(&self.views.borrow())
    }

    /// Begins a turn; the token fires when it is cancelled.
    pub(super) fn begin(&self, change: impl FnOnce(&mut Conversation)) -> CancellationToken {
        let token = CancellationToken::new();
        self.show(|view| {
            *self.current.lock().unwrap_or_else(PoisonError::into_inner) = token.clone();
            change(&mut view.conversation);
            view.conversation.status = Status::Running;
            view.state = RunState::Running(Phase::Streaming);
            Some(())
        });
        token
    }

    /// Changes what is seen of a turn that goes on; `None` if it was stopped meanwhile, and nothing is changed.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut View) -> T) -> Option<T> {
        self.show(|view| view.state.is_running().then(|| change(view)))
    }

    /// Ends a turn that goes on with a failure.
    pub(super) fn fail(&self, error: RunError) {
        self.update(|view| view.fail(error));
    }

    /// Ends a turn that goes on; false if none does.
    pub(super) fn cancel(&self) -> bool {
        // The state first: whatever still happens to the turn finds it cancelled.
        let token = self.update(|view| {
            view.state = RunState::Cancelled;
            view.conversation.stop(Status::Cancelled, "the run was cancelled");
            self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
        });
        token.as_ref().map(CancellationToken::cancel).is_some()
    }

    /// Changes the view, unless the change is `None`.
    fn show<T>(&self, change: impl FnOnce(&mut View) -> Option<T>) -> Option<T> {
        let mut result = None;
        self.views.send_if_modified(|view| {
            result = change(view);
            #[cfg(test)]
            if result.is_some()
                && let Some(tap) = &*self.tap.lock().unwrap()
            {
                tap(view);
            }
            result.is_some()
        });
        result
    }
}

impl View {
    pub(super) fn fail(&mut self, error: RunError) {
        let why = format!("the tool was not run: {error}");
        self.conversation.stop(Status::Failed(error.to_string()), &why);
        self.state = RunState::Failed(error);
    }
}
