//! The feed of a turn: what the turn tells, numbered from 0, for whoever shows that turn.
//!
//! A feed can be followed from any number, however late, and a number always means the same event. It costs about as much
//! memory as the turn says: pieces of a growing text are kept as one text and the places where it was cut.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::Field;
use crate::id::{CallId, MessageId, PartId, PermissionId};
use crate::store::{AskSummary, Message, Part, Reply, TurnError};

/// Something that a turn tells. For each step: `StepBegan`, what happens in it, `StepDone`; in the end `Ended` or
/// `Waiting`. Its serde form is what stores keep of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum TurnEvent {
    /// A step begins: the model is asked. Its message comes without its parts, and is complete already if the step is one
    /// of an earlier turn that is told again.
    StepBegan(Arc<Message>),
    /// A text, a thought or the arguments of a call have grown.
    Grew {
        /// The message that it belongs to.
        message: MessageId,
        /// The part.
        part: PartId,
        /// What grew.
        field: Field,
        /// What was added.
        delta: Arc<str>,
    },
    /// A part is complete, or is now so: a call that begins, is made, or is over. The message may be that of an earlier
    /// turn, whose calls were left to the page.
    Part {
        /// The message that it belongs to.
        message: MessageId,
        /// The part.
        part: Arc<Part>,
    },
    /// A part is gone: its provider has begun the answer anew.
    PartRemoved {
        /// The message that it belonged to.
        message: MessageId,
        /// The part.
        part: PartId,
    },
    /// A call waits until somebody allows it.
    Asked(Arc<AskSummary>),
    /// It was allowed or not.
    Answered {
        /// The ask.
        ask: PermissionId,
        /// The call.
        call: CallId,
        /// The answer.
        reply: Reply,
    },
    /// A step is complete. Its message comes without its parts.
    StepDone(Arc<Message>),
    /// The turn is over; the error says why if it ended early.
    Ended(Option<Arc<TurnError>>),
    /// Nothing but these asks is open: whoever shows the turn leaves, and comes back with the user's answers.
    Waiting(Vec<Arc<AskSummary>>),
    /// Something that a run told under an earlier version, in the words of its protocol.
    #[serde(skip)]
    Recorded(Arc<str>),
}

impl TurnEvent {
    /// Whether nothing comes after it.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Waiting(_))
    }

    /// What a message that is complete would have told, as one step.
    pub fn of_stored(message: &Message) -> impl Iterator<Item = Self> {
        let head = Arc::new(message.without_parts());
        let part = |part: &Arc<Part>| Self::Part { message: message.id.clone(), part: part.clone() };
        let parts: Vec<Self> = message.parts.iter().filter(|part| part.is_shown()).map(part).collect();
        [Self::StepBegan(head.clone())].into_iter().chain(parts).chain([Self::StepDone(head)])
    }
}

/// The feed of a turn. A cheap clone of one shared state.
#[derive(Debug, Clone, Default)]
pub struct Feed(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    // std's mutex: nothing is awaited inside.
    log: Mutex<Log>,
    /// Something was told, or the feed is closed.
    more: Notify,
    followers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<FeedEntry>,
    /// The growing texts, each whole.
    texts: Vec<Text>,
    is_closed: bool,
}

#[derive(Debug)]
enum FeedEntry {
    // Boxed: most entries are pieces.
    Event(Box<TurnEvent>),
    /// A piece of a text: which, and from where to where.
    Piece {
        text: u32,
        start: u32,
        end: u32,
    },
}

#[derive(Debug)]
struct Text {
    message: MessageId,
    part: PartId,
    field: Field,
    text: String,
}

impl Log {
    fn push(&mut self, event: TurnEvent) {
        let entry = match event {
            TurnEvent::Grew { message, part, field, delta } => self.grow(message, part, field, &delta),
            event => FeedEntry::Event(Box::new(event)),
        };
        self.events.push(entry);
    }

    fn grow(&mut self, message: MessageId, part: PartId, field: Field, delta: &str) -> FeedEntry {
        // Most often it is the last.
        let known = self.texts.iter().rposition(|text| text.part == part && text.field == field);
        let place = known.unwrap_or_else(|| {
            self.texts.push(Text { message, part, field, text: String::new() });
            self.texts.len() - 1
        });
        let text = &mut self.texts[place].text;
        let start = text.len();
        text.push_str(delta);
        // Nothing that a model says is anywhere near 4 GiB long.
        FeedEntry::Piece { text: place as u32, start: start as u32, end: text.len() as u32 }
    }

    fn get(&self, number: usize) -> Option<TurnEvent> {
        Some(match self.events.get(number)? {
            FeedEntry::Event(event) => TurnEvent::clone(event),
            FeedEntry::Piece { text, start, end } => {
                let Text { message, part, field, text } = &self.texts[*text as usize];
                let delta = text[*start as usize..*end as usize].into();
                TurnEvent::Grew { message: message.clone(), part: part.clone(), field: *field, delta }
            }
        })
    }
}

impl Feed {
    /// How many events it has.
    pub fn len(&self) -> usize {
        self.lock().events.len()
    }

    /// Whether nothing was told yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Follows it from that number on.
    pub fn follow(&self, from: usize) -> Follower {
        self.0.followers.fetch_add(1, Ordering::AcqRel);
        Follower { feed: self.clone(), next: from, has_left: false }
    }

    /// What was told so far, but for the pieces of texts, each event with its number.
    pub fn milestones(&self) -> Vec<(usize, TurnEvent)> {
        let whole = |(number, entry): (usize, &FeedEntry)| match entry {
            FeedEntry::Event(event) => Some((number, TurnEvent::clone(event))),
            FeedEntry::Piece { .. } => None,
        };
        self.lock().events.iter().enumerate().filter_map(whole).collect()
    }

    /// Whether the other handle is of the same feed.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn tell(&self, event: TurnEvent) {
        self.lock().push(event);
        self.0.more.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Log> {
        self.0.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The right to close it.
    pub(crate) fn closer(&self) -> CloseFeed {
        CloseFeed(self.clone())
    }
}

/// Closes a feed when it is dropped: however a turn ends, nobody follows it for ever.
#[derive(Debug)]
pub(crate) struct CloseFeed(Feed);

impl Drop for CloseFeed {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.0.more.notify_waiters();
    }
}

/// Somebody who follows a feed.
#[derive(Debug)]
pub struct Follower {
    feed: Feed,
    next: usize,
    has_left: bool,
}

impl Follower {
    /// What it follows.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The number of the event that comes next.
    pub fn number(&self) -> usize {
        self.next
    }

    /// Stops following. Returns whether no follower is left; if several leave at once, the last one gets true.
    pub fn leave(&mut self) -> bool {
        let followers = &self.feed.0.followers;
        match std::mem::replace(&mut self.has_left, true) {
            false => followers.fetch_sub(1, Ordering::AcqRel) == 1,
            true => followers.load(Ordering::Acquire) == 0,
        }
    }

    /// The next event; `None` when the feed is closed. Safe to drop while it waits.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        loop {
            let more = self.feed.0.more.notified();
            tokio::pin!(more);
            // Listens before it looks, so that nothing is missed in between.
            more.as_mut().enable();
            {
                let told = self.feed.lock();
                if let Some(event) = told.get(self.next) {
                    self.next += 1;
                    return Some(event);
                }
                if told.is_closed {
                    return None;
                }
            }
            more.await;
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
