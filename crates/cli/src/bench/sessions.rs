//! Sessions with the built-in model: each is made for a client, and every prompt in it has the model call that
//! client's tool.

use std::borrow::Cow;

use serde::Deserialize;

use super::clients::{OUTPUT, TOOL};
use super::http::{Connection, Failure, Target};

/// A turn's cost grows with the messages before it; a fresh session after so many keeps it that of a usual one.
const TURNS: u32 = 20;

/// Characters of an answer that an error shows.
const SHOWN: usize = 120;

/// A session, and the turns that are left in it.
pub(super) struct Session {
    path: String,
    /// Runs a turn and waits for its answer.
    prompt: Vec<u8>,
    left: u32,
}

/// What makes a session of a client.
pub(super) fn creation(target: &Target, client_id: &str) -> Vec<u8> {
    let model = r#"{"providerID":"demo","id":"scripted"}"#;
    target.post("/session", &format!(r#"{{"clientID":"{client_id}","model":{model}}}"#))
}

/// What is said in every turn: the built-in model makes exactly this call.
fn prompt() -> String {
    format!(r#"{{"parts":[{{"type":"text","text":"call {TOOL} {{\"path\":\"src/main.rs\"}}"}}]}}"#)
}

impl Session {
    /// Makes a session by a request of [`creation`].
    pub(super) async fn make(connection: &mut Connection, target: &Target, creation: &[u8]) -> Result<Self, Failure> {
        #[derive(Deserialize)]
        struct Made<'a> {
            id: &'a str,
        }
        let path = match connection.exchange(target, creation).await? {
            (200, body) => match serde_json::from_slice(body) {
                Ok(Made { id }) => format!("/session/{id}"),
                Err(_) => return Err(Failure::Malformed("a session without an id")),
            },
            (status, body) => return Err(Failure::status(status, body)),
        };
        let prompt = target.post(&format!("{path}/message"), &prompt());
        Ok(Self { path, prompt, left: TURNS })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Whether another one is due.
    pub(super) fn is_used_up(&self) -> bool {
        self.left == 0
    }

    /// Runs a turn. It counts only if the model's last word is what the tool gave.
    pub(super) async fn turn(&mut self, connection: &mut Connection, target: &Target) -> Result<(), Failure> {
        self.left = self.left.saturating_sub(1);
        match connection.exchange(target, &self.prompt).await? {
            (200, body) => judge(body),
            (status, body) => Err(Failure::status(status, body)),
        }
    }

    /// Begins a turn without waiting for its answer.
    pub(super) async fn begin(&self, connection: &mut Connection, target: &Target) -> Result<(), Failure> {
        let request = target.post(&format!("{}/prompt_async", self.path), &prompt());
        match connection.exchange(target, &request).await? {
            (204, _) => Ok(()),
            (status, body) => Err(Failure::status(status, body)),
        }
    }

    /// Why the turn that was begun is over, if it is.
    pub(super) async fn verdict(&self, connection: &mut Connection, target: &Target) -> Result<(), Failure> {
        let request = target.get(&format!("{}/message", self.path), "application/json");
        let (status, body) = connection.exchange(target, &request).await?;
        if status != 200 {
            return Err(Failure::status(status, body));
        }
        let messages: Vec<Answer<'_>> =
            serde_json::from_slice(body).map_err(|_| Failure::Malformed("messages that are none"))?;
        match messages.iter().rev().find(|message| message.parts.iter().any(Part::is_text)) {
            Some(message) if message.info.role == "assistant" => Err(message.failure()),
            _ => Ok(()),
        }
    }
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
    #[serde(borrow)]
    role: Cow<'a, str>,
    error: Option<TurnError>,
}

#[derive(Deserialize)]
struct TurnError {
    name: String,
}

#[derive(Deserialize)]
struct Part<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    text: Option<Cow<'a, str>>,
}

impl Part<'_> {
    fn is_text(&self) -> bool {
        self.kind == "text"
    }
}

impl Answer<'_> {
    fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter(|part| part.is_text()).filter_map(|part| part.text.as_deref())
    }

    /// What went wrong, as far as the answer tells.
    fn failure(&self) -> Failure {
        if let Some(error) = &self.info.error {
            return Failure::Refused(error.name.clone());
        }
        let text = self.texts().next().unwrap_or_default();
        // Limits are no errors of the turn: the model is told of them, and passes it on.
        if text.contains("too many calls for this client") {
            Failure::Limited { limit: "limits.callsPerMinute", variable: "HANDBACK_LIMITS_CALLS_PER_MINUTE=0" }
        } else if text.contains("too many calls are under way") {
            Failure::Limited { limit: "limits.callsPerClient", variable: "HANDBACK_LIMITS_CALLS_PER_CLIENT=100000" }
        } else {
            Failure::Unquoted(text.chars().take(SHOWN).collect())
        }
    }
}

/// Whether a turn counts.
pub(super) fn judge(body: &[u8]) -> Result<(), Failure> {
    let answer: Answer<'_> =
        serde_json::from_slice(body).map_err(|_| Failure::Malformed("an answer that is no message"))?;
    if answer.info.error.is_none() && answer.texts().any(|text| text.contains(OUTPUT)) {
        Ok(())
    } else {
        Err(answer.failure())
    }
}
