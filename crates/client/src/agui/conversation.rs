//! A conversation with an agent, as a front end shows it.

use std::collections::{HashMap, HashSet};

use handback_wire::agui::{Interrupt, Message};
use serde_json::{Map, Value};

use super::new_id;

/// How many names of tools [`Activity::CallingTools`] lists; more are left out.
const MAX_NAMES: usize = 64;
/// How many bytes are kept of the reason why an event could not be read; the rest is cut off.
const MAX_REASON_BYTES: usize = 512;
/// How many [`Item::Undecodable`] a conversation has; the last of them counts any further events.
const MAX_UNDECODABLE: usize = 100;

/// A conversation: everything that was said and done, and the current activity.
///
/// [`process`](super::process) changes it by the events of runs, and [`Conversation::say`] by what the user says. The
/// status of a tool call moves forward only: streaming, pending, executing, and then completed or failed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Conversation {
    pub(super) thread_id: Option<String>,
    pub(super) parent_run_id: Option<String>,
    pub(super) status: ConversationStatus,
    pub(super) items: Vec<Item>,
    pub(super) state: SharedState,
    pub(super) activity: Activity,
    pub(super) interrupts: Vec<Interrupt>,
    /// The calls that were open when the agent interrupted. They continue when the interrupts are answered.
    pub(super) waiting: HashSet<String>,
    pub(super) positions: Positions,
    /// The position of the text that grows.
    pub(super) streaming: Option<usize>,
    pub(super) is_thinking: bool,
    /// Reasoning that belongs to no item yet.
    pub(super) reasoning: String,
    /// The text, call or reasoning that comes in chunks, which have no end event.
    pub(super) chunk: Option<Chunk>,
    /// The position of the first item of the latest run.
    pub(super) run_start: usize,
    pub(super) usage: Usage,
}

/// The state that application and agent share; an empty object at first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SharedState(pub(super) Value);

/// The tokens that runs used, as reported by their agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Tokens read, including those from a cache.
    pub input_tokens: u64,
    /// Tokens written, including reasoning.
    pub output_tokens: u64,
}

/// The positions of items, by id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Positions {
    /// The position of the group, and that of the call in it.
    pub(super) calls: HashMap<String, (usize, usize)>,
    pub(super) texts: HashMap<String, usize>,
    pub(super) activities: HashMap<String, usize>,
    pub(super) undecodable: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Chunk {
    Text(String),
    Call(String),
    Reasoning,
}

/// The status of a conversation, from the events of its latest run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConversationStatus {
    /// There was no run yet.
    #[default]
    Idle,
    /// A run is under way.
    Running,
    /// The run is over.
    Completed,
    /// The run failed, for this reason.
    Failed(String),
    /// The run was cancelled.
    Cancelled,
}

/// The current activity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// No known activity.
    #[default]
    None,
    /// The model reasons.
    Thinking,
    /// The agent writes.
    Responding,
    /// Tools are called: each name once, in the order of the first calls.
    CallingTools(Vec<String>),
}

/// Something that was said or done.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Item {
    /// A text.
    Text(Text),
    /// Calls that were made together.
    ToolCalls(ToolCallGroup),
    /// Progress that the agent reports besides the conversation.
    Activity {
        /// Its id.
        id: String,
        /// Its type.
        kind: String,
        /// Its details.
        content: Map<String, Value>,
    },
    /// A message that is kept as it is: one with images, or of an unknown kind.
    Message(Message),
    /// Events in a row that could not be read. The run goes on without them.
    Undecodable {
        /// The type that the first event names.
        kind: String,
        /// What is wrong with the first event.
        reason: String,
        /// How many events there are.
        count: u64,
    },
    /// A run failed.
    Error {
        /// Why.
        message: String,
    },
}

/// Who says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the roles are named by the protocol")]
#[non_exhaustive]
pub enum Role {
    User,
    Assistant,
    System,
}

/// A text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Text {
    /// Its id.
    pub id: String,
    /// Who says it.
    pub role: Role,
    /// The text, which grows while it is [streaming](Conversation::streaming_text).
    pub text: String,
    /// The model's reasoning before and during the text.
    pub reasoning: String,
    /// Whether the run failed or was stopped before the text was complete.
    pub is_cut_off: bool,
}

