//! The messages of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::object;

/// A message.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each message says what it is")]
pub enum Message {
    /// Instructions of the application's developer.
    Developer {
        id: String,
        content: String,
        #[serde(flatten)]
        labels: Labels,
    },
    /// Instructions of the system.
    System {
        id: String,
        content: String,
        #[serde(flatten)]
        labels: Labels,
    },
    /// The agent's text and calls.
    Assistant {
        id: String,
        content: Option<String>,
        #[serde(default, deserialize_with = "object::optional_list")]
        #[serde(alias = "tool_calls")]
        tool_calls: Option<Vec<ToolCall>>,
        #[serde(flatten)]
        labels: Labels,
    },
    /// The user's message.
    User {
        id: String,
        content: Content,
        #[serde(flatten)]
        labels: Labels,
    },
    /// The result of a call.
    Tool {
        id: String,
        #[serde(alias = "tool_call_id")]
        tool_call_id: String,
        content: Content,
        /// The error; the content contains it too.
        error: Option<String>,
        #[serde(flatten)]
        labels: Labels,
    },
    /// Progress that is not part of the conversation.
    Activity {
        id: String,
        #[serde(alias = "activity_type")]
        activity_type: String,
        content: Map<String, Value>,
        #[serde(flatten)]
        labels: Labels,
    },
    /// The reasoning of the model.
    Reasoning {
        id: String,
        content: String,
        #[serde(flatten)]
        labels: Labels,
    },
    /// A message that is malformed or of an unknown kind.
    #[serde(untagged)]
    Other(Value),
}

impl Message {
    /// Its id; `None` if it has none or is of an unknown kind.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Developer { id, .. }
            | Self::System { id, .. }
            | Self::Assistant { id, .. }
            | Self::User { id, .. }
            | Self::Tool { id, .. }
            | Self::Activity { id, .. }
            | Self::Reasoning { id, .. } => Some(id),
            Self::Other(message) => message.get("id").and_then(Value::as_str),
        }
    }
}

/// Optional fields of every message.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Labels {
    /// The name of the speaker, among several of the same role.
    pub name: Option<String>,
    /// Data that only the provider can read.
    #[serde(alias = "encrypted_value")]
    pub encrypted_value: Option<String>,
    /// More data.
    pub metadata: Option<Map<String, Value>>,
    /// The subagent that sent it.
    #[serde(alias = "subagent_run_id")]
    pub subagent_run_id: Option<String>,
}

/// A call that an assistant's message makes.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The type of the call.
    #[serde(rename = "type", default)]
    pub kind: CallType,
    /// The tool and its arguments.
    pub function: FunctionCall,
    /// Data that only the provider can read.
    #[serde(alias = "encrypted_value")]
    pub encrypted_value: Option<String>,
    /// More data.
    pub metadata: Option<Map<String, Value>>,
}

/// The type of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum CallType {
    /// A function, which is a tool.
    #[default]
    Function,
}

/// A tool and its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionCall {
    /// The tool.
    pub name: String,
    /// The arguments: JSON, as text.
    #[serde(default, deserialize_with = "object::or_default")]
    pub arguments: String,
}

/// Most parts of one message; more are an error.
const MOST_PARTS: usize = 4_096;

/// The content of a message: a text, or parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// A text.
    Text(String),
    /// Parts.
    Parts(#[serde(deserialize_with = "object::short_list::<_, _, MOST_PARTS>")] Vec<Part>),
}

impl Content {
    /// The text, or the texts of all parts joined.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text { text, .. } => Some(text.as_str()),
                    _ => None,
                });
                texts.collect::<Vec<_>>().join("\n")
            }
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A part of the content of a message.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each part says what it is")]
pub enum Part {
    /// A text.
    Text { id: Option<String>, text: String, metadata: Option<Value> },
    /// An image.
    Image { id: Option<String>, source: Source, metadata: Option<Value> },
    /// A sound.
    Audio { id: Option<String>, source: Source, metadata: Option<Value> },
    /// A video.
    Video { id: Option<String>, source: Source, metadata: Option<Value> },
    /// Any other file.
    Document { id: Option<String>, source: Source, metadata: Option<Value> },
    /// A file, as front ends before 1.0 send it.
    Binary {
        #[serde(alias = "mime_type")]
        mime_type: String,
        id: Option<String>,
        url: Option<String>,
        data: Option<String>,
        filename: Option<String>,
    },
    /// A part that is malformed or of an unknown kind.
    #[serde(untagged)]
    Other(Value),
}

/// Where the bytes of a part are.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each source says what it is")]
pub enum Source {
    /// Inline, in base64.
    Data {
        value: String,
        #[serde(alias = "mime_type")]
        mime_type: String,
    },
    /// At a URL.
    Url {
        value: String,
        #[serde(alias = "mime_type")]
        mime_type: Option<String>,
    },
    /// At the provider, under the id that the provider gave.
    File {
        value: String,
        provider: Option<String>,
        #[serde(alias = "mime_type")]
        mime_type: Option<String>,
    },
}
