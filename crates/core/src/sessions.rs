//! Sessions: create, prompt, stop and delete them. `live` has the queue of turns and the task that runs them, `turn`
//! runs one turn, `conversation` plans the requests of pages, `continuing` continues turns, and `playback` sends a page
//! its events.
//!
//! The store has the sessions; this module has the work in progress. A session is live while it has turns to run. One
//! task runs them one after the other. A session is changed while it is live, under one lock, so that no change
//! overwrites another and a deleted session does not come back.

mod adopting;
mod agent;
mod approving;
mod continuing;
mod held;
mod history;
mod id_locks;
mod import;
mod live;
mod metrics;
mod model;
mod planning;
mod playback;
mod prompting;
mod recovery;
mod runs;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use ahash::HashMap;
use serde_json::value::RawValue;
use smol_str::SmolStr;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

pub use self::adopting::NotAdopted;
pub use self::agent::{Agent, Agents};
use self::held::{HeldSession, HeldSessions};
use self::history::Conversation;
use self::id_locks::IdLocks;
pub use self::import::Earlier;
pub(crate) use self::live::Queued;
use self::live::{Live, UNTITLED};
pub use self::metrics::Metrics;
pub use self::model::{Model, ModelEvent, ModelRequest, ModelStream, Models};
pub use self::planning::{KnownTurn, Manners, NotPlanned, PageRequest, Plan, Said};
pub use self::playback::Playback;
pub use self::recovery::LeftTurns;
pub use self::runs::{NotStarted, Recorder, Runs};
use crate::calls::{Actor, Hub};
use crate::clock::Clock;
use crate::events::{Feed, SessionEvent};
use crate::id::{ClientId, MessageId, SessionId};
use crate::sharded::Sharded;
use crate::store::{
    Beginning, DEFAULT_AGENT, IfFull, Message, ModelRef, Most, Page, PartBody, Session, SessionFilter, SessionPlace,
    SessionStore, StoreError, StoreFuture, ToolSpec, TurnNeeds,
};
use crate::tools::{Hook, Offered, Place, Placement, ServerTool, offer, switched};
use crate::until::until;

/// How long a turn that is stopped may take to end. It is only stored, which waits if the disk is full.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);

/// The configuration of sessions.
pub struct Setup {
    /// The providers of models.
    pub models: Models,
    /// The model to use when neither the message, the session nor the agent names one.
    pub default_model: ModelRef,
    /// The configured agents.
    pub agents: Agents,
    /// Tools that run in the server's process. Every session offers them.
    pub tools: Vec<Arc<dyn ServerTool>>,
    /// Tools that frontends run. Sessions with a frontend offer them.
    pub frontend_tools: Vec<Arc<ToolSpec>>,
    /// Hooks that see each call, before and after.
    pub hooks: Vec<Arc<dyn Hook>>,
}

/// The sessions of one server. A cheap clone of one shared state.
#[derive(Clone)]
pub struct Sessions(Arc<Shared>);

struct Shared {
    hub: Hub,
    store: Arc<dyn SessionStore>,
    held: Arc<HeldSessions>,
    setup: Setup,
    metrics: Metrics,
    live: Sharded<SessionId, Live>,
    /// Locks on the ids of messages that are about to be stored, and on sessions.
    id_locks: IdLocks,
    /// Notified when a session becomes idle.
    idle: Notify,
    /// Cancelled when the server stops. Running turns stop with it.
    stop: CancellationToken,
}

/// A session to be created.
#[derive(Debug, Default)]
pub struct NewSession {
    /// The session's id; generated when `None`. No session may have this id yet.
    pub id: Option<SessionId>,
    /// The client whose tools the session has.
    pub client: Option<ClientId>,
    /// The title; taken from the first prompt when `None`.
    pub title: Option<String>,
    /// The session that this one was made from.
    pub parent: Option<SessionId>,
    /// The agent.
    pub agent: Option<SmolStr>,
    /// The model.
    pub model: Option<ModelRef>,
    /// A JSON object that the creator wants to keep with the session.
    pub metadata: Option<Box<RawValue>>,
    /// Whether a frontend shows the session.
    pub has_frontend: bool,
}

/// Something that a user says in a session.
#[derive(Debug)]
pub struct Prompt {
    /// The message's id; generated when `None`.
    pub message: Option<MessageId>,
    /// The content of the message.
    pub parts: Vec<PartBody>,
    /// The agent; the session's when `None`.
    pub agent: Option<SmolStr>,
    /// Whether an answer is wanted.
    pub wants_reply: bool,
    /// What the turn needs. Without a model in it, the session's, the agent's or the default model answers.
    pub needs: TurnNeeds,
}

