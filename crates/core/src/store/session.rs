//! A session, and the models that answer in it. Pure data; stores keep its serde form.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::clock::Time;
use crate::id::{ClientId, InvalidId, SessionId};

/// The agent that answers when none is named.
pub const DEFAULT_AGENT: &str = "default";

/// A conversation with a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    /// The session's id.
    pub id: SessionId,
    /// The client whose tools the session has. No other client may use the session.
    pub client: Option<ClientId>,
    /// A title for people.
    pub title: String,
    /// The session that this one was made from.
    pub parent: Option<SessionId>,
    /// The agent that answers when a message does not name one.
    pub agent: Option<SmolStr>,
    /// The model that answers when a message does not name one.
    pub model: Option<ModelRef>,
    /// A JSON object that the creator wants to keep with the session.
    pub metadata: Option<Box<RawValue>>,
    /// Whether a frontend that can run frontend tools shows the session.
    #[serde(default)]
    pub has_frontend: bool,
    /// Full ids of tools that are allowed as long as the session exists.
    pub approved: BTreeSet<String>,
    /// When the session was created.
    pub created: Time,
    /// When something last happened in the session.
    pub updated: Time,
}

impl Session {
    /// The agent that answers when a message does not name one.
    pub fn agent_name(&self) -> &str {
        self.agent.as_deref().unwrap_or(DEFAULT_AGENT)
    }
}

/// A model by its provider and its name there: `providerID/modelID`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// The provider.
    pub provider: SmolStr,
    /// The model's name, which may contain slashes.
    pub model: SmolStr,
}

impl ModelRef {
    /// Checks both names and uses them unchanged.
    pub fn new(provider: &str, model: &str) -> Result<Self, InvalidId> {
        let allowed = |text: &str| (1..=256).contains(&text.len()) && !text.chars().any(char::is_control);
        if allowed(provider) && allowed(model) && !provider.contains('/') {
            Ok(Self { provider: provider.into(), model: model.into() })
        } else {
            Err(InvalidId::new("model", &format!("{provider}/{model}"), "providerID/modelID".to_owned()))
        }
    }

    /// Parses `providerID/modelID`.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let (provider, model) = text.split_once('/').unwrap_or((text, ""));
        Self::new(provider, model)
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.model)
    }
}
