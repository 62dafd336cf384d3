//! From the core to the wire: a turn as chunks of the UI message stream.
//!
//! What a page gets to see as `tool-input-available` it may act on. So a call is handed out like that once, when it is
//! registered and allowed; one that is over when a page comes back is told with its end only.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;
use handback_core::event::{Field, SessionEvent};
use handback_core::id::{CallId, MessageId, PartId, PermissionId};
use handback_core::message::{Message, Part, PartBody, Role, StopReason, ToolPart, ToolResult, ToolState, TurnError};
use handback_core::permission::{Ask, Reply};
use handback_core::sessions::RunEvent;
use handback_wire::chat::{Chunk, UiApproval, UiMessage, UiPart};
use serde_json::value::{RawValue, to_raw_value};

use crate::api::client_tools::encode::json;

/// The end of a stream.
const DONE: &str = "data: [DONE]\n\n";

/// Writes a turn as chunks.
#[derive(Default)]
pub(super) struct Encoder {
    /// The page's name for the message; that of the first step when `None`.
    message: Option<String>,
    is_started: bool,
    /// Names of tools that frontends run.
    frontend_tools: HashSet<String>,
    /// What is settled already: calls that are not handed out again, questions that nobody waits for.
    settled: Settled,
    /// Texts that have begun.
    texts: HashSet<PartId>,
    /// The calls of the step, by the part that each is.
    parts: HashMap<PartId, CallId>,
    /// How much of each the page knows.
    calls: HashMap<CallId, Stage>,
    /// Whether the stream ends when only questions are open.
    yields_asks: bool,
    /// Nothing is written until these questions have been passed.
    passed_over: HashSet<PermissionId>,
    finish: Option<StopReason>,
    failure: Option<TurnError>,
    chunks: Vec<u8>,
}

/// What is settled when a page comes to a turn.
#[derive(Default)]
pub(super) struct Settled {
    /// Calls that are over.
    pub(super) calls: HashSet<CallId>,
    /// Questions that are answered.
    pub(super) asks: HashSet<PermissionId>,
}

/// How much of a call the page knows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its arguments grow.
    Begun,
    /// It waits to be allowed.
    Asked,
    /// It is handed out, or about to be refused.
    HandedOut,
    /// It is the page's own to run, or over.
    Settled,
}

impl Encoder {
    /// Writes a turn; these are the names of the tools that frontends run.
    pub(super) fn new(frontend_tools: impl IntoIterator<Item = String>) -> Self {
        Self { frontend_tools: frontend_tools.into_iter().collect(), ..Self::default() }
    }

    /// The page has a name for the message, which goes on.
    pub(super) fn continues(self, message: &str) -> Self {
        Self { message: Some(message.to_owned()), ..self }
    }

    /// The stream ends when nothing but questions to the user is open.
    pub(super) fn yields_asks(self, yields_asks: bool) -> Self {
        Self { yields_asks, ..self }
    }

    /// The page knows all up to these questions.
    pub(super) fn after(self, asks: impl IntoIterator<Item = PermissionId>) -> Self {
        Self { passed_over: asks.into_iter().collect(), ..self }
    }

    /// This is settled: such calls are told with their end only, and such questions are not waited for.
    pub(super) fn knowing(self, settled: Settled) -> Self {
        Self { settled, ..self }
    }

    /// What is written so far.
    pub(super) fn take(&mut self) -> Bytes {
        Bytes::from(std::mem::take(&mut self.chunks))
    }

    /// Whether nothing but questions to the user is open, and the stream may end for now.
    pub(super) fn waits_for_user(&self) -> bool {
        let is_open = |stage: Stage| matches!(stage, Stage::Begun | Stage::HandedOut);
        self.yields_asks
            && self.calls.values().any(|stage| *stage == Stage::Asked)
            && !self.calls.values().any(|stage| is_open(*stage))
    }

    /// Writes a message that is complete.
    pub(super) fn stored(&mut self, message: &Message) {
        self.begin_step(&message.id);
        for part in &message.parts {
            if let PartBody::Tool(tool) = &part.body {
                self.settled.calls.extend(matches!(tool.state, ToolState::Done { .. }).then(|| tool.call.clone()));
            }
            self.part(part);
        }
        self.end_step(message);
    }

