//! A client: its tools, and the sessions in which a model may call them.

use handback_wire::client_tools::ToolResult;
use handback_wire::session::{CreateSession, Model};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::api::Api;
use crate::error::Error;
use crate::execution::{ExecuteOptions, Execution};
use crate::session::SessionHandle;
use crate::tools::{ClientTools, Options, ToolsLease};

/// Who a client is, and how it behaves.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClientOptions {
    /// The client's id; a restarted process with the same id is the same client. By default, a new one.
    pub client_id: Option<String>,
    /// An application key or a client token.
    pub token: Option<String>,
    /// How its tools are offered.
    pub tools: Options,
}

/// The options of a new session.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct StartSession {
    /// The title; by default, it is made from the first prompt.
    pub title: Option<String>,
    /// The agent; the server has a default.
    pub agent: Option<String>,
    /// The model; the agent or the server has a default.
    pub model: Option<Model>,
    /// An object that the server keeps with the session.
    pub metadata: Option<Box<RawValue>>,
    /// Whether the session has none of the client's tools; then they are not connected for it.
    pub without_tools: bool,
}

/// A client of a server: its tools, and the sessions in which a model may call them. Clones are the same client.
#[derive(Debug, Clone)]
pub struct Client {
    tools: ClientTools,
}

impl Client {
    /// A client of the server at `base_url`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] and [`Error::InvalidToken`].
    pub fn new(base_url: &str, options: ClientOptions) -> Result<Self, Error> {
        let api = Api::new(base_url, options.token.as_deref())?;
        // The id is short, because the names that models see contain it and have at most 64 characters.
        let client_id = options.client_id.unwrap_or_else(|| format!("rust-{:016x}", fastrand::u64(..)));
        Ok(Self { tools: ClientTools::new(api, client_id, options.tools) })
    }

    /// Requests to the server.
    pub fn api(&self) -> &Api {
        self.tools.api()
    }

    /// The tools that this client offers.
    pub fn tools(&self) -> &ClientTools {
        &self.tools
    }

    /// Starts a session in which the model may call this client's tools, and connects them if they are not.
    ///
    /// # Errors
    /// As [`ClientTools::connect`]; [`Error::Refused`] if the agent or model does not exist; [`Error::GivenUp`] after a
    /// minute without the server.
    pub async fn start_session(&self, start: StartSession) -> Result<SessionHandle, Error> {
        let StartSession { title, agent, model, metadata, without_tools } = start;
        let lease = if without_tools { None } else { ToolsLease::begin(&self.tools).await? };
        let tools = (!without_tools).then(|| self.tools.clone());
        let client_id = tools.as_ref().map(|tools| tools.client_id().to_owned());
        let request = CreateSession { title, agent, model, metadata, client_id, ..CreateSession::default() };
        match self.api().start_session(request).await {
            Ok(session) => Ok(SessionHandle::new(self.api().clone(), session, tools, lease)),
            Err(error) => {
                ToolsLease::end(lease).await;
                Err(error)
            }
        }
    }

    /// Calls a tool by its full id, as the application, and waits for its result. The failure of a tool is a result. A
    /// server that is lost meanwhile, even one that is killed and restarted, is waited for until the call's deadline.
    ///
    /// Dropping the future cancels the call, in the background. To wait until it is cancelled, use
    /// [`ExecuteOptions::cancellation`].
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refuses the call, or if the call ends without a result (`TIMEOUT`, `CANCELLED`,
    /// `FORBIDDEN`, `CLIENT_DISCONNECTED`): then `mayHaveRun` in the details of its body says whether the tool may have
    /// run. [`Error::InvalidInput`]. [`Error::GivenUp`] if the server stays lost, or a gateway answers in its place for a
    /// minute before the server has said anything about the call.
    pub async fn execute(
        &self,
        tool: &str,
        input: impl Serialize + Send,
        options: ExecuteOptions,
    ) -> Result<ToolResult, Error> {
        let input = to_raw_value(&input).map_err(|error| Error::InvalidInput { reason: error.to_string() })?;
        Execution::new(self.api().clone(), tool, input, options).run_in(self.tools.tasks()).await
    }
}
