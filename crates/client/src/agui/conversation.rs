//! A conversation with an agent, as a front end shows it.

use std::collections::{HashMap, HashSet};

use handback_wire::agui::{Interrupt, Message};
use serde_json::{Map, Value};

use super::new_id;

/// How many names of tools [`Activity::CallingTools`] lists; more are not listed.
const MOST_NAMES: usize = 64;
/// How much is kept of the reason why an event could not be read, in bytes; the rest is cut off.
const LONGEST_REASON: usize = 512;
/// How many [`Item::Undecodable`] there are; more events that cannot be read are counted with the last of them.
const MOST_UNDECODABLE: usize = 100;

/// A conversation: what was said and done, in order, and what goes on right now.
///
/// It is changed by [`process`](super::process), which takes the events of runs, and by [`Conversation::say`]. A call
/// of a tool moves forward only: streaming, pending, executing, and then completed or failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Conversation {
    pub(super) thread_id: Option<String>,
    pub(super) parent_run_id: Option<String>,
    pub(super) status: Status,
    pub(super) items: Vec<Item>,
    pub(super) state: Value,
    pub(super) activity: Activity,
    pub(super) interrupts: Vec<Interrupt>,
    /// The calls that were open when the agent asked for what is in `interrupts`: they go on when that is answered.
    pub(super) waiting: HashSet<String>,
    pub(super) places: Places,
    /// The text that grows: the item that it is.
    pub(super) streaming: Option<usize>,
    pub(super) reasoning: Reasoning,
    /// What is told in chunks, which have no end of their own.
    pub(super) chunk: Option<Chunk>,
    /// The items that the latest run found.
    pub(super) found: usize,
    pub(super) usage: Usage,
}

/// How many tokens runs took, as far as their agent says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Usage {
    /// Read, also from a cache.
    pub input_tokens: u64,
    /// Written, also while thinking.
    pub output_tokens: u64,
}

/// Where calls, texts and activities are among the items, by their ids, and what could not be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    /// The item, and which of its calls.
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

/// What the model thinks, until it belongs to a text or to calls.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reasoning {
    pub(super) is_active: bool,
    pub(super) text: String,
}

/// Where a conversation stands, by the events of its latest run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Status {
    /// Nothing has been run yet.
    #[default]
    Idle,
    /// A run goes on.
    Running,
    /// The run is over.
    Completed,
    /// The run failed, and why.
    Failed(String),
    /// Somebody stopped the run.
    Cancelled,
}

/// What goes on right now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activity {
    /// Nothing, or nothing that can be told.
    #[default]
    None,
    /// The model thinks.
    Thinking,
    /// The agent writes.
    Responding,
    /// Tools are called: their names, each once, in the order in which they were first called.
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
    /// Something that goes on and is no part of the conversation.
    Activity {
        /// Its id.
        id: String,
        /// What kind it is.
        kind: String,
        /// What is to be known of it.
        content: Map<String, Value>,
    },
    /// A message that is passed on as it is: one with images, or of a kind that is not known here.
    Message(Message),
    /// Events in a row that could not be read. The run goes on without them.
    Undecodable {
        /// What type of event the first said that it is.
        kind: String,
        /// What is wrong with it.
        reason: String,
        /// How many they are.
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
    /// What is said; it grows while it is [streaming](Conversation::streaming_text).
    pub text: String,
    /// What the model thought before and meanwhile.
    pub reasoning: String,
    /// The run failed or was stopped in the middle of it.
    pub is_cut_off: bool,
}

/// Calls that were made together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ToolCallGroup {
    /// The message that they belong to.
    pub parent_message_id: Option<String>,
    /// What the model thought before.
    pub reasoning: String,
    /// They.
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
    /// How far it is.
    pub status: ToolCallStatus,
    /// What came of it: the result, or the error if it failed.
    pub result: Option<String>,
}

/// How far a call is. It moves in this order only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ToolCallStatus {
    /// Its arguments are being received.
    Streaming,
    /// Its arguments are complete.
    Pending,
    /// This front end runs it.
    Executing,
    /// It is done.
    Completed,
    /// It failed, or was not run at all.
    Failed,
}

