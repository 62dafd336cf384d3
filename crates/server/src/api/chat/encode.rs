//! From the core to the wire: a turn as chunks of the UI message stream.
//!
//! A page may act on every `tool-input-available`. So this chunk is sent once for each call, when the call is
//! registered and allowed. For a call that is over when a page returns, only the end is sent.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use handback_core::events::{Field, TurnEvent};
use handback_core::id::{CallId, MessageId, PartId, PermissionId};
use handback_core::store::{
    Message, Part, PartBody, Reply, Role, StopReason, ToolPart, ToolResult, ToolState, TurnError,
};
use handback_wire::chat::{Chunk, UiApproval, UiMessage, UiPart};
use serde_json::value::{RawValue, to_raw_value};

use crate::api::client_tools::encode::json;
use crate::api::conversation;

const DONE: &str = "data: [DONE]\n\n";

/// Writes the events of a turn as chunks.
#[derive(Default)]
pub(super) struct Encoder {
    /// The page's id of the message, or `None` to use that of the first step.
    message: Option<String>,
    is_started: bool,
    /// Names of frontend tools.
    frontend_tools: HashSet<String>,
    /// Calls that are over when the page connects; they are not handed out again.
    over: HashSet<CallId>,
    /// The step that is being written. The page knows all earlier steps, so only the ends of their calls are sent.
    step: Option<MessageId>,
    /// Whether the step is replayed from an earlier turn.
    is_replayed: bool,
    /// Whether chunks of a step that the page knows were sent without a `finish-step`.
    is_loose: bool,
    /// Texts that have begun and not ended.
    texts: HashSet<PartId>,
    /// The calls of the step, by part.
    parts: HashMap<PartId, CallId>,
    /// Calls that were handed out or asked about.
    handed_out: HashSet<CallId>,
    finish: Option<StopReason>,
    chunks: Vec<u8>,
}

impl conversation::Encoder for Encoder {
    fn event(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::StepBegan(message) => self.begin_step(message),
            TurnEvent::Grew { message, part, field, delta } => {
                if self.step.as_ref() == Some(message) {
                    self.grow(part, *field, delta);
                }
            }
            TurnEvent::Part { message, part } => match &part.body {
                PartBody::Tool(tool) => self.tool(message, &part.id, tool),
                _ if self.step.as_ref() == Some(message) => self.text(part),
                _ => {}
            },
            TurnEvent::Asked(ask) => {
                let (approval_id, tool_call_id) = (ask.id.as_str(), ask.call.as_str());
                self.write(&Chunk::ToolApprovalRequest { approval_id, tool_call_id });
                self.handed_out.insert(ask.call.clone());
            }
            TurnEvent::Answered { ask, call, reply } => {
                // A rejection is sent with the end of the call, which has the reason.
                if *reply != Reply::Reject {
                    let approval_id = ask.as_str();
                    self.write(&Chunk::ToolApprovalResponse { approval_id, approved: true, reason: None });
                    self.is_loose |= self.step.is_none();
                }
                self.handed_out.insert(call.clone());
            }
            TurnEvent::StepDone(message) => self.end_step(message),
            TurnEvent::Ended(error) => self.end(error.as_deref(), self.finish),
            TurnEvent::Waiting(_) => self.end(None, None),
            TurnEvent::PartRemoved { .. } | TurnEvent::Restarted { .. } | TurnEvent::Recorded(_) => {}
        }
    }

    fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.chunks))
    }
}

impl Encoder {
    /// Creates an encoder. `message` is the page's id of the message that continues, and `over` are the calls that are
    /// over already.
    pub(super) fn new(
        frontend_tools: impl IntoIterator<Item = String>,
        message: Option<String>,
        over: impl IntoIterator<Item = CallId>,
    ) -> Self {
        let (frontend_tools, over) = (frontend_tools.into_iter().collect(), over.into_iter().collect());
        Self { message, frontend_tools, over, ..Self::default() }
    }

    /// Writes the end of the turn and of the stream.
    fn end(&mut self, error: Option<&TurnError>, finish: Option<StopReason>) {
        self.end_loose();
        match error {
            Some(TurnError::Aborted(reason) | TurnError::Stopped(reason)) => {
                // A page that continues by itself after all calls of a step must not restart an interrupted turn.
                self.push(&Chunk::Finish { finish_reason: "interrupted" });
                self.push(&Chunk::Abort { reason });
            }
            Some(error) => {
                self.push(&Chunk::Error { error_text: error.message() });
                self.push(&Chunk::Finish { finish_reason: "error" });
            }
            None => {
                let reason = finish.unwrap_or(StopReason::ToolCalls);
                self.write(&Chunk::Finish { finish_reason: reason.as_str() });
            }
        }
        self.chunks.extend_from_slice(DONE.as_bytes());
    }

    /// Writes a chunk. The start of the message precedes the first one.
    fn write(&mut self, chunk: &Chunk<'_>) {
        if !std::mem::replace(&mut self.is_started, true) {
            let message = self.message.clone().unwrap_or_default();
            self.push(&Chunk::Start { message_id: &message });
        }
        self.push(chunk);
    }

