//! The floor: the least code that still delegates a call, to see what Handback's guarantees cost.
//!
//! It speaks Handback's paths over the same HTTP stack. It checks nothing, remembers nothing and waits for ever.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use bytes::Bytes;
use clap::Parser;
use http_body::Frame;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};

/// The least code that still delegates a call.
#[derive(Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4096")]
    listen: String,
    /// How many threads serve; one for each core unless it is given.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
}

#[derive(Default)]
struct Floor {
    /// Tool id to client id.
    tools: Mutex<HashMap<String, String>>,
    /// Client id to its stream.
    streams: Mutex<HashMap<String, mpsc::UnboundedSender<Bytes>>>,
    /// Request id to whoever waits for the result.
    waiting: Mutex<HashMap<String, oneshot::Sender<Box<RawValue>>>>,
    calls: AtomicU64,
}

#[derive(Deserialize)]
struct Register {
    #[serde(rename = "clientID")]
    client_id: String,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
struct Tool {
    id: String,
}

#[derive(Deserialize)]
struct Execute<'a> {
    #[serde(rename = "toolID")]
    tool_id: &'a str,
    #[serde(borrow)]
    input: &'a RawValue,
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(rename = "requestID")]
    request_id: &'a str,
    result: Box<RawValue>,
}

/// The body of an SSE response: whatever comes through the channel.
struct Events(mpsc::UnboundedReceiver<Bytes>);

impl http_body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(cx).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

fn main() -> anyhow::Result<()> {
    let Arguments { listen, workers } = Arguments::parse();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(workers) = workers {
        builder.worker_threads(workers);
    }
    builder.enable_all().build()?.block_on(serve(&listen))
}

#[expect(clippy::disallowed_methods, reason = "it is killed, not shut down: nobody waits for its connections")]
async fn serve(listen: &str) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("floor listening on http://{}", listener.local_addr()?);
    let service = TowerToHyperService::new(router());
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service.clone()));
    }
}

fn router() -> Router {
    Router::new()
        .route("/client-tools/register", post(register))
        .route("/client-tools/unregister", delete(unregister).post(unregister))
        .route("/client-tools/pending/{clientID}", get(pending))
        .route("/client-tools/execute", post(execute))
        .route("/client-tools/result", post(result))
        .route("/metrics", get(metrics))
        .route("/healthz", get(async || "ok"))
        .with_state(Arc::new(Floor::default()))
}

async fn register(State(floor): State<Arc<Floor>>, body: Bytes) -> Response {
    let Ok(Register { client_id, tools }) = serde_json::from_slice(&body) else { return refuse() };
    let ids: Vec<String> = tools.iter().map(|tool| format!("client_{client_id}_{}", tool.id)).collect();
    lock(&floor.tools).extend(ids.iter().map(|id| (id.clone(), client_id.clone())));
    answer(json!({ "registered": ids }).to_string())
}

async fn unregister() -> Response {
    answer(json!({ "success": true, "unregistered": [] }).to_string())
}

async fn pending(State(floor): State<Arc<Floor>>, Path(client_id): Path<String>) -> Response {
    let (sender, receiver) = mpsc::unbounded_channel();
    lock(&floor.streams).insert(client_id, sender);
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::new(Events(receiver))).into_response()
}

async fn execute(State(floor): State<Arc<Floor>>, body: Bytes) -> Response {
    let Ok(Execute { tool_id, input }) = serde_json::from_slice(&body) else { return refuse() };
    let stream =
        lock(&floor.tools).get(tool_id).and_then(|client_id| lock(&floor.streams).get(client_id.as_str()).cloned());
    let Some(stream) = stream else { return StatusCode::NOT_FOUND.into_response() };

    let request_id = floor.calls.fetch_add(1, Ordering::Relaxed).to_string();
    let (sender, receiver) = oneshot::channel();
    let frame = format!(
        "event: tool-request\ndata: {{\"type\":\"client-tool-request\",\"requestID\":\"{request_id}\",\
         \"sessionID\":\"\",\"messageID\":\"\",\"callID\":\"\",\"tool\":\"{tool_id}\",\"input\":{input}}}\n\n"
    );
    lock(&floor.waiting).insert(request_id, sender);
    if stream.send(Bytes::from(frame)).is_err() {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    match receiver.await {
        Ok(result) => answer(Box::<str>::from(result).into_string()),
        Err(_) => StatusCode::BAD_GATEWAY.into_response(),
    }
}

async fn result(State(floor): State<Arc<Floor>>, body: Bytes) -> Response {
    let Ok(Answer { request_id, result }) = serde_json::from_slice(&body) else { return refuse() };
    match lock(&floor.waiting).remove(request_id).map(|waiter| waiter.send(result)) {
        Some(Ok(())) => answer(r#"{"success":true}"#),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The two figures that the load generator reads, from the kernel's own accounts.
async fn metrics() -> Result<String, StatusCode> {
    let read = |path| std::fs::read_to_string(path).map_err(|_| StatusCode::NOT_FOUND);
    // The program's name, in brackets, may hold anything; user and system time are the 12th and 13th fields after it.
    let ticks: u64 = read("/proc/self/stat")?
        .rsplit(')')
        .next()
        .map(|fields| fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum())
        .unwrap_or_default();
    let resident: u64 = read("/proc/self/status")?
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok())
        .unwrap_or_default();
    // Linux reports ticks of 1/100 s to programs, whatever it counts in itself.
    let (seconds, bytes) = (ticks as f64 / 100.0, resident * 1024);
    Ok(format!("process_cpu_seconds_total {seconds}\nprocess_resident_memory_bytes {bytes}\n"))
}

fn answer(json: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], json.into()).into_response()
}

fn refuse() -> Response {
    StatusCode::BAD_REQUEST.into_response()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
