//! One connection to the server, independent of its transport.

use std::sync::Arc;

use handback_wire::client_tools::{RegisterRequest, ResultRequest, ToolCancel, ToolRequest, UnregisterRequest};
use handback_wire::socket::ClientMessage;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::socket::{self, SocketEvents, SocketUplink};
use super::stream::CallStream;
use super::{Shared, Transport};
use crate::api::{Api, StreamRequest};
use crate::error::Error;

/// An event that the server sends on a connection.
#[derive(Debug)]
pub(super) enum ConnectionEvent {
    /// A call to run, and its deadline; `None` if that is past.
    Request(ToolRequest, Option<Instant>),
    /// A call that is over.
    Cancel(ToolCancel),
}

/// An open connection. Dropping it closes it.
pub(super) enum Connection {
    Sse(CallStream),
    WebSocket(SocketEvents),
}

impl Connection {
    /// Opens a connection from the event `cursor` on, and returns it with its uplink.
    pub(super) async fn open(
        shared: &Shared,
        cursor: Option<&str>,
        tasks: &TaskTracker,
    ) -> Result<(Self, Uplink), Error> {
        let (api, silence) = (shared.api.clone(), shared.options.silence);
        let (connection, grace) = (&shared.connection_name(), shared.options.grace);
        let request = StreamRequest { client_id: &shared.client_id, connection, grace, last_event_id: cursor };
        Ok(match shared.options.transport {
            Transport::Sse => {
                let response = api.open_stream(request).await?;
                (Self::Sse(CallStream::new(response, api.clone(), silence)), Uplink::Http(api))
            }
            Transport::WebSocket => {
                let (upgraded, date) = api.open_socket(request).await?;
                let (events, uplink) = socket::start(upgraded, date.as_deref(), &api, silence, tasks).await;
                (Self::WebSocket(events), Uplink::Socket(Arc::new(uplink)))
            }
        })
    }

    /// The next event; an error says why the connection is lost. Moves the cursor, from which the next connection
    /// resumes. Safe to drop while it waits.
    pub(super) async fn next(&mut self, cursor: &mut Option<String>) -> Result<ConnectionEvent, Error> {
        match self {
            Self::Sse(stream) => stream.next(cursor).await,
            Self::WebSocket(socket) => socket.next().await,
        }
    }
}

/// A request that a connected client makes.
pub(super) enum ClientRequest {
    Register(RegisterRequest),
    Unregister(UnregisterRequest),
    Result(ResultRequest),
}

/// The way to send requests to the server.
#[derive(Clone)]
pub(super) enum Uplink {
    Http(Api),
    Socket(Arc<SocketUplink>),
}

impl Uplink {
    /// The uplink while there is no connection: HTTP requests need none.
    pub(super) fn without_connection(shared: &Shared) -> Option<Self> {
        match shared.options.transport {
            Transport::Sse => Some(Self::Http(shared.api.clone())),
            Transport::WebSocket => None,
        }
    }

    /// Sends a request, and returns when the server has accepted it.
    pub(super) async fn send(&self, request: &ClientRequest) -> Result<(), Error> {
        match self {
            Self::Http(api) => match request {
                ClientRequest::Register(request) => api.register(request).await.map(drop),
                ClientRequest::Unregister(request) => api.unregister(request).await.map(drop),
                ClientRequest::Result(request) => api.result(request).await.map(drop),
            },
            Self::Socket(socket) => {
                let message = match request {
                    ClientRequest::Register(RegisterRequest { tools, session_id, .. }) => {
                        ClientMessage::Register { tools, session_id: session_id.as_deref() }
                    }
                    ClientRequest::Unregister(UnregisterRequest { tool_ids, session_id, .. }) => {
                        let (tool_ids, session_id) = (tool_ids.as_deref(), session_id.as_deref());
                        ClientMessage::Unregister { tool_ids, session_id }
                    }
                    ClientRequest::Result(ResultRequest { request_id, result }) => {
                        ClientMessage::Result { request_id, result }
                    }
                };
                socket.send(message).await
            }
        }
    }
}
