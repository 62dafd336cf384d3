//! Sessions of a test server: prompts, messages, asks, aborts.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::model::{FakeModel, MODEL};
use crate::server::{Answer, TestServer, until};
use crate::stream::TestStream;
use handback_core::store::ModelRef;
use handback_core::tools::Permission;
use handback_server::config::{Agent, AgentPermission, Config};

/// Sets what the default agent may do with clients' tools.
pub fn permit(config: &mut Config, client_tools: Permission) {
    let permission = AgentPermission { client_tools, ..AgentPermission::default() };
    config.agents.insert("default".to_owned(), Agent { permission, ..Agent::default() });
}

impl TestServer {
    /// A server whose sessions talk to this model unless they name another.
    pub async fn with_model(model: &FakeModel, change: impl FnOnce(&mut Config)) -> Self {
        let change = |config: &mut Config| {
            config.model = ModelRef::parse(MODEL).expect("the name of a model");
            change(config);
        };
        Self::with_extensions(change, model.extensions()).await
    }

    /// Makes a session; gives its id.
    pub async fn session(&self, body: Value) -> String {
        let answer = self.post("/session", body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body["id"].as_str().unwrap().to_owned()
    }

    /// Makes a session of a client; gives its id.
    pub async fn session_of(&self, client: &str) -> String {
        self.session(json!({ "clientID": client })).await
    }

    /// A request that says something in a session.
    pub fn saying(&self, session: &str, body: &Value) -> reqwest::RequestBuilder {
        self.request(Method::POST, &format!("/session/{session}/message")).json(body)
    }

    /// Says something in the background; the task gives the answer. Aborting it takes the prompter away.
    pub fn prompt(&self, session: &str, text: &str) -> JoinHandle<Answer> {
        self.prompt_with(session, text_prompt(text))
    }

    /// The same, with a body of the test's own.
    pub fn prompt_with(&self, session: &str, body: Value) -> JoinHandle<Answer> {
        let request = self.saying(session, &body);
        #[expect(clippy::disallowed_methods, reason = "the test's own task; the test awaits it")]
        tokio::spawn(Answer::to(request))
    }

    /// Says something and waits for the answer, which must be 200.
    pub async fn say(&self, session: &str, text: &str) -> Value {
        let answer = Answer::to(self.saying(session, &text_prompt(text))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.body
    }

    /// Says something without waiting for the answer.
    pub async fn prompt_async(&self, session: &str, text: &str) {
        let answer = self.post(&format!("/session/{session}/prompt_async"), text_prompt(text)).await;
        answer.must_be(204, &json!(""));
    }

    /// The messages of a session.
    pub async fn messages(&self, session: &str) -> Vec<Value> {
        let answer = self.get(&format!("/session/{session}/message")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_value(answer.body).expect("a list of messages")
    }

    /// The messages of a session, one line each.
    pub async fn history(&self, session: &str) -> Vec<String> {
        self.messages(session).await.iter().map(brief).collect()
    }

    /// What a session does: `busy` or `idle`; "" if there is no such session.
    pub async fn status(&self, session: &str) -> String {
        let all = self.get("/session/status").await;
        assert_eq!(all.status, 200, "{all:?}");
        all.body[session]["type"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until no turn is under way in a session.
    pub async fn until_idle(&self, session: &str) {
        until("the session is idle", async || self.status(session).await == "idle").await;
    }

    /// Stops the turn of a session.
    pub async fn abort(&self, session: &str) {
        self.post(&format!("/session/{session}/abort"), json!({})).await.must_be(200, &json!(true));
    }

    /// The asks that are open.
    pub async fn asks(&self) -> Vec<Value> {
        let answer = self.get("/permission").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        serde_json::from_value(answer.body).expect("a list of asks")
    }

    /// Waits until so many asks are open.
    pub async fn until_asked(&self, count: usize) -> Vec<Value> {
        until("somebody is asked", async || self.asks().await.len() == count).await;
        self.asks().await
    }

    /// Answers an ask through its session, as older clients do.
    pub async fn respond(&self, ask: &Value, body: Value) -> Answer {
        let [session, id] = [&ask["sessionID"], &ask["id"]].map(|id| id.as_str().unwrap_or_default());
        self.post(&format!("/session/{session}/permissions/{id}"), body).await
    }

    /// Answers an ask by its own id, as newer clients do.
    pub async fn reply(&self, ask: &Value, body: Value) -> Answer {
        self.post(&format!("/permission/{}/reply", ask["id"].as_str().unwrap_or_default()), body).await
    }
}

/// A prompt of one text.
pub fn text_prompt(text: &str) -> Value {
    json!({ "parts": [{ "type": "text", "text": text }] })
}

/// A message `{info, parts}` in one line: who, what, and the error if there is one.
pub fn brief(message: &Value) -> String {
    let info = &message["info"];
    let mut line = vec![info["role"].as_str().unwrap_or_default().to_owned()];
    for part in message["parts"].as_array().into_iter().flatten() {
        let state = &part["state"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let tool =
            |sign: &str, result: &Value| format!("{} {} {sign} {}", text(&part["tool"]), state["input"], text(result));
        match part["type"].as_str().unwrap_or_default() {
            "text" => line.push(text(&part["text"])),
            "reasoning" => line.push(format!("({})", text(&part["text"]))),
            "file" => line.push(format!("[{}]", text(&part["mime"]))),
            "step-start" => {}
            "step-finish" => line.push(format!("<{}>", text(&part["reason"]))),
            "tool" => line.push(match state["status"].as_str().unwrap_or_default() {
                "completed" => tool("→", &state["output"]),
                "error" => tool("✗", &state["error"]),
                other => tool(other, &state["raw"]),
            }),
            other => line.push(other.to_owned()),
        }
    }
    if !info["error"].is_null() {
        line.push(format!("!{}: {}", info["error"]["name"], info["error"]["data"]["message"]).replace('"', ""));
    }
    line.join(" | ")
}

/// The last tool part of a message `{info, parts}`.
pub fn tool_part(message: &Value) -> &Value {
    let parts = message["parts"].as_array().expect("a message has parts");
    parts.iter().rfind(|part| part["type"] == "tool").expect("a message with a call")
}

/// Events up to the first of that type, itself included, without `server.connected`.
pub async fn events_until(events: &mut TestStream, last: &str) -> Vec<Value> {
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.data;
        let found = event["type"] == last;
        seen.push(event);
        if found {
            return seen;
        }
    }
}
