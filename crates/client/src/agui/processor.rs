//! Applies events to a conversation.
//!
//! The cost of an event does not depend on the length of the conversation: texts and arguments grow in place. Only a
//! snapshot of the messages and the end of a run look at everything.

mod patch;
mod snapshot;

use handback_wire::agui::{Body, Event, Interrupt, Outcome, TextRole, TokenUsage};
use serde_json::{Map, Value};

use super::conversation::{
    Activity, Chunk, Conversation, ConversationStatus, Item, Role, Text, ToolCall, ToolCallStatus, Usage,
};

/// The type of activity by which some servers report the tools that they run themselves.
const SERVER_CALL: &str = "skill_tool_call";
/// The code of a run error that says that the server does not wait for these answers.
const UNKNOWN_INTERRUPT: &str = "unknown_interrupt";

/// Returns the conversation after an event. An event that does not fit the earlier ones is ignored, with a warning if
/// something is lost.
pub fn process(mut conversation: Conversation, event: &Event) -> Conversation {
    conversation.apply(event);
    conversation
}

impl Conversation {
    pub(super) fn apply(&mut self, event: &Event) {
        if !continues_chunks(&event.body) {
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
                self.stop(ConversationStatus::Failed(message.clone()), "the run failed before the tool was run");
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
            Body::ToolCallResult { tool_call_id, content, .. } => self.call_ended(tool_call_id, Ok(content.text())),
            Body::StateSnapshot { snapshot } => self.state.0 = snapshot.clone(),
            Body::StateDelta { delta } => {
                if let Err(reason) = patch::apply(&mut self.state.0, delta) {
                    tracing::warn!(reason, "a change of the state that does not fit it; the state stays as it is");
                }
            }
            Body::MessagesSnapshot { messages } => self.replace_messages(messages),
            Body::ActivitySnapshot { message_id, replace: Some(false), .. }
                if self.positions.activities.contains_key(message_id) => {}
            Body::ActivitySnapshot { message_id, activity_type, content, .. } => {
                self.set_activity(message_id, activity_type, content);
            }
            Body::ActivityDelta { message_id, patch, .. } => self.patch_activity(message_id, patch),
            Body::ReasoningStart { .. } | Body::ReasoningMessageStart { .. } => self.thinking(),
            Body::ReasoningMessageContent { delta, .. } => self.thought(delta),
            Body::ReasoningMessageChunk { delta, .. } => {
                self.chunk = Some(Chunk::Reasoning);
                self.thinking();
                self.thought(delta.as_deref().unwrap_or_default());
            }
            Body::ReasoningMessageEnd { .. } | Body::ReasoningEnd { .. } => self.is_thinking = false,
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
        self.run_start = self.items.len();
        self.activity = Activity::None;
        self.status = ConversationStatus::Running;
    }

    fn run_finished(&mut self, run_id: &str, outcome: Option<&Outcome>) {
        self.parent_run_id = Some(run_id.to_owned());
        self.fail_calls("incomplete arguments: the run ended before they were complete", |call| {
            call.status == ToolCallStatus::Streaming
        });
        self.streaming = None;
        self.end_activity();
        self.status = ConversationStatus::Completed;
        match outcome {
            Some(Outcome::Interrupt { interrupts }) => return self.interrupted(interrupts),
            Some(Outcome::Cancelled) => {
                self.stop(ConversationStatus::Cancelled, "the run was cancelled before the tool was run")
            }
            Some(Outcome::Success { .. } | Outcome::Other(_)) | None => {}
        }
        self.forget_interrupts();
    }

    fn count(&mut self, usage: &[TokenUsage]) {
        for TokenUsage { input_tokens, output_tokens, .. } in usage {
            let Usage { input_tokens: read, output_tokens: written } = &mut self.usage;
            *read = read.saturating_add(input_tokens.unwrap_or_default());
            *written = written.saturating_add(output_tokens.unwrap_or_default());
        }
    }

    fn interrupted(&mut self, interrupts: &[Interrupt]) {
        self.interrupts = interrupts.to_vec();
        // The open calls of this run wait for the answers, and so do those that waited before it.
        let is_new = |id: &String| self.positions.calls.get(id).is_some_and(|(item, _)| *item >= self.run_start);
        let open = self.active_tool_calls().map(|call| call.id.clone());
        self.waiting = open.filter(|id| is_new(id) || self.waiting.contains(id)).collect();
    }

    fn forget_interrupts(&mut self) {
        self.interrupts.clear();
        self.waiting.clear();
    }

    fn text_started(&mut self, id: &str, role: TextRole) {
        self.activity = Activity::Responding;
        let reasoning = std::mem::take(&mut self.reasoning);
        let position = self.positions.texts.get(id).copied();
        let known = position.and_then(|position| self.items.get_mut(position));
        if let (Some(position), Some(Item::Text(text))) = (position, known) {
            // A text of an earlier run is replayed from its beginning; a text of this run continues.
            if position < self.run_start {
                text.text.clear();
                text.reasoning.clear();
            }
            text.is_cut_off = false;
            text.reasoning.push_str(&reasoning);
            self.streaming = Some(position);
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

    /// The text that is streaming, if it is this one.
    fn open_text(&mut self, id: &str) -> Option<&mut Text> {
        match self.streaming.and_then(|item| self.items.get_mut(item)) {
            Some(Item::Text(text)) if text.id == id => Some(text),
            _ => None,
        }
    }

    fn text_grows(&mut self, id: &str, delta: &str) {
        match self.open_text(id) {
            Some(text) => text.text.push_str(delta),
            None => tracing::warn!(id, "a part of a text that is not streaming; it is dropped"),
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
        if self.positions.calls.contains_key(id) {
            return tracing::debug!(id, "a call that is known already");
        }
        let status = ToolCallStatus::Streaming;
        let call =
            ToolCall { id: id.to_owned(), name: name.to_owned(), arguments: String::new(), status, result: None };
        self.push_call(call, parent_message_id);
    }

    fn arguments_grow(&mut self, id: &str, delta: &str) {
        if let Some(call) = self.known_call(id).filter(|call| call.status == ToolCallStatus::Streaming) {
            call.arguments.push_str(delta);
        }
    }

    fn arguments_ended(&mut self, id: &str) {
        if let Some(call) = self.known_call(id).filter(|call| call.status == ToolCallStatus::Streaming) {
            call.status = ToolCallStatus::Pending;
        }
    }

    /// Takes a result from the server. The result of a call that runs here is ignored, because it comes from here.
    fn call_ended(&mut self, id: &str, result: Result<String, String>) {
        if let Some(call) = self.known_call(id).filter(|call| call.is_active()) {
            call.end(result);
        }
    }

    fn known_call(&mut self, id: &str) -> Option<&mut ToolCall> {
        let call = self.call_mut(id);
        if call.is_none() {
            tracing::warn!(id, "an event of a call that is not known; it is dropped");
        }
        call
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
        // The chunk is taken out for a moment, so that its id can be borrowed while the conversation changes.
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
            Some(Chunk::Reasoning) => self.is_thinking = false,
            None => {}
        }
    }

    fn thinking(&mut self) {
        self.is_thinking = true;
        self.activity = Activity::Thinking;
    }

    fn thought(&mut self, delta: &str) {
        match self.streaming.and_then(|item| self.items.get_mut(item)) {
            Some(Item::Text(text)) => text.reasoning.push_str(delta),
            _ => self.reasoning.push_str(delta),
        }
    }

    fn set_activity(&mut self, id: &str, kind: &str, content: &Map<String, Value>) {
        if kind.is_empty() {
            return tracing::warn!(id, "an activity without a type; it is dropped");
        }
        if kind == SERVER_CALL
            && let Some(name) = content.get("tool_name").and_then(Value::as_str)
        {
            self.note_calling(name);
        }
        let activity = Item::Activity { id: id.to_owned(), kind: kind.to_owned(), content: content.clone() };
        match self.positions.activities.get(id).and_then(|position| self.items.get_mut(*position)) {
            Some(item) => *item = activity,
            None => {
                self.positions.activities.insert(id.to_owned(), self.items.len());
                self.items.push(activity);
            }
        }
    }

    fn patch_activity(&mut self, id: &str, operations: &[Value]) {
        let position = self.positions.activities.get(id);
        let Some(Item::Activity { content, .. }) = position.and_then(|position| self.items.get_mut(*position)) else {
            return tracing::warn!(id, "a change of an activity that is not known; it is dropped");
        };
        // An activity stays an object: only a patch of the whole could make it something else.
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

/// Whether chunks may continue after an event; all other events end what the chunks build.
fn continues_chunks(body: &Body) -> bool {
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
