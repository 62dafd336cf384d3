//! The events of a message as what the model says.

use std::borrow::Cow;
use std::collections::BTreeMap;

use handback_core::json::mend;
use handback_core::sessions::ModelEvent;
use handback_core::store::{Kept, StopReason, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::answer::Decode;
use super::super::fault::Fault;
use super::super::queue::{Channel, EventQueue, JsonText, count};
use super::KeptThought;

/// Calls of one answer; more end it with an error.
const MOST_CALLS: usize = 256;

/// What kind of thing it is. It is read first, for only of known kinds the rest has a known shape.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

#[derive(Deserialize)]
struct MessageStart<'a> {
    #[serde(borrow)]
    message: StartedMessage<'a>,
}

#[derive(Deserialize)]
struct StartedMessage<'a> {
    id: Option<String>,
    #[serde(borrow)]
    usage: Option<MessageUsage<'a>>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    index: u64,
    #[serde(borrow)]
    content_block: &'a RawValue,
}

#[derive(Deserialize)]
struct TextBlock {
    text: Option<JsonText>,
}

#[derive(Deserialize)]
struct ThinkingBlock {
    thinking: Option<JsonText>,
    signature: Option<String>,
}

#[derive(Deserialize)]
struct RedactedBlock {
    data: String,
}

#[derive(Deserialize)]
struct ToolUseBlock<'a> {
    id: String,
    name: String,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: u64,
    #[serde(borrow)]
    delta: &'a RawValue,
}

#[derive(Deserialize)]
struct TextDelta {
    text: JsonText,
}

#[derive(Deserialize)]
struct ThinkingDelta {
    thinking: JsonText,
}

#[derive(Deserialize)]
struct SignatureDelta {
    signature: String,
}

#[derive(Deserialize)]
struct InputDelta {
    partial_json: JsonText,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u64,
}

#[derive(Deserialize)]
struct MessageDelta<'a> {
    delta: StopDelta,
    #[serde(borrow)]
    usage: Option<MessageUsage<'a>>,
}

#[derive(Deserialize)]
struct StopDelta {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct ErrorEvent<'a> {
    #[serde(borrow)]
    error: &'a RawValue,
}

/// What was used so far, in all; what is not there has not changed.
#[derive(Deserialize)]
struct MessageUsage<'a> {
    #[serde(borrow)]
    input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    output_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_read_input_tokens: Option<&'a RawValue>,
    #[serde(borrow)]
    cache_creation_input_tokens: Option<&'a RawValue>,
}

/// Reads the events of one answer.
#[derive(Default)]
pub(super) struct Decoder {
    /// The id of the answer.
    id: Option<String>,
    /// What the model thinks just now.
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
    /// Arguments that came with the beginning, for as long as no piece of them comes.
    whole: Option<JsonText>,
}

impl Decode for Decoder {
    fn read(&mut self, data: &str, said: &mut EventQueue) -> Result<(), Fault> {
        let kind: Kind<'_> = parse(data)?;
        match &*kind.r#type {
            "message_start" => {
                let MessageStart { message } = parse(data)?;
                self.start(message, said);
            }
            "content_block_start" => self.start_block(&parse(data)?, said)?,
            "content_block_delta" => self.read_delta(&parse(data)?, said)?,
            "content_block_stop" => {
                let BlockStop { index } = parse(data)?;
                self.end_thought(said);
                if let Some(call) = self.open.remove(&index) {
                    end_call(call, said);
                }
            }
            "message_delta" => {
                let MessageDelta { delta, usage } = parse(data)?;
                self.stop = delta.stop_reason.as_deref().map(stop_reason).or(self.stop);
                self.count(usage, said);
            }
            "message_stop" => {
                // Some servers never say why.
                self.stop.get_or_insert(StopReason::Stop);
                self.end(said);
            }
            "error" => {
                let ErrorEvent { error } = parse(data)?;
                return Err(Fault::reported(&parse::<Value>(&mend(error.get()))?));
            }
            _ => {}
        }
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.stop.is_some()
    }

    fn end(&mut self, said: &mut EventQueue) {
        let reason = match self.stop.take() {
            None => return,
            Some(StopReason::Stop) if self.calls > 0 => StopReason::ToolCalls,
            Some(StopReason::ToolCalls) if self.calls == 0 => StopReason::Stop,
            Some(reason) => reason,
        };
        self.end_thought(said);
        for call in std::mem::take(&mut self.open).into_values() {
            end_call(call, said);
        }
        said.push(ModelEvent::Stop(reason));
    }
}

