//! Tools that a frontend runs: acks and claims of their calls.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// A frontend's report about a call.
// All fields are optional when read, so that an error can say what is wrong.
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
    /// The output, any JSON.
    #[serde(deserialize_with = "crate::object::any")]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<serde_json::Value>))]
    pub output: Option<Box<RawValue>>,
    /// What went wrong.
    pub error_text: Option<String>,
    /// When the frontend began the call, RFC 3339.
    pub requested_at: Option<String>,
    /// The claimant, if the call was claimed.
    pub claimant: Option<String>,
}

/// A frontend's claim of a call, so that no other frontend runs it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Claim {
    /// The call.
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub tool_call_id: String,
    /// A name that only this frontend uses.
    #[cfg_attr(feature = "openapi", schema(required = true, min_length = 1))]
    pub claimant: String,
    /// True releases the claim instead.
    pub release: Option<bool>,
}

/// The answer to an ack or a claim.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledged {
    /// Whether the ack or claim is accepted.
    pub ok: bool,
    /// True if the same ack was accepted before.
    pub ignored: Option<bool>,
    /// Why it is not accepted: `conflict`, `expired`, `unknown`, `claimed`, `awaiting-approval`, `invalid`.
    pub reason: Option<String>,
    /// The problem, for people.
    pub error: Option<String>,
    /// The id of the HTTP request, as in the header `x-request-id` and in the server's log.
    pub request: Option<String>,
}
