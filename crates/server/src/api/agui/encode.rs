//! From the core to the wire: a turn as events of a run.
//!
//! The order is valid whatever the turn tells: `RUN_STARTED` comes first, whatever was begun is ended, and one terminal
//! event comes last.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use handback_core::call::Attachment;
use handback_core::event::{Field, SessionEvent};
use handback_core::id::{CallId, MessageId, PartId, PermissionId};
use handback_core::message::{Message, Part, PartBody, Role, ToolPart, ToolState, TurnError};
use handback_core::permission::Ask;
use handback_core::sessions::RunEvent;
use handback_wire::agui::{self, Body, Content, Outcome, PROTOCOL_VERSION, ReasoningRole, Source, TextRole, ToolRole};
use serde_json::json;

use super::cost::Cost;
use super::decode::Input;
use super::interrupt;

/// Writes a turn as events.
pub(super) struct Encoder {
    thread: String,
    run: String,
    speaks_1_0: bool,
    /// How long a question can be answered.
    approval_timeout: Duration,
    /// Tools of the front end whose arguments may still be changed: they are told when they are final.
    withheld: HashSet<String>,
    /// Nothing is told up to what an earlier run has told.
    passed_over: Option<Point>,
    /// The message whose calls the front end knows.
    known: Option<MessageId>,
    /// Calls that the front end has the results of.
    brought: HashSet<CallId>,
    /// The message that is being written; a text may still have its name.
    message: Option<MessageId>,
    is_named: bool,
    /// Texts that are open.
    texts: HashMap<PartId, Open>,
    calls: HashMap<PartId, Call>,
    /// Questions that are open.
    asks: Vec<Arc<Ask>>,
    /// Calls that are the front end's to run.
    pending: Vec<CallId>,
    cost: Cost,
    failure: Option<Failure>,
    events: Vec<Body>,
}

/// Up to where an earlier run has told a turn.
pub(super) enum Point {
    /// A question, the last of those that it ended with.
    Ask(PermissionId),
    /// The calls of a message.
    Calls(MessageId),
}

/// A text that is open, by the name of its message.
enum Open {
    Text(String),
    Reasoning(String),
}

/// A call of the step.
struct Call {
    id: CallId,
    stage: Stage,
    /// Whether its arguments are told when they are final.
    is_withheld: bool,
    has_arguments: bool,
}

/// How much of a call is told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Its arguments grow.
    Begun,
    /// It is being run.
    Running,
    /// It waits to be allowed.
    Asked,
    /// It is the front end's to run, or over.
    Settled,
}

/// Why a run fails.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) code: &'static str,
    pub(super) message: String,
}

impl Encoder {
    /// Writes a run with this input; begins at once.
    pub(super) fn new(input: &Input, approval_timeout: Duration, withheld: HashSet<String>) -> Self {
        let mut encoder = Self {
            thread: input.thread.to_string(),
            run: input.run.clone(),
            speaks_1_0: input.speaks_1_0,
            approval_timeout,
            withheld,
            passed_over: None,
            known: None,
            brought: input.results.iter().map(|(call, _)| call.clone()).collect(),
            message: None,
            is_named: false,
            texts: HashMap::new(),
            calls: HashMap::new(),
            asks: Vec::new(),
            pending: Vec::new(),
            cost: Cost::default(),
            failure: None,
            events: Vec::new(),
        };
        encoder.events.push(Body::RunStarted {
            thread_id: encoder.thread.clone(),
            run_id: encoder.run.clone(),
            parent_run_id: input.parent.clone(),
            protocol_version: encoder.speaks_1_0.then(|| PROTOCOL_VERSION.to_owned()),
            input: None,
        });
        if let Some(state) = &input.state {
            encoder.events.push(Body::StateSnapshot { snapshot: state.clone() });
        }
        encoder
    }

    /// An earlier run has told all up to there.
    pub(super) fn pass_over(&mut self, point: Point) {
        if let Point::Calls(message) = &point {
            self.known = Some(message.clone());
        }
        self.passed_over = Some(point);
    }

    /// What failed does not count any more.
    pub(super) fn forgive(&mut self) {
        self.failure = None;
    }

    /// The run fails with this, unless it has failed already.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// What is written since the last time.
    pub(super) fn take(&mut self) -> Vec<Body> {
        std::mem::take(&mut self.events)
    }

    /// What the run has cost so far.
    pub(super) fn cost(&self) -> &Cost {
        &self.cost
    }

