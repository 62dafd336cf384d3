//! Connections of clients: how they open, supersede older ones and close, and what happens to their calls.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use tokio::time::Instant;

use super::{Attach, Client, Ending, Link, Lost, Next, PARKED, Table, covers};
use crate::calls::outbox::{Item, Outbox, Signal};
use crate::calls::pending::{LinkId, Stage, StreamId};
use crate::calls::shards::Lifecycle;
use crate::id::{ClientId, ConnectionName, RequestId, SessionId};
use crate::store::Outcome;

impl Table {
    /// Opens a connection: it supersedes an older one with the same limit and the same name or stream, and gets the
    /// waiting calls. `None` if there are too many connections.
    pub(crate) fn attach(&mut self, attach: Attach, now: Instant, wall: SystemTime) -> Option<(LinkId, Arc<Signal>)> {
        let Attach { client: client_id, name, grace, limit, last_seen } = attach;
        let (id, fresh_stream) = (LinkId(self.common.next_number()), StreamId(self.common.next_number()));
        let (replay, most) = (self.common.limits.replay, self.common.limits.connections_per_client);
        let client = self.client_mut(&client_id, wall)?;
        let alike: Vec<&Link> = client.links.iter().filter(|link| link.is_of(limit.as_ref())).collect();
        let is_older = |link: &&&Link| {
            (name.is_some() && link.name == name) || last_seen.is_some_and(|number| link.outbox.knows(number))
        };
        let older: Vec<LinkId> = alike.iter().filter(is_older).map(|link| link.id).collect();
        if older.is_empty() && alike.len() >= most {
            return None;
        }
        for older in older {
            self.supersede(&client_id, older, now);
        }
        let client = self.clients.get_mut(&client_id)?;
        let resumed = last_seen.and_then(|number| {
            let is_it = |outbox: &Outbox| outbox.limit == limit && outbox.knows(number);
            let index = client.parked.iter().position(is_it)?;
            let mut outbox = client.parked.remove(index)?;
            outbox.resume_after(number);
            Some((number, outbox))
        });
        let (seen, mut outbox) = match resumed {
            Some((number, outbox)) => (Some(number), outbox),
            None => (None, Outbox::new(fresh_stream, limit.clone(), replay)),
        };
        let (stream, signal) = (outbox.stream, outbox.signal().clone());
        // The outbox may have items already, so the connection looks once before it waits.
        self.aftermath.wakers.extend(signal.raise());
        client.lost.retain(|lost| !lost.is(limit.as_ref(), name.as_ref()));
        // The client is back: from now on the open connections decide how long it is kept.
        let alike = client.lost.iter_mut().filter(|lost| lost.limit == limit);
        alike.for_each(|lost| lost.kept_until = lost.kept_until.min(now));
        for (head, reason) in std::mem::take(&mut client.owed) {
            match covers(limit.as_ref(), &head) {
                // The connection looks once before it waits.
                true => _ = outbox.push(Item::Cancel(head.request.clone(), reason)),
                false => client.owed.push_back((head, reason)),
            }
        }
        client.links.push(Link { id, name, grace, outbox, load: 0 });
        let open = client.open_calls();
        self.set_expiry(&client_id, limit.as_ref(), None);
        self.note_grace(&client_id, limit.as_ref(), grace);
        if let Some(seen) = seen {
            open.iter().for_each(|request| self.take_up(request, id, stream, seen, now));
        }
        self.assign_waiting(&client_id, now);
        Some((id, signal))
    }

