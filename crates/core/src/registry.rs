//! Who offers which tool, in which sessions. Pure; lookup by tool id is one step.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::id::{ClientId, SessionId, ToolId};
use crate::limits::Limits;
use crate::tool::{Tool, ToolSpec};
use ahash::HashMap;

/// A registration that is refused; nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Two clients would share a tool id.
    #[error("the tool id {tool} belongs to another client; choose another name for the tool or the client")]
    Collision {
        /// The id.
        tool: ToolId,
    },
    /// The client would have too many tools.
    #[error("the client would have {found} tools; at most {allowed} are allowed")]
    TooManyTools {
        /// How many it would have.
        found: usize,
        /// The limit.
        allowed: usize,
    },
    /// A tool would be in too many sessions.
    #[error("the tool {tool} is in {allowed} sessions; take it out of some, or register it without a session")]
    TooManySessions {
        /// The tool.
        tool: ToolId,
        /// The limit.
        allowed: usize,
    },
    /// There are too many clients.
    #[error("too many clients are known; try again later")]
    TooManyClients,
}

/// Where a tool is offered.
#[derive(Debug, Default, Clone)]
struct Scope {
    /// In all sessions of its client.
    everywhere: bool,
    sessions: BTreeSet<SessionId>,
}

impl Scope {
    fn is_full_for(&self, session: &SessionId, most: usize) -> bool {
        self.sessions.len() >= most && !self.sessions.contains(session)
    }

    fn covers(&self, session: &SessionId) -> bool {
        self.everywhere || self.sessions.contains(session)
    }
}

#[derive(Debug)]
struct Registered {
    tool: Arc<Tool>,
    scope: Scope,
}

#[derive(Debug, Default)]
pub(crate) struct Registry {
    tools: HashMap<ToolId, Registered>,
    /// In order of registration.
    by_client: HashMap<ClientId, Vec<ToolId>>,
    /// Those that are offered in a session by name.
    by_session: HashMap<SessionId, BTreeSet<ToolId>>,
}

impl Registry {
    /// Registers all the tools or none. The same id again replaces the tool, and keeps its place and sessions.
    pub(crate) fn register(
        &mut self,
        client: &ClientId,
        session: Option<&SessionId>,
        specs: Vec<ToolSpec>,
        limits: &Limits,
    ) -> Result<Vec<ToolId>, RegisterError> {
        let (most, allowed) = (limits.tools_per_client, limits.sessions_per_tool);
        let ids: Vec<ToolId> = specs.iter().map(|spec| ToolId::new(client, &spec.name)).collect();
        let mut new = BTreeSet::new();
        for id in &ids {
            match self.tools.get(id) {
                Some(known) if known.tool.client != *client => {
                    return Err(RegisterError::Collision { tool: id.clone() });
                }
                Some(known) => {
                    if session.is_some_and(|session| known.scope.is_full_for(session, allowed)) {
                        return Err(RegisterError::TooManySessions { tool: id.clone(), allowed });
                    }
                }
                None => {
                    new.insert(id);
                }
            }
        }
        let found = self.count_of(client) + new.len();
        if found > most {
            return Err(RegisterError::TooManyTools { found, allowed: most });
        }
        for (id, spec) in ids.iter().zip(specs) {
            let tool = Arc::new(Tool::of_client(client.clone(), spec));
            let registered = match self.tools.remove(id) {
                Some(known) => Registered { tool, ..known },
                None => {
                    self.by_client.entry(client.clone()).or_default().push(id.clone());
                    Registered { tool, scope: Scope::default() }
                }
            };
            let Registered { scope, .. } = self.tools.entry(id.clone()).insert_entry(registered).into_mut();
            match session {
                Some(session) => {
                    scope.sessions.insert(session.clone());
                    self.by_session.entry(session.clone()).or_default().insert(id.clone());
                }
                None => scope.everywhere = true,
            }
        }
        Ok(ids)
    }

    /// Unregisters tools by name or full id, an exact full id first; all of the client's when `which` is `None`.
    /// With a session the tools are only taken out of that session, and are gone when they are in no other.
    /// Gives the ids of the tools that are no longer offered there.
    pub(crate) fn unregister(
        &mut self,
        client: &ClientId,
        session: Option<&SessionId>,
        which: Option<&[String]>,
    ) -> Vec<ToolId> {
        let Some(own) = self.by_client.get(client) else { return Vec::new() };
        let chosen: Vec<ToolId> = match which {
            None => own.clone(),
            Some(which) => {
                let mut chosen = Vec::new();
                for name in which {
                    let full = format!("client_{client}_{name}");
                    let found =
                        own.iter().find(|id| id.as_str() == name).or_else(|| own.iter().find(|id| id.as_str() == full));
                    if let Some(id) = found
                        && !chosen.contains(id)
                    {
                        chosen.push(id.clone());
                    }
                }
                chosen
            }
        };
        chosen.into_iter().filter(|id| self.remove(client, session, id)).collect()
    }

    fn remove(&mut self, client: &ClientId, session: Option<&SessionId>, id: &ToolId) -> bool {
        if let Some(session) = session {
            let Some(registered) = self.tools.get_mut(id) else { return false };
            if !registered.scope.sessions.remove(session) {
                return false;
            }
            let elsewhere = registered.scope.everywhere || !registered.scope.sessions.is_empty();
            self.leave_session(session, id);
            if elsewhere {
                return true;
            }
        }
        for session in self.tools.remove(id).into_iter().flat_map(|registered| registered.scope.sessions) {
            self.leave_session(&session, id);
        }
        if let Some(own) = self.by_client.get_mut(client) {
            own.retain(|known| known != id);
            if own.is_empty() {
                self.by_client.remove(client);
            }
        }
        true
    }

    fn leave_session(&mut self, session: &SessionId, id: &ToolId) {
        if let Some(tools) = self.by_session.get_mut(session) {
            tools.remove(id);
            if tools.is_empty() {
                self.by_session.remove(session);
            }
        }
    }

    /// A session is gone: its tools are taken out of it. Gives those that are in no other, by client.
    pub(crate) fn forget_session(&mut self, session: &SessionId) -> Vec<Arc<Tool>> {
        let mut tools = self.of_session(session);
        for tool in &tools {
            self.remove(&tool.client, Some(session), &tool.id);
        }
        tools.retain(|tool| !self.tools.contains_key(&tool.id));
        tools
    }

    /// The tools, of any client, that were registered for a session by name.
    pub(crate) fn of_session(&self, session: &SessionId) -> Vec<Arc<Tool>> {
        let ids = self.by_session.get(session).into_iter().flatten();
        ids.filter_map(|id| self.tools.get(id)).map(|registered| registered.tool.clone()).collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Arc<Tool>> {
        self.tools.get(id).map(|registered| &registered.tool)
    }

    /// A client's tools in order of registration; with a session, those offered there.
    pub(crate) fn of_client(&self, client: &ClientId, session: Option<&SessionId>) -> Vec<Arc<Tool>> {
        let own = self.by_client.get(client).map(Vec::as_slice).unwrap_or_default();
        own.iter()
            .filter_map(|id| self.tools.get(id))
            .filter(|registered| session.is_none_or(|session| registered.scope.covers(session)))
            .map(|registered| registered.tool.clone())
            .collect()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tool>> {
        self.tools.values().map(|registered| registered.tool.clone()).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.tools.len()
    }

    pub(crate) fn count_of(&self, client: &ClientId) -> usize {
        self.by_client.get(client).map_or(0, Vec::len)
    }
}

#[cfg(test)]
mod tests;