impl ToolCall {
    /// Whether it has come to an end.
    pub fn is_over(&self) -> bool {
        matches!(self.status, ToolCallStatus::Completed | ToolCallStatus::Failed)
    }

    /// Whether the server still describes it, or nobody has begun to run it.
    pub fn is_active(&self) -> bool {
        matches!(self.status, ToolCallStatus::Streaming | ToolCallStatus::Pending)
    }

    /// Ends it, unless it is over.
    pub(super) fn end(&mut self, result: Result<String, String>) {
        if self.is_over() {
            return;
        }
        (self.status, self.result) = match result {
            Ok(result) => (ToolCallStatus::Completed, Some(result)),
            Err(error) => (ToolCallStatus::Failed, Some(error)),
        };
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            thread_id: None,
            parent_run_id: None,
            status: Status::Idle,
            items: Vec::new(),
            state: Value::Object(Map::new()),
            activity: Activity::None,
            interrupts: Vec::new(),
            waiting: HashSet::new(),
            places: Places::default(),
            streaming: None,
            reasoning: Reasoning::default(),
            chunk: None,
            found: 0,
            usage: Usage::default(),
        }
    }
}

impl Conversation {
    /// A conversation in a thread that has this id. One without an id, [`Conversation::default`], gets it from its
    /// first run.
    pub fn in_thread(thread_id: impl Into<String>) -> Self {
        Self { thread_id: Some(thread_id.into()), ..Self::default() }
    }

    /// The thread that it is; `None` before its first run, unless it was given one.
    pub fn thread_id(&self) -> Option<&str> {
        self.thread_id.as_deref()
    }

    /// The run that finished last: the one that the next goes on from.
    pub fn parent_run_id(&self) -> Option<&str> {
        self.parent_run_id.as_deref()
    }

    /// Where it stands.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// What was said and done, in order.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The state that application and agent share; an empty object at first.
    pub fn state(&self) -> &Value {
        &self.state
    }

