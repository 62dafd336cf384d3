//! Who offers which tool, in which sessions.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::id::{ClientId, SessionId, ToolId};
use crate::limits::Limits;
use crate::sharded::Sharded;
use crate::store::{Scope, Tool, ToolSpec};
use ahash::HashMap;

/// Why a registration was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// Another client has a tool with the same id.
    #[error("the tool id {tool} belongs to another client; choose another name for the tool or the client")]
    Collision {
        /// The tool's id.
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
    /// Somebody who is limited to one session wants to change a tool that the client has elsewhere.
    #[error("the client has another tool {tool} outside of this session; choose another name for the tool")]
    Elsewhere {
        /// The tool.
        tool: ToolId,
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

/// Where tools are registered.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// For all sessions of their client.
    Everywhere,
    /// For one session.
    In(SessionId),
    /// For one session, by somebody who is limited to it. The client's tools elsewhere stay as they are.
    OnlyIn(SessionId),
}

impl Placement {
    /// The session, if the placement is for one.
    pub fn session(&self) -> Option<&SessionId> {
        match self {
            Self::Everywhere => None,
            Self::In(session) | Self::OnlyIn(session) => Some(session),
        }
    }

    /// The session that the registering actor is limited to.
    pub(crate) fn limit(&self) -> Option<&SessionId> {
        match self {
            Self::Everywhere | Self::In(_) => None,
            Self::OnlyIn(session) => Some(session),
        }
    }
}

impl Scope {
    fn is_full_for(&self, session: &SessionId, most: usize) -> bool {
        self.sessions.len() + self.limited.len() >= most && !self.is_in(session)
    }

    /// Whether the tool was registered specifically for this session.
    fn is_in(&self, session: &SessionId) -> bool {
        self.sessions.contains(session) || self.limited.contains(session)
    }

    fn covers(&self, session: &SessionId) -> bool {
        self.everywhere || self.is_in(session)
    }

    fn is_empty(&self) -> bool {
        !self.everywhere && self.sessions.is_empty() && self.limited.is_empty()
    }

    /// Whether all registrations of the tool were made with this limit.
    fn is_all_of(&self, limit: Option<&SessionId>) -> bool {
        limit.is_none_or(|only| {
            !self.everywhere && self.sessions.is_empty() && self.limited.iter().all(|session| session == only)
        })
    }

    /// Whether some registrations of the tool were made with this limit.
    fn is_partly_of(&self, limit: Option<&SessionId>) -> bool {
        match limit {
            Some(only) => self.limited.contains(only),
            None => self.everywhere || !self.sessions.is_empty(),
        }
    }

    /// Whether the tool is registered there.
    fn has(&self, placement: &Placement) -> bool {
        match placement {
            Placement::Everywhere => self.everywhere,
            Placement::In(session) => self.sessions.contains(session),
            Placement::OnlyIn(session) => self.limited.contains(session),
        }
    }

    fn add(&mut self, placement: &Placement) {
        match placement {
            Placement::Everywhere => self.everywhere = true,
            Placement::In(session) => _ = self.sessions.insert(session.clone()),
            Placement::OnlyIn(session) => _ = self.limited.insert(session.clone()),
        }
    }
}

/// A tool, and where it is offered.
#[derive(Debug, Clone)]
pub(crate) struct Registered {
    pub(crate) tool: Arc<Tool>,
    pub(crate) scope: Scope,
}

/// What all registries share.
#[derive(Debug, Default)]
pub(crate) struct Owners {
    /// The client that has a tool. Two clients may spell the same tool id, and only one of them has it.
    tools: Sharded<ToolId, ClientId>,
    /// The number of sessions with tools registered specifically for them, summed over all registries.
    sessions: AtomicUsize,
}

impl Owners {
    pub(crate) fn owner(&self, id: &str) -> Option<ClientId> {
        self.tools.of(id).get(id).cloned()
    }

    /// Whether any session has tools registered specifically for it.
    pub(crate) fn have_sessions(&self) -> bool {
        self.sessions.load(Ordering::Acquire) > 0
    }
}

/// The tools of some clients. The tools of others are in other registries, which share the owners.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    owners: Arc<Owners>,
    tools: HashMap<ToolId, Registered>,
    /// In order of registration.
    by_client: HashMap<ClientId, Vec<ToolId>>,
    /// Tools registered specifically for a session.
    by_session: HashMap<SessionId, BTreeSet<ToolId>>,
}

