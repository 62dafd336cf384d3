//! What of a turn is new: events and messages in, pieces to show out, each once.
//!
//! The same text comes in several ways: as pieces of a growing part, as the part as a whole, and, after a lost
//! connection, in the messages that are read again. Here is known what was shown of each part, so that only the rest is.

use std::collections::HashMap;
use std::time::Duration;

use handback_wire::event::Event;
use handback_wire::session::{Message, MessageWithParts, Part, Tokens, ToolState};

/// Something to show.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    /// More of an answer.
    Text { part: String, text: String },
    /// More of what the model thinks before it answers.
    Thought { part: String, text: String },
    /// A tool is being called.
    CallStarted { part: String, tool: String, input: String },
    /// A call is over.
    CallEnded { part: String, tool: String, took: Duration, end: CallEnd },
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CallEnd {
    /// The tool has done it: what it gave, and the files that came with that, each with its type.
    Completed { output: String, files: Vec<String> },
    /// It failed, or was not made.
    Failed(String),
}

/// One turn: a user's message and all that answers it.
#[derive(Debug)]
pub(super) struct Transcript {
    /// The user's message.
    question: String,
    /// What the ids of the client's tools begin with.
    prefix: String,
    /// The messages that answer it, in order, as they were last told.
    answers: Vec<Message>,
    /// What was shown, by part.
    shown: HashMap<String, Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    text: String,
    is_thought: bool,
    /// Whether `text` is all that the part had when it was last told: only then do pieces of growth fit onto it.
    is_current: bool,
    call_started: bool,
    call_ended: bool,
}

impl Transcript {
    /// The turn that answers the message `question`, in a session whose tools are those of `client`.
    pub(super) fn new(question: String, client: Option<&str>) -> Self {
        let prefix = client.map(|client| format!("client_{client}_")).unwrap_or_default();
        Self { question, prefix, answers: Vec::new(), shown: HashMap::new() }
    }

    /// What an event adds; events of anything but this turn add nothing.
    pub(super) fn hear(&mut self, event: &Event) -> Vec<Piece> {
        match event {
            Event::MessageUpdated { info, .. } => {
                self.know(info);
                Vec::new()
            }
            Event::PartUpdated { part, .. } if self.is_answer(&part.message_id) => self.take(part),
            Event::PartDelta { part_id, field, delta, .. } if field == "text" => self.grow(part_id, delta),
            _ => Vec::new(),
        }
    }

    /// What the messages of the session, as they are now, add.
    pub(super) fn read(&mut self, messages: &[MessageWithParts]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for message in messages {
            self.know(&message.info);
            if self.is_answer(&message.info.id) {
                pieces.extend(message.parts.iter().flat_map(|part| self.take(part)));
            }
        }
        // Events may be on their way that are older than this.
        self.lose_track();
        pieces
    }

    /// Events were missed: growth is not to be trusted until a part is told as a whole again.
    pub(super) fn lose_track(&mut self) {
        self.shown.values_mut().for_each(|shown| shown.is_current = false);
    }

    /// The last message that answers, as it was last told.
    pub(super) fn last(&self) -> Option<&Message> {
        self.answers.last()
    }

    /// What all the answers cost together. The numbers are what a provider claims: they saturate.
    pub(super) fn tokens(&self) -> Tokens {
        let mut sum = Tokens::default();
        for tokens in self.answers.iter().filter_map(|answer| answer.tokens) {
            sum.input = sum.input.saturating_add(tokens.input);
            sum.output = sum.output.saturating_add(tokens.output);
            sum.reasoning = sum.reasoning.saturating_add(tokens.reasoning);
            sum.cache.read = sum.cache.read.saturating_add(tokens.cache.read);
            sum.cache.write = sum.cache.write.saturating_add(tokens.cache.write);
        }
        sum
    }

    /// The name of a tool without what all tools of this client begin with.
    pub(super) fn short_name<'a>(&self, tool: &'a str) -> &'a str {
        tool.strip_prefix(&self.prefix).filter(|name| !name.is_empty()).unwrap_or(tool)
    }

    fn know(&mut self, info: &Message) {
        if info.parent_id.as_ref() != Some(&self.question) {
            return;
        }
        match self.answers.iter_mut().find(|known| known.id == info.id) {
            Some(known) => known.clone_from(info),
            None => self.answers.push(info.clone()),
        }
    }

    fn is_answer(&self, message: &str) -> bool {
        self.answers.iter().any(|answer| answer.id == message)
    }

    fn take(&mut self, part: &Part) -> Vec<Piece> {
        match (part.kind.as_str(), &part.state) {
            ("text" | "reasoning", _) => self.take_text(part).into_iter().collect(),
            ("tool", Some(state)) => self.take_call(part, state),
            _ => Vec::new(),
        }
    }

    /// A text as a whole: what of it was not shown yet.
    fn take_text(&mut self, part: &Part) -> Option<Piece> {
        let whole = part.text.as_deref().unwrap_or_default();
        let shown = self.shown.entry(part.id.clone()).or_default();
        shown.is_thought = part.kind == "reasoning";
        let new = match whole.strip_prefix(shown.text.as_str()) {
            Some(new) => new.to_owned(),
            // Older than what is shown already.
            None if shown.text.starts_with(whole) => {
                shown.is_current = false;
                return None;
            }
            // It was written anew.
            None => format!("\n{whole}"),
        };
        shown.is_current = true;
        whole.clone_into(&mut shown.text);
        (!new.is_empty()).then(|| text_piece(shown.is_thought, &part.id, &new))
    }

    fn grow(&mut self, part: &str, delta: &str) -> Vec<Piece> {
        let Some(shown) = self.shown.get_mut(part).filter(|shown| shown.is_current) else { return Vec::new() };
        shown.text.push_str(delta);
        vec![text_piece(shown.is_thought, part, delta)]
    }

    fn take_call(&mut self, part: &Part, state: &ToolState) -> Vec<Piece> {
        let id = part.tool.as_deref().unwrap_or_default();
        let (tool, shown) = (self.short_name(id).to_owned(), self.shown.entry(part.id.clone()).or_default());
        let is_over = matches!(state.status.as_str(), "completed" | "error");
        let mut pieces = Vec::new();
        if !shown.call_started && (is_over || state.status == "running") {
            shown.call_started = true;
            let input = state.input.as_ref().map(|input| input.get().to_owned()).unwrap_or_default();
            pieces.push(Piece::CallStarted { part: part.id.clone(), tool: tool.clone(), input });
        }
        if is_over && !shown.call_ended {
            shown.call_ended = true;
            let took = state.time.and_then(|time| time.end?.checked_sub(time.start)).unwrap_or_default();
            let (took, end) = (Duration::from_millis(took), call_end(state));
            pieces.push(Piece::CallEnded { part: part.id.clone(), tool, took, end });
        }
        pieces
    }
}

fn text_piece(is_thought: bool, part: &str, text: &str) -> Piece {
    let (part, text) = (part.to_owned(), text.to_owned());
    if is_thought { Piece::Thought { part, text } } else { Piece::Text { part, text } }
}

fn call_end(state: &ToolState) -> CallEnd {
    if state.status == "error" {
        return CallEnd::Failed(state.error.clone().unwrap_or_default());
    }
    let files = state.attachments.iter().flatten().map(|file| {
        let name = file.filename.as_deref().unwrap_or("unnamed");
        format!("{name} ({})", file.mime.as_deref().unwrap_or("unknown type"))
    });
    CallEnd::Completed { output: state.output.clone().unwrap_or_default(), files: files.collect() }
}

#[cfg(test)]
mod tests;
