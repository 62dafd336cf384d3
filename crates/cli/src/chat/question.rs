//! A question to the user: whether a call may be made, or anything else that an agent must know before it continues.

use handback_wire::session::{PermissionResponse, Reply};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::output::excerpt;

/// How much of an input or question is shown. A longer input can be shown completely on request, so that nobody allows
/// a call without having been able to see it.
const SHOWN_CHARACTERS: usize = 2_000;

/// Who decides about calls that need to be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    /// The user at the terminal.
    User,
    /// Each call is allowed, once.
    Allow,
    /// Nobody can be asked: each call is rejected.
    Reject,
}

/// A question to the user.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) id: String,
    /// The thread that waits for the answer.
    pub(super) thread: usize,
    /// The displayed name of the tool, or the question in the agent's words.
    pub(super) subject: String,
    pub(super) about: About,
}

/// The subject of a question, which decides the type of its answer.
#[derive(Debug)]
pub(super) enum About {
    /// Whether a call may be made. `awaits_input` while the user types another input.
    Call { tool: String, input: String, choices: Choices, awaits_input: bool },
    /// Anything else; the answer is a text.
    Text,
    /// Anything else; the answer is JSON.
    Json,
}

/// The answers that are possible besides yes and no.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choices {
    /// Yes to this call and to all later calls of the tool.
    pub(super) always: bool,
    /// Yes, but with another input.
    pub(super) edit: bool,
}

/// The answer to a question.
#[derive(Debug)]
pub(super) enum Answer {
    /// Whether the call may be made, and how.
    Call(PermissionResponse),
    /// The value that the agent asked for; `None` if the user refuses.
    Value(Option<Value>),
}

impl Answer {
    fn call(response: Reply) -> Self {
        Self::Call(PermissionResponse { response, input: None, message: None })
    }

    /// Whether all later calls of the tool are allowed as well.
    pub(super) fn is_always(&self) -> bool {
        matches!(self, Self::Call(answer) if answer.response == Reply::Always)
    }
}

impl Question {
    /// Asks whether a call may be made: the tool, the name that it is shown with, and its input.
    pub(super) fn about_call(id: &str, thread: usize, [tool, name, input]: [&str; 3], choices: Choices) -> Self {
        let (tool, input) = (tool.to_owned(), input.to_owned());
        let about = About::Call { tool, input, choices, awaits_input: false };
        Self { id: id.to_owned(), thread, subject: name.to_owned(), about }
    }

    /// The tool of the call, if the question is about a call.
    pub(super) fn tool(&self) -> Option<&str> {
        if let About::Call { tool, .. } = &self.about { Some(tool) } else { None }
    }

    /// The prompt.
    pub(super) fn text(&self) -> String {
        let subject = excerpt(&self.subject, SHOWN_CHARACTERS);
        match &self.about {
            About::Text => format!("{subject} (text; empty to refuse): "),
            About::Json => format!("{subject} (JSON; empty to refuse): "),
            About::Call { awaits_input: true, .. } => "New input (a JSON object; empty to go back): ".to_owned(),
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

    /// Reads a typed line; `None` means the end of input. An error is a remark, and the question is asked again after
    /// it.
    pub(super) fn read(&mut self, line: Option<&str>) -> Result<Answer, String> {
        let line = line.map(str::trim);
        match (&mut self.about, line) {
            (About::Text | About::Json, None | Some("")) => Ok(Answer::Value(None)),
            (About::Text, Some(line)) => Ok(Answer::Value(Some(line.into()))),
            (About::Json, Some(line)) => {
                serde_json::from_str(line).map(|value| Answer::Value(Some(value))).map_err(not_json)
            }
            (About::Call { .. }, None) => Ok(Answer::call(Reply::Reject)),
            (About::Call { awaits_input, .. }, Some("")) => {
                *awaits_input = false;
                Err(String::new())
            }
            (About::Call { awaits_input: awaits_input @ true, .. }, Some(line)) => {
                let input: Box<RawValue> = serde_json::from_str(line).map_err(not_json)?;
                if !input.get().starts_with('{') {
                    return Err("That is not a JSON object.\n".to_owned());
                }
                *awaits_input = false;
                Ok(Answer::Call(PermissionResponse { response: Reply::Once, input: Some(input), message: None }))
            }
            (About::Call { input, choices, awaits_input, .. }, Some(line)) => match line.to_lowercase().as_str() {
                "y" | "yes" => Ok(Answer::call(Reply::Once)),
                "a" | "always" if choices.always => Ok(Answer::call(Reply::Always)),
                "n" | "no" => Ok(Answer::call(Reply::Reject)),
                "s" | "show" => Err(format!("{}\n", excerpt(input, usize::MAX))),
                other => {
                    *awaits_input = choices.edit && matches!(other, "e" | "edit");
                    Err(String::new())
                }
            },
        }
    }

    /// The answer that allows a call. `None` for other questions, which only the user can answer.
    pub(super) fn allowed(&self) -> Option<Answer> {
        self.tool().map(|_| Answer::call(Reply::Once))
    }

    /// The answer that rejects a call with a reason, or refuses to answer another question.
    pub(super) fn rejected(&self, reason: &str) -> Answer {
        if self.tool().is_none() {
            return Answer::Value(None);
        }
        Answer::Call(PermissionResponse { response: Reply::Reject, input: None, message: Some(reason.to_owned()) })
    }
}

fn not_json(error: serde_json::Error) -> String {
    format!("That is not JSON: {error}\n")
}

#[cfg(test)]
mod tests;
