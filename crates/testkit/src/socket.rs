//! A WebSocket client.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::server::PATIENCE;

/// An open WebSocket.
pub struct TestSocket(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

impl TestSocket {
    /// Opens a socket.
    pub async fn open(url: &str) -> Self {
        Self(tokio_tungstenite::connect_async(url).await.expect("the socket opens").0)
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        self.0.send(Message::text(message.to_string())).await.expect("the message is sent");
    }

    /// The next message; a number is the code that the socket was closed with, null a cut.
    pub async fn next(&mut self) -> Value {
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("a message comes in time") {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("messages are JSON"),
                Some(Ok(Message::Close(frame))) => return frame.map_or(Value::Null, |frame| u16::from(frame.code).into()),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Value::Null,
            }
        }
    }

    /// Sends a message and gives its answer.
    pub async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.next().await
    }
}
