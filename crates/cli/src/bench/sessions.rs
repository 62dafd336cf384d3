//! Sessions with the built-in model: each is made for a client, and every prompt in it has the model call that
//! client's tool.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::clients::{OUTPUT, TOOL};
use super::http::{Connection, Failure, json};

/// Characters of an answer that an error shows.
const SHOWN: usize = 120;

/// A session, and how many turns it has had.
pub(super) struct Session {
    pub(super) path: String,
    pub(super) turns: u32,
}

/// What is said in every turn: the built-in model makes exactly this call.
fn prompt() -> String {
    format!(r#"{{"parts":[{{"type":"text","text":"call {TOOL} {{\"path\":\"src/main.rs\"}}"}}]}}"#)
}

impl Session {
    /// Makes a session of a client.
    pub(super) async fn make(connection: &mut Connection, client_id: &str) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Made<'a> {
            id: &'a str,
        }
        let model = r#"{"providerID":"demo","id":"scripted"}"#;
        let body = format!(r#"{{"clientID":"{client_id}","model":{model}}}"#);
        let made: Made<'_> = json(connection.post("/session", &body).await?, "a session without an id")?;
        Ok(Self { path: format!("/session/{}", made.id), turns: 0 })
    }

    /// Runs a turn. It counts only if the model's last word is what the tool gave.
    pub(super) async fn turn(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        self.turns += 1;
        judge(connection.post(&format!("{}/message", self.path), &prompt()).await?)
    }

    /// Begins a turn without waiting for its answer.
    pub(super) async fn begin(&self, connection: &mut Connection) -> Result<(), Failure> {
        connection.post(&format!("{}/prompt_async", self.path), &prompt()).await.map(|_| ())
    }

    /// Why the turn that was begun is over, if it is.
    pub(super) async fn verdict(&self, connection: &mut Connection) -> Result<(), Failure> {
        let messages = connection.get(&format!("{}/message", self.path)).await?;
        let messages: Vec<Answer<'_>> = json(messages, "messages that are none")?;
        match messages.iter().rev().find(|message| message.texts().next().is_some()) {
            Some(message) if message.info.role == "assistant" => Err(message.failure()),
            _ => Ok(()),
        }
    }
}

/// Whether a turn counts.
pub(super) fn judge(body: &[u8]) -> Result<(), Failure> {
    let answer: Answer<'_> = json(body, "an answer that is no message")?;
    let is_quoted = answer.texts().any(|text| text.contains(OUTPUT));
    if answer.info.error.is_none() && is_quoted { Ok(()) } else { Err(answer.failure()) }
}

/// A message with its parts.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    info: Info<'a>,
    #[serde(borrow)]
    parts: Vec<Part<'a>>,
}

#[derive(Deserialize)]
struct Info<'a> {
    role: &'a str,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

impl Answer<'_> {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| part.kind == "text").filter_map(|part| part.text.as_deref())
    }

    /// What went wrong, as far as the answer tells.
    fn failure(&self) -> Failure {
        if let Some(error) = &self.info.error {
            return Failure::Refused(error["name"].as_str().unwrap_or_default().to_owned());
        }
        let text = self.texts().next().unwrap_or_default();
        // Limits are no errors of the turn: the model is told of them, and passes it on.
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
}