/// Calls that were made together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCallGroup {
    /// The message that the calls belong to.
    pub parent_message_id: Option<String>,
    /// The model's reasoning before the calls.
    pub reasoning: String,
    /// The calls.
    pub calls: Vec<ToolCall>,
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCall {
    /// Its id.
    pub id: String,
    /// The tool, as the model calls it.
    pub name: String,
    /// The arguments so far: JSON, as text.
    pub arguments: String,
    /// The status of the call.
    pub status: ToolCallStatus,
    /// The result, or the error if the call failed.
    pub result: Option<String>,
}

/// The status of a call. It changes only in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolCallStatus {
    /// Its arguments are being received.
    Streaming,
    /// Its arguments are complete.
    Pending,
    /// This front end runs it.
    Executing,
    /// It has a result.
    Completed,
    /// It failed or was never run.
    Failed,
}

impl ToolCall {
    /// Whether the call has ended.
    pub fn is_over(&self) -> bool {
        matches!(self.status, ToolCallStatus::Completed | ToolCallStatus::Failed)
    }

    /// Whether the call is streaming or pending: nobody has begun to run it.
    pub fn is_active(&self) -> bool {
        matches!(self.status, ToolCallStatus::Streaming | ToolCallStatus::Pending)
    }

    /// Ends the call, unless it is over.
    pub(super) fn end(&mut self, result: Result<String, String>) {
        if !self.is_over() {
            self.status = if result.is_ok() { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
            self.result = Some(result.unwrap_or_else(|error| error));
        }
    }
}

impl Default for SharedState {
    fn default() -> Self {
        Self(Value::Object(Map::new()))
    }
}

impl Conversation {
    /// A conversation in the thread with this id. [`Conversation::default`] gets an id from its first run.
    pub fn in_thread(thread_id: impl Into<String>) -> Self {
        Self { thread_id: Some(thread_id.into()), ..Self::default() }
    }

    /// The id of the thread; `None` before the first run, unless it was given.
    pub fn thread_id(&self) -> Option<&str> {
        self.thread_id.as_deref()
    }

    /// The run that finished last, which the next one continues.
    pub fn parent_run_id(&self) -> Option<&str> {
        self.parent_run_id.as_deref()
    }

    /// The status.
    pub fn status(&self) -> &ConversationStatus {
        &self.status
    }

    /// Everything that was said and done, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The state that application and agent share; an empty object at first.
    pub fn state(&self) -> &Value {
        &self.state.0
    }

    /// The current activity.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The text that is growing.
    pub fn streaming_text(&self) -> Option<&Text> {
        match self.items.get(self.streaming?)? {
            Item::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the model is reasoning.
    pub fn is_thinking(&self) -> bool {
        self.is_thinking
    }

    /// Reasoning that belongs to no text or call yet.
    pub fn reasoning(&self) -> &str {
        &self.reasoning
    }

    /// The interrupts of the latest run that finished: see [`Run::resume`](super::Run::resume).
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// The tokens that all runs of the conversation used.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// All calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.items.iter().flat_map(|item| match item {
            Item::ToolCalls(group) => group.calls.as_slice(),
            _ => &[],
        })
    }