    /// Takes up the calls of a reader that resumes: calls that it had seen go on, the others are in its outbox again.
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
        self.aftermath.wakers.extend(link.outbox.signal().raise());
        if let Some(client) = self.clients.get_mut(client_id) {
            client.park(link.outbox);
        }
    }

    /// Removes a connection. Its calls wait again.
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

    /// Closes a connection. Its calls go to another one of the client, wait for its return, or end with its limit.
    pub(crate) fn detach(&mut self, client_id: &ClientId, link: LinkId, now: Instant) -> Vec<Ending> {
        let Some(removed) = self.take_link(client_id, link, now) else { return Vec::new() };
        if self.common.is_leaving() {
            // The client comes back to the next process.
            return Vec::new();
        }
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        let limit = removed.outbox.limit.clone();
        if removed.grace > Duration::ZERO {
            client.park(removed.outbox);
            let preferred_until = now + removed.grace.min(self.common.limits.preferred_connection);
            let kept_until = now + removed.grace;
            let lost = Lost { limit: limit.clone(), name: removed.name, preferred_until, kept_until };
            client.lose(lost, self.common.limits.connections_per_client, now);
            self.returns.insert((preferred_until, client_id.clone()));
            self.look_by(preferred_until);
        }
        self.wait_for(client_id, limit.as_ref(), now)
    }

    /// After a connection has gone: assigns its calls to others, waits for a return, or lets its limit expire.
    fn wait_for(&mut self, client_id: &ClientId, limit: Option<&SessionId>, now: Instant) -> Vec<Ending> {
        self.assign_waiting(client_id, now);
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        if client.has_links_of(limit) {
            return Vec::new();
        }
        let kept_until = client.kept_until(limit, now);
        if kept_until.is_none() {
            return self.expire(client_id, limit, now);
        }
        client.absences.entry(limit.cloned()).or_default().kept_until = kept_until;
        self.set_expiry(client_id, limit, kept_until);
        Vec::new()
    }

    /// Closes a connection that will not return, without grace. If it is already lost, only its own grace is taken
    /// back. An unknown connection changes nothing.
    pub(crate) fn say_goodbye(
        &mut self,
        client_id: &ClientId,
        name: &ConnectionName,
        limit: Option<&SessionId>,
        now: Instant,
    ) -> Vec<Ending> {
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        let before = client.lost.len();
        client.lost.retain(|lost| !lost.is(limit, Some(name)));
        let was_lost = client.lost.len() < before;
        let leaves = |link: &&mut Link| link.name.as_ref() == Some(name) && link.is_of(limit);
        let Some(link) = client.links.iter_mut().find(leaves) else {
            return if was_lost { self.wait_for(client_id, limit, now) } else { Vec::new() };
        };
        link.grace = Duration::ZERO;
        self.aftermath.wakers.extend(link.outbox.signal().raise());
        let id = link.id;
        self.detach(client_id, id, now)
    }

    /// Expires a limit: its tools are unregistered, and calls that no other connection can take end.
    fn expire(&mut self, client_id: &ClientId, limit: Option<&SessionId>, now: Instant) -> Vec<Ending> {
        self.set_expiry(client_id, limit, None);
        let Some(client) = self.clients.get_mut(client_id) else { return Vec::new() };
        client.parked.retain(|outbox| outbox.limit.as_ref() != limit);
        client.lost.retain(|lost| lost.limit.as_ref() != limit);
        let is_left = |request: &RequestId| {
            let call = self.calls.get(request);
            call.is_some_and(|call| super::covers(limit, &call.head) && !client.has_taker(&call.head, now))
        };
        let left: Vec<RequestId> = client.open_calls().into_iter().filter(is_left).collect();
        let endings =
            left.iter().filter_map(|request| self.finish(request, Outcome::Disconnected, None, now)).collect();
        // Calls no longer wait for lost connections of this limit.
        self.assign_waiting(client_id, now);
        self.expire_tools(client_id, limit);
        endings
    }

    /// Does everything that is due, and returns when to look again.
    pub(crate) fn expire_due(&mut self, now: Instant) -> (Vec<Ending>, Option<Instant>) {
        if self.common.is_leaving() {
            return (Vec::new(), None);
        }
        let forgotten = self.finished.forget_old(now);
        self.give_back(forgotten);
        while self.returns.first().is_some_and(|(at, _)| *at <= now) {
            let Some((_, client_id)) = self.returns.pop_first() else { break };
            self.assign_waiting(&client_id, now);
        }
        let mut endings = Vec::new();
        while self.expiries.first().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, client_id, limit)) = self.expiries.pop_first() else { break };
            match self.clients.get(&client_id).is_some_and(|client| client.is_used_elsewhere(limit.as_ref())) {
                true => self.set_expiry(&client_id, limit.as_ref(), Some(now + self.common.limits.unconnected_tools)),
                false => endings.extend(self.expire(&client_id, limit.as_ref(), now)),
            }
        }
        endings.extend(self.end_overdue(now));
        let next = [
            self.deadlines.first_key_value().map(|((at, _), _)| *at),
            self.returns.first().map(|(at, _)| *at),
            self.expiries.first().map(|(at, ..)| *at),
        ];
        (endings, next.into_iter().flatten().min())
    }

    /// Ends the calls that take too long, and those whose asks nobody answered in time.
    fn end_overdue(&mut self, now: Instant) -> Vec<Ending> {
        let mut endings = Vec::new();
        while self.deadlines.first_key_value().is_some_and(|((due, _), _)| *due <= now) {
            let Some((_, request)) = self.deadlines.pop_first() else { break };
            endings.extend(self.end_if_overdue(&request, now));
        }
        endings
    }

    /// Ends a call if its time is over.
    pub(crate) fn end_if_overdue(&mut self, request: &RequestId, now: Instant) -> Option<Ending> {
        let call = self.calls.get(request).filter(|call| call.due.is_some_and(|due| due <= now))?;
        let outcome = match &call.ask {
            Some(_) => Outcome::Denied("Denied: the approval expired".to_owned()),
            None => Outcome::Timeout(call.head.timeout),
        };
        self.finish(request, outcome, None, now)
    }

    /// Sets when a limit expires unless somebody connects. `None`: a connection is open, or the limit has expired.
    pub(super) fn set_expiry(&mut self, client_id: &ClientId, limit: Option<&SessionId>, expires: Option<Instant>) {
        let Some(client) = self.clients.get_mut(client_id) else { return };
        let absence = client.absences.entry(limit.cloned()).or_default();
        if let Some(before) = std::mem::replace(&mut absence.expires, expires) {
            self.expiries.remove(&(before, client_id.clone(), limit.cloned()));
        }
        match expires {
            Some(at) => {
                self.expiries.insert((at, client_id.clone(), limit.cloned()));
                self.look_by(at);
            }
            None => _ = client.absences.remove(&limit.cloned()),
        }
    }

    pub(super) fn forget_if_idle(&mut self, client_id: &ClientId) {
        let Some(client) = self.clients.get(client_id) else { return };
        let is_awaited = |absence: &super::Absence| absence.kept_until.is_some() && absence.expires.is_some();
        let idle = client.links.is_empty() && client.open.is_empty() && !client.absences.values().any(is_awaited);
        if idle
            && self.registry.count_of(client_id) == 0
            && let Some(client) = self.clients.remove(client_id)
        {
            self.common.clients.fetch_sub(1, Ordering::Relaxed);
            for (limit, absence) in client.absences {
                if let Some(expires) = absence.expires {
                    self.expiries.remove(&(expires, client_id.clone(), limit));
                }
            }
        }
    }

    /// What a connection is to write next. Nothing is returned twice.
    pub(crate) fn next(&mut self, client_id: &ClientId, link: LinkId, now: Instant) -> Next {
        let Some(client) = self.clients.get_mut(client_id) else { return Next::Superseded };
        let Some(link) = client.links.iter_mut().find(|known| known.id == link) else { return Next::Superseded };
        while let Some((before, item)) = link.outbox.pop() {
            let number = || before.unwrap_or_else(|| self.common.next_number());
            let (number, next) = match &item {
                Item::Cancel(request, reason) => {
                    let number = number();
                    (number, Next::Cancel { request: request.clone(), reason: reason.clone(), number })
                }
                Item::Offer(request) => match self.calls.get_mut(request) {
                    Some(call) if call.stage == Stage::Assigned(link.id) => {
                        let number = number();
                        call.offer(link.id, link.outbox.stream, number, now);
                        (number, Next::Offer { head: call.head.clone(), attempt: call.attempt, number })
                    }
                    // The call has ended, or another connection has it. The entry stays, in case call and reader come
                    // back.
                    _ => {
                        if let Some(number) = before {
                            link.outbox.record(number, item);
                        }
                        continue;
                    }
                },
            };
            link.outbox.record(number, item);
            if self.common.lifecycle() == Lifecycle::Closed || !link.outbox.is_empty() {
                link.outbox.signal().look_again();
            }
            return next;
        }
        if self.common.lifecycle() == Lifecycle::Closed { Next::Closed } else { Next::Wait }
    }
}

