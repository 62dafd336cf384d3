//! From the core to the wire: writes the events of a turn as events of a run.
//!
//! The order is valid for every sequence of turn events: `RUN_STARTED` comes first, everything that begins also ends,
//! and one terminal event comes last. For a step that began before the run, only the results of its calls are sent.

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, SystemTime};

use handback_core::events::{Field, TurnEvent};
use handback_core::id::{CallId, MessageId, PartId, RunId, SessionId};
use handback_core::store::{
    AskSummary, Attachment, Message, ModelRef, Part, PartBody, Role, ToolPart, ToolState, TurnError, Usage,
};
use handback_core::text::shortened;
use handback_wire::agui::{
    self, Body, Content, Event, Interrupt, Outcome, PROTOCOL_VERSION, ReasoningRole, Source, TextRole, TokenUsage,
    ToolRole,
};
use serde_json::{Map, Value, json};

use super::snapshot;
use crate::api::client_tools::encode::time;

/// Most characters of an input that an interrupt's question shows.
const SHOWN: usize = 200;
/// The error code of a stopped run.
const CANCELLED: &str = "cancelled";

/// What the encoder needs to know of a run.
pub(in crate::api) struct RunHead {
    pub(super) thread: String,
    pub(in crate::api) run: String,
    pub(in crate::api) parent: Option<String>,
    /// Whether the front end knows AG-UI 1.0.
    pub(super) speaks_1_0: bool,
    /// The front end's state, if it is not empty.
    pub(super) state: Option<Value>,
    /// Tools of the front end whose arguments hooks may still change: the arguments are sent when they are final.
    pub(super) withheld: HashSet<String>,
    /// Calls whose results the front end brought itself.
    pub(super) brought: HashSet<CallId>,
    /// How long an ask stays open.
    pub(super) approval_timeout: Duration,
    /// The messages that the front end sent, for a run that may have been restarted.
    pub(super) messages: Vec<agui::Message>,
}

impl RunHead {
    /// The head of a run without input.
    pub(in crate::api) fn new(thread: &SessionId, run: &RunId) -> Self {
        Self {
            thread: thread.to_string(),
            run: run.to_string(),
            parent: None,
            speaks_1_0: false,
            state: None,
            withheld: HashSet::new(),
            brought: HashSet::new(),
            approval_timeout: Duration::ZERO,
            messages: Vec::new(),
        }
    }
}

/// Writes the events of a turn as events of a run.
pub(in crate::api) struct Encoder {
    head: RunHead,
    /// The message of the step. `is_named`: a text or a call of the step has used its id.
    message: Option<MessageId>,
    is_named: bool,
    /// Whether the step is replayed from an earlier turn.
    is_replayed: bool,
    /// Texts that have begun and not ended.
    texts: BTreeMap<PartId, Open>,
    /// The calls of the step.
    calls: BTreeMap<PartId, Call>,
    /// Calls that the front end must run.
    pending: Vec<CallId>,
    used: Vec<(ModelRef, Usage)>,
    is_over: bool,
    events: Vec<Body>,
}

/// An open text, with the id of its message.
enum Open {
    Text(String),
    Reasoning(String),
}

struct Call {
    id: CallId,
    /// Whether the arguments are sent only when they are final.
    is_withheld: bool,
    has_arguments: bool,
    /// Whether all arguments are sent.
    is_ended: bool,
}

impl Encoder {
    /// Creates an encoder that begins with `RUN_STARTED`.
    pub(in crate::api) fn new(head: RunHead) -> Self {
        let mut encoder = Self::begun(head);
        let head = &encoder.head;
        encoder.events.push(Body::RunStarted {
            thread_id: head.thread.clone(),
            run_id: head.run.clone(),
            parent_run_id: head.parent.clone(),
            protocol_version: head.speaks_1_0.then(|| PROTOCOL_VERSION.to_owned()),
            input: None,
        });
        encoder.events.extend(head.state.clone().map(|snapshot| Body::StateSnapshot { snapshot }));
        encoder
    }

    /// Creates an encoder for a run that an earlier version recorded: its events include `RUN_STARTED`.
    pub(in crate::api) fn begun(head: RunHead) -> Self {
        Self {
            head,
            message: None,
            is_named: false,
            is_replayed: false,
            texts: BTreeMap::new(),
            calls: BTreeMap::new(),
            pending: Vec::new(),
            used: Vec::new(),
            is_over: false,
            events: Vec::new(),
        }
    }

    /// Takes the events that were written since the last `take`.
    pub(in crate::api) fn take(&mut self) -> Vec<Body> {
        std::mem::take(&mut self.events)
    }

