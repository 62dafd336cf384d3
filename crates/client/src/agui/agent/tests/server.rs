//! A server that answers as the test says.

use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::super::run::tests::support::Pause;

/// What was asked for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) path: String,
    pub(super) headers: axum::http::HeaderMap,
    pub(super) body: Value,
}

impl Asked {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// It is there until it is dropped.
pub(super) struct Server {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Answers the request with each number, from 0, as `answer` says.
    pub(super) async fn start(answer: impl Fn(usize, &Asked) -> Response + Send + Sync + 'static) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (noted, answer) = (Arc::clone(&asked), Arc::new(answer));
        let service = axum::routing::any(move |uri: Uri, request: Request| {
            let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
            async move {
                let headers = request.headers().clone();
                let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
                let asked =
                    Asked { path: uri.path().to_owned(), headers, body: serde_json::from_slice(&body).unwrap() };
                let number = {
                    let mut noted = noted.lock().unwrap();
                    noted.push(asked.clone());
                    noted.len() - 1
                };
                Ok::<_, Infallible>(answer(number, &asked))
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, Router::new().fallback(service)).await.unwrap() });
        Self { url, asked, _tasks: tasks }
    }

    pub(super) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// A stream of events of these pieces, each of which is sent by itself.
pub(super) fn events(pieces: &[&str]) -> Response {
    stream_of(pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece.as_bytes()))).collect())
}

/// The same, and then the connection is cut.
pub(super) fn cut_after(pieces: &[&str]) -> Response {
    let pieces = pieces.iter().map(|piece| Ok(Bytes::copy_from_slice(piece.as_bytes())));
    stream_of(pieces.chain([Err(io::Error::other("cut"))]).collect())
}

fn stream_of(pieces: Vec<io::Result<Bytes>>) -> Response {
    let pieces = stream::iter(pieces).then(|piece| async {
        // What was there before is sent when nothing else is.
        Pause::default().await;
        piece
    });
    sse(Body::from_stream(pieces))
}

pub(super) fn sse(body: Body) -> Response {
    ([(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")], body).into_response()
}

pub(super) fn failure(status: u16, body: &Value) -> Response {
    (StatusCode::from_u16(status).unwrap(), [(header::CONTENT_TYPE, "application/json")], body.to_string())
        .into_response()
}

pub(super) fn answer(body: &Value) -> Response {
    failure(200, body)
}

pub(super) fn started(thread: &str, run: &str) -> String {
    format!("data: {}\n\n", json!({"type": "RUN_STARTED", "threadId": thread, "runId": run}))
}

pub(super) fn finished(thread: &str, run: &str) -> String {
    format!("data: {}\n\n", json!({"type": "RUN_FINISHED", "threadId": thread, "runId": run}))
}
