//! What a node has heard and not taken yet.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use ahash::HashSet;
use tokio::sync::Notify;

use super::{Heard, Note};
use crate::until::until;

/// How many notes wait. When there are more, all are dropped, and the node looks everywhere.
const MOST: usize = 4_096;

/// The notes that a node has heard and not taken yet, each once.
#[derive(Debug, Default)]
pub struct Inbox {
    // A std mutex is enough: nothing is awaited while it is locked.
    waiting: Mutex<Unheard>,
    more: Notify,
}

#[derive(Debug, Default)]
struct Unheard {
    order: VecDeque<Note>,
    notes: HashSet<Note>,
    has_missed: bool,
}

impl Unheard {
    fn take(&mut self) -> Option<Heard> {
        if std::mem::take(&mut self.has_missed) {
            return Some(Heard::Missed);
        }
        let note = self.order.pop_front()?;
        self.notes.remove(&note);
        Some(Heard::Note(note))
    }

    fn miss(&mut self) {
        self.order.clear();
        self.notes.clear();
        self.has_missed = true;
    }
}

impl Inbox {
    /// Puts a note in, unless an equal one waits.
    pub fn put(&self, note: Note) {
        self.change(|waiting| {
            if waiting.has_missed || !waiting.notes.insert(note.clone()) {
                return;
            }
            waiting.order.push_back(note);
            if waiting.order.len() > MOST {
                waiting.miss();
            }
        });
    }

    /// Lets the node know that it may have missed notes. Those that wait are dropped: it looks everywhere.
    pub fn miss(&self) {
        self.change(Unheard::miss);
    }

    fn change(&self, change: impl FnOnce(&mut Unheard)) {
        change(&mut self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        self.more.notify_waiters();
    }

    /// Takes what comes next. Cancel safe.
    pub async fn take(&self) -> Heard {
        until(&self.more, || self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take()).await
    }
}
