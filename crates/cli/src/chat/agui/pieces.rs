//! What of a conversation is new: conversations in, pieces to show out.

use std::collections::{HashMap, HashSet};

use handback_client::agui::{Conversation, Item, Role, ToolCall, ToolCallStatus};

use super::tools::Times;
use crate::chat::paint::Ink;
use crate::chat::piece::{Call, Piece, Stage};

/// Makes pieces of a conversation as it goes on. What was shown is not shown again.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    texts: HashMap<String, String>,
    thoughts: HashMap<String, String>,
    /// Of what the model thinks before it is known what it thinks it for.
    loose_thought: String,
    calls: HashMap<String, (ToolCallStatus, usize)>,
    /// Calls that were not allowed. The agent tells why as if it came of them.
    rejected: HashSet<String>,
    unread: usize,
}

impl Pieces {
    /// What is new.
    pub(super) fn of(&mut self, conversation: &Conversation, times: &Times) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let mut unread = 0;
        for item in conversation.items() {
            match item {
                Item::Text(text) if text.role == Role::Assistant => {
                    self.thought(&text.id, &text.reasoning, &mut pieces);
                    self.text(&text.id, &text.text, &mut pieces);
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
                    unread += 1;
                    if unread > self.unread {
                        let note = format!("an event {kind} that cannot be read: {reason}");
                        pieces.push(Piece::Note(Ink::Yellow, note));
                    }
                }
                _ => {}
            }
        }
        self.unread = self.unread.max(unread);
        self.loose_thought(conversation.reasoning(), &mut pieces);
        pieces
    }

    /// Notes that a call was not allowed.
    pub(super) fn reject(&mut self, call: &str) {
        self.rejected.insert(call.to_owned());
    }

    fn text(&mut self, id: &str, text: &str, pieces: &mut Vec<Piece>) {
        if let Some((part, text)) = grown(&mut self.texts, id, text) {
            pieces.push(Piece::Text { part, text });
        }
    }

    fn thought(&mut self, id: &str, text: &str, pieces: &mut Vec<Piece>) {
        if !text.is_empty() && !self.thoughts.contains_key(id) && text.starts_with(&self.loose_thought) {
            self.thoughts.insert(id.to_owned(), std::mem::take(&mut self.loose_thought));
        }
        if let Some((_, text)) = grown(&mut self.thoughts, id, text) {
            pieces.push(Piece::Thought { part: "thought".to_owned(), text });
        }
    }

    fn loose_thought(&mut self, text: &str, pieces: &mut Vec<Piece>) {
        let new = text.strip_prefix(&self.loose_thought).unwrap_or(text);
        if !new.is_empty() {
            pieces.push(Piece::Thought { part: "thought".to_owned(), text: new.to_owned() });
        }
        self.loose_thought = text.to_owned();
    }

    /// A call is seen at every stage that it has passed, also where it passed it too fast for us.
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
        // Whoever shows the end of a call takes its time.
        let took = times.table().remove(&call.id).flatten();
        let (result, files) = (call.result.clone().unwrap_or_default(), Vec::new());
        if call.status == ToolCallStatus::Failed || self.rejected.contains(&call.id) {
            show(Stage::Failed { error: result });
        } else {
            show(Stage::Done { output: result, files, took });
        }
    }
}

/// What has come to a text, and the part that it is shown as; `None` if nothing has. A text that was shown and is told anew in
/// other words is shown as another part.
fn grown(shown: &mut HashMap<String, String>, id: &str, text: &str) -> Option<(String, String)> {
    let before = shown.entry(id.to_owned()).or_default();
    // One that is told again from its beginning has nothing new until it is longer than it was.
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
