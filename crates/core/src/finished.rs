//! Calls that are over, remembered for late and repeated answers: who they belonged to and a hash of the answer.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::call::{CallHead, FinishedCall};
use crate::id::{ClientId, RequestId, SessionId};
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
    /// The call, if the journal failed to take its end.
    pub(crate) unjournaled: Option<Arc<FinishedCall>>,
    at: Instant,
}

/// The last finished calls: at most so many, for at most so long; the oldest are forgotten first.
#[derive(Debug)]
pub(crate) struct Finished {
    calls: HashMap<RequestId, Remembered>,
    /// The oldest first.
    order: VecDeque<(Instant, RequestId)>,
    most: usize,
    longest: Duration,
}

impl Finished {
    pub(crate) fn new(most: usize, longest: Duration) -> Self {
        Self { calls: HashMap::default(), order: VecDeque::new(), most, longest }
    }

    pub(crate) fn insert(&mut self, head: &CallHead, end: End, now: Instant) {
        let (client, session) = (head.client().clone(), head.session.clone());
        let entry = Remembered { client, session, executor: head.tool.executor, end, unjournaled: None, at: now };
        self.calls.insert(head.request.clone(), entry);
        self.order.push_back((now, head.request.clone()));
        while self.order.len() > self.most {
            self.forget_oldest();
        }
    }

    pub(crate) fn get(&self, request: &RequestId, now: Instant) -> Option<&Remembered> {
        self.calls.get(request).filter(|call| now < call.at + self.longest)
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

    /// Forgets what is too old. An id is not remembered twice: a call cannot be made under an id that is.
    pub(crate) fn forget_old(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(at, _)| now >= *at + self.longest) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((_, request)) = self.order.pop_front() {
            self.calls.remove(&request);
        }
    }
}
