//! The outcomes of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::object;

/// The outcome of a run that did not fail.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each outcome says what it is")]
pub enum Outcome {
    /// The run is complete.
    Success {
        /// Calls that the front end must run (since 1.0).
        pending_tool_call_ids: Option<Vec<String>>,
    },
    /// The run waits for answers, which the next run brings.
    Interrupt {
        #[serde(deserialize_with = "object::list")]
        interrupts: Vec<Interrupt>,
    },
    /// Somebody stopped the run (since 1.0).
    Cancelled,
    /// An outcome of an unknown kind.
    #[serde(untagged)]
    Other(Value),
}

/// The outcome of a subagent that did not fail.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each outcome says what it is")]
#[non_exhaustive]
pub enum SubagentOutcome {
    /// The subagent is complete.
    Success,
    /// The subagent waits for answers.
    Suspended { interrupt_ids: Option<Vec<String>> },
}

/// A question that must be answered before the run continues.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// Its id.
    pub id: String,
    /// The reason: `tool_call`, `input_required`, `confirmation`, or one of the application.
    pub reason: String,
    /// The question, for people.
    pub message: Option<String>,
    /// The call that it is about.
    pub tool_call_id: Option<String>,
    /// The JSON Schema of the answer.
    pub response_schema: Option<Map<String, Value>>,
    /// When it expires (ISO 8601).
    pub expires_at: Option<String>,
    /// More data.
    pub metadata: Option<Map<String, Value>>,
    /// The subagent that asks.
    pub subagent_run_id: Option<String>,
}

/// Tokens that one model used in a run. Reasoning and cache tokens are included in the totals.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// The provider.
    pub provider: Option<String>,
    /// The model's name at the provider.
    pub model: Option<String>,
    /// Tokens read.
    pub input_tokens: Option<u64>,
    /// Tokens written.
    pub output_tokens: Option<u64>,
    /// Tokens read and written.
    pub total_tokens: Option<u64>,
    /// Tokens written while reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Tokens read from the provider's cache.
    pub cached_input_tokens: Option<u64>,
    /// Tokens written to the provider's cache.
    pub cache_write_input_tokens: Option<u64>,
}
