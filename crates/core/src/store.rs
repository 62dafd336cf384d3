//! What is kept: the values (calls, tools, asks, sessions, messages, runs), the traits of what keeps them, and the
//! implementation in memory.

mod ask;
mod call;
mod listing;
mod memory;
mod message;
mod quota;
mod run;
mod tool;
mod user_message;
pub mod weight;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use smol_str::SmolStr;

use crate::id::{ClientId, MessageId, RequestId, RunId, SessionId};

pub use self::ask::{Answer, Ask, AskSummary, Reply};
pub use self::call::{
    Ack, AckStatus, Attachment, CallHead, CallState, Cancellation, FinishedCall, Outcome, OutcomeKind, Phases, Success,
};
pub use self::listing::{Most, Page, SessionPlace};
pub use self::memory::MemoryStore;
pub use self::message::{
    AssistantMessage, DEFAULT_AGENT, Kept, Message, ModelRef, Part, PartBody, Role, Session, Span, StopReason,
    ToolPart, ToolResult, ToolState, TurnError, Usage,
};
pub(crate) use self::quota::Beginning;
pub use self::quota::{QuotaExceeded, StorageUsed};
pub use self::run::{RunUsage, ThreadRun};
pub use self::tool::{Effect, Executor, Tool, ToolSpec};
pub use self::user_message::{PageTool, TurnNeeds, UserMessage};

/// The store could not do it, or must not. But for quotas, the cause is for the log.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Something is wrong with what was asked or with what is kept.
    #[error("the store failed: {0}")]
    Failed(String),
    /// It cannot be done now: the store is overloaded, closed, or held or taken away by somebody else.
    #[error("the store failed: {0}")]
    Unavailable(String),
    /// There is no room where things are kept.
    #[error("the store failed: {0}")]
    Full(String),
    /// A quota is used up, and nothing new is begun.
    #[error(transparent)]
    Quota(#[from] QuotaExceeded),
}

/// What a store operation gives.
pub type StoreFuture<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send>>;

/// Which finished calls to list.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Only this client's.
    pub client: Option<ClientId>,
    /// Only this session's.
    pub session: Option<SessionId>,
}

impl CallFilter {
    /// Whether a call is among those.
    pub fn takes(&self, head: &CallHead) -> bool {
        self.client.as_ref().is_none_or(|client| client == head.client())
            && self.session.as_ref().is_none_or(|session| *session == head.session)
    }
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// Only this client's.
    pub client: Option<ClientId>,
    /// Only those that this agent answers in.
    pub agent: Option<SmolStr>,
    /// Only those that came from this one.
    pub parent: Option<SessionId>,
}

impl SessionFilter {
    /// Whether a session is among those.
    pub fn takes(&self, session: &Session) -> bool {
        self.client.as_ref().is_none_or(|client| session.client.as_ref() == Some(client))
            && self.agent.as_ref().is_none_or(|agent| session.agent_name() == agent)
            && self.parent.as_ref().is_none_or(|parent| session.parent.as_ref() == Some(parent))
    }
}

/// Keeps the journal of calls, sessions with their messages, and runs. Whoever needs only one of them asks for that.
///
/// Guarantees, of all three: writes take effect in the order in which the methods are called (not in which their futures are
/// polled), and a read sees every write before it, ended or not; a dropped future does not undo its write; and a write whose
/// future has ended is as durable as this store makes anything.
pub trait Store: CallStore + SessionStore + RunStore {}

impl<S: CallStore + SessionStore + RunStore> Store for S {}

/// The journal of calls.
///
/// The call table, not the store, decides how a call ends: for each call there is a `begin`, another one if it is
/// changed before it is given to its client, and at most one `finish`. A `begin` that comes after the `finish` of the same
/// call changes nothing.
pub trait CallStore: Send + Sync + 'static {
    /// A call is made.
    fn begin(&self, call: &Arc<CallHead>) -> StoreFuture<()>;
    /// A call is over.
    fn finish(&self, call: &Arc<FinishedCall>) -> StoreFuture<()>;
    /// A finished call, if it is still kept.
    fn finished(&self, request: &RequestId) -> StoreFuture<Option<Arc<FinishedCall>>>;
    /// The finished calls, newest first, each with a number that grows from one end to the next; those with a lower
    /// number than `before`.
    fn list_finished(
        &self,
        filter: &CallFilter,
        before: Option<u64>,
        most: Most,
    ) -> StoreFuture<Page<(u64, Arc<FinishedCall>)>>;
}