impl Client {
    /// Keeps an outbox for a reader that resumes.
    fn park(&mut self, outbox: Outbox) {
        let is_alike = |parked: &Outbox| parked.limit == outbox.limit;
        if self.parked.iter().filter(|parked| is_alike(parked)).count() >= PARKED
            && let Some(oldest) = self.parked.iter().position(is_alike)
        {
            self.parked.remove(oldest);
        }
        self.parked.push_back(outbox);
    }

    /// Remembers a connection that may return. If a limit has too many, its oldest is forgotten.
    fn lose(&mut self, new: Lost, most: usize, now: Instant) {
        let is_awaited = |lost: &Lost| lost.kept_until.max(lost.preferred_until) > now;
        self.lost.retain(|lost| is_awaited(lost) && !lost.is(new.limit.as_ref(), new.name.as_ref()));
        let is_alike = |lost: &Lost| lost.limit == new.limit;
        if self.lost.iter().filter(|lost| is_alike(lost)).count() >= most
            && let Some(oldest) = self.lost.iter().position(is_alike)
        {
            self.lost.remove(oldest);
        }
        self.lost.push(new);
    }

    /// Whether tools that were registered for the whole client, which never had a connection without a limit, are used
    /// by connections limited to a session.
    fn is_used_elsewhere(&self, limit: Option<&SessionId>) -> bool {
        let has_left = |absence: &super::Absence| absence.kept_until >= absence.expires;
        limit.is_none() && !self.links.is_empty() && !self.absences.get(&None).is_some_and(has_left)
    }
}
