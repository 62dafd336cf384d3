//! What a turn reports to operators: a log line for each stage, and counts for the metrics.

use std::time::Duration;

use tokio::time::Instant;

use crate::clock::milliseconds;
use crate::id::{ClientId, SessionId};
use crate::sessions::Sessions;
use crate::store::{Message, ModelRef, Part, Session, TurnError, Usage};

/// A turn that is under way.
pub(super) struct TurnReport<'a> {
    sessions: &'a Sessions,
    session: &'a SessionId,
    began: Instant,
    steps: u64,
    usage: Usage,
}

impl<'a> TurnReport<'a> {
    /// A turn begins.
    pub(super) fn begin(sessions: &'a Sessions, session: &'a Session) -> Self {
        let client = session.client.as_ref().map(ClientId::as_str);
        tracing::info!(target: "handback::turn", session = session.id.as_str(), client, "began");
        Self { sessions, session: &session.id, began: Instant::now(), steps: 0, usage: Usage::default() }
    }

    /// A model has answered, or failed to.
    pub(super) fn answered(&mut self, answer: &AnswerReport<'_>, usage: Usage, heard: &Result<(), TurnError>) {
        let (model, took) = (answer.model.to_string(), answer.began.elapsed());
        let usage = heard.as_ref().ok().map(|()| usage);
        self.sessions.metrics().answer(&model, answer.first, took, usage.as_ref());
        self.steps += 1;
        self.usage = usage.map_or(self.usage, |usage| self.usage.plus(&usage));
        let (input_tokens, output_tokens) = (usage.map(|usage| usage.read()), usage.map(|usage| usage.written()));
        tracing::info!(
            target: "handback::turn",
            session = self.session.as_str(),
            step = self.steps,
            model,
            outcome = heard.as_ref().err().map_or("success", TurnError::word),
            ms = milliseconds(took),
            first_ms = answer.first.map(milliseconds),
            input_tokens,
            output_tokens,
            "answered"
        );
    }

    /// The turn is over, with this as its last message.
    pub(super) fn end(&self, last: &Message) {
        let error = last.error();
        let is_yielded = || last.parts.iter().any(|part| Part::is_yielded(part));
        let outcome = error.map_or_else(|| if is_yielded() { "yielded" } else { "success" }, TurnError::word);
        self.sessions.metrics().turn(outcome, self.began.elapsed());
        self.log_end(outcome, error.map(TurnError::message));
    }

    /// The server stops, and the next process goes on with the turn.
    pub(super) fn leave(&self) {
        self.log_end("left", None);
    }

    fn log_end(&self, outcome: &str, error: Option<&str>) {
        tracing::info!(
            target: "handback::turn",
            session = self.session.as_str(),
            outcome,
            error,
            ms = milliseconds(self.began.elapsed()),
            steps = self.steps,
            input_tokens = self.usage.read(),
            output_tokens = self.usage.written(),
            "ended"
        );
    }
}

/// An answer of a model that is awaited.
pub(super) struct AnswerReport<'a> {
    model: &'a ModelRef,
    began: Instant,
    /// How long its first piece took.
    first: Option<Duration>,
}

impl<'a> AnswerReport<'a> {
    /// The model is asked.
    pub(super) fn begin(model: &'a ModelRef) -> Self {
        Self { model, began: Instant::now(), first: None }
    }

    /// A piece of the answer came.
    pub(super) fn piece(&mut self) {
        self.first.get_or_insert_with(|| self.began.elapsed());
    }
}
