//! A provider's server whose answers the test writes, and whose requests it sees.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use handback_server::config::{Provider, ProviderKind};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";

/// A provider's server.
pub struct Upstream {
    url: String,
    shared: Arc<Mutex<Shared>>,
    _running: DropGuard,
}

#[derive(Default)]
struct Shared {
    answers: VecDeque<String>,
    requests: Vec<Value>,
}

impl Upstream {
    /// Starts one.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}/v1", listener.local_addr().expect("its address"));
        let (shared, running) = (Arc::<Mutex<Shared>>::default(), CancellationToken::new());
        let (state, stopped) = (Arc::clone(&shared), running.clone());
        #[expect(clippy::disallowed_methods, reason = "ends with the test")]
        tokio::spawn(stopped.run_until_cancelled_owned(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // One after another: a turn asks one thing at a time.
                answer(socket, &state).await;
            }
        }));
        Self { url, shared, _running: running.drop_guard() }
    }

    /// How a server is told of it.
    pub fn provider(&self, kind: ProviderKind) -> Provider {
        serde_json::from_value(json!({ "kind": kind.as_str(), "baseURL": self.url })).expect("a provider")
    }

    /// What it will answer the next request with, event by event.
    pub fn will(&self, events: &[Value]) {
        let frames = events.iter().map(|event| match event {
            Value::String(text) => format!("data: {text}\n\n"),
            event => format!("data: {event}\n\n"),
        });
        self.lock().answers.push_back(frames.collect());
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(mut socket: TcpStream, shared: &Mutex<Shared>) {
    let mut bytes = Vec::new();
    let body = loop {
        assert_ne!(socket.read_buf(&mut bytes).await.expect("a request"), 0, "a whole request");
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
        if bytes.len() >= end + 4 + length.parse::<usize>().expect("a number") {
            break serde_json::from_slice(&bytes[end + 4..]).expect("JSON");
        }
    };
    let answer = {
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.requests.push(body);
        shared.answers.pop_front().expect("an answer that the test wrote")
    };
    socket.write_all(format!("{HEAD}{answer}").as_bytes()).await.expect("the answer is taken");
}
