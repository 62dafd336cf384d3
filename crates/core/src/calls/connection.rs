//! A client's connection: a handle that gives what to write next, and releases its calls when it is dropped.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::calls::hub::Hub;
use crate::calls::outbox::Signal;
use crate::calls::pending::LinkId;
use crate::calls::table::{Attach, Next};
use crate::calls::trail;
use crate::id::{ClientId, ConnectionName, EventId, RequestId, SessionId};
use crate::store::CallHead;

/// The settings of a connection that opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The client that opens the connection.
    pub client: ClientId,
    /// The connection's name. It supersedes an older connection with the same name and the same session limit.
    pub name: Option<ConnectionName>,
    /// How long the client's tools and calls stay after the connection closes; clamped to the limit.
    pub grace: Duration,
    /// The only session whose calls it may get; `None` means all calls of the client.
    pub session: Option<SessionId>,
    /// The last frame that the reader saw, if it resumes.
    pub last_seen: Option<EventId>,
}

/// There are too many clients, or too many connections of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many connections; close some or try again later")]
pub struct TooManyConnections;

/// What to write to a connection.
#[derive(Debug)]
pub enum Delivery {
    /// Run this call.
    Request {
        /// The call.
        head: Arc<CallHead>,
        /// The number of the offer, from 1.
        attempt: u32,
        /// The frame's id.
        id: EventId,
    },
    /// The call is over, whatever the client still does.
    Cancel {
        /// The call.
        request: RequestId,
        /// Why the call ended.
        reason: Arc<str>,
        /// The frame's id.
        id: EventId,
    },
    /// A newer connection took over, or the client said goodbye: close, and do not reconnect.
    Superseded,
    /// The server stops: close, and reconnect.
    GoingAway,
}

/// An open connection. Dropping it closes it: its calls go to another connection of the client, wait for its return, or
/// end as disconnected.
pub struct Connection {
    hub: Hub,
    client: ClientId,
    link: LinkId,
    signal: Arc<Signal>,
    name: Option<ConnectionName>,
    opened: Instant,
    /// What its lines in the log belong to: the request that opened it.
    span: tracing::Span,
    /// The connection's own copy, so that connections do not share one reference count.
    epoch: Arc<str>,
}

impl Hub {
    /// Opens a connection. From now on the client gets its calls.
    pub fn connect(&self, opening: Opening) -> Result<Connection, TooManyConnections> {
        let Opening { client, name, grace, session, last_seen } = opening;
        let attach = Attach {
            client: client.clone(),
            name: name.clone(),
            grace: grace.min(self.limits().largest_grace),
            limit: session,
            last_seen: last_seen.filter(|id| id.epoch == self.0.epoch).map(|id| id.number),
        };
        let wall = self.0.clock.now();
        let opened = Instant::now();
        let attached = self.of_client(&client, |table| table.attach(attach, opened, wall));
        let (link, signal) = attached.ok_or(TooManyConnections)?;
        trail::connected(&client, name.as_ref());
        let (span, epoch) = (tracing::Span::current(), (*self.0.epoch).into());
        Ok(Connection { hub: self.clone(), client, link, signal, name, opened, span, epoch })
    }

    /// Closes the connection with this name and limit, without grace, because it will not return. If it was the last
    /// one with that limit, the tools registered under the limit are removed, and calls that no other connection can
    /// take end as disconnected.
    pub fn say_goodbye(&self, client: &ClientId, name: &ConnectionName, limit: Option<&SessionId>) {
        let endings = self.of_client(client, |table| table.say_goodbye(client, name, limit, Instant::now()));
        endings.into_iter().for_each(|ending| self.journal_in_background(ending));
    }
}

impl Connection {
    /// The client that holds the connection.
    pub fn client(&self) -> &ClientId {
        &self.client
    }

    /// What to write next. A call that this returns counts as offered to the client.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Delivery> {
        let id = |number| EventId { epoch: self.epoch.clone(), number };
        while self.signal.lower(context.waker()) {
            let next = self.hub.of_client(&self.client, |table| table.next(&self.client, self.link, Instant::now()));
            return Poll::Ready(match next {
                Next::Offer { head, attempt, number } => {
                    self.span.in_scope(|| trail::offered(&head, attempt, self.name.as_ref()));
                    Delivery::Request { head, attempt, id: id(number) }
                }
                Next::Cancel { request, reason, number } => Delivery::Cancel { request, reason, id: id(number) },
                Next::Superseded => Delivery::Superseded,
                Next::Closed => Delivery::GoingAway,
                // The signal was raised for something that is no longer there.
                Next::Wait => continue,
            });
        }
        Poll::Pending
    }

    /// What to write next. Cancel safe.
    pub async fn next(&mut self) -> Delivery {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _entered = self.span.enter();
        trail::disconnected(&self.client, self.name.as_ref(), self.opened.elapsed());
        let endings = self.hub.of_client(&self.client, |table| table.detach(&self.client, self.link, Instant::now()));
        endings.into_iter().for_each(|ending| self.hub.journal_in_background(ending));
    }
}
