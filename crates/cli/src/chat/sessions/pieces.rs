//! What of a turn is shown: its events in, pieces to show out.

use std::collections::BTreeMap;
use std::time::Duration;

use handback_client::TurnEvent;
use handback_wire::session::{Part, ToolState};

use crate::chat::paint::{Ink, excerpt};
use crate::chat::piece::{Call, Piece, Stage};

/// So much of a tool's name is shown where it must fit on a line.
const TOOL_CHARACTERS: usize = 40;

/// Makes pieces of the events of one turn.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    /// What the ids of the client's tools begin with.
    prefix: String,
    /// The parts of the calls that were shown to have started, with the tool as long as it runs.
    calls: BTreeMap<String, Option<String>>,
}

impl Pieces {
    /// Those of a turn in a session whose tools are those of `client`.
    pub(super) fn new(client: Option<&str>) -> Self {
        let prefix = client.map(|client| format!("client_{client}_")).unwrap_or_default();
        Self { prefix, calls: BTreeMap::new() }
    }

    /// What an event adds to what is shown.
    pub(super) fn of(&mut self, event: TurnEvent) -> Vec<Piece> {
        match event {
            TurnEvent::Text { part, text } => vec![Piece::Text { part, text }],
            TurnEvent::Reasoning { part, text } => vec![Piece::Thought { part, text }],
            TurnEvent::Tool(part) => self.of_call(*part),
            TurnEvent::Disconnected { reason } => {
                vec![Piece::Note(Ink::Yellow, format!("{reason}; connecting again"))]
            }
            TurnEvent::Reconnected => vec![Piece::Note(Ink::Dim, "connected again".to_owned())],
            _ => Vec::new(),
        }
    }

    /// The name of a tool without what all tools of this client begin with.
    pub(super) fn short_name<'a>(&self, tool: &'a str) -> &'a str {
        tool.strip_prefix(&self.prefix).filter(|name| !name.is_empty()).unwrap_or(tool)
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

    /// A call is shown when it runs and when it is over.
    fn of_call(&mut self, part: Part) -> Vec<Piece> {
        let Some(state) = &part.state else { return Vec::new() };
        let stage = match state.status.as_str() {
            "running" => Stage::Running,
            "completed" => done(state),
            "error" => Stage::Failed { error: state.error.clone().unwrap_or_default() },
            _ => return Vec::new(),
        };
        let tool = self.short_name(part.tool.as_deref().unwrap_or_default()).to_owned();
        let running = (stage == Stage::Running).then(|| tool.clone());
        let is_new = self.calls.insert(part.id.clone(), running).is_none();
        let input = state.input.as_ref().map(|input| input.get().to_owned()).unwrap_or_default();
        let call = |stage| Piece::Call(Call { id: part.id.clone(), tool: tool.clone(), input: input.clone(), stage });
        match (is_new, stage) {
            (false, Stage::Running) => Vec::new(),
            (true, Stage::Running) => vec![call(Stage::Running)],
            // Its start was missed.
            (true, stage) => vec![call(Stage::Running), call(stage)],
            (false, stage) => vec![call(stage)],
        }
    }
}

fn done(state: &ToolState) -> Stage {
    let files = state.attachments.iter().flatten().map(|file| {
        let name = file.filename.as_deref().unwrap_or("unnamed");
        format!("{name} ({})", file.mime.as_deref().unwrap_or("unknown type"))
    });
    let took = state.time.and_then(|time| time.end?.checked_sub(time.start)).map(Duration::from_millis);
    Stage::Done { output: state.output.clone().unwrap_or_default(), files: files.collect(), took }
}

#[cfg(test)]
mod tests;
