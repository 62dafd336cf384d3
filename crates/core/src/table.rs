//! What the hub's one lock guards: every transition of calls, tools and connections. Nothing here waits.
//!
//! Invariants, checked by the property tests: a client's call is in `calls` and in its `open`, or in neither; a call
//! that is assigned or offered is so to an open connection of its client; a connection's `load` is the number of
//! those; a client is known while it has tools, connections, calls, or somebody may still come back for it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::call::{Call, CallHead, FinishedCall, LinkId, Outcome, Stage, StreamId, Waiters};
use crate::event::{Event, Events};
use crate::finished::{End, Finished};
use crate::id::{ClientId, ConnectionName, PermissionId, RequestId, SessionId, ToolId};
use crate::limits::Limits;
use crate::outbox::{Item, Outbox, Signal};
use crate::permission::{Ask, OpenAsk, Reply};
use crate::registry::{RegisterError, Registry};
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
    /// The only session whose calls it may be given.
    session: Option<SessionId>,
    outbox: Outbox,
    /// How many calls it holds.
    load: usize,
}

impl Link {
    fn takes(&self, head: &CallHead) -> bool {
        self.session.as_ref().is_none_or(|session| *session == head.session)
    }
}

#[derive(Debug)]
struct Client {
    since: SystemTime,
    links: Vec<Link>,
    parked: VecDeque<Outbox>,
    /// Calls under way, in their order.
    open: Vec<(u64, RequestId)>,
    /// Until when a connection that left had asked for its client to be kept.
    kept_until: Option<Instant>,
    /// When the client goes unless it connects; its entry in `expiries`.
    expires: Option<Instant>,
}

