//! A run's events as protobuf: each is a 4-byte length, big endian, and an `Event` of the protocol's schema. Front ends
//! before 1.0 know fewer arms of it; events that have none are left out.

use bytes::{BufMut, Bytes, BytesMut};
use handback_wire::agui::{Body, Content, Outcome, Part, TextRole, TokenUsage};
use prost::{Message, Oneof};
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;

/// The media type; the answer has exactly this one.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.ag-ui.event+proto";

/// The last arm of the schema before 1.0.
const LAST_BEFORE_1_0: u32 = 21;

/// The frames of events.
pub(super) fn frames(events: Vec<Body>, speaks_1_0: bool) -> Bytes {
    let mut frames = BytesMut::new();
    for arm in events.into_iter().filter_map(arm) {
        let event = Event { arm: Some(arm) }.encode_to_vec();
        // An event begins with the number of its arm.
        let number = prost::encoding::decode_key(&mut event.as_slice()).map_or(0, |(number, _)| number);
        if speaks_1_0 || number <= LAST_BEFORE_1_0 {
            // Far below 4 GiB: nothing that large is taken in.
            frames.put_u32(u32::try_from(event.len()).unwrap_or(u32::MAX));
            frames.put_slice(&event);
        }
    }
    frames.freeze()
}

/// Whether a front end would rather have protobuf than text.
pub(super) fn is_wanted(accept: &str) -> bool {
    let weight = |wanted: &str| {
        accept.split(',').find_map(|range| {
            let mut pieces = range.split(';').map(str::trim);
            pieces.next().filter(|name| name.eq_ignore_ascii_case(wanted))?;
            let weight = pieces.find_map(|piece| piece.strip_prefix("q=").or(piece.strip_prefix("Q=")));
            Some(weight.map_or(1.0, |weight| weight.parse::<f32>().unwrap_or(0.0)))
        })
    };
    let proto = weight(MEDIA_TYPE).unwrap_or(0.0);
    proto > 0.0 && proto >= weight("text/event-stream").unwrap_or(0.0)
}

#[derive(Message)]
struct Event {
    #[prost(oneof = "Arm", tags = "1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 22, 25, 26, 27, 28, 30")]
    arm: Option<Arm>,
}

/// Those of the events that runs have here.
#[derive(Oneof)]
enum Arm {
    #[prost(message, tag = "1")]
    TextMessageStart(TextMessageStart),
    #[prost(message, tag = "2")]
    TextMessageContent(Delta),
    #[prost(message, tag = "3")]
    TextMessageEnd(Named),
    #[prost(message, tag = "4")]
    ToolCallStart(ToolCallStart),
    #[prost(message, tag = "5")]
    ToolCallArgs(Delta),
    #[prost(message, tag = "6")]
    ToolCallEnd(Named),
    #[prost(message, tag = "7")]
    StateSnapshot(StateSnapshot),
    #[prost(message, tag = "12")]
    RunStarted(RunStarted),
    #[prost(message, tag = "13")]
    RunFinished(RunFinished),
    #[prost(message, tag = "14")]
    RunError(RunError),
    #[prost(message, tag = "22")]
    ToolCallResult(ToolCallResult),
    #[prost(message, tag = "25")]
    ReasoningStart(Thought),
    #[prost(message, tag = "26")]
    ReasoningMessageStart(Thought),
    #[prost(message, tag = "27")]
    ReasoningMessageContent(Thought),
    #[prost(message, tag = "28")]
    ReasoningMessageEnd(Thought),
    #[prost(message, tag = "30")]
    ReasoningEnd(Thought),
}

/// What every event has: its type, as the schema numbers them.
#[derive(Message)]
struct Base {
    #[prost(int32, tag = "1")]
    kind: i32,
}

/// An event about something, which it names.
#[derive(Message)]
struct Named {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "2")]
    id: String,
}

/// More of a text.
#[derive(Message)]
struct Delta {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, tag = "3")]
    delta: String,
}

#[derive(Message)]
struct TextMessageStart {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, optional, tag = "3")]
    role: Option<String>,
    #[prost(string, optional, tag = "4")]
    name: Option<String>,
}

#[derive(Message)]
struct ToolCallStart {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "2")]
    id: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, optional, tag = "4")]
    parent_message: Option<String>,
}

#[derive(Message)]
struct ToolCallResult {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    call: String,
    #[prost(string, optional, tag = "5")]
    content: Option<String>,
    #[prost(string, optional, tag = "6")]
    role: Option<String>,
    #[prost(message, repeated, tag = "7")]
    parts: Vec<ContentPart>,
}

/// A part of a content; one of these.
#[derive(Message)]
struct ContentPart {
    #[prost(message, optional, tag = "1")]
    text: Option<TextPart>,
    #[prost(message, optional, tag = "2")]
    image: Option<FilePart>,
    #[prost(message, optional, tag = "3")]
    audio: Option<FilePart>,
    #[prost(message, optional, tag = "4")]
    video: Option<FilePart>,
    #[prost(message, optional, tag = "5")]
    document: Option<FilePart>,
}