    /// The calls that are the front end's to run.
    pub(super) fn pending(&self) -> &[CallId] {
        &self.pending
    }

    /// The front end has run its calls, and the run goes on.
    pub(super) fn settle_pending(&mut self) {
        self.pending.clear();
    }

    /// Whether a turn has told nothing: it was never run.
    pub(super) fn has_heard_nothing(&self) -> bool {
        self.message.is_none()
    }

    /// Whether nothing but questions to the user is open.
    pub(super) fn waits_for_user(&self) -> bool {
        self.passed_over.is_none() && self.has_only_asks()
    }

    fn has_only_asks(&self) -> bool {
        let is_open = |call: &Call| matches!(call.stage, Stage::Begun | Stage::Running);
        !self.asks.is_empty() && !self.calls.values().any(is_open)
    }

    /// Writes a message that is complete.
    pub(super) fn stored(&mut self, message: &Message) {
        self.begin_step(&message.id);
        message.parts.iter().for_each(|part| self.part(part));
        if let Some(error) = message.error() {
            self.fail(failure(error, true));
        }
    }

    /// Writes what a turn tells.
    pub(super) fn event(&mut self, event: &RunEvent, is_serving: bool) {
        let before = self.events.len();
        match event {
            RunEvent::Session(SessionEvent::Message(message)) => match &message.role {
                Role::Assistant(said) if said.completed.is_some() => {
                    if said.finish.is_some() {
                        self.cost.add(&said.model, &said.usage);
                    }
                }
                Role::Assistant(_) => self.begin_step(&message.id),
                Role::User(_) => {}
            },
            RunEvent::Session(SessionEvent::Part { part, delta: None, .. }) => self.part(part),
            RunEvent::Session(SessionEvent::Delta { part, field, delta, .. }) => self.grow(part, *field, delta),
            RunEvent::Session(SessionEvent::Failed(error)) => self.fail(failure(error, is_serving)),
            RunEvent::Session(_) => {}
            RunEvent::Asked(ask) => self.ask(ask),
            RunEvent::Answered(ask, _) => self.answer(ask),
            RunEvent::Settled(part) => self.settled(part),
        }
        if self.passed_over.is_some() {
            let is_news = |event: &Body| match event {
                Body::ToolCallResult { .. } => self.known.is_some() && self.known == self.message,
                _ => false,
            };
            let news: Vec<Body> = self.events.drain(before..).filter(is_news).collect();
            self.events.extend(news);
            self.catch_up();
        }
    }

    /// Begins to tell where the earlier run ended.
    fn catch_up(&mut self) {
        self.cost = Cost::default();
        let is_there = match &self.passed_over {
            // Nothing but questions was open then, and by now they are answered.
            Some(Point::Ask(last)) => self.asks.iter().any(|ask| ask.id == *last) && self.has_only_asks(),
            Some(Point::Calls(message)) => {
                let has_begun = |call: &Call| call.stage == Stage::Begun;
                self.message.as_ref() == Some(message) && !self.calls.is_empty() && !self.calls.values().any(has_begun)
            }
            None => return,
        };
        if !is_there {
            return;
        }
        if let Some(Point::Ask(_)) = self.passed_over.take() {
            for ask in std::mem::take(&mut self.asks) {
                self.set_stage(&ask.call.call, Stage::Running);
            }
        }
    }

    /// A call of an earlier answer is over, and the front end has said nothing of it.
    fn settled(&mut self, part: &Part) {
        if let PartBody::Tool(tool) = &part.body {
            self.pending.retain(|call| *call != tool.call);
            self.result(&part.id, tool);
        }
    }

    fn result(&mut self, part: &PartId, tool: &ToolPart) {
        let content = self.content(tool);
        let (message_id, tool_call_id) = (part.to_string(), tool.call.to_string());
        self.events.push(Body::ToolCallResult { message_id, tool_call_id, content, role: Some(ToolRole::Tool) });
    }

    fn begin_step(&mut self, message: &MessageId) {
        self.close();
        self.calls.clear();
        self.message = Some(message.clone());
        self.is_named = false;
    }

