//! What a turn reports to operators: a log line for each stage, and counts for the metrics.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::milliseconds;
use crate::id::{ClientId, SessionId};
use crate::sessions::Sessions;
use crate::store::{Message, ModelRef, Part, Session, TurnError, Usage};

const SUCCESS: &str = "success";

/// A turn that is under way. If this is dropped before the turn's end, the next process goes on with the turn.
pub(super) struct TurnReport<'a> {
    sessions: &'a Sessions,
    session: &'a SessionId,
    began: Instant,
    steps: u64,
    usage: Usage,
    is_over: bool,
}

impl<'a> TurnReport<'a> {
    /// A turn begins.
    pub(super) fn begin(sessions: &'a Sessions, session: &'a Session) -> Self {
        let client = session.client.as_ref().map(ClientId::as_str);
        tracing::info!(target: "handback::turn", session = session.id.as_str(), client, "began");
        let (began, usage) = (Instant::now(), Usage::default());
        Self { sessions, session: &session.id, began, steps: 0, usage, is_over: false }
    }

    /// A model is asked.
    pub(super) fn ask<'r>(&'r mut self, model: &'r ModelRef) -> AnswerReport<'r, 'a> {
        let (began, usage) = (Instant::now(), Usage::default());
        AnswerReport { turn: self, model, began, first: None, usage, outcome: "aborted", status: None }
    }

    /// The turn is over, with this as its last message.
    pub(super) fn end(&mut self, last: &Message) {
        self.is_over = true;
        let error = last.error();
        let is_yielded = || last.parts.iter().any(|part| Part::is_yielded(part));
        let outcome = error.map_or_else(|| if is_yielded() { "yielded" } else { SUCCESS }, TurnError::word);
        self.sessions.metrics().turn(outcome, Some(self.began.elapsed()));
        self.log_end(outcome, error.and_then(TurnError::status));
    }

    /// Writes the line. The words of an error may quote what people said, so they are not logged: the session has them.
    fn log_end(&self, outcome: &str, status: Option<u16>) {
        tracing::info!(
            target: "handback::turn",
            session = self.session.as_str(),
            outcome,
            status,
            ms = milliseconds(self.began.elapsed()),
            steps = self.steps,
            input_tokens = self.usage.read(),
            output_tokens = self.usage.written(),
            "ended"
        );
    }
}

impl Drop for TurnReport<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.log_end("left", None);
        }
    }
}

/// A turn is over that never began.
pub(crate) fn never_began(sessions: &Sessions, session: &SessionId, outcome: &'static str) {
    sessions.metrics().turn(outcome, None);
    tracing::info!(target: "handback::turn", session = session.as_str(), outcome, "ended");
}

/// An answer of a model that is awaited. It is reported when this is dropped: the turn may be stopped meanwhile.
pub(super) struct AnswerReport<'r, 'a> {
    turn: &'r mut TurnReport<'a>,
    model: &'r ModelRef,
    began: Instant,
    /// How long its first piece took.
    first: Option<Duration>,
    /// The tokens that the model has used, as far as it said.
    usage: Usage,
    outcome: &'static str,
    /// The status that the provider failed with.
    status: Option<u16>,
}

impl AnswerReport<'_, '_> {
    /// A piece of the answer came.
    pub(super) fn piece(&mut self, usage: Usage) {
        self.first.get_or_insert_with(|| self.began.elapsed());
        self.usage = usage;
    }

    /// The answer is complete, or has failed.
    pub(super) fn end(mut self, heard: &Result<(), TurnError>) {
        let error = heard.as_ref().err();
        self.outcome = error.map_or(SUCCESS, TurnError::word);
        self.status = error.and_then(TurnError::status);
    }
}

impl Drop for AnswerReport<'_, '_> {
    fn drop(&mut self) {
        let Self { turn, model, began, first, usage, outcome, status } = self;
        let (model, took) = (model.to_string(), began.elapsed());
        turn.steps += 1;
        turn.usage = turn.usage.plus(usage);
        let whole = (*outcome == SUCCESS).then_some(took);
        turn.sessions.metrics().answer(&model, outcome, *first, whole, usage);
        tracing::info!(
            target: "handback::turn",
            session = turn.session.as_str(),
            step = turn.steps,
            model,
            outcome,
            status,
            ms = milliseconds(took),
            first_ms = first.map(milliseconds),
            input_tokens = usage.read(),
            output_tokens = usage.written(),
            "answered"
        );
    }
}
