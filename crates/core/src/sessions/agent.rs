//! Agents: instructions, model and permissions under a name.

use std::collections::BTreeMap;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::store::{DEFAULT_AGENT, ModelRef};
use crate::tools::Policy;

/// How a model is to answer, and what it may do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Agent {
    /// Instructions for the model.
    pub system: Option<String>,
    /// The model to use when neither the message nor the session names one; `None` means the server's default.
    pub model: Option<ModelRef>,
    /// Which tools the model may call.
    pub policy: Policy,
    /// Whether any client may name this agent. Otherwise a client needs a token that names it.
    pub is_open: bool,
}

/// The agents by name; [`DEFAULT_AGENT`] is always among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agents(BTreeMap<SmolStr, Arc<Agent>>);

impl Agents {
    /// Returns the agent with this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Agent>> {
        self.0.get(name)
    }

    /// The names of the agents.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(SmolStr::as_str)
    }
}

impl FromIterator<(SmolStr, Agent)> for Agents {
    fn from_iter<I: IntoIterator<Item = (SmolStr, Agent)>>(agents: I) -> Self {
        let mut by_name: BTreeMap<_, _> = agents.into_iter().map(|(name, agent)| (name, Arc::new(agent))).collect();
        by_name.entry(DEFAULT_AGENT.into()).or_insert_with(|| Arc::new(Agent { is_open: true, ..Agent::default() }));
        Self(by_name)
    }
}

impl Default for Agents {
    fn default() -> Self {
        Self::from_iter([])
    }
}

#[cfg(test)]
mod tests;
