//! The events that a page is sent: stored answers, then the running and waiting turns, and one last event.

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::{HashMap, HashSet};
use futures_util::{Stream, stream};

use super::Sessions;
use crate::events::{Feed, Follower, TurnEvent};
use crate::id::{CallId, PermissionId, SessionId};
use crate::store::{Answer, AskSummary, Message, PartBody, ToolState, TurnError};

/// Sends stored answers again, then follows turns to their end. The last [`TurnEvent`] is
/// [`TurnEvent::Ended`] or [`TurnEvent::Waiting`], unless the server stops before.
pub struct Playback {
    sessions: Sessions,
    session: SessionId,
    stored: VecDeque<TurnEvent>,
    /// The turns to follow, one after the other.
    turns: VecDeque<Follower>,
    /// How many events the first turn's feed had when this playback began.
    known: usize,
    open: OpenCalls,
    /// Whether the playback ends when only asks are open.
    yields_asks: bool,
    /// Whether turns that nobody else follows are stopped when this is dropped.
    stops_turns: bool,
    /// Whether the reader is told when the server stops, because it cannot come back to the turn.
    tells_stop: bool,
    /// Whether the current turn has sent an event.
    has_heard: bool,
    /// Whether this playback has already followed another turn.
    is_follow_up: bool,
    /// The last event's error if no turn gives one.
    end: Option<Arc<TurnError>>,
    is_over: bool,
}

impl Playback {
    pub(super) fn new(sessions: &Sessions, session: &SessionId) -> Self {
        Self {
            sessions: sessions.clone(),
            session: session.clone(),
            stored: VecDeque::new(),
            turns: VecDeque::new(),
            known: 0,
            open: OpenCalls::default(),
            yields_asks: false,
            stops_turns: false,
            tells_stop: false,
            has_heard: false,
            is_follow_up: false,
            end: None,
            is_over: false,
        }
    }

    /// A playback with one event: nothing was run, because of this error.
    pub fn refused(sessions: &Sessions, session: &SessionId, error: TurnError) -> Self {
        let mut playback = Self::new(sessions, session);
        playback.end = Some(Arc::new(error));
        playback
    }

