//! What a connection still has to be told, and what it was told already.
//!
//! An outbox holds ids, not bytes: a frame is rendered when the connection can take it. It is bounded by the calls
//! under way of its client (offers) and by what was written to it (cancels follow offers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use atomic_waker::AtomicWaker;

use crate::calls::pending::StreamId;
use crate::id::{RequestId, SessionId};

/// Something to tell a client.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// Run this call.
    Offer(RequestId),
    /// This call is over.
    Cancel(RequestId, Arc<str>),
}

/// Tells a connection that there is something for it, so that it need not take the table's lock to find nothing.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    waiting: AtomicWaker,
}

impl Signal {
    /// There is something: whoever waits is to be woken.
    #[must_use]
    pub(crate) fn raise(&self) -> Option<Waker> {
        self.raised.store(true, Ordering::Release);
        self.waiting.take()
    }

    /// The connection is looking, and has to look again: this was not all.
    pub(crate) fn look_again(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Whether there is, or may be, something; otherwise the waker is kept.
    pub(crate) fn lower(&self, waker: &Waker) -> bool {
        if self.raised.swap(false, Ordering::AcqRel) {
            return true;
        }
        self.waiting.register(waker);
        // Raised in between: whoever raised it may have found nobody waiting.
        self.raised.swap(false, Ordering::AcqRel)
    }
}

#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) stream: StreamId,
    /// The only session whose calls its reader may be given.
    pub(crate) limit: Option<SessionId>,
    /// To be written, with the number it had when it was written before.
    pending: VecDeque<(Option<u64>, Item)>,
    /// Written, in order of their numbers: the last ones, for a reader that comes back.
    written: VecDeque<(u64, Item)>,
    replay: usize,
    signal: Arc<Signal>,
}

impl Outbox {
    /// An empty outbox that can repeat its last `replay` items.
    pub(crate) fn new(stream: StreamId, limit: Option<SessionId>, replay: usize) -> Self {
        Self {
            stream,
            limit,
            pending: VecDeque::new(),
            written: VecDeque::new(),
            replay: replay.max(1),
            signal: Arc::default(),
        }
    }

    /// What its connection waits on. It is another one for each connection that the outbox is taken up by.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Adds an item; whoever waits for it is to be woken.
    #[must_use]
    pub(crate) fn push(&mut self, item: Item) -> Option<Waker> {
        self.pending.push_back((None, item));
        self.signal.raise()
    }

    /// The next item, with its old number if it is a repetition.
    pub(crate) fn pop(&mut self) -> Option<(Option<u64>, Item)> {
        self.pending.pop_front()
    }

    /// Whether there is nothing to be written.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// The item is written under this number. Numbers only grow, but for repetitions, which are in place already.
    pub(crate) fn record(&mut self, number: u64, item: Item) {
        if self.written.len() == self.replay {
            self.written.pop_front();
        }
        self.written.push_back((number, item));
    }

    /// Whether a reader that saw `number` last can be told what it missed.
    pub(crate) fn knows(&self, number: u64) -> bool {
        self.written.binary_search_by_key(&number, |(written, _)| *written).is_ok()
    }

    /// The reader has come back; it saw `number` last. What was written after that goes out again, before anything else.
    pub(crate) fn resume_after(&mut self, number: u64) {
        self.signal = Arc::default();
        // An offer that was never written is assigned anew with the other calls that wait. One that was, and was to be
        // written again when the reader was lost once more, is still to be.
        self.pending.retain(|(written, item)| written.is_some() || matches!(item, Item::Cancel(..)));
        while self.written.back().is_some_and(|(written, _)| *written > number) {
            if let Some((number, item)) = self.written.pop_back() {
                self.pending.push_front((Some(number), item));
            }
        }
    }

    /// Whether an offer of this call is to be written.
    #[cfg(test)]
    pub(crate) fn will_offer(&self, request: &RequestId) -> bool {
        self.pending.iter().any(|(_, item)| matches!(item, Item::Offer(offered) if offered == request))
    }
}
