//! The events of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use super::{Content, Message, Outcome, SubagentOutcome, TokenUsage};
use crate::object;

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// What happened.
    #[serde(flatten)]
    pub body: Body,
    /// What any event may say besides.
    #[serde(flatten)]
    pub common: Common,
}

impl From<Body> for Event {
    fn from(body: Body) -> Self {
        Self { body, common: Common::default() }
    }
}

/// What any event may say.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Common {
    /// When it happened, in milliseconds since 1970. Some have fractions of them, which are passed over.
    #[serde(deserialize_with = "object::whole")]
    pub timestamp: Option<i64>,
    /// What it was made from.
    pub raw_event: Option<Value>,
    /// Whatever else is to be said.
    pub metadata: Option<Map<String, Value>>,
    /// The subagent that it is about.
    pub subagent_run_id: Option<String>,
}

/// Who speaks in a text that is streamed.
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

/// The role of the message that a result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ToolRole {
    /// A tool's.
    Tool,
}

/// The role of a message of reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ReasoningRole {
    /// What the model thinks.
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

/// What happened.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "SCREAMING_SNAKE_CASE", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each event says what it is for")]
pub enum Body {
    /// The run begins. Everything else comes after it.
    RunStarted {
        thread_id: String,
        run_id: String,
        parent_run_id: Option<String>,
        protocol_version: Option<String>,
        /// What it was started with: a [`RunAgentInput`](super::RunAgentInput).
        input: Option<Value>,
    },
    /// The run is over, and did not fail.
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
    /// It is over.
    StepFinished { step_name: String },
    /// A text begins.
    TextMessageStart { message_id: String, role: Option<TextRole>, name: Option<String> },
    /// It grows.
    TextMessageContent { message_id: String, delta: String },
    /// It is complete.
    TextMessageEnd { message_id: String },
    /// A text in pieces that begin and end it by themselves.
    TextMessageChunk { message_id: Option<String>, role: Option<TextRole>, delta: Option<String>, name: Option<String> },
    /// The model calls a tool.
    ToolCallStart { tool_call_id: String, tool_call_name: String, parent_message_id: Option<String> },
    /// Its arguments grow.
    ToolCallArgs { tool_call_id: String, delta: String },
    /// Its arguments are complete.
    ToolCallEnd { tool_call_id: String },
    /// A call in pieces that begin and end it by themselves.
    ToolCallChunk {
        tool_call_id: Option<String>,
        tool_call_name: Option<String>,
        parent_message_id: Option<String>,
        delta: Option<String>,
    },
    /// What came of a call that the server made: a message of its own.
    ToolCallResult { message_id: String, tool_call_id: String, content: Content, role: Option<ToolRole> },
    /// The state is now this.
    StateSnapshot { snapshot: Value },
    /// The state changes so: operations of RFC 6902.
    StateDelta { delta: Vec<Value> },
    /// The messages are now these.
    MessagesSnapshot { messages: Vec<Message> },
    /// Something goes on that is no message of the conversation.
    ActivitySnapshot { message_id: String, activity_type: String, content: Map<String, Value>, replace: Option<bool> },
    /// It changes so: operations of RFC 6902.
    ActivityDelta { message_id: String, activity_type: String, patch: Vec<Value> },
    /// An event of the provider's own.
    Raw { event: Value, source: Option<String> },
    /// An event of the application's own.
    Custom { name: String, value: Value },
    /// The model thinks.
    ReasoningStart { message_id: String },
    /// It has thought.
    ReasoningEnd { message_id: String },
    /// What it thinks begins.
    ReasoningMessageStart { message_id: String, role: ReasoningRole },
    /// It grows.
    ReasoningMessageContent { message_id: String, delta: String },
    /// It is complete.
    ReasoningMessageEnd { message_id: String },
    /// What it thinks in pieces that begin and end it by themselves.
    ReasoningMessageChunk { message_id: Option<String>, delta: Option<String> },
    /// Something that only the provider can read, to be sent back to it.
    ReasoningEncryptedValue { subtype: EncryptedEntity, entity_id: String, encrypted_value: String },
    /// A subagent begins; [`Common::subagent_run_id`] says which.
    SubagentStarted {
        name: String,
        description: Option<String>,
        parent_subagent_run_id: Option<String>,
        parent_tool_call_id: Option<String>,
        parent_message_id: Option<String>,
    },
    /// It is done.
    SubagentFinished { result: Option<Value>, outcome: Option<SubagentOutcome> },
    /// It failed.
    SubagentError { message: String, code: Option<String> },
}

impl Body {
    /// Whether the run is over with it.
    pub fn is_terminal(&self) -> bool {
        matches!(self, Self::RunFinished { .. } | Self::RunError { .. })
    }
}
