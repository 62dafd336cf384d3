//! The AI SDK's UI message stream: the request that its `useChat` sends, and the chunks that it reads.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// Most parts of one message.
pub const MOST_PARTS: usize = 4_096;

/// A page's request: the whole conversation, of which the last message is new.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The chat, which is a session.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1, max_length = 256))]
    pub id: String,
    /// The conversation that the page knows: `UiMessage`s.
    // Usually only the last message matters, so each one is parsed when it is needed.
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = Vec<UiMessage>, min_items = 1))]
    pub messages: Vec<Box<RawValue>>,
    /// `submit-message` (also when absent) or `regenerate-message`.
    pub trigger: Option<String>,
    /// The message that is edited, regenerated or continued.
    pub message_id: Option<String>,
    /// Tools of the page itself: a list, or an object that has them by name, as assistant-ui sends them.
    #[serde(deserialize_with = "crate::object::list_or_map")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<PageTools>))]
    pub tools: Option<Vec<PageTool>>,
    /// The client whose tools the chat has.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// The connection of the client that the request comes from: calls of the turn are offered there first. The header
    /// `x-handback-connection` does the same.
    pub connection: Option<String>,
    /// The model, as `providerID/modelID`.
    pub model: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// What the stream does when a call needs approval: `hold` (also when absent) or `yield`.
    pub approvals: Option<Approvals>,
}

/// What the stream does when a call needs approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Approvals {
    /// The stream stays open until somebody answers.
    Hold,
    /// The stream ends, and the page's next request brings the answer.
    Yield,
}

/// A tool that the page sends and runs itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PageTool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// The JSON Schema of its input.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub parameters: Option<Box<RawValue>>,
}

/// The tools of a page, for the OpenAPI document.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described")]
enum PageTools {
    /// A list.
    List(Vec<PageTool>),
    /// By name.
    Map(std::collections::BTreeMap<String, PageTool>),
}

impl crate::object::Named for PageTool {
    fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

/// A message in the page's form: an assistant's message has all steps of a turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UiMessage {
    /// Its id.
    pub id: String,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// Its parts.
    #[serde(deserialize_with = "crate::object::short_list::<_, _, MOST_PARTS>")]
    pub parts: Vec<UiPart>,
}

/// A part of a message. Its type and state decide which fields are present.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct UiPart {
    /// `text`, `reasoning`, `file`, `step-start`, `tool-<name>`, `dynamic-tool`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// The text.
    pub text: Option<String>,
    /// For a tool: `input-streaming`, `input-available`, `approval-requested`, `approval-responded`,
    /// `output-available`, `output-error`, `output-denied`; for a text: `streaming`, `done`.
    pub state: Option<String>,
    /// The call.
    pub tool_call_id: Option<String>,
    /// The tool of a `dynamic-tool`.
    pub tool_name: Option<String>,
    /// The input.
    #[serde(deserialize_with = "crate::object::any")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub input: Option<Box<RawValue>>,
    /// The output.
    #[serde(deserialize_with = "crate::object::any")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub output: Option<Box<RawValue>>,
    /// The error.
    pub error_text: Option<String>,
    /// Whether the call runs elsewhere and not on the page.
    pub provider_executed: Option<bool>,
    /// The question to the user, and the answer.
    pub approval: Option<UiApproval>,
    /// The media type of a file.
    pub media_type: Option<String>,
    /// The name of a file.
    pub filename: Option<String>,
    /// The URL of a file.
    pub url: Option<String>,
}

/// A question to the user, and the answer.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UiApproval {
    /// The id of the ask.
    pub id: String,
    /// The answer, once there is one.
    pub approved: Option<bool>,
    /// Why the call is rejected.
    pub reason: Option<String>,
}

/// A chat with its messages.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Chat {
    /// The chat.
    pub id: String,
    /// Its messages, in order.
    pub messages: Vec<UiMessage>,
}

/// A chunk of the stream.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[allow(missing_docs, reason = "the fields are named by the AI SDK, and each chunk says what it is for")]
#[non_exhaustive]
pub enum Chunk<'a> {
    /// A message begins, or continues if the page has one with this id.
    Start {
        message_id: &'a str,
    },
    /// A step begins.
    StartStep,
    /// A text begins, grows and ends.
    TextStart {
        id: &'a str,
    },
    TextDelta {
        id: &'a str,
        delta: &'a str,
    },
    TextEnd {
        id: &'a str,
    },
    /// Reasoning begins, grows and ends.
    ReasoningStart {
        id: &'a str,
    },
    ReasoningDelta {
        id: &'a str,
        delta: &'a str,
    },
    ReasoningEnd {
        id: &'a str,
    },
    /// The model calls a tool, and the arguments grow.
    ToolInputStart {
        tool_call_id: &'a str,
        tool_name: &'a str,
    },
    ToolInputDelta {
        tool_call_id: &'a str,
        input_text_delta: &'a str,
    },
    /// The call can run: elsewhere with `provider_executed`, otherwise on the page.
    ToolInputAvailable {
        tool_call_id: &'a str,
        tool_name: &'a str,
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        input: &'a RawValue,
        provider_executed: Option<bool>,
    },
    /// The call does not run.
    ToolInputError {
        tool_call_id: &'a str,
        tool_name: &'a str,
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        input: &'a RawValue,
        error_text: &'a str,
    },
    /// The call needs approval, and the answer to that.
    ToolApprovalRequest {
        approval_id: &'a str,
        tool_call_id: &'a str,
    },
    ToolApprovalResponse {
        approval_id: &'a str,
        approved: bool,
        reason: Option<&'a str>,
    },
    /// The result of the call.
    ToolOutputAvailable {
        tool_call_id: &'a str,
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        output: &'a RawValue,
    },
    ToolOutputError {
        tool_call_id: &'a str,
        error_text: &'a str,
    },
    ToolOutputDenied {
        tool_call_id: &'a str,
    },
    /// A step is over.
    FinishStep,
    /// The turn failed.
    Error {
        error_text: &'a str,
    },
    /// The turn was stopped.
    Abort {
        reason: &'a str,
    },
    /// The message is complete for now.
    Finish {
        finish_reason: &'a str,
    },
}

#[cfg(test)]
mod tests;
