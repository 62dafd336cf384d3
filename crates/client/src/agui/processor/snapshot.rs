//! A conversation that is told anew.

use std::collections::HashMap;

use handback_wire::agui::{Content, Message};

use super::super::conversation::{Conversation, Item, Places, Role, Text, ToolCall, ToolCallStatus};

impl Conversation {
    /// Takes these messages in place of all items. What is open and not among them stays, at the end; calls that are
    /// known keep how far they are, so that none goes back. Of those that are not, none is open that the user did not wait
    /// for: it is history, and nobody is to run it now.
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
        self.places = Places::default();
        self.streaming = None;
        self.found = 0;
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
            let told = self.places.texts.get(&text.id).copied();
            self.streaming = Some(told.unwrap_or(self.items.len()));
            if told.is_none() {
                self.push_text(text);
            }
        }
    }

    /// Takes a message: the calls in it that were not known.
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
                    if self.places.calls.contains_key(&call.id) {
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
            Message::Tool { tool_call_id, content, error, .. } => match self.call_mut(tool_call_id) {
                // One that runs here has its result from here.
                Some(call) if call.is_active() => call.end(match error {
                    Some(error) => Err(error.clone()),
                    None => Ok(content.text()),
                }),
                Some(_) => {}
                None => tracing::warn!(tool_call_id, "a result of a call that is not known; it is dropped"),
            },
            Message::Activity { id, activity_type, content, .. } => {
                self.activity_told(id, activity_type, content);
            }
            Message::Reasoning { content, .. } => self.reasoning.text.push_str(content),
            Message::User { .. } | Message::Other(_) => self.items.push(Item::Message(message.clone())),
        }
        unknown
    }

    fn take_text(&mut self, id: &str, role: Role, text: &str) {
        let reasoning = if role == Role::Assistant { std::mem::take(&mut self.reasoning.text) } else { String::new() };
        self.push_text(Text { id: id.to_owned(), role, text: text.to_owned(), reasoning, is_cut_off: false });
    }
}
