//! The input of a run.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use super::Message;
use crate::object;

/// The input of a run: the whole conversation, and what the front end adds.
///
/// `M` can be raw JSON, to parse messages one by one: most of them are known already. Names in `snake_case` are
/// accepted too, as in the protocol's Python types, and null for an empty list, as in Go.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = RunAgentInput))]
#[serde(rename_all = "camelCase")]
pub struct RunAgentInput<M = Message> {
    /// The id of the conversation.
    #[serde(alias = "thread_id")]
    pub thread_id: String,
    /// The id of this run.
    #[serde(alias = "run_id")]
    #[cfg_attr(feature = "openapi", schema(min_length = 1, max_length = 256))]
    pub run_id: String,
    /// The version of the protocol that the front end speaks; absent before 1.0.
    #[serde(alias = "protocol_version")]
    pub protocol_version: Option<String>,
    /// The run that this one continues.
    #[serde(alias = "parent_run_id")]
    pub parent_run_id: Option<String>,
    /// The application's state, any JSON.
    pub state: Option<Value>,
    /// The conversation that the front end knows.
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<Object>))]
    #[serde(deserialize_with = "object::or_default", bound(deserialize = "M: serde::de::DeserializeOwned"))]
    pub messages: Vec<M>,
    /// Tools that the front end runs itself.
    #[serde(default, deserialize_with = "object::nullable_list")]
    pub tools: Vec<Tool>,
    /// What the model should know besides the conversation.
    #[serde(default, deserialize_with = "object::nullable_list")]
    pub context: Vec<Context>,
    /// Other data of the application, any JSON.
    #[serde(alias = "forwarded_props")]
    pub forwarded_props: Option<Value>,
    /// Answers to the interrupts that the last run ended with.
    #[serde(default, deserialize_with = "object::optional_list")]
    pub resume: Option<Vec<Resume>>,
}

impl<M> RunAgentInput<M> {
    /// A run of a thread with only these messages, for protocol 1.0.
    pub fn new(thread_id: impl Into<String>, run_id: impl Into<String>, messages: Vec<M>) -> Self {
        Self {
            thread_id: thread_id.into(),
            run_id: run_id.into(),
            protocol_version: Some(super::PROTOCOL_VERSION.to_owned()),
            parent_run_id: None,
            state: None,
            messages,
            tools: Vec::new(),
            context: Vec::new(),
            forwarded_props: None,
            resume: None,
        }
    }
}

/// A tool that the front end runs itself.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema), schema(as = AguiTool))]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    #[serde(default, deserialize_with = "object::or_default")]
    pub description: String,
    /// The JSON Schema of its arguments.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub parameters: Option<Box<RawValue>>,
    /// More data.
    pub metadata: Option<Map<String, Value>>,
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        let text = |tool: &Self| tool.parameters.as_ref().map(|schema| schema.get().to_owned());
        self.name == other.name
            && self.description == other.description
            && self.metadata == other.metadata
            && text(self) == text(other)
    }
}

/// Something that the model should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Context {
    /// What it is.
    pub description: String,
    /// Its value.
    pub value: String,
}

/// An answer to an interrupt.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct Resume {
    /// The id of the interrupt.
    #[serde(alias = "interrupt_id")]
    pub interrupt_id: String,
    /// Whether it was answered.
    pub status: ResumeStatus,
    /// The answer, any JSON.
    pub payload: Option<Value>,
    /// More data.
    pub metadata: Option<Map<String, Value>>,
}

/// Whether an interrupt was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ResumeStatus {
    /// It was answered; the payload is the answer.
    Resolved,
    /// Somebody decided not to answer.
    Cancelled,
}
