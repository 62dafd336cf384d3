//! What the lock of a shard guards: every transition of its clients' calls, tools and connections. Nothing here waits.
//! How connections come and go is in `connections`.
//!
//! A connection, or a registration of tools, may be limited to one session. Connections and tools with the same limit
//! expire together, and with them the calls that no other connection can take.
//!
//! Invariants, checked by the property tests: a client's call is in `calls` and in its `open`, or in neither; it is in
//! `deadlines` while it is on its way or waits to be allowed; a call that is assigned or offered is so to an open
//! connection of its client; a connection's `load` is the number of those; a client is known while it has tools,
//! connections, calls, or somebody may still come back for it.

mod asks;
mod connections;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::finished::{End, Finished};
use crate::calls::metrics::Metrics;
use crate::calls::outbox::{Item, Outbox};
use crate::calls::pending::{LinkId, PendingCall, Stage, Waiters};
use crate::calls::shards::{Common, Lifecycle};
use crate::clock::{SHARDS, named_by};
use crate::events::Event;
use crate::id::{ClientId, ConnectionName, PermissionId, RequestId, SessionId, ToolId};
use crate::store::{CallHead, Executor, FinishedCall, Outcome, Reply, ToolSpec};
use crate::tools::{Placement, Rate, RegisterError, Registry};
use ahash::HashMap;

/// Outboxes of connections that left, kept per client for their return; the oldest are dropped.
const PARKED: usize = 4;

/// A client's connection, while it is open.
#[derive(Debug)]
struct Link {
    id: LinkId,
    name: Option<ConnectionName>,
    /// How long its client's tools and calls stay when it is gone.
    grace: Duration,
    outbox: Outbox,
    /// How many calls it holds.
    load: usize,
}

impl Link {
    fn takes(&self, head: &CallHead) -> bool {
        covers(self.outbox.limit.as_ref(), head)
    }

    fn is_of(&self, limit: Option<&SessionId>) -> bool {
        self.outbox.limit.as_ref() == limit
    }
}

/// Whether those who are limited to a session, or not at all, may be given a call.
fn covers(limit: Option<&SessionId>, head: &CallHead) -> bool {
    limit.is_none_or(|session| *session == head.session)
}

#[derive(Debug)]
struct Client {
    since: SystemTime,
    links: Vec<Link>,
    parked: VecDeque<Outbox>,
    /// Calls under way, in their order.
    open: Vec<(u64, RequestId)>,
    /// For each limit, how long the client is kept without a connection.
    absences: BTreeMap<Option<SessionId>, Absence>,
    /// Connections that were lost and may return.
    lost: Vec<Lost>,
}

/// A connection that was lost and may return.
#[derive(Debug)]
struct Lost {
    limit: Option<SessionId>,
    name: Option<ConnectionName>,
    /// Until when the calls that prefer it wait for it.
    preferred_until: Instant,
    /// Until when it asked for its client to be kept.
    kept_until: Instant,
}

impl Lost {
    fn is(&self, limit: Option<&SessionId>, name: Option<&ConnectionName>) -> bool {
        self.limit.as_ref() == limit && self.name.as_ref() == name
    }
}

/// How long it is waited for those of one limit to connect.
#[derive(Debug, Default)]
struct Absence {
    /// Until when a connection that left had asked for its client to be kept.
    kept_until: Option<Instant>,
    /// When they go unless they connect; the entry in `expiries`.
    expires: Option<Instant>,
}

/// What a connection asks for when it opens.
#[derive(Debug, Clone)]
pub(crate) struct Attach {
    pub(crate) client: ClientId,
    pub(crate) name: Option<ConnectionName>,
    pub(crate) grace: Duration,
    pub(crate) limit: Option<SessionId>,
    pub(crate) last_seen: Option<u64>,
}

/// A call that has just ended: the one terminal transition, to be journaled and told.
#[derive(Debug)]
#[must_use = "its waiters wait"]
pub(crate) struct Ending {
    pub(crate) call: Arc<FinishedCall>,
    pub(crate) waiters: Waiters,
}