impl Registry {
    pub(crate) fn new(owners: Arc<Owners>) -> Self {
        // Spelled out: `..Self::default()` would make owners only to drop them, once for each shard.
        Self { owners, tools: HashMap::default(), by_client: HashMap::default(), by_session: HashMap::default() }
    }

    /// Registers all the tools or none. Registering an id again replaces the tool, which keeps its place and sessions.
    /// An actor that is limited to a session replaces only tools that are only in that session.
    pub(crate) fn register(
        &mut self,
        client: &ClientId,
        placement: &Placement,
        specs: Vec<ToolSpec>,
        limits: &Limits,
    ) -> Result<Vec<ToolId>, RegisterError> {
        let (most, allowed) = (limits.tools_per_client, limits.sessions_per_tool);
        let (session, limit) = (placement.session(), placement.limit());
        let ids: Vec<ToolId> = specs.iter().map(|spec| ToolId::new(client, &spec.name)).collect();
        let mut new = BTreeSet::new();
        for (id, spec) in ids.iter().zip(&specs) {
            let Some(known) = self.tools.get(id).filter(|known| known.tool.client == *client) else {
                new.insert(id);
                continue;
            };
            if session.is_some_and(|session| known.scope.is_full_for(session, allowed)) {
                return Err(RegisterError::TooManySessions { tool: id.clone(), allowed });
            }
            if !known.scope.is_all_of(limit) && !known.tool.spec.says_the_same(spec) {
                return Err(RegisterError::Elsewhere { tool: id.clone() });
            }
            if !known.scope.is_partly_of(limit) {
                new.insert(id);
            }
        }
        let own = self.by_client.get(client).into_iter().flatten().filter_map(|id| self.tools.get(id));
        let found = own.filter(|known| known.scope.is_partly_of(limit)).count() + new.len();
        if found > most {
            return Err(RegisterError::TooManyTools { found, allowed: most });
        }
        self.own(client, &ids)?;
        for (id, spec) in ids.iter().zip(specs) {
            let registered = match self.tools.remove(id) {
                Some(known) if !known.scope.is_all_of(limit) => known,
                Some(known) => Registered { tool: Arc::new(Tool::of_client(client.clone(), spec)), ..known },
                None => {
                    self.by_client.entry(client.clone()).or_default().push(id.clone());
                    let tool = Arc::new(Tool::of_client(client.clone(), spec));
                    Registered { tool, scope: Scope::default() }
                }
            };
            let Registered { scope, .. } = self.tools.entry(id.clone()).insert_entry(registered).into_mut();
            scope.add(placement);
            if let Some(session) = session {
                self.enter_session(session, id);
            }
        }
        Ok(ids)
    }

    /// Whether a client has the same tool there already.
    pub(crate) fn has_same(&self, client: &ClientId, placement: &Placement, spec: &ToolSpec) -> bool {
        let known = self.get(&ToolId::new(client, &spec.name)).filter(|known| known.tool.client == *client);
        known.is_some_and(|known| known.scope.has(placement) && known.tool.spec.says_the_same(spec))
    }

    /// A tool, and where it is offered.
    pub(crate) fn get(&self, id: &ToolId) -> Option<&Registered> {
        self.tools.get(id)
    }

    /// A tool as it is, if there is one.
    pub(crate) fn as_it_is(&self, id: ToolId) -> (ToolId, Option<Registered>) {
        let registered = self.tools.get(&id).cloned();
        (id, registered)
    }

    /// Whether a tool is as it was.
    pub(crate) fn is_still(&self, id: &ToolId, was: Option<&Registered>) -> bool {
        match (self.tools.get(id), was) {
            (Some(now), Some(was)) => Arc::ptr_eq(&now.tool, &was.tool) && now.scope == was.scope,
            (now, was) => now.is_none() && was.is_none(),
        }
    }

    /// Registers a tool exactly as it was, or removes it.
    pub(crate) fn put(&mut self, client: &ClientId, id: &ToolId, registered: Option<Registered>) {
        if self.tools.contains_key(id) {
            self.remove(client, None, id);
        }
        let Some(registered) = registered else { return };
        if self.own(client, std::slice::from_ref(id)).is_err() {
            return;
        }
        self.by_client.entry(client.clone()).or_default().push(id.clone());
        for session in registered.scope.sessions.iter().chain(&registered.scope.limited) {
            self.enter_session(session, id);
        }
        self.tools.insert(id.clone(), registered);
    }

