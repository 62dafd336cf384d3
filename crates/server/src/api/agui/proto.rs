//! Writes events of a run as protobuf: each frame is a 4-byte big-endian length and an `Event` of AG-UI's schema. The
//! tables map members of an event's JSON to fields of the schema. Events that the tables lack are left out, and so are
//! events that a front end before 1.0 does not know.

use bytes::{BufMut, Bytes, BytesMut};
use handback_wire::agui::Body;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::Value as Json;

/// The exact media type of the answer.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.ag-ui.event+proto";

/// The number of the last event in the schema before 1.0.
const LAST_BEFORE_1_0: u32 = 21;

/// Writes events as frames.
pub(super) fn frames(events: &[Body], speaks_1_0: bool) -> Bytes {
    let mut frames = BytesMut::new();
    for event in events.iter().filter_map(|event| serde_json::to_value(event).ok()) {
        let known = EVENTS.iter().find(|(name, ..)| event["type"] == *name);
        let Some((_, number, fields)) = known.filter(|(_, number, _)| speaks_1_0 || *number <= LAST_BEFORE_1_0) else {
            continue;
        };
        let mut written = Vec::new();
        // Every event begins with its type, and the schema numbers types from 0.
        bytes(&mut written, 1, &varint(1, u64::from(*number) - 1));
        written.extend(message(&event, fields).unwrap_or_default());
        let mut frame = Vec::with_capacity(written.len() + 8);
        bytes(&mut frame, *number, &written);
        // A frame is always far below 4 GiB, because the server accepts nothing that large.
        frames.put_u32(u32::try_from(frame.len()).unwrap_or(u32::MAX));
        frames.put_slice(&frame);
    }
    frames.freeze()
}

/// Whether a front end prefers protobuf to text.
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

/// The fields of a message: JSON pointer, field number, kind of field.
type Fields = &'static [(&'static str, u32, Field)];

enum Field {
    /// A text, a number, or a list of these.
    Plain,
    /// Any JSON, as a `google.protobuf.Value`.
    Any,
    /// A list of messages.
    Each(Fields),
    /// A message, or a list of messages, of the kind that its `type` names.
    Kind(&'static [(&'static str, u32, Fields)]),
}

use Field::{Any, Each, Kind, Plain};

/// The events that the server sends.
const EVENTS: &[(&str, u32, Fields)] = &[
    ("TEXT_MESSAGE_START", 1, &[("/messageId", 2, Plain), ("/role", 3, Plain), ("/name", 4, Plain)]),
    ("TEXT_MESSAGE_CONTENT", 2, &[("/messageId", 2, Plain), ("/delta", 3, Plain)]),
    ("TEXT_MESSAGE_END", 3, &[("/messageId", 2, Plain)]),
    ("TOOL_CALL_START", 4, &[("/toolCallId", 2, Plain), ("/toolCallName", 3, Plain), ("/parentMessageId", 4, Plain)]),
    ("TOOL_CALL_ARGS", 5, &[("/toolCallId", 2, Plain), ("/delta", 3, Plain)]),
    ("TOOL_CALL_END", 6, &[("/toolCallId", 2, Plain)]),
    ("STATE_SNAPSHOT", 7, &[("/snapshot", 2, Any)]),
    ("RUN_STARTED", 12, STARTED),
    ("RUN_FINISHED", 13, FINISHED),
    ("RUN_ERROR", 14, &[("/code", 2, Plain), ("/message", 3, Plain), ("/usage", 4, Each(USAGE))]),
    ("TOOL_CALL_RESULT", 22, RESULT),
    ("REASONING_START", 25, &[("/messageId", 3, Plain)]),
    ("REASONING_MESSAGE_START", 26, &[("/messageId", 3, Plain), ("/role", 4, Plain)]),
    ("REASONING_MESSAGE_CONTENT", 27, &[("/messageId", 3, Plain), ("/delta", 4, Plain)]),
    ("REASONING_MESSAGE_END", 28, &[("/messageId", 3, Plain)]),
    ("REASONING_END", 30, &[("/messageId", 3, Plain)]),
];
const STARTED: Fields =
    &[("/threadId", 2, Plain), ("/runId", 3, Plain), ("/parentRunId", 4, Plain), ("/protocolVersion", 6, Plain)];
