//! Where an agent is, and how it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_client::agui::wire::RunAgentInput;
use handback_client::agui::{Agent, AgentError, EventStream, HttpAgent, ThreadAgent};
use percent_encoding::percent_decode_str;
use reqwest::Url;

use crate::connection::ServerArgs;
use crate::failure::Usage;

/// The agent at a URL: behind it, or in the room that it names.
pub(super) fn find(url: &str, server: &ServerArgs) -> Result<(Arc<dyn Agent>, Url), Usage> {
    let unusable = |reason: String| Usage(format!("{url:?} is not the URL of an AG-UI server: {reason}"));
    let parsed = Url::parse(url).map_err(|error| unusable(error.to_string()))?;
    let token = server.token_for(&parsed);
    let agent = match room(&parsed) {
        Some((base, room)) => thread_agent(&base, &room, token),
        None => http_agent(&parsed, token),
    };
    let agent = agent.map_err(|error| Usage(error.to_string()))?;
    Ok((Arc::new(AnyVersion { agent, is_old: Arc::default() }), parsed))
}

fn http_agent(url: &Url, token: Option<&str>) -> Result<Arc<dyn Agent>, AgentError> {
    let agent = HttpAgent::new(url.as_str())?;
    Ok(Arc::new(if let Some(token) = token { agent.bearer(token)? } else { agent }))
}

fn thread_agent(base: &Url, room: &str, token: Option<&str>) -> Result<Arc<dyn Agent>, AgentError> {
    let agent = ThreadAgent::new(base.as_str(), room)?;
    Ok(Arc::new(if let Some(token) = token { agent.bearer(token)? } else { agent }))
}

/// The server and the room of a URL `…/api/v1/rooms/{room}`, with `/agui` behind it or without.
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

/// An agent that may be of a server from before AG-UI 1.0, many of which refuse what they do not know. What it refuses as
/// malformed it is asked again without what is new since; nothing was run then, though a server that keeps threads may keep
/// an empty one of it. Once that has helped, it is asked so from the start.
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
        let (asking, agent, is_old) = (self.agent.run(input), Arc::clone(&self.agent), Arc::clone(&self.is_old));
        async move {
            let message = match asking.await {
                Err(AgentError::Refused { status: 400 | 422, message }) => message,
                answered => return answered,
            };
            match agent.run(old_input).await {
                // What it said first was meant for what was asked.
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