    /// Plays these answers first, each as a whole.
    pub(super) fn after<'a>(mut self, answers: impl IntoIterator<Item = &'a Arc<Message>>) -> Self {
        for answer in answers {
            self.stored.extend(TurnEvent::of_stored(answer));
            self.end = answer.error().cloned().map(Arc::new);
        }
        self
    }

    /// Plays this event first.
    pub(super) fn after_event(mut self, event: TurnEvent) -> Self {
        self.stored.push_back(event);
        self
    }

    /// Plays the ends of these calls first. The reader already shows the calls.
    pub(super) fn after_ends(mut self, message: &Message, is_unknown: impl Fn(&CallId) -> bool) -> Self {
        for part in &message.parts {
            if let PartBody::Tool(tool) = &part.body
                && matches!(tool.state, ToolState::Done { .. })
                && is_unknown(&tool.call)
            {
                self.stored.push_back(TurnEvent::Part { message: message.id.clone(), part: part.clone() });
            }
        }
        self
    }

    /// Then follows a turn, from the event with this number.
    pub(super) fn then(mut self, feed: &Feed, from: usize) -> Self {
        if self.turns.is_empty() {
            self.known = feed.len();
            for (_, event) in feed.milestones().into_iter().take_while(|(number, _)| *number < from) {
                self.open.note(&event);
                // Yielded calls are sent again, because the turn may end with them.
                match &event {
                    TurnEvent::StepBegan(_) => self.stored.clear(),
                    TurnEvent::Part { part, .. } if part.is_yielded() => self.stored.push_back(event),
                    _ => {}
                }
            }
        }
        self.turns.push_back(feed.follow(from));
        self
    }

    /// These asks are about to be answered, so the playback does not end because of them.
    pub(super) fn answering(mut self, answers: &[(PermissionId, Answer)]) -> Self {
        for (id, _) in answers {
            self.open.answered(id);
        }
        self
    }

    /// Ends with this error if no turn follows.
    pub(super) fn ending(mut self, error: Option<TurnError>) -> Self {
        self.end = error.map(Arc::new);
        self
    }

    /// Whether to end when only asks are open.
    pub(super) fn yielding_asks(mut self, yields_asks: bool) -> Self {
        self.yields_asks = yields_asks;
        self
    }

    /// Whether turns that nobody else follows are stopped if this is dropped before they end.
    pub(super) fn stopping_turns(mut self, stops_turns: bool) -> Self {
        self.stops_turns = stops_turns;
        self
    }

    /// Lets the last event say so if the server stops before the turn is over. Otherwise there is no last event then.
    #[must_use]
    pub fn telling_stop(mut self) -> Self {
        self.tells_stop = true;
        self
    }

    /// The calls that were over when this began. A reader need not run them.
    pub fn calls_over(&self) -> HashSet<CallId> {
        let over = |event: &TurnEvent| match event {
            TurnEvent::Part { part, .. } => match &part.body {
                PartBody::Tool(tool) if matches!(tool.state, ToolState::Done { .. }) => Some(tool.call.clone()),
                _ => None,
            },
            _ => None,
        };
        let told = self.turns.front().map(|follower| follower.feed().milestones()).unwrap_or_default();
        told.iter().filter_map(|(_, event)| over(event)).collect()
    }

    /// The events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = TurnEvent> {
        stream::unfold(self, async |mut playback| Some((playback.next().await?, playback)))
    }

    /// The next event; `None` after the last one. Cancel safe.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        if let Some(event) = self.stored.pop_front() {
            return Some(event);
        }
        while !self.is_over {
            let Some(turn) = self.turns.front_mut() else { return Some(self.last(self.end.clone())) };
            if self.yields_asks && turn.number() >= self.known && self.open.are_only_asks() {
                // The turn waits for the answers, with or without a reader.
                self.stops_turns = false;
                self.is_over = true;
                return Some(TurnEvent::Waiting(std::mem::take(&mut self.open.asks)));
            }
            match turn.next().await {
                Some(TurnEvent::Ended(error)) => self.turn_is_over(error),
                Some(event) => {
                    self.has_heard = true;
                    self.open.note(&event);
                    return Some(event);
                }
                None if self.sessions.hub().is_leaving() => {
                    self.is_over = true;
                    return self.tells_stop.then(|| TurnEvent::Ended(Some(Arc::new(self.sessions.stopped()))));
                }
                None => {
                    let end = match (self.has_heard, self.is_follow_up) {
                        (true, _) => Some(Arc::new(broken_off())),
                        // The follow-up turn was not needed, so the playback ends as the turn before it did.
                        (false, true) => self.end.clone(),
                        (false, false) => Some(Arc::new(not_run())),
                    };
                    self.turn_is_over(end);
                }
            }
        }
        None
    }

    fn turn_is_over(&mut self, end: Option<Arc<TurnError>>) {
        self.turns.pop_front();
        self.open = OpenCalls::default();
        (self.end, self.known, self.has_heard, self.is_follow_up) = (end, 0, false, true);
    }

    fn last(&mut self, end: Option<Arc<TurnError>>) -> TurnEvent {
        self.is_over = true;
        TurnEvent::Ended(end)
    }
}

impl Drop for Playback {
    fn drop(&mut self) {
        for mut turn in self.turns.drain(..) {
            if turn.leave() && self.stops_turns && !self.sessions.hub().is_leaving() {
                self.sessions.stop_turn(&self.session, turn.feed());
            }
        }
    }
}

fn broken_off() -> TurnError {
    TurnError::Other("The turn broke off on the server; see its log".to_owned())
}

fn not_run() -> TurnError {
    let message = "The turn was not run: the session was deleted, could not be kept, or an earlier message of it was \
                   answered anew";
    TurnError::Refused { code: "not_run".into(), message: message.to_owned() }
}

/// The open calls of a step, and the open asks.
#[derive(Default)]
struct OpenCalls {
    /// The value says whether the call waits for an ask.
    calls: HashMap<CallId, bool>,
    asks: Vec<Arc<AskSummary>>,
}

impl OpenCalls {
    fn note(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::StepBegan(_) => *self = Self::default(),
            TurnEvent::Part { part, .. } => {
                if let PartBody::Tool(tool) = &part.body {
                    match tool.state {
                        ToolState::Pending { .. } | ToolState::Running { .. } => {
                            self.calls.insert(tool.call.clone(), false);
                        }
                        ToolState::Yielded { .. } | ToolState::Done { .. } => _ = self.calls.remove(&tool.call),
                    }
                }
            }
            TurnEvent::Asked(ask) => {
                self.calls.insert(ask.call.clone(), true);
                self.asks.push(ask.clone());
            }
            TurnEvent::Answered { ask, .. } => self.answered(ask),
            _ => {}
        }
    }

    fn answered(&mut self, id: &PermissionId) {
        if let Some(place) = self.asks.iter().position(|ask| ask.id == *id) {
            self.calls.insert(self.asks.remove(place).call.clone(), false);
        }
    }

    fn are_only_asks(&self) -> bool {
        !self.asks.is_empty() && self.calls.values().all(|is_asked| *is_asked)
    }
}
