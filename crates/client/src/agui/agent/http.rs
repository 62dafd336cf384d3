//! Agents on a server, which takes each run at one URL or stores threads and runs.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::agui::RunAgentInput;
use handback_wire::threads::{NewRun, NewThread};
use reqwest::{Method, RequestBuilder};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};

use super::reader::{Reader, Resumption};
use super::{Agent, AgentError, EventStream};
use crate::agui::new_id;
use crate::http::Http;

/// The default of [`ServerAgent::silence`]: not every server sends keep-alives.
const SILENCE: Duration = Duration::from_secs(300);
/// The size limit of an answer about a thread or a run; a larger one is an error.
const MAX_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// An agent behind one URL, as in plain AG-UI: every run is one request. A lost stream cannot be resumed: the run
/// fails, and can be retried.
pub type HttpAgent = ServerAgent<OneUrl>;

/// A room of a server that stores threads and runs, such as Soliplex: a run is created, then executed, and continues
/// without a reader. A lost stream is resumed where it broke off.
pub type ThreadAgent = ServerAgent<Room>;

/// An agent on a server, as an [`HttpAgent`] or a [`ThreadAgent`]. Its clones and its runs share their connections.
#[derive(Debug, Clone)]
pub struct ServerAgent<T> {
    http: Http,
    silence: Duration,
    target: T,
}

/// The server takes every run at its URL.
#[derive(Debug, Clone)]
pub struct OneUrl(());

/// The server takes the runs of this room.
#[derive(Debug, Clone)]
pub struct Room(String);

impl<T> ServerAgent<T> {
    /// Sends a token with every request, as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if a header cannot contain it.
    pub fn bearer(mut self, token: &str) -> Result<Self, AgentError> {
        self.http.bearer(token)?;
        Ok(self)
    }

    /// Sends a header with every request.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if the header is not valid.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, AgentError> {
        let invalid = || AgentError::Invalid { reason: format!("the header \"{name}\" cannot be sent") };
        self.http.header(name, value).ok_or_else(invalid)?;
        Ok(self)
    }

    /// Sets how long a stream may be silent before it counts as lost: 5 minutes by default. Keep-alives count.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }
}

impl HttpAgent {
    /// The agent at `url`, such as `http://127.0.0.1:4096/agui`. This connects to nothing yet.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if that is not the URL of a server.
    pub fn new(url: &str) -> Result<Self, AgentError> {
        Ok(Self { http: Http::new(url)?, silence: SILENCE, target: OneUrl(()) })
    }
}

impl Agent for HttpAgent {
    fn run(&self, mut input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let Self { http, silence, .. } = self.clone();
        async move {
            if input.thread_id.is_empty() {
                input.thread_id = new_id("thread");
            }
            let request = http.request(Method::POST, http.base().clone()).json(&input);
            Reader::open(http, silence, request, None).await
        }
        .boxed()
    }
}

impl ThreadAgent {
    /// A room of the server at `base_url`. This connects to nothing yet.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if that is not the URL of a server.
    pub fn new(base_url: &str, room: &str) -> Result<Self, AgentError> {
        Ok(Self { http: Http::new(base_url)?, silence: SILENCE, target: Room(room.to_owned()) })
    }

    /// Creates a run on the server, and a thread if the input has none, and sets their ids in the input.
    async fn create_run(&self, input: &mut RunAgentInput) -> Result<(), AgentError> {
        if input.thread_id.is_empty() {
            let thread: CreatedThread = self.ask(&[], &NewThread::default()).await?;
            input.thread_id = path_segment(thread.thread_id)?;
            // A new thread comes with a run that nobody has executed.
            if let Some(run_id) = thread.runs.and_then(|runs| runs.into_keys().next()) {
                input.run_id = path_segment(run_id)?;
                return Ok(());
            }
        }
        let new = NewRun { parent_run_id: input.parent_run_id.clone(), metadata: None };
        let run: CreatedRun = self.ask(&[&input.thread_id], &new).await?;
        input.run_id = path_segment(run.run_id)?;
        Ok(())
    }

    async fn ask<A: DeserializeOwned>(&self, path: &[&str], body: &impl Serialize) -> Result<A, AgentError> {
        let request = self.http.timed(self.post(path, body))?;
        Ok(self.http.read(request, MAX_ANSWER_BYTES).await?)
    }

    /// A request to the room (an empty `path`), to a thread or to a run in it.
    fn post(&self, path: &[&str], body: &impl Serialize) -> RequestBuilder {
        let path = [&["api", "v1", "rooms", &self.target.0, "agui"], path].concat();
        self.http.request(Method::POST, self.http.endpoint(&path)).json(body)
    }
}

impl Agent for ThreadAgent {
    fn run(&self, mut input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let agent = self.clone();
        async move {
            agent.create_run(&mut input).await?;
            let request = agent.post(&[&input.thread_id, &input.run_id], &input);
            Reader::open(agent.http, agent.silence, request, Some(Resumption::new())).await
        }
        .boxed()
    }
}

#[derive(Deserialize)]
struct CreatedThread {
    thread_id: String,
    runs: Option<BTreeMap<String, IgnoredAny>>,
}

#[derive(Deserialize)]
struct CreatedRun {
    run_id: String,
}

/// Checks that an id can be part of a path. With an id that is refused here, the request would go elsewhere.
fn path_segment(id: String) -> Result<String, AgentError> {
    if matches!(id.as_str(), "" | "." | "..") {
        return Err(AgentError::Unexpected { reason: format!("\"{id}\" is no id") });
    }
    Ok(id)
}
