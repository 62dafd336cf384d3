//! Encodes the events of a turn, one line for each.

use bytes::Bytes;
use handback_core::events::{Field, TurnEvent};
use handback_core::store::{PartBody, ToolState};

use crate::api::conversation;

#[derive(Default)]
pub(super) struct Encoder(String);

impl Encoder {
    fn line(&mut self, line: &str) {
        self.0.push_str(&format!("data: {line}\n\n"));
    }
}

impl conversation::Encoder for Encoder {
    fn event(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::Grew { field: Field::Text, delta, .. } => self.line(&format!("say {delta}")),
            TurnEvent::Part { part, .. } => match &part.body {
                PartBody::Tool(tool) => match &tool.state {
                    ToolState::Yielded { .. } => self.line(&format!("run {} {}", tool.tool, tool.call)),
                    ToolState::Done { .. } => self.line(&format!("got {}", tool.result_for_model(80).0)),
                    ToolState::Pending { .. } | ToolState::Running { .. } => {}
                },
                PartBody::Text { text, .. } => self.line(&format!("said {text}")),
                _ => {}
            },
            TurnEvent::Waiting(asks) => asks.iter().for_each(|ask| self.line(&format!("ask {}", ask.id))),
            TurnEvent::Ended(None) => self.line("end"),
            TurnEvent::Ended(Some(error)) => self.line(&format!("error {}", error.message())),
            _ => {}
        }
    }

    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.0).into()
    }
}
