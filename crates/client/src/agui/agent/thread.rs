//! An agent that keeps threads and runs, as Soliplex does.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::agui::RunAgentInput;
use handback_wire::threads::{NewRun, NewThread};
use reqwest::{Method, RequestBuilder};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::endpoint::{Endpoint, agent_error};
use super::reader::{DELAYS, Reader};
use super::{Agent, AgentError, EventStream};

/// How large an answer about a thread or a run may be; a larger one is an error.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// A room of a server that keeps threads and runs: a run is made first and executed then, and goes on when its reader
/// is lost. A stream that is lost is taken up again where it was.
#[derive(Debug, Clone)]
pub struct ThreadAgent {
    endpoint: Endpoint,
    room: String,
    /// Between the tries to take up a stream again.
    delays: (Duration, Duration),
}

impl ThreadAgent {
    /// A room of the server at `base_url`.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if that is no URL of a server; it is not spoken to yet.
    pub fn new(base_url: &str, room: &str) -> Result<Self, AgentError> {
        Ok(Self { endpoint: Endpoint::new(base_url)?, room: room.to_owned(), delays: DELAYS })
    }

    /// Sends a token with every request, as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if a header cannot carry it.
    pub fn bearer(mut self, token: &str) -> Result<Self, AgentError> {
        self.endpoint.bearer(token)?;
        Ok(self)
    }

    /// Sends a header with every request.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if there can be no such header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, AgentError> {
        self.endpoint.header(name, value)?;
        Ok(self)
    }

    /// How long a stream may be silent before it counts as lost: 5 minutes if nothing is said. Keep-alives count.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.endpoint.silence = silence;
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
            let thread: MadeThread = self.ask(&[], &NewThread::default()).await?;
            input.thread_id = usable(thread.thread_id)?;
            // A thread comes with a run that nobody has executed.
            if let Some(run_id) = thread.runs.and_then(|runs| runs.into_keys().next()) {
                input.run_id = usable(run_id)?;
                return Ok(());
            }
        }
        let new = NewRun { parent_run_id: input.parent_run_id.clone(), metadata: None };
        let run: MadeRun = self.ask(&[&input.thread_id], &new).await?;
        input.run_id = usable(run.run_id)?;
        Ok(())
    }

    async fn ask<T: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<T, AgentError> {
        let request = self.endpoint.http.timed(self.post(path, body)).map_err(agent_error)?;
        self.endpoint.http.read(request, LARGEST_ANSWER).await.map_err(agent_error)
    }

    /// A request to the room, or to a thread or a run in it.
    fn post(&self, path: &[&str], body: &impl Serialize) -> RequestBuilder {
        let path = [&["api", "v1", "rooms", &self.room, "agui"], path].concat();
        self.endpoint.http.request(Method::POST, self.endpoint.http.endpoint(&path)).json(body)
    }
}

impl Agent for ThreadAgent {
    fn run(&self, mut input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let agent = self.clone();
        async move {
            agent.prepare(&mut input).await?;
            let request = agent.post(&[&input.thread_id, &input.run_id], &input);
            Ok(Reader::open(agent.endpoint, request).await?.resumed(agent.delays).events())
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
