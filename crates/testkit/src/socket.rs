//! A WebSocket client.

use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::server::PATIENCE;

/// An open WebSocket.
pub struct TestSocket(pub WebSocketStream<MaybeTlsStream<TcpStream>>);

impl TestSocket {
    /// Opens a socket, showing a key or token if there is one.
    pub async fn open(url: &str, shown: Option<&str>) -> Self {
        Self::try_open(url, shown).await.expect("the socket opens")
    }

    /// Opens a socket; the status and the body of the answer if it is refused.
    pub async fn try_open(url: &str, shown: Option<&str>) -> Result<Self, (u16, String)> {
        let mut request = url.into_client_request().expect("a URL");
        if let Some(shown) = shown {
            request.headers_mut().insert("authorization", format!("Bearer {shown}").parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((socket, _)) => Ok(Self(socket)),
            Err(Error::Http(response)) => {
                let body = String::from_utf8(response.body().clone().unwrap_or_default()).expect("the body is text");
                Err((response.status().as_u16(), body))
            }
            Err(error) => panic!("the server answers: {error}"),
        }
    }

    /// Opens a WebSocket on a connection that the test has made.
    pub async fn open_on(connection: TcpStream, url: &str) -> Self {
        let opened = tokio_tungstenite::client_async(url, MaybeTlsStream::Plain(connection)).await;
        Self(opened.expect("the socket opens").0)
    }

    /// Sends a message.
    pub async fn send(&mut self, message: Value) {
        self.send_frame(Message::text(message.to_string())).await;
    }

    /// Sends a frame of any kind.
    pub async fn send_frame(&mut self, frame: Message) {
        self.0.send(frame).await.expect("the message is sent");
    }

    /// The next message; a number is the code that the socket was closed with, null a cut.
    pub async fn next(&mut self) -> Value {
        loop {
            match timeout(PATIENCE, self.0.next()).await.expect("a message comes in time") {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).expect("messages are JSON"),
                Some(Ok(Message::Close(frame))) => {
                    return frame.map_or(Value::Null, |frame| u16::from(frame.code).into());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Value::Null,
            }
        }
    }

    /// The call of the next message, which must be a request.
    pub async fn request(&mut self) -> Value {
        let message = self.next().await;
        assert_eq!(message["type"], "request", "{message}");
        message["request"].clone()
    }

    /// Sends a message and gives its answer.
    pub async fn ask(&mut self, message: Value) -> Value {
        self.send(message).await;
        self.next().await
    }
}
