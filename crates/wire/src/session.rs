//! The session API: the subset of opencode's HTTP API that its published SDK uses.
//!
//! Parts, messages and tool states are one struct each, with the fields of all their kinds, so that readers can skip
//! unknown kinds.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

use crate::object;

/// `POST /session`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateSession {
    /// The session's id; generated when absent. A request that is repeated with it makes no second session.
    pub id: Option<String>,
    /// A heading; generated from the first prompt when absent.
    pub title: Option<String>,
    /// The parent session.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// The client whose tools it has. `metadata.clientID` and the header `x-handback-client` do the same.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// The agent.
    pub agent: Option<String>,
    /// The model.
    #[serde(default, deserialize_with = "object::optional")]
    pub model: Option<Model>,
    /// Data to store with the session.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Box<RawValue>>,
}

/// A model, in either of its two forms.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Model {
    /// The provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The model's name at the provider.
    #[serde(rename = "modelID")]
    pub model_id: Option<String>,
    /// The model's name at the provider, in the other form.
    pub id: Option<String>,
}

/// A session.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The same as `id`.
    pub slug: String,
    /// Always `global`.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Always empty: sessions belong to clients, not to directories.
    pub directory: String,
    /// The parent session.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// The client whose tools it has.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// A heading.
    pub title: String,
    /// The version of the server.
    pub version: String,
    /// The agent.
    pub agent: Option<String>,
    /// The model that answers, unless a prompt names another model or agent.
    pub model: Option<Model>,
    /// The data stored with the session.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Box<RawValue>>,
    /// When it was created and last used.
    pub time: SessionTime,
}

/// When a session was created and last used, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionTime {
    /// When it was created.
    pub created: u64,
    /// When something last happened in it.
    pub updated: u64,
}

/// Whether a turn is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
#[non_exhaustive]
pub enum Status {
    /// No turn is under way.
    Idle,
    /// A turn is under way.
    Busy,
}

/// `POST /session/{id}/message` and `POST /session/{id}/prompt_async`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Prompt {
    /// The parts of the user's message.
    #[serde(deserialize_with = "object::list")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub parts: Vec<PromptPart>,
    /// The client that sends it. The header `x-handback-client` does the same.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// The connection of the client that the prompt comes from: calls of the turn are offered there first. The header
    /// `x-handback-connection` does the same.
    pub connection: Option<String>,
    /// The model for this turn.
    #[serde(default, deserialize_with = "object::optional")]
    pub model: Option<Model>,
    /// The agent for this turn.
    pub agent: Option<String>,
    /// Instructions that override the agent's.
    pub system: Option<String>,
    /// Tools switched on or off for this turn, by name, full id or pattern.
    pub tools: Option<BTreeMap<String, bool>>,
    /// The id of the user's message; created when absent.
    #[serde(rename = "messageID")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 256))]
    pub message_id: Option<String>,
    /// True stores the message without answering it.
    #[serde(rename = "noReply")]
    pub no_reply: Option<bool>,
}

impl From<String> for Prompt {
    fn from(text: String) -> Self {
        Self { parts: vec![PromptPart::Text { text }], ..Self::default() }
    }
}

impl From<&str> for Prompt {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

/// A part of a prompt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PromptPart {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// A file.
    File {
        /// Its media type.
        mime: String,
        /// Its name.
        filename: Option<String>,
        /// Its URL; may be a data URL.
        url: String,
    },
}

/// A message and its parts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageWithParts {
    /// The message.
    pub info: Message,
    /// Its parts.
    pub parts: Vec<Part>,
}

impl MessageWithParts {
    /// The texts of the message, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter(|part| part.kind == "text");
        texts.filter_map(|part| part.text.as_deref()).collect()
    }
}

/// A message.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Message {
    /// Its id.
    pub id: String,
    /// The session that it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// `user` or `assistant`.
    pub role: String,
    /// When it was created and completed.
    pub time: MessageTime,
    /// The agent.
    pub agent: String,
    /// Of a user's message: the model that should answer.
    pub model: Option<Model>,
    /// Of a user's message: instructions that override the agent's.
    pub system: Option<String>,
    /// Of a user's message: tools switched on or off.
    pub tools: Option<BTreeMap<String, bool>>,
    /// Of an assistant's message, like all fields below: the user's message that it answers.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// The model that answers.
    #[serde(rename = "modelID")]
    pub model_id: Option<String>,
    /// The provider of the model.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The agent, under its older name.
    pub mode: Option<String>,
    /// Always empty.
    pub path: Option<MessagePath>,
    /// Always 0: the server does not know prices.
    pub cost: Option<f64>,
    /// The tokens used.
    pub tokens: Option<Tokens>,
    /// Why the model stopped.
    pub finish: Option<String>,
    /// Why the turn ended here, if it did so early.
    pub error: Option<TurnError>,
}

/// When a message was created and completed, in milliseconds since 1970.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageTime {
    /// When it was created.
    pub created: u64,
    /// When it was completed.
    pub completed: Option<u64>,
}

/// The working directory of an assistant, which the server does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct MessagePath {
    /// Always empty.
    pub cwd: String,
    /// Always empty.
    pub root: String,
}

/// Tokens used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tokens {
    /// Tokens read, without cached ones.
    pub input: u64,
    /// Tokens written, without reasoning.
    pub output: u64,
    /// Tokens written while reasoning.
    pub reasoning: u64,
    /// Tokens of the provider's cache.
    pub cache: CacheTokens,
}

/// Tokens of a provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CacheTokens {
    /// Tokens read from the cache.
    pub read: u64,
    /// Tokens written to the cache.
    pub write: u64,
}

