//! The proxy that the storms are made with: it changes nothing when it is calm, and does what it says when it is not.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use handback_testkit::faults::{Fault, Plan, Range};
use handback_testkit::server::until;
use handback_testkit::stream::End;
use handback_testkit::{Answer, Faults, RawSocket, TestServer, TestSocket, TestStream};
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// A server and a proxy in front of it.
struct World {
    server: TestServer,
    faults: Faults,
}

impl World {
    async fn with(plan: Plan) -> Self {
        let server = TestServer::with(|config| config.limits.drain_timeout = Duration::ZERO).await;
        let faults = Faults::with(server.address, plan).await.unwrap();
        Self { server, faults }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> reqwest::Result<Response> {
        self.server.http.request(method, format!("{}{path}", self.faults.url)).json(body).send().await
    }

    async fn stream(&self, client: &str) -> TestStream {
        TestStream::open(self.server.http.get(format!("{}/client-tools/pending/{client}", self.faults.url))).await
    }

    async fn socket(&self, client: &str) -> TestSocket {
        TestSocket::open(&format!("ws://{}/client-tools/ws/{client}", self.faults.address), None).await
    }

    fn count(&self, fault: Fault) -> u64 {
        self.faults.report()[fault.name()]
    }

    async fn calls(&self) -> usize {
        self.server.get("/client-tools/calls").await.body.as_array().unwrap().len()
    }
}

/// The headers that do not change from one second to the next, or from one connection to the next.
fn lasting(mut headers: HeaderMap) -> HeaderMap {
    assert!(headers.remove("date").is_some());
    headers
}

#[tokio::test]
async fn a_calm_proxy_changes_no_answer() {
    let world = World::with(Plan::seeded(1)).await;
    world.faults.calm();
    let register = json!({ "clientID": "desk", "tools": [{ "id": "a" }] });
    let large = json!({ "clientID": "desk", "tools": [{ "id": "b", "description": "x".repeat(3_000_000) }] });
    let nothing = json!(null);
    for (method, path, body) in [
        (Method::POST, "/client-tools/register", &register),
        (Method::POST, "/client-tools/register", &large),
        (Method::POST, "/client-tools/register", &nothing),
        (Method::DELETE, "/client-tools/unregister", &json!({ "clientID": "nobody" })),
        (Method::GET, "/client-tools/tools", &nothing),
        (Method::GET, "/client-tools/ws/desk", &nothing),
        (Method::GET, "/nowhere", &nothing),
        (Method::PUT, "/client-tools/tools", &nothing),
        (Method::HEAD, "/client-tools/tools", &nothing),
    ] {
        let mut seen = Vec::new();
        for url in [&world.server.url, &world.faults.url] {
            let request = world.server.http.request(method.clone(), format!("{url}{path}")).json(body);
            let answer =
                request.header("origin", "http://localhost:1234").header("x-request-id", "one").send().await.unwrap();
            let (status, headers) = (answer.status(), lasting(answer.headers().clone()));
            seen.push((status, headers, answer.text().await.unwrap()));
        }
        assert_eq!(seen[0], seen[1], "{method} {path}");
    }
    let foreign = world.server.http.get(format!("{}/client-tools/tools", world.faults.url));
    assert_eq!(Answer::to(foreign.header("host", "example.com")).await.status, 403);
    assert!(world.faults.report().values().all(|count| *count == 0), "{:?}", world.faults.report());
}

#[tokio::test]
async fn a_calm_proxy_passes_streams_on_as_they_come() {
    let world = World::with(Plan::seeded(1)).await;
    world.faults.calm();
    world.server.register("desk", &["a"]).await;
    let mut stream = world.stream("desk?connection=c&grace=20000").await;
    assert_eq!(stream.headers["content-type"], "text/event-stream");
    assert!(stream.headers.contains_key("date"));
    let first = world.server.begin_call(json!({ "toolID": "client_desk_a" })).await;
    let frame = stream.expect_call(&first).await;
    drop(stream);
    world.server.until("the connection is closed", |counts| counts.connections == 0).await;
    let second = world.server.begin_call(json!({ "toolID": "client_desk_a" })).await;
    let url = format!("{}/client-tools/pending/desk?connection=c", world.faults.url);
    let mut resumed = TestStream::open(world.server.http.get(&url).header("last-event-id", frame.id)).await;
    resumed.expect_call(&second).await;
    let mut newer = TestStream::open(world.server.http.get(&url)).await;
    assert_eq!(resumed.end().await, (vec![], End::Clean));
    world.server.begin_stop();
    let (frames, end) = newer.end().await;
    assert_eq!((frames.len(), end), (4, End::Cut));
}

#[tokio::test]
async fn a_calm_proxy_passes_sockets_on_with_their_close_codes() {
    let world = World::with(Plan::seeded(1)).await;
    world.faults.calm();
    let mut socket = world.socket("desk?connection=c").await;
    let registered = socket.ask(json!({ "type": "register", "tools": [{ "id": "a" }], "ref": 7 })).await;
    assert_eq!(registered, json!({ "type": "registered", "toolIDs": ["client_desk_a"], "ref": 7 }));
    let mut newer = world.socket("desk?connection=c").await;
    assert_eq!(socket.next().await, 4009);
    let call = world.server.begin_call(json!({ "toolID": "client_desk_a" })).await;
    assert_eq!(newer.request().await["requestID"], call);
    newer.0.send(Message::Close(Some(CloseFrame { code: 1000.into(), reason: "".into() }))).await.unwrap();
    assert_eq!(newer.next().await, 1000);
    world.server.until("the client is gone", |counts| counts.clients == 0).await;
    let refused = TestSocket::try_open(&format!("ws://{}/client-tools/ws/d%20d", world.faults.address), None).await;
    assert_eq!(refused.err().unwrap().0, 400);
}

#[tokio::test]
async fn connections_are_cut_and_stalled_at_the_byte() {
    let plan = Plan { soon: Range(40, 40), soon_chance: 1.0, ..Plan::none() };
    let world = World::with(plan.clone()).await;
    let mut raw = RawSocket::open(world.faults.address).await;
    raw.send(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    assert!(raw.drain().await <= 40);
    assert_eq!(world.count(Fault::ResetDown) + world.count(Fault::CloseDown), 1);
    let mut raw = RawSocket::open(world.faults.address).await;
    raw.send(format!("GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: {}", "x".repeat(100))).await.unwrap();
    assert_eq!(raw.drain().await, 0);
    assert_eq!(world.count(Fault::ResetUp) + world.count(Fault::CloseUp), 1);

    let stalled = World::with(Plan { stall_chance: 1.0, stall: Range(60_000, 60_000), ..plan }).await;
    let mut raw = RawSocket::open(stalled.faults.address).await;
    raw.send(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    until("it is stalled", async || stalled.count(Fault::StallUp) == 1).await;
    stalled.faults.calm();
    assert_eq!(raw.head().await.status, 200);
}

#[tokio::test]
async fn requests_come_twice_late_or_without_an_answer() {
    let call = json!({ "toolID": "client_desk_a", "wait": false });
    let world = World::with(Plan { request_repeat: 1.0, ..Plan::none() }).await;
    world.server.register("desk", &["a"]).await;
    assert_eq!(world.send(Method::POST, "/client-tools/execute", &call).await.unwrap().status(), 202);
    world.server.until("it came twice", |counts| counts.calls == 2).await;
    assert_eq!(world.count(Fault::RequestRepeated), 1);
    // One of the two takes over from the other.
    let mut socket = world.socket("desk?connection=c").await;
    let said = socket.next().await;
    assert!(said == 4009 || said["type"] == "request", "{said}");
    assert_eq!(world.count(Fault::RequestRepeated), 2);

    let world = World::with(Plan { answer_loss: 1.0, ..Plan::none() }).await;
    world.server.register("desk", &["a"]).await;
    assert!(world.send(Method::POST, "/client-tools/execute", &call).await.is_err());
    world.server.until("it came all the same", |counts| counts.calls == 1).await;
    assert_eq!(world.count(Fault::AnswerLost), 1);

    let world = World::with(Plan { request_delay: 1.0, delay: Range(60_000, 60_000), ..Plan::none() }).await;
    world.server.register("desk", &["a"]).await;
    let sent = world.send(Method::POST, "/client-tools/execute", &call);
    assert!(timeout(Duration::from_millis(100), sent).await.is_err());
    assert_eq!((world.count(Fault::RequestDelayed), world.calls().await), (1, 0));
    world.faults.calm();
    world.server.until("it came although its sender is gone", |counts| counts.calls == 1).await;
}

#[tokio::test]
async fn frames_and_messages_come_twice_and_late_in_their_order() {
    let plan = Plan { message_repeat: 1.0, message_delay: 1.0, delay: Range(50, 50), ..Plan::none() };
    let world = World::with(plan).await;
    world.server.register("desk", &["a"]).await;
    let mut stream = world.stream("desk").await;
    let began = Instant::now();
    let first = world.server.begin_call(json!({ "toolID": "client_desk_a" })).await;
    let second = world.server.begin_call(json!({ "toolID": "client_desk_a" })).await;
    for request in [&first, &first, &second, &second] {
        stream.expect_call(request).await;
    }
    assert!(began.elapsed() >= Duration::from_millis(100));
    assert_eq!((world.count(Fault::FrameRepeated), world.count(Fault::FrameDelayed)), (2, 2));

    let mut socket = world.socket("tab").await;
    for (name, began) in [("a", Instant::now()), ("b", Instant::now())] {
        socket.send(json!({ "type": "register", "tools": [{ "id": name }] })).await;
        // Twice up, and each answer twice down.
        for _ in 0..4 {
            let registered = json!({ "type": "registered", "toolIDs": [format!("client_tab_{name}")] });
            assert_eq!(socket.next().await, registered);
        }
        assert!(began.elapsed() >= Duration::from_millis(100));
    }
    let faults =
        [Fault::MessageRepeatedUp, Fault::MessageDelayedUp, Fault::MessageRepeatedDown, Fault::MessageDelayedDown];
    assert_eq!(faults.map(|fault| world.count(fault)), [2, 2, 4, 4]);
}

#[tokio::test]
async fn nothing_runs_on_when_it_is_dropped() {
    let world = World::with(Plan { stall: Range(60_000, 60_000), stall_chance: 1.0, ..Plan::seeded(1) }).await;
    world.faults.calm();
    let mut stream = world.stream("desk").await;
    let mut socket = world.socket("tab").await;
    world.faults.storm();
    // One request after the other, until one is stalled.
    let asking = async {
        loop {
            _ = world.send(Method::GET, "/client-tools/tools", &json!({})).await;
        }
    };
    tokio::select! {
        () = asking => {}
        () = until("one is stalled", async || world.count(Fault::StallUp) + world.count(Fault::StallDown) > 0) => {}
    }
    let tasks = world.faults.tasks();
    assert!(!tasks.is_empty());
    drop(world.faults);
    tasks.close();
    timeout(Duration::from_secs(5), tasks.wait()).await.unwrap();
    assert!(stream.try_next().await.is_err());
    assert!(!matches!(socket.0.next().await, Some(Ok(_))));
}