/// What a connection asks for when it opens.
#[derive(Debug, Clone)]
pub(crate) struct Attach {
    pub(crate) client: ClientId,
    pub(crate) name: Option<ConnectionName>,
    pub(crate) grace: Duration,
    pub(crate) session: Option<SessionId>,
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
    expiries: BTreeSet<(Instant, ClientId)>,
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
                kept_until: None,
                expires: None,
            };
            self.clients.insert(client.clone(), new);
        }
        self.clients.get_mut(client)
    }

    // Tools

    pub(crate) fn register(
        &mut self,
        client: &ClientId,
        session: Option<&SessionId>,
        specs: Vec<ToolSpec>,
        now: Instant,
        wall: SystemTime,
    ) -> Result<Vec<ToolId>, RegisterError> {
        if self.client_mut(client, wall).is_none() {
            return Err(RegisterError::TooManyClients);
        }
        let registered = self.registry.register(client, session, specs, &self.limits);
        if let Ok(ids) = &registered
            && !ids.is_empty()
        {
            self.events.emit(|| Event::Registered(client.clone(), ids.as_slice().into()));
            let until = now + self.limits.unconnected_tools;
            if let Some(known) = self.clients.get(client)
                && known.links.is_empty()
                && known.expires.is_none_or(|expires| expires < until)
            {
                self.set_expiry(client, Some(until));
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
        if !ids.is_empty() {
            self.events.emit(|| Event::Unregistered(client.clone(), ids.as_slice().into()));
        }
        self.forget_if_idle(client);
        ids
    }

    /// A session is gone, and with it the tools that were only there.
    pub(crate) fn forget_session(&mut self, session: &SessionId) {
        for tool in self.registry.forget_session(session) {
            self.events.emit(|| Event::Unregistered(tool.client.clone(), [tool.id.clone()].into()));
            self.forget_if_idle(&tool.client);
        }
    }

    // Calls

    /// How many calls of a client are under way.
    pub(crate) fn open_calls(&self, client: &ClientId) -> usize {
        self.clients.get(client).map_or(0, |client| client.open.len())
    }

    /// Enters a call of a registered tool, with its waiter. It is not offered before `admit`.
    pub(crate) fn enter(&mut self, head: Arc<CallHead>, waiter: oneshot::Sender<Arc<FinishedCall>>, now: Instant) {
        let number = self.next_number();
        let request = head.request.clone();
        // A frontend's call belongs to no connection: it is there until it is acknowledged, or its time is over.
        if head.tool.executor == Executor::Client {
            // A client is known while it has tools; without it the call could not be given to anybody.
            let Some(client) = self.clients.get_mut(head.client()) else { return };
            client.open.push((number, request.clone()));
        }
        self.calls.insert(request, Call::new(head, number, waiter, now));
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

    /// Gives a waiting call to the connection with the least to do, the newest of several.
    fn assign(&mut self, request: &RequestId, now: Instant) {
        let Some(call) = self.calls.get_mut(request) else { return };
        let Some(client) = self.clients.get_mut(call.head.client()) else { return };
        let links = client.links.iter_mut().rev();
        let Some(link) = links.filter(|link| link.takes(&call.head)).min_by_key(|link| link.load) else { return };
        call.assign(link.id, now);
        link.load += 1;
        self.wakers.extend(link.outbox.push(Item::Offer(request.clone())));
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

    // Connections

    /// Opens a connection: takes over from an older one of the same name or stream, and gets the calls that wait.
    /// `None` if there are too many.
    pub(crate) fn attach(&mut self, attach: Attach, now: Instant, wall: SystemTime) -> Option<(LinkId, Arc<Signal>)> {
        let Attach { client: client_id, name, grace, session, last_seen } = attach;
        let (id, fresh_stream) = (LinkId(self.next_number()), StreamId(self.next_number()));
        let (replay, most) = (self.limits.replay, self.limits.connections_per_client);
        let client = self.client_mut(&client_id, wall)?;
        let older = client.links.iter().filter(|link| {
            (name.is_some() && link.name == name) || last_seen.is_some_and(|number| link.outbox.knows(number))
        });
        let older: Vec<LinkId> = older.map(|link| link.id).collect();
        if older.is_empty() && client.links.len() >= most {
            return None;
        }
        for older in older {
            self.supersede(&client_id, older, now);
        }
        let client = self.clients.get_mut(&client_id)?;
        let resumed = last_seen.and_then(|number| {
            let index = client.parked.iter().position(|outbox| outbox.knows(number))?;
            let mut outbox = client.parked.remove(index)?;
            outbox.resume_after(number);
            Some((number, outbox))
        });
        let (seen, outbox) = match resumed {
            Some((number, outbox)) => (Some(number), outbox),
            None => (None, Outbox::new(fresh_stream, replay)),
        };
        let (stream, signal) = (outbox.stream, outbox.signal().clone());
        // Perhaps it is to be told something already; it looks once, and then waits.
        self.wakers.extend(signal.raise());
        client.links.push(Link { id, name, grace, session, outbox, load: 0 });
        let open: Vec<RequestId> = client.open_calls();
        self.set_expiry(&client_id, None);
        for request in open {
            if let Some(seen) = seen {
                self.take_up(&request, id, stream, seen, now);
            }
            if self.calls.get(&request).is_some_and(|call| call.stage == Stage::Waiting) {
                self.assign(&request, now);
            }
        }
        Some((id, signal))
    }

    /// A reader is back: its calls that it had seen go on, those that it had not are in its outbox again.
    fn take_up(&mut self, request: &RequestId, link: LinkId, stream: StreamId, seen: u64, now: Instant) {
        let Some(call) = self.calls.get_mut(request) else { return };
        let Some(offer) = call.last_offer.filter(|offer| offer.stream == stream) else { return };
        if call.stage != Stage::Waiting {
            return;
        }
        if offer.number <= seen {
            call.adopt(link, offer, now);
        } else {
            call.replay(link, offer, now);
        }
        let client = self.clients.get_mut(call.head.client());
        if let Some(link) = client.and_then(|client| client.links.iter_mut().find(|known| known.id == link)) {
            link.load += 1;
        }
    }

    fn supersede(&mut self, client_id: &ClientId, link: LinkId, now: Instant) {
        let Some(link) = self.take_link(client_id, link, now) else { return };
        self.wakers.extend(link.outbox.signal().raise());
        if let Some(client) = self.clients.get_mut(client_id) {
            client.park(link.outbox);
        }
    }

    /// Removes a connection; its calls wait again.
    fn take_link(&mut self, client_id: &ClientId, link: LinkId, now: Instant) -> Option<Link> {
        let client = self.clients.get_mut(client_id)?;
        let index = client.links.iter().position(|known| known.id == link)?;
        let removed = client.links.remove(index);
        for (_, request) in &client.open {
            if let Some(call) = self.calls.get_mut(request)
                && call.link() == Some(link)
            {
                call.requeue(now);
            }
        }
        Some(removed)
    }

    /// Closes a connection: its calls go to another of the client, wait for its return, or end with the client.
    pub(crate) fn detach(&mut self, client_id: &ClientId, link: LinkId, now: Instant) -> Vec<Ending> {
        let Some(removed) = self.take_link(client_id, link, now) else { return Vec::new() };
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        if removed.grace > Duration::ZERO {
            client.kept_until = client.kept_until.max(Some(now + removed.grace));
            client.park(removed.outbox);
        }
        if !client.links.is_empty() {
            let open: Vec<RequestId> = client.open_calls();
            for request in open {
                if self.calls.get(&request).is_some_and(|call| call.stage == Stage::Waiting) {
                    self.assign(&request, now);
                }
            }
            return Vec::new();
        }
        match client.kept_until.filter(|until| *until > now) {
            Some(until) => {
                self.set_expiry(client_id, Some(until));
                Vec::new()
            }
            None => self.expire(client_id, now),
        }
    }

    /// Closes a connection that says that it will not return: no grace is kept for it. One that is lost already takes
    /// its client's grace back when the client has no other. `session`: only a connection that is limited to it.
    pub(crate) fn say_goodbye(
        &mut self,
        client_id: &ClientId,
        name: &ConnectionName,
        session: Option<&SessionId>,
        now: Instant,
    ) -> Vec<Ending> {
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        if client.links.is_empty() && session.is_none() {
            return self.expire(client_id, now);
        }
        let leaves = |link: &&mut Link| {
            link.name.as_ref() == Some(name) && (session.is_none() || link.session.as_ref() == session)
        };
        let Some(link) = client.links.iter_mut().find(leaves) else { return Vec::new() };
        link.grace = Duration::ZERO;
        self.wakers.extend(link.outbox.signal().raise());
        let id = link.id;
        self.detach(client_id, id, now)
    }

    /// A client is gone for good: its tools are unregistered, its calls end.
    fn expire(&mut self, client_id: &ClientId, now: Instant) -> Vec<Ending> {
        self.set_expiry(client_id, None);
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        client.parked.clear();
        client.kept_until = None;
        let open: Vec<RequestId> = client.open_calls();
        let endings =
            open.iter().filter_map(|request| self.finish(request, Outcome::Disconnected, None, now)).collect();
        self.unregister(client_id, None, None);
        self.forget_if_idle(client_id);
        endings
    }

    /// Ends what has expired, and says when to look again.
    pub(crate) fn expire_due(&mut self, now: Instant) -> (Vec<Ending>, Option<Instant>) {
        self.finished.forget_old(now);
        let mut endings = Vec::new();
        while let Some((at, client)) = self.expiries.first().cloned() {
            if at > now {
                return (endings, Some(at));
            }
            endings.extend(self.expire(&client, now));
        }
        (endings, None)
    }

    fn set_expiry(&mut self, client_id: &ClientId, expires: Option<Instant>) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        if let Some(before) = std::mem::replace(&mut client.expires, expires) {
            self.expiries.remove(&(before, client_id.clone()));
        }
        if let Some(at) = expires {
            self.expiries.insert((at, client_id.clone()));
        } else {
            client.kept_until = None;
        }
    }

    fn forget_if_idle(&mut self, client_id: &ClientId) {
        let Some(client) = self.clients.get(client_id) else { return };
        let waited_for = client.kept_until.is_some() && client.expires.is_some();
        let idle = client.links.is_empty() && client.open.is_empty() && !waited_for;
        if idle && self.registry.count_of(client_id) == 0 {
            self.set_expiry(client_id, None);
            self.clients.remove(client_id);
        }
    }

    /// What a connection is to write next; nothing twice.
    pub(crate) fn next(&mut self, client_id: &ClientId, link: LinkId, now: Instant) -> Next {
        let Some(client) = self.clients.get_mut(client_id) else { return Next::Superseded };
        let Some(link) = client.links.iter_mut().find(|known| known.id == link) else { return Next::Superseded };
        while let Some((before, item)) = link.outbox.pop() {
            let number = before.unwrap_or(self.counter + 1);
            let next = match &item {
                Item::Cancel(request, reason) => {
                    Next::Cancel { request: request.clone(), reason: reason.clone(), number }
                }
                Item::Offer(request) => match self.calls.get_mut(request) {
                    Some(call) if call.stage == Stage::Assigned(link.id) => {
                        call.offer(link.id, link.outbox.stream, number, now);
                        Next::Offer { head: call.head.clone(), attempt: call.attempt, number }
                    }
                    // It has ended, or another connection has it.
                    _ => continue,
                },
            };
            self.counter = self.counter.max(number);
            link.outbox.record(number, item);
            if self.lifecycle == Lifecycle::Closed || !link.outbox.is_empty() {
                link.outbox.signal().look_again();
            }
            return next;
        }
        if self.lifecycle == Lifecycle::Closed { Next::Closed } else { Next::Wait }
    }

    // Listings and shutting down

    pub(crate) fn clients(&self) -> Vec<ClientInfo> {
        let rows = self.clients.iter().map(|(id, client)| ClientInfo {
            id: id.clone(),
            connections: client.links.len(),
            tools: self.registry.count_of(id),
            calls: client.open.len(),
            since: client.since,
        });
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by(|one, other| one.id.cmp(&other.id));
        rows
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

    /// Keeps an outbox for its reader's return.
    fn park(&mut self, outbox: Outbox) {
        if self.parked.len() == PARKED {
            self.parked.pop_front();
        }
        self.parked.push_back(outbox);
    }
}

#[cfg(test)]
mod tests;
