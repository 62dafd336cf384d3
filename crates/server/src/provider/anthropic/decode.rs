//! Reads the events of a message stream.

use std::borrow::Cow;
use std::collections::BTreeMap;

use handback_core::json::mend;
use handback_core::sessions::ModelEvent;
use handback_core::store::{Kept, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::answer::{Decode, MOST_CALLS};
use super::super::fault::Fault;
use super::super::queue::{Channel, EventQueue, JsonText, Members, count};
use super::KeptThought;

/// The type of an event, a block or a delta. It is read first, because the other members of an unknown type may have any
/// shape.
#[derive(Deserialize)]
struct Tag<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

/// An event of a known type.
#[derive(Deserialize)]
struct Event<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    message: Option<StartedMessage<'a>>,
    #[serde(borrow)]
    content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<&'a RawValue>,
    #[serde(borrow)]
    usage: Option<Members<'a>>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct StartedMessage<'a> {
    id: Option<String>,
    #[serde(borrow)]
    usage: Option<Members<'a>>,
}

/// A block or a delta of a known type.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    text: Option<JsonText>,
    thinking: Option<JsonText>,
    partial_json: Option<JsonText>,
    signature: Option<String>,
    data: String,
    id: String,
    name: String,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    stop_reason: Option<String>,
}

/// Reads the events of one answer.
#[derive(Default)]
pub(in crate::provider) struct Decoder {
    /// The id of the answer.
    id: Option<String>,
    /// What the provider wants back with the thought that is open.
    thought: Option<KeptThought>,
    /// The open tool blocks by their index.
    open: BTreeMap<u64, OpenCall>,
    /// How many calls there were.
    calls: usize,
    usage: Usage,
    stop: Option<StopReason>,
}

struct OpenCall {
    index: usize,
    /// The arguments that came with the start of the block, until a piece of them comes.
    whole: Option<JsonText>,
}

