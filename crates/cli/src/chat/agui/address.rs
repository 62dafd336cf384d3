//! Finds the agent at a URL.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_client::agui::wire::RunAgentInput;
use handback_client::agui::{Agent, AgentError, EventStream, HttpAgent, ThreadAgent};
use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::connection::ServerArgs;
use crate::exit::UsageError;

/// The agent at a URL, or in the room that the URL names.
pub(super) fn find(url: &str, server: &ServerArgs) -> Result<(Arc<dyn Agent>, Url), UsageError> {
    let unusable = |reason: String| UsageError(format!("{url:?} is not the URL of an AG-UI server: {reason}"));
    let parsed = Url::parse(url).map_err(|error| unusable(error.to_string()))?;
    let agent = open(&parsed, server.token_for(&parsed)).map_err(|error| UsageError(error.to_string()))?;
    Ok((Arc::new(AnyVersion { agent, is_old: Arc::default() }), parsed))
}

fn open(url: &Url, token: Option<&str>) -> Result<Arc<dyn Agent>, AgentError> {
    Ok(match (room(url), token) {
        (None, None) => Arc::new(HttpAgent::new(url.as_str())?),
        (None, Some(token)) => Arc::new(HttpAgent::new(url.as_str())?.bearer(token)?),
        (Some((base, room)), None) => Arc::new(ThreadAgent::new(base.as_str(), &room)?),
        (Some((base, room)), Some(token)) => Arc::new(ThreadAgent::new(base.as_str(), &room)?.bearer(token)?),
    })
}

/// The server and the room of a URL `…/api/v1/rooms/{room}`, with or without `/agui` at its end.
fn room(url: &Url) -> Option<(Url, String)> {
    let path: Vec<&str> = url.path_segments()?.collect();
    let path = path.strip_suffix(&[""]).unwrap_or(&path);
    let path = path.strip_suffix(&["agui"]).unwrap_or(path);
    let [base @ .., "api", "v1", "rooms", room] = path else { return None };
    let mut server = url.clone();
    server.set_path(&base.join("/"));
    server.set_query(None);
    Some((server, percent_decode_str(room).decode_utf8().ok()?.into_owned()))
}

/// An agent whose server may be older than AG-UI 1.0; many such servers refuse unknown fields. A request that is
/// refused as malformed is retried without the new fields. The refused request ran nothing, although a server that
/// stores threads may have created an empty one. Once a retry has succeeded, the new fields stay left out.
struct AnyVersion {
    agent: Arc<dyn Agent>,
    is_old: Arc<AtomicBool>,
}

impl Agent for AnyVersion {
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let old_input = RunAgentInput { protocol_version: None, parent_run_id: None, ..input.clone() };
        if self.is_old.load(Ordering::Relaxed) {
            return self.agent.run(old_input);
        }
        let (run, agent, is_old) = (self.agent.run(input), Arc::clone(&self.agent), Arc::clone(&self.is_old));
        async move {
            let message = match run.await {
                Err(AgentError::Refused { status: 400 | 422, message }) => message,
                answered => return answered,
            };
            match agent.run(old_input).await {
                // The first refusal is reported, because it is about the original request.
                Err(AgentError::Refused { status, .. }) => Err(AgentError::Refused { status, message }),
                answered => {
                    is_old.store(answered.is_ok(), Ordering::Relaxed);
                    answered
                }
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
