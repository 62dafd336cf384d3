//! What an agent must know before it goes on: its interrupts in, questions to the user out, and their answers back.

use handback_client::agui::Conversation;
use handback_client::agui::wire::{Interrupt, Resume, ResumeStatus};
use handback_wire::session::Reply;
use serde_json::{Map, Value, json};

use crate::chat::question::{Answer, Choices, Form, Question};

/// The question that an interrupt puts to the user.
pub(super) fn question(thread: usize, interrupt: &Interrupt, conversation: &Conversation) -> Question {
    let Interrupt { id, tool_call_id, message, reason, response_schema, .. } = interrupt;
    if let Some(call) = tool_call_id.as_deref().and_then(|call| conversation.tool_call(call)) {
        let properties = response_schema.as_ref().and_then(|schema| schema.get("properties"));
        let has = |property: &str| properties.is_some_and(|properties| properties.get(property).is_some());
        let choices = Choices { always: has("always"), edit: has("editedArgs") };
        let input = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        return Question::about_call(id, thread, [&call.name, &call.name, input], choices);
    }
    let form = match response_schema.as_ref().and_then(|schema| schema.get("type")).and_then(Value::as_str) {
        None | Some("string") => Form::Text,
        Some(_) => Form::Json,
    };
    Question::in_words(id, thread, message.as_ref().unwrap_or(reason), form)
}

/// What the agent is told.
pub(super) fn resume(interrupt: &str, answer: Answer) -> Resume {
    let payload = match answer {
        Answer::Words(words) => words,
        Answer::Call(answer) => {
            let mut payload = Map::new();
            payload.insert("approved".to_owned(), json!(answer.response != Reply::Reject));
            if answer.response == Reply::Always {
                payload.insert("always".to_owned(), json!(true));
            }
            if let Some(input) = answer.input {
                payload.insert("editedArgs".to_owned(), json!(input));
            }
            if let Some(reason) = answer.message {
                payload.insert("reason".to_owned(), json!(reason));
            }
            Some(Value::Object(payload))
        }
    };
    let status = if payload.is_some() { ResumeStatus::Resolved } else { ResumeStatus::Cancelled };
    Resume { interrupt_id: interrupt.to_owned(), status, payload, metadata: None }
}

/// Whether the agent is told that a call may be made.
pub(super) fn is_allowed(answer: &Resume) -> bool {
    let approved = answer.payload.as_ref().and_then(|payload| payload.get("approved")?.as_bool());
    answer.status == ResumeStatus::Resolved && approved != Some(false)
}

#[cfg(test)]
mod tests;
