//! The messages of a session in memory. Every saved message changes them. Sharing them with the running turn costs the
//! same however long they are.

use std::sync::Arc;

use ahash::HashMap;

use crate::id::MessageId;
use crate::store::{Message, Role, weight};

/// What a model is shown in a turn: every user's message followed by its answers, up to the message to answer and its
/// answers so far.
#[derive(Debug)]
pub(crate) struct Conversation {
    /// The first `earlier` of these messages come before the turn.
    frozen: Arc<Vec<Arc<Message>>>,
    earlier: usize,
    /// The messages of the turn, the user's message first.
    pub(crate) turn: Vec<Arc<Message>>,
    /// How many of them, at the end, the turn itself has made. The others are of earlier turns that answered the message.
    pub(crate) own: usize,
}

impl Conversation {
    pub(crate) fn earlier(&self) -> &[Arc<Message>] {
        &self.frozen[..self.earlier]
    }
}

/// The messages of a session, in the order in which they were first saved.
#[derive(Debug)]
pub(super) struct History {
    /// The oldest messages. A running turn shares them, so they do not change meanwhile.
    frozen: Arc<Vec<Arc<Message>>>,
    /// The messages after `frozen`.
    recent: Vec<Arc<Message>>,
    /// The index of each message.
    places: HashMap<MessageId, usize>,
    /// The approximate number of bytes that the messages take.
    bytes: usize,
    /// The last user's message.
    last_user: Option<MessageId>,
    /// Whether every answer directly follows its user's message, with only other answers to it in between.
    is_in_order: bool,
    /// Messages with yielded calls.
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
    pub(super) fn of(messages: Vec<Arc<Message>>) -> Self {
        let mut history = Self::default();
        messages.iter().for_each(|message| history.note(message));
        history.frozen = Arc::new(messages);
        history
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn all(&self) -> impl DoubleEndedIterator<Item = &Arc<Message>> {
        self.frozen.iter().chain(&self.recent)
    }

    pub(super) fn get(&self, id: &MessageId) -> Option<&Arc<Message>> {
        let place = *self.places.get(id)?;
        self.frozen.get(place).or_else(|| self.recent.get(place - self.frozen.len()))
    }

    /// The messages with yielded calls.
    pub(super) fn yielded(&self) -> Vec<Arc<Message>> {
        self.yielded.iter().filter_map(|id| self.get(id).cloned()).collect()
    }

    /// Whether a message is the first one, or will be.
    pub(super) fn is_first(&self, id: &MessageId) -> bool {
        self.places.get(id).is_none_or(|place| *place == 0)
    }

    /// Adds a message, or replaces its earlier version.
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

    /// Removes a message and all messages that were first saved after it.
    pub(super) fn delete_from(&mut self, id: &MessageId) {
        let Some(place) = self.places.get(id) else { return };
        let left = self.all().take(*place).cloned().collect();
        *self = Self::of(left);
    }

    /// Indexes a message that comes after all others.
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

    /// The conversation for the turn that answers a message. Answers that failed before they made any calls are left
    /// out, since they are tried again.
    pub(super) fn conversation(&mut self, user: &Arc<Message>) -> Conversation {
        let is_left_out = |message: &Message| message.answers() == Some(&user.id) && message.failed_without_calls();
        match self.places.get(&user.id) {
            // The usual case: the turn is at the end of the history.
            Some(place) if self.is_in_order && self.last_user.as_ref() == Some(&user.id) => {
                let place = *place;
                if let Some(before) = place.checked_sub(self.frozen.len())
                    && let Some(frozen) = Arc::get_mut(&mut self.frozen)
                {
                    frozen.extend(self.recent.drain(..before));
                }
                let earlier = place.min(self.frozen.len());
                let turn = self.all().skip(earlier).filter(|message| !is_left_out(message));
                let turn: Vec<_> = turn.cloned().collect();
                Conversation { own: self.count_own(&turn, user), turn, frozen: self.frozen.clone(), earlier }
            }
            _ => {
                let all = self.all().filter(|message| !is_left_out(message)).cloned();
                let turn = put_in_order(all, user);
                Conversation { own: self.count_own(&turn, user), turn, frozen: Arc::default(), earlier: 0 }
            }
        }
    }

    /// Whether a message was first saved after another one, if there is one.
    pub(super) fn comes_after(&self, message: &MessageId, other: Option<&MessageId>) -> bool {
        let other = other.and_then(|other| self.places.get(other));
        other.is_none_or(|other| self.places.get(message) > Some(other))
    }

    /// How many messages at the end are answers of the open turn.
    fn count_own(&self, messages: &[Arc<Message>], user: &Message) -> usize {
        let after = user.turn().and_then(|turn| turn.after.as_ref());
        let is_own =
            |message: &&Arc<Message>| message.answers() == Some(&user.id) && self.comes_after(&message.id, after);
        messages.iter().rev().take_while(is_own).count()
    }
}

/// Sorts messages so that every user's message is followed by its answers, up to the message to answer. Prompts that
/// wait are stored before the answers to earlier prompts.
fn put_in_order(stored: impl Iterator<Item = Arc<Message>>, user: &Arc<Message>) -> Vec<Arc<Message>> {
    let mut turns: Vec<Vec<Arc<Message>>> = Vec::new();
    for message in stored {
        match &message.role {
            Role::User(_) => turns.push(vec![message]),
            Role::Assistant(said) => {
                // Most often it is the last turn.
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
