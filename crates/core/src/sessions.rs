//! Sessions: making, prompting, stopping and forgetting them. Who waits and what runs is in `live`, and what a turn does is
//! in `turn`. What pages send is planned in `conversation`, carried on in `continuing`, and told by `playback`.
//!
//! The store has the sessions; what is here is what goes on in them. A session is live while it has turns to run: one
//! task runs them one after the other, and whatever changes a session does so while it is live, under one lock, so
//! that no two changes are lost in each other and a session that was deleted does not come back.

mod agent;
mod continuing;
mod conversation;
mod earlier;
mod held;
mod history;
mod id_locks;
mod live;
mod model;
mod playback;
mod prompting;
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

pub use self::agent::{Agent, Agents};
pub use self::conversation::{KnownTurn, Manners, NotPlanned, PageRequest, Plan, Said};
pub use self::earlier::Earlier;
use self::held::{HeldSession, HeldSessions};
use self::history::Conversation;
use self::id_locks::IdLocks;
pub(crate) use self::live::Queued;
use self::live::{Live, UNTITLED};
pub use self::model::{Model, ModelEvent, ModelRequest, ModelStream, Models};
pub use self::playback::Playback;
pub use self::runs::{NotStarted, Recorder, Runs};
use crate::calls::{Actor, Hub, NotAnswered};
use crate::clock::Clock;
use crate::events::{Feed, SessionEvent};
use crate::id::{ClientId, MessageId, PermissionId, SessionId};
use crate::sharded::Sharded;
use crate::store::{
    Answer, Ask, Beginning, DEFAULT_AGENT, Message, ModelRef, Most, Page, PartBody, Reply, Session, SessionFilter,
    SessionPlace, SessionStore, StoreError, StoreFuture, ToolSpec, TurnError, TurnNeeds,
};
use crate::tools::{Hook, Offered, Place, Placement, ServerTool, offer, switched};

/// What sessions run with.
pub struct Setup {
    /// The providers.
    pub models: Models,
    /// The model when neither message, session nor agent names one.
    pub default_model: ModelRef,
    /// The agents.
    pub agents: Agents,
    /// Tools that run here, offered in every session.
    pub tools: Vec<Arc<dyn ServerTool>>,
    /// Tools that frontends run, offered where there is one.
    pub frontend_tools: Vec<Arc<ToolSpec>>,
    /// Whoever looks at calls.
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
    live: Sharded<SessionId, Live>,
    /// Ids of messages that are about to be kept.
    id_locks: IdLocks,
    /// A session is idle again.
    idle: Notify,
    /// The server stops, and turns under way with it.
    stop: CancellationToken,
}

/// A session to be made.
#[derive(Debug, Default)]
pub struct NewSession {
    /// Its id; made when `None`. There must not be one of that id.
    pub id: Option<SessionId>,
    /// The client whose tools it has.
    pub client: Option<ClientId>,
    /// A heading; made from the first prompt when `None`.
    pub title: Option<String>,
    /// The session that it comes from.
    pub parent: Option<SessionId>,
    /// The agent.
    pub agent: Option<SmolStr>,
    /// The model.
    pub model: Option<ModelRef>,
    /// Whatever its maker wants to keep with it, an object.
    pub metadata: Option<Box<RawValue>>,
    /// Whether a frontend shows it.
    pub has_frontend: bool,
}

/// Something said in a session.
#[derive(Debug)]
pub struct Prompt {
    /// The message's id; made when `None`.
    pub message: Option<MessageId>,
    /// What is said.
    pub parts: Vec<PartBody>,
    /// The agent; the session's when `None`.
    pub agent: Option<SmolStr>,
    /// Whether an answer is wanted.
    pub wants_reply: bool,
    /// What its turn needs. The model is the session's, the agent's or the default when it names none.
    pub needs: TurnNeeds,
}

/// A prompt that was taken.
#[derive(Debug)]
#[non_exhaustive]
pub struct Prompted {
    /// The user's message.
    pub user: Arc<Message>,
    /// Where the answer comes out, if one is wanted. Dropping it does not stop the turn.
    pub answer: Option<oneshot::Receiver<Arc<Message>>>,
    /// What the turn tells, if somebody follows it.
    pub feed: Option<Feed>,
}

