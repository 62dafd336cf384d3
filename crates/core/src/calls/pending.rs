//! An open call: its stage and its waiters. Pure: time is an argument.
//!
//! A call only moves forward: `awaiting_approval → queued → offered → done`. A lost connection takes it from `offered`
//! back to `queued`, with `attempt` + 1.

use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Span;

use crate::calls::approval::OpenAsk;
use crate::id::PermissionId;
use crate::store::{CallHead, CallState, FinishedCall, JournaledCall, Phases};

/// Identifies an open connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LinkId(pub(crate) u64);

/// Identifies a reader's stream of frames, which may outlive a connection and go on over the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct StreamId(pub(crate) u64);

/// The state of a call, with details that only the table needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    AwaitingApproval,
    /// No connection has it.
    Waiting,
    /// In a connection's outbox, not yet written.
    Assigned(LinkId),
    /// Written to a connection.
    Offered(LinkId),
    /// Shown to a frontend.
    Shown,
}

/// The last time that a call was written to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastOffer {
    pub(crate) stream: StreamId,
    pub(crate) number: u64,
    pub(crate) attempt: u32,
}

/// Who waits for a call to end: its caller, and everybody who asked since.
#[derive(Debug)]
pub(crate) struct Waiters {
    first: Option<oneshot::Sender<Arc<FinishedCall>>>,
    others: Vec<oneshot::Sender<Arc<FinishedCall>>>,
}

impl Waiters {
    /// Adds a waiter, and drops those that gave up.
    pub(crate) fn add(&mut self, waiter: oneshot::Sender<Arc<FinishedCall>>) {
        self.others.retain(|waiter| !waiter.is_closed());
        self.others.push(waiter);
    }

    /// Drops all waiters without an outcome.
    pub(crate) fn dismiss(&mut self) {
        self.first = None;
        self.others.clear();
    }

    pub(crate) fn tell(&mut self, call: &Arc<FinishedCall>) {
        for waiter in self.first.take().into_iter().chain(self.others.drain(..)) {
            // A waiter may be gone.
            _ = waiter.send(call.clone());
        }
    }
}

/// An open call.
#[derive(Debug)]
pub(crate) struct PendingCall {
    pub(crate) head: Arc<CallHead>,
    /// The order of calls: earlier ones are offered first.
    pub(crate) number: u64,
    pub(crate) stage: Stage,
    pub(crate) attempt: u32,
    /// The last offer that the journal knows of. A later one is journaled before it is written.
    pub(crate) noted: u32,
    /// Whether an offer is being journaled.
    pub(crate) is_noting: bool,
    /// Whether the call was written to a connection, or shown to a frontend, in this process or an earlier one.
    pub(crate) may_have_run: bool,
    /// How many callers hold the call.
    pub(crate) callers: usize,
    /// Whether the call goes on when its last caller leaves.
    pub(crate) is_kept: bool,
    pub(crate) last_offer: Option<LastOffer>,
    pub(crate) waiters: Waiters,
    /// The ask that must be answered first. Boxed because few calls have one.
    pub(crate) ask: Option<Box<OpenAsk>>,
    /// The ask that the call waits for, or that was taken from it and not approved.
    pub(crate) asked: Option<PermissionId>,
    /// The frontend that has claimed the call.
    pub(crate) claimant: Option<Box<str>>,
    /// When the call expires. The table's `deadlines` has the same time.
    pub(crate) due: Option<Instant>,
    /// The request that opened the call. The line of its end names it, unless another request ends the call.
    pub(crate) span: Span,
    phases: Phases,
    since: Instant,
}

impl PendingCall {
    pub(crate) fn new(
        head: Arc<CallHead>,
        number: u64,
        noted: u32,
        waiter: Option<oneshot::Sender<Arc<FinishedCall>>>,
        now: Instant,
    ) -> Self {
        Self {
            head,
            number,
            stage: Stage::AwaitingApproval,
            attempt: 1,
            noted,
            is_noting: false,
            may_have_run: false,
            callers: usize::from(waiter.is_some()),
            is_kept: false,
            last_offer: None,
            waiters: Waiters { first: waiter, others: Vec::new() },
            ask: None,
            asked: None,
            claimant: None,
            due: None,
            span: Span::current(),
            phases: Phases::default(),
            since: now,
        }
    }

    /// The call for the journal, after this offer.
    pub(crate) fn journaled(&self, offered: u32) -> JournaledCall {
        let ask = self.ask.as_ref().map(|open| (open.ask.id.clone(), open.ask.created));
        JournaledCall { offered, ask, claimant: self.claimant.clone(), ..JournaledCall::new(self.head.clone()) }
    }

    pub(crate) fn state(&self) -> CallState {
        match self.stage {
            Stage::AwaitingApproval => CallState::AwaitingApproval,
            Stage::Waiting | Stage::Assigned(_) => CallState::Queued,
            Stage::Offered(_) | Stage::Shown => CallState::Offered,
        }
    }

    /// The connection that has the call, whether it was written or not.
    pub(crate) fn link(&self) -> Option<LinkId> {
        match self.stage {
            Stage::Assigned(link) | Stage::Offered(link) => Some(link),
            Stage::AwaitingApproval | Stage::Waiting | Stage::Shown => None,
        }
    }

    /// The call may be offered from now on.
    pub(crate) fn approve(&mut self, now: Instant) {
        self.enter(Stage::Waiting, now);
    }

    /// The call is shown to the frontend.
    pub(crate) fn show(&mut self, now: Instant) {
        self.may_have_run = true;
        self.enter(Stage::Shown, now);
    }

    /// The call is put into a connection's outbox.
    pub(crate) fn assign(&mut self, link: LinkId, now: Instant) {
        self.enter(Stage::Assigned(link), now);
    }

    /// The call is written to its connection.
    pub(crate) fn offer(&mut self, link: LinkId, stream: StreamId, number: u64, now: Instant) {
        self.last_offer = Some(LastOffer { stream, number, attempt: self.attempt });
        self.may_have_run = true;
        self.enter(Stage::Offered(link), now);
    }

    /// The connection that had the call is gone.
    pub(crate) fn requeue(&mut self, now: Instant) {
        if matches!(self.stage, Stage::Offered(_)) {
            self.attempt = self.attempt.saturating_add(1);
        }
        self.enter(Stage::Waiting, now);
    }

    /// The reader has resumed and had seen the call: the call is being run.
    pub(crate) fn adopt(&mut self, link: LinkId, offer: LastOffer, now: Instant) {
        self.attempt = offer.attempt;
        self.enter(Stage::Offered(link), now);
    }

    /// The reader has resumed and had not seen the call: the same frame is written again.
    pub(crate) fn replay(&mut self, link: LinkId, offer: LastOffer, now: Instant) {
        self.attempt = offer.attempt;
        self.enter(Stage::Assigned(link), now);
    }

    /// How long the call has spent in each phase until now.
    pub(crate) fn phases(&self, now: Instant) -> Phases {
        let mut phases = self.phases;
        let phase = match self.state() {
            CallState::AwaitingApproval => &mut phases.approval,
            CallState::Queued => &mut phases.queue,
            CallState::Offered | CallState::Done => &mut phases.execute,
        };
        *phase += now.saturating_duration_since(self.since);
        phases
    }

    fn enter(&mut self, stage: Stage, now: Instant) {
        self.phases = self.phases(now);
        self.since = now;
        self.stage = stage;
    }
}
