//! What the lock of a shard guards: every transition of its clients' calls, tools and connections. Nothing here waits.
//! `connections` has the opening and closing of connections.
//!
//! A connection or a registration of tools may be limited to one session. Connections and tools with the same limit
//! expire together, and with them the calls that no other connection can take.
//!
//! Invariants, checked by the property tests: a client's call is in `calls` and in its client's `open`, or in neither.
//! It is in `deadlines` while it is on its way or waits for its ask. A call that is assigned or offered has an open
//! connection of its client, and that connection's `load` counts it. A client is known while it has tools, connections
//! or calls, or while somebody may still come back for it.

mod asks;
mod connections;
mod restart;
mod tools;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::{Duration, SystemTime};

use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

pub(crate) use self::tools::ToolChange;
use crate::calls::finished::{End, Finished};
use crate::calls::metrics::Metrics;
use crate::calls::outbox::{Item, Outbox};
use crate::calls::pending::{LinkId, PendingCall, Stage, Waiters};
use crate::calls::shards::Common;
use crate::clock::{SHARDS, named_by};
use crate::events::Event;
use crate::id::{ClientId, ConnectionName, PermissionId, RequestId, SessionId};
use crate::store::{
    CallHead, Cancellation, Executor, FinishedCall, JournaledCall, Origin, Outcome, Reply, StoreFuture,
};
use crate::tools::{Rate, Registry};
use ahash::HashMap;

/// How many outboxes of closed connections are kept for each limit of a client, for a resume. The oldest are dropped.
const PARKED: usize = 4;

/// How many cancels a client is owed at most. The oldest are dropped.
const MOST_OWED: usize = 64;

/// How long the clients of an earlier process are waited for at least.
const RESTART_GRACE: Duration = Duration::from_secs(30);