    fn enter_session(&mut self, session: &SessionId, id: &ToolId) {
        let tools = self.by_session.entry(session.clone()).or_insert_with(|| {
            self.owners.sessions.fetch_add(1, Ordering::Release);
            BTreeSet::new()
        });
        tools.insert(id.clone());
    }

    /// Makes a client the owner of all these tools or of none.
    fn own(&self, client: &ClientId, ids: &[ToolId]) -> Result<(), RegisterError> {
        for (place, id) in ids.iter().enumerate() {
            if self.owners.tools.of(id).entry(id.clone()).or_insert_with(|| client.clone()) != client {
                for id in ids[..place].iter().filter(|id| !self.tools.contains_key(*id)) {
                    self.owners.tools.of(id).remove(id);
                }
                return Err(RegisterError::Collision { tool: id.clone() });
            }
        }
        Ok(())
    }

    /// Unregisters tools by name or full id, where an exact full id comes first; all of the client's when `which` is
    /// `None`. With a session, tools are only removed from that session, and unregistered when they are in no other.
    /// Returns the ids of the tools that are no longer offered there.
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
        let Some(registered) = self.tools.get_mut(id) else { return false };
        let scope = &mut registered.scope;
        let left = match session {
            Some(session) if !scope.is_in(session) => return false,
            Some(session) => {
                scope.sessions.remove(session);
                scope.limited.remove(session);
                BTreeSet::from([session.clone()])
            }
            None => {
                let Scope { mut sessions, limited, .. } = std::mem::take(scope);
                sessions.extend(limited);
                sessions
            }
        };
        left.iter().for_each(|session| self.leave_session(session, id));
        self.forget_if_nowhere(client, id);
        true
    }

    /// Removes what was registered with this limit, which has expired. Returns the tools that are offered nowhere now.
    pub(crate) fn expire(&mut self, client: &ClientId, limit: Option<&SessionId>) -> Vec<ToolId> {
        let own = self.by_client.get(client).cloned().unwrap_or_default();
        let mut gone = Vec::new();
        for id in own {
            let Some(Registered { scope, .. }) = self.tools.get_mut(&id) else { continue };
            let left = match limit {
                Some(only) => scope.limited.take(only).into_iter().collect(),
                None => {
                    scope.everywhere = false;
                    std::mem::take(&mut scope.sessions)
                }
            };
            let left: Vec<SessionId> = left.into_iter().filter(|session| !scope.is_in(session)).collect();
            left.iter().for_each(|session| self.leave_session(session, &id));
            if self.forget_if_nowhere(client, &id) {
                gone.push(id);
            }
        }
        gone
    }

    /// Unregisters a tool that is offered nowhere. Returns whether it did.
    fn forget_if_nowhere(&mut self, client: &ClientId, id: &ToolId) -> bool {
        if self.tools.get(id).is_none_or(|known| !known.scope.is_empty()) {
            return false;
        }
        self.tools.remove(id);
        self.owners.tools.of(id).remove(id);
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
                self.owners.sessions.fetch_sub(1, Ordering::Release);
            }
        }
    }

    /// Removes a deleted session's tools from it. Returns the tools that are in no other session.
    pub(crate) fn forget_session(&mut self, session: &SessionId) -> Vec<Arc<Tool>> {
        let mut tools = self.of_session(session);
        for tool in &tools {
            self.remove(&tool.client, Some(session), &tool.id);
        }
        tools.retain(|tool| !self.tools.contains_key(&tool.id));
        tools
    }

    /// The tools of any client that were registered specifically for this session.
    pub(crate) fn of_session(&self, session: &SessionId) -> Vec<Arc<Tool>> {
        let ids = self.by_session.get(session).into_iter().flatten();
        ids.filter_map(|id| self.tools.get(id)).map(|registered| registered.tool.clone()).collect()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Arc<Tool>> {
        self.tools.get(id).map(|registered| &registered.tool)
    }

    /// A client's tools in order of registration; with a session, only those offered there.
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
