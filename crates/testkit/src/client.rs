//! A client that is there in the background: it offers tools, answers calls as the test has told it, and writes down
//! what it was asked to do.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::server::{Answer, TestServer};
use crate::stream::TestStream;

/// A client with a stream. Dropping it closes the stream.
pub struct ScriptedClient {
    calls: Arc<Mutex<Vec<Value>>>,
    reading: JoinHandle<()>,
}

impl ScriptedClient {
    /// Registers tools that take any object, connects, and answers every call with what `answer` makes of it: a result,
    /// or nothing at all.
    pub async fn attach(
        server: &TestServer,
        client: &str,
        tools: &[&str],
        answer: impl FnMut(&Value) -> Option<Value> + Send + 'static,
    ) -> Self {
        server.register(client, tools).await;
        Self::connect(server, client, answer).await
    }

    /// Connects with the tools that are registered; `client` may carry a query.
    pub async fn connect(
        server: &TestServer,
        client: &str,
        mut answer: impl FnMut(&Value) -> Option<Value> + Send + 'static,
    ) -> Self {
        let mut stream = server.stream(client).await;
        let calls: Arc<Mutex<Vec<Value>>> = Arc::default();
        let (known, result) = (calls.clone(), server.request(reqwest::Method::POST, "/client-tools/result"));
        let read = async move {
            while let Some(call) = next_call(&mut stream).await {
                known.lock().unwrap().push(call.clone());
                if let Some(answer) = answer(&call) {
                    let body = json!({ "requestID": call["requestID"], "result": answer });
                    let request = result.try_clone().expect("a request without a body").json(&body);
                    // What has ended meanwhile is not taken any more.
                    Answer::to(request).await;
                }
            }
        };
        #[expect(clippy::disallowed_methods, reason = "the test's own task; it ends with the client")]
        let reading = tokio::spawn(read);
        Self { calls, reading }
    }

    /// The calls that it was given, in their order.
    pub fn calls(&self) -> Vec<Value> {
        self.calls.lock().unwrap().clone()
    }
}

impl Drop for ScriptedClient {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

/// The next call; `None` when the stream is over.
async fn next_call(stream: &mut TestStream) -> Option<Value> {
    loop {
        match stream.read().await {
            Ok(frame) if frame.event == "tool-request" => return Some(frame.data),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}

/// A result with an output.
pub fn success(output: &str) -> Value {
    json!({ "status": "success", "output": output })
}

/// A result that is a failure.
pub fn failure(error: &str) -> Value {
    json!({ "status": "error", "error": error })
}
