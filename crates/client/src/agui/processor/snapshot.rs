//! Snapshots of the messages.

use std::collections::HashMap;

use handback_wire::agui::{Content, Message};

use crate::agui::conversation::{Conversation, Item, Positions, Role, Text, ToolCall, ToolCallStatus};

impl Conversation {
    /// Replaces all items by these messages. Open calls and the streaming text stay, at the end, if the messages lack
    /// them. Known calls keep their status. Unknown calls without a result fail if a message of the user follows them:
    /// they are history, and nobody is to run them now.
    pub(super) fn replace_messages(&mut self, messages: &[Message]) {
        let open_text = self.streaming_text().cloned();
        let mut known: HashMap<String, ToolCall> = HashMap::new();
        let mut open = Vec::new();
        for item in std::mem::take(&mut self.items) {
            let Item::ToolCalls(group) = item else { continue };
            for call in group.calls {
                if !call.is_over() {
                    open.push((call.id.clone(), group.parent_message_id.clone()));
                }
                known.insert(call.id.clone(), call);
            }
        }
        self.positions = Positions::default();
        self.streaming = None;
        self.run_start = 0;
        let mut unanswered: Vec<String> = Vec::new();
        for message in messages {
            if matches!(message, Message::User { .. }) {
                for id in unanswered.drain(..) {
                    self.end_call(&id, Err("no result of it is known".to_owned()));
                }
            }
            unanswered.extend(self.take_message(message, &mut known));
        }
        for (id, parent_message_id) in open {
            if let Some(call) = known.remove(&id) {
                self.push_call(call, parent_message_id);
            }
        }
        if let Some(text) = open_text {
            let position = self.positions.texts.get(&text.id).copied();
            self.streaming = Some(position.unwrap_or(self.items.len()));
            if position.is_none() {
                self.push_text(text);
            }
        }
    }

    /// Adds a message, and returns the ids of its calls that were unknown.
    fn take_message(&mut self, message: &Message, known: &mut HashMap<String, ToolCall>) -> Vec<String> {
        let mut unknown = Vec::new();
        match message {
            Message::Developer { id, content, .. } | Message::System { id, content, .. } => {
                self.take_text(id, Role::System, content);
            }
            Message::User { id, content: Content::Text(content), .. } => self.take_text(id, Role::User, content),
            Message::Assistant { id, content, tool_calls, .. } => {
                if let Some(content) = content.as_deref().filter(|content| !content.is_empty()) {
                    self.take_text(id, Role::Assistant, content);
                }
                for call in tool_calls.iter().flatten() {
                    if self.positions.calls.contains_key(&call.id) {
                        continue;
                    }
                    let call = known.remove(&call.id).unwrap_or_else(|| {
                        unknown.push(call.id.clone());
                        ToolCall {
                            id: call.id.clone(),
                            name: call.function.name.clone(),
                            arguments: call.function.arguments.clone(),
                            status: ToolCallStatus::Pending,
                            result: None,
                        }
                    });
                    self.push_call(call, Some(id.clone()));
                }
            }
            Message::Tool { tool_call_id, content, error, .. } => {
                self.call_ended(tool_call_id, error.clone().map_or_else(|| Ok(content.text()), Err));
            }
            Message::Activity { id, activity_type, content, .. } => self.set_activity(id, activity_type, content),
            Message::Reasoning { content, .. } => self.reasoning.push_str(content),
            Message::User { .. } | Message::Other(_) => self.items.push(Item::Message(message.clone())),
        }
        unknown
    }

    fn take_text(&mut self, id: &str, role: Role, text: &str) {
        let reasoning = if role == Role::Assistant { std::mem::take(&mut self.reasoning) } else { String::new() };
        self.push_text(Text { id: id.to_owned(), role, text: text.to_owned(), reasoning, is_cut_off: false });
    }
}