#[derive(Message)]
struct TextPart {
    #[prost(string, tag = "1")]
    text: String,
    #[prost(message, optional, tag = "3")]
    metadata: Option<Value>,
}

#[derive(Message)]
struct FilePart {
    #[prost(message, optional, tag = "1")]
    source: Option<Source>,
    #[prost(message, optional, tag = "2")]
    metadata: Option<Value>,
}

/// Where a file is; one of these.
#[derive(Message)]
struct Source {
    #[prost(message, optional, tag = "1")]
    data: Option<Data>,
    #[prost(message, optional, tag = "2")]
    url: Option<Data>,
}

/// Bytes in base64, or where they are.
#[derive(Message)]
struct Data {
    #[prost(string, tag = "1")]
    value: String,
    #[prost(string, optional, tag = "2")]
    mime_type: Option<String>,
}

#[derive(Message)]
struct StateSnapshot {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(message, tag = "2")]
    snapshot: Option<Value>,
}

#[derive(Message)]
struct RunStarted {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "2")]
    thread: String,
    #[prost(string, tag = "3")]
    run: String,
    #[prost(string, optional, tag = "4")]
    parent_run: Option<String>,
    #[prost(string, optional, tag = "6")]
    protocol_version: Option<String>,
}

#[derive(Message)]
struct RunFinished {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "2")]
    thread: String,
    #[prost(string, tag = "3")]
    run: String,
    #[prost(message, tag = "4")]
    result: Option<Value>,
    #[prost(string, tag = "5")]
    outcome: String,
    #[prost(message, repeated, tag = "6")]
    interrupts: Vec<Interrupt>,
    #[prost(message, repeated, tag = "7")]
    usage: Vec<Usage>,
    #[prost(string, repeated, tag = "8")]
    pending_calls: Vec<String>,
}

#[derive(Message)]
struct RunError {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, optional, tag = "2")]
    code: Option<String>,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(message, repeated, tag = "4")]
    usage: Vec<Usage>,
}

/// What a model thinks: that it begins, a piece of it, that it ends.
#[derive(Message)]
struct Thought {
    #[prost(message, tag = "1")]
    base: Option<Base>,
    #[prost(string, tag = "3")]
    id: String,
    /// The role where it begins, the piece where it goes on.
    #[prost(string, optional, tag = "4")]
    text: Option<String>,
}

#[derive(Message)]
struct Interrupt {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    reason: String,
    #[prost(string, optional, tag = "3")]
    message: Option<String>,
    #[prost(string, optional, tag = "4")]
    call: Option<String>,
    #[prost(message, optional, tag = "5")]
    response_schema: Option<Value>,
    #[prost(string, optional, tag = "6")]
    expires_at: Option<String>,
    #[prost(message, optional, tag = "7")]
    metadata: Option<Value>,
}

#[derive(Message)]
struct Usage {
    #[prost(string, optional, tag = "1")]
    provider: Option<String>,
    #[prost(string, optional, tag = "2")]
    model: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    input: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    output: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    total: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    reasoning: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    cached_input: Option<u64>,
    #[prost(uint64, optional, tag = "8")]
    cache_write_input: Option<u64>,
}

/// The arm of an event; `None` if it is none of those that runs have here.
fn arm(event: Body) -> Option<Arm> {
    let base = |kind: i32| Some(Base { kind });
    let thought = |kind: i32, id: String, text: Option<String>| Thought { base: base(kind), id, text };
    Some(match event {
        Body::TextMessageStart { message_id: id, role, name } => {
            Arm::TextMessageStart(TextMessageStart { base: base(0), id, role: role.map(role_name), name })
        }
        Body::TextMessageContent { message_id: id, delta } => {
            Arm::TextMessageContent(Delta { base: base(1), id, delta })
        }
        Body::TextMessageEnd { message_id: id } => Arm::TextMessageEnd(Named { base: base(2), id }),
        Body::ToolCallStart { tool_call_id: id, tool_call_name: name, parent_message_id: parent_message } => {
            Arm::ToolCallStart(ToolCallStart { base: base(3), id, name, parent_message })
        }
        Body::ToolCallArgs { tool_call_id: id, delta } => Arm::ToolCallArgs(Delta { base: base(4), id, delta }),
        Body::ToolCallEnd { tool_call_id: id } => Arm::ToolCallEnd(Named { base: base(5), id }),
        Body::StateSnapshot { snapshot } => {
            Arm::StateSnapshot(StateSnapshot { base: base(6), snapshot: Some(value(snapshot)) })
        }
        Body::RunStarted { thread_id: thread, run_id: run, parent_run_id: parent_run, protocol_version, .. } => {
            Arm::RunStarted(RunStarted { base: base(11), thread, run, parent_run, protocol_version })
        }
        Body::RunFinished { thread_id: thread, run_id: run, result, outcome, usage } => {
            let result = result.map(value);
            let (outcome, interrupts, pending_calls) = ending(outcome);
            let usage = usages(usage);
            let base = base(12);
            Arm::RunFinished(RunFinished { base, thread, run, result, outcome, interrupts, usage, pending_calls })
        }
        Body::RunError { message, code, usage } => {
            Arm::RunError(RunError { base: base(13), code, message, usage: usages(usage) })
        }
        Body::ToolCallResult { message_id: message, tool_call_id: call, content, role } => {
            let (content, parts) = match content {
                Content::Text(text) => (Some(text), Vec::new()),
                Content::Parts(parts) => (None, parts.into_iter().filter_map(part).collect()),
            };
            let role = role.map(|_| "tool".to_owned());
            Arm::ToolCallResult(ToolCallResult { base: base(21), message, call, content, role, parts })
        }
        Body::ReasoningStart { message_id } => Arm::ReasoningStart(thought(24, message_id, None)),
        Body::ReasoningMessageStart { message_id, .. } => {
            Arm::ReasoningMessageStart(thought(25, message_id, Some("reasoning".to_owned())))
        }
        Body::ReasoningMessageContent { message_id, delta } => {
            Arm::ReasoningMessageContent(thought(26, message_id, Some(delta)))
        }
        Body::ReasoningMessageEnd { message_id } => Arm::ReasoningMessageEnd(thought(27, message_id, None)),
        Body::ReasoningEnd { message_id } => Arm::ReasoningEnd(thought(29, message_id, None)),
        _ => return None,
    })
}

