//! The session API: the subset of opencode's HTTP API that its published SDK uses.
//!
//! Parts, messages and tool states are one struct each, with a field for whatever any kind of them has: readers meet
//! kinds that they do not know, and pass over them.

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
    /// A heading; made from the first prompt when absent.
    pub title: Option<String>,
    /// The session that it comes from.
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
    /// Whatever is to be kept with it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Box<RawValue>>,
}

/// A model, in either of the two ways that it is written.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Model {
    /// The provider.
    #[serde(rename = "providerID")]
    pub provider_id: String,
    /// The model's name there.
    #[serde(rename = "modelID")]
    pub model_id: Option<String>,
    /// The same.
    pub id: Option<String>,
}

/// A session.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Session {
    /// Its id.
    pub id: String,
    /// The same: it has no other name.
    pub slug: String,
    /// Always `global`.
    #[serde(rename = "projectID")]
    pub project_id: String,
    /// Always empty: sessions belong to clients, not to directories.
    pub directory: String,
    /// The session that it comes from.
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
    /// The model that answers unless a prompt names another, or another agent.
    pub model: Option<Model>,
    /// What is kept with it.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub metadata: Option<Box<RawValue>>,
    /// When it was made and last used.
    pub time: SessionTime,
}

/// When a session was made and last used, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SessionTime {
    /// When it was made.
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
    /// No.
    Idle,
    /// Yes.
    Busy,
}

/// `POST /session/{id}/message` and `POST /session/{id}/prompt_async`.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Prompt {
    /// What is said.
    #[serde(deserialize_with = "object::list")]
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub parts: Vec<PromptPart>,
    /// The client that says it. The header `x-handback-client` does the same.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// The client's connection that it comes from: calls of the turn are offered there first. The header
    /// `x-handback-connection` does the same.
    pub connection: Option<String>,
    /// The model, for this turn.
    #[serde(default, deserialize_with = "object::optional")]
    pub model: Option<Model>,
    /// The agent, for this turn.
    pub agent: Option<String>,
    /// Instructions in place of the agent's.
    pub system: Option<String>,
    /// Tools switched on or off for this turn, by name, full id or pattern.
    pub tools: Option<BTreeMap<String, bool>>,
    /// The id of the user's message; made when absent.
    #[serde(rename = "messageID")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 256))]
    pub message_id: Option<String>,
    /// Keep the message without answering it.
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

/// A part of what is said.
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
        /// Where it is; may be a data URL.
        url: String,
    },
}

/// A message and its parts.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageWithParts {
    /// The message.
    pub info: Message,
    /// What it is made of.
    pub parts: Vec<Part>,
}

impl MessageWithParts {
    /// What it says: its texts, one after the other.
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
    /// When it was made and complete.
    pub time: MessageTime,
    /// The agent.
    pub agent: String,
    /// The model that is to answer; of a user's message.
    pub model: Option<Model>,
    /// Instructions in place of the agent's; of a user's message.
    pub system: Option<String>,
    /// Tools switched on or off; of a user's message.
    pub tools: Option<BTreeMap<String, bool>>,
    /// The user's message that it answers; of an assistant's message, as are all that follow.
    #[serde(rename = "parentID")]
    pub parent_id: Option<String>,
    /// The model that answers.
    #[serde(rename = "modelID")]
    pub model_id: Option<String>,
    /// Its provider.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The agent, by its older name.
    pub mode: Option<String>,
    /// Always empty.
    pub path: Option<MessagePath>,
    /// Always 0: prices are not known here.
    pub cost: Option<f64>,
    /// What it cost in tokens.
    pub tokens: Option<Tokens>,
    /// Why the model stopped.
    pub finish: Option<String>,
    /// Why the turn ended here, if it did so early.
    pub error: Option<TurnError>,
}

/// When a message was made and complete, in milliseconds since 1970.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MessageTime {
    /// When it was made.
    pub created: u64,
    /// When it was complete.
    pub completed: Option<u64>,
}

/// Where an assistant works; nothing is known of that here.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[non_exhaustive]
pub struct MessagePath {
    /// Always empty.
    pub cwd: String,
    /// Always empty.
    pub root: String,
}

/// Tokens that were used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tokens {
    /// Read, but not from a cache.
    pub input: u64,
    /// Written, but not while thinking.
    pub output: u64,
    /// Written while thinking.
    pub reasoning: u64,
    /// Read from and put into the provider's cache.
    pub cache: CacheTokens,
}