/// What a connection is to write next.
#[derive(Debug)]
pub(crate) enum Next {
    Offer {
        head: Arc<CallHead>,
        attempt: u32,
        number: u64,
    },
    Cancel {
        request: RequestId,
        reason: Arc<str>,
        number: u64,
    },
    /// Nothing now; the connection's signal says when.
    Wait,
    /// A newer connection took over, or the client said goodbye.
    Superseded,
    /// The server stops, and everything else was written.
    Closed,
}

/// A row of the list of clients.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// The client.
    pub id: ClientId,
    /// How many connections it holds.
    pub connections: usize,
    /// How many tools it has.
    pub tools: usize,
    /// How many calls are under way.
    pub calls: usize,
    /// Since when it is known.
    pub since: SystemTime,
}

/// Some tasks to wake; most often none or one.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    pub(crate) fn wake(self) {
        self.first.into_iter().chain(self.others).for_each(Waker::wake);
    }
}

impl Extend<Waker> for Wakers {
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        for waker in wakers {
            match &mut self.first {
                none @ None => *none = Some(waker),
                Some(_) => self.others.push(waker),
            }
        }
    }
}

/// What is left to do after a change, once the lock is free.
#[derive(Debug, Default)]
pub(crate) struct Aftermath {
    /// What happened, for whoever listens, with its place among what else happens in the shard.
    pub(crate) told: Option<(u64, Vec<Event>)>,
    /// Whom to wake.
    pub(crate) wakers: Wakers,
    /// Calls that are no longer remembered, and whose ids do not say in which shard they were.
    pub(crate) forgotten: Vec<(RequestId, u64)>,
    /// Whether housekeeping has to look sooner than it knows.
    pub(crate) is_due_sooner: bool,
}

#[derive(Debug)]
pub(crate) struct Table {
    shard: u16,
    /// The number of the newest call.
    last_number: u64,
    /// What happened here, counted.
    pub(crate) metrics: Metrics,
    pub(crate) common: Arc<Common>,
    pub(crate) registry: Registry,
    pub(crate) calls: HashMap<RequestId, PendingCall>,
    pub(crate) finished: Finished,
    /// How many calls the clients may be asked for by models, and by the application.
    pub(crate) model_rate: Rate,
    pub(crate) execute_rate: Rate,
    clients: HashMap<ClientId, Client>,
    asks: HashMap<PermissionId, RequestId>,
    /// When calls end unless somebody ends them before: they are out of time, or nobody has allowed them.
    deadlines: BTreeMap<(Instant, u64), RequestId>,
    /// When those of a limit go.
    expiries: BTreeSet<(Instant, ClientId, Option<SessionId>)>,
    /// When calls no longer wait for a lost connection. An entry may be outdated: then nothing waits.
    returns: BTreeSet<(Instant, ClientId)>,
    wakers: Wakers,
    forgotten: Vec<(RequestId, u64)>,
    is_due_sooner: bool,
    told: Vec<Event>,
    /// How often something was told.
    tickets: u64,
}

impl Table {
    pub(crate) fn new(shard: u16, common: Arc<Common>) -> Self {
        Self {
            shard,
            last_number: shard.into(),
            metrics: Metrics::default(),
            registry: Registry::new(common.owners.clone()),
            calls: HashMap::default(),
            finished: Finished::new(common.clone()),
            model_rate: Rate::per_minute(common.limits.calls_per_minute),
            execute_rate: Rate::per_minute(common.limits.execute_per_minute),
            clients: HashMap::default(),
            asks: HashMap::default(),
            deadlines: BTreeMap::new(),
            expiries: BTreeSet::new(),
            returns: BTreeSet::new(),
            wakers: Wakers::default(),
            forgotten: Vec::new(),
            is_due_sooner: false,
            told: Vec::new(),
            tickets: 0,
            common,
        }
    }

    /// Takes what is left to do.
    pub(crate) fn take_aftermath(&mut self) -> Aftermath {
        let (told, wakers) = (std::mem::take(&mut self.told), std::mem::take(&mut self.wakers));
        let told = (!told.is_empty()).then(|| {
            self.tickets += 1;
            (self.tickets - 1, told)
        });
        let (forgotten, is_due_sooner) = (std::mem::take(&mut self.forgotten), std::mem::take(&mut self.is_due_sooner));
        Aftermath { told, wakers, forgotten, is_due_sooner }
    }

