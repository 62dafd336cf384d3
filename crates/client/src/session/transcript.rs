//! What of a turn is new: events and messages in, what they add out, each once.
//!
//! The same text comes in several ways: as pieces of a growing part, as the part as a whole, and, after a lost
//! connection, in the messages that are read again. Here is known what was told of each part, so that only the rest is.

use std::collections::HashMap;

use handback_wire::event::Event;
use handback_wire::session::{Message, MessageWithParts, Part, Tokens};

use super::event::TurnEvent;

/// One turn: a user's message and all that answers it. It grows with the turn, which the server bounds.
#[derive(Debug)]
pub(super) struct Transcript {
    /// The user's message.
    question: String,
    /// The messages that answer it, in order, as they were last told.
    answers: Vec<Message>,
    /// What was told, by part.
    told: HashMap<String, Told>,
}

#[derive(Debug, Default)]
struct Told {
    text: String,
    is_reasoning: bool,
    /// Whether `text` is all that the part had when it was last heard of: only then do pieces of growth fit onto it.
    is_current: bool,
    /// How far a call has come, as it was told: 0 is not at all.
    stage: u8,
}

impl Transcript {
    /// The turn that answers the message `question`.
    pub(super) fn new(question: String) -> Self {
        Self { question, answers: Vec::new(), told: HashMap::new() }
    }

    /// What an event adds; events of anything but this turn add nothing.
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

    /// What the messages of the session, as they are now, add.
    pub(super) fn read(&mut self, messages: &[MessageWithParts]) -> Vec<TurnEvent> {
        let mut added = Vec::new();
        for message in messages {
            self.know(&message.info);
            if self.is_answer(&message.info.id) {
                added.extend(message.parts.iter().filter_map(|part| self.take(part)));
            }
        }
        // Events may be on their way that are older than this.
        self.lose_track();
        added
    }

    /// Events were missed: growth is not to be trusted until a part is told as a whole again.
    pub(super) fn lose_track(&mut self) {
        self.told.values_mut().for_each(|told| told.is_current = false);
    }

    /// Whether a message is one of those that answer.
    pub(super) fn is_answer(&self, message: &str) -> bool {
        self.answers.iter().any(|answer| answer.id == message)
    }

    /// Whether a message is the last of those that answer.
    pub(super) fn is_last(&self, message: &str) -> bool {
        self.answers.last().is_some_and(|answer| answer.id == message)
    }

    /// What all the answers cost together. The numbers are what a provider claims: they saturate.
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
        if info.parent_id.as_ref() != Some(&self.question) {
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

    /// A text as a whole: what of it was not told yet.
    fn take_text(&mut self, part: &Part) -> Option<TurnEvent> {
        let whole = part.text.as_deref().unwrap_or_default();
        let told = self.told.entry(part.id.clone()).or_default();
        told.is_reasoning = part.kind == "reasoning";
        let new = match whole.strip_prefix(told.text.as_str()) {
            Some(new) => new.to_owned(),
            // Older than what is told already.
            None if told.text.starts_with(whole) => {
                told.is_current = false;
                return None;
            }
            // It was written anew.
            None => format!("\n{whole}"),
        };
        told.is_current = true;
        whole.clone_into(&mut told.text);
        (!new.is_empty()).then(|| told.piece(&part.id, &new))
    }

    fn grow(&mut self, part: &str, delta: &str) -> Option<TurnEvent> {
        let told = self.told.get_mut(part).filter(|told| told.is_current)?;
        told.text.push_str(delta);
        Some(told.piece(part, delta))
    }

    /// A call is told whenever it has come further.
    fn take_call(&mut self, part: &Part) -> Option<TurnEvent> {
        let stage = match part.state.as_ref()?.status.as_str() {
            "pending" => 1,
            "running" => 2,
            "completed" | "error" => 3,
            _ => return None,
        };
        let told = self.told.entry(part.id.clone()).or_default();
        if stage <= told.stage {
            return None;
        }
        told.stage = stage;
        Some(TurnEvent::Tool(Box::new(part.clone())))
    }
}

impl Told {
    fn piece(&self, part: &str, text: &str) -> TurnEvent {
        let (part, text) = (part.to_owned(), text.to_owned());
        if self.is_reasoning { TurnEvent::Reasoning { part, text } } else { TurnEvent::Text { part, text } }
    }
}

#[cfg(test)]
mod tests;
