//! What was said in a session, as it is held in memory: changed with every message that is saved, and shared with the
//! turn that is under way at no cost that grows with it.

use std::sync::Arc;

use ahash::HashMap;

use crate::id::MessageId;
use crate::store::{Message, Role, weight};

/// What a turn is shown: every user's message followed by its answers, up to the one that is to be answered and what was
/// answered to it so far.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// It begins with as many of these: what was said before.
    frozen: Arc<Vec<Arc<Message>>>,
    earlier: usize,
    /// What is said in the turn, its user's message first.
    pub(crate) turn: Vec<Arc<Message>>,
}

impl Conversation {
    /// What was said before the turn.
    pub(crate) fn earlier(&self) -> &[Arc<Message>] {
        &self.frozen[..self.earlier]
    }
}

/// The messages of a session, in the order in which they were first saved.
#[derive(Debug)]
pub(super) struct History {
    /// The first of them. A turn holds on to these while it is under way, and so they do not change meanwhile.
    frozen: Arc<Vec<Arc<Message>>>,
    /// Those after them.
    recent: Vec<Arc<Message>>,
    /// Where each of them is.
    places: HashMap<MessageId, usize>,
    /// About how many bytes they take.
    bytes: usize,
    /// The last message of a user.
    last_user: Option<MessageId>,
    /// Whether every answer follows the message that it answers, with nothing but its other answers in between.
    is_in_order: bool,
    /// Messages with calls that are left to a page.
    yielded: Vec<MessageId>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            frozen: Arc::default(),
            recent: Vec::new(),
            places: HashMap::default(),
            bytes: 0,
            last_user: None,
            is_in_order: true,
            yielded: Vec::new(),
        }
    }
}

impl History {
    /// The history of these messages.
    pub(super) fn of(messages: Vec<Arc<Message>>) -> Self {
        let mut history = Self::default();
        messages.iter().for_each(|message| history.note(message));
        history.frozen = Arc::new(messages);
        history
    }

    /// About how many bytes it takes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All the messages.
    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.frozen.iter().chain(&self.recent)
    }

    /// A message, if it is there.
    pub(super) fn get(&self, id: &MessageId) -> Option<&Arc<Message>> {
        let place = *self.places.get(id)?;
        self.frozen.get(place).or_else(|| self.recent.get(place - self.frozen.len()))
    }

    /// The messages with calls that are left to a page.
    pub(super) fn yielded(&self) -> Vec<Arc<Message>> {
        self.yielded.iter().filter_map(|id| self.get(id).cloned()).collect()
    }

    /// Whether nothing was said before a message.
    pub(super) fn is_first(&self, id: &MessageId) -> bool {
        self.places.get(id).is_none_or(|place| *place == 0)
    }

    /// A message is saved, in place of what was known of it.
    pub(super) fn save(&mut self, message: &Arc<Message>) {
        let frozen = self.frozen.len();
        match self.places.get(&message.id) {
            None => {
                self.note(message);
                self.recent.push(message.clone());
            }
            Some(place) => {
                let known = match place.checked_sub(frozen) {
                    Some(recent) => &mut self.recent[recent],
                    None => &mut Arc::make_mut(&mut self.frozen)[*place],
                };
                let before = std::mem::replace(known, message.clone());
                self.bytes = self.bytes + weight::of_message(message) - weight::of_message(&before);
                self.note_yielded(message);
            }
        }
    }

    /// A message is forgotten, and all that were first saved after it.
    pub(super) fn delete_from(&mut self, id: &MessageId) {
        let Some(place) = self.places.get(id) else { return };
        let left = self.all().take(*place).cloned().collect();
        *self = Self::of(left);
    }

    /// A message comes after all others.
    fn note(&mut self, message: &Arc<Message>) {
        match &message.role {
            Role::User(_) => self.last_user = Some(message.id.clone()),
            Role::Assistant(said) => self.is_in_order &= self.last_user.as_ref() == Some(&said.parent),
        }
        self.places.insert(message.id.clone(), self.places.len());
        self.bytes += weight::of_message(message);
        self.note_yielded(message);
    }

    fn note_yielded(&mut self, message: &Message) {
        self.yielded.retain(|id| *id != message.id);
        if message.parts.iter().any(|part| part.is_yielded()) {
            self.yielded.push(message.id.clone());
        }
    }

    /// What a turn is shown that answers a message. What failed before it made any calls is left out of it: that is tried
    /// again.
    pub(super) fn conversation(&mut self, user: &Arc<Message>) -> Conversation {
        let is_left_out = |message: &Message| message.answers() == Some(&user.id) && message.failed_without_calls();
        match self.places.get(&user.id) {
            // As it is most of the time: the turn is the end of the history.
            Some(place) if self.is_in_order && self.last_user.as_ref() == Some(&user.id) => {
                let place = *place;
                if let Some(before) = place.checked_sub(self.frozen.len())
                    && let Some(frozen) = Arc::get_mut(&mut self.frozen)
                {
                    frozen.extend(self.recent.drain(..before));
                }
                let earlier = place.min(self.frozen.len());
                let turn = self.all().skip(earlier).filter(|message| !is_left_out(message));
                Conversation { turn: turn.cloned().collect(), frozen: self.frozen.clone(), earlier }
            }
            _ => {
                let all = self.all().filter(|message| !is_left_out(message)).cloned();
                Conversation { frozen: Arc::default(), earlier: 0, turn: put_in_order(all, user) }
            }
        }
    }
}

/// Every user's message followed by its answers, up to the one that is to be answered. Prompts that wait are stored before
/// the answers to those before them.
fn put_in_order(stored: impl Iterator<Item = Arc<Message>>, user: &Arc<Message>) -> Vec<Arc<Message>> {
    let mut turns: Vec<Vec<Arc<Message>>> = Vec::new();
    for message in stored {
        match &message.role {
            Role::User(_) => turns.push(vec![message]),
            Role::Assistant(said) => {
                // Most often it is the last.
                let mut newest = turns.iter_mut().rev();
                if let Some(turn) = newest.find(|turn| turn.first().is_some_and(|asked| asked.id == said.parent)) {
                    turn.push(message);
                }
            }
        }
    }
    let own = turns.iter().position(|turn| turn.first().is_some_and(|asked| asked.id == user.id));
    match own {
        Some(own) => turns.into_iter().take(own + 1).flatten().collect(),
        None => turns.into_iter().flatten().chain([user.clone()]).collect(),
    }
}

#[cfg(test)]
pub(super) mod tests;
