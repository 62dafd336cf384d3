//! The error body and its codes.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with_macros::skip_serializing_none;

/// The kind of a failure. Each code has one HTTP status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ErrorCode {
    /// 400: the endpoint does not accept the request.
    InvalidRequest,
    /// 401: no valid key or token.
    Unauthorized,
    /// 403: the caller is known, but not allowed to do this.
    Forbidden,
    /// 404: the thing does not exist.
    NotFound,
    /// 405: the path does not take this method.
    MethodNotAllowed,
    /// 409: the request contradicts the current state.
    Conflict,
    /// 409: the call was cancelled.
    Cancelled,
    /// 410: the call is over.
    Gone,
    /// 413: the request is larger than the limit.
    TooLarge,
    /// 426: this endpoint needs a WebSocket.
    UpgradeRequired,
    /// 429: too many calls for this client; see `Retry-After`.
    RateLimited,
    /// 500: the server failed.
    InternalError,
    /// 502: the client went away.
    ClientDisconnected,
    /// 503: overloaded or shutting down.
    Unavailable,
    /// 504: the client did not answer in time.
    Timeout,
    /// 507: a quota is used up.
    InsufficientStorage,
}

impl ErrorCode {
    /// The HTTP status of the code.
    pub fn status(self) -> u16 {
        match self {
            Self::InvalidRequest => 400,
            Self::Unauthorized => 401,
            Self::Forbidden => 403,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Conflict | Self::Cancelled => 409,
            Self::Gone => 410,
            Self::TooLarge => 413,
            Self::UpgradeRequired => 426,
            Self::RateLimited => 429,
            Self::InternalError => 500,
            Self::ClientDisconnected => 502,
            Self::Unavailable => 503,
            Self::Timeout => 504,
            Self::InsufficientStorage => 507,
        }
    }
}

/// The body of every failure of the client-tools API.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ErrorBody {
    /// What went wrong, for people.
    pub error: String,
    /// What went wrong, for programs.
    pub code: ErrorCode,
    /// More details, if there are any.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub details: Option<Box<RawValue>>,
    /// The id of the HTTP request, as in the header `x-request-id` and in the server's log.
    pub request: Option<String>,
}
