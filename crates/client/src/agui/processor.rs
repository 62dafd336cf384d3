//! What events do to a conversation.
//!
//! One event costs what it brings, however long the conversation is: texts and arguments grow in place. Only what
//! describes everything anew (a snapshot of the messages, the end of a run) looks at everything.

mod patch;
mod snapshot;

use handback_wire::agui::{Body, Event, Interrupt, Outcome, TextRole, TokenUsage};
use serde_json::{Map, Value};

use super::conversation::{
    Activity, Chunk, Conversation, Item, Reasoning, Role, Status, Text, ToolCall, ToolCallStatus, Usage,
};

/// The kind of activity by which some servers tell of tools that they run themselves.
const SERVER_CALL: &str = "skill_tool_call";
/// The code by which a server says that it does not wait for an answer, or no longer.
const UNKNOWN_INTERRUPT: &str = "unknown_interrupt";

/// The conversation after an event.
///
/// It takes what comes: an event that does not fit what came before is passed over, with a warning where something is
/// lost.
pub fn process(mut conversation: Conversation, event: &Event) -> Conversation {
    conversation.apply(event);
    conversation
}

impl Conversation {
    pub(super) fn apply(&mut self, event: &Event) {
        if !goes_on_with_chunks(&event.body) {
            self.close_chunk();
        }
        match &event.body {
            Body::RunStarted { thread_id, .. } => self.run_started(thread_id),
            Body::RunFinished { run_id, outcome, usage, .. } => {
                self.count(usage.as_deref().unwrap_or_default());
                self.run_finished(run_id, outcome.as_ref());
            }
            Body::RunError { message, code, usage } => {
                self.count(usage.as_deref().unwrap_or_default());
                if code.as_deref() == Some(UNKNOWN_INTERRUPT) {
                    self.forget_interrupts();
                }
                self.stop(Status::Failed(message.clone()), "the run failed before the tool was run");
            }
            Body::TextMessageStart { message_id, role, .. } => self.text_started(message_id, role.unwrap_or_default()),
            Body::TextMessageContent { message_id, delta } => self.text_grows(message_id, delta),
            Body::TextMessageEnd { message_id } => self.text_ended(message_id),
            Body::TextMessageChunk { message_id, role, delta, .. } => {
                self.text_chunk(message_id.as_deref(), role.unwrap_or_default(), delta.as_deref().unwrap_or_default());
            }
            Body::ToolCallStart { tool_call_id, tool_call_name, parent_message_id } => {
                self.call_started(tool_call_id, tool_call_name, parent_message_id.clone());
            }
            Body::ToolCallArgs { tool_call_id, delta } => self.arguments_grow(tool_call_id, delta),
            Body::ToolCallEnd { tool_call_id } => self.arguments_ended(tool_call_id),
            Body::ToolCallChunk { tool_call_id, tool_call_name, parent_message_id, delta } => {
                self.call_chunk(tool_call_id.as_deref(), tool_call_name.as_deref(), parent_message_id.clone());
                self.grow_chunk(delta.as_deref().unwrap_or_default());
            }
            Body::ToolCallResult { tool_call_id, content, .. } => self.call_ended(tool_call_id, content.text()),
            Body::StateSnapshot { snapshot } => self.state = snapshot.clone(),
            Body::StateDelta { delta } => {
                if let Err(reason) = patch::apply(&mut self.state, delta) {
                    tracing::warn!(reason, "a change of the state that does not fit it; the state stays as it is");
                }
            }
            Body::MessagesSnapshot { messages } => self.replace_messages(messages),
            Body::ActivitySnapshot { message_id, replace: Some(false), .. }
                if self.places.activities.contains_key(message_id) => {}
            Body::ActivitySnapshot { message_id, activity_type, content, .. } => {
                self.activity_told(message_id, activity_type, content);
            }
            Body::ActivityDelta { message_id, patch, .. } => self.activity_changed(message_id, patch),
            Body::ReasoningStart { .. } | Body::ReasoningMessageStart { .. } => self.thinking(),
            Body::ReasoningMessageContent { delta, .. } => self.thought(delta),
            Body::ReasoningMessageChunk { delta, .. } => {
                self.chunk = Some(Chunk::Reasoning);
                self.thinking();
                self.thought(delta.as_deref().unwrap_or_default());
            }
            Body::ReasoningMessageEnd { .. } | Body::ReasoningEnd { .. } => self.reasoning.is_active = false,
            Body::StepStarted { .. }
            | Body::StepFinished { .. }
            | Body::Raw { .. }
            | Body::Custom { .. }
            | Body::ReasoningEncryptedValue { .. }
            | Body::SubagentStarted { .. }
            | Body::SubagentFinished { .. }
            | Body::SubagentError { .. } => {}
        }
    }