    /// The turn is over, and ended as its last message says.
    pub(super) fn ended_with(&mut self, last: &Message) {
        if let Role::Assistant(said) = &last.role {
            self.failure.clone_from(&said.error);
        }
    }

    /// Writes what came of the calls that the page knows of a message that is complete, as far as it does not know it.
    pub(super) fn ends(&mut self, message: &Message, page: &UiMessage) {
        self.start();
        let open = |call: &CallId| {
            let is_open = |state: &str| !state.starts_with("output-");
            let mut parts = page.parts.iter().filter(|part| part.tool_call_id.as_deref() == Some(call.as_str()));
            parts.any(|part| part.state.as_deref().is_none_or(is_open))
        };
        let before = self.chunks.len();
        for part in &message.parts {
            if let PartBody::Tool(ToolPart { call, state: ToolState::Done { result, .. }, .. }) = &part.body
                && open(call)
            {
                self.result(call, result);
            }
        }
        if self.chunks.len() > before {
            self.end_step(message);
        }
    }

    /// Writes what a turn tells.
    pub(super) fn event(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Session(SessionEvent::Message(message)) => match &message.role {
                Role::Assistant(said) if said.completed.is_some() => self.end_step(message),
                Role::Assistant(_) => self.begin_step(&message.id),
                Role::User(_) => {}
            },
            RunEvent::Session(SessionEvent::Part { part, delta: None, .. }) => self.part(part),
            RunEvent::Session(SessionEvent::Delta { part, field, delta, .. }) => self.grow(part, *field, delta),
            RunEvent::Session(SessionEvent::Failed(error)) => self.failure = Some(TurnError::clone(error)),
            RunEvent::Session(_) => {}
            RunEvent::Asked(ask) => self.ask(ask),
            RunEvent::Answered(ask, reply) => self.answer(ask, *reply),
            // A page is told of these when it goes on.
            RunEvent::Settled(_) => {}
        }
    }

    /// Writes the end of the stream, and how the turn ended.
    pub(super) fn end(&mut self) -> Bytes {
        match self.failure.take() {
            Some(TurnError::Aborted(reason)) => {
                // A page that goes on by itself when all calls of a step are over is not to bring it back to life.
                self.write(&Chunk::Finish { finish_reason: "interrupted" });
                self.write(&Chunk::Abort { reason: &reason });
            }
            Some(error) => {
                self.write(&Chunk::Error { error_text: error.message() });
                self.write(&Chunk::Finish { finish_reason: "error" });
            }
            None if !self.is_started => {
                self.write(&Chunk::Error {
                    error_text: "The turn was not run: the chat was deleted, or could not be kept",
                });
                self.write(&Chunk::Finish { finish_reason: "error" });
            }
            None => {
                let reason = self.finish.filter(|_| !self.waits_for_user()).unwrap_or(StopReason::ToolCalls);
                self.write(&Chunk::Finish { finish_reason: reason.as_str() });
            }
        }
        self.chunks.extend_from_slice(DONE.as_bytes());
        self.take()
    }

    fn write(&mut self, chunk: &Chunk<'_>) {
        if self.passed_over.is_empty() {
            self.chunks.extend_from_slice(b"data: ");
            self.chunks.extend_from_slice(json(chunk).as_bytes());
            self.chunks.extend_from_slice(b"\n\n");
        }
    }

    fn start(&mut self) {
        if !self.is_started && self.passed_over.is_empty() {
            self.is_started = true;
            let message = self.message.clone().unwrap_or_default();
            self.write(&Chunk::Start { message_id: &message });
        }
    }

    fn begin_step(&mut self, message: &MessageId) {
        self.message.get_or_insert_with(|| message.to_string());
        self.start();
        self.parts.clear();
        self.calls.clear();
        self.write(&Chunk::StartStep);
    }

    fn end_step(&mut self, message: &Message) {
        if let Role::Assistant(said) = &message.role {
            self.finish = said.finish.or(self.finish);
        }
        self.write(&Chunk::FinishStep);
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

    fn part(&mut self, part: &Part) {
        let id = part.id.as_str();
        match &part.body {
            PartBody::Text { text, .. } => {
                if !self.texts.contains(&part.id) && !text.is_empty() {
                    self.grow(&part.id, Field::Text, text);
                }
                if self.texts.remove(&part.id) {
                    self.write(&Chunk::TextEnd { id });
                }
            }
            PartBody::Reasoning { text, .. } => {
                if !self.texts.contains(&part.id) && !text.is_empty() {
                    self.grow(&part.id, Field::Reasoning, text);
                }
                if self.texts.remove(&part.id) {
                    self.write(&Chunk::ReasoningEnd { id });
                }
            }
            PartBody::Tool(tool) => self.tool(&part.id, tool),
            PartBody::File(_) | PartBody::StepStart | PartBody::StepFinish { .. } => {}
        }
    }

    fn tool(&mut self, part: &PartId, tool: &ToolPart) {
        let (tool_call_id, tool_name) = (tool.call.as_str(), tool.tool.as_str());
        if !self.parts.contains_key(part) {
            self.parts.insert(part.clone(), tool.call.clone());
            self.calls.insert(tool.call.clone(), Stage::Begun);
            self.write(&Chunk::ToolInputStart { tool_call_id, tool_name });
            if !matches!(tool.state, ToolState::Pending { .. }) {
                self.write(&Chunk::ToolInputDelta { tool_call_id, input_text_delta: tool.arguments() });
            }
        }
        let before = self.calls.get(&tool.call).copied().unwrap_or(Stage::Begun);
        let stage = match &tool.state {
            ToolState::Pending { .. } => return,
            ToolState::Running { input, .. } | ToolState::Yielded { input, .. } => {
                let is_yielded = matches!(tool.state, ToolState::Yielded { .. });
                // The page is not to run what others do.
                let provider_executed = (!is_yielded && !self.frontend_tools.contains(tool_name)).then_some(true);
                if !self.settled.calls.contains(&tool.call) {
                    self.write(&Chunk::ToolInputAvailable { tool_call_id, tool_name, input, provider_executed });
                }
                if is_yielded { Stage::Settled } else { Stage::HandedOut }
            }
            ToolState::Done { input, result, .. } => {
                match result {
                    // It was never handed out to anybody.
                    ToolResult::Failed(error_text) | ToolResult::Denied { reason: error_text, ask: None }
                        if before == Stage::Begun && !self.settled.calls.contains(&tool.call) =>
                    {
                        self.write(&Chunk::ToolInputError { tool_call_id, tool_name, input, error_text });
                    }
                    result => self.result(&tool.call, result),
                }
                Stage::Settled
            }
        };
        self.set_stage(&tool.call, stage);
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

    fn ask(&mut self, ask: &Ask) {
        let (approval_id, tool_call_id) = (ask.id.as_str(), ask.call.call.as_str());
        if self.passed_over.remove(&ask.id) {
            // The page knows it and has brought the answer, which comes next.
            self.start();
        } else {
            self.write(&Chunk::ToolApprovalRequest { approval_id, tool_call_id });
            if !self.settled.asks.contains(&ask.id) {
                self.set_stage(&ask.call.call, Stage::Asked);
            }
        }
    }

    fn answer(&mut self, ask: &Ask, reply: Reply) {
        // A no is told with the end of the call, which says why.
        if reply != Reply::Reject {
            let approval_id = ask.id.as_str();
            self.write(&Chunk::ToolApprovalResponse { approval_id, approved: true, reason: None });
        }
        self.set_stage(&ask.call.call, Stage::HandedOut);
    }

    fn set_stage(&mut self, id: &CallId, stage: Stage) {
        if let Some(known) = self.calls.get_mut(id) {
            *known = stage;
        }
    }
}

/// A text as JSON.
fn as_json(text: &str) -> Box<RawValue> {
    to_raw_value(text).unwrap_or_default()
}

/// What is to be known of a conversation besides its messages.
pub(super) struct Surroundings<'a> {
    /// The questions that are open, by call.
    pub(super) asks: HashMap<CallId, PermissionId>,
    /// Calls that are with whoever runs them.
    pub(super) shown: HashSet<CallId>,
    /// Names of the server's own tools.
    pub(super) server_tools: Vec<&'a str>,
}

/// A conversation as a page has it: the steps of a turn are one message.
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

/// A part as a page has it.
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
    // A client's call has an id of its own; a frontend's has that of the page; one of the page or of the server has none.
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
            // A page may act on what it sees: not before the call can be answered.
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