    /// Writes an event of the turn.
    pub(in crate::api) fn event(&mut self, event: &TurnEvent) {
        if self.is_over {
            return;
        }
        match event {
            TurnEvent::StepBegan(message) => self.begin_step(message),
            TurnEvent::Grew { message, part, field, delta } => {
                if self.message.as_ref() == Some(message) {
                    self.grow(part, *field, delta);
                }
            }
            TurnEvent::Part { message, part } if self.message.as_ref() == Some(message) => self.part(part),
            TurnEvent::Part { part, .. } => self.known_part(part),
            TurnEvent::StepDone(message) => self.add_usage(message),
            TurnEvent::Restarted { answers, begun } => {
                self.close();
                let (sent, begun) = (&self.head.messages, begun.as_ref().map(MessageId::as_str));
                let answers = answers.iter().map(|answer| &**answer);
                let messages = snapshot::messages(sent, begun, answers, |tool| self.content(tool));
                self.events.push(Body::MessagesSnapshot { messages });
            }
            TurnEvent::Ended(error) => self.end(error.as_deref()),
            TurnEvent::Waiting(asks) => {
                let interrupts = asks.iter().map(|ask| interrupt(ask, self.head.approval_timeout)).collect();
                self.finish(Some(Outcome::Interrupt { interrupts }));
            }
            TurnEvent::Recorded(text) => {
                if let Ok(event) = serde_json::from_str::<Event>(text) {
                    self.is_over = event.body.is_terminal();
                    self.events.push(event.body);
                }
            }
            TurnEvent::PartRemoved { .. } | TurnEvent::Asked(_) | TurnEvent::Answered { .. } => {}
        }
    }

    /// Ends the run because the reader's token has expired.
    pub(in crate::api) fn expire(&mut self, message: &str) {
        self.close();
        self.fail("token_expired", message);
    }

    fn begin_step(&mut self, message: &Message) {
        self.close();
        self.calls.clear();
        // When a new step begins, the calls that the front end had to run are over.
        self.pending.clear();
        self.message = Some(message.id.clone());
        (self.is_named, self.is_replayed) = (false, message.is_complete());
    }

    /// Handles a part of a step that the front end knows already.
    fn known_part(&mut self, part: &Part) {
        let PartBody::Tool(tool) = &part.body else { return };
        if self.head.brought.contains(&tool.call) {
            return;
        }
        match tool.state {
            ToolState::Yielded { .. } => self.pending.push(tool.call.clone()),
            ToolState::Done { .. } => self.result(&part.id, tool),
            ToolState::Pending { .. } | ToolState::Running { .. } => {}
        }
    }

