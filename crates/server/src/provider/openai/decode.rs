//! The chunks of a chat completion as what the model says. Many servers speak this wire, each a little differently:
//! what is not understood counts as nothing, and only what cannot be read at all is an error.

use std::collections::BTreeMap;

use handback_core::json::mend;
use handback_core::sessions::ModelEvent;
use handback_core::store::{Kept, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::answer::Decode;
use super::super::fault::Fault;
use super::super::queue::{Channel, EventQueue, JsonText, count, number};
use super::kept::{DETAILS, KeptCall, KeptMessage, OF_CALL, OF_FUNCTION, OF_MESSAGE, Spelling, merge};

/// Calls of one answer; more end it with an error.
const MOST_CALLS: usize = 256;

/// The members of an object, as they came.
type Members<'a> = BTreeMap<String, &'a RawValue>;

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    /// "error" where the whole chunk is one.
    #[serde(borrow)]
    object: Option<&'a RawValue>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(borrow)]
    index: Option<&'a RawValue>,
    #[serde(borrow)]
    delta: Option<Members<'a>>,
    /// In place of a delta, from servers that stream as they answer otherwise.
    #[serde(borrow)]
    message: Option<Members<'a>>,
    #[serde(borrow)]
    finish_reason: Option<&'a RawValue>,
}

/// Reads the chunks of one answer.
#[derive(Default)]
pub(super) struct Decoder {
    calls: Vec<Call>,
    kept: KeptMessage,
    /// Whether something came as a delta: a whole message then says all of it once more.
    has_deltas: bool,
    /// Whether calls came by their usual name; some servers send them by the old one as well.
    has_tool_calls: bool,
    finish: Option<StopReason>,
    /// Whether something came after a reason to stop: some servers send one with every chunk.
    goes_on: bool,
    is_done: bool,
}

#[derive(Default)]
struct Call {
    /// The server's index of it.
    slot: Option<i64>,
    id: String,
    name: String,
    arguments: JsonText,
    nesting: Nesting,
    /// Whether the call was told. It is told with its first arguments: until then its name may grow.
    is_told: bool,
    kept: KeptCall,
}

/// What is open in a JSON text that comes in pieces.
#[derive(Default)]
struct Nesting {
    depth: usize,
    is_string: bool,
    is_escaped: bool,
}