/// Tokens of a provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CacheTokens {
    /// Read from it.
    pub read: u64,
    /// Put into it.
    pub write: u64,
}

/// Why a turn ended early; also the body of every error of this API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnError {
    /// What kind of error it is: `MessageAbortedError`, `ProviderAuthError`, `APIError`, `UnknownError`; of requests
    /// `BadRequest`, `NotFoundError`, `ConflictError` and others.
    pub name: String,
    /// More about it.
    pub data: TurnErrorData,
}

impl TurnError {
    /// What happened, for people.
    pub fn reason(&self) -> &str {
        if self.data.message.is_empty() { &self.name } else { &self.data.message }
    }
}

/// More about an error.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TurnErrorData {
    /// What happened, for people.
    #[serde(default)]
    pub message: String,
    /// The provider that refuses the key.
    #[serde(rename = "providerID")]
    pub provider_id: Option<String>,
    /// The status that a provider answered with.
    #[serde(rename = "statusCode")]
    pub status_code: Option<u16>,
    /// Whether another try may help.
    #[serde(rename = "isRetryable")]
    pub is_retryable: Option<bool>,
    /// Why a prompt is refused with 409: `queue`, too many wait; `taken`, there is a message of its id.
    pub reason: Option<String>,
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
    /// Of `text` and `reasoning`.
    pub text: Option<String>,
    /// Of `text` and `reasoning`: when it began and ended.
    pub time: Option<Span>,
    /// Of `file`: its media type.
    pub mime: Option<String>,
    /// Of `file`: its name.
    pub filename: Option<String>,
    /// Of `file`: where it is.
    pub url: Option<String>,
    /// Of `tool`: the call.
    #[serde(rename = "callID")]
    pub call_id: Option<String>,
    /// Of `tool`: the tool's full id.
    pub tool: Option<String>,
    /// Of `tool`: where it stands.
    pub state: Option<ToolState>,
    /// Of `step-finish`: why the model stopped.
    pub reason: Option<String>,
    /// Of `step-finish`: always 0.
    pub cost: Option<f64>,
    /// Of `step-finish`: what it cost in tokens.
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

/// Where a tool call stands.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ToolState {
    /// `pending`, `running`, `completed` or `error`.
    pub status: String,
    /// The input, an object.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// Of `pending`: the arguments as far as the model has written them.
    pub raw: Option<String>,
    /// Of `completed`: a short heading.
    pub title: Option<String>,
    /// Of `completed`: what the tool gave.
    pub output: Option<String>,
    /// Of `error`: what happened.
    pub error: Option<String>,
    /// Of `completed`: whatever else the tool passed on.
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
    /// The input to use in place of the model's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// Why it is rejected, for the model.
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
    /// The input to use in place of the model's.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub input: Option<Box<RawValue>>,
    /// Why it is rejected, for the model.
    pub message: Option<String>,
}

/// An answer to an ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Reply {
    /// This call may be made.
    Once,
    /// This call and all others of the tool in this session may be made.
    Always,
    /// It may not.
    Reject,
}

/// A call waits until somebody allows it: `permission.updated`, `permission.asked`, `GET /permission`. It has the fields
/// of both generations of the SDK.
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
    /// The input that the model wants.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Box<RawValue>,
    /// The tool and the input once more, where older clients look for them.
    pub metadata: PermissionMetadata,
    /// When it was asked.
    pub time: Asked,
}

/// What a permission is about, where older clients look for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PermissionMetadata {
    /// The tool's full id.
    pub tool: String,
    /// The input that the model wants.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub input: Box<RawValue>,
}

/// When something was asked, in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Asked {
    /// When.
    pub created: u64,
}

/// A tool that the model is offered: `GET /session/{id}/tools`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OfferedTool {
    /// The tool's full id.
    pub id: String,
    /// The name that the model knows it by.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of the input.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub parameters: Box<RawValue>,
    /// Where it runs: `client` or `server`.
    pub runs: Runs,
    /// The client that runs it.
    #[serde(rename = "clientID")]
    pub client_id: Option<String>,
    /// Whether a call is made at once, asked for first, or refused.
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
    /// In whatever shows the session.
    Frontend,
    /// On the server.
    Server,
}

/// Whether a call is made at once, asked for first, or refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Rule {
    /// At once.
    Allow,
    /// Asked for first.
    Ask,
    /// Refused.
    Deny,
}
