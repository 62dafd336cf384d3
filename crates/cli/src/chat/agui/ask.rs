//! What an agent must know before it goes on.

use handback_client::agui::Conversation;
use handback_client::agui::wire::{Interrupt, Resume, ResumeStatus};
use handback_wire::session::{PermissionResponse, Reply};
use serde_json::{Map, Value, json};

use crate::chat::layout::excerpt;
use crate::chat::question::{Choices, Question, Reading};

/// So much of what an agent asks is shown.
const QUESTION_CHARACTERS: usize = 2_000;

/// Something that an agent must know.
#[derive(Debug)]
pub(super) struct Ask {
    /// The thread that waits for it.
    pub(super) thread: usize,
    id: String,
    about: About,
}

#[derive(Debug)]
enum About {
    /// Whether a call may be made.
    Call(Question),
    /// Anything else, in its words.
    Words { message: String, answer: Form },
}

/// What an answer in words is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// What a line that was typed means.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is answered.
    Given(Resume),
    /// It is answered, and so are the other calls of this tool.
    Always(Resume),
    /// It is asked once more, after a remark.
    Again(String),
}

impl Ask {
    pub(super) fn new(thread: usize, interrupt: &Interrupt, conversation: &Conversation) -> Self {
        let call = interrupt.tool_call_id.as_deref().and_then(|id| conversation.tool_call(id));
        let about = match call {
            Some(call) => {
                let choices = Choices { always: has(interrupt, "always"), edit: has(interrupt, "editedArgs") };
                let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
                About::Call(Question::new(&interrupt.id, &call.name, &call.name, arguments, choices))
            }
            None => About::Words {
                message: interrupt.message.clone().unwrap_or_else(|| interrupt.reason.clone()),
                answer: form(interrupt.response_schema.as_ref()),
            },
        };
        Self { thread, id: interrupt.id.clone(), about }
    }

    /// What to ask.
    pub(super) fn text(&self) -> String {
        match &self.about {
            About::Call(question) => question.text(),
            About::Words { message, answer } => {
                let form = if *answer == Form::Json { "JSON" } else { "text" };
                format!("{} ({form}; nothing to refuse): ", excerpt(message, QUESTION_CHARACTERS))
            }
        }
    }

    /// What it is about, in a word.
    pub(super) fn subject(&self) -> &str {
        match &self.about {
            About::Call(question) => &question.tool,
            About::Words { message, .. } => message,
        }
    }

    /// Reads what was typed; `None` is the end of all typing.
    pub(super) fn read(&mut self, line: Option<&str>) -> Answer {
        match &mut self.about {
            About::Call(question) => match question.read(line) {
                Reading::Again(remark) => Answer::Again(remark),
                Reading::Answer(answer) if answer.response == Reply::Always => Answer::Always(self.decided(answer)),
                Reading::Answer(answer) => Answer::Given(self.decided(answer)),
            },
            About::Words { answer, .. } => match (line.map(str::trim), *answer) {
                (None | Some(""), _) => Answer::Given(self.refused()),
                (Some(line), Form::Text) => Answer::Given(self.resolved(json!(line))),
                (Some(line), Form::Json) => match serde_json::from_str(line) {
                    Ok(value) => Answer::Given(self.resolved(value)),
                    Err(error) => Answer::Again(format!("That is not JSON: {error}\n")),
                },
            },
        }
    }

    /// Yes, to a call; nobody can answer anything else unasked.
    pub(super) fn allowed(&self) -> Option<Resume> {
        matches!(self.about, About::Call(_)).then(|| self.resolved(json!({"approved": true})))
    }

    /// No, and why.
    pub(super) fn rejected(&self, reason: &str) -> Resume {
        match self.about {
            About::Call(_) => self.resolved(json!({"approved": false, "reason": reason})),
            About::Words { .. } => self.refused(),
        }
    }

    fn decided(&self, answer: PermissionResponse) -> Resume {
        let mut payload = Map::new();
        payload.insert("approved".to_owned(), json!(answer.response != Reply::Reject));
        if answer.response == Reply::Always {
            payload.insert("always".to_owned(), json!(true));
        }
        if let Some(input) = answer.input {
            payload.insert("editedArgs".to_owned(), json!(input));
        }
        self.resolved(Value::Object(payload))
    }

    fn resolved(&self, payload: Value) -> Resume {
        let (interrupt_id, status) = (self.id.clone(), ResumeStatus::Resolved);
        Resume { interrupt_id, status, payload: Some(payload), metadata: None }
    }

    fn refused(&self) -> Resume {
        refusal(&self.id)
    }
}

/// Says that somebody decided not to answer.
pub(super) fn refusal(interrupt: &str) -> Resume {
    let (interrupt_id, status) = (interrupt.to_owned(), ResumeStatus::Cancelled);
    Resume { interrupt_id, status, payload: None, metadata: None }
}

/// Whether the answer may have a property of this name.
fn has(interrupt: &Interrupt, property: &str) -> bool {
    let properties = interrupt.response_schema.as_ref().and_then(|schema| schema.get("properties"));
    properties.is_some_and(|properties| properties.get(property).is_some())
}

fn form(schema: Option<&Map<String, Value>>) -> Form {
    match schema.and_then(|schema| schema.get("type")).and_then(Value::as_str) {
        None | Some("string") => Form::Text,
        Some(_) => Form::Json,
    }
}

#[cfg(test)]
mod tests;
