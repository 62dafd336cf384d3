//! What a server wants back with an answer: its thoughts in its own spelling, and members that only it knows.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What goes back with a message.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptMessage {
    /// Members of the message that only the server knows.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) members: Map<String, Value>,
    /// How the server spells thoughts. Their text is in the message's own parts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) spellings: Vec<Spelling>,
}

/// How a server spells thoughts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Spelling {
    ReasoningContent,
    Reasoning,
    Thinking,
    /// A part of the content.
    ThinkingPart,
}

impl Spelling {
    /// The member of a message that holds the thought.
    pub(super) fn member(self) -> Option<&'static str> {
        match self {
            Self::ReasoningContent => Some("reasoning_content"),
            Self::Reasoning => Some("reasoning"),
            Self::Thinking => Some("thinking"),
            Self::ThinkingPart => None,
        }
    }
}

/// What goes back with a call: members of its function and of the call that only the server knows.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct KeptCall {
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) function: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) members: Map<String, Value>,
}

/// Merges a value into a member: objects, lists and thoughts grow, and anything else is replaced.
pub(super) fn merge(members: &mut Map<String, Value>, name: &str, value: Value) {
    match (members.get_mut(name), value) {
        (_, Value::Null) => {}
        (Some(Value::String(known)), Value::String(more)) if more.is_empty() || is_thought(name) => {
            known.push_str(&more)
        }
        (Some(Value::Object(known)), Value::Object(more)) => {
            more.into_iter().for_each(|(name, value)| merge(known, &name, value));
        }
        (Some(Value::Array(known)), Value::Array(more)) if name == DETAILS => merge_details(known, more),
        (Some(Value::Array(known)), Value::Array(more)) => known.extend(more),
        (_, value) => {
            members.insert(name.to_owned(), value);
        }
    }
}

/// Whether the member of that name holds text that comes in pieces.
fn is_thought(name: &str) -> bool {
    ["reasoning", "thinking", "thought"].iter().any(|word| name.contains(word)) && !name.contains("signature")
}

/// The member that holds thoughts as a list.
pub(super) const DETAILS: &str = "reasoning_details";

/// Adds details of a thought. Pieces of one detail are joined: a server numbers them, or sends them in a row.
fn merge_details(known: &mut Vec<Value>, more: Vec<Value>) {
    for detail in more {
        // No server is known to send anything but objects.
        let Value::Object(detail) = detail else { continue };
        let has_room = known.len() < MOST_DETAILS;
        let earlier = known.iter_mut().rev().enumerate().find_map(|(distance, earlier)| match earlier {
            Value::Object(earlier) if goes_on(earlier, &detail, distance == 0) => Some(earlier),
            _ => None,
        });
        match earlier {
            Some(earlier) => detail.into_iter().for_each(|(name, value)| grow(earlier, name, value)),
            None if has_room => known.push(Value::Object(detail)),
            None => {}
        }
    }
}

fn grow(detail: &mut Map<String, Value>, name: String, value: Value) {
    match (detail.get_mut(&name), value) {
        (_, Value::Null) => {}
        (Some(Value::String(text)), Value::String(more)) if GROWING.contains(&&*name) => text.push_str(&more),
        (_, value) => {
            detail.insert(name, value);
        }
    }
}

/// How many details one answer has at most, because each new one is compared with all of them.
const MOST_DETAILS: usize = 256;

/// Members of a detail that come in pieces.
const GROWING: [&str; 3] = ["text", "summary", "data"];

/// Whether a detail is another piece of an earlier one.
fn goes_on(earlier: &Map<String, Value>, detail: &Map<String, Value>, is_last: bool) -> bool {
    let agrees = |name: &str| {
        let given = detail.get(name).filter(|value| !value.is_null());
        given.is_none() || given == earlier.get(name)
    };
    let is_numbered = detail.get("index").is_some_and(|index| !index.is_null());
    // Encrypted data without a number is complete.
    let may_go_on = is_numbered || (is_last && !detail.contains_key("data"));
    may_go_on && ["type", "id", "index"].into_iter().all(agrees)
}

/// The members of an assistant's message that every server knows. They are not kept, but written anew.
pub(super) const OF_MESSAGE: [&str; 7] =
    ["role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio"];
/// Those of a call.
pub(super) const OF_CALL: [&str; 4] = ["index", "id", "type", "function"];
/// Those of its function.
pub(super) const OF_FUNCTION: [&str; 2] = ["name", "arguments"];
