//! A client: its tools, and the sessions in which a model may call them.

use std::sync::{Arc, Weak};

use handback_wire::session::{CreateSession, Model};
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use crate::api::Api;
use crate::error::Error;
use crate::patience::Patience;
use crate::session::SessionHandle;
use crate::tools::{ClientTools, Options, State};

/// Who a client is, and how it behaves.
#[derive(Debug, Clone, Default)]
pub struct ClientOptions {
    /// The client's id; made up without it, so that its tools are this process's alone. Give one to come back as the
    /// same client.
    pub client_id: Option<String>,
    /// An application key or a client token.
    pub token: Option<String>,
    /// How its tools are offered.
    pub tools: Options,
}

/// A session to be.
#[derive(Debug, Clone, Default)]
pub struct StartSession {
    /// A heading; made from what is said first without it.
    pub title: Option<String>,
    /// The agent; the server has a default.
    pub agent: Option<String>,
    /// The model; the agent or the server has a default.
    pub model: Option<Model>,
    /// Whatever is to be kept with it, an object.
    pub metadata: Option<Box<RawValue>>,
    /// The model is offered none of the client's tools, and they are not connected for it.
    pub without_tools: bool,
}

/// A client of a server: its tools, and the sessions in which a model may call them. Clones are the same client.
#[derive(Debug, Clone)]
pub struct Client {
    api: Api,
    tools: ClientTools,
    /// The sessions that the tools were connected for, while there are any.
    users: Arc<Mutex<Weak<()>>>,
}

impl Client {
    /// A client of the server at `base_url`. Nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] and [`Error::InvalidToken`].
    pub fn new(base_url: &str, options: ClientOptions) -> Result<Self, Error> {
        let api = Api::new(base_url, options.token.as_deref())?;
        // Short: it is part of what models call the tools, and that has 64 characters.
        let client_id = options.client_id.unwrap_or_else(|| format!("rust-{:016x}", fastrand::u64(..)));
        let tools = ClientTools::new(api.clone(), client_id, options.tools);
        Ok(Self { api, tools, users: Arc::default() })
    }

    /// Requests to the server.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// The tools that this client offers.
    pub fn tools(&self) -> &ClientTools {
        &self.tools
    }

    /// Starts a session in which the model may call this client's tools; connects them first if they are not.
    ///
    /// # Errors
    /// As [`ClientTools::connect`]; [`Error::Refused`] if there is no such agent or model; [`Error::GivenUp`] after a
    /// minute without the server.
    pub async fn start_session(&self, start: StartSession) -> Result<SessionHandle, Error> {
        let StartSession { title, agent, model, metadata, without_tools } = start;
        let lease = if without_tools { None } else { self.connect_tools().await? };
        let client_id = (!without_tools).then(|| self.tools.client_id().to_owned());
        let request = CreateSession { title, agent, model, metadata, client_id, parent_id: None };
        let mut patience = Patience::new();
        loop {
            // One that was made although the answer was lost is empty, and does no harm.
            let error = match self.api.create_session(&request).await {
                Ok(session) => {
                    let tools = (!without_tools).then(|| self.tools.clone());
                    return Ok(SessionHandle::new(self.api.clone(), session, tools, lease));
                }
                Err(error) => error,
            };
            if let Err(error) = patience.after(error).await {
                if let Some(lease) = lease {
                    lease.end().await;
                }
                return Err(error);
            }
        }
    }

    /// Connects the tools for a session; `None` if that was done before, and not for a session.
    async fn connect_tools(&self) -> Result<Option<ToolsLease>, Error> {
        let lease = self.lease().await;
        // Not while the lock is held: it may take for ever, and those who leave need the lock.
        match (self.tools.connect(None).await, lease) {
            (Ok(()), lease) => Ok(lease),
            (Err(error), lease) => {
                if let Some(lease) = lease {
                    lease.end().await;
                }
                Err(error)
            }
        }
    }

    async fn lease(&self) -> Option<ToolsLease> {
        let mut users = self.users.lock().await;
        let is_closed = matches!(*self.tools.state().borrow(), State::Closed(_));
        let user = match users.upgrade() {
            Some(user) => user,
            None if is_closed => Arc::default(),
            None => return None,
        };
        *users = Arc::downgrade(&user);
        Some(ToolsLease { tools: self.tools.clone(), users: Arc::clone(&self.users), user })
    }
}

/// A session's part in a connection that was opened for sessions.
#[derive(Debug)]
pub(crate) struct ToolsLease {
    tools: ClientTools,
    users: Arc<Mutex<Weak<()>>>,
    user: Arc<()>,
}

impl ToolsLease {
    /// Disconnects the tools if no other session needs them.
    pub(crate) async fn end(self) {
        // Held until they are disconnected: a session that starts meanwhile connects them after that.
        let _users = self.users.lock().await;
        if Arc::into_inner(self.user).is_some() {
            self.tools.disconnect().await;
        }
    }
}
