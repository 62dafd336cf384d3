//! Events that some listeners have not read yet. Their size is bounded, however slow listeners are: the oldest are
//! dropped, and listeners that have not read them have missed something.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Emitted, Event, SessionEvent, TurnEvent};
use crate::store::{Session, weight};

/// The approximate size of an event without its content.
const EVENT: usize = 256;

/// About how many bytes a listener takes at once.
const TAKEN_BYTES: usize = 64 << 10;
/// About how many bytes of a topic may wait, whatever the other topics hold.
const SHARE: usize = 256 << 10;

/// The waiting events of a topic. All topics together are bounded in bytes, but a topic that holds little is not cut
/// for the sake of others.
#[derive(Debug)]
pub(super) struct Waiting {
    /// The oldest first.
    events: VecDeque<WaitingEvent>,
    /// The number of the first event. Numbers are never reused.
    first: u64,
    listeners: usize,
    /// The approximate number of bytes that these events hold.
    bytes: usize,
    most: usize,
    most_bytes: usize,
    /// The approximate number of bytes that all topics hold.
    held: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct WaitingEvent {
    event: Arc<Emitted>,
    bytes: usize,
    /// How many listeners have not read the event yet.
    unread: usize,
}

/// What a listener gets.
#[derive(Debug)]
pub(super) enum Batch {
    /// This many events.
    Events(u64),
    /// The next event was dropped: the listener is too far behind.
    Missed,
    /// There is no next event yet.
    Nothing,
}

impl Waiting {
    pub(super) fn new(most: usize, most_bytes: usize, held: Arc<AtomicUsize>) -> Self {
        Self { events: VecDeque::new(), first: 0, listeners: 0, bytes: 0, most, most_bytes, held }
    }

    /// Adds a listener. Returns the number of the first event that it will get.
    pub(super) fn join(&mut self) -> u64 {
        self.listeners += 1;
        self.first + self.events.len() as u64
    }

    /// Removes a listener that has read everything before this number. Returns events that nobody else waits for.
    #[must_use]
    pub(super) fn leave(&mut self, next: u64) -> Vec<Arc<Emitted>> {
        self.listeners -= 1;
        for entry in self.events.iter_mut().skip(next.saturating_sub(self.first) as usize) {
            entry.unread -= 1;
        }
        self.drop_read()
    }

    /// Adds an event for the current listeners. Returns the events that were dropped for it.
    #[must_use]
    pub(super) fn push(&mut self, event: Arc<Emitted>) -> Vec<Arc<Emitted>> {
        let mut dropped = Vec::new();
        if self.listeners == 0 {
            return dropped;
        }
        let bytes = weight_of(&event.event);
        self.bytes += bytes;
        self.held.fetch_add(bytes, Ordering::Relaxed);
        self.events.push_back(WaitingEvent { event, bytes, unread: self.listeners });
        // A single event is accepted whatever its size, so that listeners that keep up get everything.
        while self.events.len() > self.most.max(1) || (self.is_too_heavy() && self.events.len() > 1) {
            dropped.extend(self.pop());
        }
        dropped
    }

    fn is_too_heavy(&self) -> bool {
        self.bytes > self.most_bytes || (self.bytes > SHARE && self.held.load(Ordering::Relaxed) > self.most_bytes)
    }

    /// Takes some of the events from that number on, for a listener that has read those before it.
    pub(super) fn take(&mut self, number: u64, taken: &mut Vec<Arc<Emitted>>) -> Batch {
        let Some(place) = number.checked_sub(self.first) else { return Batch::Missed };
        let (mut bytes, mut count) = (0, 0);
        for entry in self.events.iter_mut().skip(place as usize) {
            bytes += entry.bytes;
            if count > 0 && bytes > TAKEN_BYTES {
                break;
            }
            entry.unread -= 1;
            taken.push(entry.event.clone());
            count += 1;
        }
        // Nothing is freed here: the listener holds the events that it takes.
        drop(self.drop_read());
        if count == 0 { Batch::Nothing } else { Batch::Events(count) }
    }

    /// Removes the events that every listener has read.
    fn drop_read(&mut self) -> Vec<Arc<Emitted>> {
        let mut dropped = Vec::new();
        while self.events.front().is_some_and(|entry| entry.unread == 0) {
            dropped.extend(self.pop());
        }
        if self.events.is_empty() {
            // A queue that was long once does not keep its memory for ever.
            self.events.shrink_to(1_024);
        }
        dropped
    }

    fn pop(&mut self) -> Option<Arc<Emitted>> {
        let entry = self.events.pop_front()?;
        self.first += 1;
        self.bytes -= entry.bytes;
        self.held.fetch_sub(entry.bytes, Ordering::Relaxed);
        Some(entry.event)
    }
}

/// The approximate number of bytes that an event holds. Shared values count for each event.
fn weight_of(event: &Event) -> usize {
    let held = match event {
        Event::Requested(head) => weight::of_head(head),
        // `Executing` directly follows `Requested`, and shares its head.
        Event::Executing(_) => 0,
        Event::Finished(call) | Event::Late(call) => weight::of_call(call),
        Event::Registered(_, _, tools) | Event::Unregistered(_, _, tools) => {
            tools.iter().map(|tool| 64 + tool.as_str().len()).sum()
        }
        Event::Asked(ask) | Event::Answered(ask, _) => weight::of_head(&ask.call),
        Event::Session(session, event) => weight_of_session_event(session, event),
    };
    EVENT + held
}

fn weight_of_session_event(session: &Session, event: &SessionEvent) -> usize {
    match event {
        // The other events share a session that is in memory anyway.
        SessionEvent::Created | SessionEvent::Updated | SessionEvent::Deleted => weight::of_session(session),
        SessionEvent::Busy | SessionEvent::Idle | SessionEvent::Mark(_) => 0,
        SessionEvent::Failed(error) => error.message().len(),
        SessionEvent::Said(message) => weight::of_message(message),
        SessionEvent::Snapshot { part, delta, .. } => weight::of_part(part) + delta.len(),
        SessionEvent::Turn(event) => match event {
            TurnEvent::StepBegan(message) | TurnEvent::StepDone(message) => weight::of_message(message),
            TurnEvent::Part { part, .. } => weight::of_part(part),
            TurnEvent::Grew { delta, .. } => delta.len(),
            _ => 0,
        },
    }
}
