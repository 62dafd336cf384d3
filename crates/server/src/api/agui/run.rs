//! A run under way: what its turns tell becomes its events, up to the terminal one.

use std::collections::VecDeque;
use std::sync::Arc;

use handback_core::id::CallId;
use handback_core::message::{Message, Session, ToolResult};
use handback_core::sessions::{Audience, Follower, Prompted, RunEvent, SessionError, Sessions};
use handback_wire::agui::Body;
use tokio::time::{Instant, sleep_until};

use super::cost::Cost;
use super::encode::{Encoder, Failure};
use crate::api::page;

/// A run under way: gives its events until the terminal one.
pub(super) struct Run {
    pub(super) sessions: Sessions,
    pub(super) session: Arc<Session>,
    pub(super) encoder: Encoder,
    /// The turns that it tells, one after the other.
    pub(super) turns: VecDeque<Turn>,
    /// What came of calls that the turn ends with: it goes on with them at once.
    pub(super) results: Vec<(CallId, ToolResult)>,
    pub(super) audience: Audience,
    pub(super) reader: Reader,
    pub(super) is_over: bool,
}

/// Whoever reads a run.
#[derive(Clone, Copy, Default)]
pub(super) struct Reader {
    /// When it may not any more.
    pub(super) expires: Option<Instant>,
    /// Whether the run is stopped when it leaves.
    pub(super) takes_run_along: bool,
}

impl Drop for Run {
    fn drop(&mut self) {
        if !self.is_over {
            self.left();
        }
    }
}

/// A turn that a run tells.
pub(super) struct Turn {
    pub(super) user: Arc<Message>,
    pub(super) follower: Follower,
}

impl Run {
    /// The next events; `None` after the terminal one. Safe to drop while it waits.
    pub(super) async fn next(&mut self) -> Option<Vec<Body>> {
        loop {
            let events = self.encoder.take();
            if !events.is_empty() {
                return Some(events);
            }
            if self.is_over {
                return None;
            }
            match self.hear().await {
                Heard::Event(event) => {
                    self.encoder.event(&event, self.sessions.hub().is_serving());
                    if self.encoder.waits_for_user() {
                        self.end();
                    }
                }
                Heard::Silence => self.go_on_or_end().await,
                Heard::Expired => {
                    self.left();
                    self.encoder.fail(Failure {
                        code: "token_expired",
                        message: "The token has expired; run again with a new one".to_owned(),
                    });
                    self.end();
                }
            }
        }
    }

    async fn hear(&mut self) -> Heard {
        let expires = self.reader.expires;
        let expired = async {
            match expires {
                Some(expires) => sleep_until(expires).await,
                None => std::future::pending().await,
            }
        };
        let event = async {
            while let Some(turn) = self.turns.front_mut() {
                if let Some(event) = turn.follower.next().await {
                    return Heard::Event(event);
                }
                if self.turns.len() == 1 {
                    break;
                }
                self.turns.pop_front();
            }
            Heard::Silence
        };
        tokio::select! {
            biased;
            heard = event => heard,
            () = expired => Heard::Expired,
        }
    }

    /// The turns are over. If the last one ended with calls of the front end's that it has run already, it goes on.
    async fn go_on_or_end(&mut self) {
        let is_answered = |call: &CallId| self.results.iter().any(|(given, _)| given == call);
        if let Some(turn) = self.turns.pop_front()
            && self.encoder.pending().iter().any(is_answered)
        {
            let results = std::mem::take(&mut self.results);
            match self.go_on(&turn.user, results).await {
                Ok(Some(Prompted { feed: Some(feed), user, .. })) => {
                    self.encoder.settle_pending();
                    self.turns.push_back(Turn { user, follower: feed.follow() });
                    return;
                }
                Ok(_) => {}
                Err(error) => self.encoder.fail(Failure { code: "run_failed", message: error.to_string() }),
            }
        }
        if self.encoder.has_heard_nothing() {
            let message = "The turn was not run: the thread was deleted, or could not be kept".to_owned();
            self.encoder.fail(Failure { code: "not_run", message });
        }
        self.end();
    }

    async fn go_on(
        &self,
        user: &Arc<Message>,
        results: Vec<(CallId, ToolResult)>,
    ) -> Result<Option<Prompted>, SessionError> {
        let stored = self.sessions.messages(&self.session.id).await?;
        let Some(last) = page::answers(stored, &user.id).pop() else { return Ok(None) };
        self.sessions.go_on(&self.session, user, &last.id, self.audience.clone(), results).await.map(Some)
    }

    pub(super) fn end(&mut self) {
        self.encoder.end();
        self.is_over = true;
    }

    /// What it has cost so far.
    pub(super) fn cost(&self) -> &Cost {
        self.encoder.cost()
    }

    /// Whether its terminal event is written.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whoever reads it has left.
    fn left(&self) {
        for turn in self.turns.iter().filter(|_| self.reader.takes_run_along) {
            self.sessions.stop_turn(&self.session.id, &turn.user.id);
        }
    }
}

/// What comes next.
enum Heard {
    Event(RunEvent),
    /// No turn tells more.
    Silence,
    Expired,
}
