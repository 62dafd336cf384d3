//! The tools of clients: who registers them, until when they stay, and what later processes know of them.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Client, RESTART_GRACE, Table};
use crate::calls::shards::Lifecycle;
use crate::clock::Time;
use crate::events::Event;
use crate::id::{ClientId, SessionId, ToolId, ToolName};
use crate::store::{StoreFuture, StoredClient, StoredTool, ToolSpec};
use crate::tools::{Placement, RegisterError, Registered, Registry};

/// A change of a client's tools.
pub(crate) struct ToolChange {
    /// The tools that were registered or unregistered.
    pub(crate) ids: Vec<ToolId>,
    /// What has changed, as it was before.
    pub(crate) before: Vec<(ToolId, Option<Registered>)>,
    /// The write to the store, if there is something to write.
    pub(crate) saving: Option<StoreFuture<()>>,
}

impl Table {
    pub(crate) fn register(
        &mut self,
        client: &ClientId,
        placement: &Placement,
        specs: Vec<ToolSpec>,
        now: Instant,
        wall: SystemTime,
    ) -> Result<ToolChange, RegisterError> {
        if self.client_mut(client, wall).is_none() {
            return Err(RegisterError::TooManyClients);
        }
        let new = specs.iter().filter(|spec| !self.registry.has_same(client, placement, spec));
        let before: Vec<_> = new.map(|spec| self.registry.as_it_is(ToolId::new(client, &spec.name))).collect();
        let registered = self.registry.register(client, placement, specs, &self.common.limits);
        if let Ok(ids) = &registered
            && !ids.is_empty()
        {
            let session = placement.session();
            self.tell(|| Event::Registered(client.clone(), session.cloned(), ids.as_slice().into()));
            let (until, limit) = (now + self.common.limits.unconnected_tools, placement.limit());
            if let Some(known) = self.clients.get(client)
                && !known.has_links_of(limit)
                && known.expires(limit).is_none_or(|expires| expires < until)
            {
                self.set_expiry(client, limit, Some(until));
            }
        }
        let saving = registered.as_ref().ok().and_then(|_| self.save_tools(client, &before));
        self.forget_if_idle(client);
        Ok(ToolChange { ids: registered?, before, saving })
    }

    pub(crate) fn unregister(
        &mut self,
        client: &ClientId,
        session: Option<&SessionId>,
        which: Option<&[String]>,
    ) -> ToolChange {
        let (ids, before) = self.change_tools(client, |registry| registry.unregister(client, session, which));
        let saving = self.save_tools(client, &before);
        self.unregistered(client, session, &ids);
        ToolChange { ids, before, saving }
    }

    /// Undoes a change of tools that could not be stored. A tool that has changed since stays as it is.
    pub(crate) fn undo_tools(&mut self, client: &ClientId, before: Vec<(ToolId, Option<Registered>)>) {
        for (id, registered) in before {
            self.registry.put(client, &id, registered);
        }
        self.forget_if_idle(client);
    }

    /// Registers a tool that an earlier process stored.
    pub(crate) fn restore_tool(&mut self, client: &ClientId, registered: Registered) {
        let id = registered.tool.id.clone();
        self.registry.put(client, &id, Some(registered));
    }

    /// Waits for a client of an earlier process, which has tools.
    pub(crate) fn restore_client(&mut self, client: &StoredClient, limits: &[Option<SessionId>], now: Instant) {
        let StoredClient { id, since, graces } = client;
        // A damaged row may have any time, and one that is too long would overflow.
        let largest = self.common.limits.largest_grace;
        let graces: BTreeMap<_, _> =
            graces.iter().map(|(limit, grace)| (limit.clone(), (*grace).min(largest))).collect();
        if let Some(known) = self.client_mut(id, SystemTime::from(*since)) {
            known.graces.clone_from(&graces);
        }
        for limit in limits {
            let asked = graces.get(limit).copied().unwrap_or_default();
            self.expect(id, limit.as_ref(), now + asked.max(RESTART_GRACE), SystemTime::from(*since));
        }
    }

