//! A run under way: what its turns tell becomes its events, up to the terminal one.

use std::collections::VecDeque;
use std::sync::Arc;

use handback_core::id::{CallId, SessionId};
use handback_core::message::{Message, Session, ToolResult};
use handback_core::sessions::{Audience, Feed, Follower, RunEvent, Sessions};
use handback_wire::agui::Body;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::cost::Cost;
use super::encode::{Encoder, Failure};
use super::go_on::{self, Next};
use crate::app::App;
use crate::problem::Problem;

/// Whoever reads a run.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Reader {
    /// When it may not any more.
    pub(super) expires: Option<Instant>,
    /// Whether turns that nobody else follows are stopped when it leaves.
    pub(super) stops_turns: bool,
}

/// A turn that a run tells. Dropped before it is over, it may be stopped: its reader has left.
pub(super) struct Turn {
    sessions: Sessions,
    session: SessionId,
    /// The user's message that it answers.
    pub(super) user: Arc<Message>,
    follower: Follower,
    stops: bool,
}

impl Turn {
    pub(super) fn new(app: &App, user: Arc<Message>, feed: &Feed, reader: Reader) -> Self {
        let (sessions, session) = (app.sessions().clone(), user.session.clone());
        Self { sessions, session, user, follower: feed.follow(), stops: reader.stops_turns }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.follower.leave() && self.stops {
            self.sessions.stop_turn(&self.session, self.follower.feed());
        }
    }
}

/// What a run goes on with when its turn ends with calls that the front end has run already.
pub(super) struct Continuation {
    pub(super) session: Arc<Session>,
    pub(super) audience: Audience,
    pub(super) results: Vec<(CallId, ToolResult)>,
}

/// A run under way: gives its events until the terminal one.
pub(super) struct Run {
    app: App,
    encoder: Encoder,
    /// The turns that it tells, one after the other.
    turns: VecDeque<Turn>,
    continuation: Option<Continuation>,
    going_on: Option<oneshot::Receiver<Result<Next, Problem>>>,
    reader: Reader,
    is_over: bool,
}

impl Run {
    pub(super) fn new(app: &App, encoder: Encoder, reader: Reader) -> Self {
        let (turns, continuation, going_on) = (VecDeque::new(), None, None);
        Self { app: app.clone(), encoder, turns, continuation, going_on, reader, is_over: false }
    }

    /// It tells these turns.
    pub(super) fn of(mut self, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.turns.extend(turns);
        self
    }

    /// When a turn ends with calls of which it has the results, it goes on with them.
    pub(super) fn then(mut self, continuation: Continuation) -> Self {
        self.continuation = Some(continuation);
        self
    }

    /// It is over, with what is written.
    pub(super) fn ended(mut self) -> Self {
        self.end();
        self
    }

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
                    self.encoder.event(&event, self.app.hub().is_serving());
                    if self.encoder.waits_for_user() {
                        // The turn waits for the answers, with or without a reader.
                        self.turns.iter_mut().for_each(|turn| turn.stops = false);
                        self.end();
                    }
                }
                Heard::TurnsOver => self.go_on_or_end(),
                Heard::Next(next) => self.gone_on(next),
                Heard::Expired => {
                    self.turns.clear();
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
            if let Some(going_on) = &mut self.going_on {
                let next = going_on.await.unwrap_or_else(|_| Err(Problem::interrupted()));
                self.going_on = None;
                return Heard::Next(next);
            }
            while let Some(turn) = self.turns.front_mut() {
                if let Some(event) = turn.follower.next().await {
                    return Heard::Event(event);
                }
                if self.turns.len() == 1 {
                    break;
                }
                self.turns.pop_front();
                // How a turn ends that another follows is not how the run does.
                self.encoder.forgive();
            }
            Heard::TurnsOver
        };
        tokio::select! {
            biased;
            heard = event => heard,
            () = expired => Heard::Expired,
        }
    }

    /// The turns are over. If the last one ended with calls of the front end's that it has run already, it goes on.
    fn go_on_or_end(&mut self) {
        let pending = self.encoder.pending();
        let has_answers = |known: &mut Continuation| known.results.iter().any(|(call, _)| pending.contains(call));
        let turn = self.turns.pop_front();
        let (Some(turn), Some(continuation)) = (turn, self.continuation.take_if(has_answers)) else {
            if self.encoder.has_heard_nothing() {
                let message = "The turn was not run: the thread was deleted, could not be kept, or an earlier message of \
                               it was answered anew";
                self.encoder.fail(Failure { code: "not_run", message: message.to_owned() });
            }
            return self.end();
        };
        let (app, reader, user) = (self.app.clone(), self.reader, turn.user.clone());
        // On a task of its own: if the reader leaves meanwhile, it has gone on, and is left.
        let going_on = async move { go_on::after(&app, &user, None, continuation, reader).await };
        self.going_on = Some(self.app.begin_apart(going_on));
    }

    fn gone_on(&mut self, next: Result<Next, Problem>) {
        self.encoder.settle_pending();
        match next {
            Ok(Next::Turn(turn)) => return self.turns.push_back(turn),
            Ok(Next::Stored(answers)) => answers.iter().for_each(|answer| self.encoder.stored(answer)),
            Err(problem) => self.encoder.fail(Failure { code: "run_failed", message: problem.message }),
        }
        self.end();
    }

    fn end(&mut self) {
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
}

/// What comes next.
enum Heard {
    Event(RunEvent),
    /// No turn tells more.
    TurnsOver,
    /// How the turn goes on.
    Next(Result<Next, Problem>),
    Expired,
}
