//! A connection that offers tools, runs their calls and comes back when it is lost.

mod calls;
mod clock;
mod journal;
mod stream;

use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use handback_wire::client_tools::{RegisterRequest, UnregisterRequest};
use reqwest::header::DATE;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, StreamRequest};
use crate::backoff::Backoff;
use crate::error::Error;
use crate::reconnect::Reconnect;
use crate::sse::EventReader;
use crate::tool::Tool;
use calls::Calls;
use clock::ServerClock;
use stream::Event;

/// How long the server keeps tools and calls after a connection is lost.
const GRACE: Duration = Duration::from_secs(30);
/// How long the goodbye may take.
const GOODBYE: Duration = Duration::from_secs(5);

type Observer = Arc<dyn Fn(Status) + Send + Sync>;

/// What happens on an attached connection, for a log or a status line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Status {
    /// The connection is open and the tools are registered.
    Connected {
        /// The full ids of the tools.
        tools: Vec<String>,
    },
    /// The connection is lost or could not be opened.
    Disconnected {
        /// Why.
        reason: String,
        /// When the next try comes.
        retry_in: Duration,
    },
    /// A handler was started.
    Started {
        /// The call.
        request_id: String,
        /// The full id of its tool.
        tool: String,
        /// Which time the call is offered, from 1.
        attempt: u32,
    },
    /// A handler is done; its result is on the way to the server.
    Finished {
        /// The call.
        request_id: String,
        /// How long the handler took.
        elapsed: Duration,
        /// What the tool says went wrong.
        error: Option<String>,
    },
    /// A call is over before its handler is.
    Cancelled {
        /// The call.
        request_id: String,
        /// Why.
        reason: String,
    },
    /// The server did not take a result.
    Undelivered {
        /// The call.
        request_id: String,
        /// Why.
        reason: String,
    },
}

/// A client to be: who it is and what it offers.
#[derive(Clone)]
pub struct Attach {
    api: Api,
    client_id: String,
    session_id: Option<String>,
    tools: Vec<Tool>,
    observer: Observer,
    backoff: Backoff,
}

impl Attach {
    /// A client of this id that offers nothing yet.
    ///
    /// The server takes all connections of one id for the same client, and gives a call to any of them: each should
    /// offer the same tools.
    pub fn new(api: Api, client_id: impl Into<String>) -> Self {
        Self {
            api,
            client_id: client_id.into(),
            session_id: None,
            tools: Vec::new(),
            observer: Arc::new(|_| {}),
            backoff: Backoff::new(Duration::from_secs(1), Duration::from_secs(30)),
        }
    }

    /// Offers a tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        self.tools.push(tool);
        self
    }

    /// Offers the tools in this session only.
    #[must_use]
    pub fn session(mut self, session_id: impl Into<String>) -> Self {
        self.session_id = Some(session_id.into());
        self
    }

    /// Calls `observer` with all that happens. It must not block.
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(Status) + Send + Sync + 'static) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Sets the delays between the tries to connect: they double from `first` (1 s) to `longest` (30 s), up to half of
    /// each is taken off by chance, and they never end.
    #[must_use]
    pub fn reconnect(mut self, first: Duration, longest: Duration) -> Self {
        self.backoff = Backoff::new(first, longest);
        self
    }

    /// Connects, runs the calls that come, and connects again whenever the connection is lost, until `shutdown` fires:
    /// then the tools are unregistered and the handlers cancelled.
    ///
    /// # Errors
    /// What no retry mends: the server does not accept the credentials, or it refuses the tools or the client at the
    /// very first connection.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let handlers =
            self.tools.iter().map(|tool| (self.full_id(&tool.definition.id), Arc::clone(&tool.handler))).collect();
        let calls = Calls::new(self.api.clone(), handlers, Arc::clone(&self.observer));
        let mut link = Link {
            name: format!("{:032x}", fastrand::u128(..)),
            last_event_id: None,
            reconnect: Reconnect::new(self.backoff.clone()),
        };
        loop {
            let error = {
                let mut serving = pin!(self.serve(&calls, &mut link));
                tokio::select! {
                    biased;
                    Err(error) = &mut serving => error,
                    () = shutdown.cancelled() => {
                        // `serving` is kept until the goodbye is said: calls under way stay with this connection.
                        self.say_goodbye().await;
                        calls.stop().await;
                        return Ok(());
                    }
                }
            };
            let Some(retry_in) = link.reconnect.delay_after(&error) else {
                calls.stop().await;
                return Err(error);
            };
            tracing::info!(%error, ?retry_in, "not connected");
            (self.observer)(Status::Disconnected { reason: error.to_string(), retry_in });
            tokio::select! {
                () = sleep(retry_in) => {}
                () = shutdown.cancelled() => {}
            }
        }
    }

    /// Opens a connection and runs the calls that come on it until it is lost.
    async fn serve(&self, calls: &Calls, link: &mut Link) -> Result<Infallible, Error> {
        let response = self
            .api
            .open_stream(StreamRequest {
                client_id: &self.client_id,
                connection: &link.name,
                grace: GRACE,
                last_event_id: link.last_event_id.as_deref(),
            })
            .await?;
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        let clock = ServerClock::new(date);
        let mut events = EventReader::new(response.bytes_stream());
        // After the stream is open: a connection keeps its client's tools from being cleared away, so none is lost
        // to a grace that ends just now.
        let tools = self.api.register(&self.registration()).await?.registered;
        link.reconnect.connected();
        tracing::info!(?tools, "connected");
        (self.observer)(Status::Connected { tools });
        loop {
            let event = events.next().await.map_err(|reason| self.api.interrupted(reason))?;
            match stream::read(&event) {
                Event::Request(request) => {
                    let deadline = clock.deadline(&request.deadline);
                    calls.take(request, deadline);
                }
                Event::Cancel(cancel) => calls.cancel(cancel),
                Event::Other => {}
            }
            // Only now is the event seen. The id stays until another one comes; an empty one takes it back.
            if let Some(id) = event.id {
                link.last_event_id = Some(id).filter(|id| !id.is_empty());
            }
        }
    }

    fn registration(&self) -> RegisterRequest {
        RegisterRequest {
            client_id: self.client_id.clone(),
            session_id: self.session_id.clone(),
            tools: self.tools.iter().map(|tool| tool.definition.clone()).collect(),
        }
    }

    /// Unregisters the tools, so that no further calls are made that nobody would run.
    async fn say_goodbye(&self) {
        let request = UnregisterRequest {
            client_id: self.client_id.clone(),
            session_id: self.session_id.clone(),
            tool_ids: Some(self.tools.iter().map(|tool| self.full_id(&tool.definition.id)).collect()),
        };
        match timeout(GOODBYE, self.api.unregister(&request)).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the tools could not be unregistered"),
            Err(_elapsed) => tracing::warn!("the tools could not be unregistered in time"),
        }
    }

    fn full_id(&self, name: &str) -> String {
        format!("client_{}_{name}", self.client_id)
    }
}

impl fmt::Debug for Attach {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Attach")
            .field("client_id", &self.client_id)
            .field("session_id", &self.session_id)
            .field("tools", &self.tools)
            .finish_non_exhaustive()
    }
}

/// What outlives a connection and matters for the next one.
struct Link {
    /// The connection's name: a newer one of the same name takes over from an older that the server still believes in.
    name: String,
    last_event_id: Option<String>,
    reconnect: Reconnect,
}
