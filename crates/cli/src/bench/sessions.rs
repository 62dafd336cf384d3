//! Sessions with the built-in model. Each is created for a client, and every prompt makes the model call that client's tool.

use serde_json::Value;

use super::clients::{OUTPUT, TOOL};
use super::http::{Connection, Failure, json};

/// How much of an answer an error shows.
const SHOWN: usize = 120;

/// A session, and how many turns it has had.
pub(super) struct Session {
    pub(super) path: String,
    pub(super) turns: u32,
}

/// The prompt of every turn: the built-in model makes exactly this call.
fn prompt() -> String {
    format!(r#"{{"parts":[{{"type":"text","text":"call {TOOL} {{\"path\":\"src/main.rs\"}}"}}]}}"#)
}

impl Session {
    /// Creates a session of a client.
    pub(super) async fn create(connection: &mut Connection, client_id: &str) -> Result<Self, Failure> {
        let model = r#"{"providerID":"demo","id":"scripted"}"#;
        let body = format!(r#"{{"clientID":"{client_id}","model":{model}}}"#);
        let malformed = "a session without an id";
        let session: Value = json(connection.post("/session", &body).await?, malformed)?;
        let id = session["id"].as_str().ok_or(Failure::Malformed(malformed))?;
        Ok(Self { path: format!("/session/{id}"), turns: 0 })
    }

    /// Runs a turn. It counts only if the answer quotes the output of the tool.
    pub(super) async fn turn(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        self.turns += 1;
        judge(connection.post(&format!("{}/message", self.path), &prompt()).await?)
    }

    /// Begins a turn without waiting for its answer.
    pub(super) async fn begin(&self, connection: &mut Connection) -> Result<(), Failure> {
        connection.post(&format!("{}/prompt_async", self.path), &prompt()).await.map(|_| ())
    }

    /// Fails with the reason if the turn that was begun is over.
    pub(super) async fn verdict(&self, connection: &mut Connection) -> Result<(), Failure> {
        let messages = connection.get(&format!("{}/message", self.path)).await?;
        let messages: Vec<Value> = json(messages, "messages that are none")?;
        match messages.iter().rev().find(|message| texts(message).next().is_some()) {
            Some(message) if message["info"]["role"] == "assistant" => Err(failure(message)),
            _ => Ok(()),
        }
    }
}

/// Whether a turn with this answer counts.
pub(super) fn judge(body: &[u8]) -> Result<(), Failure> {
    let malformed = "an answer that is no message";
    let answer: Value = json(body, malformed)?;
    if !answer["parts"].is_array() {
        return Err(Failure::Malformed(malformed));
    }
    let is_quoted = texts(&answer).any(|text| text.contains(OUTPUT));
    if answer["info"]["error"].is_null() && is_quoted { Ok(()) } else { Err(failure(&answer)) }
}

/// The texts of a message.
fn texts(message: &Value) -> impl Iterator<Item = &str> {
    let parts = message["parts"].as_array().into_iter().flatten();
    parts.filter(|part| part["type"] == "text").filter_map(|part| part["text"].as_str())
}

/// The failure of a turn, from its answer.
fn failure(answer: &Value) -> Failure {
    if let Some(name) = answer["info"]["error"]["name"].as_str() {
        return Failure::Refused(name.to_owned());
    }
    let text = texts(answer).next().unwrap_or_default();
    // The server reports limits to the model, which repeats them as its answer.
    let (limit, setting) = if text.contains("too many calls for this client") {
        ("limits.callsPerMinute", "HANDBACK_LIMITS_CALLS_PER_MINUTE=0")
    } else if text.contains("too many calls are under way") {
        ("limits.callsPerClient", "HANDBACK_LIMITS_CALLS_PER_CLIENT=100000")
    } else {
        let shown: String = text.chars().take(SHOWN).collect();
        return Failure::Other(format!("the answer does not quote the tool: {shown}"));
    };
    Failure::Other(format!("the server refuses calls beyond {limit}; start it with {setting}"))
}
