//! A real server on a free port, and requests to it.

use std::time::Duration;

use handback_core::hub::Counts;
use handback_server::config::Config;
use handback_server::{App, Server};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::socket::TestSocket;
use crate::stream::TestStream;

/// How long a condition may take to become true; a test that needs longer has failed.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// What a request was answered with.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body, if it is JSON; otherwise its text.
    pub body: Value,
}

impl Answer {
    /// The code of an error, or "".
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_default()
    }

    /// The message of an error, or "".
    pub fn error(&self) -> &str {
        self.body["error"].as_str().unwrap_or_default()
    }
}

/// A running server.
pub struct TestServer {
    /// Where it is.
    pub url: String,
    /// Its inside.
    pub app: App,
    /// What requests are sent with.
    pub http: Client,
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
        let mut config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
        change(&mut config);
        let server = Server::bind(config).await.expect("the server starts");
        let url = format!("http://{}", server.local_addr());
        let app = server.app().clone();
        let stop = CancellationToken::new();
        #[expect(clippy::disallowed_methods, reason = "the test's own task; it is awaited in `stop`")]
        let running = Some(tokio::spawn(server.run(stop.clone().cancelled_owned())));
        Self { url, app, http: Client::new(), stop, running }
    }

    /// Tells the server to stop, without waiting.
    pub fn begin_stop(&self) {
        self.stop.cancel();
    }

    /// Stops the server and waits until it has.
    pub async fn stop(mut self) {
        self.stop.cancel();
        if let Some(running) = self.running.take() {
            running.await.expect("the server ends without a panic");
        }
    }

    /// A request to be completed by the test.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.url))
    }

    /// Sends a request.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.expect("the server answers");
        let status = response.status().as_u16();
        let text = response.text().await.expect("the answer is complete");
        Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) }
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// `POST` with a JSON body.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// `DELETE` with a JSON body.
    pub async fn delete(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::DELETE, path).json(&body)).await
    }

    /// Registers tools that take any object; gives their full ids.
    pub async fn register(&self, client: &str, tools: &[&str]) -> Vec<String> {
        let tools: Vec<Value> = tools.iter().map(|id| serde_json::json!({ "id": id })).collect();
        let answer = self.post("/client-tools/register", serde_json::json!({ "clientID": client, "tools": tools })).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_value(answer.body["registered"].clone()).unwrap()
    }

    /// Calls a tool in the background.
    pub fn execute(&self, body: Value) -> JoinHandle<Answer> {
        let request = self.request(Method::POST, "/client-tools/execute").json(&body);
        #[expect(clippy::disallowed_methods, reason = "the test's own task; the test awaits it")]
        tokio::spawn(async move {
            let response = request.send().await.expect("the server answers");
            let status = response.status().as_u16();
            Answer { status, body: response.json().await.expect("the answer is JSON") }
        })
    }

    /// Answers a call with an output.
    pub async fn answer(&self, request: &str, output: &str) -> Answer {
        let result = serde_json::json!({ "status": "success", "output": output });
        self.post("/client-tools/result", serde_json::json!({ "requestID": request, "result": result })).await
    }

    /// Opens a client's stream of calls; `path` may carry a query.
    pub async fn stream(&self, client: &str) -> TestStream {
        TestStream::open(self.request(Method::GET, &format!("/client-tools/pending/{client}"))).await
    }

    /// Opens a client's WebSocket; `client` may carry a query.
    pub async fn socket(&self, client: &str) -> TestSocket {
        TestSocket::open(&format!("{}/client-tools/ws/{client}", self.url.replace("http", "ws"))).await
    }

    /// What there is, in numbers.
    pub fn counts(&self) -> Counts {
        self.app.hub().counts()
    }

    /// Waits until the numbers are so.
    pub async fn until(&self, what: &str, condition: impl Fn(Counts) -> bool) {
        let holds = async {
            while !condition(self.counts()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        if tokio::time::timeout(PATIENCE, holds).await.is_err() {
            panic!("{what} did not come true: {:?}", self.counts());
        }
    }
}

/// Checks a status on the way.
pub fn expect_status(answer: Answer, status: StatusCode) -> Value {
    assert_eq!(answer.status, status.as_u16(), "{answer:?}");
    answer.body
}
