//! A server whose sessions do what the test says: it takes prompts as the real one does, and the test tells the events.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use handback_client::Api;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::stub::{PATIENCE, next};

/// What becomes of a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) enum Taking {
    /// It is not kept.
    Refused(u16),
    /// It is kept, and whoever sent it learns nothing of that.
    Unanswered,
    /// It is not kept: the server is restarted just then. It knows no tools any more, and these streams are cut.
    Restarted(Cut),
}

/// Which streams are cut: those of events, and those of calls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) events: bool,
    pub(super) calls: bool,
}

/// Who answers.
#[derive(Debug, Clone, Copy)]
pub(super) enum Voice {
    Server,
    /// Something on the way to it.
    Proxy,
}

/// What the server has, as requests show it.
#[derive(Default)]
pub(super) struct World {
    pub(super) is_busy: bool,
    pub(super) messages: Vec<Value>,
    pub(super) asks: Vec<Value>,
    /// Prompts that are not simply taken, in their order.
    pub(super) taking: VecDeque<Taking>,
    /// The statuses with which a proxy answers who asks whether the session is busy.
    pub(super) away: VecDeque<u16>,
    /// The statuses with which answers to asks are answered, before those that succeed, and who says it.
    pub(super) answering: VecDeque<(u16, Voice)>,
    /// So many registrations fail.
    pub(super) unregistered: u32,
    tools: usize,
    /// Of each prompt that was taken: its connection, and how many tools there were.
    pub(super) taken: Vec<(Option<String>, usize)>,
    event_streams: Vec<UnboundedSender<io::Result<Bytes>>>,
    call_streams: Vec<UnboundedSender<io::Result<Bytes>>>,
}

impl World {
    fn restart(&mut self, cut: Cut) {
        self.tools = 0;
        let events = if cut.events { std::mem::take(&mut self.event_streams) } else { Vec::new() };
        let calls = if cut.calls { std::mem::take(&mut self.call_streams) } else { Vec::new() };
        for stream in events.into_iter().chain(calls) {
            stream.send(Err(io::Error::other("cut"))).ok();
        }
    }
}

#[derive(Clone)]
struct Shared {
    world: Arc<Mutex<World>>,
    listeners: UnboundedSender<Listener>,
    requests: UnboundedSender<String>,
    looks: UnboundedSender<()>,
    connections: UnboundedSender<String>,
}

/// A listener to all events.
pub(super) struct Listener(UnboundedSender<io::Result<Bytes>>);

impl Listener {
    pub(super) fn tell(&self, kind: &str, properties: &Value) {
        let data = json!({"type": kind, "properties": properties});
        self.0.send(Ok(Bytes::from(format!("data: {data}\n\n")))).expect("the stream is open");
    }

    pub(super) fn cut(self) {
        self.0.send(Err(io::Error::other("cut"))).expect("the stream is open");
    }

    /// Waits until nobody listens any more.
    pub(super) async fn left(self) {
        tokio::time::timeout(PATIENCE, self.0.closed()).await.expect("the listener leaves in time");
    }
}

pub(super) struct Server {
    pub(super) api: Api,
    world: Arc<Mutex<World>>,
    listeners: UnboundedReceiver<Listener>,
    /// All that is asked to be done: prompts with their ids, answers to asks, aborts.
    requests: UnboundedReceiver<String>,
    /// Each time that the messages are read.
    pub(super) looks: UnboundedReceiver<()>,
    /// The names of the connections that clients open for their tools.
    pub(super) connections: UnboundedReceiver<String>,
    _server: JoinSet<io::Result<()>>,
}

impl Server {
    pub(super) async fn start() -> Self {
        let (listeners_sender, listeners) = unbounded_channel();
        let (requests_sender, requests) = unbounded_channel();
        let (looks_sender, looks) = unbounded_channel();
        let (connections_sender, connections) = unbounded_channel();
        let world: Arc<Mutex<World>> = Arc::default();
        let shared = Shared {
            world: Arc::clone(&world),
            listeners: listeners_sender,
            requests: requests_sender,
            looks: looks_sender,
            connections: connections_sender,
        };
        let app = axum::Router::new()
            .route("/event", get(event))
            .route("/client-tools/pending/{client}", get(pending))
            .route("/client-tools/register", post(register))
            .route("/client-tools/disconnect", post(async || r#"{"success":true}"#))
            .route("/session/{id}/prompt_async", post(prompt))
            .route("/session/status", get(status))
            .route("/session/{id}/message", get(messages))
            .route("/session/{id}/abort", post(abort))
            .route("/permission", get(asks))
            .route("/session/{id}/permissions/{ask}", post(answer))
            .with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await });
        Self { api, world, listeners, requests, looks, connections, _server: server }
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// The next that listens, once it has been told that it does.
    pub(super) async fn listener(&mut self) -> Listener {
        let listener = next(&mut self.listeners).await;
        listener.tell("server.connected", &json!({}));
        listener
    }

    pub(super) async fn request(&mut self) -> String {
        next(&mut self.requests).await
    }

    /// The next request, while whoever listens meanwhile is told that it does.
    pub(super) async fn request_of(&mut self, listeners: &mut Vec<Listener>) -> String {
        loop {
            tokio::select! {
                request = next(&mut self.requests) => return request,
                listener = next(&mut self.listeners) => {
                    listener.tell("server.connected", &json!({}));
                    listeners.push(listener);
                }
            }
        }
    }

    /// What was asked for and not seen by the test yet.
    pub(super) fn unseen_requests(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).collect()
    }
}

