//! A client's connection: a handle that gives what to write next, and lets go of its calls when it is dropped.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use crate::calls::hub::Hub;
use crate::calls::outbox::Signal;
use crate::calls::pending::LinkId;
use crate::calls::table::{Attach, Next};
use crate::id::{ClientId, ConnectionName, EventId, RequestId, SessionId};
use crate::store::CallHead;

/// What a connection asks for when it opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Whose connection it is.
    pub client: ClientId,
    /// Its name; an older connection of that name, limited to the same session or to none, is superseded.
    pub name: Option<ConnectionName>,
    /// How long the client's tools and calls stay when it closes; clamped to the limit.
    pub grace: Duration,
    /// The only session whose calls it may be given; all of the client's when `None`.
    pub session: Option<SessionId>,
    /// The last frame that the reader saw, if it comes back.
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
        /// Which offer this is, from 1.
        attempt: u32,
        /// The frame's id.
        id: EventId,
    },
    /// This call is over, whatever the client still does.
    Cancel {
        /// The call.
        request: RequestId,
        /// Why.
        reason: Arc<str>,
        /// The frame's id.
        id: EventId,
    },
    /// A newer connection took over, or the client said goodbye: close, and do not come back.
    Superseded,
    /// The server stops: close, and come back.
    GoingAway,
}

/// An open connection. Dropping it closes it: its calls go to another connection of the client, wait for its return, or
/// end as disconnected.
pub struct Connection {
    hub: Hub,
    client: ClientId,
    link: LinkId,
    signal: Arc<Signal>,
    /// A copy of its own, which other connections do not count uses of.
    epoch: Arc<str>,
}

impl Hub {
    /// Opens a connection; from here on the client is given its calls.
    pub fn connect(&self, opening: Opening) -> Result<Connection, TooManyConnections> {
        let Opening { client, name, grace, session, last_seen } = opening;
        let attach = Attach {
            client: client.clone(),
            name,
            grace: grace.min(self.limits().largest_grace),
            limit: session,
            last_seen: last_seen.filter(|id| id.epoch == self.0.epoch).map(|id| id.number),
        };
        let wall = self.0.clock.now();
        let attached = self.of_client(&client, |table| table.attach(attach, Instant::now(), wall));
        let (link, signal) = attached.ok_or(TooManyConnections)?;
        Ok(Connection { hub: self.clone(), client, link, signal, epoch: (*self.0.epoch).into() })
    }

    /// Closes the connection of this name and limit, which will not return: no grace is kept for it. If it was the last
    /// of that limit, the tools that were registered under it go, and calls that nobody else is there for end as
    /// disconnected.
    pub fn say_goodbye(&self, client: &ClientId, name: &ConnectionName, limit: Option<&SessionId>) {
        let endings = self.of_client(client, |table| table.say_goodbye(client, name, limit, Instant::now()));
        endings.into_iter().for_each(|ending| self.journal_in_background(ending));
    }
}

impl Connection {
    /// Whose connection it is.
    pub fn client(&self) -> &ClientId {
        &self.client
    }

    /// What to write next. What this gives counts as given to the client.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Delivery> {
        let id = |number| EventId { epoch: self.epoch.clone(), number };
        while self.signal.lower(context.waker()) {
            let next = self.hub.of_client(&self.client, |table| table.next(&self.client, self.link, Instant::now()));
            return Poll::Ready(match next {
                Next::Offer { head, attempt, number } => Delivery::Request { head, attempt, id: id(number) },
                Next::Cancel { request, reason, number } => Delivery::Cancel { request, reason, id: id(number) },
                Next::Superseded => Delivery::Superseded,
                Next::Closed => Delivery::GoingAway,
                // It was raised for something that is no longer there.
                Next::Wait => continue,
            });
        }
        Poll::Pending
    }

    /// What to write next. Safe to drop while it waits.
    pub async fn next(&mut self) -> Delivery {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let endings = self.hub.of_client(&self.client, |table| table.detach(&self.client, self.link, Instant::now()));
        endings.into_iter().for_each(|ending| self.hub.journal_in_background(ending));
    }
}
