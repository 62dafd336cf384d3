//! The events of a message as what the model says.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use handback_core::message::{StopReason, Usage};
use handback_core::model::ModelEvent;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::answer::Decode;
use super::super::fault::Fault;

/// Calls of one answer; more end it with an error.
const MOST_CALLS: usize = 256;

/// What kind of thing it is. It is read first, for only of known kinds the rest has a known shape.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
}

#[derive(Deserialize)]
struct MessageStart {
    message: StartedMessage,
}

#[derive(Deserialize)]
struct StartedMessage {
    usage: Option<MessageUsage>,
}

#[derive(Deserialize)]
struct BlockStart<'a> {
    index: u64,
    #[serde(borrow)]
    content_block: &'a RawValue,
}

#[derive(Deserialize)]
struct TextBlock {
    text: Option<String>,
}

#[derive(Deserialize)]
struct ThinkingBlock {
    thinking: Option<String>,
    signature: Option<String>,
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
    text: String,
}

#[derive(Deserialize)]
struct ThinkingDelta {
    thinking: String,
}

#[derive(Deserialize)]
struct SignatureDelta {
    signature: String,
}

#[derive(Deserialize)]
struct InputDelta {
    partial_json: String,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u64,
}

#[derive(Deserialize)]
struct MessageDelta {
    delta: StopDelta,
    usage: Option<MessageUsage>,
}

#[derive(Deserialize)]
struct StopDelta {
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct ErrorEvent {
    error: Value,
}

/// What was used so far, in all; what is not there has not changed.
#[derive(Deserialize)]
struct MessageUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
}

/// Reads the events of one answer.
#[derive(Default)]
pub(super) struct Decoder {
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
    whole: Option<String>,
}

impl Decode for Decoder {
    fn read(&mut self, data: &str, said: &mut VecDeque<ModelEvent>) -> Result<(), Fault> {
        let kind: Kind<'_> = parse(data)?;
        match &*kind.r#type {
            "message_start" => {
                let MessageStart { message } = parse(data)?;
                self.count(message.usage, said);
            }
            "content_block_start" => self.start_block(&parse(data)?, said)?,
            "content_block_delta" => self.read_delta(&parse(data)?, said)?,
            "content_block_stop" => {
                let BlockStop { index } = parse(data)?;
                if let Some(call) = self.open.remove(&index) {
                    end_call(call, said);
                }
            }
            "message_delta" => {
                let MessageDelta { delta, usage } = parse(data)?;
                self.stop = delta.stop_reason.as_deref().map(stop_reason).or(self.stop);
                self.count(usage, said);
            }
            "message_stop" if self.stop.is_none() => return Err(Fault::cut(None)),
            "message_stop" => self.end(said),
            "error" => {
                let ErrorEvent { error } = parse(data)?;
                return Err(Fault::reported(&error));
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, said: &mut VecDeque<ModelEvent>) {
        let reason = match self.stop.take() {
            None => return,
            Some(StopReason::Stop) if self.calls > 0 => StopReason::ToolCalls,
            Some(StopReason::ToolCalls) if self.calls == 0 => StopReason::Stop,
            Some(reason) => reason,
        };
        for call in std::mem::take(&mut self.open).into_values() {
            end_call(call, said);
        }
        said.push_back(ModelEvent::Stop(reason));
    }
}

impl Decoder {
    fn start_block(&mut self, start: &BlockStart<'_>, said: &mut VecDeque<ModelEvent>) -> Result<(), Fault> {
        let block = start.content_block.get();
        let kind: Kind<'_> = parse(block)?;
        match &*kind.r#type {
            "text" => {
                let TextBlock { text } = parse(block)?;
                said.extend(text.filter(|text| !text.is_empty()).map(ModelEvent::Text));
            }
            "thinking" => {
                let ThinkingBlock { thinking, signature } = parse(block)?;
                said.extend(thinking.filter(|text| !text.is_empty()).map(ModelEvent::Reasoning));
                said.extend(signature.filter(|text| !text.is_empty()).map(ModelEvent::Signature));
            }
            "tool_use" => {
                if self.calls >= MOST_CALLS {
                    return Err(Fault::too_much("tool calls in one answer", MOST_CALLS));
                }
                let ToolUseBlock { id, name, input } = parse(block)?;
                // A server that numbers all its blocks alike begins the next one instead of ending this one.
                if let Some(earlier) = self.open.remove(&start.index) {
                    end_call(earlier, said);
                }
                let index = self.calls;
                self.calls += 1;
                said.push_back(ModelEvent::CallStarted { index, id, name });
                let whole = input.map(|input| input.get().to_owned()).filter(|input| input != "{}");
                self.open.insert(start.index, OpenCall { index, whole });
            }
            _ => {}
        }
        Ok(())
    }

    fn read_delta(&mut self, event: &BlockDelta<'_>, said: &mut VecDeque<ModelEvent>) -> Result<(), Fault> {
        let delta = event.delta.get();
        let kind: Kind<'_> = parse(delta)?;
        let piece = match &*kind.r#type {
            "text_delta" => ModelEvent::Text(parse::<TextDelta>(delta)?.text),
            "thinking_delta" => ModelEvent::Reasoning(parse::<ThinkingDelta>(delta)?.thinking),
            "signature_delta" => ModelEvent::Signature(parse::<SignatureDelta>(delta)?.signature),
            // Others than ours have arguments too: tools that the provider runs itself.
            "input_json_delta" => match self.open.get_mut(&event.index) {
                None => return Ok(()),
                Some(call) => {
                    let delta = parse::<InputDelta>(delta)?.partial_json;
                    if !delta.is_empty() {
                        call.whole = None;
                    }
                    ModelEvent::Arguments { index: call.index, delta }
                }
            },
            _ => return Ok(()),
        };
        let is_empty = match &piece {
            ModelEvent::Text(text) | ModelEvent::Reasoning(text) | ModelEvent::Signature(text) => text.is_empty(),
            ModelEvent::Arguments { delta, .. } => delta.is_empty(),
            _ => false,
        };
        if !is_empty {
            said.push_back(piece);
        }
        Ok(())
    }

    fn count(&mut self, usage: Option<MessageUsage>, said: &mut VecDeque<ModelEvent>) {
        let Some(usage) = usage else { return };
        let earlier = self.usage;
        self.usage = Usage {
            input: usage.input_tokens.unwrap_or(earlier.input),
            output: usage.output_tokens.unwrap_or(earlier.output),
            reasoning: 0,
            cache_read: usage.cache_read_input_tokens.unwrap_or(earlier.cache_read),
            cache_write: usage.cache_creation_input_tokens.unwrap_or(earlier.cache_write),
        };
        said.push_back(ModelEvent::Usage(self.usage));
    }
}

fn end_call(call: OpenCall, said: &mut VecDeque<ModelEvent>) {
    let index = call.index;
    said.extend(call.whole.map(|delta| ModelEvent::Arguments { index, delta }));
    said.push_back(ModelEvent::CallEnded { index });
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