    /// What goes on right now.
    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The text that grows right now.
    pub fn streaming_text(&self) -> Option<&Text> {
        match self.items.get(self.streaming?)? {
            Item::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether the model thinks right now.
    pub fn is_thinking(&self) -> bool {
        self.reasoning.is_active
    }

    /// What the model thinks that belongs to no text and to no call yet.
    pub fn reasoning(&self) -> &str {
        &self.reasoning.text
    }

    /// What the agent must know before it goes on, until a run finishes without asking; see
    /// [`Run::resume`](super::Run::resume).
    pub fn interrupts(&self) -> &[Interrupt] {
        &self.interrupts
    }

    /// What all runs of the conversation took.
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

    /// The calls that the server still describes, or that nobody has begun to run: streaming or pending.
    pub fn active_tool_calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.tool_calls().filter(|call| call.is_active())
    }

    /// A call by its id.
    pub fn tool_call(&self, id: &str) -> Option<&ToolCall> {
        let &(item, call) = self.places.calls.get(id)?;
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

    /// Whether a call waits for what the agent must know.
    pub(super) fn is_waiting(&self, call_id: &str) -> bool {
        self.waiting.contains(call_id)
    }

    /// Notes that there was an event that could not be read.
    pub(super) fn note_undecodable(&mut self, kind: &str, reason: &str) {
        let cut = |text: &str| text[..text.floor_char_boundary(LONGEST_REASON)].to_owned();
        let kind = cut(kind);
        let last = self.places.undecodable.last().copied();
        let (is_latest, is_full) =
            (last == self.items.len().checked_sub(1), self.places.undecodable.len() >= MOST_UNDECODABLE);
        if let Some(Item::Undecodable { kind: known, count, .. }) = last.and_then(|last| self.items.get_mut(last))
            && (is_full || (is_latest && *known == kind))
        {
            *count += 1;
            return;
        }
        self.places.undecodable.push(self.items.len());
        self.items.push(Item::Undecodable { kind, reason: cut(reason), count: 1 });
    }

    pub(super) fn push_text(&mut self, text: Text) {
        self.places.texts.insert(text.id.clone(), self.items.len());
        self.items.push(Item::Text(text));
    }

    /// Adds a call to those that were made together with it.
    pub(super) fn push_call(&mut self, call: ToolCall, parent_message_id: Option<String>) {
        let last = self.items.len().checked_sub(1);
        let joins = match self.items.last() {
            // Without a message that they belong to: calls after a result were made after it.
            Some(Item::ToolCalls(group)) => {
                group.parent_message_id == parent_message_id
                    && (parent_message_id.is_some() || !group.calls.iter().any(ToolCall::is_over))
            }
            _ => false,
        };
        let item = match last {
            // Calls of different runs were not made together.
            Some(last) if joins && last >= self.found => last,
            _ => {
                let reasoning = std::mem::take(&mut self.reasoning.text);
                self.items.push(Item::ToolCalls(ToolCallGroup { parent_message_id, reasoning, calls: Vec::new() }));
                self.items.len() - 1
            }
        };
        if let Some(Item::ToolCalls(group)) = self.items.get_mut(item) {
            self.places.calls.insert(call.id.clone(), (item, group.calls.len()));
            group.calls.push(call);
        }
    }

    pub(super) fn call_mut(&mut self, id: &str) -> Option<&mut ToolCall> {
        let &(item, call) = self.places.calls.get(id)?;
        match self.items.get_mut(item)? {
            Item::ToolCalls(group) => group.calls.get_mut(call),
            _ => None,
        }
    }

    /// Notes that this front end runs a call. Only one that is pending can be run.
    pub(super) fn begin_call(&mut self, id: &str) {
        let Some(call) = self.call_mut(id).filter(|call| call.status == ToolCallStatus::Pending) else { return };
        call.status = ToolCallStatus::Executing;
        let name = call.name.clone();
        self.note_calling(&name);
    }

    /// Notes what came of a call.
    pub(super) fn end_call(&mut self, id: &str, result: Result<String, String>) {
        if let Some(call) = self.call_mut(id) {
            call.end(result);
        }
    }

    /// Ends all calls that are open and of which `is_meant` says so.
    pub(super) fn fail_calls(&mut self, error: &str, is_meant: impl Fn(&ToolCall) -> bool) {
        for item in &mut self.items {
            let Item::ToolCalls(group) = item else { continue };
            for call in group.calls.iter_mut().filter(|call| !call.is_over() && is_meant(call)) {
                call.end(Err(error.to_owned()));
            }
        }
    }

    /// Notes that a tool is being called.
    pub(super) fn note_calling(&mut self, name: &str) {
        if let Activity::CallingTools(names) = &mut self.activity {
            if names.len() < MOST_NAMES && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        } else {
            self.activity = Activity::CallingTools(vec![name.to_owned()]);
        }
    }

    /// The text that was being told is as complete as it will ever be.
    pub(super) fn cut_off_text(&mut self) {
        if let Some(Item::Text(text)) = self.streaming.take().and_then(|item| self.items.get_mut(item)) {
            text.is_cut_off = true;
        }
    }

    /// Ends the run that went on, in the middle of whatever it did.
    pub(super) fn stop(&mut self, status: Status, open_calls: &str) {
        if let Status::Failed(message) = &status {
            self.items.push(Item::Error { message: message.clone() });
            // What waits for answers waits on: they may not have arrived, and can be given again.
            let waiting = std::mem::take(&mut self.waiting);
            self.fail_calls(open_calls, |call| !waiting.contains(&call.id));
            self.waiting = waiting;
        } else {
            self.fail_calls(open_calls, |_| true);
        }
        self.leave();
        self.status = status;
    }

    /// Leaves a run behind that was dropped in the middle of whatever it did; one that came to its end left nothing.
    pub(super) fn abandon(&mut self, open_calls: &str) {
        let begun = [ToolCallStatus::Streaming, ToolCallStatus::Executing];
        self.fail_calls(open_calls, |call| begun.contains(&call.status));
        self.leave();
    }

    /// What was being told is as complete as it will ever be.
    fn leave(&mut self) {
        self.cut_off_text();
        self.chunk = None;
        self.reasoning = Reasoning::default();
        self.activity = Activity::None;
    }
}