async fn event(State(shared): State<Shared>) -> Response {
    let (sender, receiver) = unbounded_channel();
    shared.world.lock().unwrap().event_streams.push(sender.clone());
    shared.listeners.send(Listener(sender)).ok();
    events(receiver)
}

async fn pending(State(shared): State<Shared>, Query(query): Query<HashMap<String, String>>) -> Response {
    let (sender, receiver) = unbounded_channel();
    shared.world.lock().unwrap().call_streams.push(sender);
    shared.connections.send(query["connection"].clone()).ok();
    events(receiver)
}

async fn register(State(shared): State<Shared>, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let mut world = shared.world.lock().unwrap();
    if world.unregistered > 0 {
        world.unregistered -= 1;
        return refusal(503, "not now");
    }
    world.tools = body["tools"].as_array().unwrap().len();
    json!({"registered": []}).to_string().into_response()
}

fn events(receiver: UnboundedReceiver<io::Result<Bytes>>) -> Response {
    let body = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

fn refusal(status: u16, message: &str) -> Response {
    let body = json!({"name": "ConflictError", "data": {"message": message}}).to_string();
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

/// The answer of something on the way.
fn page(status: u16) -> Response {
    (StatusCode::from_u16(status).unwrap(), "<html>Welcome!</html>").into_response()
}

async fn prompt(State(shared): State<Shared>, Path(session): Path<String>, body: String) -> Response {
    let body: Value = serde_json::from_str(&body).unwrap();
    let (id, text) = (body["messageID"].as_str().unwrap().to_owned(), &body["parts"][0]["text"]);
    let mut world = shared.world.lock().unwrap();
    // Whoever hears of it sees the world after it.
    shared.requests.send(format!("{session} prompt {id} {text}")).ok();
    let taking = world.taking.pop_front();
    match taking {
        Some(Taking::Refused(status)) => return refusal(status, "not now"),
        Some(Taking::Restarted(cut)) => {
            world.restart(cut);
            return refusal(503, "not now");
        }
        Some(Taking::Unanswered) | None => {}
    }
    if world.messages.iter().any(|message| message["info"]["id"] == *id) {
        return refusal(409, "there is such a message");
    }
    let info = json!({"id": id, "sessionID": session, "role": "user", "time": {"created": 1}, "agent": "default"});
    world.messages.push(json!({"info": info, "parts": []}));
    let said = (body["connection"].as_str().map(str::to_owned), world.tools);
    world.taken.push(said);
    world.is_busy = true;
    match taking {
        Some(_) => refusal(503, "not now"),
        None => StatusCode::NO_CONTENT.into_response(),
    }
}

async fn status(State(shared): State<Shared>) -> Response {
    let mut world = shared.world.lock().unwrap();
    if let Some(status) = world.away.pop_front() {
        return page(status);
    }
    let kind = if world.is_busy { "busy" } else { "idle" };
    json!({"ses_1": {"type": kind}}).to_string().into_response()
}

async fn messages(State(shared): State<Shared>) -> String {
    shared.looks.send(()).ok();
    json!(shared.world.lock().unwrap().messages).to_string()
}

async fn asks(State(shared): State<Shared>) -> String {
    json!(shared.world.lock().unwrap().asks).to_string()
}

async fn abort(State(shared): State<Shared>, Path(session): Path<String>) -> &'static str {
    shared.requests.send(format!("{session} abort")).ok();
    "true"
}

async fn answer(State(shared): State<Shared>, Path((session, ask)): Path<(String, String)>, body: String) -> Response {
    shared.requests.send(format!("{session} answer {ask} {body}")).ok();
    match shared.world.lock().unwrap().answering.pop_front() {
        Some((status, Voice::Server)) => refusal(status, "not now"),
        Some((status, Voice::Proxy)) => page(status),
        None => "true".into_response(),
    }
}
