//! Tools that a frontend runs: what it says of a call, and how it claims one.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// What a frontend says of a call.
// Everything is optional to be read, so that an error can say what is wrong.
#[skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct Ack {
    /// The call.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub tool_call_id: String,
    /// `success`, `failed` or `timeout`.
    #[cfg_attr(feature = "openapi", schema(required = true, pattern = "^(success|failed|timeout)$"))]
    pub status: String,
    /// What came of it, any JSON.
    #[serde(deserialize_with = "crate::object::any")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error_text: Option<String>,
    /// When the frontend began with it, RFC 3339.
    pub requested_at: Option<String>,
    /// Who has claimed the call, where it was claimed.
    pub claimant: Option<String>,
}

/// A frontend claims a call, so that no other runs it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Claim {
    /// The call.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub tool_call_id: String,
    /// A name that is this frontend's own.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub claimant: String,
    /// Whether it is let go instead.
    pub release: Option<bool>,
}

/// What is answered to an ack or a claim.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// Whether it counts.
    pub ok: bool,
    /// The same was said before.
    pub ignored: Option<bool>,
    /// Why it does not count: `conflict`, `expired`, `unknown`, `claimed`, `awaiting-approval`, `invalid`.
    pub reason: Option<String>,
    /// What is wrong with it, for people.
    pub error: Option<String>,
}
