//! What of a conversation is new: conversations in, pieces to show out.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use handback_client::agui::{Conversation, Item, Role, ToolCall, ToolCallStatus};

use super::tools::Times;

/// Something to show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// More of an answer.
    Text { part: String, text: String },
    /// More of what the model thinks before it answers.
    Thought { part: String, text: String },
    /// A call, which is new, or further than before.
    Call(Call),
    /// Something came that cannot be read.
    Unread(String),
}

/// A call, and how far it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// As far as they have come.
    pub(super) arguments: String,
    pub(super) stage: Stage,
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// Its arguments come in.
    Receiving,
    /// They are complete.
    Ready,
    /// It is run here.
    Running,
    /// It is done: what came of it, and how long it took if it was run here.
    Done { output: String, took: Option<Duration> },
    /// It failed, or was not run at all.
    Failed { error: String },
}

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
    /// All texts since it was last taken.
    answer: String,
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
                        pieces.push(Piece::Unread(format!("an event {kind} that cannot be read: {reason}")));
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

    /// All that was said since this was last asked, as it is printed.
    pub(super) fn take_answer(&mut self) -> String {
        std::mem::take(&mut self.answer)
    }

    fn text(&mut self, id: &str, text: &str, pieces: &mut Vec<Piece>) {
        let is_new = !self.texts.contains_key(id);
        let Some((part, new)) = grown(&mut self.texts, id, text) else { return };
        if (is_new || part != id) && !self.answer.is_empty() && !self.answer.ends_with('\n') {
            self.answer.push('\n');
        }
        self.answer.push_str(&new);
        pieces.push(Piece::Text { part, text: new });
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
            let (id, tool, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            pieces.push(Piece::Call(Call { id, tool, arguments, stage }));
        };
        let has_run = call.status == ToolCallStatus::Executing || times.has_begun(&call.id);
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
        let result = || call.result.clone().unwrap_or_default();
        match call.status {
            _ if last == Some(call.status) => {}
            ToolCallStatus::Completed if self.rejected.contains(&call.id) => show(Stage::Failed { error: result() }),
            ToolCallStatus::Completed => show(Stage::Done { output: result(), took: times.take(&call.id) }),
            ToolCallStatus::Failed => {
                times.take(&call.id);
                show(Stage::Failed { error: result() });
            }
            ToolCallStatus::Streaming | ToolCallStatus::Pending | ToolCallStatus::Executing => {}
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
