//! Errors to status and body: the one place where that is decided, for every protocol.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use handback_core::calls::{NotAnswered, NotTaken, Refusal, TooManyConnections};
use handback_core::id::InvalidId;
use handback_core::sessions::SessionError;
use handback_core::store::{Cancellation, FinishedCall, Outcome, StoreError};
use handback_core::tools::RegisterError;
use handback_wire::error::{ErrorBody, ErrorCode};
use handback_wire::session::{TurnError, TurnErrorData};
use handback_wire::threads::Detail;
use serde_json::json;
use serde_json::value::to_raw_value;

use crate::api::opencode;

/// After how many seconds to come back to a server that is overloaded, starts or stops, where nothing better is known.
const SOON: u64 = 1;

/// A request that failed: what to tell the caller.
#[derive(Debug, Clone)]
pub struct Problem {
    /// What kind of failure it is.
    pub code: ErrorCode,
    /// What went wrong, for people.
    pub message: String,
    details: Option<serde_json::Value>,
    /// A word for programs, where the shape of the API has a place for it.
    reason: Option<&'static str>,
    retry_after: Option<u64>,
}

impl Problem {
    /// A failure of that kind.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, reason: None, retry_after: None }
    }

    /// 400.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::Forbidden, message)
    }

    /// 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::NotFound, message)
    }

    /// Our own fault: what was begun came to no end.
    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorCode::InternalError, "something broke off on the server; see its log")
    }

    /// Adds what programs may want to know.
    #[must_use]
    pub fn with_details(mut self, details: serde_json::Value) -> Self {
        self.details = Some(details);
        self
    }

    /// Our own fault: the cause goes to the log, not to the caller.
    fn internal(cause: &impl std::error::Error) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(ErrorCode::InternalError, "something went wrong on the server; see its log")
    }

    /// The store could not do it. But for quotas, the cause goes to the log.
    fn of_store(error: &StoreError) -> Self {
        let (code, message) = match error {
            StoreError::Failed(_) => return Self::internal(error),
            StoreError::Quota(exceeded) => {
                return Self::new(ErrorCode::InsufficientStorage, exceeded.to_string());
            }
            StoreError::Full(_) => (
                ErrorCode::InsufficientStorage,
                "the disk or the database of the server is full; delete sessions or make room, then try again",
            ),
            StoreError::Unavailable(_) => {
                (ErrorCode::Unavailable, "the store of the server cannot be used now; try again later, and see its log")
            }
        };
        tracing::error!(cause = %error, "a request failed");
        Self::new(code, message)
    }

    /// The failure that a call's end is to whoever waited for it; `None` if it is a result.
    pub fn of_call(call: &FinishedCall) -> Option<Self> {
        let code = match &call.outcome {
            Outcome::Success(_) | Outcome::Error(_) | Outcome::Acknowledged(_) => return None,
            Outcome::Timeout(_) => ErrorCode::Timeout,
            Outcome::Cancelled(Cancellation::ShuttingDown) => ErrorCode::Unavailable,
            Outcome::Cancelled(_) => ErrorCode::Cancelled,
            Outcome::Denied(_) => ErrorCode::Forbidden,
            Outcome::Disconnected => ErrorCode::ClientDisconnected,
        };
        let message = call.outcome.failure().unwrap_or_default();
        Some(Self::new(code, message).with_details(json!({ "requestID": call.head.request.as_str() })))
    }

    /// The status that goes with it.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body in the shape of the API that the path belongs to.
    pub fn body_for(&self, path: &str) -> Vec<u8> {
        let body = match Shape::of(path) {
            Shape::Own => {
                let details = self.details.as_ref().and_then(|details| to_raw_value(details).ok());
                serde_json::to_vec(&ErrorBody { error: self.message.clone(), code: self.code, details })
            }
            Shape::Named => {
                // The names that the SDK's types have for them.
                let name = match self.code {
                    ErrorCode::NotFound => "NotFoundError",
                    ErrorCode::Unauthorized => "UnauthorizedError",
                    ErrorCode::Forbidden => "ForbiddenError",
                    ErrorCode::Conflict | ErrorCode::Cancelled => "ConflictError",
                    code if code.status() >= 500 => "UnknownError",
                    _ => "BadRequest",
                };
                let reason = self.reason.map(str::to_owned);
                let data = TurnErrorData { message: self.message.clone(), reason, ..TurnErrorData::default() };
                serde_json::to_vec(&TurnError { name: name.to_owned(), data })
            }
            Shape::Ack => {
                let reason = match self.code {
                    ErrorCode::NotFound => "unknown",
                    ErrorCode::Unauthorized => "unauthorized",
                    ErrorCode::Forbidden => "forbidden",
                    ErrorCode::RateLimited => "rate-limited",
                    code if code.status() >= 500 => "unavailable",
                    _ => "invalid",
                };
                serde_json::to_vec(&json!({ "ok": false, "reason": reason, "error": self.message }))
            }
            Shape::Detail => serde_json::to_vec(&Detail { detail: self.message.clone() }),
        };
        // These types always serialise; an empty body still carries the status.
        body.unwrap_or_default()
    }

    /// The response in the shape of the API that the path belongs to.
    pub fn into_response_for(self, path: &str) -> Response {
        let mut response = Response::new(Body::from(self.body_for(path)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // What is not there now may be soon: every 503 of every API says when to come back.
        let soon = (self.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(SOON);
        if let Some(seconds) = self.retry_after.or(soon) {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match self.code {
            // Never Basic: a browser would keep the key, and send it along for pages of others.
            ErrorCode::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            ErrorCode::UpgradeRequired => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            }
            _ => {}
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// The shapes that errors have, by path.
enum Shape {
    /// `{error, code, details?}`
    Own,
    /// `{name, data: {message}}`
    Named,
    /// `{ok: false, reason, error}`
    Ack,
    /// `{detail}`
    Detail,
}

impl Shape {
    fn of(path: &str) -> Self {
        let under = |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if under("/session") || under("/permission") || opencode::is_at(path) {
            Self::Named
        } else if under("/api/tools") || under("/ai/tools") {
            Self::Ack
        } else if under("/api/v1") {
            Self::Detail
        } else {
            Self::Own
        }
    }
}

/// The name of the schema that errors of this path have.
pub(crate) fn schema_for(path: &str) -> &'static str {
    match Shape::of(path) {
        Shape::Own => "ErrorBody",
        Shape::Named => "TurnError",
        Shape::Ack => "Acknowledged",
        Shape::Detail => "Detail",
    }
}

/// Whether errors of this path have another shape than ours, so that the gate has to write them anew.
pub fn has_other_shape(path: &str) -> bool {
    !matches!(Shape::of(path), Shape::Own)
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.into_response_for("/")
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::UnknownTool(_) => ErrorCode::NotFound,
            Refusal::InvalidInput(_) => ErrorCode::InvalidRequest,
            Refusal::DuplicateRequest(_) => ErrorCode::Conflict,
            Refusal::RateLimited { .. } => ErrorCode::RateLimited,
            Refusal::Overloaded | Refusal::ShuttingDown => ErrorCode::Unavailable,
            Refusal::Store(error) => return Self::of_store(error),
        };
        let mut problem = Self::new(code, refusal.to_string());
        if let Refusal::RateLimited { retry_after } = refusal {
            problem.retry_after = Some(retry_after.as_secs_f64().ceil().max(1.0) as u64);
        }
        problem
    }
}

impl From<NotTaken> for Problem {
    fn from(reason: NotTaken) -> Self {
        let code = match &reason {
            NotTaken::Unknown => ErrorCode::NotFound,
            NotTaken::Forbidden => ErrorCode::Forbidden,
            NotTaken::Conflict | NotTaken::NotAllowedYet | NotTaken::Claimed => ErrorCode::Conflict,
            NotTaken::Over => ErrorCode::Gone,
            NotTaken::Store(error) => return Self::of_store(error),
        };
        Self::new(code, reason.to_string())
    }
}

impl From<SessionError> for Problem {
    fn from(error: SessionError) -> Self {
        let code = match &error {
            SessionError::Unknown(_) => ErrorCode::NotFound,
            SessionError::Forbidden | SessionError::NobodysSession(_) => ErrorCode::Forbidden,
            SessionError::UnknownAgent { .. } | SessionError::UnknownModel { .. } => ErrorCode::InvalidRequest,
            SessionError::DuplicateMessage(_) | SessionError::QueueFull(_) => ErrorCode::Conflict,
            SessionError::ShuttingDown => ErrorCode::Unavailable,
            SessionError::Store(error) => return Self::of_store(error),
        };
        let reason = match &error {
            SessionError::QueueFull(_) => Some("queue"),
            SessionError::DuplicateMessage(_) => Some("taken"),
            _ => None,
        };
        Self { reason, ..Self::new(code, error.to_string()) }
    }
}

impl From<NotAnswered> for Problem {
    fn from(reason: NotAnswered) -> Self {
        let code = match &reason {
            NotAnswered::Unknown(_) => ErrorCode::NotFound,
            NotAnswered::Forbidden => ErrorCode::Forbidden,
            NotAnswered::InvalidInput(_) => ErrorCode::InvalidRequest,
            NotAnswered::Store(error) => return Self::of_store(error),
        };
        Self::new(code, reason.to_string())
    }
}

impl From<RegisterError> for Problem {
    fn from(error: RegisterError) -> Self {
        let code = match &error {
            RegisterError::Collision { .. } | RegisterError::Elsewhere { .. } => ErrorCode::Conflict,
            RegisterError::TooManyTools { .. } | RegisterError::TooManySessions { .. } => ErrorCode::TooLarge,
            RegisterError::TooManyClients => ErrorCode::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl From<InvalidId> for Problem {
    fn from(error: InvalidId) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<TooManyConnections> for Problem {
    fn from(error: TooManyConnections) -> Self {
        Self::new(ErrorCode::Unavailable, error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        Self::of_store(&error)
    }
}

#[cfg(test)]
mod tests;
