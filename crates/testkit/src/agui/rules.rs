//! What every stream of AG-UI must keep to, so that no front end of either generation stumbles over it.
//!
//! More is asked than clients check: an id names one thing in a run, a call has one result, and what is left without a
//! result when a run ends well is the front end's own to run.

use std::collections::{BTreeMap, BTreeSet};

use handback_wire::agui::Event;
use serde_json::Value;

/// What an event of a type has: what it must have, and what it may have besides.
struct Shape {
    kind: &'static str,
    must: &'static [&'static str],
    may: &'static [&'static str],
}

const fn shape(kind: &'static str, must: &'static [&'static str], may: &'static [&'static str]) -> Shape {
    Shape { kind, must, may }
}

/// The types that both generations know, and their fields.
const SHAPES: [Shape; 27] = [
    shape("RUN_STARTED", &["threadId", "runId"], &["parentRunId", "input", "protocolVersion"]),
    shape("RUN_FINISHED", &["threadId", "runId"], &["result", "outcome", "usage"]),
    shape("RUN_ERROR", &["message"], &["code", "usage"]),
    shape("STEP_STARTED", &["stepName"], &[]),
    shape("STEP_FINISHED", &["stepName"], &[]),
    shape("TEXT_MESSAGE_START", &["messageId"], &["role", "name"]),
    shape("TEXT_MESSAGE_CONTENT", &["messageId", "delta"], &[]),
    shape("TEXT_MESSAGE_END", &["messageId"], &[]),
    shape("TEXT_MESSAGE_CHUNK", &[], &["messageId", "role", "delta", "name"]),
    shape("TOOL_CALL_START", &["toolCallId", "toolCallName"], &["parentMessageId"]),
    shape("TOOL_CALL_ARGS", &["toolCallId", "delta"], &[]),
    shape("TOOL_CALL_END", &["toolCallId"], &[]),
    shape("TOOL_CALL_CHUNK", &[], &["toolCallId", "toolCallName", "parentMessageId", "delta"]),
    shape("TOOL_CALL_RESULT", &["messageId", "toolCallId", "content"], &["role"]),
    shape("STATE_SNAPSHOT", &["snapshot"], &[]),
    shape("STATE_DELTA", &["delta"], &[]),
    shape("MESSAGES_SNAPSHOT", &["messages"], &[]),
    shape("ACTIVITY_SNAPSHOT", &["messageId", "activityType", "content"], &["replace"]),
    shape("ACTIVITY_DELTA", &["messageId", "activityType", "patch"], &[]),
    shape("RAW", &["event"], &["source"]),
    shape("CUSTOM", &["name", "value"], &[]),
    shape("REASONING_START", &["messageId"], &[]),
    shape("REASONING_END", &["messageId"], &[]),
    shape("REASONING_MESSAGE_START", &["messageId", "role"], &[]),
    shape("REASONING_MESSAGE_CONTENT", &["messageId", "delta"], &[]),
    shape("REASONING_MESSAGE_END", &["messageId"], &[]),
    shape("REASONING_MESSAGE_CHUNK", &[], &["messageId", "delta"]),
];

/// What any event may have.
const COMMON: [&str; 4] = ["type", "timestamp", "rawEvent", "metadata"];
/// Where anything may be, null as well.
const ANY_JSON: [&str; 9] =
    ["snapshot", "value", "rawEvent", "event", "result", "metadata", "input", "responseSchema", "patch"];
const USAGE: [&str; 8] = [
    "provider",
    "model",
    "inputTokens",
    "outputTokens",
    "totalTokens",
    "reasoningTokens",
    "cachedInputTokens",
    "cacheWriteInputTokens",
];
const INTERRUPT: [&str; 7] = ["id", "reason", "message", "toolCallId", "responseSchema", "expiresAt", "metadata"];

/// Watches over one stream. An error says which rule was broken.
#[derive(Debug, Clone)]
pub struct Rules {
    thread: Value,
    run: Value,
    speaks_1_0: bool,
    page_tools: BTreeSet<String>,
    has_begun: bool,
    is_over: bool,
    /// What is open, and what was: by kind and id, whether it is open still.
    spans: BTreeMap<(&'static str, String), bool>,
    /// The tools of the calls that have no result.
    unanswered: BTreeMap<String, String>,
    answered: BTreeSet<String>,
    /// The ids of the messages that results are.
    results: BTreeSet<String>,
}

type Kept = Result<(), String>;

impl Rules {
    /// For the stream that answers this input.
    pub fn new(input: &Value) -> Self {
        let tools = input["tools"].as_array().into_iter().flatten();
        Self {
            thread: input["threadId"].clone(),
            run: input["runId"].clone(),
            speaks_1_0: !input["protocolVersion"].is_null(),
            page_tools: tools.filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect(),
            has_begun: false,
            is_over: false,
            spans: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            answered: BTreeSet::new(),
            results: BTreeSet::new(),
        }
    }

    /// Takes the next event.
    pub fn take(&mut self, event: &Value) -> Kept {
        self.check(event).map_err(|broken| format!("{broken}: {event}"))
    }

    /// The stream is over.
    pub fn end(&self) -> Kept {
        must(self.is_over, "the stream ended without a terminal event")
    }

    fn check(&mut self, event: &Value) -> Kept {
        has_its_shape(event)?;
        has_no_null(event)?;
        is_known_to_us(event)?;
        must(!self.is_over, "nothing comes after the terminal event")?;
        let kind = text(event, "type");
        must(self.has_begun || kind == "RUN_STARTED", "the first event is RUN_STARTED")?;
        match kind {
            "RUN_STARTED" => self.begin(event),
            "RUN_FINISHED" => self.finish(event),
            "RUN_ERROR" => self.fail(event),
            "STEP_STARTED" => self.open("step", event, "stepName"),
            "STEP_FINISHED" => self.close("step", event, "stepName"),
            "TEXT_MESSAGE_START" => self.open("text", event, "messageId"),
            "TEXT_MESSAGE_CONTENT" => self.must_be_open("text", event, "messageId"),
            "TEXT_MESSAGE_END" => self.close("text", event, "messageId"),
            "REASONING_START" => self.open("reasoning", event, "messageId"),
            "REASONING_END" => self.close("reasoning", event, "messageId"),
            "REASONING_MESSAGE_START" => {
                must(event["role"] == "reasoning", "the role of reasoning is `reasoning`")?;
                self.must_be_open("reasoning", event, "messageId")?;
                self.open("reasoning message", event, "messageId")
            }
            "REASONING_MESSAGE_CONTENT" => self.must_be_open("reasoning message", event, "messageId"),
            "REASONING_MESSAGE_END" => self.close("reasoning message", event, "messageId"),
            "TOOL_CALL_START" => self.call(event),
            "TOOL_CALL_ARGS" => self.must_be_open("call", event, "toolCallId"),
            "TOOL_CALL_END" => self.close("call", event, "toolCallId"),
            "TOOL_CALL_RESULT" => self.result(event),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, event: &Value) -> Kept {
        must(!self.has_begun, "a run begins once")?;
        self.has_begun = true;
        self.is_of_this_run(event)?;
        let version = if self.speaks_1_0 { Value::from("1.0") } else { Value::Null };
        must(event["protocolVersion"] == version, "`protocolVersion` is told to whoever knows it, and to no others")
    }

    fn is_of_this_run(&self, event: &Value) -> Kept {
        let is_own = event["threadId"] == self.thread && event["runId"] == self.run;
        must(is_own, "the thread and the run are those of the input")
    }

    fn finish(&mut self, event: &Value) -> Kept {
        self.is_over = true;
        self.is_of_this_run(event)?;
        if let Some((what, id)) = self.spans.iter().find_map(|(span, is_open)| is_open.then_some(span)) {
            return Err(format!("the run is finished while {what} {id} is open"));
        }
        usage(event)?;
        let outcome = &event["outcome"];
        match outcome["type"].as_str() {
            Some("interrupt") => self.interrupt(outcome),
            Some("cancelled") => {
                must(self.speaks_1_0, "the outcome `cancelled` came with 1.0")?;
                only(outcome, &["type"])
            }
            Some("success") => {
                must(self.speaks_1_0, "the outcome `success` came with 1.0")?;
                only(outcome, &["type", "pendingToolCallIds"])?;
                self.pending(&outcome["pendingToolCallIds"])
            }
            Some(other) => Err(format!("there is no outcome {other}")),
            None => {
                must(outcome.is_null() && !self.speaks_1_0, "whoever knows outcomes is told one")?;
                self.all_are_the_pages()
            }
        }
    }

    fn fail(&mut self, event: &Value) -> Kept {
        self.is_over = true;
        must(!text(event, "message").is_empty(), "an error says what it is")?;
        usage(event)
    }

    fn interrupt(&self, outcome: &Value) -> Kept {
        only(outcome, &["type", "interrupts"])?;
        let interrupts = outcome["interrupts"].as_array().ok_or("interrupts are a list")?;
        must(!interrupts.is_empty(), "an interrupt says what it waits for")?;
        let mut known = BTreeSet::new();
        for interrupt in interrupts {
            only(interrupt, &INTERRUPT)?;
            must(known.insert(text(interrupt, "id")), "an interrupt is told once")?;
            must(!text(interrupt, "id").is_empty() && !text(interrupt, "reason").is_empty(), "an interrupt says why")?;
            let call = text(interrupt, "toolCallId");
            must(interrupt["reason"] != "tool_call" || !call.is_empty(), "an interrupt of a call says which")?;
            must(!self.answered.contains(call), "an interrupt is of a call that is not over")?;
        }
        Ok(())
    }

    /// The calls that are the front end's to run now.
    fn pending(&self, pending: &Value) -> Kept {
        self.all_are_the_pages()?;
        let mut told = BTreeSet::new();
        for call in pending.as_array().into_iter().flatten() {
            let call = call.as_str().ok_or("pending calls are named")?;
            must(told.insert(call), "a pending call is named once")?;
            must(!self.answered.contains(call), "a call that has a result is not pending")?;
        }
        must(pending.is_null() || !told.is_empty(), "where nothing is pending nothing is said of it")?;
        let is_told = |call: &String| told.contains(call.as_str());
        must(self.unanswered.keys().all(is_told), "every call that is left open is pending")
    }

    /// Front ends run what is left open, whoever's it is.
    fn all_are_the_pages(&self) -> Kept {
        match self.unanswered.iter().find(|(_, tool)| !self.page_tools.contains(*tool)) {
            Some((call, tool)) => Err(format!("call {call} is left open, but {tool} is no tool of the page")),
            None => Ok(()),
        }
    }

    fn call(&mut self, event: &Value) -> Kept {
        self.open("call", event, "toolCallId")?;
        let call = text(event, "toolCallId").to_owned();
        must(!self.answered.contains(&call), "a call begins before its result")?;
        self.unanswered.insert(call, text(event, "toolCallName").to_owned());
        Ok(())
    }

    fn result(&mut self, event: &Value) -> Kept {
        must(matches!(event["role"].as_str(), None | Some("tool")), "the role of a result is `tool`")?;
        must(event["content"].is_string() || self.speaks_1_0, "results in parts came with 1.0")?;
        let call = text(event, "toolCallId").to_owned();
        must(self.spans.get(&("call", call.clone())) != Some(&true), "a result comes after the arguments")?;
        must(self.results.insert(text(event, "messageId").to_owned()), "a result is a message of its own")?;
        self.unanswered.remove(&call);
        must(self.answered.insert(call), "a call has one result")
    }

    fn open(&mut self, what: &'static str, event: &Value, key: &str) -> Kept {
        let id = text(event, key);
        must(!id.is_empty(), "what is begun has a name")?;
        let before = self.spans.insert((what, id.to_owned()), true);
        must(before.is_none(), "what is begun was not begun before")
    }

    fn must_be_open(&self, what: &'static str, event: &Value, key: &str) -> Kept {
        let is_open = self.spans.get(&(what, text(event, key).to_owned())) == Some(&true);
        must(is_open, "what goes on or ends is open")
    }

    fn close(&mut self, what: &'static str, event: &Value, key: &str) -> Kept {
        self.must_be_open(what, event, key)?;
        if what == "reasoning" {
            let message = self.spans.get(&("reasoning message", text(event, key).to_owned()));
            must(message != Some(&true), "what was thought ends before the thinking")?;
        }
        self.spans.insert((what, text(event, key).to_owned()), false);
        Ok(())
    }
}

fn must(holds: bool, rule: &str) -> Kept {
    if holds { Ok(()) } else { Err(rule.to_owned()) }
}

fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event[key].as_str().unwrap_or_default()
}

/// Checks that an object has no other fields.
fn only(object: &Value, known: &[&str]) -> Kept {
    let fields = object.as_object().ok_or("it is an object")?;
    match fields.keys().find(|key| !known.contains(&key.as_str())) {
        Some(unknown) => Err(format!("there is no field {unknown}")),
        None => Ok(()),
    }
}

fn has_its_shape(event: &Value) -> Kept {
    let kind = event["type"].as_str().ok_or("an event is an object with a type")?;
    let shape = SHAPES.iter().find(|shape| shape.kind == kind).ok_or("there is no such type of event")?;
    let known: Vec<&str> = [shape.must, shape.may, &COMMON].concat();
    only(event, &known)?;
    for key in shape.must {
        must(event.get(key).is_some(), &format!("{key} is missing"))?;
    }
    // Whatever is named or said is text; other values have names of their own.
    let texts = known.iter().filter(|key| {
        matches!(**key, "delta" if kind != "STATE_DELTA")
            || key.ends_with("Id")
            || matches!(**key, "message" | "code" | "role" | "toolCallName" | "stepName")
    });
    for key in texts {
        must(event.get(key).is_none_or(Value::is_string), &format!("{key} is a text"))?;
    }
    Ok(())
}

/// Absent is absent: front ends take null for an error.
fn has_no_null(value: &Value) -> Kept {
    match value {
        Value::Null => Err("there is a null".to_owned()),
        Value::Array(items) => items.iter().try_for_each(has_no_null),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !ANY_JSON.contains(&key.as_str()))
            .try_for_each(|(_, field)| has_no_null(field)),
        _ => Ok(()),
    }
}

/// Our own types read it, and write the same.
fn is_known_to_us(event: &Value) -> Kept {
    let read: Event = serde_json::from_value(event.clone()).map_err(|error| error.to_string())?;
    let written = serde_json::to_value(&read).map_err(|error| error.to_string())?;
    must(written == *event, "it is not written as it was read")
}

fn usage(event: &Value) -> Kept {
    if event.get("usage").is_none() {
        return Ok(());
    }
    let entries = event["usage"].as_array().ok_or("usage is a list")?;
    let mut known = BTreeSet::new();
    for entry in entries {
        only(entry, &USAGE)?;
        must(known.insert((text(entry, "provider"), text(entry, "model"))), "each model is told once")?;
        let tokens = |key: &str| entry.get(key).map_or(Some(0), Value::as_u64).ok_or("tokens are whole numbers");
        for key in &USAGE[2..] {
            tokens(key)?;
        }
        let (read, written) = (tokens("inputTokens")?, tokens("outputTokens")?);
        must(tokens("totalTokens")? == read + written, "the total is the sum")?;
        must(tokens("reasoningTokens")? <= written, "reasoning is a part of what is written")?;
        let cached = tokens("cachedInputTokens")? + tokens("cacheWriteInputTokens")?;
        must(cached <= read, "caches are a part of what is read")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