    /// Something happened, for whoever listens.
    fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.common.topics.have_listeners() {
            self.told.push(event());
        }
    }

    /// Something is due at that time.
    fn look_by(&mut self, due: Instant) {
        self.is_due_sooner |= self.common.look_by(due);
    }

    fn client_mut(&mut self, client: &ClientId, wall: SystemTime) -> Option<&mut Client> {
        if !self.clients.contains_key(client) {
            let known = &self.common.clients;
            if known.fetch_add(1, Ordering::Relaxed) >= self.common.limits.clients {
                known.fetch_sub(1, Ordering::Relaxed);
                return None;
            }
            let new = Client {
                since: wall,
                links: Vec::new(),
                parked: VecDeque::new(),
                open: Vec::new(),
                absences: BTreeMap::new(),
                lost: Vec::new(),
            };
            self.clients.insert(client.clone(), new);
        }
        self.clients.get_mut(client)
    }

    // Tools

    pub(crate) fn register(
        &mut self,
        client: &ClientId,
        placement: &Placement,
        specs: Vec<ToolSpec>,
        now: Instant,
        wall: SystemTime,
    ) -> Result<Vec<ToolId>, RegisterError> {
        if self.client_mut(client, wall).is_none() {
            return Err(RegisterError::TooManyClients);
        }
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
        self.forget_if_idle(client);
        registered
    }

    pub(crate) fn unregister(
        &mut self,
        client: &ClientId,
        session: Option<&SessionId>,
        which: Option<&[String]>,
    ) -> Vec<ToolId> {
        let ids = self.registry.unregister(client, session, which);
        self.unregistered(client, session, &ids);
        ids
    }

    fn unregistered(&mut self, client: &ClientId, session: Option<&SessionId>, ids: &[ToolId]) {
        // When the server stops, all of them go: that is nothing to tell.
        if !ids.is_empty() && self.common.lifecycle() != Lifecycle::Closed {
            self.tell(|| Event::Unregistered(client.clone(), session.cloned(), ids.into()));
        }
        self.forget_if_idle(client);
    }

    /// A session is gone, and with it the tools that were only there.
    pub(crate) fn forget_session(&mut self, session: &SessionId) {
        for tool in self.registry.forget_session(session) {
            self.unregistered(&tool.client, Some(session), std::slice::from_ref(&tool.id));
        }
    }

    // Calls

    /// A number for a call. Each shard has its own, so that a number never means two calls.
    fn next_number(&mut self) -> u64 {
        self.last_number += u64::from(SHARDS);
        self.last_number
    }

    /// How many calls of a client are under way.
    pub(crate) fn open_calls(&self, client: &ClientId) -> usize {
        self.clients.get(client).map_or(0, |client| client.open.len())
    }

    /// Whether a call of that id is under way, or remembered.
    pub(crate) fn knows(&self, request: &RequestId) -> bool {
        self.calls.contains_key(request) || self.finished.get(request, Instant::now()).is_some()
    }

    /// Enters a call of a registered tool, with its waiter, and gives its number. It is not offered before `admit`.
    pub(crate) fn enter(
        &mut self,
        head: Arc<CallHead>,
        preferred: Option<ConnectionName>,
        waiter: oneshot::Sender<Arc<FinishedCall>>,
        now: Instant,
    ) -> u64 {
        // Given under the lock: a client's calls are in the order of their numbers.
        let (number, request) = (self.next_number(), head.request.clone());
        // A frontend's call belongs to no connection: it is there until it is acknowledged, or its time is over.
        if head.tool.executor == Executor::Client {
            // A client is known while it has tools; without it the call could not be given to anybody.
            let Some(client) = self.clients.get_mut(head.client()) else { return number };
            client.open.push((number, request.clone()));
        }
        self.calls.insert(request, PendingCall::new(head, number, preferred, waiter, now));
        self.metrics.started();
        number
    }

    /// The call may go to its client.
    pub(crate) fn admit(&mut self, request: &RequestId, now: Instant) {
        let Some(call) = self.calls.get_mut(request) else { return };
        call.approve(now);
        let head = call.head.clone();
        match head.tool.executor {
            Executor::Client => self.assign(request, now),
            Executor::Frontend => call.show(now),
        }
        self.set_deadline(request, Some(head.expires));
        self.tell_of(&head);
    }

    /// Sets when a call ends unless somebody ends it before.
    fn set_deadline(&mut self, request: &RequestId, due: Option<Instant>) {
        let Some(call) = self.calls.get_mut(request) else { return };
        let number = call.number;
        if let Some(before) = std::mem::replace(&mut call.due, due) {
            self.deadlines.remove(&(before, number));
        }
        if let Some(due) = due {
            self.deadlines.insert((due, number), request.clone());
            self.look_by(due);
        }
    }

    /// A call is on its way.
    fn tell_of(&mut self, head: &Arc<CallHead>) {
        self.tell(|| Event::Requested(head.clone()));
        self.tell(|| Event::Executing(head.clone()));
    }

    /// Gives a waiting call to the connection that it prefers, or else to the one with the least to do, the newest of
    /// several. While the preferred one is lost and may return, the call waits.
    fn assign(&mut self, request: &RequestId, now: Instant) {
        let Some(call) = self.calls.get_mut(request) else { return };
        let Some(client) = self.clients.get_mut(call.head.client()) else { return };
        let preferred = call.preferred.as_ref();
        let is_other = |link: &Link| preferred.is_some() && link.name.as_ref() != preferred;
        let is_there = client.links.iter().any(|link| link.takes(&call.head) && !is_other(link));
        if !is_there && preferred.is_some_and(|name| client.waits_for(name, &call.head, now)) {
            return;
        }
        let links = client.links.iter_mut().rev().filter(|link| link.takes(&call.head));
        let Some(link) = links.min_by_key(|link| (is_other(link), link.load)) else { return };
        call.assign(link.id, now);
        link.load += 1;
        self.wakers.extend(link.outbox.push(Item::Offer(request.clone())));
    }

    /// Gives the calls of a client that wait to its connections.
    fn assign_waiting(&mut self, client_id: &ClientId, now: Instant) {
        let Some(client) = self.clients.get(client_id).filter(|client| !client.links.is_empty()) else { return };
        for request in client.open_calls() {
            if self.calls.get(&request).is_some_and(|call| call.stage == Stage::Waiting) {
                self.assign(&request, now);
            }
        }
    }

    /// Ends a call: the one terminal transition. `None` if it has ended already.
    /// `answer` is the hash of a client's answer, if it is one.
    pub(crate) fn finish(
        &mut self,
        request: &RequestId,
        outcome: Outcome,
        answer: Option<u64>,
        now: Instant,
    ) -> Option<Ending> {
        let mut call = self.calls.remove(request)?;
        if let Some(due) = call.due {
            self.deadlines.remove(&(due, call.number));
        }
        if let Some(open) = call.ask.take() {
            self.remove_ask(&open.ask.id);
            self.tell(|| Event::Answered(open.ask.clone(), Reply::Reject));
        }
        if call.stage == Stage::AwaitingApproval && call.head.tool.executor == Executor::Client {
            // It never came to that; but a listener is told the same of every call. A frontend would act on it.
            self.tell_of(&call.head);
        }
        let client_id = call.head.client();
        if let Some(client) = self.clients.get_mut(client_id) {
            if let Ok(place) = client.open.binary_search_by_key(&call.number, |(number, _)| *number) {
                client.open.remove(place);
            }
            let link = call.link().and_then(|id| client.links.iter_mut().find(|link| link.id == id));
            let told = match (link, call.stage, call.last_offer) {
                (Some(link), stage, _) => {
                    link.load -= 1;
                    // What was not written yet is passed over when its turn comes.
                    matches!(stage, Stage::Offered(_)).then_some(&mut link.outbox)
                }
                // The reader that was given it is away, and hears of it on its return.
                (None, _, Some(offer)) => client.parked.iter_mut().find(|outbox| outbox.stream == offer.stream),
                (None, _, None) => None,
            };
            if answer.is_none()
                && let Some(outbox) = told
            {
                let reason = outcome.failure().unwrap_or_default().into();
                self.wakers.extend(outbox.push(Item::Cancel(request.clone(), reason)));
            }
        }
        let (attempt, phases) = (call.attempt, call.phases(now));
        let finished = Arc::new(FinishedCall { attempt, phases, head: call.head, outcome });
        self.remember(&finished, call.number, answer.map_or(End::Otherwise, End::Answered), now);
        self.forget_if_idle(finished.head.client());
        self.tell(|| Event::Finished(finished.clone()));
        Some(Ending { call: finished, waiters: call.waiters })
    }

    /// Remembers a call of an earlier process, and gives the number that it has here.
    pub(crate) fn recall(&mut self, call: &Arc<FinishedCall>, at: Instant) -> u64 {
        let number = self.next_number();
        let end = call.outcome.answer_hash().map_or(End::Otherwise, End::Answered);
        self.remember(call, number, end, at);
        self.finished.journaled(&call.head.request);
        number
    }

    /// Remembers a call that is over, for late and repeated answers.
    fn remember(&mut self, call: &Arc<FinishedCall>, number: u64, end: End, at: Instant) {
        let forgotten = self.finished.insert(call, number, end, at);
        self.give_back(forgotten);
    }

    /// Calls are no longer remembered. Ids that name this shard were never taken anywhere else.
    fn give_back(&mut self, forgotten: Vec<(RequestId, u64)>) {
        let shard = self.shard;
        self.forgotten.extend(forgotten.into_iter().filter(|(request, _)| named_by(request) != Some(shard)));
    }

    /// Forgets clients that have made no use of their rates lately.
    pub(crate) fn forget_idle_rates(&mut self) {
        self.model_rate.forget_idle();
        self.execute_rate.forget_idle();
    }

    // Listings and shutting down

    pub(crate) fn clients(&self) -> Vec<ClientInfo> {
        self.clients.keys().filter_map(|id| self.client(id, None)).collect()
    }

    /// A client, as those of that limit see it.
    pub(crate) fn client(&self, id: &ClientId, limit: Option<&SessionId>) -> Option<ClientInfo> {
        let client = self.clients.get(id)?;
        let is_seen = |request: &RequestId| self.calls.get(request).is_some_and(|call| covers(limit, &call.head));
        Some(ClientInfo {
            id: id.clone(),
            connections: client.links.iter().filter(|link| limit.is_none() || link.is_of(limit)).count(),
            tools: self.registry.of_client(id, limit).len(),
            calls: client.open.iter().filter(|(_, request)| is_seen(request)).count(),
            since: client.since,
        })
    }

    /// How many clients and connections there are.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.clients.len(), self.clients.values().map(|client| client.links.len()).sum())
    }

    /// Wakes all connections: they are told to go once what they still have to be told is written.
    pub(crate) fn wake_connections(&mut self) {
        for client in self.clients.values() {
            for link in &client.links {
                self.wakers.extend(link.outbox.signal().raise());
            }
        }
    }
}

