//! One connection to the server, whatever carries it.

use std::sync::Arc;

use handback_wire::client_tools::{RegisterRequest, ResultRequest, ToolCancel, ToolRequest, UnregisterRequest};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::socket::{Socket, SocketSpeaker};
use super::stream::EventStream;
use super::{Shared, Transport};
use crate::api::{Api, StreamRequest};
use crate::error::Error;

/// What comes from the server.
#[derive(Debug)]
pub(super) enum Event {
    /// A call to run, and when it expires; `None`: it has.
    Request(ToolRequest, Option<Instant>),
    /// A call that is over.
    Cancel(ToolCancel),
    /// All events up to the one of this id have been given; what to say when the connection is opened again.
    Seen(Option<String>),
}

/// An open connection. Dropping it closes it.
pub(super) enum Connection {
    Sse(EventStream, Api),
    Socket(Socket),
}

impl Connection {
    pub(super) async fn open(
        shared: &Shared,
        name: &str,
        last_event_id: Option<&str>,
        tasks: &TaskTracker,
    ) -> Result<Self, Error> {
        let (grace, silence) = (shared.options.grace, shared.options.silence);
        let request = StreamRequest { client_id: &shared.client_id, connection: name, grace, last_event_id };
        Ok(match shared.options.transport {
            Transport::Sse => {
                let stream = EventStream::new(shared.api.open_stream(request).await?, shared.api.clone(), silence);
                Self::Sse(stream, shared.api.clone())
            }
            Transport::WebSocket => {
                let (upgraded, date) = shared.api.open_socket(request).await?;
                Self::Socket(Socket::start(upgraded, date.as_deref(), shared.api.clone(), silence, tasks).await)
            }
        })
    }

    /// What comes next; the error says why the connection is lost. Safe to drop while it waits.
    pub(super) async fn next(&mut self) -> Result<Event, Error> {
        match self {
            Self::Sse(stream, _) => stream.next().await,
            Self::Socket(socket) => socket.next().await,
        }
    }

    /// The way to tell the server something.
    pub(super) fn speaker(&self) -> Speaker {
        match self {
            Self::Sse(_, api) => Speaker::Http(api.clone()),
            Self::Socket(socket) => Speaker::Socket(Arc::clone(socket.speaker())),
        }
    }
}

/// The way to tell the server something.
#[derive(Clone)]
pub(super) enum Speaker {
    Http(Api),
    Socket(Arc<SocketSpeaker>),
}

impl Speaker {
    /// The way to tell the server something while there is no connection, if there is one: requests need none.
    pub(super) fn without_connection(shared: &Shared) -> Option<Self> {
        match shared.options.transport {
            Transport::Sse => Some(Self::Http(shared.api.clone())),
            Transport::WebSocket => None,
        }
    }

    pub(super) async fn register(&self, request: &RegisterRequest) -> Result<(), Error> {
        match self {
            Self::Http(api) => api.register(request).await.map(|_| ()),
            Self::Socket(socket) => socket.register(request).await,
        }
    }

    pub(super) async fn unregister(&self, request: &UnregisterRequest) -> Result<(), Error> {
        match self {
            Self::Http(api) => api.unregister(request).await.map(|_| ()),
            Self::Socket(socket) => socket.unregister(request).await,
        }
    }

    pub(super) async fn result(&self, request: &ResultRequest) -> Result<(), Error> {
        match self {
            Self::Http(api) => api.result(request).await.map(|_| ()),
            Self::Socket(socket) => socket.result(request).await,
        }
    }
}
