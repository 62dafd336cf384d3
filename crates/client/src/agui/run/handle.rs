//! The handle of a run: the only place that changes its view.

use std::fmt;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::state::{Phase, RunError, RunState, View};
use crate::agui::conversation::{Conversation, ConversationStatus};
use crate::lock::lock;

/// Watches and cancels a run from elsewhere. Clones are handles of the same run.
#[derive(Clone)]
pub struct RunHandle {
    board: Arc<Board>,
}

struct Board {
    views: watch::Sender<View>,
    /// Cancels the current request. It is locked only while the view is, so that both belong to the same request.
    cancellation: Mutex<CancellationToken>,
    /// Receives every view, while a watcher may miss some.
    #[cfg(test)]
    tap: Mutex<Option<Tap>>,
}

#[cfg(test)]
type Tap = Box<dyn Fn(&View) + Send>;

impl fmt::Debug for RunHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RunHandle").field("state", &self.state()).finish_non_exhaustive()
    }
}

impl RunHandle {
    pub(super) fn new(conversation: Conversation) -> Self {
        let board = Board {
            views: watch::Sender::new(View { state: RunState::Idle, conversation }),
            cancellation: Mutex::default(),
            #[cfg(test)]
            tap: Mutex::default(),
        };
        Self { board: Arc::new(board) }
    }

    /// The view of the run as it changes. Do not hold a borrowed view for long, nor while you call the run or its
    /// registry: they wait for it.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.board.views.subscribe()
    }

    /// The current state.
    pub fn state(&self) -> RunState {
        self.see(|view| view.state.clone())
    }

    /// A copy of the conversation as it is now.
    pub fn conversation(&self) -> Conversation {
        self.see(|view| view.conversation.clone())
    }

    /// Cancels the current request; false if there is none. When this returns, the state is [`RunState::Cancelled`] and
    /// stays so; tools and stream end after that.
    pub fn cancel(&self) -> bool {
        // The state changes before the token fires, so that nothing else can end the run in between.
        let token = self.update(|view| {
            view.state = RunState::Cancelled;
            view.conversation.stop(ConversationStatus::Cancelled, "the run was cancelled");
            lock(&self.board.cancellation).clone()
        });
        token.as_ref().map(CancellationToken::cancel).is_some()
    }

    /// Whether both are handles of the same run.
    pub(in crate::agui) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.board, &other.board)
    }

    pub(super) fn see<T>(&self, look: impl FnOnce(&View) -> T) -> T {
        look(&self.board.views.borrow())
    }

    /// Shows a new request as running; the token fires when it is cancelled.
    pub(super) fn begin(&self, change: impl FnOnce(&mut Conversation)) -> CancellationToken {
        let token = CancellationToken::new();
        self.show(|view| {
            *lock(&self.board.cancellation) = token.clone();
            change(&mut view.conversation);
            view.conversation.status = ConversationStatus::Running;
            view.state = RunState::Running(Phase::Streaming);
            Some(())
        });
        token
    }

    /// Changes the view of a running request; `None`, and no change, if it was cancelled meanwhile.
    pub(super) fn update<T>(&self, change: impl FnOnce(&mut View) -> T) -> Option<T> {
        self.show(|view| view.state.is_running().then(|| change(view)))
    }

    /// Ends a running request with a failure.
    pub(super) fn fail(&self, error: impl Into<RunError>) {
        self.update(|view| view.fail(error.into()));
    }

    /// Calls `tap` with every view from now on.
    #[cfg(test)]
    pub(super) fn tap(&self, tap: impl Fn(&View) + Send + 'static) {
        *self.board.tap.lock().unwrap() = Some(Box::new(tap));
    }

    /// Changes the view and tells the watchers, unless the change is `None`.
    fn show<T>(&self, change: impl FnOnce(&mut View) -> Option<T>) -> Option<T> {
        let mut result = None;
        self.board.views.send_if_modified(|view| {
            result = change(view);
            #[cfg(test)]
            if result.is_some()
                && let Some(tap) = &*self.board.tap.lock().unwrap()
            {
                tap(view);
            }
            result.is_some()
        });
        result
    }
}