impl Decode for Decoder {
    fn read(&mut self, data: &str, events: &mut EventQueue) -> Result<(), Fault> {
        let Tag { r#type } = parse(data)?;
        if !matches!(&*r#type, "message_start" | "message_delta" | "message_stop" | "error")
            && !r#type.starts_with("content_block_")
        {
            return Ok(());
        }
        let event: Event<'_> = parse(data)?;
        // A block without its number could be taken for another one.
        let index = event
            .index
            .ok_or_else(|| Fault::unreadable(&<serde_json::Error as serde::de::Error>::missing_field("index")));
        match (&*r#type, event.message) {
            ("message_start", Some(message)) => self.start(message, events),
            ("content_block_start", _) => self.start_block(index?, text(event.content_block), events)?,
            ("content_block_delta", _) => self.read_delta(index?, text(event.delta), events)?,
            ("content_block_stop", _) => self.end_block(index?, events),
            ("message_delta", _) => {
                let Block { stop_reason, .. } = parse(text(event.delta))?;
                self.stop = stop_reason.as_deref().map(self::stop_reason).or(self.stop);
                self.count(event.usage, events);
            }
            ("message_stop", _) => {
                // Some servers never say why.
                self.stop.get_or_insert(StopReason::Stop);
                self.end(events);
            }
            ("error", _) => return Err(Fault::reported(&parse::<Value>(&mend(text(event.error)))?)),
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.stop.is_some()
    }

    fn end(&mut self, events: &mut EventQueue) {
        let Some(reason) = self.stop.take() else { return };
        self.end_thought(events);
        for call in std::mem::take(&mut self.open).into_values() {
            end_call(call, events);
        }
        events.stop(reason, self.calls);
    }
}

impl Decoder {
    /// Starts an answer. A router whose first provider failed may start another in the same stream.
    fn start(&mut self, message: StartedMessage<'_>, events: &mut EventQueue) {
        let is_another = matches!((&self.id, &message.id), (Some(earlier), Some(id)) if earlier != id);
        if is_another {
            *self = Self::default();
            events.push(ModelEvent::Restarted);
        }
        self.id = message.id.or(self.id.take());
        self.count(message.usage, events);
    }

    fn start_block(&mut self, index: u64, block: &str, events: &mut EventQueue) -> Result<(), Fault> {
        // A server that gives all its blocks one index starts the next one instead of ending this one.
        self.end_block(index, events);
        let Tag { r#type } = parse(block)?;
        match &*r#type {
            "text" => events.piece(Channel::Text, parse::<Block<'_>>(block)?.text.unwrap_or_default()),
            "thinking" => {
                let Block { thinking, signature, .. } = parse(block)?;
                events.piece(Channel::Reasoning, thinking.unwrap_or_default());
                let signature = signature.filter(|signature| !signature.is_empty());
                self.thought = Some(signature.map_or(KeptThought::Unsigned {}, KeptThought::Signed));
            }
            "redacted_thinking" => self.thought = Some(KeptThought::Redacted { data: parse::<Block<'_>>(block)?.data }),
            "tool_use" => {
                if self.calls >= MOST_CALLS {
                    return Err(Fault::too_much("tool calls in one answer", MOST_CALLS));
                }
                let Block { id, name, input, .. } = parse(block)?;
                let call = self.calls;
                self.calls += 1;
                events.push(ModelEvent::CallStarted { index: call, id, name });
                let whole =
                    input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "null")).map(JsonText::from);
                self.open.insert(index, OpenCall { index: call, whole });
            }
            _ => {}
        }
        Ok(())
    }

    fn read_delta(&mut self, index: u64, delta: &str, events: &mut EventQueue) -> Result<(), Fault> {
        let Tag { r#type } = parse(delta)?;
        if !matches!(&*r#type, "text_delta" | "thinking_delta" | "signature_delta" | "input_json_delta") {
            return Ok(());
        }
        let Block { text, thinking, partial_json, signature, .. } = parse(delta)?;
        match &*r#type {
            "text_delta" => events.piece(Channel::Text, text.unwrap_or_default()),
            "thinking_delta" => {
                self.thought.get_or_insert(KeptThought::Unsigned {});
                events.piece(Channel::Reasoning, thinking.unwrap_or_default());
            }
            "signature_delta" => {
                let more = signature.unwrap_or_default();
                match &mut self.thought {
                    Some(KeptThought::Signed(signature)) => signature.push_str(&more),
                    Some(KeptThought::Redacted { .. }) => {}
                    thought => *thought = Some(KeptThought::Signed(more)),
                }
            }
            // Tools that the provider runs itself have arguments too, and no open call.
            _ => {
                if let Some(call) = self.open.get_mut(&index) {
                    let piece = partial_json.unwrap_or_default();
                    if !piece.is_empty() {
                        call.whole = None;
                    }
                    events.piece(Channel::Arguments(call.index), piece);
                }
            }
        }
        Ok(())
    }

    fn end_block(&mut self, index: u64, events: &mut EventQueue) {
        self.end_thought(events);
        if let Some(call) = self.open.remove(&index) {
            end_call(call, events);
        }
    }

    fn end_thought(&mut self, events: &mut EventQueue) {
        let kept = self.thought.take().and_then(|thought| Kept::new(&thought).ok());
        if let Some(kept) = kept {
            events.push(ModelEvent::Thought(kept));
        }
    }

    /// Takes the usage so far; what is missing in it has not changed.
    fn count(&mut self, usage: Option<Members<'_>>, events: &mut EventQueue) {
        let Some(usage) = usage else { return };
        let count = |name: &str| usage.get(name).and_then(|json| count(json));
        self.usage = Usage {
            input: count("input_tokens").unwrap_or(self.usage.input),
            output: count("output_tokens").unwrap_or(self.usage.output),
            reasoning: None,
            cache_read: count("cache_read_input_tokens").or(self.usage.cache_read),
            cache_write: count("cache_creation_input_tokens").or(self.usage.cache_write),
        };
        events.push(ModelEvent::Usage(self.usage));
    }
}

fn end_call(call: OpenCall, events: &mut EventQueue) {
    events.piece(Channel::Arguments(call.index), call.whole.unwrap_or_default());
    events.push(ModelEvent::CallEnded { index: call.index, kept: None });
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::Stop,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
        "refusal" => StopReason::ContentFilter,
        _ => StopReason::Other,
    }
}

fn text(json: Option<&RawValue>) -> &str {
    json.map_or("null", RawValue::get)
}

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Fault> {
    serde_json::from_str(json).map_err(|error| Fault::unreadable(&error))
}
