//! A question to the user: may this call be made, or whatever else an agent must know before it goes on.

use handback_wire::session::{PermissionResponse, Reply};
use serde_json::Value;
use serde_json::value::RawValue;

use super::paint::excerpt;

/// So much of an input, or of what an agent asks, is shown. More of an input is shown when asked for, so that nobody allows
/// what they have not seen unknowingly.
const SHOWN_CHARACTERS: usize = 2_000;

/// Who decides about calls that ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    /// Whoever sits at the terminal.
    User,
    /// Each is allowed, once.
    Allow,
    /// There is nobody to ask: each is rejected.
    Reject,
}

/// A question that is put to the user, as far as it has come.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: String,
    /// The thread that waits for the answer.
    pub(super) thread: usize,
    /// What it is about: the tool as it is shown, or the question in the agent's words.
    pub(super) subject: String,
    about: About,
}

#[derive(Debug)]
enum About {
    /// Whether a call of a tool may be made.
    Call { tool: String, input: String, choices: Choices, awaits_input: bool },
    /// Anything else.
    Words(Form),
}

/// What may be answered besides yes and no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choices {
    /// Yes to all calls of the tool that follow.
    pub(super) always: bool,
    /// Yes, but with another input.
    pub(super) edit: bool,
}

/// What an answer in words is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Json,
}

/// What is answered.
#[derive(Debug)]
pub(super) enum Answer {
    /// Whether the call may be made, and how.
    Call(PermissionResponse),
    /// What the agent must know; `None` if the user does not say it.
    Words(Option<Value>),
}

/// What a line that was typed means.
#[derive(Debug)]
pub(super) enum Reading {
    /// The question is answered.
    Answer(Answer),
    /// It is put once more, after a remark.
    Again(String),
}

impl Question {
    /// Asks whether a call may be made: the tool, the name that it is shown with, and its input.
    pub(super) fn about_call(id: &str, thread: usize, [tool, name, input]: [&str; 3], choices: Choices) -> Self {
        let (tool, input) = (tool.to_owned(), input.to_owned());
        let about = About::Call { tool, input, choices, awaits_input: false };
        Self { id: id.to_owned(), thread, subject: name.to_owned(), about }
    }

    /// Asks something in the agent's words.
    pub(super) fn in_words(id: &str, thread: usize, message: &str, form: Form) -> Self {
        Self { id: id.to_owned(), thread, subject: message.to_owned(), about: About::Words(form) }
    }

    /// The tool that is to be called, if it is about a call.
    pub(super) fn tool(&self) -> Option<&str> {
        if let About::Call { tool, .. } = &self.about { Some(tool) } else { None }
    }

    /// What to ask.
    pub(super) fn text(&self) -> String {
        let subject = excerpt(&self.subject, SHOWN_CHARACTERS);
        match &self.about {
            About::Words(Form::Text) => format!("{subject} (text; nothing to refuse): "),
            About::Words(Form::Json) => format!("{subject} (JSON; nothing to refuse): "),
            About::Call { awaits_input: true, .. } => "New input (a JSON object; nothing to go back): ".to_owned(),
            About::Call { input, choices, .. } => {
                let always = if choices.always { ", [a]lways" } else { "" };
                let edit = if choices.edit { ", [e]dit" } else { "" };
                let is_cut = input.chars().nth(SHOWN_CHARACTERS).is_some();
                let show = if is_cut { ", [s]how all" } else { "" };
                let input = excerpt(input, SHOWN_CHARACTERS);
                format!("Allow {subject} {input}? [y]es{always}, [n]o{edit}{show}: ")
            }
        }
    }

    /// Reads what was typed; `None` is the end of all typing.
    pub(super) fn read(&mut self, line: Option<&str>) -> Reading {
        let line = line.map(str::trim);
        match (&mut self.about, line) {
            (About::Words(_), None | Some("")) => Reading::Answer(Answer::Words(None)),
            (About::Words(Form::Text), Some(line)) => Reading::Answer(Answer::Words(Some(line.into()))),
            (About::Words(Form::Json), Some(line)) => match serde_json::from_str(line) {
                Ok(value) => Reading::Answer(Answer::Words(Some(value))),
                Err(error) => Reading::Again(format!("That is not JSON: {error}\n")),
            },
            (About::Call { .. }, None) => answer(Reply::Reject, None),
            (About::Call { awaits_input, .. }, Some(line)) if *awaits_input => read_input(line, awaits_input),
            (About::Call { input, choices, awaits_input, .. }, Some(line)) => match line.to_lowercase().as_str() {
                "y" | "yes" => answer(Reply::Once, None),
                "a" | "always" if choices.always => answer(Reply::Always, None),
                "n" | "no" => answer(Reply::Reject, None),
                "s" | "show" => Reading::Again(format!("{}\n", excerpt(input, usize::MAX))),
                other => {
                    *awaits_input = choices.edit && matches!(other, "e" | "edit");
                    Reading::Again(String::new())
                }
            },
        }
    }

    /// Puts the question from its start, after what the answer came to.
    pub(super) fn start_over(&mut self) {
        if let About::Call { awaits_input, .. } = &mut self.about {
            *awaits_input = false;
        }
    }

    /// Yes, to a call; nobody can answer anything else unasked.
    pub(super) fn allowed(&self) -> Option<Answer> {
        self.tool().map(|_| Answer::Call(response(Reply::Once)))
    }

    /// No, and why.
    pub(super) fn rejected(&self, reason: &str) -> Answer {
        match self.about {
            About::Call { .. } => {
                Answer::Call(PermissionResponse { message: Some(reason.to_owned()), ..response(Reply::Reject) })
            }
            About::Words(_) => Answer::Words(None),
        }
    }
}

fn read_input(line: &str, awaits_input: &mut bool) -> Reading {
    if line.is_empty() {
        *awaits_input = false;
        return Reading::Again(String::new());
    }
    match serde_json::from_str::<Box<RawValue>>(line) {
        Ok(input) if input.get().starts_with('{') => answer(Reply::Once, Some(input)),
        Ok(_) => Reading::Again("That is not a JSON object.\n".to_owned()),
        Err(error) => Reading::Again(format!("That is not JSON: {error}\n")),
    }
}

fn answer(reply: Reply, input: Option<Box<RawValue>>) -> Reading {
    Reading::Answer(Answer::Call(PermissionResponse { input, ..response(reply) }))
}

fn response(response: Reply) -> PermissionResponse {
    PermissionResponse { response, input: None, message: None }
}

#[cfg(test)]
mod tests;
