//! Calls that are over, remembered for late and repeated answers: who they belonged to and a hash of the answer.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use tokio::time::Instant;

use crate::call::FinishedCall;
use crate::id::{ClientId, RequestId, SessionId};
use crate::shards::Common;
use crate::tool::Executor;
use ahash::HashMap;

/// How a remembered call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// With an answer of this hash.
    Answered(u64),
    /// In any other way.
    Otherwise,
}

#[derive(Debug)]
pub(crate) struct Remembered {
    pub(crate) client: ClientId,
    pub(crate) session: SessionId,
    pub(crate) executor: Executor,
    pub(crate) end: End,
    /// The call itself, while somebody has it: at least until the journal has it.
    pub(crate) call: Weak<FinishedCall>,
    /// The call, if the journal failed to take its end.
    pub(crate) unjournaled: Option<Arc<FinishedCall>>,
    number: u64,
    at: Instant,
}

/// The last finished calls of a shard, for at most so long, and at most so many in all shards: then the oldest are
/// forgotten where another one comes.
#[derive(Debug)]
pub(crate) struct Finished {
    calls: HashMap<RequestId, Remembered>,
    /// The oldest first.
    order: VecDeque<(Instant, RequestId)>,
    common: Arc<Common>,
}

impl Finished {
    pub(crate) fn new(common: Arc<Common>) -> Self {
        Self { calls: HashMap::default(), order: VecDeque::new(), common }
    }

    /// Remembers a call of that number. Gives those that are forgotten for it.
    #[must_use]
    pub(crate) fn insert(
        &mut self,
        call: &Arc<FinishedCall>,
        number: u64,
        end: End,
        now: Instant,
    ) -> Vec<(RequestId, u64)> {
        let head = &call.head;
        let mut forgotten = self.forget_old(now);
        let (client, session) = (head.client().clone(), head.session.clone());
        let executor = head.tool.executor;
        let call = Arc::downgrade(call);
        let entry = Remembered { client, session, executor, end, call, unjournaled: None, number, at: now };
        self.calls.insert(head.request.clone(), entry);
        self.order.push_back((now, head.request.clone()));
        let mut in_all = self.common.remembered.fetch_add(1, Ordering::Relaxed) + 1;
        // The last one stays, however many the others are.
        while in_all > self.common.limits.remembered_calls && self.order.len() > 1 {
            forgotten.extend(self.forget_oldest());
            in_all -= 1;
        }
        forgotten
    }

    pub(crate) fn get(&self, request: &RequestId, now: Instant) -> Option<&Remembered> {
        self.calls.get(request).filter(|call| now < call.at + self.common.limits.remembered_for)
    }

    /// The journal failed to take the end of a call.
    pub(crate) fn not_journaled(&mut self, call: &Arc<FinishedCall>) {
        if let Some(known) = self.calls.get_mut(&call.head.request) {
            known.unjournaled = Some(call.clone());
        }
    }

    /// It took it in the end.
    pub(crate) fn journaled(&mut self, request: &RequestId) {
        if let Some(known) = self.calls.get_mut(request) {
            known.unjournaled = None;
        }
    }

    /// Forgets what is too old, and gives it. An id is not remembered twice: a call cannot be made under an id that is.
    #[must_use]
    pub(crate) fn forget_old(&mut self, now: Instant) -> Vec<(RequestId, u64)> {
        let mut forgotten = Vec::new();
        while self.order.front().is_some_and(|(at, _)| now >= *at + self.common.limits.remembered_for) {
            forgotten.extend(self.forget_oldest());
        }
        forgotten
    }

    fn forget_oldest(&mut self) -> Option<(RequestId, u64)> {
        let (_, request) = self.order.pop_front()?;
        let call = self.calls.remove(&request)?;
        self.common.remembered.fetch_sub(1, Ordering::Relaxed);
        Some((request, call.number))
    }
}
