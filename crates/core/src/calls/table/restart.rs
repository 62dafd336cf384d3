//! What a table takes over from an earlier process, what it tells a later one, and what it leaves to it.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::time::Instant;

use super::{RESTART_GRACE, Table};
use crate::calls::approval::OpenAsk;
use crate::calls::pending::Stage;
use crate::clock::Clock;
use crate::id::{ClientId, RequestId, SessionId};
use crate::store::{Ask, CallHead, Executor, JournaledCall, Origin};

impl Table {
    /// Enters a call that an earlier process left open. It may be offered again, unless it waits for its ask or is denied.
    pub(crate) fn reopen(&mut self, call: JournaledCall, clock: &Clock, now: Instant) -> u64 {
        let JournaledCall { head, offered, ask, claimant, denied } = call;
        let wall = clock.now();
        let later = |at: SystemTime| now + at.duration_since(wall).unwrap_or_default();
        let head = Arc::new(CallHead { expires: later(head.deadline), ..CallHead::clone(&head) });
        let request = head.request.clone();
        let (client, executor) = (head.client().clone(), head.tool.executor);
        if executor == Executor::Client {
            // Nobody but the client can run the call, so it is waited for.
            self.expect(&client, None, now + RESTART_GRACE, wall);
        }
        let number = self.enter(head.clone(), offered, None, now);
        if let Some(known) = self.calls.get_mut(&request) {
            known.attempt = offered.saturating_add(u32::from(executor == Executor::Client || offered == 0));
            known.may_have_run = offered > 0;
            known.is_kept = head.origin == Origin::Application;
            known.claimant = claimant;
            known.asked = ask.as_ref().map(|(id, _)| id.clone());
        }
        match ask {
            _ if denied.is_some() => {}
            Some((id, created)) => {
                let until = self.approval_ends(created, wall, now);
                self.ask(OpenAsk { ask: Arc::new(Ask { id, call: head, created }), tell: Vec::new() }, until);
            }
            None => self.admit(&request, now),
        }
        number
    }

    /// Waits for a client of an earlier process until that time.
    pub(crate) fn expect(&mut self, client_id: &ClientId, limit: Option<&SessionId>, until: Instant, wall: SystemTime) {
        let Some(client) = self.client_mut(client_id, wall) else { return };
        let absence = client.absences.entry(limit.cloned()).or_default();
        let until = absence.kept_until.map_or(until, |known| known.max(until));
        absence.kept_until = Some(until);
        self.set_expiry(client_id, limit, Some(until));
    }

    /// Notes that the journal knows of an offer.
    pub(crate) fn note(&mut self, request: &RequestId, offered: u32) {
        if let Some(call) = self.calls.get_mut(request) {
            call.noted = call.noted.max(offered);
        }
    }

    /// An offer is journaled, or could not be: it is written now, or journaled once more.
    pub(crate) fn noted(&mut self, request: &RequestId, offered: u32, now: Instant) {
        self.note(request, offered);
        let Some(call) = self.calls.get_mut(request) else { return };
        call.is_noting = false;
        if call.stage == Stage::Waiting {
            self.assign(request, now);
        }
    }

    /// Tells everybody who waits for a call that it goes on in another process.
    pub(crate) fn dismiss_waiters(&mut self) {
        self.calls.values_mut().for_each(|call| call.waiters.dismiss());
    }
}
