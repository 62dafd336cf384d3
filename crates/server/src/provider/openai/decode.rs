//! Reads the chunks of a chat completion. Many servers speak this protocol, each a little differently: members that are
//! not understood are ignored, and only a chunk that cannot be read at all is an error.

use handback_core::json::mend;
use handback_core::sessions::ModelEvent;
use handback_core::store::{Kept, StopReason, Usage};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::answer::{Decode, MOST_CALLS};
use super::super::fault::Fault;
use super::super::queue::{Channel, EventQueue, JsonText, Members, count, number};
use super::kept::{DETAILS, KeptCall, KeptMessage, OF_CALL, OF_FUNCTION, OF_MESSAGE, Spelling, merge};

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
pub(in crate::provider) struct Decoder {
    calls: Vec<PartialCall>,
    kept: KeptMessage,
    /// Whether a delta came. A whole message then repeats all of it.
    has_deltas: bool,
    /// Whether `tool_calls` came. Some servers send the older `function_call` as well.
    has_tool_calls: bool,
    stop: Option<StopReason>,
    /// Whether something came after a reason to stop. Some servers send a reason with every chunk.
    goes_on: bool,
    is_done: bool,
}

#[derive(Default)]
struct PartialCall {
    /// The index that the server gives it.
    slot: Option<i64>,
    id: String,
    name: String,
    arguments: JsonText,
    nesting: Nesting,
    /// Whether the event of its start is out. That waits for the first arguments, because until then the name may grow.
    is_started: bool,
    kept: KeptCall,
}

/// Tells whether a JSON text that comes in pieces is complete.
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

impl PartialCall {
    fn is_whole(&self) -> bool {
        !self.arguments.is_empty() && !self.nesting.is_open()
    }

    /// Whether this repeats the whole call.
    fn is_said_again(&self, id: &str, name: &str, arguments: &JsonText) -> bool {
        self.is_whole() && !id.is_empty() && self.id == id && self.name == name && self.arguments == *arguments
    }
}

