//! Requests, with everything behind them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use handback_core::tools::Permission;
use handback_server::App;
use handback_server::config::{Agent, AgentPermission, Config};
use handback_server::fuzzing::answer;
use http_body_util::BodyExt;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{app, first_line, in_time, routes, sections};

/// How many requests of a script are sent.
const MOST: usize = 12;
/// The next request is sent after this time, if the one before it is not answered.
const BETWEEN: Duration = Duration::from_secs(1);
/// How long a request may wait for its answer, and how long the answer is read.
const PATIENCE: Duration = Duration::from_secs(100);
/// How many pieces of an answer are read.
const MOST_PIECES: usize = 1_000;
/// The kinds of ids that the server makes, and how long they are.
const KINDS: [&str; 6] = ["cal_", "msg_", "per_", "prt_", "run_", "ses_"];
const ID_BYTES: usize = 23;

/// Requests to one server: a line with method and path, lines with headers, an empty line and the body. None is answered
/// with 500, and errors have the shape that their paths promise. `$ses` is the last id `ses_…` of an earlier answer, and
/// so are the other kinds of ids.
pub fn requests(bytes: &[u8]) {
    in_time(async {
        let page = Page::new(app(config()).await.unwrap(), PATIENCE);
        let mut sent = JoinSet::new();
        for request in sections(bytes).into_iter().take(MOST) {
            let (page, request) = (page.clone(), request.to_vec());
            sent.spawn(async move { assert_ne!(page.ask(&request).await, Some(StatusCode::INTERNAL_SERVER_ERROR)) });
            let all = async {
                while let Some(ended) = sent.join_next().await {
                    ended.unwrap()
                }
            };
            _ = timeout(BETWEEN, all).await;
        }
        sent.join_all().await;
    });
}

/// The default settings, and an agent whose calls have to be allowed.
fn config() -> Config {
    let permission = AgentPermission { client_tools: Permission::Ask, ..AgentPermission::default() };
    let asking = Agent { permission, ..Agent::default() };
    Config { agents: [("asking".to_owned(), asking)].into(), ..Config::default() }
}

/// Whoever sends requests to a server. Clones share what they know.
#[derive(Clone)]
pub(super) struct Page {
    pub(super) app: App,
    /// How long an answer may take, and how long its body is read.
    patience: Duration,
    /// The last id of each kind in the answers so far.
    ids: Arc<Mutex<BTreeMap<&'static str, String>>>,
}

impl Page {
    pub(super) fn new(app: App, patience: Duration) -> Self {
        Self { app, patience, ids: Arc::default() }
    }

    /// Sends a request and checks the answer. `None` if it is no request that a connection would pass on, or is not
    /// answered in time.
    pub(super) async fn ask(&self, request: &[u8]) -> Option<StatusCode> {
        let request = read(&self.filled_in(request))?;
        let what = format!("{} {}", request.method(), request.uri());
        let response = timeout(self.patience, answer(&self.app, routes(), request)).await.ok()?;
        let (head, mut body) = response.into_parts();
        let mut bytes = Vec::new();
        let read = async {
            for _ in 0..MOST_PIECES {
                let Some(frame) = body.frame().await else { break };
                bytes.extend_from_slice(frame.unwrap().data_ref().map_or(&[], |data| data));
                self.note(&bytes);
            }
        };
        _ = timeout(self.patience, read).await;
        if head.status.as_u16() >= 400 {
            check_error(&what, &bytes);
        }
        Some(head.status)
    }

    /// Remembers the ids in an answer.
    fn note(&self, bytes: &[u8]) {
        for kind in KINDS {
            let mut places = bytes.windows(4).enumerate().rev().filter(|(_, window)| *window == kind.as_bytes());
            let id = places.next().and_then(|(place, _)| bytes.get(place..place + ID_BYTES));
            if let Some(id) = id.and_then(|id| std::str::from_utf8(id).ok()) {
                self.ids.lock().unwrap().insert(kind, id.to_owned());
            }
        }
    }

    fn filled_in(&self, request: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(request) else { return request.to_vec() };
        let ids = self.ids.lock().unwrap();
        let fill = |text: String, (kind, id): (&&str, &String)| text.replace(&format!("${}", &kind[..3]), id);
        ids.iter().fold(text.to_owned(), fill).into_bytes()
    }
}

/// Checks the body of an error: it has the shape of one of the protocols.
fn check_error(what: &str, bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let error: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{what}: {error}: {text}"));
    let is_text = |pointer: &str| error.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    let is_good = match () {
        () if is_text("/name") => is_text("/data/message"),
        () if error["ok"] == false => is_text("/reason"),
        () => is_text("/detail") || (is_text("/error") && is_text("/code")),
    };
    assert!(is_good, "{what}: {text}");
}

fn read(request: &[u8]) -> Option<Request<Bytes>> {
    let (line, mut rest) = first_line(request);
    let (method, target) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let mut built = Request::builder().method(method).uri(target);
    loop {
        let (line, after) = first_line(rest);
        rest = after;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_at(line.iter().position(|byte| *byte == b':')?);
        built = built.header(name, value[1..].trim_ascii());
    }
    if !built.headers_ref()?.contains_key(HOST) {
        built = built.header(HOST, "127.0.0.1:4096");
    }
    built.body(Bytes::copy_from_slice(rest)).ok()
}
