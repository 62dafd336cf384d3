//! From the core to the wire.

use std::collections::BTreeMap;

use bytes::Bytes;
use handback_core::events::TurnEvent;
use handback_core::id::RunId;
use handback_core::store::{Session, ThreadRun};
use handback_wire::agui::{Body, Event};
use handback_wire::threads as wire;
use serde_json::value::RawValue;

use crate::api::agui::encode::Encoder;
use crate::api::client_tools::encode::{self, json};
use crate::api::conversation;
use crate::problem::{ErrorShape, Problem, json_body};

/// The error shape `{detail}`.
pub(super) const ERRORS: ErrorShape = ErrorShape { roots: &["/api/v1"], schema: "Detail", body: error_body };

fn error_body(problem: &Problem) -> Vec<u8> {
    json_body(&wire::Detail { detail: problem.message.clone(), request: problem.request() })
}

/// A thread, with its runs if they are asked for.
pub(super) fn thread(session: &Session, room: &str, runs: Option<BTreeMap<String, wire::Run>>) -> wire::Thread {
    let metadata = session.metadata.as_ref().and_then(|metadata| serde_json::from_str(metadata.get()).ok());
    wire::Thread {
        room_id: room.to_owned(),
        thread_id: session.id.to_string(),
        created: moment(session.created),
        metadata,
        runs,
    }
}

/// A run, with its events if they are asked for.
pub(super) fn run(run: &ThreadRun, events: Option<Vec<Box<RawValue>>>) -> wire::Run {
    wire::Run {
        run_id: run.id.to_string(),
        thread_id: run.session.to_string(),
        parent_run_id: run.parent.as_ref().map(ToString::to_string),
        created: moment(run.created),
        finished: run.finished.map(moment),
        run_input: run.input.clone(),
        events,
        metadata: run.label.clone().map(|label| wire::RunMetadata { label: Some(label) }),
        usage: run.usage.map(|usage| wire::RunUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            requests: usage.requests,
            tool_calls: usage.tool_calls,
        }),
    }
}

fn moment(time: handback_core::clock::Time) -> String {
    encode::time(time.into())
}

/// Writes a run as frames that are numbered from its beginning, for a reader that may have seen some of them.
pub(super) struct Numbered {
    run: RunId,
    encoder: Encoder,
    /// The number of the first event that the reader has not seen.
    from: usize,
    /// How many events of the run's feed are replayed before new ones.
    known: usize,
    is_new: bool,
    number: usize,
    /// A last event without a number.
    last: Option<Body>,
}

impl Numbered {
    pub(super) fn new(run: RunId, encoder: Encoder, from: usize, known: usize) -> Self {
        Self { run, encoder, from, known, is_new: false, number: 0, last: None }
    }
}

impl conversation::Encoder for Numbered {
    fn event(&mut self, event: &TurnEvent) {
        self.is_new = self.known == 0;
        self.known = self.known.saturating_sub(1);
        self.encoder.event(event);
    }

    fn expired(&mut self) {
        // The event has no number, because only this reader's stream ends, not the run.
        let (message, code) = ("The token has expired; come back with a new one", "token_expired");
        self.last = Some(Body::RunError { message: message.to_owned(), code: Some(code.to_owned()), usage: None });
    }

    fn take(&mut self) -> Bytes {
        let mut frames = Vec::new();
        for event in self.encoder.take() {
            // The terminal event is sent even to a reader that has seen it. New events are always unseen.
            let is_unseen = self.number >= self.from || self.is_new || event.is_terminal();
            if is_unseen {
                let data = json(&Event::from(event));
                frames.extend_from_slice(format!("id: {}:{}\ndata: {data}\n\n", self.run, self.number).as_bytes());
            }
            self.number += 1;
        }
        if let Some(last) = self.last.take() {
            frames.extend_from_slice(format!("data: {}\n\n", json(&Event::from(last))).as_bytes());
        }
        frames.into()
    }
}
