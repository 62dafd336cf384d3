//! Reports errors to people and picks the exit code: 1 for a failure, 2 for bad usage, 130 for an interruption.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use handback_client::Error;
use handback_client::agui::{AgentError, RunError};

use crate::output::plain;

/// The error of a command line that cannot be carried out; exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The user stopped the command before it was done.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Interrupted(pub(crate) &'static str);

/// Prints an error with a hint what to do about it, and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        // The reader of the output has seen enough, as in `handback tools | head -1`.
        return ExitCode::SUCCESS;
    }
    let mut stderr = io::stderr().lock();
    // A closed standard error is ignored: there is nobody to tell.
    let _ = writeln!(stderr, "error: {}", plain(&message(error)));
    if let Some(tip) = error.downcast_ref().and_then(tip).or_else(|| error.downcast_ref().and_then(agent_tip)) {
        let _ = writeln!(stderr, "\n  tip: {tip}");
    }
    let is_bad_url_or_token = matches!(error.downcast_ref(), Some(Error::InvalidUrl { .. } | Error::InvalidToken));
    if error.is::<UsageError>() || is_bad_url_or_token {
        ExitCode::from(2)
    } else if error.is::<Interrupted>() {
        ExitCode::from(130)
    } else {
        ExitCode::FAILURE
    }
}

/// The error and its causes. A cause that an earlier message already quotes is left out.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

fn tip(error: &Error) -> Option<&'static str> {
    match error {
        Error::Unreachable { .. } => Some("is it running? start it with `handback serve`, or set --url"),
        Error::Interrupted { .. } | Error::GivenUp { .. } => {
            Some("whether the request took effect is unknown; see `handback calls`")
        }
        Error::InvalidUrl { .. } | Error::Unexpected { .. } => Some("set --url or HANDBACK_URL to a Handback server"),
        _ if error.status() == Some(401) => Some("set --token or HANDBACK_TOKEN to a key or token of this server"),
        _ => None,
    }
}

fn agent_tip(error: &RunError) -> Option<&'static str> {
    let RunError::Agent(error) = error else { return None };
    match error {
        AgentError::NetworkLost { .. } => Some("is it running? --agui names its URL"),
        AgentError::AuthExpired { .. } => {
            Some("set --token to a token of this server; HANDBACK_TOKEN is sent only to the one that --url names")
        }
        AgentError::Refused { status: 404 | 405, .. } | AgentError::Unexpected { .. } => {
            Some("--agui names the URL of an agent, such as http://127.0.0.1:4096/agui")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
