//! A conversation as the messages of AG-UI.

use std::collections::HashSet;

use handback_wire::agui::{CallType, FunctionCall, Labels, Message, ToolCall as WireCall};
use serde::de::IgnoredAny;

use super::arguments_or_empty;
use super::conversation::{Conversation, Item, Role, Text, ToolCall, ToolCallGroup, ToolCallStatus};

/// The messages of a conversation, as they are sent with the request for a run.
///
/// Calls that are over come with their result or error. Open calls, errors and activities are left out, and so is a
/// text at the end that was cut off.
pub fn messages(conversation: &Conversation) -> Vec<Message> {
    let mut messages = Messages::default();
    for item in conversation.items() {
        match item {
            Item::Text(text) => messages.text(text),
            Item::ToolCalls(group) => messages.calls(group),
            Item::Message(message) => messages.all.push(message.clone()),
            Item::Activity { .. } | Item::Undecodable { .. } | Item::Error { .. } => {}
        }
    }
    let last = conversation.items().iter().rev().find_map(|item| match item {
        Item::Text(text) => Some(Some(text)),
        Item::ToolCalls(group) if group.calls.iter().any(ToolCall::is_over) => Some(None),
        Item::Message(_) => Some(None),
        _ => None,
    });
    if last.flatten().is_some_and(|text| text.is_cut_off) {
        messages.all.pop();
    }
    messages.all
}

#[derive(Default)]
struct Messages<'a> {
    all: Vec<Message>,
    ids: HashSet<&'a str>,
}

impl<'a> Messages<'a> {
    fn text(&mut self, Text { id, role, text, .. }: &'a Text) {
        self.ids.insert(id);
        let (id, labels) = (id.clone(), Labels::default());
        self.all.push(match role {
            Role::User => Message::User { id, content: text.as_str().into(), labels },
            Role::Assistant => Message::Assistant { id, content: Some(text.clone()), tool_calls: None, labels },
            Role::System => Message::System { id, content: text.clone(), labels },
        });
    }

    fn calls(&mut self, group: &'a ToolCallGroup) {
        let over: Vec<&ToolCall> = group.calls.iter().filter(|call| call.is_over()).collect();
        let Some(first) = over.first() else { return };
        let calls: Vec<WireCall> = over.iter().map(|call| wire_call(call)).collect();
        let parent = group.parent_message_id.as_deref();
        match self.all.last_mut() {
            // A text and the calls that name it as their parent are one message.
            Some(Message::Assistant { id, tool_calls: tool_calls @ None, .. }) if Some(id.as_str()) == parent => {
                *tool_calls = Some(calls);
            }
            _ => {
                let id = match parent {
                    Some(parent) if self.ids.insert(parent) => parent.to_owned(),
                    _ => format!("tool_calls_{}", first.id),
                };
                let labels = Labels::default();
                self.all.push(Message::Assistant { id, content: None, tool_calls: Some(calls), labels });
            }
        }
        self.all.extend(over.into_iter().map(result));
    }
}

fn wire_call(call: &ToolCall) -> WireCall {
    let is_json = |text: &str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let arguments = match arguments_or_empty(&call.arguments) {
        // Arguments that were cut off would make the whole request invalid.
        arguments if call.status == ToolCallStatus::Failed && !is_json(arguments) => "{}",
        arguments => arguments,
    };
    let function = FunctionCall { name: call.name.clone(), arguments: arguments.to_owned() };
    WireCall { id: call.id.clone(), kind: CallType::Function, function, encrypted_value: None, metadata: None }
}

fn result(call: &ToolCall) -> Message {
    let content = call.result.clone().unwrap_or_default();
    Message::Tool {
        id: format!("tool_result_{}", call.id),
        tool_call_id: call.id.clone(),
        error: (call.status == ToolCallStatus::Failed).then(|| content.clone()),
        content: content.into(),
        labels: Labels::default(),
    }
}

#[cfg(test)]
mod tests;
