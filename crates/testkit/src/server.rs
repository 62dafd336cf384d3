//! A real server on a free port, and requests to it.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use handback_core::calls::Counts;
use handback_server::app::Extensions;
use handback_server::config::Config;
use handback_server::{App, Server};
use reqwest::{Client, Method, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::keys;
use crate::socket::TestSocket;
use crate::stream::TestStream;

/// How long a condition may take to become true; a test that needs longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// How long a server that stops waits for calls under way: tests that leave some open need not.
const DRAIN: Duration = Duration::from_secs(1);
/// How long a reader may take nothing. A test that is slow because the machine is has readers that are slow on purpose.
const STALL: Duration = Duration::from_secs(600);

/// An address for a server that will be had again there. It is none of those that connections to others are made from:
/// one of them could have it just when the server wants it back.
pub fn lasting_address() -> SocketAddr {
    loop {
        let address = SocketAddr::from(([127, 0, 0, 1], fastrand::u16(20_000..30_000)));
        if std::net::TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// What a request was answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, if it is JSON; otherwise its text.
    pub body: Value,
}

impl Answer {
    /// Sends a request and reads all of the answer.
    pub async fn to(request: RequestBuilder) -> Self {
        Self::read(request.send().await.expect("the server answers")).await
    }

    /// Reads all of a response.
    pub async fn read(response: Response) -> Self {
        let (status, id) = (response.status().as_u16(), response.headers().get("x-request-id").cloned());
        let text = response.text().await.expect("the answer is complete");
        Self::of(status, id.as_ref().map(|id| id.to_str().expect("ASCII")), text)
    }

    /// The answer with this status, `x-request-id` and body. An error has the id in its body, and it is taken out there.
    #[track_caller]
    pub(crate) fn of(status: u16, id: Option<&str>, text: String) -> Self {
        let mut body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        // What is no request is refused by the HTTP library, without a body. The refusals of acks have no more keys than
        // their protocol says.
        let is_refused_ack = body["ok"] == false && body.get("error").is_none();
        if status >= 400 && body != "" && !is_refused_ack {
            let place = if body["data"].is_object() { &mut body["data"] } else { &mut body };
            let told = place.as_object_mut().and_then(|place| place.remove("request"));
            assert!(id.is_some() && told.as_ref().and_then(Value::as_str) == id, "{id:?} is not in {status} {body}");
        }
        Self { status, body }
    }

    /// The code of an error, or "".
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// The message of an error, or "".
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }

    /// Checks that it is this, to the last key.
    #[track_caller]
    pub fn must_be(&self, status: u16, body: &Value) {
        assert_eq!((self.status, &self.body), (status, body));
    }

    /// Checks that it is an error of the client-tools API with nothing but what such an error has; gives its message.
    #[track_caller]
    pub fn must_fail(&self, status: u16, code: &str) -> &str {
        assert_eq!((self.status, self.code()), (status, code), "{self:?}");
        let keys = self.body.as_object().expect("an error is an object").keys();
        assert!(keys.into_iter().all(|key| matches!(key.as_str(), "error" | "code" | "details")), "{self:?}");
        assert!(!self.error().is_empty(), "{self:?}");
        self.error()
    }
}

/// What requests are sent with. It closes idle connections before the server does: a request that is sent at that moment is lost.
pub(crate) fn http_client() -> Client {
    let tls = handback_tls::client_config().expect("certificates of this machine");
    let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().pool_idle_timeout(Duration::from_secs(5));
    client.build().expect("an HTTP client")
}

/// A running server.
pub struct TestServer {
    /// Where it is.
    pub url: String,
    /// Where it is, as an address.
    pub address: SocketAddr,
    /// Its inside.
    pub app: App,
    /// What requests are sent with.
    pub http: Client,
    key: Option<&'static str>,
    stop: CancellationToken,
    running: Option<JoinHandle<()>>,
}

impl TestServer {
    /// A server with default settings.
    pub async fn start() -> Self {
        Self::with(|_| {}).await
    }

    /// A server with some settings changed.
    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        Self::with_extensions(change, Extensions::default()).await
    }

    /// A server with some settings changed, and with what an embedding program would add. If there are keys, requests
    /// carry the application key unless the test says otherwise.
    pub async fn with_extensions(change: impl FnOnce(&mut Config), extensions: Extensions) -> Self {
        let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
        config.limits.drain_timeout = DRAIN;
        (config.limits.stall_timeout, config.limits.user_timeout) = (STALL, STALL);
        change(&mut config);
        let key = (!config.auth.keys.is_empty()).then_some(keys::APPLICATION_KEY);
        let server = Server::bind_with(config, extensions).await.expect("the server starts");
        let address = server.local_addr();
        let app = server.app().clone();
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test's own task; it is awaited in `stop`")]
        let running = Some(tokio::spawn(server.run(stop.clone().cancelled_owned())));
        let http = http_client();
        Self { url: format!("http://{address}"), address, app, http, key, stop, running }
    }

    /// A server on a thread of its own, so that one that hangs fails a test instead of hanging it.
    pub async fn apart() -> Self {
        let (started, server) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.expect("a runtime").block_on(async {
                _ = started.send(Self::start().await);
                // Its thread lives as long as the process.
                std::future::pending::<()>().await;
            });
        });
        server.await.expect("the server starts")
    }

    /// A server that asks for keys and takes tokens; requests carry the application key unless the test says otherwise.
    pub async fn protected(change: impl FnOnce(&mut Config)) -> Self {
        Self::with(|config| {
            keys::protect(config);
            change(config);
        })
        .await
    }

    /// Tells the server to stop, without waiting.
    pub fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Stops the server and waits until it has.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            let ended = tokio::time::timeout(PATIENCE, running).await.expect("the server stops in time");
            ended.expect("the server ends without a panic");
        }
    }

    /// A request to be completed by the test.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.request_without_key(method, path);
        match self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    /// A request that shows nothing.
    pub fn request_without_key(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Answer {
        Answer::to(self.request(Method::GET, path)).await
    }

    /// `POST` with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        Answer::to(self.request(Method::POST, path).json(&body)).await
    }

    /// `DELETE` with a JSON body.
    pub async fn delete(&self, path: &str, body: Value) -> Answer {
        Answer::to(self.request(Method::DELETE, path).json(&body)).await
    }

    /// Registers tools that take any object; gives their full ids.
    pub async fn register(&self, client: &str, tools: &[&str]) -> Vec<String> {
        let tools: Vec<Value> = tools.iter().map(|id| json!({ "id": id })).collect();
        let answer = self.post("/client-tools/register", json!({ "clientID": client, "tools": tools })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_value(answer.body["registered"].clone()).unwrap()
    }

    /// Calls a tool in the background. Aborting the task takes the caller away.
    pub fn execute(&self, body: Value) -> JoinHandle<Answer> {
        let request = self.request(Method::POST, "/client-tools/execute").json(&body);
        #[expect(clippy::disallowed_methods, reason = "the test's own task; the test awaits it")]
        tokio::spawn(Answer::to(request))
    }

    /// Makes a call that nobody waits for; gives its id.
    pub async fn begin_call(&self, mut body: Value) -> String {
        body["wait"] = false.into();
        let answer = self.post("/client-tools/execute", body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.body["requestID"].as_str().unwrap().to_owned()
    }

    /// Answers a call with an output.
    pub async fn answer(&self, request: &str, output: &str) -> Answer {
        let result = json!({ "status": "success", "output": output });
        self.post("/client-tools/result", json!({ "requestID": request, "result": result })).await
    }

    /// Cancels a call.
    pub async fn cancel(&self, request: &str, reason: &str) -> Answer {
        self.post("/client-tools/cancel", json!({ "requestID": request, "reason": reason })).await
    }

    /// A call as it stands.
    pub async fn call(&self, request: &str) -> Value {
        let answer = self.get(&format!("/client-tools/calls/{request}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// How a call ended, once it has.
    pub async fn outcome(&self, request: &str) -> Value {
        let answer = self.get(&format!("/client-tools/calls/{request}?wait=60000")).await;
        assert_eq!((answer.status, &answer.body["state"]), (200, &json!("done")), "{answer:?}");
        answer.body["outcome"].clone()
    }

    /// Opens a client's stream of calls; `client` may carry a query.
    pub async fn stream(&self, client: &str) -> TestStream {
        TestStream::open(self.request(Method::GET, &format!("/client-tools/pending/{client}"))).await
    }

    /// Opens a client's stream of calls for a reader that has seen frames up to this one.
    pub async fn resume(&self, client: &str, last_seen: &str) -> TestStream {
        let request = self.request(Method::GET, &format!("/client-tools/pending/{client}"));
        TestStream::open(request.header("last-event-id", last_seen)).await
    }

    /// Opens the stream of events, and takes the first, which only says that it is open.
    pub async fn events(&self) -> TestStream {
        let mut events = TestStream::open(self.request(Method::GET, "/event")).await;
        assert_eq!(events.next().await.data, json!({ "type": "server.connected", "properties": {} }));
        events
    }

    /// Opens a client's WebSocket; `client` may carry a query.
    pub async fn socket(&self, client: &str) -> TestSocket {
        TestSocket::open(&self.socket_url(client), self.key).await
    }

    /// Where a client's WebSocket is.
    pub fn socket_url(&self, client: &str) -> String {
        format!("ws://{}/client-tools/ws/{client}", self.address)
    }

    /// Makes a client token.
    pub async fn token(&self, body: Value) -> String {
        let answer = self.post("/auth/client-token", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["token"].as_str().unwrap().to_owned()
    }

    /// What there is, in numbers.
    pub fn counts(&self) -> Counts {
        self.app.hub().counts()
    }

    /// Waits until the numbers are so.
    pub async fn until(&self, what: &str, condition: impl Fn(Counts) -> bool) {
        until(what, async || condition(self.counts())).await;
    }

    /// Waits until a call is in that state.
    pub async fn until_state(&self, request: &str, state: &str) {
        until(state, async || self.call(request).await["state"] == state).await;
    }
}

/// Waits until a condition holds.
pub async fn until<Check: Future<Output = bool>>(what: &str, condition: impl FnMut() -> Check) {
    until_within(PATIENCE, what, condition).await;
}

/// Waits until a condition holds, for so long.
pub async fn until_within<Check: Future<Output = bool>>(
    patience: Duration,
    what: &str,
    mut condition: impl FnMut() -> Check,
) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    if tokio::time::timeout(patience, holds).await.is_err() {
        panic!("it did not come true in time: {what}");
    }
}
