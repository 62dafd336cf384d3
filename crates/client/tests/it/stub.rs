//! A server that does what the test says: it hands streams, registrations and results to the test.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// Longer than anything takes that works.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What the clock of this server shows, whatever the time is elsewhere.
const DATE: &str = "Sun, 15 Nov 2026 12:00:00 GMT";

/// What a test expects next from a channel.
pub(crate) async fn next<T>(receiver: &mut UnboundedReceiver<T>) -> T {
    tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("nothing came in time").expect("the channel is open")
}

/// The end of a task that is expected to end.
pub(crate) async fn end<T>(task: tokio::task::JoinHandle<T>) -> T {
    tokio::time::timeout(PATIENCE, task).await.expect("the task did not end in time").expect("the task did not panic")
}

/// A stream that a client opened.
pub(crate) struct Connection {
    pub(crate) client_id: String,
    pub(crate) query: HashMap<String, String>,
    pub(crate) last_event_id: Option<String>,
    pub(crate) authorization: Option<String>,
    frames: UnboundedSender<io::Result<Bytes>>,
}

impl Connection {
    pub(crate) fn request(&self, event_id: &str, request: &Value) {
        self.send(request_frame(event_id, request));
    }

    pub(crate) fn cancel(&self, event_id: &str, request_id: &str) {
        self.send(cancel_frame(event_id, request_id));
    }

    pub(crate) fn ping(&self) {
        self.send("event: ping\ndata: \n\n".to_owned());
    }

    /// An event without a name, as the stream of all events has them.
    pub(crate) fn data(&self, data: &str) {
        self.send(format!("data: {data}\n\n"));
    }

    pub(crate) fn cut(self) {
        assert!(self.try_cut(), "the stream is open");
    }

    /// Cuts it, if it is still there.
    pub(crate) fn try_cut(self) -> bool {
        self.frames.send(Err(io::Error::other("cut"))).is_ok()
    }

    /// Sends these bytes, if it is still there.
    pub(crate) fn try_send(&self, frame: String) -> bool {
        self.frames.send(Ok(Bytes::from(frame))).is_ok()
    }

    /// Waits until the client has let go of it.
    pub(crate) async fn closed(self) {
        self.frames.closed().await;
    }

    /// Sends these bytes, which arrive together.
    pub(crate) fn send(&self, frame: String) {
        assert!(self.try_send(frame), "the stream is open");
    }
}

pub(crate) fn request_frame(event_id: &str, request: &Value) -> String {
    format!("event: tool-request\ndata: {request}\nid: {event_id}\n\n")
}

pub(crate) fn cancel_frame(event_id: &str, request_id: &str) -> String {
    let data = json!({"requestID": request_id, "reason": "changed my mind"});
    format!("event: tool-cancel\ndata: {data}\nid: {event_id}\n\n")
}

/// Answers to give instead of a success, by endpoint: a status, and who says it.
type Refusals = Arc<Mutex<HashMap<&'static str, VecDeque<(u16, Voice)>>>>;

#[derive(Clone, Copy)]
enum Voice {
    Server,
    /// Something on the way to it.
    Proxy,
}

#[derive(Clone)]
struct Shared {
    connections: UnboundedSender<Connection>,
    listeners: UnboundedSender<Connection>,
    registrations: UnboundedSender<Value>,
    unregistrations: UnboundedSender<Value>,
    goodbyes: UnboundedSender<Value>,
    results: UnboundedSender<Value>,
    refusals: Refusals,
    /// Results are answered as long as there are permits.
    gate: Arc<Semaphore>,
}

impl Shared {
    fn refusal(&self, endpoint: &str) -> Option<Response> {
        let (status, voice) = self.refusals.lock().unwrap().get_mut(endpoint)?.pop_front()?;
        let body = match voice {
            Voice::Server => json!({"error": "not now", "code": "INVALID_REQUEST"}).to_string(),
            Voice::Proxy => "<html>Welcome!</html>".to_owned(),
        };
        Some((StatusCode::from_u16(status).unwrap(), body).into_response())
    }
}

pub(crate) struct Stub {
    pub(crate) url: String,
    pub(crate) connections: UnboundedReceiver<Connection>,
    pub(crate) listeners: UnboundedReceiver<Connection>,
    pub(crate) registrations: UnboundedReceiver<Value>,
    pub(crate) unregistrations: UnboundedReceiver<Value>,
    pub(crate) goodbyes: UnboundedReceiver<Value>,
    pub(crate) results: UnboundedReceiver<Value>,
    pub(crate) gate: Arc<Semaphore>,
    refusals: Refusals,
    _server: JoinSet<io::Result<()>>,
}