    fn grow(&mut self, part: &PartId, field: Field, delta: &str) {
        if delta.is_empty() {
            return;
        }
        match field {
            Field::Arguments => {
                if let Some(call) = self.calls.get_mut(part).filter(|call| !call.is_withheld) {
                    call.has_arguments = true;
                    let (tool_call_id, delta) = (call.id.to_string(), delta.to_owned());
                    self.events.push(Body::ToolCallArgs { tool_call_id, delta });
                }
            }
            Field::Text => {
                let message_id = match self.texts.get(part) {
                    Some(Open::Text(message) | Open::Reasoning(message)) => message.clone(),
                    None => self.begin_text(part),
                };
                self.events.push(Body::TextMessageContent { message_id, delta: delta.to_owned() });
            }
            Field::Reasoning => {
                let message_id = part.to_string();
                if self.texts.insert(part.clone(), Open::Reasoning(message_id.clone())).is_none() {
                    self.events.push(Body::ReasoningStart { message_id: message_id.clone() });
                    let role = ReasoningRole::Reasoning;
                    self.events.push(Body::ReasoningMessageStart { message_id: message_id.clone(), role });
                }
                self.events.push(Body::ReasoningMessageContent { message_id, delta: delta.to_owned() });
            }
        }
    }

    /// The first text of a step has the name of its message, which the calls of the step have as their parent; later
    /// ones have names of their own.
    fn begin_text(&mut self, part: &PartId) -> String {
        let of_step = self.message.as_ref().filter(|_| !self.is_named).map(ToString::to_string);
        let message_id = of_step.unwrap_or_else(|| part.to_string());
        self.is_named = true;
        self.texts.insert(part.clone(), Open::Text(message_id.clone()));
        let role = Some(TextRole::Assistant);
        self.events.push(Body::TextMessageStart { message_id: message_id.clone(), role, name: None });
        message_id
    }

    fn part(&mut self, part: &Part) {
        let (field, text) = match &part.body {
            PartBody::Text { text, .. } => (Field::Text, text),
            PartBody::Reasoning { text, .. } if part.is_shown() => (Field::Reasoning, text),
            PartBody::Tool(tool) => return self.tool(&part.id, tool),
            PartBody::Reasoning { .. } | PartBody::File(_) | PartBody::StepStart | PartBody::StepFinish { .. } => {
                return;
            }
        };
        if !self.texts.contains_key(&part.id) {
            self.grow(&part.id, field, text);
        }
        if let Some(open) = self.texts.remove(&part.id) {
            self.end_text(open);
        }
    }

    fn tool(&mut self, part: &PartId, tool: &ToolPart) {
        if !self.calls.contains_key(part) {
            let is_withheld =
                self.withheld.contains(tool.tool.as_str()) || !matches!(tool.state, ToolState::Pending { .. });
            let call = Call { id: tool.call.clone(), stage: Stage::Begun, is_withheld, has_arguments: false };
            self.calls.insert(part.clone(), call);
            self.cost.calls += 1;
            // The message that has the call is there from now on.
            self.is_named = true;
            self.events.push(Body::ToolCallStart {
                tool_call_id: tool.call.to_string(),
                tool_call_name: tool.tool.to_string(),
                parent_message_id: self.message.as_ref().map(ToString::to_string),
            });
        }
        match &tool.state {
            ToolState::Pending { .. } => {}
            ToolState::Running { .. } => {
                self.end_arguments(part, tool);
                self.set_stage(&tool.call, Stage::Running);
            }
            ToolState::Yielded { .. } => {
                self.end_arguments(part, tool);
                self.set_stage(&tool.call, Stage::Settled);
                self.pending.push(tool.call.clone());
            }
            ToolState::Done { .. } => {
                self.end_arguments(part, tool);
                self.set_stage(&tool.call, Stage::Settled);
                self.pending.retain(|call| *call != tool.call);
                let is_brought = self.known == self.message && self.brought.contains(&tool.call);
                if !is_brought {
                    self.result(part, tool);
                }
            }
        }
    }

    fn end_arguments(&mut self, part: &PartId, tool: &ToolPart) {
        let Some(call) = self.calls.get_mut(part).filter(|call| call.stage == Stage::Begun) else { return };
        let tool_call_id = tool.call.to_string();
        if !call.has_arguments {
            let delta = tool.arguments().to_owned();
            self.events.push(Body::ToolCallArgs { tool_call_id: tool_call_id.clone(), delta });
        }
        self.events.push(Body::ToolCallEnd { tool_call_id });
    }