const FINISHED: Fields = &[
    ("/threadId", 2, Plain),
    ("/runId", 3, Plain),
    ("/result", 4, Any),
    ("/outcome/type", 5, Plain),
    ("/outcome/interrupts", 6, Each(INTERRUPT)),
    ("/usage", 7, Each(USAGE)),
    ("/outcome/pendingToolCallIds", 8, Plain),
];
const INTERRUPT: Fields = &[
    ("/id", 1, Plain),
    ("/reason", 2, Plain),
    ("/message", 3, Plain),
    ("/toolCallId", 4, Plain),
    ("/responseSchema", 5, Any),
    ("/expiresAt", 6, Plain),
    ("/metadata", 7, Any),
];
const USAGE: Fields = &[
    ("/provider", 1, Plain),
    ("/model", 2, Plain),
    ("/inputTokens", 3, Plain),
    ("/outputTokens", 4, Plain),
    ("/totalTokens", 5, Plain),
    ("/reasoningTokens", 6, Plain),
    ("/cachedInputTokens", 7, Plain),
    ("/cacheWriteInputTokens", 8, Plain),
];
// The content is either a text or a list of parts, and each has its own field.
const RESULT: Fields = &[
    ("/messageId", 3, Plain),
    ("/toolCallId", 4, Plain),
    ("/content", 5, Plain),
    ("/role", 6, Plain),
    ("/content", 7, Kind(PARTS)),
];
const PARTS: &[(&str, u32, Fields)] = &[
    ("text", 1, &[("/text", 1, Plain), ("/metadata", 3, Any)]),
    ("image", 2, FILE),
    ("audio", 3, FILE),
    ("video", 4, FILE),
    ("document", 5, FILE),
];
const FILE: Fields = &[("/source", 1, Kind(SOURCES)), ("/metadata", 2, Any)];
const SOURCES: &[(&str, u32, Fields)] = &[("data", 1, DATA), ("url", 2, DATA)];
const DATA: Fields = &[("/value", 1, Plain), ("/mimeType", 2, Plain)];

/// Writes a message, or `None` if it contains a kind that the schema does not know.
fn message(json: &Json, fields: Fields) -> Option<Vec<u8>> {
    let mut written = Vec::new();
    for (pointer, number, field) in fields {
        let Some(member) = json.pointer(pointer) else { continue };
        let all = match (member, field) {
            (Json::Array(items), Plain | Each(_) | Kind(_)) => items,
            _ => std::slice::from_ref(member),
        };
        for item in all {
            match field {
                Plain => match item {
                    Json::String(text) => bytes(&mut written, *number, text.as_bytes()),
                    Json::Number(count) => written.extend(varint(*number, count.as_u64().unwrap_or_default())),
                    _ => {}
                },
                Any => bytes(&mut written, *number, &value(item)),
                Each(fields) => bytes(&mut written, *number, &message(item, fields)?),
                Kind(kinds) => match kind(item, kinds) {
                    Some(message) => bytes(&mut written, *number, &message),
                    // In a list, parts of unknown kinds are left out.
                    None if member.is_object() => return None,
                    None => {}
                },
            }
        }
    }
    Some(written)
}

/// Writes a message whose kind is named by its `type`.
fn kind(json: &Json, kinds: &[(&str, u32, Fields)]) -> Option<Vec<u8>> {
    let (_, number, fields) = kinds.iter().find(|(name, ..)| json["type"] == *name)?;
    let mut written = Vec::new();
    bytes(&mut written, *number, &message(json, fields)?);
    Some(written)
}

/// Writes JSON as a `google.protobuf.Value`, which has only floating-point numbers.
fn value(json: &Json) -> Vec<u8> {
    let mut written = Vec::new();
    match json {
        Json::Null => written = varint(1, 0),
        Json::Number(number) => {
            encode_key(2, WireType::SixtyFourBit, &mut written);
            written.put_f64_le(number.as_f64().unwrap_or_default());
        }
        Json::String(text) => bytes(&mut written, 3, text.as_bytes()),
        Json::Bool(is_true) => written = varint(4, u64::from(*is_true)),
        Json::Object(members) => {
            let mut fields = Vec::new();
            for (name, json) in members {
                let mut entry = Vec::new();
                bytes(&mut entry, 1, name.as_bytes());
                bytes(&mut entry, 2, &value(json));
                bytes(&mut fields, 1, &entry);
            }
            bytes(&mut written, 5, &fields);
        }
        Json::Array(items) => {
            let mut list = Vec::new();
            items.iter().for_each(|item| bytes(&mut list, 1, &value(item)));
            bytes(&mut written, 6, &list);
        }
    }
    written
}

/// Writes a length-delimited field: bytes, a text or a message.
fn bytes(written: &mut Vec<u8>, number: u32, content: &[u8]) {
    encode_key(number, WireType::LengthDelimited, written);
    encode_varint(content.len() as u64, written);
    written.put_slice(content);
}

/// Writes a number field.
fn varint(number: u32, value: u64) -> Vec<u8> {
    let mut written = Vec::new();
    encode_key(number, WireType::Varint, &mut written);
    encode_varint(value, &mut written);
    written
}

#[cfg(test)]
mod tests;
