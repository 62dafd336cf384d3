//! How a run ends.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::object;

/// How a run ended that did not fail.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each outcome says what it is")]
pub enum Outcome {
    /// It did what it had to do.
    Success {
        /// Calls that are the front end's to run (since 1.0).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pending_tool_call_ids: Option<Vec<String>>,
    },
    /// It waits for answers, which the next run brings.
    Interrupt {
        #[serde(deserialize_with = "object::list")]
        interrupts: Vec<Interrupt>,
    },
    /// Somebody stopped it (since 1.0).
    Cancelled,
    /// An outcome of a kind that is not known here.
    #[serde(untagged)]
    Other(Value),
}

/// How a subagent ended that did not fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each outcome says what it is")]
pub enum SubagentOutcome {
    /// It did what it had to do.
    Success,
    /// It waits for answers.
    Suspended {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        interrupt_ids: Option<Vec<String>>,
    },
}

/// Something that a run has to know before it can go on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// Its id.
    pub id: String,
    /// Why: `tool_call`, `input_required`, `confirmation`, or something of the application's own.
    pub reason: String,
    /// The question, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The call that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// What the answer looks like: a JSON Schema.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_schema: Option<Map<String, Value>>,
    /// Until when it can be answered (ISO 8601).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// Whatever else is to be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Map<String, Value>>,
    /// The subagent that it is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subagent_run_id: Option<String>,
}

/// Tokens that one model used in a run. Those of reasoning and of caches are parts of the totals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// The provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's name there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_tokens: Option<u64>,
    /// Written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_tokens: Option<u64>,
    /// Both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<u64>,
    /// Written while thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u64>,
    /// Read from the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_input_tokens: Option<u64>,
    /// Put into the provider's cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write_input_tokens: Option<u64>,
}
