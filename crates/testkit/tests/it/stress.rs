//! Many clients that come and go while calls run. No call is lost, none has two ends, and nothing is left.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use futures_util::{SinkExt, StreamExt};
use handback_core::calls::Counts;
use handback_testkit::{Answer, TestServer, TestSocket, TestStream};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;

/// Clients at a time; each comes and goes many times.
const CLIENTS: usize = 40;
/// Callers at a time.
const CALLERS: usize = 24;
/// How long it goes on, at the least and at the most.
const TIME: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];
/// A run in which less happened shows little, and goes on.
const ENOUGH: [usize; 2] = [2000, 400];

/// What everybody has seen, to be compared in the end.
#[derive(Default)]
struct Ledger {
    /// How often a call's result was taken for the first time, as the client was told.
    taken: HashMap<String, usize>,
    /// How each call ended, as its caller was told: the status and the code.
    ended: HashMap<String, String>,
    /// Connections that were opened.
    connections: usize,
    /// What should not be.
    wrong: Vec<String>,
}

/// The ledger, and since when it is kept.
#[derive(Clone)]
struct Shared(Arc<Mutex<Ledger>>, Instant);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.0.lock().unwrap()
    }

    /// Whether clients and callers are to go on.
    fn goes_on(&self) -> bool {
        let [least, most] = TIME.map(|time| self.1.elapsed() < time);
        let ledger = self.lock();
        least || (most && (ledger.ended.len() < ENOUGH[0] || ledger.connections < ENOUGH[1]))
    }
}

/// What a client answers a call with, so that the caller can tell whether it is its own.
fn output(request: &str) -> String {
    format!("the output of {request}")
}

/// Takes note of what a result was answered with.
fn note_result(ledger: &Shared, request: &str, answer: &Value, status: u16) {
    let mut ledger = ledger.lock();
    let first = (answer["success"] == true || answer["accepted"] == true) && answer["ignored"] != true;
    if first {
        *ledger.taken.entry(request.to_owned()).or_default() += 1;
    }
    if ![200, 404, 409, 410].contains(&status) {
        ledger.wrong.push(format!("a result was answered {status}: {answer}"));
    }
}

/// A client that connects again and again, each time in another way, and answers what it is given.
async fn client(server: Arc<TestServer>, name: String, mut random: Rng, ledger: Shared) {
    while ledger.goes_on() {
        ledger.lock().connections += 1;
        let grace = if random.bool() { "grace=300" } else { "grace=" };
        let connection = if random.bool() { format!("connection=c{}", random.u8(0..2)) } else { String::new() };
        let path = format!("{name}?{grace}&{connection}");
        let tools: Vec<Value> = (0..random.usize(1..4)).map(|n| json!({ "id": format!("t{n}") })).collect();
        let ends = Instant::now() + Duration::from_millis(random.u64(5..400));
        if random.bool() {
            let register = server.post("/client-tools/register", json!({ "clientID": name, "tools": tools }));
            assert_eq!(register.await.status, 200);
            let request = server.request(Method::GET, &format!("/client-tools/pending/{path}"));
            read_stream(&server, TestStream::open(request).await, &mut random, &ledger, ends).await;
        } else {
            let mut socket = TestSocket::open(&server.socket_url(&path), None).await;
            socket.send(json!({ "type": "register", "tools": tools })).await;
            read_socket(socket, &mut random, &ledger, ends).await;
        }
        if random.u8(0..4) == 0 {
            tokio::time::sleep(Duration::from_millis(random.u64(0..400))).await;
        }
    }
}

/// The bodies of the results that a client sends for one call: mostly one, sometimes none, two, or two that differ.
fn results(random: &mut Rng, request: &str) -> Vec<Value> {
    let good = json!({ "status": "success", "output": output(request) });
    let bad = json!({ "status": "error", "error": output(request) });
    match random.u8(0..20) {
        0 => vec![],
        1 => vec![good.clone(), good],
        2 => vec![good, bad],
        3 => vec![bad],
        _ => vec![good],
    }
}

async fn read_stream(
    server: &Arc<TestServer>,
    mut stream: TestStream,
    random: &mut Rng,
    ledger: &Shared,
    ends: Instant,
) {
    let mut answering = JoinSet::new();
    while let Ok(Ok(frame)) = tokio::time::timeout_at(ends, stream.try_next()).await {
        if frame.event != "tool-request" {
            continue;
        }
        let request = frame.request_id().to_owned();
        for result in results(random, &request) {
            let (server, ledger, request) = (server.clone(), ledger.clone(), request.clone());
            answering.spawn(async move {
                let body = json!({ "requestID": request, "result": result });
                let answer = server.post("/client-tools/result", body).await;
                note_result(&ledger, &request, &answer.body, answer.status);
            });
        }
    }
    drop(stream);
    // What was sent is answered, even if the stream is gone.
    answering.join_all().await;
}

