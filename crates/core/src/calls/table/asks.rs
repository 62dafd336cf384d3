//! Calls that wait for the answer to an ask.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use tokio::time::Instant;

use super::Table;
use crate::calls::approval::OpenAsk;
use crate::clock::Time;
use crate::events::Event;
use crate::id::{PermissionId, RequestId, SessionId};
use crate::store::{Ask, CallHead, Reply};

impl Table {
    /// Lets a call wait for its ask until that time, and tells listeners.
    pub(crate) fn ask(&mut self, open: OpenAsk, until: Instant) {
        let ask = open.ask.clone();
        if self.hold(open, until) {
            self.tell(|| Event::Asked(ask));
        }
    }

    /// Lets a call wait for its ask until that time. Returns whether the call is open.
    pub(crate) fn hold(&mut self, open: OpenAsk, until: Instant) -> bool {
        let ask = open.ask.clone();
        let Some(call) = self.calls.get_mut(&ask.call.request) else { return false };
        call.asked = Some(ask.id.clone());
        call.ask = Some(Box::new(open));
        self.asks.insert(ask.id.clone(), ask.call.request.clone());
        self.common.asks.fetch_add(1, Ordering::Release);
        self.set_deadline(&ask.call.request, Some(until));
        true
    }

    /// When the time for an ask is over that was made at that time.
    pub(crate) fn approval_ends(&self, created: Time, wall: SystemTime, now: Instant) -> Instant {
        let at = SystemTime::from(created) + self.common.limits.clocks.approval_timeout;
        now + at.duration_since(wall).unwrap_or_default()
    }

    pub(crate) fn find_ask(&self, id: &PermissionId) -> Option<Arc<Ask>> {
        let call = self.calls.get(self.asks.get(id)?)?;
        call.ask.as_ref().map(|open| open.ask.clone())
    }

    /// The open asks of one session or of all.
    pub(crate) fn open_asks(&self, session: Option<&SessionId>) -> Vec<Arc<Ask>> {
        let calls = self.asks.values().filter_map(|request| self.calls.get(request)?.ask.as_ref());
        let asks = calls.map(|open| open.ask.clone());
        asks.filter(|ask| session.is_none_or(|session| ask.call.session == *session)).collect()
    }

    /// Takes an ask in order to answer it. Nobody else can answer it any more, and it no longer expires.
    pub(crate) fn take_ask(&mut self, id: &PermissionId) -> Option<OpenAsk> {
        let request = self.remove_ask(id)?;
        self.set_deadline(&request, None);
        self.calls.get_mut(&request)?.ask.take().map(|open| *open)
    }

    pub(super) fn remove_ask(&mut self, id: &PermissionId) -> Option<RequestId> {
        let request = self.asks.remove(id)?;
        self.common.asks.fetch_sub(1, Ordering::Release);
        Some(request)
    }

    /// Allows a call, which continues with `head`, unless it has ended meanwhile.
    pub(crate) fn approve(&mut self, open: OpenAsk, reply: Reply, head: Arc<CallHead>, now: Instant) {
        self.tell(|| Event::Answered(open.ask, reply));
        let Some(call) = self.calls.get_mut(&head.request) else { return };
        (call.head, call.asked) = (head.clone(), None);
        let request = head.request.clone();
        // If a caller is gone, the call may be about to be cancelled.
        open.tell.into_iter().for_each(|tell| _ = tell.send(head.clone()));
        self.admit(&request, now);
    }

    /// Reports an ask as rejected.
    pub(crate) fn reject(&mut self, ask: &Arc<Ask>) {
        self.tell(|| Event::Answered(ask.clone(), Reply::Reject));
    }
}
