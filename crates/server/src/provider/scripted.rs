//! `demo/scripted`: the built-in model, which needs no key. It does not think: it matches words.
//!
//! It reads only the last message of the user and the calls that were made for it. The first of these rules that
//! applies decides what it does:
//!
//! 1. Tools have been run for the message: it quotes their results.
//! 2. The message has lines `call <tool> <json>`: it makes exactly these calls, all in one step (`line`).
//! 3. A tool fits the words of the message (`pick`): it calls the tool with arguments from the text (`arguments`), or
//!    says what is missing.
//! 4. Otherwise it says what it is and how to go on.
//!
//! The same conversation always gets the same answer: the model uses no randomness, clock or memory. Everything that it
//! reads is bounded, and each bound states its rule, so that no text and no schema can keep it busy.

mod arguments;
mod line;
mod pick;
#[cfg(test)]
mod tests;
mod text;

use futures_util::stream;
use handback_core::sessions::{Model, ModelEvent, ModelRequest, ModelStream};
use handback_core::store::{Attachment, PartBody, Role, StopReason, ToolPart, TurnError, Usage};
use handback_core::tools::ModelTool;

/// The provider's default name.
pub const PROVIDER: &str = "demo";
/// The model's name at its provider.
pub const MODEL: &str = "scripted";

/// Most calls in one step; further lines are left out, and the answer says so.
const MOST_CALLS: usize = 1_024;
/// Bytes of the user's text that are used to pick a tool; the rest is ignored.
const MOST_TEXT: usize = 8 * 1024;
/// Bytes of one result that are quoted; a longer result is cut, with a note.
const MOST_QUOTED: usize = 4 * 1024;
/// Bytes of all results together that are quoted; many results share them.
const MOST_QUOTED_TOGETHER: usize = 64 * 1024;
/// Tools and files that are listed by name; the others are only counted.
const MOST_NAMED: usize = 20;
/// Characters of a name that somebody else chose; a longer name is cut with dots.
const LONGEST_NAME: usize = 100;
/// The approximate number of pieces of a long text; a short text is sent word by word.
const TEXT_PIECES: usize = 200;
/// The arguments of a call are sent in at most this many pieces.
const ARGUMENT_PIECES: usize = 4;
/// The shortest piece of arguments, except the last.
const SHORTEST_ARGUMENT_PIECE: usize = 8;

/// The model; see the [module](self).
#[derive(Debug, Clone, Copy, Default)]
pub struct Scripted;

impl Model for Scripted {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        if request.model != MODEL {
            let message = format!("there is no model \"{}\" here, only \"{MODEL}\"", request.model);
            let error = TurnError::Provider { message, status: Some(404), retryable: false };
            return Box::pin(stream::iter([Err(error)]));
        }
        let turn = Turn::read(&request);
        Box::pin(stream::iter(render(&turn, &decide(&turn)).into_iter().map(Ok)))
    }
}

/// The last message of the user, and the calls that were made for it.
struct Turn<'a> {
    request: &'a ModelRequest<'a>,
    texts: Vec<&'a str>,
    files: Vec<&'a Attachment>,
    calls: Vec<&'a ToolPart>,
}

impl<'a> Turn<'a> {
    /// Finds the last message of the user and its calls in a request.
    fn read(request: &'a ModelRequest<'a>) -> Self {
        let user = request.messages.iter().rposition(|message| matches!(message.role, Role::User(_)));
        let mut turn = Self { request, texts: Vec::new(), files: Vec::new(), calls: Vec::new() };
        for (index, message) in request.messages.iter().enumerate().skip(user.unwrap_or_default()) {
            for part in &message.parts {
                match &part.body {
                    PartBody::Text { text, .. } if Some(index) == user => turn.texts.push(text),
                    PartBody::File(file) if Some(index) == user => turn.files.push(file),
                    PartBody::Tool(call) => turn.calls.push(call),
                    _ => {}
                }
            }
        }
        turn
    }
}

/// The text that the model says and the calls that it makes: the tool's alias, and the arguments as JSON text.
struct Reply {
    text: String,
    calls: Vec<(String, String)>,
}

/// Decides what to say or to call.
fn decide(turn: &Turn<'_>) -> Reply {
    let say = |mut paragraphs: Vec<String>| {
        if !turn.files.is_empty() {
            let files = files(turn.files.iter().copied());
            paragraphs.push(format!("I can not look into files; with your message came {files}."));
        }
        Reply { text: paragraphs.join("\n\n"), calls: Vec::new() }
    };
    if !turn.calls.is_empty() {
        return say(turn.calls.iter().map(|call| result(turn, call)).collect());
    }
    let mut calls: Vec<_> = turn.texts.iter().flat_map(|text| line::calls(text, turn.request.tools)).collect();
    if !calls.is_empty() {
        let left_out = calls.len().saturating_sub(MOST_CALLS);
        calls.truncate(MOST_CALLS);
        let note = format!("I make {MOST_CALLS} calls at a time; {left_out} more are left out.");
        return Reply { text: if left_out > 0 { note } else { String::new() }, calls };
    }
    let text = turn.texts.join("\n");
    match pick::pick(&text[..text.floor_char_boundary(MOST_TEXT)], turn.request.tools) {
        Some((tool, Ok(arguments))) => Reply { text: String::new(), calls: vec![(tool.alias.to_owned(), arguments)] },
        Some((tool, Err(missing))) => say(vec![ask_for(&missing, tool)]),
        None => say(about_itself(turn.request.tools)),
    }
}

