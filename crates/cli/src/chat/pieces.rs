//! What of a turn is shown: its events in, pieces to show out.

use std::collections::BTreeMap;
use std::time::Duration;

use handback_client::TurnEvent;
use handback_wire::session::{Part, ToolState};

use super::layout::excerpt;

/// So much of a tool's name is shown where it must fit on a line.
const TOOL_CHARACTERS: usize = 40;

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

/// Makes pieces of the events of one turn.
#[derive(Debug)]
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

    fn of_call(&mut self, part: Part) -> Vec<Piece> {
        let Some(state) = &part.state else { return Vec::new() };
        let is_over = matches!(state.status.as_str(), "completed" | "error");
        if !is_over && state.status != "running" {
            return Vec::new();
        }
        let tool = self.short_name(part.tool.as_deref().unwrap_or_default()).to_owned();
        let mut pieces = Vec::new();
        // Its start may have been missed.
        let running = (!is_over).then(|| tool.clone());
        if self.calls.insert(part.id.clone(), running).is_none() {
            let input = state.input.as_ref().map(|input| input.get().to_owned()).unwrap_or_default();
            pieces.push(Piece::CallStarted { part: part.id.clone(), tool: tool.clone(), input });
        }
        if is_over {
            let took = state.time.and_then(|time| time.end?.checked_sub(time.start)).unwrap_or_default();
            let (took, end) = (Duration::from_millis(took), call_end(state));
            pieces.push(Piece::CallEnded { part: part.id, tool, took, end });
        }
        pieces
    }
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
