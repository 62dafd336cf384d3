//! Translates an agent's interrupts into questions to the user, and the user's answers into the agent's format.

use handback_client::agui::Conversation;
use handback_client::agui::wire::{Interrupt, Resume, ResumeStatus};
use handback_wire::session::Reply;
use serde_json::{Value, json};

use crate::chat::question::{About, Answer, Choices, Question};

/// Translates an interrupt into a question.
pub(super) fn question(thread: usize, interrupt: &Interrupt, conversation: &Conversation) -> Question {
    let Interrupt { id, tool_call_id, message, reason, response_schema, .. } = interrupt;
    if let Some(call) = tool_call_id.as_deref().and_then(|call| conversation.tool_call(call)) {
        let properties = response_schema.as_ref().and_then(|schema| schema.get("properties"));
        let has = |property: &str| properties.is_some_and(|properties| properties.get(property).is_some());
        let choices = Choices { always: has("always"), edit: has("editedArgs") };
        let input = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
        return Question::about_call(id, thread, [&call.name, &call.name, input], choices);
    }
    let about = match response_schema.as_ref().and_then(|schema| schema.get("type")).and_then(Value::as_str) {
        None | Some("string") => About::Text,
        Some(_) => About::Json,
    };
    Question { id: id.clone(), thread, subject: message.as_ref().unwrap_or(reason).clone(), about }
}

/// Translates an answer into the agent's format.
pub(super) fn resume(interrupt: &str, answer: Answer) -> Resume {
    let payload = match answer {
        Answer::Value(value) => value,
        Answer::Call(answer) => {
            let mut payload = json!({ "approved": answer.response != Reply::Reject });
            if answer.response == Reply::Always {
                payload["always"] = json!(true);
            }
            if let Some(input) = answer.input {
                payload["editedArgs"] = json!(input);
            }
            if let Some(reason) = answer.message {
                payload["reason"] = json!(reason);
            }
            Some(payload)
        }
    };
    let status = if payload.is_some() { ResumeStatus::Resolved } else { ResumeStatus::Cancelled };
    Resume { interrupt_id: interrupt.to_owned(), status, payload, metadata: None }
}

/// Whether an answer allows the call.
pub(super) fn is_allowed(answer: &Resume) -> bool {
    let approved = answer.payload.as_ref().and_then(|payload| payload.get("approved")?.as_bool());
    answer.status == ResumeStatus::Resolved && approved != Some(false)
}

#[cfg(test)]
mod tests;
