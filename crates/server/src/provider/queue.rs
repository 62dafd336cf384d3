//! The events of a model's answer that nobody has taken yet, and the JSON that they are read from. A piece of text may
//! end in the middle of a surrogate pair: then its last half waits for the next piece.

use std::collections::{BTreeMap, VecDeque};

use handback_core::sessions::ModelEvent;
use handback_core::store::StopReason;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The largest number that every reader of JSON knows exactly.
const MOST_TOKENS: u64 = (1 << 53) - 1;

/// The members of an object, unread.
pub(super) type Members<'a> = BTreeMap<String, &'a RawValue>;

/// A text that comes in pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Channel {
    /// The answer's text.
    Text,
    /// The model's thoughts.
    Reasoning,
    /// The arguments of the call with this index.
    Arguments(usize),
}

impl Channel {
    fn event(self, piece: String) -> ModelEvent {
        match self {
            Self::Text => ModelEvent::Text(piece),
            Self::Reasoning => ModelEvent::Reasoning(piece),
            Self::Arguments(index) => ModelEvent::Arguments { index, delta: piece },
        }
    }
}

/// The events that nobody has taken yet.
#[derive(Debug, Default)]
pub(super) struct EventQueue {
    events: VecDeque<ModelEvent>,
    /// The high surrogate that the last piece ended with.
    half: Option<(Channel, u16)>,
}

impl EventQueue {
    /// Adds a piece of text.
    pub(super) fn piece(&mut self, channel: Channel, piece: JsonText) {
        if piece.is_empty() {
            return;
        }
        let half = match self.half.take() {
            Some((other, half)) if other == channel => Some(half),
            other => {
                self.half = other;
                self.give_up_half();
                None
            }
        };
        let (text, half) = piece.after(half);
        self.half = half.map(|half| (channel, half));
        if !text.is_empty() {
            self.events.push_back(channel.event(text));
        }
    }

    /// Adds an event that is no piece of text.
    pub(super) fn push(&mut self, event: ModelEvent) {
        // Usage may come between any two pieces.
        if !matches!(event, ModelEvent::Usage(_)) {
            self.give_up_half();
        }
        self.events.push_back(event);
    }

    /// Adds the end of the answer. Some servers mix up whether the model is done or waits for its calls.
    pub(super) fn stop(&mut self, reason: StopReason, calls: usize) {
        self.push(ModelEvent::Stop(match reason {
            StopReason::Stop if calls > 0 => StopReason::ToolCalls,
            StopReason::ToolCalls if calls == 0 => StopReason::Stop,
            reason => reason,
        }));
    }

    /// Replaces a high surrogate whose low surrogate did not come.
    fn give_up_half(&mut self) {
        if let Some((channel, _)) = self.half.take() {
            self.events.push_back(channel.event(char::REPLACEMENT_CHARACTER.to_string()));
        }
    }

    /// Takes the first event.
    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    /// Whether there is nothing to take.
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// A JSON string that may have lone surrogates in it.
#[derive(PartialEq, Eq, Debug, Clone, Default)]
pub(super) struct JsonText(Vec<u8>);

impl JsonText {
    /// The string, if it is one.
    pub(super) fn read(json: &RawValue) -> Option<Self> {
        if json.get().starts_with('"') { serde_json::from_str(json.get()).ok() } else { None }
    }

    /// Adds more.
    pub(super) fn append(&mut self, more: &Self) {
        self.0.extend_from_slice(&more.0);
    }

    /// Whether it is empty.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text as UTF-8, with lone surrogates as three bytes each.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with the replacement character in place of lone surrogates.
    pub(super) fn text(self) -> String {
        let (mut text, half) = self.after(None);
        if half.is_some() {
            text.push(char::REPLACEMENT_CHARACTER);
        }
        text
    }

    /// The text after a high surrogate, and the high surrogate that it ends with.
    fn after(self, half: Option<u16>) -> (String, Option<u16>) {
        let bytes = match (half, String::from_utf8(self.0)) {
            (None, Ok(text)) => return (text, None),
            (_, Ok(text)) => text.into_bytes(),
            (_, Err(error)) => error.into_bytes(),
        };
        let mut units: Vec<u16> = half.into_iter().collect();
        let mut lone = Vec::new();
        for chunk in bytes.utf8_chunks() {
            units.extend(chunk.valid().encode_utf16());
            // The parser writes a lone surrogate as the three bytes that UTF-8 would have for its number.
            lone.extend_from_slice(chunk.invalid());
            if let [first, second, third] = lone[..] {
                units.push(u16::from(first & 0xF) << 12 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F));
                lone.clear();
            }
        }
        let half = units.pop_if(|unit| (0xD800..0xDC00).contains(unit));
        (String::from_utf16_lossy(&units), half)
    }
}

/// A number, which some servers write as a string.
pub(super) fn number(json: &RawValue) -> Option<f64> {
    json.get().trim_matches('"').parse().ok()
}

/// A number of tokens. Some servers count in fractions, or write -1 for an unknown number.
pub(super) fn count(json: &RawValue) -> Option<u64> {
    number(json).filter(|count| *count >= 0.0).map(|count| (count as u64).min(MOST_TOKENS))
}

impl From<&str> for JsonText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl Visitor<'_> for TextVisitor {
            type Value = JsonText;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<JsonText, E> {
                Ok(JsonText(bytes.to_vec()))
            }
        }
        // Only bytes may hold lone surrogates.
        deserializer.deserialize_bytes(TextVisitor)
    }
}

#[cfg(test)]
mod tests;