/// An open connection of a client.
#[derive(Debug)]
struct Link {
    id: LinkId,
    name: Option<ConnectionName>,
    /// How long its client's tools and calls stay after it closes.
    grace: Duration,
    outbox: Outbox,
    /// How many calls the connection holds.
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

/// Whether a connection with this limit may get a call.
fn covers(limit: Option<&SessionId>, head: &CallHead) -> bool {
    limit.is_none_or(|session| *session == head.session)
}

#[derive(Debug)]
struct Client {
    since: SystemTime,
    links: Vec<Link>,
    parked: VecDeque<Outbox>,
    /// Open calls, in their order.
    open: Vec<(u64, RequestId)>,
    /// For each limit, how long the client is kept without a connection.
    absences: BTreeMap<Option<SessionId>, Absence>,
    /// Connections that were lost and may return.
    lost: Vec<Lost>,
    /// Cancels for the next connection: nobody knows which one had the calls, in an earlier process perhaps.
    owed: VecDeque<(Arc<CallHead>, Arc<str>)>,
    /// For each limit, how long its connections want to be waited for, if that is long.
    graces: BTreeMap<Option<SessionId>, Duration>,
}

#[derive(Debug)]
struct Lost {
    limit: Option<SessionId>,
    name: Option<ConnectionName>,
    /// Until when calls that prefer this connection wait for it.
    preferred_until: Instant,
    /// Until when the client is kept for this connection.
    kept_until: Instant,
}

impl Lost {
    fn is(&self, limit: Option<&SessionId>, name: Option<&ConnectionName>) -> bool {
        self.limit.as_ref() == limit && self.name.as_ref() == name
    }
}

/// How long the tools and calls of one limit stay without a connection.
#[derive(Debug, Default)]
struct Absence {
    /// Until when the client is kept for a connection that left.
    kept_until: Option<Instant>,
    /// When the limit expires unless somebody connects. `expiries` has the same time.
    expires: Option<Instant>,
}

/// The settings of a connection that opens.
#[derive(Debug, Clone)]
pub(crate) struct Attach {
    pub(crate) client: ClientId,
    pub(crate) name: Option<ConnectionName>,
    pub(crate) grace: Duration,
    pub(crate) limit: Option<SessionId>,
    pub(crate) last_seen: Option<u64>,
}

/// A call that has just ended, by the one terminal transition. It must be journaled, and its waiters answered.
#[derive(Debug)]
#[must_use = "its waiters wait"]
pub(crate) struct Ending {
    pub(crate) call: Arc<FinishedCall>,
    pub(crate) waiters: Waiters,
    /// The request that ended the call, or else the one that opened it: the lines in the log name it.
    pub(crate) span: Span,
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
    /// Nothing now. The connection's signal tells when there is something.
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
    /// How many open calls it has.
    pub calls: usize,
    /// When the server first saw it.
    pub since: SystemTime,
}

/// What is left to do after the lock is released.
#[derive(Default)]
pub(crate) struct Aftermath {
    /// Events for listeners.
    pub(crate) told: Vec<Event>,
    /// The place of these events in the order of the shard's events.
    pub(crate) ticket: u64,
    /// Tasks to wake; usually none or one.
    pub(crate) wakers: SmallVec<[Waker; 1]>,
    /// Calls that are no longer remembered, and whose ids do not name this shard.
    pub(crate) forgotten: Vec<(RequestId, u64)>,
    /// Whether housekeeping must be notified to look sooner.
    pub(crate) is_due_sooner: bool,
    /// Offers to journal before they are written.
    pub(crate) notes: Vec<JournaledCall>,
    /// Writes that nobody waits for.
    pub(crate) writes: Vec<StoreFuture<()>>,
}

pub(crate) struct Table {
    shard: u16,
    /// The number of the newest call.
    last_number: u64,
    pub(crate) metrics: Metrics,
    pub(crate) common: Arc<Common>,
    pub(crate) registry: Registry,
    pub(crate) calls: HashMap<RequestId, PendingCall>,
    pub(crate) finished: Finished,
    /// The rate limits of clients for calls from models, and for calls from the application.
    pub(crate) model_rate: Rate,
    pub(crate) execute_rate: Rate,
    clients: HashMap<ClientId, Client>,
    asks: HashMap<PermissionId, RequestId>,
    /// When calls expire, because they take too long or nobody has answered their asks.
    deadlines: BTreeMap<(Instant, u64), RequestId>,
    /// When the limits of clients expire.
    expiries: BTreeSet<(Instant, ClientId, Option<SessionId>)>,
    /// When calls no longer wait for a lost connection. An entry may be outdated: then nothing waits.
    returns: BTreeSet<(Instant, ClientId)>,
    aftermath: Aftermath,
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
            aftermath: Aftermath::default(),
            common,
        }
    }

    pub(crate) fn take_aftermath(&mut self) -> Aftermath {
        let taken = std::mem::take(&mut self.aftermath);
        self.aftermath.ticket = taken.ticket + u64::from(!taken.told.is_empty());
        taken
    }

    /// Queues an event, if there are listeners.
    fn tell(&mut self, event: impl FnOnce() -> Event) {
        if self.common.topics.have_listeners() {
            self.aftermath.told.push(event());
        }
    }

    /// Lets housekeeping look at that time.
    fn look_by(&mut self, due: Instant) {
        self.aftermath.is_due_sooner |= self.common.look_by(due);
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
                owed: VecDeque::new(),
                graces: BTreeMap::new(),
            };
            self.clients.insert(client.clone(), new);
        }
        self.clients.get_mut(client)
    }

    /// The next number for a call. Shards count in steps of `SHARDS` from different starts, so no two calls share one.
    fn next_number(&mut self) -> u64 {
        self.last_number += u64::from(SHARDS);
        self.last_number
    }

    /// The number of open calls of a client.
    pub(crate) fn open_calls(&self, client: &ClientId) -> usize {
        self.clients.get(client).map_or(0, |client| client.open.len())
    }

    /// Whether a call with this id is open or remembered.
    pub(crate) fn knows(&self, request: &RequestId) -> bool {
        self.calls.contains_key(request) || self.finished.get(request, Instant::now()).is_some()
    }

    /// Enters a call with its waiter and returns its number. The call is not offered before `admit`.
    pub(crate) fn enter(
        &mut self,
        head: Arc<CallHead>,
        noted: u32,
        waiter: Option<oneshot::Sender<Arc<FinishedCall>>>,
        now: Instant,
    ) -> u64 {
        // Numbered under the lock, so that a client's calls are in the order of their numbers.
        let (number, request) = (self.next_number(), head.request.clone());
        // A frontend's call belongs to no connection: it stays until its ack or its deadline.
        if head.tool.executor == Executor::Client {
            // A client is known while it has tools. Without the client, nobody could get the call.
            let Some(client) = self.clients.get_mut(head.client()) else { return number };
            client.open.push((number, request.clone()));
        }
        self.calls.insert(request, PendingCall::new(head, number, noted, waiter, now));
        self.metrics.started();
        number
    }

    /// Removes a call as if it had never been made. Returns its waiters.
    pub(crate) fn withdraw(&mut self, request: &RequestId) -> Option<Waiters> {
        let call = self.calls.remove(request)?;
        self.close(&call);
        self.metrics.withdrawn();
        self.give_back(vec![(request.clone(), call.number)]);
        self.forget_if_idle(call.head.client());
        Some(call.waiters)
    }

    /// A caller gives a call up. If it was the last one, the call is cancelled, unless it is to go on.
    pub(crate) fn leave(&mut self, request: &RequestId, now: Instant) -> Option<Ending> {
        let call = self.calls.get_mut(request)?;
        call.callers = call.callers.saturating_sub(1);
        if call.callers > 0 || call.is_kept || self.common.is_leaving() {
            return None;
        }
        let why = match call.head.origin {
            Origin::Model => Cancellation::TurnStopped,
            Origin::Application => Cancellation::CallerGone,
        };
        self.finish(request, Outcome::Cancelled(why), None, now)
    }

    /// Whether somebody can take a call at once: a connection of its client, or the frontend.
    pub(crate) fn has_taker(&self, head: &CallHead) -> bool {
        let takes = |client: &Client| client.links.iter().any(|link| link.takes(head));
        head.tool.executor == Executor::Frontend || self.clients.get(head.client()).is_some_and(takes)
    }

    /// Lets the call go to its client.
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

    /// Sets when a call expires.
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

    /// Sends the events of a call that is on its way.
    fn tell_of(&mut self, head: &Arc<CallHead>) {
        self.tell(|| Event::Requested(head.clone()));
        self.tell(|| Event::Executing(head.clone()));
    }

    /// Assigns a waiting call to its preferred connection, or else to the one with the least load, the newest of
    /// several. While the preferred connection is lost and may return, the call waits.
    fn assign(&mut self, request: &RequestId, now: Instant) {
        let Some(call) = self.calls.get_mut(request) else { return };
        let Some(client) = self.clients.get_mut(call.head.client()) else { return };
        let preferred = call.head.connection.as_ref();
        let is_other = |link: &Link| preferred.is_some() && link.name.as_ref() != preferred;
        let is_there = client.links.iter().any(|link| link.takes(&call.head) && !is_other(link));
        if !is_there && preferred.is_some_and(|name| client.waits_for(name, &call.head, now)) {
            return;
        }
        let links = client.links.iter_mut().rev().filter(|link| link.takes(&call.head));
        let Some(link) = links.min_by_key(|link| (is_other(link), link.load)) else { return };
        if call.attempt > call.noted {
            // A later process must know that the client may have seen the call, before the client can see it.
            if !std::mem::replace(&mut call.is_noting, true) {
                self.aftermath.notes.push(call.journaled(call.attempt));
            }
            return;
        }
        call.assign(link.id, now);
        link.load += 1;
        self.aftermath.wakers.extend(link.outbox.push(Item::Offer(request.clone())));
    }

    /// Assigns the waiting calls of a client to its connections.
    fn assign_waiting(&mut self, client_id: &ClientId, now: Instant) {
        let Some(client) = self.clients.get(client_id).filter(|client| !client.links.is_empty()) else { return };
        for request in client.open_calls() {
            if self.calls.get(&request).is_some_and(|call| call.stage == Stage::Waiting) {
                self.assign(&request, now);
            }
        }
    }

    /// Ends a call: the one terminal transition. `None` if it has already ended. `answer` is the hash of the client's
    /// answer, if the client answered.
    pub(crate) fn finish(
        &mut self,
        request: &RequestId,
        outcome: Outcome,
        answer: Option<u64>,
        now: Instant,
    ) -> Option<Ending> {
        let mut call = self.calls.remove(request)?;
        if let Some(open) = call.ask.take() {
            self.remove_ask(&open.ask.id);
            self.tell(|| Event::Answered(open.ask.clone(), Reply::Reject));
        }
        if call.stage == Stage::AwaitingApproval && call.head.tool.executor == Executor::Client {
            // It was never sent, but listeners get these events for every call. A frontend would act on them.
            self.tell_of(&call.head);
        }
        self.close(&call);
        if let Some(client) = self.clients.get_mut(call.head.client()) {
            let link = call.link().and_then(|id| client.links.iter_mut().find(|link| link.id == id));
            let told = match (link, call.stage, call.last_offer) {
                (Some(link), stage, _) => {
                    link.load -= 1;
                    // An offer that was not written yet is skipped later.
                    matches!(stage, Stage::Offered(_)).then_some(&mut link.outbox)
                }
                // The reader that was offered the call is away, and gets the cancel when it resumes.
                (None, _, Some(offer)) => client.parked.iter_mut().find(|outbox| outbox.stream == offer.stream),
                (None, _, None) => None,
            };
            let reason = outcome.failure().unwrap_or_default();
            match told {
                _ if answer.is_some() => {}
                Some(outbox) => {
                    self.aftermath.wakers.extend(outbox.push(Item::Cancel(request.clone(), reason.into())));
                }
                None if call.may_have_run && call.link().is_none() => {
                    client.owed.push_back((call.head.clone(), reason.into()));
                    if client.owed.len() > MOST_OWED {
                        client.owed.pop_front();
                    }
                }
                None => {}
            }
        }
        let (attempt, phases, may_have_run) = (call.attempt, call.phases(now), call.may_have_run);
        let ask = call.asked.filter(|_| matches!(outcome, Outcome::Denied(_)));
        let (head, claimant) = (call.head, call.claimant);
        let finished =
            Arc::new(FinishedCall { head, attempt, may_have_run, ask, phases, outcome, claimant, late: None });
        self.remember(&finished, call.number, answer.map_or(End::Otherwise, End::Answered), now);
        self.forget_if_idle(finished.head.client());
        let current = Span::current();
        let span = if current.is_none() { call.span } else { current };
        Some(Ending { call: finished, waiters: call.waiters, span })
    }

    /// Tells listeners that a call is over.
    pub(crate) fn tell_end(&mut self, call: &Arc<FinishedCall>) {
        self.tell(|| Event::Finished(call.clone()));
    }

    /// Takes a call that was removed out of the deadlines and out of its client's open calls.
    fn close(&mut self, call: &PendingCall) {
        if let Some(due) = call.due {
            self.deadlines.remove(&(due, call.number));
        }
        if let Some(client) = self.clients.get_mut(call.head.client())
            && let Ok(place) = client.open.binary_search_by_key(&call.number, |(number, _)| *number)
        {
            client.open.remove(place);
        }
    }

    /// Remembers a finished call, for late and repeated answers.
    fn remember(&mut self, call: &Arc<FinishedCall>, number: u64, end: End, at: Instant) {
        let forgotten = self.finished.insert(call, number, end, at);
        self.give_back(forgotten);
    }

    /// Releases the ids of forgotten calls. Ids that name this shard are in no index.
    fn give_back(&mut self, forgotten: Vec<(RequestId, u64)>) {
        let shard = self.shard;
        self.aftermath.forgotten.extend(forgotten.into_iter().filter(|(request, _)| named_by(request) != Some(shard)));
    }

    /// Forgets the rate counters of clients that have been idle.
    pub(crate) fn forget_idle_rates(&mut self) {
        self.model_rate.forget_idle();
        self.execute_rate.forget_idle();
    }

    // Listings and shutting down

    pub(crate) fn clients(&self) -> Vec<ClientInfo> {
        self.clients.keys().filter_map(|id| self.client(id, None)).collect()
    }

    /// A client, as seen by somebody with that limit.
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

    /// The numbers of clients and connections.
    pub(crate) fn count(&self) -> (usize, usize) {
        (self.clients.len(), self.clients.values().map(|client| client.links.len()).sum())
    }

    /// Wakes all connections. Each is told to close after it has written the rest of its outbox.
    pub(crate) fn wake_connections(&mut self) {
        for client in self.clients.values() {
            for link in &client.links {
                self.aftermath.wakers.extend(link.outbox.signal().raise());
            }
        }
    }
}

