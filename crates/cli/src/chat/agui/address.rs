//! Where an agent is.

use std::sync::Arc;

use handback_client::agui::{Agent, AgentError, HttpAgent, ThreadAgent};
use percent_encoding::percent_decode_str;
use reqwest::Url;

use super::elder::Elder;
use crate::connection::ServerArgs;
use crate::failure::Usage;

/// An agent, and where it is.
pub(super) struct Address {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) url: Url,
}

impl Address {
    /// The agent at a URL: behind it, or in the room that it names.
    pub(super) fn find(url: &str, server: &ServerArgs) -> anyhow::Result<Self> {
        let unusable = |reason: String| Usage(format!("{url:?} is not the URL of an AG-UI server: {reason}"));
        let parsed = Url::parse(url).map_err(|error| unusable(error.to_string()))?;
        let token = server.token_for(&parsed);
        let agent = match room(&parsed) {
            Some((base, room)) => thread_agent(&base, &room, token),
            None => http_agent(&parsed, token),
        };
        let agent = agent.map_err(|error| Usage(error.to_string()))?;
        Ok(Self { agent: Arc::new(Elder::new(agent)), url: parsed })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_room_is_told_from_an_agent() {
        for (url, expected) in [
            ("http://a/agui", None),
            ("http://a/agui/writer", None),
            ("http://a/api/v1/rooms", None),
            ("http://a/api/v1/rooms/x/agui/thread", None),
            ("http://a/api/v1/rooms/x", Some(("http://a/", "x"))),
            ("http://a/api/v1/rooms/x/agui/", Some(("http://a/", "x"))),
            ("https://a:1/b/api/v1/rooms/x%20y/?q=1", Some(("https://a:1/b", "x y"))),
        ] {
            let found = room(&Url::parse(url).unwrap());
            let found = found.as_ref().map(|(server, room)| (server.as_str(), room.as_str()));
            assert_eq!(found, expected, "{url}");
        }
    }
}