    /// Removes what was registered with a limit, which has expired.
    pub(super) fn expire_tools(&mut self, client: &ClientId, limit: Option<&SessionId>) {
        let (gone, before) = self.change_tools(client, |registry| registry.expire(client, limit));
        let saving = self.save_tools(client, &before);
        self.aftermath.writes.extend(saving);
        self.unregistered(client, limit, &gone);
    }

    /// Removes the tools that were registered only for a deleted session.
    pub(crate) fn forget_session(&mut self, session: &SessionId) {
        let owners: Vec<ClientId> = self.registry.of_session(session).iter().map(|tool| tool.client.clone()).collect();
        let before: Vec<_> = owners.iter().map(|client| (client.clone(), self.tools_of(client))).collect();
        for tool in self.registry.forget_session(session) {
            self.unregistered(&tool.client, Some(session), std::slice::from_ref(&tool.id));
        }
        for (client, mut before) in before {
            before.retain(|(id, was)| !self.registry.is_still(id, was.as_ref()));
            let saving = self.save_tools(&client, &before);
            self.aftermath.writes.extend(saving);
        }
    }

    fn unregistered(&mut self, client: &ClientId, session: Option<&SessionId>, ids: &[ToolId]) {
        // When the server stops, all tools go, and no event is sent for that.
        if !ids.is_empty() && self.common.lifecycle() != Lifecycle::Closed {
            self.tell(|| Event::Unregistered(client.clone(), session.cloned(), ids.into()));
        }
        self.forget_if_idle(client);
    }

    /// Notes how long a client's connections want to be waited for. Most want less than what all get.
    pub(super) fn note_grace(&mut self, client_id: &ClientId, limit: Option<&SessionId>, grace: Duration) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let known = client.graces.get(&limit.cloned()).copied().unwrap_or(RESTART_GRACE);
        if grace <= known {
            return;
        }
        client.graces.insert(limit.cloned(), grace);
        if self.registry.count_of(client_id) > 0 && self.common.store.is_lasting() {
            let saving = self.common.store.save_client(self.stored_client(client_id), Vec::new());
            self.aftermath.writes.push(saving);
        }
    }

    /// Changes a client's tools. Also returns those that have changed, as they were before.
    fn change_tools<R>(
        &mut self,
        client: &ClientId,
        change: impl FnOnce(&mut Registry) -> R,
    ) -> (R, Vec<(ToolId, Option<Registered>)>) {
        let mut before = self.tools_of(client);
        let result = change(&mut self.registry);
        before.retain(|(id, was)| !self.registry.is_still(id, was.as_ref()));
        (result, before)
    }

    /// A client's tools as they are.
    fn tools_of(&self, client: &ClientId) -> Vec<(ToolId, Option<Registered>)> {
        let own = self.registry.of_client(client, None);
        own.into_iter().map(|tool| self.registry.as_it_is(tool.id.clone())).collect()
    }

    /// Stores the tools that have changed.
    fn save_tools(&self, client: &ClientId, before: &[(ToolId, Option<Registered>)]) -> Option<StoreFuture<()>> {
        if before.is_empty() || !self.common.store.is_lasting() {
            return None;
        }
        let stored = |(id, was): &(ToolId, Option<Registered>)| -> Option<(ToolName, Option<StoredTool>)> {
            let now = self.registry.get(id);
            let name = now.or(was.as_ref())?.tool.spec.name.clone();
            Some((name, now.map(|now| StoredTool::new(&now.tool.spec, &now.scope))))
        };
        let tools = before.iter().filter_map(stored).collect();
        Some(self.common.store.save_client(self.stored_client(client), tools))
    }

    fn stored_client(&self, id: &ClientId) -> StoredClient {
        let known = self.clients.get(id);
        let graces = |client: &Client| client.graces.iter().map(|(limit, grace)| (limit.clone(), *grace)).collect();
        StoredClient {
            id: id.clone(),
            since: known.map_or(Time(0), |client| client.since.into()),
            graces: known.map(graces).unwrap_or_default(),
        }
    }
}