/// Why something was not done; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// No such session.
    #[error("there is no session {0}")]
    Unknown(SessionId),
    /// Another client's.
    #[error("the session belongs to another client")]
    Forbidden,
    /// A client would bring tools into a session that is not its own.
    #[error("the session {0} is not one of this client's; the application, or a token for that session, may do this")]
    NobodysSession(SessionId),
    /// No such agent.
    #[error("there is no agent \"{found}\"; there is {known}")]
    UnknownAgent {
        /// What was asked for.
        found: String,
        /// What there is.
        known: String,
    },
    /// No such provider.
    #[error("the provider of the model {found} is not configured; there is {known}")]
    UnknownModel {
        /// What was asked for.
        found: String,
        /// What there is.
        known: String,
    },
    /// A message of that id was there before.
    #[error("there is a message {0} already; choose another id or leave it out")]
    DuplicateMessage(MessageId),
    /// Too many prompts wait.
    #[error("{0} prompts are waiting in this session; try again when one is answered")]
    QueueFull(usize),
    /// The server stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Sessions {
    /// Sessions that are kept in this store, and use this hub's tools and clock.
    pub fn new(hub: Hub, store: Arc<dyn SessionStore>, setup: Setup) -> Self {
        let held = Arc::new(HeldSessions::new(store.clone(), hub.limits().history_bytes));
        let (live, id_locks) = (Sharded::default(), IdLocks::default());
        let (idle, stop) = (Notify::new(), CancellationToken::new());
        Self(Arc::new(Shared { hub, store, held, setup, live, id_locks, idle, stop }))
    }

    /// Clients, tools and calls.
    pub fn hub(&self) -> &Hub {
        &self.0.hub
    }

    /// What sessions run with.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    pub(crate) fn store(&self) -> &dyn SessionStore {
        &*self.0.store
    }

    /// Keeps a message, in place of what was known of it.
    pub(crate) fn save_message(&self, message: &Arc<Message>) -> StoreFuture<()> {
        self.0.held.save_message(message)
    }

    /// A session with all that was said in it, read once while it is used.
    async fn hold(&self, id: &SessionId) -> Result<Arc<HeldSession>, StoreError> {
        self.0.held.hold(id).await
    }

    /// What a turn is shown that answers a message.
    pub(crate) async fn conversation(&self, user: &Arc<Message>) -> Result<Conversation, StoreError> {
        Ok(self.hold(&user.session).await?.conversation(user))
    }

    pub(crate) fn clock(&self) -> &Clock {
        self.hub().clock()
    }

    /// Locks the part of the live sessions that this one is in.
    fn live(&self, id: &SessionId) -> MutexGuard<'_, HashMap<SessionId, Live>> {
        self.0.live.of(id)
    }

    fn must_be_serving(&self) -> Result<(), SessionError> {
        self.hub().is_serving().then_some(()).ok_or(SessionError::ShuttingDown)
    }

    fn tell(&self, session: &Arc<Session>, event: SessionEvent) {
        self.hub().tell(session, || event);
    }

    /// Makes a session.
    pub async fn create(&self, new: NewSession) -> Result<Arc<Session>, SessionError> {
        if let Some(parent) = &new.parent {
            self.get(parent).await?;
        }
        let session = Arc::new(self.draft(new)?);
        self.must_have_storage(session.client.as_ref(), Beginning::Session).await?;
        // Somebody may have said something in one of that id that was just forgotten.
        self.0.held.forget(&session.id);
        self.0.held.save_session(&session).await?;
        self.tell(&session, SessionEvent::Created);
        self.tell(&session, SessionEvent::Updated);
        Ok(session)
    }

    /// The session of an id that somebody else chose; made when there is none.
    pub async fn get_or_create(&self, id: SessionId, new: NewSession) -> Result<Arc<Session>, SessionError> {
        if let Some(session) = self.find(&id).await? {
            return Ok(session);
        }
        let _naming = self.0.id_locks.lock_session(&id).await;
        match self.find(&id).await? {
            Some(session) => Ok(session),
            None => self.create(NewSession { id: Some(id), ..new }).await,
        }
    }

    /// A session as it would be made; nobody knows of it yet.
    pub fn draft(&self, new: NewSession) -> Result<Session, SessionError> {
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

    /// A session.
    pub async fn get(&self, id: &SessionId) -> Result<Arc<Session>, SessionError> {
        self.find(id).await?.ok_or_else(|| SessionError::Unknown(id.clone()))
    }

    /// A session, if there is one.
    pub(crate) async fn find(&self, id: &SessionId) -> Result<Option<Arc<Session>>, StoreError> {
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

    /// Where the tools go that somebody registers for a client. Into a session of no client, or one that is not known
    /// here, only the application brings tools, and whoever is limited to that session.
    pub async fn placement(
        &self,
        actor: &Actor,
        client: &ClientId,
        id: Option<SessionId>,
    ) -> Result<Placement, SessionError> {
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

    /// The sessions, those updated last first: those after that place.
    pub async fn list(
        &self,
        filter: &SessionFilter,
        after: Option<&SessionPlace>,
        most: Most,
    ) -> Result<Page<Arc<Session>>, SessionError> {
        Ok(self.store().list_sessions(filter, after, most).await?)
    }

    /// The messages of a session, in order.
    pub async fn messages(&self, id: &SessionId) -> Result<Vec<Arc<Message>>, SessionError> {
        Ok(self.hold(id).await?.history(|history| history.all().cloned().collect()))
    }

    /// The same, a page at a time: those after that message. `None` if that one or the session is gone.
    pub async fn messages_after(
        &self,
        id: &SessionId,
        after: Option<&MessageId>,
        most: Most,
    ) -> Result<Option<Page<Arc<Message>>>, SessionError> {
        Ok(self.store().messages_after(id, after, most).await?)
    }

    /// The ids of the newest messages of a session, or of the newest before that one, newest first. `None` if there is
    /// no such message.
    pub async fn newest_messages(
        &self,
        id: &SessionId,
        before: Option<&MessageId>,
        most: usize,
    ) -> Result<Option<Vec<MessageId>>, SessionError> {
        Ok(self.store().newest_messages(id, before, most).await?)
    }

    /// Whether something new may be begun in a session, as far as quotas go.
    pub async fn must_have_storage_for(&self, session: &Session) -> Result<(), SessionError> {
        Ok(self.must_have_storage(session.client.as_ref(), Beginning::InSession).await?)
    }

    async fn must_have_storage(&self, client: Option<&ClientId>, what: Beginning) -> Result<(), StoreError> {
        self.hub().limits().quotas().must_allow(self.store(), client, what).await
    }

    /// Whether a turn is under way.
    pub fn is_busy(&self, id: &SessionId) -> bool {
        self.live(id).contains_key(id)
    }

    /// What a model is offered in a turn of a session with a client: the server's tools, those of the frontend, the
    /// client and the page.
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
            // Where no frontend is known of, its tools have to be asked for: nobody else can run them.
            let is_on = session.has_frontend || !matches!(tool.place, Place::Frontend(_));
            switched(switches, tool.named()).unwrap_or(is_on)
        });
        offered
    }

    /// The agent of that name, or the default one.
    pub fn agent(&self, name: Option<&str>) -> Result<&Arc<Agent>, SessionError> {
        let name = name.unwrap_or(DEFAULT_AGENT);
        self.setup().agents.find(name).ok_or_else(|| SessionError::UnknownAgent {
            found: name.to_owned(),
            known: self.setup().agents.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// The model that answers in a session where a prompt names no other, and no other agent.
    pub fn model_of<'a>(&'a self, session: &'a Session) -> &'a ModelRef {
        let of_agent = || self.agent(session.agent.as_deref()).ok()?.model.as_ref();
        session.model.as_ref().or_else(of_agent).unwrap_or(&self.setup().default_model)
    }

    /// Whether there is such an agent, and such a model.
    pub fn must_know(&self, agent: Option<&str>, model: Option<&ModelRef>) -> Result<(), SessionError> {
        self.agent(agent)?;
        let (models, Some(model)) = (&self.setup().models, model) else { return Ok(()) };
        models.find(model).map(|_| ()).ok_or_else(|| SessionError::UnknownModel {
            found: model.to_string(),
            known: models.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Stops the turn that is under way, if there is one: its open calls are cancelled. Returns when it is over.
    pub async fn abort(&self, id: &SessionId) {
        let over = self.live(id).get(id).map(Live::stop);
        if let Some(over) = over {
            over.cancelled().await;
        }
    }

    /// Forgets a session with all that is in it; what is under way is stopped. Happens as a whole, whether or not whoever
    /// asks for it goes meanwhile.
    pub async fn delete(&self, session: &Arc<Session>) -> Result<bool, SessionError> {
        self.hub().run_to_end(self.clone().delete_all(session.clone())).await
    }

    async fn delete_all(self, session: Arc<Session>) -> Result<bool, SessionError> {
        // Nobody makes another one of that id before this one is gone.
        let _naming = self.0.id_locks.lock_session(&session.id).await;
        let (deleting, over) = {
            let mut live = self.live(&session.id);
            let over = live.remove(&session.id).map(|live| live.stop());
            (self.0.held.delete_session(&session.id), over)
        };
        // Whoever waits until all is idle need not wait for this one.
        self.0.idle.notify_waiters();
        let deleted = deleting.await?;
        if let Some(over) = over {
            over.cancelled().await;
            // What its turn still wrote when it was stopped: the ends of its calls.
            self.0.held.delete_session(&session.id).await?;
        }
        self.hub().forget_session(&session.id);
        if deleted {
            self.tell(&session, SessionEvent::Deleted);
        }
        Ok(deleted)
    }

    /// Answers an ask; `Always` holds for the tool as long as the session lives, and for its other open asks.
    pub async fn answer(&self, id: &PermissionId, actor: &Actor, answer: Answer) -> Result<Arc<Ask>, NotAnswered> {
        match answer.reply {
            Reply::Once | Reply::Reject => self.hub().answer(id, actor, answer).await,
            Reply::Always => self.hub().run_to_end(self.clone().always(id.clone(), actor.clone(), answer)).await,
        }
    }

    async fn always(self, id: PermissionId, actor: Actor, answer: Answer) -> Result<Arc<Ask>, NotAnswered> {
        let ask = self.hub().answer(&id, &actor, answer).await?;
        self.approve(&ask.call.session, ask.call.tool.id.as_str()).await?;
        for other in self.hub().asks(Some(&ask.call.session)) {
            if other.call.tool.id == ask.call.tool.id {
                let answer = Answer { reply: Reply::Once, input: None, message: None };
                match self.hub().answer(&other.id, &actor, answer).await {
                    // Somebody else was quicker.
                    Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(ask)
    }

    /// Allows a tool for as long as a session lives.
    pub(crate) async fn approve(&self, id: &SessionId, tool: &str) -> Result<(), StoreError> {
        loop {
            if let Some((_, saving)) = self.change(id, |session| session.approved.insert(tool.to_owned())) {
                return saving.await;
            }
            // Its turn is over; nobody else allows something in it, or forgets it, at the same time.
            let _naming = self.0.id_locks.lock_session(id).await;
            let Some(stored) = self.find(id).await? else { return Ok(()) };
            let mut changed = Session::clone(&stored);
            changed.approved.insert(tool.to_owned());
            let saving = {
                let live = self.live(id);
                // Unless the next turn has begun, or is over already.
                let known = self.0.held.get(id).and_then(|held| held.session());
                let is_stale = live.contains_key(id) || known.is_some_and(|known| known.updated != stored.updated);
                (!is_stale).then(|| self.0.held.save_session(&Arc::new(changed)))
            };
            match saving {
                Some(saving) => return saving.await,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Says of what an earlier process left behind that it was interrupted.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let left = self.store().unanswered().await?;
        for message in &left {
            let error = TurnError::Aborted("The server was restarted before this turn was over".to_owned());
            turn::interrupted(self, message, error).await?;
        }
        Ok(left.len())
    }

    /// Lets turns under way finish for a while, then stops them. The hub takes no new calls from then on.
    pub async fn close(&self, patience: Duration) {
        self.hub().start_draining();
        // Out of patience is no error: what is left is stopped next.
        _ = tokio::time::timeout(patience, self.all_idle()).await;
        self.0.stop.cancel();
        self.all_idle().await;
    }

    async fn all_idle(&self) {
        loop {
            let idle = self.0.idle.notified();
            tokio::pin!(idle);
            // Listens before it looks, so that no change is missed in between.
            idle.as_mut().enable();
            if self.0.live.is_empty() {
                return;
            }
            idle.await;
        }
    }
}