    fn push(&mut self, chunk: &Chunk<'_>) {
        self.chunks.extend_from_slice(b"data: ");
        self.chunks.extend_from_slice(json(chunk).as_bytes());
        self.chunks.extend_from_slice(b"\n\n");
    }

    fn begin_step(&mut self, message: &Message) {
        self.end_loose();
        self.message.get_or_insert_with(|| message.id.to_string());
        (self.step, self.is_replayed) = (Some(message.id.clone()), message.is_complete());
        self.parts.clear();
        self.write(&Chunk::StartStep);
    }

    fn end_step(&mut self, message: &Message) {
        if let Role::Assistant(said) = &message.role {
            self.finish = said.finish.or(self.finish);
        }
        self.is_loose = false;
        self.write(&Chunk::FinishStep);
    }

    /// Ends a known step of which chunks were sent.
    fn end_loose(&mut self) {
        if std::mem::take(&mut self.is_loose) {
            self.write(&Chunk::FinishStep);
        }
    }

    fn grow(&mut self, part: &PartId, field: Field, delta: &str) {
        let id = part.as_str();
        let is_new = field != Field::Arguments && self.texts.insert(part.clone());
        match field {
            Field::Text => {
                if is_new {
                    self.write(&Chunk::TextStart { id });
                }
                self.write(&Chunk::TextDelta { id, delta });
            }
            Field::Reasoning => {
                if is_new {
                    self.write(&Chunk::ReasoningStart { id });
                }
                self.write(&Chunk::ReasoningDelta { id, delta });
            }
            Field::Arguments => {
                if let Some(call) = self.parts.get(part).cloned() {
                    self.write(&Chunk::ToolInputDelta { tool_call_id: call.as_str(), input_text_delta: delta });
                }
            }
        }
    }

    /// Writes the end of a text, and all of the text if nothing of it was sent.
    fn text(&mut self, part: &Part) {
        let (field, text) = match &part.body {
            PartBody::Text { text, .. } => (Field::Text, text),
            PartBody::Reasoning { text, .. } => (Field::Reasoning, text),
            _ => return,
        };
        if !self.texts.contains(&part.id) && !text.is_empty() {
            self.grow(&part.id, field, text);
        }
        let id = part.id.as_str();
        if self.texts.remove(&part.id) {
            self.write(&if field == Field::Text { Chunk::TextEnd { id } } else { Chunk::ReasoningEnd { id } });
        }
    }

    fn tool(&mut self, message: &MessageId, part: &PartId, tool: &ToolPart) {
        let (tool_call_id, tool_name) = (tool.call.as_str(), tool.tool.as_str());
        let is_known = self.step.as_ref() != Some(message);
        self.is_loose |= is_known && matches!(tool.state, ToolState::Running { .. } | ToolState::Done { .. });
        if !is_known && !self.parts.contains_key(part) {
            self.parts.insert(part.clone(), tool.call.clone());
            self.write(&Chunk::ToolInputStart { tool_call_id, tool_name });
            if !matches!(tool.state, ToolState::Pending { .. }) {
                self.write(&Chunk::ToolInputDelta { tool_call_id, input_text_delta: tool.arguments() });
            }
        }
        match &tool.state {
            ToolState::Pending { .. } => {}
            ToolState::Yielded { .. } if is_known => {}
            ToolState::Running { input, .. } | ToolState::Yielded { input, .. } => {
                let is_yielded = matches!(tool.state, ToolState::Yielded { .. });
                // The page must not run calls that run elsewhere.
                let provider_executed = (!is_yielded && !self.frontend_tools.contains(tool_name)).then_some(true);
                if !self.over.contains(&tool.call) {
                    self.write(&Chunk::ToolInputAvailable { tool_call_id, tool_name, input, provider_executed });
                }
                self.handed_out.insert(tool.call.clone());
            }
            ToolState::Done { input, result, .. } => {
                let was_told = is_known || self.is_replayed || self.over.contains(&tool.call);
                match result {
                    // The call was never handed out.
                    ToolResult::Failed(error_text) | ToolResult::Denied { reason: error_text, ask: None }
                        if !was_told && !self.handed_out.contains(&tool.call) =>
                    {
                        self.write(&Chunk::ToolInputError { tool_call_id, tool_name, input, error_text });
                    }
                    result => self.result(&tool.call, result),
                }
            }
        }
    }

    fn result(&mut self, call: &CallId, result: &ToolResult) {
        let tool_call_id = call.as_str();
        match result {
            ToolResult::Denied { ask: Some(ask), reason } => {
                let (approval_id, reason) = (ask.as_str(), Some(reason.as_str()));
                self.write(&Chunk::ToolApprovalResponse { approval_id, approved: false, reason });
                self.write(&Chunk::ToolOutputDenied { tool_call_id });
            }
            ToolResult::Failed(error_text)
            | ToolResult::Denied { reason: error_text, ask: None }
            | ToolResult::Given { error: Some(error_text), .. } => {
                self.write(&Chunk::ToolOutputError { tool_call_id, error_text });
            }
            ToolResult::Given { output, error: None } => {
                self.write(&Chunk::ToolOutputAvailable { tool_call_id, output });
            }
            ToolResult::Completed { output, .. } => {
                self.write(&Chunk::ToolOutputAvailable { tool_call_id, output: &as_json(output) });
            }
        }
    }
}