/// Describes the result of a call.
fn result(turn: &Turn<'_>, call: &ToolPart) -> String {
    let tool = turn.request.tools.iter().find(|tool| tool.alias == call.alias);
    let name = tool.map_or(call.alias.as_str(), |tool| tool.name);
    let most = MOST_QUOTED.min(MOST_QUOTED_TOGETHER / turn.calls.len()).min(turn.request.most_output);
    let (text, failed) = call.result_for_model(most);
    let said = match (failed, text.trim().is_empty()) {
        (true, true) => "failed and did not say why.".to_owned(),
        (true, false) => format!("failed: {text}"),
        (false, true) => "is done; it gave no output.".to_owned(),
        (false, false) if text.contains('\n') => format!("answered:\n{text}"),
        (false, false) => format!("answered: {text}"),
    };
    let came = format!("\nIt came with {}.", files(call.attachments().iter()));
    format!("The tool `{name}` {said}{}", if call.attachments().is_empty() { "" } else { &came })
}

/// Says which tool the model would call and which parameters it needs.
fn ask_for(parameters: &[String], tool: ModelTool<'_>) -> String {
    let (name, parameters) = (tool.name, parameters.join(", "));
    format!(
        "I would call `{name}`, but I do not see in your message what to use for {parameters}. Tell me, or make the \
         call yourself with a line like `call {name} {{…}}`."
    )
}

/// Says what the model is, which tools there are, and how to go on.
fn about_itself(tools: &[ModelTool<'_>]) -> Vec<String> {
    let itself = "I am the scripted demo model. I need no key, and I do not think: I look for a tool that fits your \
                  words, and found none.";
    let names = list(tools.iter().map(|tool| format!("`{}`", tool.name)));
    let tools = match tools.first().map(|tool| tool.name) {
        None => "There are no tools here yet: register one, and ask again.".to_owned(),
        Some(tool) => format!("Tools here: {names}. A line like `call {tool} {{…}}` calls one with exactly that JSON."),
    };
    let real = "For a real model set `OPENAI_API_KEY` or `ANTHROPIC_API_KEY`, or name one under `providers` in the \
                configuration.";
    vec![itself.to_owned(), tools, real.to_owned()]
}

/// Lists files by name and type.
fn files<'a>(files: impl Iterator<Item = &'a Attachment>) -> String {
    list(files.map(|file| {
        let name = file.filename.as_deref().filter(|name| !name.is_empty()).unwrap_or("a file");
        format!("{} ({})", shorten(name), shorten(&file.mime))
    }))
}

/// Lists names, and counts those that do not fit.
fn list(mut names: impl Iterator<Item = String>) -> String {
    let mut list: Vec<String> = names.by_ref().take(MOST_NAMED).collect();
    let more = names.count();
    list.extend((more > 0).then(|| format!("and {more} more")));
    list.join(", ")
}

/// Cuts a name that is too long, with dots.
fn shorten(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// Streams the reply in pieces as other models do, but never in many.
fn render(turn: &Turn<'_>, reply: &Reply) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    let shortest = reply.text.len().div_ceil(TEXT_PIECES);
    for word in reply.text.split_inclusive(char::is_whitespace) {
        match events.last_mut() {
            Some(ModelEvent::Text(piece)) if piece.len() < shortest => piece.push_str(word),
            _ => events.push(ModelEvent::Text(word.to_owned())),
        }
    }
    // The step's number is unique in its conversation.
    let step = turn.request.earlier.len() + turn.request.messages.len();
    for (index, (name, arguments)) in reply.calls.iter().enumerate() {
        let id = format!("scripted_{step}_{}", index + 1);
        events.push(ModelEvent::CallStarted { index, id, name: name.clone() });
        let length = arguments.len().div_ceil(ARGUMENT_PIECES).max(SHORTEST_ARGUMENT_PIECE);
        let mut rest = arguments.as_str();
        while !rest.is_empty() {
            let (delta, after) = rest.split_at(rest.ceil_char_boundary(length));
            events.push(ModelEvent::Arguments { index, delta: delta.to_owned() });
            rest = after;
        }
        events.push(ModelEvent::CallEnded { index, kept: None });
    }
    let read = turn.texts.iter().map(|text| text.len()).sum::<usize>()
        + if turn.calls.is_empty() { 0 } else { reply.text.len() };
    let called: usize = reply.calls.iter().map(|(name, arguments)| name.len() + arguments.len()).sum();
    // English text has about four bytes per token.
    let [input, output] = [read, reply.text.len() + called].map(|bytes| bytes.div_ceil(4) as u64);
    events.push(ModelEvent::Usage(Usage { input, output, ..Usage::default() }));
    events.push(ModelEvent::Stop(if reply.calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls }));
    events
}