impl Decode for Decoder {
    fn read(&mut self, data: &str, events: &mut EventQueue) -> Result<(), Fault> {
        match data.trim() {
            "" => return Ok(()),
            "[DONE]" => {
                // Some servers never say why.
                self.stop.get_or_insert(StopReason::Stop);
                self.end(events);
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
                self.goes_on |= self.stop.is_some();
                self.read_members(&members, events)?;
            }
            // Some servers send an empty reason with every chunk.
            match text(choice.finish_reason).as_deref() {
                None | Some("") => {}
                Some("error") => {
                    return Err(Fault::reported(&"it stopped with an error and does not say which".into()));
                }
                Some(reason) => self.stop = Some(stop_reason(reason)),
            }
        }
        if let Some(usage) = chunk.usage.and_then(members).as_ref().and_then(tokens) {
            events.push(ModelEvent::Usage(usage));
        }
        // A model that has no tokens left leaves a call half written.
        let is_cut = self.stop == Some(StopReason::Length);
        let is_whole = is_cut || !self.calls.iter().any(|call| call.nesting.is_open());
        self.is_done = self.stop.is_some() && !self.goes_on && is_whole;
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn end(&mut self, events: &mut EventQueue) {
        let Some(reason) = self.stop.take() else { return };
        for index in 0..self.calls.len() {
            self.start_call(index, events);
            events.push(ModelEvent::CallEnded { index, kept: unless_default(&self.calls[index].kept) });
        }
        if let Some(kept) = unless_default(&self.kept) {
            events.push(ModelEvent::Kept(kept));
        }
        events.stop(reason, self.calls.len());
    }
}

impl Decoder {
    fn read_members(&mut self, members: &Members<'_>, events: &mut EventQueue) -> Result<(), Fault> {
        self.read_thoughts(members, events);
        for name in ["content", "refusal"] {
            for (channel, piece) in members.get(name).map(|json| pieces(json)).unwrap_or_default() {
                if channel == Channel::Reasoning {
                    self.spelled(Spelling::ThinkingPart);
                }
                events.piece(channel, piece);
            }
        }
        let calls =
            members.get("tool_calls").and_then(|json| serde_json::from_str::<Vec<Members<'_>>>(json.get()).ok());
        let earlier = self.calls.len();
        self.has_tool_calls |= calls.as_ref().is_some_and(|calls| !calls.is_empty());
        for call in calls.iter().flatten() {
            let function = call.get("function").and_then(|json| self::members(json)).unwrap_or_default();
            let slot = call.get("index").and_then(|json| number(json)).map(|index| index as i64);
            self.read_call(slot, call, &function, earlier, events)?;
        }
        // The older form of `tool_calls` holds one call.
        let function = members.get("function_call").filter(|_| !self.has_tool_calls);
        if let Some(function) = function.and_then(|json| self::members(json)) {
            self.read_call(Some(0), &Members::new(), &function, earlier, events)?;
        }
        Ok(())
    }

    /// Reads thoughts in any spelling. A server that knows several spellings sends a thought in all of them.
    fn read_thoughts(&mut self, members: &Members<'_>, events: &mut EventQueue) {
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
        thoughts.into_iter().for_each(|piece| events.piece(Channel::Reasoning, piece));
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
        events: &mut EventQueue,
    ) -> Result<(), Fault> {
        let id = text(call.get("id").copied()).unwrap_or_default();
        let name = text(function.get("name").copied()).unwrap_or_default();
        let arguments = match function.get("arguments") {
            None => JsonText::default(),
            Some(json) if json.get().starts_with('"') => JsonText::read(json).unwrap_or_default(),
            Some(json) if json.get() == "null" => JsonText::default(),
            // Some servers send the JSON itself and not as a string.
            Some(json) => json.get().into(),
        };
        let index = match self.find(slot, &id, &name, &arguments, earlier) {
            Some(index) if self.calls[index].is_said_again(&id, &name, &arguments) => return Ok(()),
            Some(index) => index,
            None if self.calls.len() >= MOST_CALLS => {
                return Err(Fault::too_much("tool calls in one answer", MOST_CALLS));
            }
            None => {
                (0..self.calls.len()).for_each(|index| self.start_call(index, events));
                self.calls.push(PartialCall { slot, id, ..PartialCall::default() });
                self.calls.len() - 1
            }
        };
        let known = &mut self.calls[index];
        keep(&mut known.kept.members, call, &OF_CALL);
        keep(&mut known.kept.function, function, &OF_FUNCTION);
        if !known.is_started && known.name != name {
            known.name.push_str(&name);
        }
        known.nesting.read(arguments.as_bytes());
        known.arguments.append(&arguments);
        if known.is_started {
            events.piece(Channel::Arguments(index), arguments);
        } else if !known.name.is_empty() && !known.arguments.is_empty() {
            self.start_call(index, events);
        }
        Ok(())
    }

    /// The call that this continues, or `None` if it starts another. Servers differ: some give no index, some the index 0
    /// to every call, some no id, some a new id with every piece, some a name in pieces.
    fn find(&self, slot: Option<i64>, id: &str, name: &str, arguments: &JsonText, earlier: usize) -> Option<usize> {
        let known = match slot {
            Some(_) => {
                let is_it = |call: &PartialCall| call.slot == slot && !id.is_empty() && call.id == id;
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
            // A name can continue in a later chunk, but not within one.
            let goes_on = if call.arguments.is_empty() { known < earlier } else { call.name == name };
            !goes_on || call.is_whole()
        } else {
            let is_blank = arguments.as_bytes().trim_ascii().is_empty();
            call.id != id || (call.is_whole() && !is_blank && call.arguments != *arguments)
        };
        (!is_another).then_some(known)
    }

    /// Adds the event of a call's start, unless it is out already.
    fn start_call(&mut self, index: usize, events: &mut EventQueue) {
        let call = &mut self.calls[index];
        if !call.is_started {
            call.is_started = true;
            events.push(ModelEvent::CallStarted { index, id: call.id.clone(), name: call.name.clone() });
            events.piece(Channel::Arguments(index), call.arguments.clone());
        }
    }
}

/// Keeps the members that only the server knows.
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

/// Whether a delta has more than a role.
fn says_something(delta: &Members<'_>) -> bool {
    let is_empty = |json: &RawValue| matches!(json.get(), "null" | "\"\"" | "[]" | "{}");
    delta.iter().any(|(name, json)| name != "role" && !is_empty(json))
}

/// The pieces of a content, which is a string or a list of parts. Mistral's thoughts are parts.
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

/// The usage, if the server reports it.
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
        // Some servers do not count thoughts as output.
        output: completion.checked_sub(reasoning.unwrap_or_default()).unwrap_or(completion),
        reasoning,
        cache_read: cached,
        cache_write: None,
    })
}

#[cfg(test)]
mod tests;
