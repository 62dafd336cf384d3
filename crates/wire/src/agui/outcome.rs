//! How a run ends.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with_macros::skip_serializing_none;

use crate::object;

/// How a run ended that did not fail.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each outcome says what it is")]
pub enum Outcome {
    /// It did what it had to do.
    Success {
        /// Calls that are the front end's to run (since 1.0).
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
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[expect(missing_docs, reason = "the fields are named by the protocol, and each outcome says what it is")]
#[non_exhaustive]
pub enum SubagentOutcome {
    /// It did what it had to do.
    Success,
    /// It waits for answers.
    Suspended { interrupt_ids: Option<Vec<String>> },
}

/// Something that a run has to know before it can go on.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Interrupt {
    /// Its id.
    pub id: String,
    /// Why: `tool_call`, `input_required`, `confirmation`, or something of the application's own.
    pub reason: String,
    /// The question, for people.
    pub message: Option<String>,
    /// The call that it is about.
    pub tool_call_id: Option<String>,
    /// What the answer looks like: a JSON Schema.
    pub response_schema: Option<Map<String, Value>>,
    /// Until when it can be answered (ISO 8601).
    pub expires_at: Option<String>,
    /// Whatever else is to be said.
    pub metadata: Option<Map<String, Value>>,
    /// The subagent that it is from.
    pub subagent_run_id: Option<String>,
}

/// Tokens that one model used in a run. Those of reasoning and of caches are parts of the totals.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TokenUsage {
    /// The provider.
    pub provider: Option<String>,
    /// The model's name there.
    pub model: Option<String>,
    /// Read.
    pub input_tokens: Option<u64>,
    /// Written.
    pub output_tokens: Option<u64>,
    /// Both.
    pub total_tokens: Option<u64>,
    /// Written while thinking.
    pub reasoning_tokens: Option<u64>,
    /// Read from the provider's cache.
    pub cached_input_tokens: Option<u64>,
    /// Put into the provider's cache.
    pub cache_write_input_tokens: Option<u64>,
}