    fn result(&mut self, part: &PartId, tool: &ToolPart) {
        let content = self.content(tool);
        let (message_id, tool_call_id) = (part.to_string(), tool.call.to_string());
        self.events.push(Body::ToolCallResult { message_id, tool_call_id, content, role: Some(ToolRole::Tool) });
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

    /// Begins a text. The first text of a step has the id of the step's message, which is the parent of the step's
    /// calls; later texts have ids of their own.
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
                self.head.withheld.contains(tool.tool.as_str()) || !matches!(tool.state, ToolState::Pending { .. });
            let call = Call { id: tool.call.clone(), is_withheld, has_arguments: false, is_ended: false };
            self.calls.insert(part.clone(), call);
            // The call uses the id of the step's message, so later texts need their own.
            self.is_named = true;
            self.events.push(Body::ToolCallStart {
                tool_call_id: tool.call.to_string(),
                tool_call_name: tool.tool.to_string(),
                parent_message_id: self.message.as_ref().map(ToString::to_string),
            });
        }
        match &tool.state {
            ToolState::Pending { .. } => {}
            ToolState::Running { .. } => self.end_arguments(part, tool),
            ToolState::Yielded { .. } => {
                self.end_arguments(part, tool);
                self.pending.push(tool.call.clone());
            }
            ToolState::Done { .. } => {
                self.end_arguments(part, tool);
                self.pending.retain(|call| *call != tool.call);
                self.result(part, tool);
            }
        }
    }

    fn end_arguments(&mut self, part: &PartId, tool: &ToolPart) {
        let Some(call) = self.calls.get_mut(part).filter(|call| !call.is_ended) else { return };
        call.is_ended = true;
        let tool_call_id = tool.call.to_string();
        if !call.has_arguments {
            let delta = tool.arguments().to_owned();
            self.events.push(Body::ToolCallArgs { tool_call_id: tool_call_id.clone(), delta });
        }
        self.events.push(Body::ToolCallEnd { tool_call_id });
    }

    /// The result of a call, as the model sees it.
    fn content(&self, tool: &ToolPart) -> Content {
        let (text, _) = tool.result_for_model(usize::MAX);
        let files: Vec<agui::Part> = tool.attachments().iter().map(file).collect();
        if files.is_empty() || !self.head.speaks_1_0 {
            return Content::Text(text);
        }
        let text = agui::Part::Text { id: None, text, metadata: None };
        Content::Parts([text].into_iter().chain(files).collect())
    }

    fn end(&mut self, error: Option<&TurnError>) {
        let Some(error) = error else {
            let pending: Vec<String> = self.pending.iter().map(ToString::to_string).collect();
            let pending_tool_call_ids = (!pending.is_empty()).then_some(pending);
            return self.finish(self.head.speaks_1_0.then_some(Outcome::Success { pending_tool_call_ids }));
        };
        let code = match error {
            TurnError::Aborted(_) if self.head.speaks_1_0 => return self.finish(Some(Outcome::Cancelled)),
            TurnError::Aborted(_) => CANCELLED,
            TurnError::Stopped(_) => "shutting_down",
            TurnError::Auth { .. } => "provider_auth",
            TurnError::Provider { .. } => "provider_error",
            TurnError::Refused { code, .. } => code,
            TurnError::Other(_) => "run_failed",
        };
        self.close();
        self.fail(code, error.message());
    }

    fn finish(&mut self, outcome: Option<Outcome>) {
        // A turn that ended in order has closed everything; one that broke off may not have.
        self.close();
        let (thread_id, run_id, usage) = (self.head.thread.clone(), self.head.run.clone(), self.usage());
        self.is_over = true;
        self.events.push(Body::RunFinished { thread_id, run_id, result: None, outcome, usage });
    }

    fn fail(&mut self, code: &str, message: &str) {
        let (message, code, usage) = (message.to_owned(), Some(code.to_owned()), self.usage());
        self.is_over = true;
        self.events.push(Body::RunError { message, code, usage });
    }

    /// Ends all open texts and calls.
    fn close(&mut self) {
        for (_, open) in std::mem::take(&mut self.texts) {
            self.end_text(open);
        }
        for call in self.calls.values_mut().filter(|call| !call.is_ended) {
            call.is_ended = true;
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

    /// Adds the usage of a complete step. Replayed steps are not counted, because an earlier run counted them.
    fn add_usage(&mut self, message: &Message) {
        let Role::Assistant(said) = &message.role else { return };
        if self.is_replayed || self.message.as_ref() != Some(&message.id) || said.finish.is_none() {
            return;
        }
        let known = self.used.iter_mut().find(|(model, _)| *model == said.model);
        match known {
            Some((_, sum)) => *sum = sum.plus(&said.usage),
            None => self.used.push((said.model.clone(), said.usage)),
        }
    }

    fn usage(&self) -> Option<Vec<TokenUsage>> {
        let told = self.used.iter().filter(|(_, used)| *used != Usage::default());
        let usage: Vec<TokenUsage> = told.map(|(model, used)| usage(model, used)).collect();
        (!usage.is_empty()).then_some(usage)
    }
}

/// Token counts; those of reasoning and caches are included in the totals.
fn usage(model: &ModelRef, used: &Usage) -> TokenUsage {
    let (input, output) = (used.read(), used.written());
    TokenUsage {
        provider: Some(model.provider.to_string()),
        model: Some(model.model.to_string()),
        input_tokens: Some(input),
        output_tokens: Some(output),
        total_tokens: Some(input.saturating_add(output)),
        reasoning_tokens: used.reasoning,
        cached_input_tokens: used.cache_read,
        cache_write_input_tokens: used.cache_write,
    }
}

/// Converts an ask to an interrupt.
fn interrupt(ask: &AskSummary, approval_timeout: Duration) -> Interrupt {
    let expires = SystemTime::from(ask.created) + approval_timeout;
    Interrupt {
        id: ask.id.to_string(),
        reason: "tool_call".to_owned(),
        message: Some(format!("Allow {} with {}?", ask.tool, shortened(ask.input.get(), SHOWN))),
        tool_call_id: Some(ask.call.to_string()),
        response_schema: response_schema(),
        expires_at: Some(time(expires)),
        metadata: None,
        subagent_run_id: None,
    }
}

/// The JSON Schema of an answer to an interrupt.
fn response_schema() -> Option<Map<String, Value>> {
    let schema = json!({
        "type": "object",
        "properties": {
            "approved": {"type": "boolean", "description": "Whether the call may be made"},
            "editedArgs": {"type": "object", "description": "Arguments in place of the model's"},
            "reason": {"type": "string", "description": "Why it may not, for the model"},
            "always": {"type": "boolean", "description": "Whether all calls of this tool in this thread may be made"},
        },
        "required": ["approved"],
    });
    match schema {
        Value::Object(schema) => Some(schema),
        _ => None,
    }
}

/// Converts a file of a result.
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

#[cfg(test)]
mod tests;
