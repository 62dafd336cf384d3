//! A user's message, and the needs of its turn. The needs are stored with the message, so that the store alone says how
//! the turn is to be run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::clock::Time;
use crate::id::{CallId, ClientId, ConnectionName, MessageId, RunId, ToolName};
use crate::store::message::ToolResult;
use crate::store::session::ModelRef;

/// The fields of a user's message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "StoredUserMessage")]
pub struct UserMessage {
    /// The agent that is to answer.
    pub agent: SmolStr,
    /// The model that is to answer.
    pub model: ModelRef,
    /// Whether an answer is wanted.
    pub wants_reply: bool,
    /// What the turn needs.
    pub needs: TurnNeeds,
    /// The turn that answers the message, until it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn: Option<OpenTurn>,
    /// What continues the open turn when it is over, if the page has already sent results for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Box<NextTurn>>,
}

/// A turn that continues a running one, if that one ends with calls that the page has run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NextTurn {
    /// The answer that the page continues from.
    pub after: MessageId,
    /// What it needs, with the results of the calls.
    pub needs: TurnNeeds,
}

/// A turn that is not over. It is stored with the message that it answers, so that another process can go on with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenTurn {
    /// When it was asked for. The turns of a session run in this order.
    pub since: Time,
    /// The last answer that the message had at that time, if an earlier turn had answered it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<MessageId>,
    /// How far it had come when a process last took it up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub progress: usize,
    /// In how many processes in a row it came no further.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lives: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl OpenTurn {
    /// A turn that is asked for now.
    pub fn new(since: Time, after: Option<MessageId>) -> Self {
        Self { since, after, progress: 0, lives: 0 }
    }
}

impl UserMessage {
    /// Creates a message for this agent and this model to answer.
    pub fn new(agent: impl Into<SmolStr>, model: ModelRef) -> Self {
        Self { agent: agent.into(), model, wants_reply: true, needs: TurnNeeds::default(), turn: None, next: None }
    }

    /// The model that answers in the next turn.
    pub(crate) fn next_model(&self) -> &ModelRef {
        self.needs.model.as_ref().unwrap_or(&self.model)
    }
}

/// The stored form of a user's message. Earlier versions stored three of the needs beside the other fields.
#[derive(Deserialize)]
struct StoredUserMessage {
    agent: SmolStr,
    model: ModelRef,
    wants_reply: bool,
    needs: Option<TurnNeeds>,
    turn: Option<OpenTurn>,
    next: Option<Box<NextTurn>>,
    system: Option<String>,
    #[serde(default)]
    tools: BTreeMap<String, bool>,
    connection: Option<ConnectionName>,
}

impl From<StoredUserMessage> for UserMessage {
    fn from(stored: StoredUserMessage) -> Self {
        let StoredUserMessage { agent, model, wants_reply, needs, turn, next, system, tools, connection } = stored;
        let earlier = || TurnNeeds { system, switches: tools, connection, ..TurnNeeds::default() };
        Self { agent, model, wants_reply, needs: needs.unwrap_or_else(earlier), turn, next }
    }
}

/// What a turn needs besides the message that it answers.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnNeeds {
    /// The client that prompts. If the session belongs to no client, the turn has this client's tools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    /// The client's connection that is offered the turn's calls first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<ConnectionName>,
    /// The model, if it differs from the message's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    /// Instructions that override the agent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Instructions of the page, which follow the agent's.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<String>,
    /// Tools that are switched on or off, by name, full id or pattern.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub switches: BTreeMap<String, bool>,
    /// The page's tools. A step that calls one of them ends the turn, and the page's next request brings the result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub page_tools: Vec<PageTool>,
    /// Whether the turn has a feed that readers follow.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_followed: bool,
    /// Whether readers leave when the turn waits only for asks, and come back with the user's answers.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub yields_asks: bool,
    /// Whether a frontend shows the session from now on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_frontend: bool,
    /// Whether the turn begins by ending the calls that earlier turns yielded to the page, with `results` or as failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub settles_calls: bool,
    /// The run that tells its readers of the turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Results of calls that earlier turns yielded to the page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<(CallId, ToolResult)>,
}

/// A tool that runs in the page that sends the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PageTool {
    /// The tool's name.
    pub name: ToolName,
    /// What the tool does, for the model.
    pub description: String,
    /// The JSON Schema of its input; `None` allows any object.
    pub parameters: Option<Box<RawValue>>,
}

impl TurnNeeds {
    /// These needs with the earlier ones as defaults, for a turn that is retried or continued.
    pub(crate) fn or(mut self, earlier: &Self) -> Self {
        self.client = self.client.or_else(|| earlier.client.clone());
        self.connection = self.connection.or_else(|| earlier.connection.clone());
        self.system = self.system.or_else(|| earlier.system.clone());
        if self.switches.is_empty() {
            self.switches.clone_from(&earlier.switches);
        }
        self
    }

    /// Removes what is not stored after the turn. The page's next request brings it again.
    pub(crate) fn shrink(&mut self) {
        (self.model, self.instructions, self.page_tools, self.results) = Default::default();
    }
}

#[cfg(test)]
mod tests;
