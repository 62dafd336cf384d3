//! Translates snapshots of a conversation into the pieces that are new.

use std::collections::{HashMap, HashSet};

use handback_client::agui::{Conversation, Item, Role, ToolCall, ToolCallStatus};

use super::tools::Times;
use crate::chat::paint::Ink;
use crate::chat::piece::{Call, Piece, Stage};

/// Remembers what it has translated, so that each piece of a conversation is shown once.
#[derive(Debug, Default)]
pub(super) struct Translator {
    texts: HashMap<String, String>,
    thoughts: HashMap<String, String>,
    /// Reasoning that does not belong to a text or a call yet.
    loose_thought: String,
    /// The status of each call, and the length of its arguments.
    calls: HashMap<String, (ToolCallStatus, usize)>,
    /// Calls that were not allowed. The agent reports the refusal as if it were their result.
    rejected: HashSet<String>,
    undecodable: usize,
}

impl Translator {
    /// Returns the pieces that are new in a conversation.
    pub(super) fn translate(&mut self, conversation: &Conversation, times: &Times) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut undecodable = 0;
        for item in conversation.items() {
            match item {
                Item::Text(text) if text.role == Role::Assistant => {
                    self.thought(&text.id, &text.reasoning, &mut pieces);
                    let grown = grown(&mut self.texts, &text.id, &text.text);
                    pieces.extend(grown.map(|(part, text)| Piece::Text { part, text }));
                }
                Item::ToolCalls(group) => {
                    if let Some(first) = group.calls.first() {
                        self.thought(&first.id, &group.reasoning, &mut pieces);
                    }
                    for call in &group.calls {
                        self.call(call, times, &mut pieces);
                    }
                }
                Item::Undecodable { kind, reason, .. } => {
                    undecodable += 1;
                    if undecodable > self.undecodable {
                        let note = format!("an event {kind} that cannot be read: {reason}");
                        pieces.push(Piece::Note(Ink::Yellow, note));
                    }
                }
                _ => {}
            }
        }
        self.undecodable = self.undecodable.max(undecodable);
        let loose = conversation.reasoning();
        pieces.extend(thought(loose.strip_prefix(&self.loose_thought).unwrap_or(loose)));
        loose.clone_into(&mut self.loose_thought);
        pieces
    }

    /// Remembers that a call was not allowed.
    pub(super) fn reject(&mut self, call: &str) {
        self.rejected.insert(call.to_owned());
    }

    /// Adds the new reasoning of a text or a call. The reasoning may have begun as a loose thought.
    fn thought(&mut self, id: &str, text: &str, pieces: &mut Vec<Piece>) {
        if !text.is_empty() && !self.thoughts.contains_key(id) && text.starts_with(&self.loose_thought) {
            self.thoughts.insert(id.to_owned(), std::mem::take(&mut self.loose_thought));
        }
        pieces.extend(grown(&mut self.thoughts, id, text).and_then(|(_, text)| thought(&text)));
    }

    /// Adds every stage that a call has passed since the last snapshot, including stages between snapshots.
    fn call(&mut self, call: &ToolCall, times: &Times, pieces: &mut Vec<Piece>) {
        let size = call.arguments.len();
        let shown = self.calls.insert(call.id.clone(), (call.status, size));
        if shown == Some((call.status, size)) {
            return;
        }
        let last = shown.map(|(status, _)| status);
        let mut show = |stage| {
            let (id, tool, input) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            pieces.push(Piece::Call(Call { id, tool, input, stage }));
        };
        let has_run = call.status == ToolCallStatus::Executing || times.table().contains_key(&call.id);
        let was_ready = has_run || matches!(call.status, ToolCallStatus::Pending | ToolCallStatus::Completed);
        if last.is_none() || call.status == ToolCallStatus::Streaming {
            show(Stage::Receiving);
        }
        if was_ready && last.is_none_or(|last| last < ToolCallStatus::Pending) {
            show(Stage::Ready);
        }
        if has_run && last.is_none_or(|last| last < ToolCallStatus::Executing) {
            show(Stage::Running);
        }
        if !call.is_over() || last == Some(call.status) {
            return;
        }
        // The time of a call is needed only here, so its entry is removed.
        let took = times.table().remove(&call.id).flatten();
        let result = call.result.clone().unwrap_or_default();
        if call.status == ToolCallStatus::Failed || self.rejected.contains(&call.id) {
            show(Stage::Failed { error: result });
        } else {
            show(Stage::Done { output: result, files: Vec::new(), took });
        }
    }
}

fn thought(text: &str) -> Option<Piece> {
    (!text.is_empty()).then(|| Piece::Thought { part: "thought".to_owned(), text: text.to_owned() })
}

/// The id of the part that shows a text, and the new end of the text; `None` if there is nothing new. If another text
/// replaces a text, it is shown as a new part.
fn grown(shown: &mut HashMap<String, String>, id: &str, text: &str) -> Option<(String, String)> {
    let before = shown.entry(id.to_owned()).or_default();
    // A replayed text has nothing new until it is longer than before.
    if before.starts_with(text) {
        return None;
    }
    let (part, new) = match text.strip_prefix(before.as_str()) {
        Some(new) => (id.to_owned(), new.to_owned()),
        None => (format!("{id} again"), text.to_owned()),
    };
    text.clone_into(before);
    Some((part, new))
}

#[cfg(test)]
mod tests;