impl Nesting {
    fn read(&mut self, text: &[u8]) {
        for byte in text {
            match byte {
                _ if std::mem::take(&mut self.is_escaped) => {}
                b'\\' if self.is_string => self.is_escaped = true,
                b'"' => self.is_string = !self.is_string,
                _ if self.is_string => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_open(&self) -> bool {
        self.is_string || self.depth > 0
    }
}

impl Call {
    fn is_whole(&self) -> bool {
        !self.arguments.is_empty() && !self.nesting.is_open()
    }

    /// Whether all of it is said once more.
    fn is_said_again(&self, id: &str, name: &str, arguments: &JsonText) -> bool {
        self.is_whole() && !id.is_empty() && self.id == id && self.name == name && self.arguments == *arguments
    }
}

impl Decode for Decoder {
    fn read(&mut self, data: &str, said: &mut EventQueue) -> Result<(), Fault> {
        match data.trim() {
            "" => return Ok(()),
            "[DONE]" => {
                // Some servers never say why.
                self.finish.get_or_insert(StopReason::Stop);
                self.end(said);
                return Ok(());
            }
            _ => {}
        }
        let chunk: Chunk<'_> = serde_json::from_str(data).map_err(|error| Fault::unreadable(&error))?;
        if let Some(error) = chunk.error {
            return Err(Fault::reported(&value(error)));
        }
        if let (Some("error"), Some(message)) = (text(chunk.object).as_deref(), chunk.message) {
            return Err(Fault::reported(&value(message)));
        }
        let is_first = |choice: &Choice<'_>| choice.index.and_then(number).is_none_or(|index| index == 0.0);
        for choice in chunk.choices.into_iter().flatten().filter(is_first) {
            let delta = choice.delta.filter(says_something);
            self.has_deltas |= delta.is_some();
            let message = choice.message.filter(|_| !self.has_deltas);
            if let Some(members) = delta.or(message) {
                self.goes_on |= self.finish.is_some();
                self.read_members(&members, said)?;
            }
            // Some servers send an empty reason with every chunk.
            match text(choice.finish_reason).as_deref() {
                None | Some("") => {}
                Some("error") => {
                    return Err(Fault::reported(&"it stopped with an error and does not say which".into()));
                }
                Some(reason) => self.finish = Some(stop_reason(reason)),
            }
        }
        if let Some(usage) = chunk.usage.and_then(members).as_ref().and_then(tokens) {
            said.push(ModelEvent::Usage(usage));
        }
        // A model that has no room left leaves a call half written.
        let is_cut = self.finish == Some(StopReason::Length);
        let is_whole = is_cut || !self.calls.iter().any(|call| call.nesting.is_open());
        self.is_done = self.finish.is_some() && !self.goes_on && is_whole;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn end(&mut self, said: &mut EventQueue) {
        let reason = match self.finish.take() {
            None => return,
            // Some servers say that it just stopped.
            Some(StopReason::Stop) if !self.calls.is_empty() => StopReason::ToolCalls,
            Some(StopReason::ToolCalls) if self.calls.is_empty() => StopReason::Stop,
            Some(reason) => reason,
        };
        for index in 0..self.calls.len() {
            self.tell(index, said);
            said.push(ModelEvent::CallEnded { index, kept: unless_default(&self.calls[index].kept) });
        }
        if let Some(kept) = unless_default(&self.kept) {
            said.push(ModelEvent::Kept(kept));
        }
        said.push(ModelEvent::Stop(reason));
    }
}

impl Decoder {
    fn read_members(&mut self, members: &Members<'_>, said: &mut EventQueue) -> Result<(), Fault> {
        self.read_thoughts(members, said);
        for name in ["content", "refusal"] {
            for (channel, piece) in members.get(name).map(|json| pieces(json)).unwrap_or_default() {
                if channel == Channel::Reasoning {
                    self.spelled(Spelling::ThinkingPart);
                }
                said.piece(channel, piece);
            }
        }
        let calls =
            members.get("tool_calls").and_then(|json| serde_json::from_str::<Vec<Members<'_>>>(json.get()).ok());
        let earlier = self.calls.len();
        self.has_tool_calls |= calls.as_ref().is_some_and(|calls| !calls.is_empty());
        for call in calls.iter().flatten() {
            let function = call.get("function").and_then(|json| self::members(json)).unwrap_or_default();
            let slot = call.get("index").and_then(|json| number(json)).map(|index| index as i64);
            self.read_call(slot, call, &function, earlier, said)?;
        }
        // The older form of `tool_calls`, which holds one call.
        let function = members.get("function_call").filter(|_| !self.has_tool_calls);
        if let Some(function) = function.and_then(|json| self::members(json)) {
            self.read_call(Some(0), &Members::new(), &function, earlier, said)?;
        }
        Ok(())
    }

    /// What the model thought, however it is spelled; a server that knows several spellings sends it in all of them.
    fn read_thoughts(&mut self, members: &Members<'_>, said: &mut EventQueue) {
        let mut thought = None;
        for spelling in [Spelling::ReasoningContent, Spelling::Reasoning, Spelling::Thinking] {
            let Some(piece) = spelling.member().and_then(|name| JsonText::read(members.get(name)?)) else { continue };
            self.spelled(spelling);
            thought = thought.or(Some(piece).filter(|piece| !piece.is_empty()));
        }
        for (name, json) in members.iter().filter(|(name, _)| !OF_MESSAGE.contains(&name.as_str())) {
            if !self.kept.spellings.iter().any(|spelling| spelling.member() == Some(name)) {
                merge(&mut self.kept.members, name, value(json));
            }
        }
        let details = || {
            let details: Vec<Members<'_>> = serde_json::from_str(members.get(DETAILS)?.get()).ok()?;
            let texts =
                details.iter().filter_map(|detail| JsonText::read(detail.get("text").or(detail.get("summary"))?));
            Some(texts.collect())
        };
        let thoughts: Vec<JsonText> = thought.map(|piece| vec![piece]).or_else(details).unwrap_or_default();
        thoughts.into_iter().for_each(|piece| said.piece(Channel::Reasoning, piece));
    }

    fn spelled(&mut self, spelling: Spelling) {
        if !self.kept.spellings.contains(&spelling) {
            self.kept.spellings.push(spelling);
        }
    }

    fn read_call(
        &mut self,
        slot: Option<i64>,
        call: &Members<'_>,
        function: &Members<'_>,
        earlier: usize,
        said: &mut EventQueue,
    ) -> Result<(), Fault> {
        let id = text(call.get("id").copied()).unwrap_or_default();
        let name = text(function.get("name").copied()).unwrap_or_default();
        let arguments = match function.get("arguments") {
            None => JsonText::default(),
            Some(json) if json.get().starts_with('"') => JsonText::read(json).unwrap_or_default(),
            Some(json) if json.get() == "null" => JsonText::default(),
            // Some servers send the JSON itself and no text of it.
            Some(json) => json.get().into(),
        };
        let index = match self.find(slot, &id, &name, &arguments, earlier) {
            Some(index) if self.calls[index].is_said_again(&id, &name, &arguments) => return Ok(()),
            Some(index) => index,
            None if self.calls.len() >= MOST_CALLS => {
                return Err(Fault::too_much("tool calls in one answer", MOST_CALLS));
            }
            None => {
                (0..self.calls.len()).for_each(|index| self.tell(index, said));
                self.calls.push(Call { slot, id, ..Call::default() });
                self.calls.len() - 1
            }
        };
        let known = &mut self.calls[index];
        keep(&mut known.kept.members, call, &OF_CALL);
        keep(&mut known.kept.function, function, &OF_FUNCTION);
        if !known.is_told && known.name != name {
            known.name.push_str(&name);
        }
        known.nesting.read(arguments.as_bytes());
        known.arguments.append(&arguments);
        if known.is_told {
            said.piece(Channel::Arguments(index), arguments);
        } else if !known.name.is_empty() && !known.arguments.is_empty() {
            self.tell(index, said);
        }
        Ok(())
    }

    /// The call that more is said of; `None` if this begins another. Servers differ: some give no index, some the index
    /// 0 to every call, some no id, some a new id with every piece, some a name in pieces.
    fn find(&self, slot: Option<i64>, id: &str, name: &str, arguments: &JsonText, earlier: usize) -> Option<usize> {
        let known = match slot {
            Some(_) => {
                let is_it = |call: &Call| call.slot == slot && !id.is_empty() && call.id == id;
                let by_id = self.calls.iter().rposition(is_it);
                by_id.or_else(|| self.calls.iter().rposition(|call| call.slot == slot))
            }
            None if id.is_empty() => self.calls.len().checked_sub(1).filter(|_| name.is_empty()),
            None => {
                let by_id = self.calls.iter().rposition(|call| call.id == id);
                by_id.or_else(|| {
                    self.calls
                        .len()
                        .checked_sub(1)
                        .filter(|last| name.is_empty() && self.calls[*last].nesting.is_open())
                })
            }
        }?;
        let call = &self.calls[known];
        let is_another = if name.is_empty() || call.name.is_empty() {
            false
        } else if id.is_empty() {
            // The name goes on, but not within one chunk.
            let goes_on = if call.arguments.is_empty() { known < earlier } else { call.name == name };
            !goes_on || call.is_whole()
        } else {
            let is_blank = arguments.as_bytes().trim_ascii().is_empty();
            call.id != id || (call.is_whole() && !is_blank && call.arguments != *arguments)
        };
        (!is_another).then_some(known)
    }

    /// Tells that a call begins, if that was not told yet.
    fn tell(&mut self, index: usize, said: &mut EventQueue) {
        let call = &mut self.calls[index];
        if !call.is_told {
            call.is_told = true;
            said.push(ModelEvent::CallStarted { index, id: call.id.clone(), name: call.name.clone() });
            said.piece(Channel::Arguments(index), call.arguments.clone());
        }
    }
}

/// Keeps the members that not everybody knows.
fn keep(kept: &mut Map<String, Value>, members: &Members<'_>, known: &[&str]) {
    for (name, json) in members.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
        merge(kept, name, value(json));
    }
}

fn unless_default<T: Serialize + Default + PartialEq>(kept: &T) -> Option<Kept> {
    if *kept == T::default() { None } else { Kept::new(kept).ok() }
}

fn members(json: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(json.get()).ok()
}

fn value(json: &RawValue) -> Value {
    serde_json::from_str(&mend(json.get())).unwrap_or_default()
}

fn text(json: Option<&RawValue>) -> Option<String> {
    JsonText::read(json?).map(JsonText::text)
}

/// Whether there is more to a delta than who speaks.
fn says_something(delta: &Members<'_>) -> bool {
    let is_empty = |json: &RawValue| matches!(json.get(), "null" | "\"\"" | "[]" | "{}");
    delta.iter().any(|(name, json)| name != "role" && !is_empty(json))
}

/// The pieces of a content, which is a text or a list of parts. Mistral thinks in parts.
fn pieces(json: &RawValue) -> Vec<(Channel, JsonText)> {
    if let Some(piece) = JsonText::read(json) {
        return vec![(Channel::Text, piece)];
    }
    let parts: Vec<Members<'_>> = serde_json::from_str(json.get()).unwrap_or_default();
    let mut pieces = Vec::new();
    for part in parts {
        match (part.get("thinking"), part.get("text").and_then(|text| JsonText::read(text))) {
            (Some(thinking), _) => {
                pieces.extend(self::pieces(thinking).into_iter().map(|(_, piece)| (Channel::Reasoning, piece)));
            }
            (None, Some(piece)) => pieces.push((Channel::Text, piece)),
            (None, None) => {}
        }
    }
    pieces
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

/// What was used, if it is said.
fn tokens(usage: &Members<'_>) -> Option<Usage> {
    let count = |of: &Members<'_>, name: &str| of.get(name).and_then(|json| count(json));
    let detail = |details: &str, name: &str| count(&members(usage.get(details)?)?, name);
    let (prompt, completion) = (count(usage, "prompt_tokens"), count(usage, "completion_tokens"));
    prompt.or(completion)?;
    let (prompt, completion) = (prompt.unwrap_or_default(), completion.unwrap_or_default());
    let cached = detail("prompt_tokens_details", "cached_tokens");
    let reasoning = detail("completion_tokens_details", "reasoning_tokens");
    Some(Usage {
        input: prompt.saturating_sub(cached.unwrap_or_default()),
        // Some do not count what was thought among what was written.
        output: completion.checked_sub(reasoning.unwrap_or_default()).unwrap_or(completion),
        reasoning,
        cache_read: cached,
        cache_write: None,
    })
}

#[cfg(test)]
mod tests;
