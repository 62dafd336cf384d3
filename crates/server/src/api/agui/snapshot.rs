//! The messages of a thread after a restart, as a front end has them: those that it sent, and the answers since.

use std::collections::{HashMap, HashSet};

use handback_core::store::{Message, Part, PartBody, ToolState};
use handback_wire::agui::{CallType, Content, FunctionCall, Labels, Message as Shown, ToolCall};

/// What the front end sent, without the answer that is told again, and with the answers that are complete.
pub(super) fn messages<'a>(
    sent: &[Shown],
    begun: Option<&str>,
    answers: impl IntoIterator<Item = &'a Message>,
    content: impl Fn(&handback_core::store::ToolPart) -> Content,
) -> Vec<Shown> {
    let answers: Vec<&Message> = answers.into_iter().collect();
    let is_told = |id: &str| begun == Some(id) || answers.iter().any(|answer| answer.id.as_str() == id);
    let told_calls: HashSet<&str> = sent.iter().filter_map(|message| calls_of(message, is_told)).flatten().collect();
    let is_known = |message: &&Shown| match message {
        Shown::Tool { tool_call_id, .. } => !told_calls.contains(tool_call_id.as_str()),
        message => !message.id().is_some_and(is_told),
    };
    let mut messages: Vec<Shown> = sent.iter().filter(is_known).cloned().collect();
    let sent_results: HashMap<&str, &str> = sent.iter().filter_map(result_of).collect();
    for answer in answers {
        messages.extend(shown(answer, &sent_results, &content));
    }
    messages
}

/// The calls of a message that is told again.
fn calls_of(message: &Shown, is_told: impl Fn(&str) -> bool) -> Option<impl Iterator<Item = &str>> {
    match message {
        Shown::Assistant { id, tool_calls: Some(calls), .. } if is_told(id) => {
            Some(calls.iter().map(|call| call.id.as_str()))
        }
        _ => None,
    }
}

/// The call that a message has the result of, and the id of the message.
fn result_of(message: &Shown) -> Option<(&str, &str)> {
    match message {
        Shown::Tool { tool_call_id, id, .. } => Some((tool_call_id, id)),
        _ => None,
    }
}

/// An answer, with the ids that its events have: its first text and its calls have its own id, and what else people see
/// of it has the ids of its parts. A result that the front end sent has the id that it has there.
fn shown(
    answer: &Message,
    sent_results: &HashMap<&str, &str>,
    content: impl Fn(&handback_core::store::ToolPart) -> Content,
) -> Vec<Shown> {
    let labels = Labels::default;
    let (mut own_text, mut calls, mut others, mut results) = (None, Vec::new(), Vec::new(), Vec::new());
    for part in answer.parts.iter().map(|part| &**part).filter(|part| part.is_shown()) {
        let Part { id, body } = part;
        match body {
            PartBody::Text { text, .. } if own_text.is_none() && calls.is_empty() => own_text = Some(text.clone()),
            PartBody::Text { text, .. } => others.push(Shown::Assistant {
                id: id.to_string(),
                content: Some(text.clone()),
                tool_calls: None,
                labels: labels(),
            }),
            PartBody::Reasoning { text, .. } => {
                others.push(Shown::Reasoning { id: id.to_string(), content: text.clone(), labels: labels() });
            }
            PartBody::Tool(tool) => {
                calls.push(ToolCall {
                    id: tool.call.to_string(),
                    kind: CallType::Function,
                    function: FunctionCall { name: tool.tool.to_string(), arguments: tool.arguments().to_owned() },
                    encrypted_value: None,
                    metadata: None,
                });
                if matches!(tool.state, ToolState::Done { .. }) {
                    let sent = sent_results.get(tool.call.as_str()).copied();
                    results.push(Shown::Tool {
                        id: sent.unwrap_or(id.as_str()).to_owned(),
                        tool_call_id: tool.call.to_string(),
                        content: content(tool),
                        error: None,
                        labels: labels(),
                    });
                }
            }
            PartBody::File(_) | PartBody::StepStart | PartBody::StepFinish { .. } => {}
        }
    }
    let own = (own_text.is_some() || !calls.is_empty()).then(|| Shown::Assistant {
        id: answer.id.to_string(),
        content: own_text,
        tool_calls: (!calls.is_empty()).then_some(calls),
        labels: labels(),
    });
    own.into_iter().chain(others).chain(results).collect()
}

#[cfg(test)]
mod tests;
