//! The events of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use super::{Content, Message, Outcome, SubagentOutcome, TokenUsage};
use crate::object;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// The type and its fields.
    #[serde(flatten)]
    pub body: Body,
    /// Optional fields of every event.
    #[serde(flatten)]
    pub common: Common,
}

impl From<Body> for Event {
    fn from(body: Body) -> Self {
        Self { body, common: Common::default() }
    }
}

/// Optional fields of every event.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Common {
    /// When it happened, in milliseconds since 1970. Fractions are dropped.
    #[serde(deserialize_with = "object::whole")]
    pub timestamp: Option<i64>,
    /// The event that it was made from.
    pub raw_event: Option<Value>,
    /// More data.
    pub metadata: Option<Map<String, Value>>,
    /// The subagent that it is about.
    pub subagent_run_id: Option<String>,
}

/// The speaker of a streamed text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the roles are named by the protocol")]
pub enum TextRole {
    Developer,
    System,
    #[default]
    Assistant,
    User,
}

/// The role of a result's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolRole {
    /// A tool.
    Tool,
}

/// The role of a reasoning message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReasoningRole {
    /// The model's reasoning.
    #[default]
    Reasoning,
}

/// What an encrypted value belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EncryptedEntity {
    /// A call.
    ToolCall,
    /// A message.
    Message,
}

/// The type of an event and its fields.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each event says what it is for")]
pub enum Body {
    /// The run begins; always the first event.
    RunStarted {
        thread_id: String,
        run_id: String,
        parent_run_id: Option<String>,
        protocol_version: Option<String>,
        /// Its input: a [`RunAgentInput`](super::RunAgentInput).
        input: Option<Value>,
    },
    /// The run ended without failing.
    RunFinished {
        thread_id: String,
        run_id: String,
        result: Option<Value>,
        outcome: Option<Outcome>,
        #[serde(default, deserialize_with = "object::optional_list")]
        usage: Option<Vec<TokenUsage>>,
    },
    /// The run failed.
    RunError {
        message: String,
        code: Option<String>,
        #[serde(default, deserialize_with = "object::optional_list")]
        usage: Option<Vec<TokenUsage>>,
    },
    /// A step of the run begins.
    StepStarted { step_name: String },
    /// The step ends.
    StepFinished { step_name: String },
    /// A text begins.
    TextMessageStart { message_id: String, role: Option<TextRole>, name: Option<String> },
    /// The text grows.
    TextMessageContent { message_id: String, delta: String },
    /// The text is complete.
    TextMessageEnd { message_id: String },
    /// A piece of a text without start and end events.
    TextMessageChunk { message_id: Option<String>, role: Option<TextRole>, delta: Option<String>, name: Option<String> },
    /// The model calls a tool.
    ToolCallStart { tool_call_id: String, tool_call_name: String, parent_message_id: Option<String> },
    /// The arguments grow.
    ToolCallArgs { tool_call_id: String, delta: String },
    /// The arguments are complete.
    ToolCallEnd { tool_call_id: String },
    /// A piece of a call without start and end events.
    ToolCallChunk {
        tool_call_id: Option<String>,
        tool_call_name: Option<String>,
        parent_message_id: Option<String>,
        delta: Option<String>,
    },
    /// The result of a call that the server made, as its own message.
    ToolCallResult { message_id: String, tool_call_id: String, content: Content, role: Option<ToolRole> },
    /// The whole state.
    StateSnapshot { snapshot: Value },
    /// A change of the state: operations of RFC 6902.
    StateDelta { delta: Vec<Value> },
    /// All messages of the conversation.
    MessagesSnapshot { messages: Vec<Message> },
    /// Progress that is not a message of the conversation.
    ActivitySnapshot { message_id: String, activity_type: String, content: Map<String, Value>, replace: Option<bool> },
    /// A change of an activity: operations of RFC 6902.
    ActivityDelta { message_id: String, activity_type: String, patch: Vec<Value> },
    /// An event of the provider.
    Raw { event: Value, source: Option<String> },
    /// An event of the application.
    Custom { name: String, value: Value },
    /// The model begins to reason.
    ReasoningStart { message_id: String },
    /// The reasoning ends.
    ReasoningEnd { message_id: String },
    /// A reasoning message begins.
    ReasoningMessageStart { message_id: String, role: ReasoningRole },
    /// The reasoning message grows.
    ReasoningMessageContent { message_id: String, delta: String },
    /// The reasoning message is complete.
    ReasoningMessageEnd { message_id: String },
    /// A piece of a reasoning message without start and end events.
    ReasoningMessageChunk { message_id: Option<String>, delta: Option<String> },
    /// Data that only the provider can read, to be sent back to it.
    ReasoningEncryptedValue { subtype: EncryptedEntity, entity_id: String, encrypted_value: String },
    /// A subagent begins; [`Common::subagent_run_id`] names it.
    SubagentStarted {
        name: String,
        description: Option<String>,
        parent_subagent_run_id: Option<String>,
        parent_tool_call_id: Option<String>,
        parent_message_id: Option<String>,
    },
    /// The subagent ended without failing.
    SubagentFinished { result: Option<Value>, outcome: Option<SubagentOutcome> },
    /// The subagent failed.
    SubagentError { message: String, code: Option<String> },
}

impl Body {
    /// Whether the event ends the run.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}