fn as_json(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_default()
}

/// The state around a conversation that its messages do not have.
pub(super) struct Surroundings<'a> {
    /// The open asks, by call.
    pub(super) asks: HashMap<CallId, PermissionId>,
    /// Calls that are offered to the client or frontend that runs them.
    pub(super) shown: HashSet<CallId>,
    /// Names of server tools.
    pub(super) server_tools: Vec<&'a str>,
}

/// Converts a conversation to the page's form, in which the steps of a turn are one message.
pub(super) fn messages(stored: &[Arc<Message>], around: &Surroundings<'_>) -> Vec<UiMessage> {
    let mut messages = Vec::<UiMessage>::new();
    let mut answers = HashMap::<&MessageId, usize>::new();
    for message in stored {
        let parts = message.parts.iter().filter_map(|part| said(part, around));
        match &message.role {
            Role::User(_) => {
                messages.push(UiMessage { id: message.id.to_string(), role: "user".to_owned(), parts: parts.collect() })
            }
            Role::Assistant(said) => {
                let place = *answers.entry(&said.parent).or_insert_with(|| {
                    messages.push(UiMessage {
                        id: message.id.to_string(),
                        role: "assistant".to_owned(),
                        parts: Vec::new(),
                    });
                    messages.len() - 1
                });
                let step = UiPart { kind: "step-start".to_owned(), ..UiPart::default() };
                if let Some(answer) = messages.get_mut(place) {
                    answer.parts.extend([step].into_iter().chain(parts));
                }
            }
        }
    }
    messages
}

/// Converts a part to the page's form.
fn said(part: &Part, around: &Surroundings<'_>) -> Option<UiPart> {
    let text = |kind: &str, text: &str| UiPart {
        kind: kind.to_owned(),
        text: Some(text.to_owned()),
        state: Some("done".to_owned()),
        ..UiPart::default()
    };
    match &part.body {
        PartBody::Text { text: said, .. } => Some(text("text", said)),
        PartBody::Reasoning { text: thought, .. } => part.is_shown().then(|| text("reasoning", thought)),
        PartBody::File(file) => Some(UiPart {
            kind: "file".to_owned(),
            media_type: Some(file.mime.clone()),
            filename: file.filename.clone(),
            url: Some(file.url.clone()),
            ..UiPart::default()
        }),
        PartBody::Tool(tool) => Some(call(tool, around)),
        PartBody::StepStart | PartBody::StepFinish { .. } => None,
    }
}

fn call(tool: &ToolPart, around: &Surroundings<'_>) -> UiPart {
    // A client's call has its own request id; a frontend's has the call id; calls of pages and server tools have none.
    let is_clients = tool.request.as_ref().is_some_and(|request| request.as_str() != tool.call.as_str());
    let is_frontends = tool.request.as_ref().is_some_and(|request| request.as_str() == tool.call.as_str());
    let common = UiPart {
        kind: format!("tool-{}", tool.tool),
        tool_call_id: Some(tool.call.to_string()),
        provider_executed: (is_clients || around.server_tools.contains(&tool.tool.as_str())).then_some(true),
        ..UiPart::default()
    };
    let state = |state: &str, input: &RawValue| UiPart {
        state: Some(state.to_owned()),
        input: Some(input.to_owned()),
        ..common.clone()
    };
    match &tool.state {
        ToolState::Pending { .. } => UiPart { state: Some("input-streaming".to_owned()), ..common },
        ToolState::Running { input, .. } | ToolState::Yielded { input, .. } => match around.asks.get(&tool.call) {
            Some(ask) => {
                let approval = Some(UiApproval { id: ask.to_string(), approved: None, reason: None });
                UiPart { approval, ..state("approval-requested", input) }
            }
            // A page may act on an available input, so the input is not available before the call can be answered.
            None if is_frontends && !around.shown.contains(&tool.call) => state("input-streaming", input),
            None => state("input-available", input),
        },
        ToolState::Done { input, result, .. } => match result {
            ToolResult::Completed { output, .. } => {
                UiPart { output: Some(as_json(output)), ..state("output-available", input) }
            }
            ToolResult::Given { output, error: None } => {
                UiPart { output: Some(output.clone()), ..state("output-available", input) }
            }
            ToolResult::Denied { reason, ask: Some(ask) } => {
                let (id, reason) = (ask.to_string(), Some(reason.clone()));
                let approval = Some(UiApproval { id, approved: Some(false), reason });
                UiPart { approval, ..state("output-denied", input) }
            }
            ToolResult::Failed(error)
            | ToolResult::Denied { reason: error, ask: None }
            | ToolResult::Given { error: Some(error), .. } => {
                UiPart { error_text: Some(error.clone()), ..state("output-error", input) }
            }
        },
    }
}