fn role_name(role: TextRole) -> String {
    let name = match role {
        TextRole::Developer => "developer",
        TextRole::System => "system",
        TextRole::Assistant => "assistant",
        TextRole::User => "user",
    };
    name.to_owned()
}

/// How a run ended: a word for it, the interrupts, and the calls that are the front end's to run.
fn ending(outcome: Option<Outcome>) -> (String, Vec<Interrupt>, Vec<String>) {
    let (word, interrupts, pending) = match outcome {
        None | Some(Outcome::Other(_)) => ("", Vec::new(), Vec::new()),
        Some(Outcome::Success { pending_tool_call_ids }) => {
            ("success", Vec::new(), pending_tool_call_ids.unwrap_or_default())
        }
        Some(Outcome::Interrupt { interrupts }) => {
            ("interrupt", interrupts.into_iter().map(interrupt).collect(), Vec::new())
        }
        Some(Outcome::Cancelled) => ("cancelled", Vec::new(), Vec::new()),
    };
    (word.to_owned(), interrupts, pending)
}

fn interrupt(interrupt: handback_wire::agui::Interrupt) -> Interrupt {
    Interrupt {
        id: interrupt.id,
        reason: interrupt.reason,
        message: interrupt.message,
        call: interrupt.tool_call_id,
        response_schema: interrupt.response_schema.map(|schema| value(schema.into())),
        expires_at: interrupt.expires_at,
        metadata: interrupt.metadata.map(|metadata| value(metadata.into())),
    }
}

fn usages(usage: Option<Vec<TokenUsage>>) -> Vec<Usage> {
    let usage = usage.unwrap_or_default().into_iter().map(|used| Usage {
        provider: used.provider,
        model: used.model,
        input: used.input_tokens,
        output: used.output_tokens,
        total: used.total_tokens,
        reasoning: used.reasoning_tokens,
        cached_input: used.cached_input_tokens,
        cache_write_input: used.cache_write_input_tokens,
    });
    usage.collect()
}

fn part(part: Part) -> Option<ContentPart> {
    use handback_wire::agui::Source as Wire;
    let file = |source: Wire, metadata: Option<Json>| {
        let source = match source {
            Wire::Data { value, mime_type } => {
                Source { data: Some(Data { value, mime_type: Some(mime_type) }), url: None }
            }
            Wire::Url { value, mime_type } => Source { data: None, url: Some(Data { value, mime_type }) },
            Wire::File { .. } => return None,
        };
        Some(FilePart { source: Some(source), metadata: metadata.map(value) })
    };
    let none = ContentPart::default();
    Some(match part {
        Part::Text { text, metadata, .. } => {
            ContentPart { text: Some(TextPart { text, metadata: metadata.map(value) }), ..none }
        }
        Part::Image { source, metadata, .. } => ContentPart { image: Some(file(source, metadata)?), ..none },
        Part::Audio { source, metadata, .. } => ContentPart { audio: Some(file(source, metadata)?), ..none },
        Part::Video { source, metadata, .. } => ContentPart { video: Some(file(source, metadata)?), ..none },
        Part::Document { source, metadata, .. } => ContentPart { document: Some(file(source, metadata)?), ..none },
        Part::Binary { .. } | Part::Other(_) => return None,
    })
}

/// Any JSON; protobuf knows numbers with a floating point only.
fn value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(value) => Kind::BoolValue(value),
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(values) => Kind::ListValue(ListValue { values: values.into_iter().map(value).collect() }),
        Json::Object(members) => Kind::StructValue(object(members)),
    };
    Value { kind: Some(kind) }
}

fn object(members: serde_json::Map<String, Json>) -> Struct {
    Struct { fields: members.into_iter().map(|(name, json)| (name, value(json))).collect() }
}

#[cfg(test)]
mod tests;
