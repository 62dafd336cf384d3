//! What a connection still has to write, and what it has written.
//!
//! An outbox holds ids, not bytes: a frame is rendered when the connection can take it. It is bounded by the open calls
//! of its client (offers) and by what was written to it (cancels follow offers).

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
    /// This call is over, for this reason.
    Cancel(RequestId, Arc<str>),
}

/// Tells a connection that its outbox may have items, so that it need not take the table's lock in vain.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    raised: AtomicBool,
    waiting: AtomicWaker,
}

impl Signal {
    /// Sets the signal, and returns the waiting task to wake.
    #[must_use]
    pub(crate) fn raise(&self) -> Option<Waker> {
        self.raised.store(true, Ordering::Release);
        self.waiting.take()
    }

    /// Sets the signal again from the connection itself: the outbox has more items.
    pub(crate) fn look_again(&self) {
        self.raised.store(true, Ordering::Release);
    }

    /// Clears the signal and returns whether it was set; otherwise keeps the waker.
    pub(crate) fn lower(&self, waker: &Waker) -> bool {
        if self.raised.swap(false, Ordering::AcqRel) {
            return true;
        }
        self.waiting.register(waker);
        // It may have been raised in between, before the waker was registered.
        self.raised.swap(false, Ordering::AcqRel)
    }
}

#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) stream: StreamId,
    /// The only session whose calls the reader may get.
    pub(crate) limit: Option<SessionId>,
    /// Items to write. An item that is replayed has its earlier number.
    pending: VecDeque<(Option<u64>, Item)>,
    /// The last written items by number, for a reader that resumes.
    written: VecDeque<(u64, Item)>,
    replay: usize,
    signal: Arc<Signal>,
}

impl Outbox {
    /// Creates an empty outbox that can replay its last `replay` items.
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

    /// The signal that the connection waits on. Each connection that takes over the outbox gets a new one.
    pub(crate) fn signal(&self) -> &Arc<Signal> {
        &self.signal
    }

    /// Adds an item, and returns the waiting task to wake.
    #[must_use]
    pub(crate) fn push(&mut self, item: Item) -> Option<Waker> {
        self.pending.push_back((None, item));
        self.signal.raise()
    }

    /// The next item, with its earlier number if it is a replay.
    pub(crate) fn pop(&mut self) -> Option<(Option<u64>, Item)> {
        self.pending.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Records an item as written. Numbers only grow, except for replays, which come in their old order.
    pub(crate) fn record(&mut self, number: u64, item: Item) {
        if self.written.len() == self.replay {
            self.written.pop_front();
        }
        self.written.push_back((number, item));
    }

    /// Whether a reader that saw `number` last can resume.
    pub(crate) fn knows(&self, number: u64) -> bool {
        self.written.binary_search_by_key(&number, |(written, _)| *written).is_ok()
    }

    /// Resumes for a reader that saw `number` last: later items are written again, before anything else.
    pub(crate) fn resume_after(&mut self, number: u64) {
        self.signal = Arc::default();
        // An offer that was never written is assigned anew with the other waiting calls. An offer that was to be
        // replayed when the reader was lost again is still replayed.
        self.pending.retain(|(written, item)| written.is_some() || matches!(item, Item::Cancel(..)));
        while self.written.back().is_some_and(|(written, _)| *written > number) {
            if let Some((number, item)) = self.written.pop_back() {
                self.pending.push_front((Some(number), item));
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn will_offer(&self, request: &RequestId) -> bool {
        self.pending.iter().any(|(_, item)| matches!(item, Item::Offer(offered) if offered == request))
    }
}
