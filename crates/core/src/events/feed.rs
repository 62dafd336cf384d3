//! The feed of a turn: the turn's events, numbered from 0, for readers that show the turn.
//!
//! A feed can be followed from any number, however late, and a number always means the same event. A feed takes about
//! as much memory as the turn's output: a growing text is stored once, with the places where it was cut into pieces.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::Field;
use crate::id::{CallId, MessageId, PartId, PermissionId};
use crate::store::{AskSummary, Message, Part, Reply, TurnError};
use crate::until::until;

/// An event of a turn. Each step has `StepBegan`, its events, and `StepDone`; the last event is `Ended` or `Waiting`.
/// Stores keep the events of runs in this type's serde form.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum TurnEvent {
    /// A step begins: the model is asked. The message comes without its parts. It is already complete if a step of an
    /// earlier turn is sent again.
    StepBegan(Arc<Message>),
    /// A text, a piece of reasoning or the arguments of a call have grown.
    Grew {
        /// The message that the part belongs to.
        message: MessageId,
        /// The part.
        part: PartId,
        /// The field that grew.
        field: Field,
        /// What was added.
        delta: Arc<str>,
    },
    /// A part is complete, or a call has changed: it begins, is made, or is over. The message may be of an earlier
    /// turn, which yielded its calls to the page.
    Part {
        /// The message that the part belongs to.
        message: MessageId,
        /// The part.
        part: Arc<Part>,
    },
    /// A part is removed, because the provider has begun its answer anew.
    PartRemoved {
        /// The message that the part belonged to.
        message: MessageId,
        /// The part.
        part: PartId,
    },
    /// A call waits for somebody to allow it.
    Asked(Arc<AskSummary>),
    /// An ask was answered.
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
    /// The server was restarted, and the turn goes on. What was told of an incomplete step no longer holds.
    Restarted {
        /// The answers so far that are complete.
        answers: Vec<Arc<Message>>,
        /// The answer that is told again, from its beginning.
        begun: Option<MessageId>,
    },
    /// The turn is over. The error says why it ended early, if it did.
    Ended(Option<Arc<TurnError>>),
    /// Only these asks are open: the reader leaves, and comes back with the user's answers.
    Waiting(Vec<Arc<AskSummary>>),
    /// An event of a run of an earlier version, in the form of its protocol.
    #[serde(skip)]
    Recorded(Arc<str>),
}

impl TurnEvent {
    /// Whether this is the last event.
    pub fn is_last(&self) -> bool {
        matches!(self, Self::Ended(_) | Self::Waiting(_))
    }

    /// The events of a complete message, as one step.
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
    // A std mutex is enough: nothing is awaited while it is locked.
    log: Mutex<Log>,
    /// Notified when an event is added, or the feed is closed.
    more: Notify,
    followers: AtomicUsize,
}

#[derive(Debug, Default)]
struct Log {
    events: Vec<FeedEntry>,
    /// The growing texts, each as a whole.
    texts: Vec<Text>,
    is_closed: bool,
}

#[derive(Debug)]
enum FeedEntry {
    // Boxed: most entries are pieces.
    Event(Box<TurnEvent>),
    /// A piece of a text: the index of the text, and the range.
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
        // Most often it is the last text.
        let known = self.texts.iter().rposition(|text| text.part == part && text.field == field);
        let place = known.unwrap_or_else(|| {
            self.texts.push(Text { message, part, field, text: String::new() });
            self.texts.len() - 1
        });
        let text = &mut self.texts[place].text;
        let start = text.len();
        text.push_str(delta);
        // No text of a model comes near 4 GiB.
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
    /// The number of events so far.
    pub fn len(&self) -> usize {
        self.lock().events.len()
    }

    /// Whether there are no events yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Follows the feed from that number on.
    pub fn follow(&self, from: usize) -> Follower {
        self.0.followers.fetch_add(1, Ordering::AcqRel);
        Follower { feed: self.clone(), next: from, has_left: false }
    }

    /// The events so far with their numbers, without pieces of texts.
    pub fn milestones(&self) -> Vec<(usize, TurnEvent)> {
        let whole = |(number, entry): (usize, &FeedEntry)| match entry {
            FeedEntry::Event(event) => Some((number, TurnEvent::clone(event))),
            FeedEntry::Piece { .. } => None,
        };
        self.lock().events.iter().enumerate().filter_map(whole).collect()
    }

    /// Whether both handles are of the same feed.
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

    /// A guard that closes the feed.
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

/// A reader of a feed.
#[derive(Debug)]
pub struct Follower {
    feed: Feed,
    next: usize,
    has_left: bool,
}

impl Follower {
    /// The feed that is followed.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// The number of the next event.
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

    /// The next event; `None` when the feed is closed. Cancel safe.
    pub async fn next(&mut self) -> Option<TurnEvent> {
        let (feed, next) = (&self.feed, &mut self.next);
        let look = || {
            let told = feed.lock();
            let event = told.get(*next);
            *next += usize::from(event.is_some());
            (event.is_some() || told.is_closed).then_some(event)
        };
        until(&feed.0.more, look).await
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests;
