//! `demo/scripted`: the model that is there without a key. It does not think: it matches words.
//!
//! It looks at the last message of the user and at what came of it since, at nothing before. What it does is decided
//! by the first of these that applies:
//!
//! 1. Tools have been run for the message: it answers from what they gave, quoting it (`answer`).
//! 2. The message has lines `call <tool> <json>`: it makes exactly these calls, all in one step (`line`).
//! 3. A tool fits the words of the message (`pick`): it calls it, with arguments from the text (`fill`), or says what
//!    is missing.
//! 4. It says what it is, and how to go on (`answer`).
//!
//! The same conversation always gets the same answer: there is no chance, no clock and no memory in here. All that is
//! looked at is bounded, each bound with its rule beside it, so that no text and no schema can keep it busy.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `line` | lines that say which call to make |
//! | `pick` | the tool that fits the words |
//! | `fill` | arguments from the text |
//! | `schema` | the parameters of a tool |
//! | `text` | a text as words, quotes, numbers, addresses |
//! | `word` | which words are the same, and which say little |
//! | `answer` | what it says |
//! | `speech` | an answer or calls as a stream |

mod answer;
mod fill;
mod line;
mod pick;
mod schema;
mod speech;
#[cfg(test)]
mod tests;
mod text;
mod word;

use std::sync::Arc;

use futures_util::stream;
use handback_core::sessions::{Model, ModelRequest, ModelStream};
use handback_core::store::{Attachment, Message, PartBody, Role, ToolPart, TurnError};

use self::pick::Pick;
use self::speech::{Call, Events};

/// What the provider of this model is called, unless somebody calls it otherwise.
pub const PROVIDER: &str = "demo";
/// The model's name at its provider.
pub const MODEL: &str = "scripted";

/// The model; see the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Scripted;

impl Model for Scripted {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let events = if request.model == MODEL { respond(&request) } else { vec![Err(no_such_model(request.model))] };
        Box::pin(stream::iter(events))
    }
}

fn respond(request: &ModelRequest<'_>) -> Events {
    let turn = Turn::of(request.earlier.len(), request.messages);
    if turn.results().next().is_some() {
        let answer = answer::from_results(&turn, request);
        return speech::text(&answer, turn.bytes() + answer.len());
    }
    let (calls, left_out) = line::calls(turn.texts(), request.tools);
    if !calls.is_empty() {
        let note = answer::left_out(left_out);
        return speech::calls(turn.number, &calls, &note, turn.bytes());
    }
    match pick::pick(&turn.beginning(pick::MOST_TEXT), request.tools) {
        Pick::Call { tool, arguments } => {
            let call = Call { name: tool.alias, arguments: arguments.into() };
            speech::calls(turn.number, &[call], "", turn.bytes())
        }
        Pick::Missing { tool, parameters } => speech::text(&answer::missing(tool, &parameters, &turn), turn.bytes()),
        Pick::Nothing => speech::text(&answer::about_itself(request.tools, &turn), turn.bytes()),
    }
}

fn no_such_model(model: &str) -> TurnError {
    TurnError::Provider {
        message: format!("there is no model \"{model}\" here, only \"{MODEL}\""),
        status: Some(404),
        retryable: false,
    }
}

/// The last message of the user, and the steps since.
struct Turn<'a> {
    user: Option<&'a Message>,
    steps: &'a [Arc<Message>],
    /// How many messages the conversation has: no two steps of a conversation have the same number.
    number: usize,
}

impl<'a> Turn<'a> {
    fn of(earlier: usize, messages: &'a [Arc<Message>]) -> Self {
        let user = messages.iter().rposition(|message| matches!(message.role, Role::User(_)));
        Self {
            user: user.map(|user| &*messages[user]),
            steps: &messages[user.map_or(0, |user| user + 1)..],
            number: earlier + messages.len(),
        }
    }

    /// What the user said.
    fn texts(&self) -> impl Iterator<Item = &'a str> {
        self.bodies().filter_map(|body| match body {
            PartBody::Text { text, .. } => Some(text.as_str()),
            _ => None,
        })
    }

    /// The files that the user sent.
    fn files(&self) -> impl Iterator<Item = &'a Attachment> {
        self.bodies().filter_map(|body| match body {
            PartBody::File(file) => Some(file),
            _ => None,
        })
    }

    fn bodies(&self) -> impl Iterator<Item = &'a PartBody> {
        self.user.into_iter().flat_map(|message| &message.parts).map(|part| &part.body)
    }

    /// The calls that were made for the message, in order.
    fn results(&self) -> impl Iterator<Item = &'a ToolPart> {
        let bodies = self.steps.iter().flat_map(|message| &message.parts).map(|part| &part.body);
        bodies.filter_map(|body| match body {
            PartBody::Tool(part) => Some(part),
            _ => None,
        })
    }

    /// How much the user said.
    fn bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }

    /// What the user said, each text a line of its own, as far as it is within so many bytes.
    fn beginning(&self, most: usize) -> String {
        let mut beginning = String::new();
        for text in self.texts() {
            if beginning.len() >= most {
                break;
            }
            beginning.push_str(&text[..text.floor_char_boundary(most - beginning.len())]);
            beginning.push('\n');
        }
        beginning
    }
}