/// Why a turn ended early; also the body of every error of this API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnError {
    /// The kind of error: `MessageAbortedError`, `ProviderAuthError`, `APIError`, `UnknownError`; for requests
    /// `BadRequest`, `NotFoundError`, `ConflictError` and others.
    pub name: String,
    /// The details of the error.
    pub data: TurnErrorData,
}

impl TurnError {
    /// The message, for people.
    pub fn reason(&self) -> &str {
        if self.data.message.is_empty() { &self.name } else { &self.data.message }
    }
}

/// The details of an error.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnErrorData {
    /// The message, for people.
    #[serde(default)]
    pub message: String,
    /// The provider that refused the key.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The status of the provider's answer.
    #[serde(rename = "statusCode")]
    pub status_code: Option<u16>,
    /// Whether a retry may succeed.
    #[serde(rename = "isRetryable")]
    pub is_retryable: Option<bool>,
    /// Why a prompt is refused with 409: `queue` (too many prompts wait) or `taken` (the message id is in use).
    pub reason: Option<String>,
    /// For requests: the id of the HTTP request, as in the header `x-request-id` and in the server's log.
    pub request: Option<String>,
}

/// A part of a message.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Part {
    /// Its id.
    pub id: String,
    /// The session that it belongs to.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The message that it belongs to.
    #[serde(rename = "messageID")]
    pub message_id: String,
    /// `text`, `reasoning`, `file`, `tool`, `step-start` or `step-finish`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Of `text` and `reasoning`: the text.
    pub text: Option<String>,
    /// Of `text` and `reasoning`: when it began and ended.
    pub time: Option<Span>,
    /// Of `file`: its media type.
    pub mime: Option<String>,
    /// Of `file`: its name.
    pub filename: Option<String>,
    /// Of `file`: its URL.
    pub url: Option<String>,
    /// Of `tool`: the id of the call.
    #[serde(rename = "callID")]
    pub call_id: Option<String>,
    /// Of `tool`: the tool's full id.
    pub tool: Option<String>,
    /// Of `tool`: the state of the call.
    pub state: Option<ToolState>,
    /// Of `step-finish`: why the model stopped.
    pub reason: Option<String>,
    /// Of `step-finish`: always 0.
    pub cost: Option<f64>,
    /// Of `step-finish`: the tokens used.
    pub tokens: Option<Tokens>,
}

/// When something began and ended, in milliseconds since 1970.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Span {
    /// Its beginning.
    pub start: u64,
    /// Its end.
    pub end: Option<u64>,
}

/// The state of a tool call.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolState {
    /// `pending`, `running`, `completed` or `error`.
    pub status: String,
    /// The input, an object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// Of `pending`: the arguments that the model has written so far.
    pub raw: Option<String>,
    /// Of `completed`: a short heading.
    pub title: Option<String>,
    /// Of `completed`: the output.
    pub output: Option<String>,
    /// Of `error`: the message.
    pub error: Option<String>,
    /// Of `completed`: more data of the tool.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Box<RawValue>>,
    /// When it began and ended.
    pub time: Option<Span>,
    /// Of `completed`: files, as parts of type `file`.
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub attachments: Option<Vec<Part>>,
}

/// `POST /session/{id}/permissions/{permissionID}`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PermissionResponse {
    /// The answer.
    pub response: Reply,
    /// The input that overrides the model's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// Why the call is rejected, for the model.
    pub message: Option<String>,
}

/// `POST /permission/{id}/reply`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct PermissionReply {
    /// The answer.
    pub reply: Reply,
    /// The input that overrides the model's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// Why the call is rejected, for the model.
    pub message: Option<String>,
}

/// An answer to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// Allows this call.
    Once,
    /// Allows this call and all later calls of the tool in this session.
    Always,
    /// Rejects the call.
    Reject,
}

/// A call that waits until somebody allows it: `permission.updated`, `permission.asked`, `GET /permission`. It has the
/// fields of both generations of the SDK.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Permission {
    /// Its id.
    pub id: String,
    /// Always `client_tool`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Always `client_tool`.
    pub permission: String,
    /// The tool's full id.
    pub tool: String,
    /// The tool's full id.
    pub pattern: String,
    /// The tool's full id.
    pub patterns: Vec<String>,
    /// What `always` would allow: the tool's full id.
    pub always: Vec<String>,
    /// The session.
    #[serde(rename = "sessionID")]
    pub session_id: String,
    /// The message.
    #[serde(rename = "messageID")]
    pub message_id: String,
    /// The call.
    #[serde(rename = "callID")]
    pub call_id: String,
    /// The client that would run it.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// A question for people.
    pub title: String,
    /// The input that the model chose.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Box<RawValue>,
    /// The tool and the input again, for older clients.
    pub metadata: PermissionMetadata,
    /// When the ask was made.
    pub time: Asked,
}

/// The tool and the input of an ask, for older clients.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PermissionMetadata {
    /// The tool's full id.
    pub tool: String,
    /// The input that the model chose.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Box<RawValue>,
}

/// When an ask was made, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Asked {
    /// When it was made.
    pub created: u64,
}

/// A tool that the model is offered, in `GET /session/{id}/tools`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfferedTool {
    /// The tool's full id.
    pub id: String,
    /// The name that the model uses.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the input.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub parameters: Box<RawValue>,
    /// Where it runs: `client`, `frontend` or `server`.
    pub runs: Runs,
    /// The client that runs it.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// Whether calls are allowed, asked about or denied.
    pub permission: Rule,
}

/// Where a tool runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Runs {
    /// On the client.
    Client,
    /// On the frontend that shows the session.
    Frontend,
    /// On the server.
    Server,
}

/// Whether calls are allowed, asked about or denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Rule {
    /// Calls are made at once.
    Allow,
    /// Somebody must allow each call.
    Ask,
    /// Calls are refused.
    Deny,
}