    fn run_started(&mut self, thread_id: &str) {
        if self.thread_id.is_none() {
            self.thread_id = Some(thread_id.to_owned());
        }
        self.found = self.items.len();
        self.activity = Activity::None;
        self.status = Status::Running;
    }

    fn run_finished(&mut self, run_id: &str, outcome: Option<&Outcome>) {
        self.parent_run_id = Some(run_id.to_owned());
        self.fail_calls("incomplete arguments: the run ended before they were complete", |call| {
            call.status == ToolCallStatus::Streaming
        });
        self.streaming = None;
        self.reasoning = Reasoning::default();
        self.activity = Activity::None;
        self.status = Status::Completed;
        match outcome {
            Some(Outcome::Interrupt { interrupts }) => return self.interrupted(interrupts),
            Some(Outcome::Cancelled) => self.stop(Status::Cancelled, "the run was cancelled before the tool was run"),
            Some(Outcome::Success { .. } | Outcome::Other(_)) | None => {}
        }
        self.forget_interrupts();
    }

    fn count(&mut self, told: &[TokenUsage]) {
        for TokenUsage { input_tokens, output_tokens, .. } in told {
            let Usage { input_tokens: read, output_tokens: written } = &mut self.usage;
            *read = read.saturating_add(input_tokens.unwrap_or_default());
            *written = written.saturating_add(output_tokens.unwrap_or_default());
        }
    }

    fn interrupted(&mut self, interrupts: &[Interrupt]) {
        self.interrupts = interrupts.to_vec();
        // Those of this run, and those that waited before it. What is left from runs before waits for nothing.
        let is_new = |id: &String| self.places.calls.get(id).is_some_and(|(item, _)| *item >= self.found);
        let open = self.active_tool_calls().map(|call| call.id.clone());
        self.waiting = open.filter(|id| is_new(id) || self.waiting.contains(id)).collect();
    }

    fn forget_interrupts(&mut self) {
        self.interrupts.clear();
        self.waiting.clear();
    }

    fn text_started(&mut self, id: &str, role: TextRole) {
        self.activity = Activity::Responding;
        let reasoning = std::mem::take(&mut self.reasoning.text);
        let place = self.places.texts.get(id).copied();
        if let Some((place, Item::Text(text))) = place.and_then(|place| Some((place, self.items.get_mut(place)?))) {
            // One of an earlier run is told again, from its beginning; one of this run goes on.
            if place < self.found {
                text.text.clear();
                text.reasoning.clear();
            }
            text.is_cut_off = false;
            text.reasoning.push_str(&reasoning);
            self.streaming = Some(place);
            return;
        }
        self.streaming = Some(self.items.len());
        let role = match role {
            TextRole::User => Role::User,
            TextRole::Assistant => Role::Assistant,
            TextRole::System | TextRole::Developer => Role::System,
        };
        self.push_text(Text { id: id.to_owned(), role, text: String::new(), reasoning, is_cut_off: false });
    }

    /// The text that is being told, if it is this one.
    fn open_text(&mut self, id: &str) -> Option<&mut Text> {
        match self.streaming.and_then(|item| self.items.get_mut(item)) {
            Some(Item::Text(text)) if text.id == id => Some(text),
            _ => None,
        }
    }

    fn text_grows(&mut self, id: &str, delta: &str) {
        match self.open_text(id) {
            Some(text) => text.text.push_str(delta),
            None => tracing::warn!(id, "a part of a text that is not being told; it is dropped"),
        }
    }

    fn text_ended(&mut self, id: &str) {
        if self.open_text(id).is_some() {
            self.streaming = None;
            self.activity = Activity::None;
        }
    }

    fn text_chunk(&mut self, id: Option<&str>, role: TextRole, delta: &str) {
        if !matches!(&self.chunk, Some(Chunk::Text(open)) if id.is_none_or(|id| id == open)) {
            self.close_chunk();
            let Some(id) = id else { return tracing::warn!("a first piece of a text without an id; it is dropped") };
            self.text_started(id, role);
            self.chunk = Some(Chunk::Text(id.to_owned()));
        }
        self.grow_chunk(delta);
    }

