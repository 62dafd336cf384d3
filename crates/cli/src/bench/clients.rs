//! The clients: each registers one tool, stays connected and answers its calls.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::events::EventStream;
use super::http::{Connection, Failure, Target, within};
use super::socket::Socket;
use super::{Errors, PATIENCE};

/// How many clients connect at the same time.
const CONNECTING: u32 = 64;

/// How long connecting may take; the clients that are left by then are counted as errors.
const CONNECTING_LIMIT: Duration = Duration::from_secs(120);

/// The name of every client's tool.
pub(super) const TOOL: &str = "read_file";

/// What it gives, whatever it is asked; a text that nothing else in an answer has.
pub(super) const OUTPUT: &str = "fn main() {}";

/// How long a call may take that is not answered, in milliseconds: longer than anything takes to measure.
const HELD_FOR: u32 = 600_000;

/// How the clients are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Sse,
    WebSocket,
}

/// What the clients do with their calls.
#[derive(Debug, Clone)]
pub(super) enum Manner {
    /// Answer each.
    Answer,
    /// Answer none, and count them.
    Hold(Arc<AtomicUsize>),
}

/// The connected clients. They are disconnected when this is dropped.
pub(super) struct Crowd {
    /// Their ids.
    pub(super) clients: Vec<String>,
    _serving: JoinSet<()>,
}

/// The full id of a client's tool.
pub(super) fn tool_id(client_id: &str) -> String {
    format!("client_{client_id}_{TOOL}")
}

/// The tool, as it is registered.
pub(super) fn tool(manner: &Manner) -> String {
    let timeout = match manner {
        Manner::Answer => String::new(),
        Manner::Hold(_) => format!(r#""timeout":{HELD_FOR},"#),
    };
    format!(
        r#"{{"id":"{TOOL}","description":"Reads a file.",{timeout}"parameters":{{"type":"object","properties":{{"path":{{"type":"string"}}}},"required":["path"]}}}}"#
    )
}

/// The members of an answer to a call, whose id is given as it stood in the JSON.
pub(super) fn answer_fields(request_id: &str) -> String {
    format!(r#""requestID":{request_id},"result":{{"status":"success","title":"","output":"{OUTPUT}"}}"#)
}

/// Connects the clients, [`CONNECTING`] at a time. One that cannot connect is counted as an error and left out.
pub(super) async fn connect(
    target: &Arc<Target>,
    transport: Transport,
    manner: &Manner,
    count: u32,
    errors: &Arc<Errors>,
    bar: &ProgressBar,
) -> Crowd {
    // Another run against the same server must not have the same clients.
    let prefix: Arc<str> = format!("bench-{:x}", RandomState::new().build_hasher().finish()).into();
    let next = Arc::new(AtomicU32::new(0));
    let mut connecting = JoinSet::new();
    for _ in 0..CONNECTING.min(count) {
        let connector = Connector {
            target: target.clone(),
            prefix: prefix.clone(),
            tool: tool(manner).into(),
            connection: Connection::default(),
            errors: errors.clone(),
            deadline: Instant::now() + CONNECTING_LIMIT,
        };
        connecting.spawn(connector.run(transport, next.clone(), count, bar.clone()));
    }
    let mut crowd = Crowd { clients: Vec::with_capacity(count as usize), _serving: JoinSet::new() };
    while let Some(done) = connecting.join_next().await {
        match done {
            Ok(clients) => {
                for (client_id, link) in clients {
                    crowd.clients.push(client_id);
                    let (target, manner, errors) = (target.clone(), manner.clone(), errors.clone());
                    match link {
                        Link::Events(stream) => crowd._serving.spawn(stream.serve(target, manner, errors)),
                        Link::Socket(socket) => crowd._serving.spawn(socket.serve(manner, errors)),
                    };
                }
            }
            Err(_) => errors.count("connect", &Failure::Refused("a task of the bench died".to_owned())),
        }
    }
    crowd
}

/// A connected client.
enum Link {
    Events(Box<EventStream>),
    Socket(Box<Socket>),
}

/// Connects one client after the other, registering over one connection.
struct Connector {
    target: Arc<Target>,
    prefix: Arc<str>,
    /// What each registers.
    tool: Box<str>,
    connection: Connection,
    errors: Arc<Errors>,
    deadline: Instant,
}

impl Connector {
    async fn run(
        mut self,
        transport: Transport,
        next: Arc<AtomicU32>,
        count: u32,
        bar: ProgressBar,
    ) -> Vec<(String, Link)> {
        let mut clients = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return clients;
            }
            if Instant::now() > self.deadline {
                self.errors.count("connect", &Failure::GivenUp(CONNECTING_LIMIT));
                continue;
            }
            let client_id = format!("{}-{index}", self.prefix);
            let link = match transport {
                Transport::Sse => within(PATIENCE, self.open_events(&client_id)).await,
                Transport::WebSocket => within(PATIENCE, Socket::open(&self.target, &client_id, &self.tool))
                    .await
                    .map(|socket| Link::Socket(Box::new(socket))),
            };
            match link {
                Ok(link) => clients.push((client_id, link)),
                Err(failure) => self.errors.count("connect", &failure),
            }
            bar.inc(1);
        }
    }

    async fn open_events(&mut self, client_id: &str) -> Result<Link, Failure> {
        let stream = EventStream::open(&self.target, client_id).await?;
        let body = format!(r#"{{"clientID":"{client_id}","tools":[{}]}}"#, self.tool);
        let request = self.target.post("/client-tools/register", &body);
        match self.connection.exchange(&self.target, &request).await? {
            (200, _) => Ok(Link::Events(Box::new(stream))),
            (status, body) => Err(Failure::status(status, body)),
        }
    }
}
