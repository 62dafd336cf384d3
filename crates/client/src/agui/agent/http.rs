//! An agent behind one URL.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::agui::RunAgentInput;
use reqwest::Method;

use super::endpoint::Endpoint;
use super::reader::Reader;
use super::{Agent, AgentError, EventStream};
use crate::agui::new_id;

/// An agent behind one URL, as AG-UI has it: every run is one request. Clones share their connections, and so do all
/// runs.
///
/// A stream that is lost cannot be taken up again there: the run fails, and can be tried again.
#[derive(Debug, Clone)]
pub struct HttpAgent {
    endpoint: Endpoint,
}

impl HttpAgent {
    /// The agent at `url`, such as `http://127.0.0.1:4096/agui`.
    ///
    /// # Errors
    /// [`AgentError::Invalid`] if that is no URL of a server; it is not spoken to yet.
    pub fn new(url: &str) -> Result<Self, AgentError> {
        Ok(Self { endpoint: Endpoint::new(url)? })
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
}

impl Agent for HttpAgent {
    fn run(&self, mut input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let endpoint = self.endpoint.clone();
        async move {
            if input.thread_id.is_empty() {
                input.thread_id = new_id("thread");
            }
            let request = endpoint.http.request(Method::POST, endpoint.http.base().clone()).json(&input);
            Reader::open(endpoint, request).await.map(Reader::events)
        }
        .boxed()
    }
}