    /// What came of a call, as the model is told.
    fn content(&self, tool: &ToolPart) -> Content {
        let (text, _) = tool.result_for_model(usize::MAX);
        let files: Vec<agui::Part> = tool.attachments().iter().map(file).collect();
        if files.is_empty() || !self.speaks_1_0 {
            return Content::Text(text);
        }
        let text = agui::Part::Text { id: None, text, metadata: None };
        Content::Parts([text].into_iter().chain(files).collect())
    }

    fn ask(&mut self, ask: &Arc<Ask>) {
        self.set_stage(&ask.call.call, Stage::Asked);
        self.asks.push(ask.clone());
    }

    fn answer(&mut self, ask: &Ask) {
        if matches!(&self.passed_over, Some(Point::Ask(last)) if *last == ask.id) {
            // It was answered while the earlier run was still going on.
            self.passed_over = None;
        }
        self.asks.retain(|open| open.id != ask.id);
        self.set_stage(&ask.call.call, Stage::Running);
    }

    fn set_stage(&mut self, id: &CallId, stage: Stage) {
        if let Some(call) = self.calls.values_mut().find(|call| call.id == *id) {
            call.stage = stage;
        }
    }

    /// Writes the end of the run.
    pub(super) fn end(&mut self) {
        // Where a turn tells all of its ends there is nothing left; one that broke off may have left something.
        self.close();
        let (thread_id, run_id, usage) = (self.thread.clone(), self.run.clone(), self.cost.usage());
        let finished = |outcome| Body::RunFinished { thread_id, run_id, result: None, outcome, usage: usage.clone() };
        let end = match self.failure.take() {
            Some(Failure { code: CANCELLED, .. }) if self.speaks_1_0 => finished(Some(Outcome::Cancelled)),
            Some(Failure { code, message }) => Body::RunError { message, code: Some(code.to_owned()), usage },
            None if self.waits_for_user() => {
                let interrupts = self.asks.iter().map(|ask| interrupt::of(ask, self.approval_timeout)).collect();
                finished(Some(Outcome::Interrupt { interrupts }))
            }
            None => {
                let pending: Vec<String> = self.pending.iter().map(ToString::to_string).collect();
                let pending_tool_call_ids = (!pending.is_empty()).then_some(pending);
                finished(self.speaks_1_0.then_some(Outcome::Success { pending_tool_call_ids }))
            }
        };
        self.events.push(end);
    }

    /// Ends whatever is open.
    fn close(&mut self) {
        for (_, open) in std::mem::take(&mut self.texts) {
            self.end_text(open);
        }
        for call in self.calls.values_mut().filter(|call| call.stage == Stage::Begun) {
            call.stage = Stage::Settled;
            self.events.push(Body::ToolCallEnd { tool_call_id: call.id.to_string() });
        }
    }

    fn end_text(&mut self, open: Open) {
        match open {
            Open::Text(message_id) => self.events.push(Body::TextMessageEnd { message_id }),
            Open::Reasoning(message_id) => {
                self.events.push(Body::ReasoningMessageEnd { message_id: message_id.clone() });
                self.events.push(Body::ReasoningEnd { message_id });
            }
        }
    }
}

/// The code of a run that somebody stopped.
const CANCELLED: &str = "cancelled";

/// Why a turn failed, as the front end is told.
fn failure(error: &TurnError, is_serving: bool) -> Failure {
    let code = match error {
        TurnError::Aborted(_) if is_serving => CANCELLED,
        TurnError::Aborted(_) => "shutting_down",
        TurnError::Auth { .. } => "provider_auth",
        TurnError::Provider { .. } => "provider_error",
        TurnError::Other(_) => "run_failed",
    };
    Failure { code, message: error.message().to_owned() }
}

/// A file that belongs to a result.
fn file(file: &Attachment) -> agui::Part {
    let inline = file.url.strip_prefix("data:").and_then(|data| data.split_once(";base64,"));
    let source = match inline {
        Some((_, data)) => Source::Data { value: data.to_owned(), mime_type: file.mime.clone() },
        None => Source::Url { value: file.url.clone(), mime_type: Some(file.mime.clone()) },
    };
    let (id, metadata) = (None, file.filename.as_ref().map(|name| json!({ "filename": name })));
    match file.mime.split('/').next() {
        Some("image") => agui::Part::Image { id, source, metadata },
        Some("audio") => agui::Part::Audio { id, source, metadata },
        Some("video") => agui::Part::Video { id, source, metadata },
        _ => agui::Part::Document { id, source, metadata },
    }
}
