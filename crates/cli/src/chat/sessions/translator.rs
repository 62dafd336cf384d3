//! Translates the events of a turn into the pieces to show.

use std::collections::BTreeMap;
use std::time::Duration;

use handback_client::TurnEvent;
use handback_wire::session::{Part, ToolState};

use crate::chat::paint::Ink;
use crate::chat::piece::{Call, Piece, Stage};
use crate::output::excerpt;

/// How much of a tool's name is shown while the turn waits for it.
const TOOL_CHARACTERS: usize = 40;

/// Translates the events of one turn.
#[derive(Debug, Default)]
pub(in crate::chat) struct Translator {
    /// The client whose tools the model calls.
    client: Option<String>,
    /// The calls that have begun, by their parts, with the tool of each that still runs.
    calls: BTreeMap<String, Option<String>>,
}

impl Translator {
    /// A translator for a turn in which the model calls the tools of `client`.
    pub(in crate::chat) fn new(client: Option<String>) -> Self {
        Self { client, calls: BTreeMap::new() }
    }

    /// The pieces that an event adds.
    pub(in crate::chat) fn translate(&mut self, event: TurnEvent) -> Vec<Piece> {
        match event {
            TurnEvent::Text { part, text } => vec![Piece::Text { part, text }],
            TurnEvent::Reasoning { part, text } => vec![Piece::Thought { part, text }],
            TurnEvent::Tool(part) => self.call(*part),
            TurnEvent::Disconnected { reason } => {
                vec![Piece::Note(Ink::Yellow, format!("{reason}; connecting again"))]
            }
            TurnEvent::Reconnected => vec![Piece::Note(Ink::Dim, "connected again".to_owned())],
            _ => Vec::new(),
        }
    }

    /// The name of a tool without the prefix of the client's tools.
    pub(in crate::chat) fn short_name<'a>(&self, tool: &'a str) -> &'a str {
        short_name(tool, self.client.as_deref())
    }

    /// What the turn waits for: the tools that run, or else the model.
    pub(super) fn awaited(&self) -> String {
        let running: Vec<&String> = self.calls.values().flatten().collect();
        match running.as_slice() {
            [] => "the model".to_owned(),
            [tool] => excerpt(tool, TOOL_CHARACTERS),
            tools => format!("{} tools", tools.len()),
        }
    }

    /// Shows a call when it begins to run and when it is over, even if the event of its beginning is missing.
    fn call(&mut self, part: Part) -> Vec<Piece> {
        let Some(state) = part.state else { return Vec::new() };
        let tool = self.short_name(part.tool.as_deref().unwrap_or_default()).to_owned();
        let input = state.input.as_ref().map(|input| input.get().to_owned()).unwrap_or_default();
        let end = match state.status.as_str() {
            "running" => None,
            "completed" => Some(done(state)),
            "error" => Some(Stage::Failed { error: state.error.unwrap_or_default() }),
            _ => return Vec::new(),
        };
        let running = end.is_none().then(|| tool.clone());
        let start = self.calls.insert(part.id.clone(), running).is_none().then_some(Stage::Running);
        let call = |stage| Piece::Call(Call { id: part.id.clone(), tool: tool.clone(), input: input.clone(), stage });
        start.into_iter().chain(end).map(call).collect()
    }
}

/// The name of a tool without the prefix of its client.
pub(super) fn short_name<'a>(tool: &'a str, client: Option<&str>) -> &'a str {
    let name = client.and_then(|client| tool.strip_prefix("client_")?.strip_prefix(client)?.strip_prefix('_'));
    name.filter(|name| !name.is_empty()).unwrap_or(tool)
}

fn done(state: ToolState) -> Stage {
    let files = state.attachments.iter().flatten().map(|file| {
        let name = file.filename.as_deref().unwrap_or("unnamed");
        format!("{name} ({})", file.mime.as_deref().unwrap_or("unknown type"))
    });
    let took = state.time.and_then(|time| time.end?.checked_sub(time.start)).map(Duration::from_millis);
    Stage::Done { files: files.collect(), output: state.output.unwrap_or_default(), took }
}

#[cfg(test)]
mod tests;