impl Client {
    /// Its calls under way, the oldest first.
    fn open_calls(&self) -> Vec<RequestId> {
        self.open.iter().map(|(_, request)| request.clone()).collect()
    }

    fn has_links_of(&self, limit: Option<&SessionId>) -> bool {
        self.links.iter().any(|link| link.is_of(limit))
    }

    /// When those of a limit go.
    fn expires(&self, limit: Option<&SessionId>) -> Option<Instant> {
        self.absences.get(&limit.cloned())?.expires
    }

    /// Whether somebody who may be given a call is connected, or has asked to be waited for.
    fn has_taker(&self, head: &CallHead, now: Instant) -> bool {
        let may_return = |(limit, absence): (&Option<SessionId>, &Absence)| {
            covers(limit.as_ref(), head) && absence.kept_until.is_some_and(|until| until > now)
        };
        self.links.iter().any(|link| link.takes(head)) || self.absences.iter().any(may_return)
    }

    /// Whether a connection of that name that may be given a call was lost and may return.
    fn waits_for(&self, name: &ConnectionName, head: &CallHead, now: Instant) -> bool {
        let is_it = |lost: &Lost| lost.name.as_ref() == Some(name) && covers(lost.limit.as_ref(), head);
        self.lost.iter().any(|lost| is_it(lost) && lost.preferred_until > now)
    }

    /// Until when those of a limit have asked to be waited for.
    fn kept_until(&self, limit: Option<&SessionId>, now: Instant) -> Option<Instant> {
        let lost = self.lost.iter().filter(|lost| lost.limit.as_ref() == limit);
        lost.map(|lost| lost.kept_until).max().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests;
