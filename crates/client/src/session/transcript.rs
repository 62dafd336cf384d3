//! Finds what is new in the events and messages of a turn, or of a whole session.
//!
//! The same text comes as pieces of a growing part, as a whole part, and, after a lost connection, in messages that are
//! read again. The transcript remembers what it returned of each part, and returns only the rest.

use std::collections::HashMap;

use handback_wire::event::Event;
use handback_wire::session::{Message, MessageWithParts, Part, Tokens};

use super::event::TurnEvent;

/// The known state of one turn, whose size is bounded, because the server bounds turns; or of all turns of a session.
#[derive(Debug)]
pub(super) struct Transcript {
    /// The user's message; `None` if the answers to all messages are wanted.
    question: Option<String>,
    /// The latest versions of the messages that answer it, in order.
    answers: Vec<Message>,
    /// What was returned, by part.
    given: HashMap<String, GivenPart>,
}

#[derive(Debug, Default)]
struct GivenPart {
    text: String,
    is_reasoning: bool,
    /// Whether `text` is all that the part had at its latest event. Only then can the next piece be appended.
    is_current: bool,
    /// The stage of the call in the latest event that was returned; 0 if there was none.
    stage: u8,
}

impl Transcript {
    /// The turn that answers the message `question`.
    pub(super) fn new(question: String) -> Self {
        Self { question: Some(question), ..Self::of_session() }
    }

    /// All turns of a session. It is told nothing of the messages of users.
    pub(super) fn of_session() -> Self {
        Self { question: None, answers: Vec::new(), given: HashMap::new() }
    }

    /// Returns what an event adds. Events of other turns add nothing.
    pub(super) fn hear(&mut self, event: &Event) -> Option<TurnEvent> {
        match event {
            Event::MessageUpdated { info, .. } => {
                self.know(info);
                None
            }
            Event::PartUpdated { part, .. } if self.is_answer(&part.message_id) => self.take(part),
            Event::PartDelta { part_id, field, delta, .. } if field == "text" => self.grow(part_id, delta),
            _ => None,
        }
    }

    /// Returns what the current messages of the session add.
    pub(super) fn read(&mut self, messages: &[MessageWithParts]) -> Vec<TurnEvent> {
        let mut added = Vec::new();
        for message in messages {
            self.know(&message.info);
            if self.is_answer(&message.info.id) {
                added.extend(message.parts.iter().filter_map(|part| self.take(part)));
            }
        }
        // Events that are under way may be older than these messages.
        self.lose_track();
        added
    }

    /// Notes that events were missed: pieces are ignored until their part comes as a whole.
    pub(super) fn lose_track(&mut self) {
        self.given.values_mut().for_each(|part| part.is_current = false);
    }

    /// Whether a message is an answer.
    pub(super) fn is_answer(&self, message: &str) -> bool {
        self.answers.iter().any(|answer| answer.id == message)
    }

    /// Whether a message is the last answer.
    pub(super) fn is_last(&self, message: &str) -> bool {
        self.answers.last().is_some_and(|answer| answer.id == message)
    }

    /// The tokens of all answers. The numbers are the provider's claims, so they saturate.
    pub(super) fn tokens(&self) -> Tokens {
        let mut sum = Tokens::default();
        for tokens in self.answers.iter().filter_map(|answer| answer.tokens) {
            sum.input = sum.input.saturating_add(tokens.input);
            sum.output = sum.output.saturating_add(tokens.output);
            sum.reasoning = sum.reasoning.saturating_add(tokens.reasoning);
            sum.cache.read = sum.cache.read.saturating_add(tokens.cache.read);
            sum.cache.write = sum.cache.write.saturating_add(tokens.cache.write);
        }
        sum
    }

    fn know(&mut self, info: &Message) {
        if self.question.is_some() && info.parent_id != self.question {
            return;
        }
        match self.answers.iter_mut().find(|known| known.id == info.id) {
            Some(known) => known.clone_from(info),
            None => self.answers.push(info.clone()),
        }
    }

    fn take(&mut self, part: &Part) -> Option<TurnEvent> {
        match part.kind.as_str() {
            "text" | "reasoning" => self.take_text(part),
            "tool" => self.take_call(part),
            _ => None,
        }
    }

    /// The rest of a text that comes as a whole.
    fn take_text(&mut self, part: &Part) -> Option<TurnEvent> {
        let whole = part.text.as_deref().unwrap_or_default();
        let given = self.given.entry(part.id.clone()).or_default();
        given.is_reasoning = part.kind == "reasoning";
        let new = match whole.strip_prefix(given.text.as_str()) {
            Some(new) => new.to_owned(),
            // This version is older than the text that was returned.
            None if given.text.starts_with(whole) => {
                given.is_current = false;
                return None;
            }
            // The text was replaced.
            None => format!("\n{whole}"),
        };
        given.is_current = true;
        whole.clone_into(&mut given.text);
        (!new.is_empty()).then(|| given.piece(&part.id, &new))
    }

    fn grow(&mut self, part: &str, delta: &str) -> Option<TurnEvent> {
        let given = self.given.get_mut(part).filter(|part| part.is_current)?;
        given.text.push_str(delta);
        Some(given.piece(part, delta))
    }

    /// Returns a call whenever its status has advanced.
    fn take_call(&mut self, part: &Part) -> Option<TurnEvent> {
        let stage = match part.state.as_ref()?.status.as_str() {
            "pending" => 1,
            "running" => 2,
            "completed" | "error" => 3,
            _ => return None,
        };
        let given = self.given.entry(part.id.clone()).or_default();
        if stage <= given.stage {
            return None;
        }
        given.stage = stage;
        Some(TurnEvent::Tool(Box::new(part.clone())))
    }
}

impl GivenPart {
    fn piece(&self, part: &str, text: &str) -> TurnEvent {
        let (part, text) = (part.to_owned(), text.to_owned());
        if self.is_reasoning { TurnEvent::Reasoning { part, text } } else { TurnEvent::Text { part, text } }
    }
}

#[cfg(test)]
mod tests;