    /// The calls that are [active](ToolCall::is_active).
    pub fn active_tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.tool_calls().filter(|call| call.is_active())
    }

    /// A call by its id.
    pub fn tool_call(&self, id: &str) -> Option<&ToolCall> {
        let &(item, call) = self.positions.calls.get(id)?;
        match self.items.get(item)? {
            Item::ToolCalls(group) => group.calls.get(call),
            _ => None,
        }
    }

    /// Adds what the user says.
    pub fn say(&mut self, text: impl Into<String>) {
        self.add(Role::User, text);
    }

    /// Adds a text: instructions, or what was said elsewhere.
    pub fn add(&mut self, role: Role, text: impl Into<String>) {
        let text = Text { id: new_id("msg"), role, text: text.into(), reasoning: String::new(), is_cut_off: false };
        self.push_text(text);
    }

    /// Adds a message as it is, such as one of the user's with images.
    pub fn add_message(&mut self, message: Message) {
        self.items.push(Item::Message(message));
    }

    /// Adds an event that could not be read.
    pub(super) fn note_undecodable(&mut self, kind: &str, reason: &str) {
        let cut = |text: &str| text[..text.floor_char_boundary(MAX_REASON_BYTES)].to_owned();
        let kind = cut(kind);
        let last = self.positions.undecodable.last().copied();
        let is_newest = last == self.items.len().checked_sub(1);
        let is_full = self.positions.undecodable.len() >= MAX_UNDECODABLE;
        if let Some(Item::Undecodable { kind: known, count, .. }) = last.and_then(|last| self.items.get_mut(last))
            && (is_full || (is_newest && *known == kind))
        {
            *count += 1;
            return;
        }
        self.positions.undecodable.push(self.items.len());
        self.items.push(Item::Undecodable { kind, reason: cut(reason), count: 1 });
    }

    pub(super) fn push_text(&mut self, text: Text) {
        self.positions.texts.insert(text.id.clone(), self.items.len());
        self.items.push(Item::Text(text));
    }

    /// Adds a call to the last group if both were made together, or else to a new group.
    pub(super) fn push_call(&mut self, call: ToolCall, parent_message_id: Option<String>) {
        // Calls of different runs were not made together. Without a parent message, neither were a call and an earlier
        // one that has its result.
        let joins = match self.items.last() {
            Some(Item::ToolCalls(group)) if self.items.len() > self.run_start => {
                group.parent_message_id == parent_message_id
                    && (parent_message_id.is_some() || !group.calls.iter().any(ToolCall::is_over))
            }
            _ => false,
        };
        if !joins {
            let reasoning = std::mem::take(&mut self.reasoning);
            self.items.push(Item::ToolCalls(ToolCallGroup { parent_message_id, reasoning, calls: Vec::new() }));
        }
        let position = self.items.len() - 1;
        if let Some(Item::ToolCalls(group)) = self.items.last_mut() {
            self.positions.calls.insert(call.id.clone(), (position, group.calls.len()));
            group.calls.push(call);
        }
    }

    pub(super) fn call_mut(&mut self, id: &str) -> Option<&mut ToolCall> {
        let &(item, call) = self.positions.calls.get(id)?;
        match self.items.get_mut(item)? {
            Item::ToolCalls(group) => group.calls.get_mut(call),
            _ => None,
        }
    }

    /// Marks a pending call as run by this front end.
    pub(super) fn begin_call(&mut self, id: &str) {
        let Some(call) = self.call_mut(id).filter(|call| call.status == ToolCallStatus::Pending) else { return };
        call.status = ToolCallStatus::Executing;
        let name = call.name.clone();
        self.note_calling(&name);
    }

    /// Ends a call, unless it is over.
    pub(super) fn end_call(&mut self, id: &str, result: Result<String, String>) {
        if let Some(call) = self.call_mut(id) {
            call.end(result);
        }
    }

    /// Fails the open calls that match `is_meant`.
    pub(super) fn fail_calls(&mut self, error: &str, is_meant: impl Fn(&ToolCall) -> bool) {
        for item in &mut self.items {
            let Item::ToolCalls(group) = item else { continue };
            for call in group.calls.iter_mut().filter(|call| is_meant(call)) {
                call.end(Err(error.to_owned()));
            }
        }
    }

    /// Adds a tool to the activity.
    pub(super) fn note_calling(&mut self, name: &str) {
        if let Activity::CallingTools(names) = &mut self.activity {
            if names.len() < MAX_NAMES && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        } else {
            self.activity = Activity::CallingTools(vec![name.to_owned()]);
        }
    }

    /// Ends a run that failed or was cancelled; its open calls fail with this error.
    pub(super) fn stop(&mut self, status: ConversationStatus, error: &str) {
        if let ConversationStatus::Failed(message) = &status {
            self.items.push(Item::Error { message: message.clone() });
            // Calls that wait for answers stay open: the answers may not have arrived, and can be sent again.
            let waiting = std::mem::take(&mut self.waiting);
            self.fail_calls(error, |call| !waiting.contains(&call.id));
            self.waiting = waiting;
        } else {
            self.fail_calls(error, |_| true);
        }
        self.cut_off();
        self.status = status;
    }

    /// Ends a run that was dropped; the calls that it had begun fail with this error. If the run has ended, this does
    /// nothing.
    pub(super) fn abandon(&mut self, error: &str) {
        self.fail_calls(error, |call| matches!(call.status, ToolCallStatus::Streaming | ToolCallStatus::Executing));
        self.cut_off();
    }

    /// Cuts off everything that was streaming.
    fn cut_off(&mut self) {
        if let Some(Item::Text(text)) = self.streaming.take().and_then(|item| self.items.get_mut(item)) {
            text.is_cut_off = true;
        }
        self.chunk = None;
        self.end_activity();
    }

    /// Ends the current activity.
    pub(super) fn end_activity(&mut self) {
        self.is_thinking = false;
        self.reasoning.clear();
        self.activity = Activity::None;
    }
}
