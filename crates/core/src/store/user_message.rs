//! A user's message, and the needs of its turn. The needs are stored with the message, so that the store alone says how
//! the turn is to be run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::id::{CallId, ClientId, ConnectionName, ToolName};
use crate::store::message::{ModelRef, ToolResult};

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
}

impl UserMessage {
    /// Creates a message for this agent and this model to answer.
    pub fn new(agent: impl Into<SmolStr>, model: ModelRef) -> Self {
        Self { agent: agent.into(), model, wants_reply: true, needs: TurnNeeds::default() }
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
    system: Option<String>,
    #[serde(default)]
    tools: BTreeMap<String, bool>,
    connection: Option<ConnectionName>,
}

impl From<StoredUserMessage> for UserMessage {
    fn from(stored: StoredUserMessage) -> Self {
        let StoredUserMessage { agent, model, wants_reply, needs, system, tools, connection } = stored;
        let earlier = || TurnNeeds { system, switches: tools, connection, ..TurnNeeds::default() };
        Self { agent, model, wants_reply, needs: needs.unwrap_or_else(earlier) }
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

    /// The needs to store after the turn; `None` if nothing is removed. The page's next request brings the rest again.
    pub(crate) fn after_turn(&self) -> Option<Self> {
        let Self { model, instructions, page_tools, results, .. } = self;
        let has_more = model.is_some() || !instructions.is_empty() || !page_tools.is_empty() || !results.is_empty();
        has_more.then(|| Self {
            model: None,
            instructions: Vec::new(),
            page_tools: Vec::new(),
            results: Vec::new(),
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests;