impl Stub {
    pub(crate) async fn start() -> Self {
        let (connections_sender, connections) = unbounded_channel();
        let (listeners_sender, listeners) = unbounded_channel();
        let (registrations_sender, registrations) = unbounded_channel();
        let (unregistrations_sender, unregistrations) = unbounded_channel();
        let (goodbyes_sender, goodbyes) = unbounded_channel();
        let (results_sender, results) = unbounded_channel();
        let shared = Shared {
            connections: connections_sender,
            listeners: listeners_sender,
            registrations: registrations_sender,
            unregistrations: unregistrations_sender,
            goodbyes: goodbyes_sender,
            results: results_sender,
            refusals: Arc::default(),
            gate: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
        };
        let (refusals, gate) = (Arc::clone(&shared.refusals), Arc::clone(&shared.gate));
        let app = axum::Router::new()
            .route("/client-tools/register", post(register))
            .route("/client-tools/unregister", axum::routing::delete(unregister))
            .route("/client-tools/disconnect", post(disconnect))
            .route("/client-tools/result", post(result))
            .route("/client-tools/pending/{client_id}", get(pending))
            .route("/client-tools/ws/{client_id}", get(socket))
            .route("/client-tools/clients", get(clients))
            .route("/event", get(event))
            .with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await });
        Self {
            url,
            connections,
            listeners,
            registrations,
            unregistrations,
            goodbyes,
            results,
            gate,
            refusals,
            _server: server,
        }
    }

    /// Answers the next requests to `endpoint` with these statuses.
    pub(crate) fn refuse(&self, endpoint: &'static str, statuses: &[u16]) {
        self.answer_instead(endpoint, statuses, Voice::Server);
    }

    /// Has something on the way answer the next requests to `endpoint` with these statuses.
    pub(crate) fn misroute(&self, endpoint: &'static str, statuses: &[u16]) {
        self.answer_instead(endpoint, statuses, Voice::Proxy);
    }

    /// Answers as usual again.
    pub(crate) fn forgive(&self) {
        self.refusals.lock().unwrap().clear();
    }

    fn answer_instead(&self, endpoint: &'static str, statuses: &[u16], voice: Voice) {
        let mut refusals = self.refusals.lock().unwrap();
        refusals.entry(endpoint).or_default().extend(statuses.iter().map(|status| (*status, voice)));
    }

    /// Waits until a client is connected and registered.
    pub(crate) async fn connected(&mut self) -> Connection {
        let connection = next(&mut self.connections).await;
        next(&mut self.registrations).await;
        connection
    }
}

async fn register(State(shared): State<Shared>, body: String) -> Response {
    if let Some(refusal) = shared.refusal("register") {
        return refusal;
    }
    let body: Value = serde_json::from_str(&body).unwrap();
    let client_id = body["clientID"].as_str().unwrap();
    let tools = body["tools"].as_array().unwrap().iter();
    let registered: Vec<String> =
        tools.map(|tool| format!("client_{client_id}_{}", tool["id"].as_str().unwrap())).collect();
    let answer = json!({"registered": registered}).to_string();
    shared.registrations.send(body).ok();
    answer.into_response()
}

async fn unregister(State(shared): State<Shared>, body: String) -> Response {
    if let Some(refusal) = shared.refusal("unregister") {
        return refusal;
    }
    shared.unregistrations.send(serde_json::from_str(&body).unwrap()).ok();
    json!({"success": true, "unregistered": []}).to_string().into_response()
}

async fn disconnect(State(shared): State<Shared>, body: String) -> Response {
    shared.goodbyes.send(serde_json::from_str(&body).unwrap()).ok();
    json!({"success": true}).to_string().into_response()
}

async fn result(State(shared): State<Shared>, body: String) -> Response {
    shared.results.send(serde_json::from_str(&body).unwrap()).ok();
    shared.gate.acquire().await.unwrap().forget();
    shared.refusal("result").unwrap_or_else(|| json!({"success": true}).to_string().into_response())
}

async fn clients(State(shared): State<Shared>) -> Response {
    shared.refusal("clients").unwrap_or_else(|| "[]".into_response())
}

async fn pending(
    State(shared): State<Shared>,
    Path(client_id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if let Some(refusal) = shared.refusal("pending") {
        return refusal;
    }
    let (connection, response) = open(client_id, query, &headers);
    shared.connections.send(connection).ok();
    response
}

/// There is none, only what stands in its place.
async fn socket(State(shared): State<Shared>) -> Response {
    shared.refusal("ws").unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

async fn event(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    if let Some(refusal) = shared.refusal("event") {
        return refusal;
    }
    let (listener, response) = open(String::new(), HashMap::new(), &headers);
    shared.listeners.send(listener).ok();
    response
}

fn open(client_id: String, query: HashMap<String, String>, headers: &HeaderMap) -> (Connection, Response) {
    let (frames, receiver) = unbounded_channel();
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let (last_event_id, authorization) = (text("last-event-id"), text("authorization"));
    let body = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let response =
        ([(header::CONTENT_TYPE, "text/event-stream"), (header::DATE, DATE)], Body::from_stream(body)).into_response();
    (Connection { client_id, query, last_event_id, authorization, frames }, response)
}
