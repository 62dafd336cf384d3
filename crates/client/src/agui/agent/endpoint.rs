//! The way to a server with agents.

use std::time::Duration;

use super::AgentError;
use crate::error::Error;
use crate::http::Http;

/// A stream that is silent for this long is dead, unless the application says otherwise. Not every server has
/// keep-alives.
const SILENCE: Duration = Duration::from_secs(300);

/// The way to a server: its connections are shared by all runs, and by all clones.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) http: Http,
    /// How long a stream may be silent before it counts as lost.
    pub(super) silence: Duration,
}

impl Endpoint {
    pub(super) fn new(url: &str) -> Result<Self, AgentError> {
        Ok(Self { http: Http::new(url).map_err(agent_error)?, silence: SILENCE })
    }

    pub(super) fn header(&mut self, name: &str, value: &str) -> Result<(), AgentError> {
        let invalid = || AgentError::Invalid { reason: format!("the header \"{name}\" cannot be sent") };
        self.http.header(name, value).ok_or_else(invalid)
    }

    pub(super) fn bearer(&mut self, token: &str) -> Result<(), AgentError> {
        self.http.bearer(token).map_err(agent_error)
    }
}

/// What an error of a request means to a run.
pub(super) fn agent_error(error: Error) -> AgentError {
    match error {
        Error::InvalidUrl { url, reason } => {
            AgentError::Invalid { reason: format!("\"{url}\" cannot be asked: {reason}") }
        }
        Error::InvalidToken => AgentError::Invalid { reason: error.to_string() },
        Error::Unexpected { reason, .. } => AgentError::Unexpected { reason },
        Error::Refused(refusal) => {
            let (status, message) = (refusal.status, refusal.message);
            match status {
                401 | 403 => AgentError::AuthExpired { status, message },
                429 => AgentError::RateLimited { message, retry_after: refusal.retry_after },
                _ => AgentError::Refused { status, message },
            }
        }
        Error::Unreachable { reason, .. } | Error::Interrupted { reason, .. } => AgentError::NetworkLost { reason },
        other => AgentError::NetworkLost { reason: other.to_string() },
    }
}