/// Sessions and their messages.
pub trait SessionStore: Send + Sync + 'static {
    /// Keeps a session, in place of what was known of it.
    fn save_session(&self, session: &Arc<Session>) -> StoreFuture<()>;
    /// A session.
    fn session(&self, session: &SessionId) -> StoreFuture<Option<Arc<Session>>>;
    /// The sessions, those updated last first; those that come after that place, whether or not one is there.
    fn list_sessions(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> StoreFuture<Page<Arc<Session>>>;
    /// Forgets a session with its messages, runs and finished calls; says whether there was one. Calls of that session
    /// are forgotten even if there was none.
    fn delete_session(&self, session: &SessionId) -> StoreFuture<bool>;
    /// Keeps a message with its parts, in place of what was known of it. Does nothing if its session is not kept.
    /// Messages are known by their session and id; who speaks, and what is answered, does not change.
    fn save_message(&self, message: &Arc<Message>) -> StoreFuture<()>;
    /// The messages of a session, in the order in which they were first saved.
    fn messages(&self, session: &SessionId) -> StoreFuture<Vec<Arc<Message>>>;
    /// The same, a page at a time: those after that message. `None` if there is no such session, or no such message in it.
    fn messages_after(
        &self,
        session: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> StoreFuture<Option<Page<Arc<Message>>>>;
    /// The ids of the newest messages of a session, or of the newest before that one, newest first. `None` if there is no
    /// such message.
    fn newest_messages(
        &self,
        session: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> StoreFuture<Option<Vec<MessageId>>>;
    /// Forgets a message of a session, and all that were first saved after it. Does nothing if there is no such one.
    fn delete_messages_from(&self, session: &SessionId, message: &MessageId) -> StoreFuture<()>;
    /// Whether sessions stay until they are deleted. Otherwise the oldest are dropped when there are too many.
    fn keeps_all(&self) -> bool;
    /// How much is kept, for a client and in all, as far as writes have ended. Cheap: nothing is counted for it.
    fn usage(&self, client: Option<&ClientId>) -> StoreFuture<StorageUsed>;
    /// What an earlier process left behind, in any order: assistants' messages that are not complete, and users'
    /// messages that want a reply and have none.
    fn unanswered(&self) -> StoreFuture<Vec<Arc<Message>>>;
}

/// Runs of sessions, and what they told.
pub trait RunStore: Send + Sync + 'static {
    /// Keeps a run, in place of what was known of it; its events stay. Does nothing if its session is not kept. Runs
    /// are known by their session and id.
    fn save_run(&self, run: &Arc<ThreadRun>) -> StoreFuture<()>;
    /// A run of a session.
    fn run(&self, session: &SessionId, run: &RunId) -> StoreFuture<Option<Arc<ThreadRun>>>;
    /// The runs of a session, in the order in which they were first saved, without what they were started with: that is
    /// the whole conversation each time.
    fn runs(&self, session: &SessionId) -> StoreFuture<Vec<Arc<ThreadRun>>>;
    /// Keeps events that a run has told, one JSON text each, after those that are kept. `first` is the number of the
    /// first of them, counted from 0: what is kept already is not kept twice. Does nothing if the run is not kept; fails
    /// if events before `first` are missing, since each is known by its number.
    fn append_run_events(
        &self,
        session: &SessionId,
        run: &RunId,
        first: usize,
        events: Vec<Arc<str>>,
    ) -> StoreFuture<()>;
    /// What a run has told, from that number on.
    fn run_events(&self, session: &SessionId, run: &RunId, from: usize) -> StoreFuture<Vec<Arc<str>>>;
    /// Runs of an earlier process that were started and are not over, in any order.
    fn unfinished_runs(&self) -> StoreFuture<Vec<Arc<ThreadRun>>>;
}
