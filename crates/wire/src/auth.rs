//! Requests and answers of minting client tokens.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// `POST /auth/client-token`.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClientTokenRequest {
    /// The client that the token speaks for.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// The only session that the token is valid for; absent: all sessions of the client.
    #[serde(rename = "sessionID")]
    pub session_id: Option<String>,
    /// Agents that the token may name besides those that are open to all clients.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agents: Vec<String>,
    /// How long the token is valid, in seconds.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 2_592_000))]
    pub ttl: Option<u64>,
}

/// The answer to [`ClientTokenRequest`].
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase")]
pub struct ClientToken {
    /// The signed token (a JWT).
    pub token: String,
    /// When it expires, RFC 3339.
    pub expires_at: String,
}
