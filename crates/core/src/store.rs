//! Stored values (calls, tools, asks, sessions, messages, runs), the traits of stores, and the store in memory.

mod ask;
mod call;
mod listing;
mod memory;
mod message;
mod quota;
mod run;
mod session;
mod tool;
mod user_message;
pub mod weight;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::id::{ClientId, MessageId, RequestId, RunId, SessionId, ToolName};

pub use self::ask::{Answer, Ask, AskSummary, Reply};
pub use self::call::{
    Ack, AckStatus, Attachment, Begun, CallHead, CallState, Cancellation, Ended, FinishedCall, JournaledCall, Origin,
    Outcome, OutcomeKind, Phases, Success,
};
pub use self::listing::{Most, Page, SessionPlace};
pub use self::memory::MemoryStore;
pub use self::message::{
    AssistantMessage, Kept, Message, Part, PartBody, Role, Span, StopReason, ToolPart, ToolResult, ToolState,
    TurnError, Usage,
};
pub(crate) use self::quota::Beginning;
pub use self::quota::{QuotaExceeded, StorageUsed};
pub use self::run::{RunUsage, ThreadRun};
pub use self::session::{DEFAULT_AGENT, ModelRef, Session};
pub use self::tool::{Effect, Executor, Scope, StoredClient, StoredTool, Tool, ToolSpec};
pub use self::user_message::{NextTurn, OpenTurn, PageTool, TurnNeeds, UserMessage};

/// The store could not do something, or refused it. The cause is for the log, except for quotas.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The request or the stored data is wrong.
    #[error("the store failed: {0}")]
    Failed(String),
    /// The store cannot do it now: it is overloaded or closed, or another process holds or has taken it.
    #[error("the store failed: {0}")]
    Unavailable(String),
    /// The disk or the database is full.
    #[error("the store failed: {0}")]
    Full(String),
    /// A quota is used up: nothing new may begin.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
}

impl StoreError {
    /// Whether the same write may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Full(_))
    }
}

/// What a write does when the disk is full, or the database cannot be written for another reason that may pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfFull {
    /// It fails: whoever wants it can be told, and can try again.
    Fails,
    /// It waits until it can be written: it belongs to something that was accepted before. Later writes to the same session
    /// fail or wait too.
    Waits,
}

/// The future of a store operation.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// A page of finished calls, each with its number in the journal.
pub type CallPage = Page<(u64, Arc<FinishedCall>)>;

/// Which finished calls to list.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Only this client's calls.
    pub client: Option<ClientId>,
    /// Only this session's calls.
    pub session: Option<SessionId>,
}

