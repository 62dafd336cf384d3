//! What a connection still has to be told, and what it was told already.
//!
//! An outbox holds ids, not bytes: a frame is rendered when the connection can take it. It is bounded by the calls
//! under way of its client (offers) and by what was written to it (cancels follow offers).

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use crate::call::StreamId;
use crate::id::RequestId;

/// Something to tell a client.
#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// Run this call.
    Offer(RequestId),
    /// This call is over.
    Cancel(RequestId, Arc<str>),
}

#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) stream: StreamId,
    /// To be written, with the number it had when it was written before.
    pending: VecDeque<(Option<u64>, Item)>,
    /// Written, in order of their numbers: the last ones, for a reader that comes back.
    written: VecDeque<(u64, Item)>,
    replay: usize,
    waker: Option<Waker>,
}

impl Outbox {
    /// An empty outbox that can repeat its last `replay` items.
    pub(crate) fn new(stream: StreamId, replay: usize) -> Self {
        Self { stream, pending: VecDeque::new(), written: VecDeque::new(), replay: replay.max(1), waker: None }
    }

    /// Adds an item; whoever waits for it is to be woken.
    #[must_use]
    pub(crate) fn push(&mut self, item: Item) -> Option<Waker> {
        self.pending.push_back((None, item));
        self.waker.take()
    }

    /// The next item, with its old number if it is a repetition.
    pub(crate) fn pop(&mut self) -> Option<(Option<u64>, Item)> {
        self.pending.pop_front()
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
        // An offer that was never written is assigned anew with the other calls that wait.
        self.pending.retain(|(_, item)| matches!(item, Item::Cancel(..)));
        while self.written.back().is_some_and(|(written, _)| *written > number) {
            if let Some((number, item)) = self.written.pop_back() {
                self.pending.push_front((Some(number), item));
            }
        }
    }

    /// Whom to wake for the next item.
    pub(crate) fn wait(&mut self, waker: &Waker) {
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Takes whoever waits, to be woken.
    pub(crate) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }
}
