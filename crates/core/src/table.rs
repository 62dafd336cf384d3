//! What the hub's one lock guards: every transition of calls, tools and connections. Nothing here waits. How
//! connections come and go is in `connections`.
//!
//! A connection may be limited to one session, and so may whoever registers tools. Those of one limit come and go
//! together and by their own clock: they take their own tools along, and calls that nobody else is there for.
//!
//! Invariants, checked by the property tests: a client's call is in `calls` and in its `open`, or in neither; a call
//! that is assigned or offered is so to an open connection of its client; a connection's `load` is the number of
//! those; a client is known while it has tools, connections, calls, or somebody may still come back for it.

mod connections;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::call::{Call, CallHead, FinishedCall, LinkId, Outcome, Stage, Waiters};
use crate::event::{Event, Events};
use crate::finished::{End, Finished};
use crate::id::{ClientId, ConnectionName, PermissionId, RequestId, SessionId, ToolId};
use crate::limits::Limits;
use crate::outbox::{Item, Outbox};
use crate::permission::{Ask, OpenAsk, Reply};
use crate::registry::{Placement, RegisterError, Registry};
use crate::tool::{Executor, ToolSpec};
use ahash::HashMap;

/// Outboxes of connections that left, kept per client for their return; the oldest are dropped.
const PARKED: usize = 4;

/// How far the server is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lifecycle {
    Serving,
    /// No new calls; those under way may finish.
    Draining,
    /// No calls; connections are told to go.
    Closed,
}

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
    /// How long it is waited for those of each limit.
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

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) registry: Registry,
    pub(crate) calls: HashMap<RequestId, Call>,
    pub(crate) finished: Finished,
    pub(crate) lifecycle: Lifecycle,
    clients: HashMap<ClientId, Client>,
    asks: HashMap<PermissionId, RequestId>,
    /// When those of a limit go.
    expiries: BTreeSet<(Instant, ClientId, Option<SessionId>)>,
    /// When calls no longer wait for a lost connection. An entry may be outdated: then nothing waits.
    returns: BTreeSet<(Instant, ClientId)>,
    /// Counts calls, connections, streams and frames. Over all clients, so that a number never means two things.
    counter: u64,
    /// Whom to wake once the lock is free.
    wakers: Wakers,
    limits: Arc<Limits>,
    events: Events,
}

impl Table {
    pub(crate) fn new(limits: Arc<Limits>, events: Events) -> Self {
        Self {
            registry: Registry::default(),
            calls: HashMap::default(),
            finished: Finished::new(limits.remembered_calls, limits.remembered_for),
            lifecycle: Lifecycle::Serving,
            clients: HashMap::default(),
            asks: HashMap::default(),
            expiries: BTreeSet::new(),
            returns: BTreeSet::new(),
            counter: 0,
            wakers: Wakers::default(),
            limits,
            events,
        }
    }

    /// Takes whom to wake.
    pub(crate) fn take_wakers(&mut self) -> Wakers {
        std::mem::take(&mut self.wakers)
    }

    fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    fn client_mut(&mut self, client: &ClientId, wall: SystemTime) -> Option<&mut Client> {
        if !self.clients.contains_key(client) {
            if self.clients.len() >= self.limits.clients {
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
        let registered = self.registry.register(client, placement, specs, &self.limits);
        if let Ok(ids) = &registered
            && !ids.is_empty()
        {
            let session = placement.session();
            self.events.emit(|| Event::Registered(client.clone(), session.cloned(), ids.as_slice().into()));
            let (until, limit) = (now + self.limits.unconnected_tools, placement.limit());
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
        if !ids.is_empty() {
            self.events.emit(|| Event::Unregistered(client.clone(), session.cloned(), ids.into()));
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

    /// How many calls of a client are under way.
    pub(crate) fn open_calls(&self, client: &ClientId) -> usize {
        self.clients.get(client).map_or(0, |client| client.open.len())
    }

    /// Enters a call of a registered tool, with its waiter. It is not offered before `admit`.
    pub(crate) fn enter(
        &mut self,
        head: Arc<CallHead>,
        preferred: Option<ConnectionName>,
        waiter: oneshot::Sender<Arc<FinishedCall>>,
        now: Instant,
    ) {
        let number = self.next_number();
        let request = head.request.clone();
        // A frontend's call belongs to no connection: it is there until it is acknowledged, or its time is over.
        if head.tool.executor == Executor::Client {
            // A client is known while it has tools; without it the call could not be given to anybody.
            let Some(client) = self.clients.get_mut(head.client()) else { return };
            client.open.push((number, request.clone()));
        }
        self.calls.insert(request, Call::new(head, number, preferred, waiter, now));
    }

    /// The call may go to its client.
    pub(crate) fn admit(&mut self, request: &RequestId, now: Instant) {
        if let Some(call) = self.calls.get_mut(request) {
            call.approve(now);
            self.events.emit(|| Event::Requested(call.head.clone()));
            self.events.emit(|| Event::Executing(call.head.clone()));
            match call.head.tool.executor {
                Executor::Client => self.assign(request, now),
                Executor::Frontend => call.show(now),
            }
        }
    }

    /// The call has to be allowed first.
    pub(crate) fn ask(&mut self, open: OpenAsk) {
        let ask = open.ask.clone();
        if let Some(call) = self.calls.get_mut(&ask.call.request) {
            call.ask = Some(Box::new(open));
            self.asks.insert(ask.id.clone(), ask.call.request.clone());
            self.events.emit(|| Event::Asked(ask));
        }
    }

    /// An ask that is open.
    pub(crate) fn find_ask(&self, id: &PermissionId) -> Option<Arc<Ask>> {
        let call = self.calls.get(self.asks.get(id)?)?;
        call.ask.as_ref().map(|open| open.ask.clone())
    }

    /// The asks that are open, of one session or of all.
    pub(crate) fn open_asks(&self, session: Option<&SessionId>) -> Vec<Arc<Ask>> {
        let calls = self.asks.values().filter_map(|request| self.calls.get(request)?.ask.as_ref());
        let asks = calls.map(|open| open.ask.clone());
        asks.filter(|ask| session.is_none_or(|session| ask.call.session == *session)).collect()
    }

    /// Takes an ask to answer it with a yes; nobody else can from now on.
    pub(crate) fn take_ask(&mut self, id: &PermissionId) -> Option<OpenAsk> {
        let request = self.asks.remove(id)?;
        self.calls.get_mut(&request)?.ask.take().map(|open| *open)
    }

    /// The call is allowed, and is from now on what `head` says; unless it has ended meanwhile.
    pub(crate) fn approve(&mut self, open: OpenAsk, reply: Reply, head: Arc<CallHead>, now: Instant) {
        self.events.emit(|| Event::Answered(open.ask, reply));
        let Some(call) = self.calls.get_mut(&head.request) else { return };
        call.head = head.clone();
        let request = head.request.clone();
        // Whoever made the call starts the clock; if that one is gone, the call is about to be cancelled.
        _ = open.tell.send(head);
        self.admit(&request, now);
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
        if let Some(open) = call.ask.take() {
            self.asks.remove(&open.ask.id);
            self.events.emit(|| Event::Answered(open.ask.clone(), Reply::Reject));
        }
        if call.stage == Stage::AwaitingApproval && call.head.tool.executor == Executor::Client {
            // It never came to that; but a listener is told the same of every call. A frontend would act on it.
            self.events.emit(|| Event::Requested(call.head.clone()));
            self.events.emit(|| Event::Executing(call.head.clone()));
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
        self.finished.insert(&call.head, answer.map_or(End::Otherwise, End::Answered), now);
        self.finished.forget_old(now);
        self.forget_if_idle(call.head.client());
        let finished =
            Arc::new(FinishedCall { attempt: call.attempt, phases: call.phases(now), head: call.head, outcome });
        self.events.emit(|| Event::Finished(finished.clone()));
        Some(Ending { call: finished, waiters: call.waiters })
    }

    // Listings and shutting down

    pub(crate) fn clients(&self) -> Vec<ClientInfo> {
        let mut rows: Vec<_> = self.clients.keys().filter_map(|id| self.client(id, None)).collect();
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        rows
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

    pub(crate) fn count_connections(&self) -> usize {
        self.clients.values().map(|client| client.links.len()).sum()
    }

    pub(crate) fn count_clients(&self) -> usize {
        self.clients.len()
    }

    /// Tells all connections to go, once what they still have to be told is written.
    pub(crate) fn close(&mut self) {
        self.lifecycle = Lifecycle::Closed;
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