    fn call_started(&mut self, id: &str, name: &str, parent_message_id: Option<String>) {
        self.note_calling(name);
        if self.places.calls.contains_key(id) {
            return tracing::debug!(id, "a call that is known already");
        }
        let status = ToolCallStatus::Streaming;
        let call =
            ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new(), status, result: None };
        self.push_call(call, parent_message_id);
    }

    fn arguments_grow(&mut self, id: &str, delta: &str) {
        match self.call_mut(id) {
            Some(call) if call.status == ToolCallStatus::Streaming => call.arguments.push_str(delta),
            Some(_) => tracing::debug!(id, "arguments of a call that has all of them; they are dropped"),
            None => tracing::warn!(id, "arguments of a call that is not known; they are dropped"),
        }
    }

    fn arguments_ended(&mut self, id: &str) {
        match self.call_mut(id) {
            Some(call) if call.status == ToolCallStatus::Streaming => call.status = ToolCallStatus::Pending,
            Some(_) => {}
            None => tracing::warn!(id, "the end of a call that is not known"),
        }
    }

    fn call_ended(&mut self, id: &str, content: String) {
        match self.call_mut(id) {
            Some(call) if call.is_active() => call.end(Ok(content)),
            Some(_) => tracing::debug!(id, "a result of a call that has one, or that is run here; it is dropped"),
            None => tracing::warn!(id, "a result of a call that is not known; it is dropped"),
        }
    }

    fn call_chunk(&mut self, id: Option<&str>, name: Option<&str>, parent_message_id: Option<String>) {
        if matches!(&self.chunk, Some(Chunk::Call(open)) if id.is_none_or(|id| id == open)) {
            return;
        }
        self.close_chunk();
        let (Some(id), Some(name)) = (id, name) else {
            return tracing::warn!("a first piece of a call without an id or a name; it is dropped");
        };
        self.call_started(id, name, parent_message_id);
        self.chunk = Some(Chunk::Call(id.to_owned()));
    }

    fn grow_chunk(&mut self, delta: &str) {
        // Taken and put back: what grows is looked up by the id that the chunk has.
        let chunk = self.chunk.take();
        match &chunk {
            Some(Chunk::Text(id)) => self.text_grows(id, delta),
            Some(Chunk::Call(id)) => self.arguments_grow(id, delta),
            Some(Chunk::Reasoning) | None => {}
        }
        self.chunk = chunk;
    }

    fn close_chunk(&mut self) {
        match self.chunk.take() {
            Some(Chunk::Text(id)) => self.text_ended(&id),
            Some(Chunk::Call(id)) => self.arguments_ended(&id),
            Some(Chunk::Reasoning) => self.reasoning.is_active = false,
            None => {}
        }
    }

    fn thinking(&mut self) {
        self.reasoning.is_active = true;
        self.activity = Activity::Thinking;
    }

    fn thought(&mut self, delta: &str) {
        match self.streaming.and_then(|item| self.items.get_mut(item)) {
            Some(Item::Text(text)) => text.reasoning.push_str(delta),
            _ => self.reasoning.text.push_str(delta),
        }
    }

    fn activity_told(&mut self, id: &str, kind: &str, content: &Map<String, Value>) {
        if kind.is_empty() {
            return tracing::warn!(id, "an activity without a type; it is dropped");
        }
        if kind == SERVER_CALL
            && let Some(name) = content.get("tool_name").and_then(Value::as_str)
        {
            self.note_calling(name);
        }
        let told = Item::Activity { id: id.to_owned(), kind: kind.to_owned(), content: content.clone() };
        match self.places.activities.get(id).and_then(|place| self.items.get_mut(*place)) {
            Some(item) => *item = told,
            None => {
                self.places.activities.insert(id.to_owned(), self.items.len());
                self.items.push(told);
            }
        }
    }

    fn activity_changed(&mut self, id: &str, operations: &[Value]) {
        let place = self.places.activities.get(id);
        let Some(Item::Activity { content, .. }) = place.and_then(|place| self.items.get_mut(*place)) else {
            return tracing::warn!(id, "a change of an activity that is not known; it is dropped");
        };
        // An activity is an object, and only what is put in its place as a whole could be something else.
        if operations.iter().any(|operation| operation.get("path").and_then(Value::as_str) == Some("")) {
            return tracing::warn!(id, "a change of an activity as a whole; it is dropped");
        }
        let mut changed = Value::Object(std::mem::take(content));
        if let Err(reason) = patch::apply(&mut changed, operations) {
            tracing::warn!(id, reason, "a change of an activity that does not fit it; it stays as it is");
        }
        if let Value::Object(changed) = changed {
            *content = changed;
        }
    }
}

/// Whether what is told in chunks may go on after an event; all others end it.
fn goes_on_with_chunks(body: &Body) -> bool {
    matches!(
        body,
        Body::TextMessageChunk { .. }
            | Body::ToolCallChunk { .. }
            | Body::ReasoningMessageChunk { .. }
            | Body::Raw { .. }
            | Body::ActivitySnapshot { .. }
            | Body::ActivityDelta { .. }
            | Body::ReasoningEncryptedValue { .. }
            | Body::SubagentStarted { .. }
    )
}

#[cfg(test)]
mod tests;
