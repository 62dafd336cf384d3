//! One client's WebSocket: registers its tool over it, and answers the calls over it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::http::header::AUTHORIZATION;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Errors;
use super::clients::{Manner, answer_fields};
use super::events::Request;
use super::http::{Failure, Target};

/// What the bench reads of the server's messages.
#[derive(Deserialize)]
struct Incoming<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    request: Option<Request<'a>>,
    #[serde(default)]
    accepted: bool,
    code: Option<String>,
}

/// An open WebSocket whose tool is registered.
pub(super) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    /// Connects a client and registers its tool.
    pub(super) async fn open(target: &Target, client_id: &str, tool: &str) -> Result<Self, Failure> {
        let path = target.path(&format!("/client-tools/ws/{client_id}"));
        let mut request = format!("ws://{}{path}", target.authority).into_client_request().map_err(failure)?;
        if let Some(token) = &target.token {
            let value = HeaderValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Failure::Malformed("a token that no header can carry"))?;
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        // The default buffer is 128 KiB for each connection, and the messages here are a few hundred bytes.
        let config = WebSocketConfig::default().read_buffer_size(1024);
        let stream = target.connect().await?;
        let (stream, _) =
            tokio_tungstenite::client_async_with_config(request, stream, Some(config)).await.map_err(failure)?;
        let mut socket = Self(stream);
        socket.send(format!(r#"{{"type":"register","tools":[{tool}]}}"#)).await?;
        while !socket.receive(|message| message.kind == "registered").await? {}
        Ok(socket)
    }

    /// Answers every call until the connection ends; or answers none.
    pub(super) async fn serve(mut self, manner: Manner, errors: Arc<Errors>) {
        loop {
            let answer = self.receive(|message| {
                let request_id = message.request.as_ref()?.request_id.get();
                if let Manner::Hold(received) = &manner {
                    received.fetch_add(1, Ordering::Relaxed);
                    return None;
                }
                Some(format!(r#"{{"type":"result",{}}}"#, answer_fields(request_id)))
            });
            let sent = match answer.await {
                Ok(Some(answer)) => self.send(answer).await,
                Ok(None) => Ok(()),
                Err(failure) => Err(failure),
            };
            match sent {
                Ok(()) => {}
                // The connection stays after these.
                Err(failure @ (Failure::Refused(_) | Failure::Malformed(_))) => errors.count("result", &failure),
                Err(failure) => return errors.count("socket", &failure),
            }
        }
    }

    async fn send(&mut self, text: String) -> Result<(), Failure> {
        self.0.send(Message::text(text)).await.map_err(failure)
    }

    /// Reads one message; refusals and errors that it carries are failures.
    async fn receive<T>(&mut self, take: impl FnOnce(&Incoming<'_>) -> T) -> Result<T, Failure> {
        loop {
            let text = match self.0.next().await {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(Some(close)))) => return Err(Failure::ClosedWith(close.code.into())),
                Some(Ok(Message::Close(None))) | None => return Err(Failure::Closed),
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(failure(error)),
            };
            let message: Incoming<'_> = serde_json::from_str(&text)
                .map_err(|_| Failure::Malformed("a message that is none of the protocol"))?;
            if message.kind == "error" || (message.kind == "result" && !message.accepted) {
                return Err(Failure::Refused(message.code.unwrap_or_else(|| message.kind.to_owned())));
            }
            return Ok(take(&message));
        }
    }
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Io(error) => Failure::Io(error),
        Error::ConnectionClosed | Error::AlreadyClosed => Failure::Closed,
        Error::Http(response) => {
            Failure::status(response.status().as_u16(), response.body().as_deref().unwrap_or_default())
        }
        other => Failure::Protocol(other.to_string()),
    }
}