impl Decoder {
    /// An answer begins. A router whose first provider failed may begin another in the same stream.
    fn start(&mut self, message: StartedMessage<'_>, said: &mut EventQueue) {
        let is_another = matches!((&self.id, &message.id), (Some(earlier), Some(id)) if earlier != id);
        if is_another {
            *self = Self::default();
            said.push(ModelEvent::Restarted);
        }
        self.id = message.id.or(self.id.take());
        self.count(message.usage, said);
    }

    fn start_block(&mut self, start: &BlockStart<'_>, said: &mut EventQueue) -> Result<(), Fault> {
        // A server that numbers all its blocks alike begins the next one instead of ending this one.
        self.end_thought(said);
        if let Some(earlier) = self.open.remove(&start.index) {
            end_call(earlier, said);
        }
        let block = start.content_block.get();
        let kind: Kind<'_> = parse(block)?;
        match &*kind.r#type {
            "text" => {
                let TextBlock { text } = parse(block)?;
                said.piece(Channel::Text, text.unwrap_or_default());
            }
            "thinking" => {
                let ThinkingBlock { thinking, signature } = parse(block)?;
                said.piece(Channel::Reasoning, thinking.unwrap_or_default());
                let signature = signature.filter(|signature| !signature.is_empty());
                self.thought = Some(signature.map_or(KeptThought::Unsigned {}, KeptThought::Signed));
            }
            "redacted_thinking" => {
                let RedactedBlock { data } = parse(block)?;
                self.thought = Some(KeptThought::Redacted { data });
            }
            "tool_use" => {
                if self.calls >= MOST_CALLS {
                    return Err(Fault::too_much("tool calls in one answer", MOST_CALLS));
                }
                let ToolUseBlock { id, name, input } = parse(block)?;
                let index = self.calls;
                self.calls += 1;
                said.push(ModelEvent::CallStarted { index, id, name });
                let whole =
                    input.map(RawValue::get).filter(|input| !matches!(*input, "{}" | "null")).map(JsonText::from);
                self.open.insert(start.index, OpenCall { index, whole });
            }
            _ => {}
        }
        Ok(())
    }

    fn read_delta(&mut self, event: &BlockDelta<'_>, said: &mut EventQueue) -> Result<(), Fault> {
        let delta = event.delta.get();
        let kind: Kind<'_> = parse(delta)?;
        match &*kind.r#type {
            "text_delta" => said.piece(Channel::Text, parse::<TextDelta>(delta)?.text),
            "thinking_delta" => {
                self.thought.get_or_insert(KeptThought::Unsigned {});
                said.piece(Channel::Reasoning, parse::<ThinkingDelta>(delta)?.thinking);
            }
            "signature_delta" => {
                let SignatureDelta { signature: more } = parse(delta)?;
                match &mut self.thought {
                    Some(KeptThought::Signed(signature)) => signature.push_str(&more),
                    Some(KeptThought::Redacted { .. }) => {}
                    thought => *thought = Some(KeptThought::Signed(more)),
                }
            }
            // Others than ours have arguments too: tools that the provider runs itself.
            "input_json_delta" => {
                if let Some(call) = self.open.get_mut(&event.index) {
                    let piece = parse::<InputDelta>(delta)?.partial_json;
                    if !piece.is_empty() {
                        call.whole = None;
                    }
                    said.piece(Channel::Arguments(call.index), piece);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end_thought(&mut self, said: &mut EventQueue) {
        let kept = self.thought.take().and_then(|thought| Kept::new(&thought).ok());
        if let Some(kept) = kept {
            said.push(ModelEvent::Thought(kept));
        }
    }

    fn count(&mut self, usage: Option<MessageUsage<'_>>, said: &mut EventQueue) {
        let Some(usage) = usage else { return };
        let earlier = self.usage;
        self.usage = Usage {
            input: usage.input_tokens.and_then(count).unwrap_or(earlier.input),
            output: usage.output_tokens.and_then(count).unwrap_or(earlier.output),
            reasoning: None,
            cache_read: usage.cache_read_input_tokens.and_then(count).or(earlier.cache_read),
            cache_write: usage.cache_creation_input_tokens.and_then(count).or(earlier.cache_write),
        };
        said.push(ModelEvent::Usage(self.usage));
    }
}

fn end_call(call: OpenCall, said: &mut EventQueue) {
    said.piece(Channel::Arguments(call.index), call.whole.unwrap_or_default());
    said.push(ModelEvent::CallEnded { index: call.index, kept: None });
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

fn parse<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, Fault> {
    serde_json::from_str(json).map_err(|error| Fault::unreadable(&error))
}
