//! What one turn tells, kept until it is over: whoever follows it gets all of it from its beginning, however late.
//!
//! The general events go to whoever listens to everything; this is for those who show one turn, and costs those who
//! show others nothing. It holds about as much as the turn says: pieces of a text that every follower has got are put
//! together again when their message is complete.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::event::SessionEvent;
use crate::id::MessageId;
use crate::message::Part;
use crate::permission::{Ask, Reply};

/// Something that a turn tells.
#[derive(Debug, Clone)]
pub enum RunEvent {
    /// Something happened to its messages: a message began or is complete, a part grew or changed, the turn failed.
    Session(SessionEvent),
    /// A call waits until somebody allows it.
    Asked(Arc<Ask>),
    /// It was allowed or not.
    Answered(Arc<Ask>, Reply),
    /// A call of an earlier answer is over that was the page's to run, and of which the page has said nothing.
    Settled(Arc<Part>),
}

impl RunEvent {
    /// Whether the other is the next piece of the same growing text.
    fn grows_on_as(&self, next: &Self) -> bool {
        use SessionEvent::Delta;
        match (self, next) {
            (Self::Session(Delta { part, field, .. }), Self::Session(Delta { part: same, field: alike, .. })) => {
                part == same && field == alike
            }
            _ => false,
        }
    }

    /// One event, or the pieces of a growing text as one.
    fn joined(pieces: &[Self]) -> Self {
        let texts = pieces.iter().map(|piece| match piece {
            Self::Session(SessionEvent::Delta { delta, .. }) => &**delta,
            _ => "",
        });
        match pieces {
            [Self::Session(SessionEvent::Delta { message, part, field, .. }), _, ..] => {
                let (message, part, delta) = (message.clone(), part.clone(), texts.collect::<String>().into());
                Self::Session(SessionEvent::Delta { message, part, field: *field, delta })
            }
            // `chunk_by` gives no empty pieces.
            others => others[0].clone(),
        }
    }
}

/// The feed of one turn. A cheap clone of one shared state.
#[derive(Debug, Clone)]
pub struct Feed(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The user's message that the turn answers.
    user: MessageId,
    /// Whether whoever follows it leaves when there is nothing but questions to the user.
    yields_asks: bool,
    /// Whether what it begins with is kept: before that nobody should come to it late.
    is_kept: AtomicBool,
    // std's mutex: nothing is awaited inside.
    told: Mutex<Told>,
    /// Something was told, or the turn is over.
    more: Notify,
}

#[derive(Debug, Default)]
struct Told {
    events: Vec<RunEvent>,
    /// Up to where pieces are together.
    compact: usize,
    /// How far each follower is; `None`: it has left.
    followers: Vec<Option<usize>>,
    is_over: bool,
}

impl Told {
    /// Puts the pieces of a text together that follow each other and that every follower has got.
    fn put_together(&mut self) {
        let got = self.followers.iter().flatten().copied().min().unwrap_or(self.events.len());
        let later = self.events.split_off(got);
        // The last one of before may go on.
        let pieces = self.events.split_off(self.compact.min(got).saturating_sub(1));
        self.events.extend(pieces.chunk_by(RunEvent::grows_on_as).map(RunEvent::joined));
        let removed = got - self.events.len();
        self.compact = self.events.len();
        self.events.extend(later);
        for follower in self.followers.iter_mut().flatten() {
            *follower -= removed;
        }
    }
}

impl Feed {
    /// A feed of a turn that answers this message, and the right to end it.
    pub(crate) fn new(user: MessageId, yields_asks: bool) -> (Self, EndOfFeed) {
        let (is_kept, told, more) = (AtomicBool::new(false), Mutex::default(), Notify::new());
        let feed = Self(Arc::new(Shared { user, yields_asks, is_kept, told, more }));
        (feed.clone(), EndOfFeed(feed))
    }

    /// The user's message that the turn answers.
    pub fn user(&self) -> &MessageId {
        &self.0.user
    }

    /// Whether whoever follows it leaves when there is nothing but questions to the user.
    pub fn yields_asks(&self) -> bool {
        self.0.yields_asks
    }

    /// What the turn begins with is kept.
    pub(crate) fn kept(&self) {
        self.0.is_kept.store(true, Ordering::Release);
        self.0.more.notify_waiters();
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.0.is_kept.load(Ordering::Acquire)
    }

    /// Waits until what the turn begins with is kept, or the turn is over without that.
    pub async fn until_kept(&self) {
        loop {
            let more = self.0.more.notified();
            tokio::pin!(more);
            // Listens before it looks, so that nothing is missed in between.
            more.as_mut().enable();
            if self.is_kept() || self.lock().is_over {
                return;
            }
            more.await;
        }
    }

    /// Follows the turn from its beginning.
    pub fn follow(&self) -> Follower {
        let mut told = self.lock();
        let free = told.followers.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            told.followers.push(None);
            told.followers.len() - 1
        });
        told.followers[place] = Some(0);
        drop(told);
        Follower { feed: self.clone(), place: Some(place) }
    }

    /// Whether both are the same turn's.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Looks at what was told so far.
    pub fn look<R>(&self, look: impl FnOnce(&[RunEvent]) -> R) -> R {
        look(&self.lock().events)
    }

    pub(crate) fn tell(&self, event: RunEvent) {
        let mut told = self.lock();
        let is_complete = matches!(&event, RunEvent::Session(SessionEvent::Message(_)));
        told.events.push(event);
        if is_complete {
            told.put_together();
        }
        drop(told);
        self.0.more.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a feed when it is dropped: however a turn ends, nobody follows it for ever.
#[derive(Debug)]
pub(crate) struct EndOfFeed(Feed);

impl Drop for EndOfFeed {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.0.more.notify_waiters();
    }
}

/// Somebody who follows a turn.
#[derive(Debug)]
pub struct Follower {
    feed: Feed,
    /// Where it is among the followers; `None` once it has left, and somebody else may be there.
    place: Option<usize>,
}

impl Follower {
    /// What it follows.
    pub fn feed(&self) -> &Feed {
        &self.feed
    }

    /// Follows the turn no more; says whether nobody does, of those who leave at once to the last.
    pub fn leave(&mut self) -> bool {
        let followers = &mut self.feed.lock().followers;
        if let Some(place) = self.place.take().and_then(|place| followers.get_mut(place)) {
            *place = None;
        }
        followers.iter().all(Option::is_none)
    }

    /// The next event; `None` when the turn is over. Safe to drop while it waits.
    pub async fn next(&mut self) -> Option<RunEvent> {
        loop {
            let more = self.feed.0.more.notified();
            tokio::pin!(more);
            // Listens before it looks, so that nothing is missed in between.
            more.as_mut().enable();
            {
                let mut told = self.feed.lock();
                let told = &mut *told;
                if let Some(Some(next)) = self.place.and_then(|place| told.followers.get_mut(place))
                    && let Some(event) = told.events.get(*next)
                {
                    *next += 1;
                    return Some(event.clone());
                }
                if told.is_over {
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
