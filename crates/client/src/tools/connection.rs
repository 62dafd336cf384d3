//! One connection to the server, whatever carries it.

use std::sync::Arc;

use futures_util::StreamExt;
use handback_wire::client_tools::{RegisterRequest, ResultRequest, UnregisterRequest};
use tokio_util::task::TaskTracker;

use super::incoming::{Incoming, IncomingStream};
use super::socket::{self, SocketSpeaker};
use super::{Shared, Transport, stream};
use crate::api::{Api, StreamRequest};
use crate::error::Error;

/// An open connection. Dropping it closes it.
pub(super) struct Connection {
    incoming: IncomingStream,
    /// The way to tell the server something.
    pub(super) speaker: Speaker,
    api: Api,
}

impl Connection {
    pub(super) async fn open(
        shared: &Shared,
        name: &str,
        last_event_id: Option<&str>,
        tasks: &TaskTracker,
    ) -> Result<Self, Error> {
        let (api, silence) = (shared.api.clone(), shared.options.silence);
        let (client_id, grace) = (&shared.client_id, shared.options.grace);
        let request = StreamRequest { client_id, connection: name, grace, last_event_id };
        let (incoming, speaker) = match shared.options.transport {
            Transport::Sse => {
                let response = api.open_stream(request).await?;
                (stream::incoming(response, api.clone(), silence), Speaker::Http(api.clone()))
            }
            Transport::WebSocket => {
                let (upgraded, date) = api.open_socket(request).await?;
                let (incoming, speaker) = socket::start(upgraded, date.as_deref(), &api, silence, tasks).await;
                (incoming, Speaker::Socket(Arc::new(speaker)))
            }
        };
        Ok(Self { incoming, speaker, api })
    }

    /// What comes next; the error says why the connection is lost. Safe to drop while it waits.
    pub(super) async fn next(&mut self) -> Result<Incoming, Error> {
        let ended = || Err(self.api.interrupted("the connection is closed".to_owned()));
        self.incoming.next().await.unwrap_or_else(ended)
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
            Self::Http(api) => api.register(request).await.map(drop),
            Self::Socket(socket) => socket.register(request).await,
        }
    }

    pub(super) async fn unregister(&self, request: &UnregisterRequest) -> Result<(), Error> {
        match self {
            Self::Http(api) => api.unregister(request).await.map(drop),
            Self::Socket(socket) => socket.unregister(request).await,
        }
    }

    pub(super) async fn result(&self, request: &ResultRequest) -> Result<(), Error> {
        match self {
            Self::Http(api) => api.result(request).await.map(drop),
            Self::Socket(socket) => socket.result(request).await,
        }
    }
}