impl CallFilter {
    /// Whether the filter includes a call.
    pub fn takes(&self, head: &CallHead) -> bool {
        self.client.as_ref().is_none_or(|client| client == head.client())
            && self.session.as_ref().is_none_or(|session| *session == head.session)
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only this client's sessions.
    pub client: Option<ClientId>,
    /// Only sessions in which this agent answers.
    pub agent: Option<SmolStr>,
    /// Only sessions made from this one.
    pub parent: Option<SessionId>,
}

impl SessionFilter {
    /// Whether the filter includes a session.
    pub fn takes(&self, session: &Session) -> bool {
        self.client.as_ref().is_none_or(|client| session.client.as_ref() == Some(client))
            && self.agent.as_ref().is_none_or(|agent| session.agent_name() == agent)
            && self.parent.as_ref().is_none_or(|parent| session.parent.as_ref() == Some(parent))
    }
}

/// Stores the journal of calls, sessions with their messages, and runs. Code that needs only one takes that trait.
///
/// Guarantees of all three: writes take effect in the order of the method calls, not in the order in which their
/// futures are polled. A read sees every write before it, whether that write has ended or not, except writes that wait
/// for room ([`IfFull::Waits`]). Dropping a future does not undo its write. A write whose future has ended is as durable as this store makes anything.
pub trait Store: CallStore + SessionStore + RunStore {}

impl<S: CallStore + SessionStore + RunStore> Store for S {}

/// The journal of calls, and the tools of clients.
///
/// A call ends once, and the first `finish` counts. A call table lets nobody finish one of its calls twice, but several
/// tables may share a store. Each call has one `begin`, and a `change` each time that it changes while it is open. A
/// `begin`, a `change` or another `finish` after the first `finish` changes nothing.
pub trait CallStore: Send + Sync + 'static {
    /// Records that a call is made.
    fn begin(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<Begun>;
    /// Records that an open call has changed.
    fn change(&self, call: &JournaledCall, if_full: IfFull) -> StoreFuture<()>;
    /// The calls that are not over, in the order in which they were made.
    fn open_calls(&self) -> StoreFuture<Vec<JournaledCall>>;
    /// Stores a client and changes of its tools, all or none. A tool without a value is removed, and a client without
    /// tools is removed with its last one. A new tool comes after those that are stored.
    fn save_client(&self, client: StoredClient, tools: Vec<(ToolName, Option<StoredTool>)>) -> StoreFuture<()>;
    /// The stored clients with their tools, in order of registration.
    fn clients(&self) -> StoreFuture<Vec<(StoredClient, Vec<StoredTool>)>>;
    /// Whether another process can go on with what is stored.
    fn is_lasting(&self) -> bool;
    /// Records that a call is over, unless it was before. The same end counts as the first one, however often it is recorded.
    fn finish(&self, call: &Arc<FinishedCall>, if_full: IfFull) -> StoreFuture<Ended>;
    /// Records an answer that came after the call was over. The first one counts. Returns whether it is this one.
    fn keep_late(&self, request: &RequestId, late: Outcome) -> StoreFuture<bool>;
    /// Returns a finished call, if it is still stored.
    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>>;
    /// A page of finished calls with numbers lower than `before`, newest first. The numbers grow in the order in which
    /// calls end.
    fn list_finished(&self, filter: &CallFilter, before: Option<u64>, most: Most) -> StoreFuture<CallPage>;
}

/// Sessions and their messages.
pub trait SessionStore: Send + Sync + 'static {
    /// Stores a session and replaces its earlier version.
    fn save_session(&self, session: &Arc<Session>, if_full: IfFull) -> StoreFuture<()>;
    /// Returns a session.
    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>>;
    /// A page of sessions after that place, most recently updated first. No session needs to be at that place.
    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>>;
    /// Deletes a session with its messages, runs and finished calls. Returns whether the session existed. Calls of the
    /// session are deleted even if it did not.
    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool>;
    /// Stores messages of one session with their parts, all or none, and replaces their earlier versions. Does nothing
    /// if the session is not stored. The key is the session and the id; the role and the answered message do not change.
    fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()>;
    /// Stores one message, or fails if the disk is full.
    fn save_message(&self, message: &Arc<Message>) -> StoreFuture<()> {
        self.save_messages(vec![message.clone()], IfFull::Fails)
    }
    /// The messages of a session, in the order in which they were first saved.
    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>>;
    /// A page of the messages after that message. `None` if there is no such session, or no such message in it.
    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>>;
    /// The ids of the newest messages of a session, or of the newest before `before`, newest first. `None` if there is
    /// no such message.
    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>>;
    /// Stores a message in place of the one with its id and of all messages that were first saved after that: all at once,
    /// or nothing if the disk is full. Does nothing if the session is not stored.
    fn replace_from(&self, message: &Arc<Message>) -> StoreFuture<()>;
    /// Whether sessions stay until they are deleted. Otherwise the oldest are dropped when there are too many.
    fn keeps_all(&self) -> bool;
    /// How much is stored for a client and in total, counting writes that have ended. Cheap: nothing is scanned for it.
    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed>;
    /// The users' messages whose turns are not over; those of a session in the order in which they were first saved. A
    /// store that an earlier version wrote may have others, which say too little to go on with: answers that are not complete, and
    /// users' messages without an answer.
    fn open_turns(&self) -> StoreFuture<Vec<Arc<Message>>>;
}

/// Runs of sessions, and their events.
pub trait RunStore: Send + Sync + 'static {
    /// Stores a run and replaces its earlier version; its events stay. Does nothing if its session is not stored. The
    /// key is the session and the id.
    fn save_run(&self, run: &Arc<ThreadRun>, if_full: IfFull) -> StoreFuture<()>;
    /// Returns a run of a session.
    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>>;
    /// The runs of a session, in the order in which they were first saved, without their inputs: each input has the
    /// whole conversation.
    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>>;
    /// Appends events of a run, one JSON text each. `first` is the number of the first of them, counted from 0: events
    /// that are already stored are not stored twice. Does nothing if the run is not stored. Fails if events before
    /// `first` are missing, since each is known by its number. If the disk is full, it waits.
    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()>;
    /// The events of a run, from that number on.
    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>>;
    /// Runs of an earlier process that were started and are not over, in any order.
    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>>;
}
