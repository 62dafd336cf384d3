//! The AI SDK's UI message stream: what its `useChat` sends, and the chunks that it reads.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// Parts of one message.
pub const MOST_PARTS: usize = 4_096;

/// What a page sends: the whole conversation, the last message being what is new.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The chat, which is a session.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1, max_length = 256))]
    pub id: String,
    /// The conversation as the page knows it: `UiMessage`s.
    // Most often only the last one matters, and so they are read one by one when they are needed.
    #[cfg_attr(feature = "openapi", schema(required = true, value_type = Vec<UiMessage>, min_items = 1))]
    pub messages: Vec<Box<RawValue>>,
    /// `submit-message` (also when absent) or `regenerate-message`.
    pub trigger: Option<String>,
    /// The message that is edited, regenerated or continued.
    pub message_id: Option<String>,
    /// Tools of the page itself: a list, or an object that has them by their names, as assistant-ui sends them.
    #[serde(deserialize_with = "crate::object::list_or_map")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<PageTools>))]
    pub tools: Option<Vec<PageTool>>,
    /// The client whose tools the chat has.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// The client's connection that it comes from: calls of the turn are offered there first. The header
    /// `x-handback-connection` does the same.
    pub connection: Option<String>,
    /// The model, as `providerID/modelID`.
    pub model: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// What becomes of the stream when a call has to be allowed: `hold` (also when absent) or `yield`.
    pub approvals: Option<Approvals>,
}

/// What becomes of the stream when a call has to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Approvals {
    /// It stays open until somebody answers.
    Hold,
    /// It ends; the page's next request brings the answer.
    Yield,
}

/// A tool that the page brings along and runs itself.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct PageTool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: Option<String>,
    /// What its input looks like: a JSON Schema.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub parameters: Option<Box<RawValue>>,
}

/// The tools of a page, for the description of the API.
#[cfg(feature = "openapi")]
#[derive(utoipa::ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only described")]
enum PageTools {
    /// One after the other.
    List(Vec<PageTool>),
    /// By their names.
    Map(std::collections::BTreeMap<String, PageTool>),
}

impl crate::object::Named for PageTool {
    fn named(self, name: String) -> Self {
        Self { name, ..self }
    }
}

/// A message as pages have it: an assistant's has all steps of a turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UiMessage {
    /// Its id.
    pub id: String,
    /// `user`, `assistant` or `system`.
    pub role: String,
    /// What it is made of.
    #[serde(deserialize_with = "crate::object::short_list::<_, _, MOST_PARTS>")]
    pub parts: Vec<UiPart>,
}

/// A part of a message; which fields there are depends on its type and state.
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
    /// Of a tool: `input-streaming`, `input-available`, `approval-requested`, `approval-responded`,
    /// `output-available`, `output-error`, `output-denied`; of a text: `streaming`, `done`.
    pub state: Option<String>,
    /// The call.
    pub tool_call_id: Option<String>,
    /// The tool, of a `dynamic-tool`.
    pub tool_name: Option<String>,
    /// The input.
    #[serde(deserialize_with = "crate::object::any")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub input: Option<Box<RawValue>>,
    /// The output.
    #[serde(deserialize_with = "crate::object::any")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error_text: Option<String>,
    /// Whether somebody else than the page runs the call.
    pub provider_executed: Option<bool>,
    /// What was asked, and what the user said.
    pub approval: Option<UiApproval>,
    /// The media type of a file.
    pub media_type: Option<String>,
    /// The name of a file.
    pub filename: Option<String>,
    /// Where a file is.
    pub url: Option<String>,
}

/// A question to the user, and the answer.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct UiApproval {
    /// The question.
    pub id: String,
    /// The answer, once there is one.
    pub approved: Option<bool>,
    /// Why not.
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
    /// A message begins, or goes on if the page has one of that id.
    Start {
        message_id: &'a str,
    },
    /// A step begins.
    StartStep,
    /// A text begins, grows, ends.
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
    /// What the model thinks.
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
    /// The model calls a tool; its arguments grow.
    ToolInputStart {
        tool_call_id: &'a str,
        tool_name: &'a str,
    },
    ToolInputDelta {
        tool_call_id: &'a str,
        input_text_delta: &'a str,
    },
    /// The call is made: with `provider_executed` by somebody else, otherwise by the page.
    ToolInputAvailable {
        tool_call_id: &'a str,
        tool_name: &'a str,
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        input: &'a RawValue,
        provider_executed: Option<bool>,
    },
    /// The call is not made.
    ToolInputError {
        tool_call_id: &'a str,
        tool_name: &'a str,
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        input: &'a RawValue,
        error_text: &'a str,
    },
    /// The call has to be allowed, and is or is not.
    ToolApprovalRequest {
        approval_id: &'a str,
        tool_call_id: &'a str,
    },
    ToolApprovalResponse {
        approval_id: &'a str,
        approved: bool,
        reason: Option<&'a str>,
    },
    /// What came of the call.
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
    /// The message is complete, for now.
    Finish {
        finish_reason: &'a str,
    },
}

#[cfg(test)]
mod tests;
