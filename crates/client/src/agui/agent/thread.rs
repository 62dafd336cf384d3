//! An agent that keeps threads and runs, as Soliplex does.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::agui::RunAgentInput;
use handback_wire::threads::{NewRun, NewThread};
use reqwest::Url;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::link::{Link, json};
use super::reader::{DELAYS, Reader};
use super::{Agent, AgentError, EventStream};

/// A room of a server that keeps threads and runs: a run is made first and executed then, and goes on when its reader
/// is lost. A stream that is lost is taken up again where it was.
#[derive(Debug, Clone)]
pub struct ThreadAgent {
    link: Link,
    /// `…/api/v1/rooms/{room}/agui`.
    room: Url,
    /// Between the tries to take up a stream again.
    delays: (Duration, Duration),
}

impl ThreadAgent {
    /// A room of the server at `base_url`.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if that is no URL of a server; it is not spoken to yet.
    pub fn new(base_url: &str, room: &str) -> Result<Self, AgentError> {
        let (link, base) = Link::new(base_url)?;
        Ok(Self { link, room: below(&base, &["api", "v1", "rooms", room, "agui"]), delays: DELAYS })
    }

    /// Sends a token with every request, as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if a header cannot carry it.
    pub fn bearer(mut self, token: &str) -> Result<Self, AgentError> {
        self.link.bearer(token)?;
        Ok(self)
    }

    /// Sends a header with every request.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if there can be no such header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, AgentError> {
        self.link.header(name, value)?;
        Ok(self)
    }

    /// How long a stream may be silent before it counts as lost: 5 minutes if nothing is said. Keep-alives count.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.link.silence(silence);
        self
    }

    #[cfg(test)]
    pub(super) fn hasty(mut self) -> Self {
        self.delays = (Duration::from_millis(1), Duration::from_millis(2));
        self
    }

    /// Finds a thread and a run for an input that may have neither.
    async fn prepare(&self, input: &mut RunAgentInput) -> Result<(), AgentError> {
        if input.thread_id.is_empty() {
            let thread: MadeThread = self.link.ask(self.room.clone(), json(&NewThread::default())?).await?;
            input.thread_id = usable(thread.thread_id)?;
            // A thread comes with a run that nobody has executed.
            if let Some(run_id) = thread.runs.and_then(|runs| runs.into_keys().next()) {
                input.run_id = usable(run_id)?;
                return Ok(());
            }
        }
        let new = NewRun { parent_run_id: input.parent_run_id.clone(), metadata: None };
        let run: MadeRun = self.link.ask(below(&self.room, &[&input.thread_id]), json(&new)?).await?;
        input.run_id = usable(run.run_id)?;
        Ok(())
    }
}

impl Agent for ThreadAgent {
    fn run(&self, mut input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let agent = self.clone();
        async move {
            agent.prepare(&mut input).await?;
            let url = below(&agent.room, &[&input.thread_id, &input.run_id]);
            let body = json(&input)?;
            let frames = agent.link.open(url.clone(), body.clone(), None).await?;
            Ok(Reader::new(agent.link, url, body, frames).resumed(agent.delays).events())
        }
        .boxed()
    }
}

/// What is to be known of a thread that was made.
#[derive(Deserialize)]
struct MadeThread {
    thread_id: String,
    runs: Option<BTreeMap<String, IgnoredAny>>,
}

/// What is to be known of a run that was made.
#[derive(Deserialize)]
struct MadeRun {
    run_id: String,
}

/// An id that has a place in a URL: these have none, and the request would go elsewhere.
fn usable(id: String) -> Result<String, AgentError> {
    if matches!(id.as_str(), "" | "." | "..") {
        return Err(AgentError::Unexpected { reason: format!("\"{id}\" is no id") });
    }
    Ok(id)
}

fn below(url: &Url, path: &[&str]) -> Url {
    let mut url = url.clone();
    url.set_query(None);
    url.set_fragment(None);
    // Only a URL without a host has no path to extend, and those are refused.
    if let Ok(mut segments) = url.path_segments_mut() {
        segments.pop_if_empty().extend(path);
    }
    url
}
