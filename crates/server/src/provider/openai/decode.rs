//! The chunks of a chat completion as what the model says.

use std::borrow::Cow;
use std::collections::VecDeque;

use handback_core::message::{StopReason, Usage};
use handback_core::model::ModelEvent;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;

use super::super::answer::Decode;
use super::super::fault::Fault;

/// Calls of one answer; more end it with an error.
const MOST_CALLS: usize = 256;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<ChunkUsage>,
    error: Option<Value>,
    /// "error" where the whole chunk is one.
    object: Option<Cow<'a, str>>,
    message: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<u64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    content: Option<Content>,
    refusal: Option<Content>,
    reasoning_content: Option<Content>,
    reasoning: Option<Content>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

/// Mostly a text; Mistral has parts, of which those that are texts count. Anything else counts as nothing.
#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
struct ContentPart {
    text: Option<String>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<i64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Default, Deserialize)]
struct FunctionDelta<'a> {
    name: Option<String>,
    /// A text that contains JSON, or that JSON itself.
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct ChunkUsage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

/// Reads the chunks of one answer.
#[derive(Default)]
pub(super) struct Decoder {
    calls: Vec<Call>,
    finish: Option<StopReason>,
}

struct Call {
    /// The provider's index of it.
    slot: Option<i64>,
    id: String,
    /// Arguments that came before the tool's name; `None` once the call is started.
    held: Option<String>,
}

impl Decode for Decoder {
    fn read(&mut self, data: &str, said: &mut VecDeque<ModelEvent>) -> Result<(), Fault> {
        match data.trim() {
            "" => return Ok(()),
            "[DONE]" if self.finish.is_none() => return Err(Fault::cut(None)),
            "[DONE]" => {
                self.end(said);
                return Ok(());
            }
            _ => {}
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| Fault::unreadable(&error))?;
        if let Some(error) = chunk.error {
            return Err(Fault::reported(&error));
        }
        if let (Some("error"), Some(message)) = (chunk.object.as_deref(), chunk.message) {
            return Err(Fault::reported(&message));
        }
        for choice in chunk.choices.into_iter().flatten().filter(|choice| choice.index.unwrap_or(0) == 0) {
            if let Some(delta) = choice.delta {
                self.read_delta(delta, said)?;
            }
            // Some servers send an empty reason with every chunk.
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.finish = Some(stop_reason(&reason));
            }
        }
        said.extend(chunk.usage.map(|usage| ModelEvent::Usage(usage.into())));
        Ok(())
    }

    fn end(&mut self, said: &mut VecDeque<ModelEvent>) {
        let reason = match self.finish.take() {
            None => return,
            // Some servers say that it just stopped.
            Some(StopReason::Stop) if !self.calls.is_empty() => StopReason::ToolCalls,
            Some(StopReason::ToolCalls) if self.calls.is_empty() => StopReason::Stop,
            Some(reason) => reason,
        };
        for index in 0..self.calls.len() {
            self.start(index, String::new(), said);
            said.push_back(ModelEvent::CallEnded { index });
        }
        said.push_back(ModelEvent::Stop(reason));
    }
}

impl Decoder {
    fn read_delta(&mut self, delta: Delta<'_>, said: &mut VecDeque<ModelEvent>) -> Result<(), Fault> {
        // A server that knows both names of it sends it under both.
        let reasoning = text(delta.reasoning_content).or_else(|| text(delta.reasoning));
        said.extend(reasoning.map(ModelEvent::Reasoning));
        said.extend(text(delta.content).map(ModelEvent::Text));
        said.extend(text(delta.refusal).map(ModelEvent::Text));
        delta.tool_calls.into_iter().flatten().try_for_each(|call| self.read_call(call, said))
    }

    fn read_call(&mut self, delta: CallDelta<'_>, said: &mut VecDeque<ModelEvent>) -> Result<(), Fault> {
        let function = delta.function.unwrap_or_default();
        let (id, name) = (delta.id.unwrap_or_default(), function.name.unwrap_or_default());
        let index = match self.find(delta.index, &id, &name) {
            Some(index) => index,
            None if self.calls.len() >= MOST_CALLS => {
                return Err(Fault::too_much("tool calls in one answer", MOST_CALLS));
            }
            None => {
                self.calls.push(Call { slot: delta.index, id, held: Some(String::new()) });
                self.calls.len() - 1
            }
        };
        if !name.is_empty() {
            self.start(index, name, said);
        }
        let Some(arguments) = function.arguments else { return Ok(()) };
        let delta = match arguments.get() {
            text if text.starts_with('"') => serde_json::from_str(text).map_err(|error| Fault::unreadable(&error))?,
            json => json.to_owned(),
        };
        match self.calls.get_mut(index).and_then(|call| call.held.as_mut()) {
            Some(held) => held.push_str(&delta),
            None if delta.is_empty() => {}
            None => said.push_back(ModelEvent::Arguments { index, delta }),
        }
        Ok(())
    }

    /// The call that more is said of; `None` if this begins another. Servers differ: some give no index, some the index
    /// 0 to every call, some no id, some a new id with every piece.
    fn find(&self, slot: Option<i64>, id: &str, name: &str) -> Option<usize> {
        let known = match slot {
            Some(_) => self.calls.iter().rposition(|call| call.slot == slot),
            None if !id.is_empty() => self.calls.iter().rposition(|call| call.id == id),
            None if name.is_empty() => self.calls.len().checked_sub(1),
            None => None,
        };
        known.filter(|index| name.is_empty() || id.is_empty() || self.calls[*index].id == id)
    }

    /// Tells that a call begins, if that was not told yet.
    fn start(&mut self, index: usize, name: String, said: &mut VecDeque<ModelEvent>) {
        let call = &mut self.calls[index];
        let Some(held) = call.held.take() else { return };
        said.push_back(ModelEvent::CallStarted { index, id: call.id.clone(), name });
        if !held.is_empty() {
            said.push_back(ModelEvent::Arguments { index, delta: held });
        }
    }
}

/// The text, if there is any.
fn text(content: Option<Content>) -> Option<String> {
    let text = match content? {
        Content::Text(text) => text,
        Content::Parts(parts) => parts.into_iter().filter_map(|part| part.text).collect(),
        Content::Other(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "stop" => StopReason::Stop,
        "tool_calls" | "function_call" => StopReason::ToolCalls,
        "length" | "max_tokens" => StopReason::Length,
        "content_filter" => StopReason::ContentFilter,
        _ => StopReason::Other,
    }
}

impl From<ChunkUsage> for Usage {
    fn from(usage: ChunkUsage) -> Self {
        let prompt = usage.prompt_tokens.unwrap_or_default();
        let completion = usage.completion_tokens.unwrap_or_default();
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens).unwrap_or_default();
        let reasoning =
            usage.completion_tokens_details.and_then(|details| details.reasoning_tokens).unwrap_or_default();
        Self {
            input: prompt.saturating_sub(cached),
            // Some do not count what was thought among what was written.
            output: completion.checked_sub(reasoning).unwrap_or(completion),
            reasoning,
            cache_read: cached,
            cache_write: 0,
        }
    }
}