/// A prompt that was accepted.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prompted {
    /// The user's message.
    pub user: Arc<Message>,
    /// Receives the answer, if one is wanted. Dropping it does not stop the turn.
    pub answer: Option<oneshot::Receiver<Arc<Message>>>,
    /// The feed of the turn, if the turn can be followed.
    pub feed: Option<Feed>,
}

/// Why a request was refused. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is no such session.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// The session belongs to another client.
    #[error("the session belongs to another client")]
    Forbidden,
    /// A client wants to register tools for a session that is not its own.
    #[error("the session {0} is not one of this client's; the application, or a token for that session, may do this")]
    NobodysSession(SessionId),
    /// There is no such agent.
    #[error("there is no agent \"{found}\"; there is {known}")]
    UnknownAgent {
        /// The agent that was asked for.
        found: String,
        /// The agents that exist.
        known: String,
    },
    /// There is no such provider.
    #[error("the provider of the model {found} is not configured; there is {known}")]
    UnknownModel {
        /// The model that was asked for.
        found: String,
        /// The providers that exist.
        known: String,
    },
    /// A session of another client has this id.
    #[error("there is a session {0} already; choose another id or leave it out")]
    DuplicateSession(SessionId),
    /// A message with this id exists already.
    #[error("there is a message {0} already; choose another id or leave it out")]
    DuplicateMessage(MessageId),
    /// Too many prompts are waiting.
    #[error("{0} prompts are waiting in this session; try again when one is answered")]
    QueueFull(usize),
    /// The server is stopping.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of what is done with sessions.
pub type Result<T, E = SessionError> = std::result::Result<T, E>;

impl Sessions {
    /// Creates the sessions of one server, with this store, and with the hub's tools and clock.
    pub fn new(hub: Hub, store: Arc<dyn SessionStore>, setup: Setup) -> Self {
        let held = Arc::new(HeldSessions::new(store.clone(), hub.limits().history_bytes));
        let (live, id_locks) = (Sharded::default(), IdLocks::default());
        let (idle, stop, metrics) = (Notify::new(), CancellationToken::new(), Metrics::default());
        Self(Arc::new(Shared { hub, store, held, setup, metrics, live, id_locks, idle, stop }))
    }

    /// The hub: clients, tools and calls.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// The configuration of sessions.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// Counts of turns and of models' answers since the start.
    pub fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    pub(crate) fn store(&self) -> &dyn SessionStore {
        &*self.0.store
    }

    /// Stores a message and replaces its earlier version.
    pub(crate) fn save_message(&self, message: &Arc<Message>, if_full: IfFull) -> StoreFuture<()> {
        self.save_messages(vec![message.clone()], if_full)
    }

    /// Stores messages of one session, all or none, and replaces their earlier versions.
    pub(crate) fn save_messages(&self, messages: Vec<Arc<Message>>, if_full: IfFull) -> StoreFuture<()> {
        self.0.held.save_messages(messages, if_full)
    }

    /// Returns a session with its messages. They are read from the store once, and stay in memory while they are used.
    async fn hold(&self, id: &SessionId) -> Result<Arc<HeldSession>, StoreError> {
        self.0.held.hold(id).await
    }

    /// The conversation that the model is shown in the turn that answers a message.
    pub(crate) async fn conversation(&self, user: &Arc<Message>) -> Result<Conversation, StoreError> {
        Ok(self.hold(&user.session).await?.conversation(user))
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.hub().clock()
    }