async fn read_socket(mut socket: TestSocket, random: &mut Rng, ledger: &Shared, ends: Instant) {
    while let Ok(Some(Ok(message))) = tokio::time::timeout_at(ends, socket.0.next()).await {
        let Message::Text(text) = message else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        match message["type"].as_str().unwrap() {
            "request" => {
                let request = message["request"]["requestID"].as_str().unwrap();
                for result in results(random, request) {
                    let result = json!({ "type": "result", "requestID": request, "result": result });
                    // A socket that was superseded takes no more.
                    _ = socket.0.send(Message::text(result.to_string())).await;
                }
            }
            "result" => note_result(ledger, message["requestID"].as_str().unwrap(), &message, 200),
            "registered" | "cancel" => {}
            _ => ledger.lock().wrong.push(format!("a socket was told {message}")),
        }
    }
}

/// A caller that makes one call after the other; some it cancels, some it abandons.
async fn caller(server: Arc<TestServer>, name: usize, mut random: Rng, ledger: Shared) {
    let mut count = 0;
    while ledger.goes_on() {
        count += 1;
        let request = format!("call-{name}-{count}");
        let tool = format!("client_client{}_t{}", random.usize(0..CLIENTS), random.u8(0..3));
        let body = json!({ "toolID": tool, "requestID": request, "timeout": random.u64(20..1500) });
        let mut call = server.execute(body);
        let patience = Duration::from_millis(random.u64(0..60));
        match random.u8(0..20) {
            0 => {
                // Answered or not, this caller goes.
                _ = timeout(patience, &mut call).await;
                call.abort();
                continue;
            }
            1 => {
                tokio::time::sleep(patience).await;
                let cancelled = server.cancel(&request, "enough").await.status;
                if ![200, 404, 410].contains(&cancelled) {
                    ledger.lock().wrong.push(format!("a cancel of {request} was answered {cancelled}"));
                }
            }
            _ => {}
        }
        let answer = timeout(Duration::from_secs(15), call).await;
        let end = match answer {
            Ok(answer) => sensible(&request, &answer.unwrap()),
            Err(_) => Err(format!("{request} was never answered")),
        };
        let mut ledger = ledger.lock();
        match end {
            Ok(end) => _ = ledger.ended.insert(request, end),
            Err(wrong) => ledger.wrong.push(wrong),
        }
    }
}

/// What a call ended as, if that makes sense.
fn sensible(request: &str, answer: &Answer) -> Result<String, String> {
    let own = output(request);
    let end = match (answer.status, answer.code()) {
        (200, _) if answer.body["status"] == "success" && answer.body["output"] == own.as_str() => "success",
        (200, _) if answer.body["status"] == "error" && answer.body["error"] == own.as_str() => "error",
        (404, "NOT_FOUND") => "unknown tool",
        (409, "CANCELLED") => "cancelled",
        (502, "CLIENT_DISCONNECTED") => "disconnected",
        (504, "TIMEOUT") => "timeout",
        _ => return Err(format!("{request} ended as {answer:?}")),
    };
    Ok(end.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_come_and_go_lose_no_call_and_leave_nothing() {
    let seed =
        std::env::var("STRESS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    println!("STRESS_SEED={seed}");
    let mut random = Rng::with_seed(seed);
    let server =
        Arc::new(TestServer::with(|config| config.limits.unconnected_tools = Duration::from_millis(500)).await);
    let ledger = Shared(Arc::default(), Instant::now());
    let mut actors = JoinSet::new();
    for n in 0..CLIENTS {
        actors.spawn(client(server.clone(), format!("client{n}"), random.fork(), ledger.clone()));
    }
    for n in 0..CALLERS {
        actors.spawn(caller(server.clone(), n, random.fork(), ledger.clone()));
    }
    actors.join_all().await;

    server.until("nothing is left", |counts| counts == Counts::default()).await;
    let ledger = ledger.lock();
    let mut ends: HashMap<&str, usize> = HashMap::new();
    for end in ledger.ended.values() {
        *ends.entry(end).or_default() += 1;
    }
    println!("{} calls by {} connections: {ends:?}", ledger.ended.len(), ledger.connections);
    assert!(ledger.wrong.is_empty(), "seed {seed}: {:#?}", ledger.wrong);
    let twice: Vec<_> = ledger.taken.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "seed {seed}: results taken more than once: {twice:?}");
    for (request, end) in &ledger.ended {
        // Whoever was told that its result was taken was told the truth.
        let taken = ledger.taken.contains_key(request);
        assert!(
            !taken || matches!(end.as_str(), "success" | "error"),
            "seed {seed}: {request} was taken, and yet {end}"
        );
    }
    for end in ["success", "error", "unknown tool", "cancelled", "disconnected", "timeout"] {
        assert!(ends.contains_key(end), "seed {seed}: no call ended as {end}: {ends:?}");
    }
}