impl Client {
    /// The client's open calls, oldest first.
    fn open_calls(&self) -> Vec<RequestId> {
        self.open.iter().map(|(_, request)| request.clone()).collect()
    }

    fn has_links_of(&self, limit: Option<&SessionId>) -> bool {
        self.links.iter().any(|link| link.is_of(limit))
    }

    /// When a limit expires.
    fn expires(&self, limit: Option<&SessionId>) -> Option<Instant> {
        self.absences.get(&limit.cloned())?.expires
    }

    /// Whether a connection that may take the call is open, or is waited for.
    fn has_taker(&self, head: &CallHead, now: Instant) -> bool {
        let may_return = |(limit, absence): (&Option<SessionId>, &Absence)| {
            covers(limit.as_ref(), head) && absence.kept_until.is_some_and(|until| until > now)
        };
        self.links.iter().any(|link| link.takes(head)) || self.absences.iter().any(may_return)
    }

    /// Whether a lost connection with that name may return and take the call.
    fn waits_for(&self, name: &ConnectionName, head: &CallHead, now: Instant) -> bool {
        let is_it = |lost: &Lost| lost.name.as_ref() == Some(name) && covers(lost.limit.as_ref(), head);
        self.lost.iter().any(|lost| is_it(lost) && lost.preferred_until > now)
    }

    /// Until when the client is kept for the lost connections of a limit.
    fn kept_until(&self, limit: Option<&SessionId>, now: Instant) -> Option<Instant> {
        let lost = self.lost.iter().filter(|lost| lost.limit.as_ref() == limit);
        lost.map(|lost| lost.kept_until).max().filter(|until| *until > now)
    }
}

#[cfg(test)]
mod tests;
