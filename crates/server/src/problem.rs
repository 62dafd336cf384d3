//! Maps errors to status and body, for every protocol. Only the acks of `frontend_tools` have a status and body of their own.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use handback_core::calls::{NotAnswered, NotTaken, Refusal, TooManyConnections};
use handback_core::id::{HttpRequestId, InvalidId};
use handback_core::sessions::{NotAdopted, NotPlanned, NotStarted, SessionError};
use handback_core::store::{Cancellation, FinishedCall, Outcome, StoreError};
use handback_core::tools::RegisterError;
use handback_wire::error::{ErrorBody, ErrorCode};
use serde::Serialize;
use serde_json::json;
use serde_json::value::to_raw_value;

/// After how many seconds a client should retry a 503 if nothing better is known.
const SOON: u64 = 1;

/// A request that failed, as the caller sees it.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The kind of failure.
    pub code: ErrorCode,
    /// What went wrong, for people.
    pub message: String,
    details: Option<serde_json::Value>,
    /// A word for programs, where the shape of errors has a place for it.
    pub(crate) reason: Option<&'static str>,
    retry_after: Option<u64>,
    /// The id of the HTTP request that failed, once it is known.
    request: Option<HttpRequestId>,
}

impl Problem {
    /// A failure of a kind.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: None, reason: None, retry_after: None, request: None }
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

    /// A fault of the server: work broke off.
    pub(crate) fn interrupted() -> Self {
        Self::new(ErrorCode::InternalError, "something broke off on the server; see its log")
    }

    /// A fault of the server. The cause goes to the log, not to the caller.
    fn internal(cause: &impl std::error::Error) -> Self {
        tracing::error!(%cause, "a request failed");
        Self::new(ErrorCode::InternalError, "something went wrong on the server; see its log")
    }

    /// A fault of the store. Its cause goes to the log, unless it is a quota.
    fn of_store(error: &StoreError) -> Self {
        let (code, message) = match error {
            StoreError::Failed(_) => return Self::internal(error),
            StoreError::Quota(exceeded) => {
                return Self::new(ErrorCode::InsufficientStorage, exceeded.to_string());
            }
            StoreError::Full(_) => (
                ErrorCode::Unavailable,
                "the disk or the database of the server is full; delete sessions or make room, then try again",
            ),
            StoreError::Unavailable(_) => {
                (ErrorCode::Unavailable, "the store of the server cannot be used now; try again later, and see its log")
            }
        };
        tracing::error!(cause = %error, "a request failed");
        Self::new(code, message)
    }

