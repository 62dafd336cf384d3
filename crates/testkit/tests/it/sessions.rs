//! Sessions over real sockets: a model that the test speaks for, clients that answer as the test says, and every
//! promise of the session API.

mod bad_requests;
mod calls;
mod connections;
mod endpoints;
mod errors;
mod events;
mod extensions;
mod names;
mod opencode;
mod ownership;
mod permissions;
mod prompts;
mod queue;
mod restart;
mod shutdown;
mod stress;
mod surrogates;
mod thoughts;
mod tokens;

use handback_server::config::Config;
use handback_testkit::{FakeModel, TestServer, TestStream};
use serde_json::{Value, json};

/// A server whose model the test speaks for, the client `tab` with its tools `a` (takes an integer `n`) and `b` (takes
/// anything), which is connected, and a session of it.
struct World {
    server: TestServer,
    model: FakeModel,
    stream: TestStream,
    session: String,
}

impl World {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let model = FakeModel::default();
        let server = TestServer::with_model(&model, change).await;
        register(&server).await;
        let stream = server.stream("tab").await;
        let session = server.session_of("tab").await;
        Self { server, model, stream, session }
    }

    /// Takes the next call and answers it with an output; gives the call.
    async fn answer_next(&mut self, output: &str) -> Value {
        let call = self.stream.next_call().await;
        self.server.answer(id(&call), output).await.must_be(200, &json!({ "success": true }));
        call
    }

    async fn history(&self) -> Vec<String> {
        self.server.history(&self.session).await
    }
}

/// The `requestID` of a call.
fn id(call: &Value) -> &str {
    call["requestID"].as_str().unwrap()
}

/// What the tool `a` takes.
fn schema_of_a() -> Value {
    json!({ "type": "object", "properties": { "n": { "type": "integer" } } })
}

async fn register(server: &TestServer) {
    let tools = json!([{ "id": "a", "description": "Counts", "parameters": schema_of_a() }, { "id": "b" }]);
    let answer = server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
    answer.must_be(200, &json!({ "registered": ["client_tab_a", "client_tab_b"] }));
}