    /// Locks the part of the map that has this live session.
    fn live(&self, id: &SessionId) -> MutexGuard<'_, HashMap<SessionId, Live>> {
        self.0.live.of(id)
    }

    fn must_be_serving(&self) -> Result<()> {
        self.hub().is_serving().then_some(()).ok_or(SessionError::ShuttingDown)
    }

    fn tell(&self, session: &Arc<Session>, event: SessionEvent) {
        self.hub().tell(session, || event);
    }

    /// Creates a session.
    pub async fn create(&self, new: NewSession) -> Result<Arc<Session>> {
        if let Some(parent) = &new.parent {
            self.get(parent).await?;
        }
        let session = Arc::new(self.draft(new)?);
        self.must_have_storage(session.client.as_ref(), Beginning::Session).await?;
        // A deleted session with the same id may still be held, with its messages.
        self.0.held.forget(&session.id);
        self.0.held.save_session(&session, IfFull::Fails).await?;
        self.tell(&session, SessionEvent::Created);
        self.tell(&session, SessionEvent::Updated);
        Ok(session)
    }

    /// Returns the session with this id, which the caller chose, and creates it if there is none.
    pub async fn get_or_create(&self, id: SessionId, new: NewSession) -> Result<Arc<Session>> {
        if let Some(session) = self.find(&id).await? {
            return Ok(session);
        }
        let _id_lock = self.0.id_locks.lock_session(&id).await;
        match self.find(&id).await? {
            Some(session) => Ok(session),
            None => self.create(NewSession { id: Some(id), ..new }).await,
        }
    }

    /// Creates a session with an id that the caller chose. If the caller did so before, returns that session.
    pub async fn create_once(&self, id: SessionId, new: NewSession) -> Result<Arc<Session>> {
        let client = new.client.clone();
        let session = self.get_or_create(id, new).await?;
        if session.client == client { Ok(session) } else { Err(SessionError::DuplicateSession(session.id.clone())) }
    }

    /// Builds a session without storing it or telling anybody.
    pub fn draft(&self, new: NewSession) -> Result<Session> {
        self.must_be_serving()?;
        self.must_know(new.agent.as_deref(), new.model.as_ref())?;
        let now = self.clock().time();
        Ok(Session {
            id: new.id.unwrap_or_else(|| self.clock().session_id()),
            client: new.client,
            title: new.title.unwrap_or_else(|| UNTITLED.to_owned()),
            parent: new.parent,
            agent: new.agent,
            model: new.model,
            metadata: new.metadata,
            has_frontend: new.has_frontend,
            approved: Default::default(),
            created: now,
            updated: now,
        })
    }

    /// Returns a session.
    pub async fn get(&self, id: &SessionId) -> Result<Arc<Session>> {
        self.find(id).await?.ok_or_else(|| SessionError::Unknown(id.clone()))
    }

    /// Returns a session, if it exists.
    pub async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
        let of_turn = self.live(id).get(id).and_then(|live| live.session.clone());
        let held = || self.0.held.get(id).filter(|_| self.store().keeps_all())?.session();
        if let Some(session) = of_turn.or_else(held) {
            return Ok(Some(session));
        }
        let stored = self.store().session(id).await?;
        if stored.is_none() {
            self.0.held.forget(id);
        }
        Ok(stored)
    }

    /// Where the tools go that an actor registers for a client. If the session belongs to no client or is unknown, only
    /// the application and actors limited to that session may register tools for it.
    pub async fn placement(&self, actor: &Actor, client: &ClientId, id: Option<SessionId>) -> Result<Placement> {
        let Some(id) = id else { return Ok(Placement::Everywhere) };
        let session = self.find(&id).await?;
        let owner = session.as_ref().and_then(|session| session.client.as_ref());
        match (owner, actor) {
            (Some(owner), _) if owner != client => Err(SessionError::Forbidden),
            (_, Actor::Client { session: Some(_), .. }) => Ok(Placement::OnlyIn(id)),
            (None, Actor::Client { session: None, .. }) => Err(SessionError::NobodysSession(id)),
            (_, Actor::Trusted) | (Some(_), Actor::Client { .. }) => Ok(Placement::In(id)),
        }
    }

    /// A page of sessions after that place, the most recently updated first.
    pub async fn list(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> Result<Page<Arc<Session>>> {
        Ok(self.store().list_sessions(filter, after, most).await?)
    }

    /// The messages of a session, in order.
    pub async fn messages(&self, id: &SessionId) -> Result<Vec<Arc<Message>>> {
        Ok(self.hold(id).await?.history(|history| history.all().cloned().collect()))
    }

    /// A page of a session's messages after that message. `None` if the message or the session is gone.
    pub async fn messages_after(
        &self,
        id: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> Result<Option<Page<Arc<Message>>>> {
        Ok(self.store().messages_after(id, after, most).await?)
    }

    /// The ids of the newest messages of a session, or of the newest before `before`, newest first. `None` if there is
    /// no such message.
    pub async fn newest_messages(
        &self,
        id: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> Result<Option<Vec<MessageId>>> {
        Ok(self.store().newest_messages(id, before, most).await?)
    }

    /// Checks that the quotas allow something new in a session.
    pub async fn must_have_storage_for(&self, session: &Session) -> Result<()> {
        Ok(self.must_have_storage(session.client.as_ref(), Beginning::InSession).await?)
    }

    async fn must_have_storage(&self, client: Option<&ClientId>, what: Beginning) -> Result<(), StoreError> {
        self.hub().limits().quotas().must_allow(self.store(), client, what).await
    }

    /// Whether a session has a message with this id.
    pub async fn knows(&self, id: &SessionId, message: &MessageId) -> Result<bool> {
        Ok(self.hold(id).await?.history(|history| history.get(message).is_some()))
    }

    /// Whether a turn is running.
    pub fn is_busy(&self, id: &SessionId) -> bool {
        self.live(id).contains_key(id)
    }

    /// The tools that a model is offered in a turn: those of the server, the frontend, the client and the page.
    pub fn offered(
        &self,
        session: &Session,
        client: Option<&ClientId>,
        switches: &BTreeMap<String, bool>,
        page: &[Arc<ToolSpec>],
    ) -> Vec<Offered> {
        let client = match client {
            Some(client) => self.hub().tools_of(client, Some(&session.id)),
            None => self.hub().tools_for_session(&session.id),
        };
        let setup = self.setup();
        let server = setup.tools.iter().cloned().map(Place::Server);
        let frontend = setup.frontend_tools.iter().cloned().map(Place::Frontend);
        let page = page.iter().cloned().map(Place::Page);
        let mut offered = offer(server.chain(frontend).chain(client.into_iter().map(Place::Client)).chain(page));
        offered.retain(|tool| {
            // Without a known frontend, its tools must be switched on explicitly: nobody else can run them.
            let is_on = session.has_frontend || !matches!(tool.place, Place::Frontend(_));
            switched(switches, tool.named()).unwrap_or(is_on)
        });
        offered
    }

    /// Returns the agent with this name, or the default agent.
    pub fn agent(&self, name: Option<&str>) -> Result<&Arc<Agent>> {
        let name = name.unwrap_or(DEFAULT_AGENT);
        self.setup().agents.find(name).ok_or_else(|| SessionError::UnknownAgent {
            found: name.to_owned(),
            known: self.setup().agents.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The model that answers in a session when the prompt names neither a model nor another agent.
    pub fn model_of<'a>(&'a self, session: &'a Session) -> &'a ModelRef {
        let of_agent = || self.agent(session.agent.as_deref()).ok()?.model.as_ref();
        session.model.as_ref().or_else(of_agent).unwrap_or(&self.setup().default_model)
    }

    /// Checks that the agent and the model exist.
    pub fn must_know(&self, agent: Option<&str>, model: Option<&ModelRef>) -> Result<()> {
        self.agent(agent)?;
        let (models, Some(model)) = (&self.setup().models, model) else { return Ok(()) };
        models.find(model).map(|_| ()).ok_or_else(|| SessionError::UnknownModel {
            found: model.to_string(),
            known: models.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Stops the running turn, if there is one, and cancels its open calls. Returns when the turn is over. Fails if that
    /// cannot be stored now.
    pub async fn abort(&self, id: &SessionId) -> Result<()> {
        let over = self.live(id).get(id).map(Live::stop);
        until_over(over).await
    }

    /// Ends when the server stops and turns are left to the next process.
    pub(crate) async fn left(&self) {
        self.0.stop.cancelled().await;
        if !self.hub().is_leaving() {
            std::future::pending().await
        }
    }

    /// Deletes a session with everything in it and stops its turns. Completes even if the caller goes away meanwhile.
    pub async fn delete(&self, session: &Arc<Session>) -> Result<bool> {
        self.hub().run_to_end(self.clone().delete_all(session.clone())).await
    }

    async fn delete_all(self, session: Arc<Session>) -> Result<bool> {
        // Nobody else can create a session with this id before this one is gone.
        let _id_lock = self.0.id_locks.lock_session(&session.id).await;
        let (deleting, stopped) = {
            let mut live = self.live(&session.id);
            let stopped = live.remove(&session.id).map(|mut live| live.stop_all());
            (self.0.held.delete_session(&session.id), stopped)
        };
        let (over, waiting) = stopped.unzip();
        waiting.into_iter().flatten().for_each(|queued| self.drop_turn(queued));
        // Callers that wait for all sessions to be idle need not wait for this one.
        self.0.idle.notify_waiters();
        let deleted = deleting.await?;
        if let Some(over) = over {
            over.cancelled().await;
            // Delete what the turn wrote while it was being stopped: the ends of its calls.
            self.0.held.delete_session(&session.id).await?;
        }
        self.hub().forget_session(&session.id);
        if deleted {
            self.tell(&session, SessionEvent::Deleted);
        }
        Ok(deleted)
    }

    /// Lets running turns finish for a while, then stops them, or leaves them to the next process if the store lasts. From
    /// the start, the hub takes no new calls.
    pub async fn close(&self, patience: Duration) {
        self.hub().start_draining();
        // A timeout is no error: the remaining turns are stopped next, or left to the next process.
        if tokio::time::timeout(patience, self.all_idle()).await.is_err() {
            self.hub().leave();
        }
        self.0.stop.cancel();
        self.all_idle().await;
    }

    async fn all_idle(&self) {
        until(&self.0.idle, || self.0.live.is_empty().then_some(())).await;
    }
}

/// Waits until a turn that was stopped is over.
async fn until_over(over: Option<CancellationToken>) -> Result<()> {
    let Some(over) = over else { return Ok(()) };
    tokio::time::timeout(STOPPED_WITHIN, over.cancelled())
        .await
        .map_err(|_| StoreError::Unavailable("the turn is stopped, but its end cannot be stored yet".to_owned()).into())
}