    /// The problem for whoever waited for a call; `None` if the call has a result.
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
        let mut details = json!({ "requestID": call.head.request.as_str() });
        if let Some(may_have_run) = call.may_have_run_without_result() {
            details["mayHaveRun"] = may_have_run.into();
        }
        let details = Some(details);
        Some(Self { details, ..Self::new(code, message) })
    }

    /// The status that goes with it.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The problem of this HTTP request.
    pub(crate) fn of(self, request: &HttpRequestId) -> Self {
        Self { request: Some(request.clone()), ..self }
    }

    /// The id of the HTTP request, for the body.
    pub(crate) fn request(&self) -> Option<String> {
        self.request.as_ref().map(ToString::to_string)
    }

    /// The response in the shape of a protocol.
    pub(crate) fn into_response_as(self, shape: ErrorShape) -> Response {
        let mut response = Response::new(Body::from((shape.body)(&self)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        // Every 503 of every protocol says when to retry.
        let soon = (self.status() == StatusCode::SERVICE_UNAVAILABLE).then_some(SOON);
        if let Some(seconds) = self.retry_after.or(soon) {
            headers.insert(header::RETRY_AFTER, seconds.into());
        }
        match self.code {
            // Not Basic, because a browser would keep the key and send it for other pages too.
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

/// The shape of a protocol's errors.
#[derive(Debug, Clone, Copy)]
pub struct ErrorShape {
    /// The paths below which it applies, besides the protocol's own.
    pub(crate) roots: &'static [&'static str],
    /// The name of its schema in the description of the API.
    pub(crate) schema: &'static str,
    /// Writes the body.
    pub(crate) body: fn(&Problem) -> Vec<u8>,
}

impl ErrorShape {
    /// `{error, code, details?}`, for protocols without a shape of their own.
    pub(crate) const COMMON: Self = Self { roots: &[], schema: "ErrorBody", body: common_body };
}

fn common_body(problem: &Problem) -> Vec<u8> {
    let details = problem.details.as_ref().and_then(|details| to_raw_value(details).ok());
    json_body(&ErrorBody { error: problem.message.clone(), code: problem.code, details, request: problem.request() })
}

/// The body of an error.
pub(crate) fn json_body(value: &impl Serialize) -> Vec<u8> {
    // These types always serialize. An empty body would still have the status.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The shapes of errors by path. A path has the shape of the protocol whose routes are there.
#[derive(Debug, Clone, Default)]
pub struct ErrorShapes(Vec<(String, ErrorShape)>);

impl ErrorShapes {
    /// Gives a shape to paths and everything below them, except to those that have one already.
    pub(crate) fn add<'a>(&mut self, paths: impl IntoIterator<Item = &'a String>, shape: ErrorShape) {
        let literal = |path: &'a String| path.split_once("/{").map_or(path.as_str(), |(literal, _)| literal);
        for root in shape.roots.iter().copied().chain(paths.into_iter().map(literal)) {
            if !self.0.iter().any(|(known, _)| known == root) {
                self.0.push((root.to_owned(), shape));
            }
        }
    }

    /// The shape of errors at a path.
    pub(crate) fn at(&self, path: &str) -> ErrorShape {
        let is_below =
            |root: &str| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let nearest = self.0.iter().filter(|(root, _)| is_below(root)).max_by_key(|(root, _)| root.len());
        nearest.map_or(ErrorShape::COMMON, |(_, shape)| *shape)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.into_response_as(ErrorShape::COMMON)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::UnknownTool(_) => ErrorCode::NotFound,
            Refusal::InvalidInput(_) => ErrorCode::InvalidRequest,
            Refusal::DuplicateRequest(_) => ErrorCode::Conflict,
            Refusal::Forgotten(_) => ErrorCode::Gone,
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
            SessionError::DuplicateSession(_) | SessionError::DuplicateMessage(_) | SessionError::QueueFull(_) => {
                ErrorCode::Conflict
            }
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

impl From<NotAdopted> for Problem {
    fn from(reason: NotAdopted) -> Self {
        let code = match reason {
            NotAdopted::NoResult(_) => ErrorCode::NotFound,
            NotAdopted::NoSession(_) => ErrorCode::Conflict,
            NotAdopted::Session(error) => return error.into(),
            NotAdopted::Store(error) => return Self::of_store(&error),
        };
        Self::new(code, reason.to_string())
    }
}

impl From<NotPlanned> for Problem {
    fn from(error: NotPlanned) -> Self {
        match error {
            NotPlanned::Session(error) => error.into(),
            NotPlanned::NotAnswered(error) => error.into(),
            NotPlanned::NothingNew | NotPlanned::TwoAnswers(_) | NotPlanned::InvalidInput(..) => {
                Self::invalid(error.to_string())
            }
            NotPlanned::NotYourAsk(_) => Self::forbidden(error.to_string()),
            NotPlanned::UnknownAsk(_) => Self::not_found(error.to_string()),
            NotPlanned::Busy
            | NotPlanned::GoneOn
            | NotPlanned::AnsweredElsewhere
            | NotPlanned::AskOpen(_)
            | NotPlanned::AnsweredOtherwise(_) => Self::new(ErrorCode::Conflict, error.to_string()),
        }
    }
}

impl From<NotStarted> for Problem {
    fn from(error: NotStarted) -> Self {
        match error {
            NotStarted::Unknown(_) => Self::not_found(error.to_string()),
            NotStarted::Again(_) => Self::invalid(error.to_string()),
            NotStarted::Store(error) => error.into(),
        }
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
