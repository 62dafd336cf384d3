//! The line: a call is made, offered to one connection of its client, and ends in exactly one way.
//!
//! ```text
//! delegate  1 check the input against the tool's schema; rate limit
//!           2 enter it in the table with its waiter; journal it
//!           3 permission: deny ends it, ask waits on the approval clock        (approval.rs has the answers)
//!           4 admit it: its id goes to one connection's outbox     (connection.rs takes it from there)
//! complete  1 may this caller answer this call?
//!           2 the table: first writer wins   3 journal   4 wake the waiter
//! resume    the waiter gives the outcome; housekeeping ends what is out of time
//! ```
//!
//! Result, timeout, cancel and disconnect all end the same entry of the table; exactly one finds it there.

use std::borrow::Borrow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::approval::{Approved, OpenAsk};
use crate::calls::finished::End;
use crate::calls::hub::Hub;
use crate::calls::pending::Stage;
use crate::calls::shards::Lifecycle;
use crate::calls::table::{Ending, Table};
use crate::id::{CallId, ClientId, ConnectionName, MessageId, RequestId, SessionId};
use crate::schema::{InputError, one_line};
use crate::store::{Ask, CallHead, Cancellation, Executor, FinishedCall, Outcome, StoreError, StoreFuture, Tool};
use crate::tools::Permission;

/// A call to be made.
#[derive(Debug)]
pub struct NewCall {
    /// What is called.
    pub callee: Callee,
    /// The call's id; made when `None`.
    pub request: Option<RequestId>,
    /// The session that it belongs to.
    pub session: SessionId,
    /// The message that it belongs to.
    pub message: MessageId,
    /// The caller's own id of it.
    pub call: CallId,
    /// The input.
    pub input: Box<RawValue>,
    /// How long it may take; the tool's own or the default when `None`.
    pub timeout: Option<Duration>,
    /// Who asks for it.
    pub origin: Origin,
    /// Whether it is allowed.
    pub permission: Permission,
    /// The connection of the client that it is offered to as long as that is there.
    pub connection: Option<ConnectionName>,
}

/// What is called.
#[derive(Debug)]
#[non_exhaustive]
pub enum Callee {
    /// A tool that a client has registered.
    Registered {
        /// Its full id.
        tool: String,
        /// Whose it is. Two clients may have a tool of that id one after the other; `None`: whoever has it.
        client: Option<ClientId>,
    },
    /// A frontend's tool, which needs no registering.
    Frontend(Arc<Tool>),
}

/// Who asks for a call; each has a limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A model.
    Model,
    /// The application itself.
    Application,
}

/// Why a call was not made. Nothing was changed and no client knows of it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Nobody offers such a tool.
    #[error("there is no tool {0}")]
    UnknownTool(String),
    /// The tool does not take that input.
    #[error("{0}")]
    InvalidInput(#[from] InputError),
    /// There is, or was a short while ago, a call of that id.
    #[error("the requestID {0} is in use; choose another or leave it out")]
    DuplicateRequest(RequestId),
    /// Too many calls of this client in a minute.
    #[error("too many calls for this client; try again in {} s", .retry_after.as_secs_f64().ceil())]
    RateLimited {
        /// When to try again.
        retry_after: Duration,
    },
    /// Too many calls of this client are under way.
    #[error("too many calls are under way; try again later")]
    Overloaded,
    /// The server stops.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The journal failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// On whose behalf a call is answered or cancelled.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Actor {
    /// The application, or anybody where no keys are used.
    Trusted,
    /// A client, perhaps in one session only.
    Client {
        /// The client.
        client: ClientId,
        /// The session.
        session: Option<SessionId>,
    },
}

impl Actor {
    /// Whether a call of that client and session is the caller's to touch.
    pub fn may_touch(&self, client: &ClientId, session: &SessionId) -> bool {
        match self {
            Self::Trusted => true,
            Self::Client { client: own, session: only } => {
                own == client && only.as_ref().is_none_or(|only| only == session)
            }
        }
    }
}

/// A result that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It ended the call.
    First,
    /// The same result had ended the call before.
    Again,
}

/// Why a result or a cancel does not count.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// No such call is known.
    #[error("Unknown request ID")]
    Unknown,
    /// Another client's call.
    #[error("this is not your call")]
    Forbidden,
    /// Another result was taken.
    #[error("another result was taken for this call")]
    Conflict,
    /// The call is over.
    #[error("the call is over")]
    Over,
    /// The call has to be allowed first.
    #[error("the call waits to be allowed; it cannot be answered yet")]
    NotAllowedYet,
    /// Another frontend has claimed the call.
    #[error("another one has claimed this call")]
    Claimed,
    /// The journal failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Hub {
    /// Makes a call and waits for its outcome. Dropping the future cancels the call.
    pub async fn delegate(&self, new: NewCall) -> Result<Arc<FinishedCall>, Refusal> {
        Ok(self.open_for(self, new).await?.outcome().await)
    }

    /// Makes a call: when this returns, it is in the table and on its way.
    pub async fn open(&self, new: NewCall) -> Result<OpenCall, Refusal> {
        self.open_for(self.clone(), new).await
    }

    async fn open_for<H: Borrow<Self>>(&self, hub: H, new: NewCall) -> Result<OpenCall<H>, Refusal> {
        let tool = match new.callee {
            Callee::Frontend(tool) => tool,
            Callee::Registered { tool: id, client } => {
                let meant = |tool: &Arc<Tool>| client.as_ref().is_none_or(|client| *client == tool.client);
                self.tool(&id).filter(meant).ok_or(Refusal::UnknownTool(id))?
            }
        };
        let limits = self.limits();
        self.schemas().check(&tool.spec.schema, &new.input, limits).await?;
        let now = Instant::now();
        let created = self.0.clock.now();
        let timeout =
            new.timeout.or(tool.spec.timeout).unwrap_or(limits.clocks.default_timeout).min(limits.largest_timeout);
        let head = Arc::new(CallHead {
            request: new.request.unwrap_or_else(|| self.request_id(&tool.client)),
            session: new.session,
            message: new.message,
            call: new.call,
            tool,
            input: one_line(new.input),
            timeout,
            created,
            deadline: created + timeout,
            expires: now + timeout,
        });

        let (ask, asked) = self.question(new.permission, &head);
        let ended = self.enter(&head, new.origin, new.connection, now)?;
        let open = OpenCall {
            hub,
            asked,
            is_allowed: new.permission == Permission::Allow,
            ended,
            over: false,
            stopped: match new.origin {
                Origin::Model => Cancellation::TurnStopped,
                Origin::Application => Cancellation::CallerGone,
            },
            head,
        };
        self.0.store.begin(&open.head).await?;
        // Nobody was asked while it was journaled: that time counts as waiting for its client.
        let permit = |table: &mut Table| permit(table, &open.head, new.permission, ask, now);
        self.of_client(open.head.client(), permit);
        if new.permission == Permission::Deny
            && let Some(ending) = self.end(&open.head, Outcome::Denied(NOT_ALLOWED.to_owned()))
        {
            self.journal_or_log(ending).await;
        }
        Ok(open)
    }

    /// Enters a call in the table, with the waiter that is given back; nobody can answer it before it is journaled and
    /// permitted.
    fn enter(
        &self,
        head: &Arc<CallHead>,
        origin: Origin,
        connection: Option<ConnectionName>,
        now: Instant,
    ) -> Result<oneshot::Receiver<Arc<FinishedCall>>, Refusal> {
        let (client, request, limits) = (head.client(), &head.request, self.limits());
        let (waiter, ended) = oneshot::channel();
        let shards = &self.0.shards;
        if !shards.take(request, client) {
            return Err(Refusal::DuplicateRequest(request.clone()));
        }
        let entered = self.of_client(client, |table| {
            if table.common.lifecycle() != Lifecycle::Serving {
                return Err(Refusal::ShuttingDown);
            }
            // It was there a moment ago, and may have gone with its client.
            let is_there = |tool: &Arc<Tool>| tool.client == *client;
            if head.tool.executor == Executor::Client
                && !table.registry.find(head.tool.id.as_str()).is_some_and(is_there)
            {
                return Err(Refusal::UnknownTool(head.tool.id.to_string()));
            }
            if table.knows(request) || shards.is_elsewhere(request, client) {
                return Err(Refusal::DuplicateRequest(request.clone()));
            }
            if table.open_calls(client) >= limits.calls_per_client {
                return Err(Refusal::Overloaded);
            }
            let rate = match origin {
                Origin::Model => &table.model_rate,
                Origin::Application => &table.execute_rate,
            };
            // Last of the checks: a refused call does not count.
            rate.check(client).map_err(|retry_after| Refusal::RateLimited { retry_after })?;
            Ok(table.enter(head.clone(), connection, waiter, now))
        });
        match entered {
            Ok(number) => {
                shards.entered(request, client, number);
                Ok(ended)
            }
            Err(refusal) => {
                shards.not_entered(request, client);
                Err(refusal)
            }
        }
    }

    /// What has to be answered before the call may go on, and where the answer comes out.
    fn question(&self, permission: Permission, head: &Arc<CallHead>) -> (Option<OpenAsk>, Option<Asked>) {
        if permission != Permission::Ask {
            return (None, None);
        }
        let ask = Ask { id: self.0.clock.permission_id(), call: head.clone(), created: self.0.clock.time() };
        let (ask, (tell, approved)) = (Arc::new(ask), oneshot::channel());
        let asked = Asked { ask: ask.clone(), approved };
        (Some(OpenAsk { ask, tell }), Some(asked))
    }

    /// A client answers a call.
    pub async fn complete(&self, request: &RequestId, actor: &Actor, outcome: Outcome) -> Result<Taken, NotTaken> {
        let decided = self.decide(request, actor, Answerer::Client, outcome)?;
        self.keep_answer(request, decided).await
    }

    /// Journals what was decided of an answer; then it counts.
    pub(crate) async fn keep_answer(&self, request: &RequestId, decided: Decided) -> Result<Taken, NotTaken> {
        match decided {
            // Journaled first: a result that was answered with yes is never lost.
            Decided::Ended(ending) => {
                self.journal(ending).await?;
                Ok(Taken::First)
            }
            Decided::Before(None) => Ok(Taken::Again),
            // The first one failed to be journaled, or is on its way: the journal takes it once.
            Decided::Before(Some(unjournaled)) => {
                self.0.store.finish(&unjournaled).await?;
                self.of_call(request, |table| table.finished.journaled(request));
                Ok(Taken::Again)
            }
        }
    }

    /// Somebody cancels a call.
    pub async fn cancel(&self, request: &RequestId, actor: &Actor, reason: String) -> Result<(), NotTaken> {
        let outcome = Outcome::Cancelled(Cancellation::Requested(reason));
        match self.decide(request, actor, Answerer::Anybody, outcome) {
            Ok(Decided::Ended(ending)) => Ok(self.journal(ending).await?),
            Ok(Decided::Before(_)) => Err(NotTaken::Over),
            // It is listed for longer than its answer is remembered.
            Err(NotTaken::Unknown) => match self.finished(request).await? {
                None => Err(NotTaken::Unknown),
                Some(call) if actor.may_touch(call.head.client(), &call.head.session) => Err(NotTaken::Over),
                Some(_) => Err(NotTaken::Forbidden),
            },
            Err(why) => Err(why),
        }
    }

    /// Ends a call on somebody's behalf, or says why not.
    pub(crate) fn decide(
        &self,
        request: &RequestId,
        actor: &Actor,
        answerer: Answerer<'_>,
        outcome: Outcome,
    ) -> Result<Decided, NotTaken> {
        let now = Instant::now();
        let answer = outcome.answer_hash();
        self.of_call(request, |table| {
            if let Some(call) = table.calls.get(request) {
                if !actor.may_touch(call.head.client(), &call.head.session) {
                    return Err(NotTaken::Forbidden);
                }
                if !answerer.takes(call.head.tool.executor) {
                    return Err(NotTaken::Unknown);
                }
                if answer.is_some() && call.stage == Stage::AwaitingApproval {
                    return Err(NotTaken::NotAllowedYet);
                }
                if !answerer.may_answer(call.claimant.as_deref()) {
                    return Err(NotTaken::Claimed);
                }
                let ending = table.finish(request, outcome, answer, now).ok_or(NotTaken::Unknown)?;
                return Ok(Decided::Ended(ending));
            }
            let over = table.finished.get(request, now).ok_or(NotTaken::Unknown)?;
            if !actor.may_touch(&over.client, &over.session) {
                return Err(NotTaken::Forbidden);
            }
            if !answerer.takes(over.executor) {
                return Err(NotTaken::Unknown);
            }
            match (over.end, answer) {
                (End::Answered(taken), Some(answer)) if taken == answer => {
                    Ok(Decided::Before(over.unjournaled.clone()))
                }
                (End::Answered(_), Some(_)) => Err(NotTaken::Conflict),
                _ => Err(NotTaken::Over),
            }
        })
    }
}

/// As what somebody answers a call: clients and frontends have doors of their own.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answerer<'a> {
    /// Whoever may touch it.
    Anybody,
    /// The client that it was offered to.
    Client,
    /// A frontend that it was shown to, perhaps with a name to claim calls by.
    Frontend(Option<&'a str>),
}

impl Answerer<'_> {
    fn takes(self, executor: Executor) -> bool {
        match self {
            Self::Anybody => true,
            Self::Client => executor == Executor::Client,
            Self::Frontend(_) => executor == Executor::Frontend,
        }
    }

    /// Whether it may answer what this one has claimed.
    fn may_answer(self, claimant: Option<&str>) -> bool {
        match self {
            Self::Frontend(own) => claimant.is_none() || claimant == own,
            Self::Anybody | Self::Client => true,
        }
    }
}

/// What came of somebody's wish to end a call.
pub(crate) enum Decided {
    /// It ended the call.
    Ended(Ending),
    /// The same result had ended it before; here it is if it is not in the journal yet.
    Before(Option<Arc<FinishedCall>>),
}

/// What the model is told of a call that the policy denies.
pub(crate) const NOT_ALLOWED: &str = "This tool is not allowed here";

/// A call is journaled: it goes on its way, or waits to be allowed. One that is denied goes nowhere.
fn permit(table: &mut Table, head: &CallHead, permission: Permission, ask: Option<OpenAsk>, now: Instant) {
    match (permission, ask) {
        (Permission::Allow, _) => table.admit(&head.request, now),
        (Permission::Ask, Some(ask)) => table.ask(ask, now),
        _ => {}
    }
}

/// An ask from the side of the call, and where the answer comes out.
struct Asked {
    ask: Arc<Ask>,
    approved: Approved,
}

/// A call under way, and the right to its outcome. Dropping it cancels the call and tells the client.
pub struct OpenCall<H: Borrow<Hub> = Hub> {
    hub: H,
    head: Arc<CallHead>,
    asked: Option<Asked>,
    is_allowed: bool,
    ended: oneshot::Receiver<Arc<FinishedCall>>,
    over: bool,
    /// What it means when this is dropped.
    stopped: Cancellation,
}

impl<H: Borrow<Hub>> OpenCall<H> {
    /// What was asked.
    pub fn head(&self) -> &Arc<CallHead> {
        &self.head
    }

    /// The question that has to be answered before the call goes on, if there is one.
    pub fn ask(&self) -> Option<&Arc<Ask>> {
        self.asked.as_ref().map(|asked| &asked.ask)
    }

    /// Waits until the call may go on, on the approval clock if it has to be allowed. Says whether it may; then its head has
    /// the input that was approved.
    pub async fn allowed(&mut self) -> bool {
        if let Some(asked) = &mut self.asked {
            // When the call ends unanswered, the other side of this goes with it.
            let answer = (&mut asked.approved).await;
            self.asked = None;
            if let Ok(head) = answer {
                self.head = head;
                self.is_allowed = true;
            }
        }
        self.is_allowed
    }

    /// Waits until the call is over, at its deadline if nobody ends it before.
    pub async fn outcome(mut self) -> Arc<FinishedCall> {
        match (&mut self.ended).await {
            Ok(finished) => {
                self.over = true;
                finished
            }
            // Whoever ends a call answers its waiters, dropped or not: this is out of reach.
            Err(_) => std::future::pending().await,
        }
    }
}

impl<H: Borrow<Hub>> Drop for OpenCall<H> {
    fn drop(&mut self) {
        if !self.over
            && let Some(ending) = self.hub.borrow().end(&self.head, Outcome::Cancelled(self.stopped.clone()))
        {
            self.hub.borrow().journal_in_background(ending);
        }
    }
}

impl Hub {
    /// Journals the end of a call, then answers its waiters. Ends are written in the order in which this is called,
    /// whenever the future is polled.
    pub(crate) fn journal(&self, ending: Ending) -> impl Future<Output = Result<(), StoreError>> + Send {
        let writing = self.0.store.finish(&ending.call);
        journaled(Ended { hub: self, ending, writing: Some(writing), is_journaled: false })
    }

    /// Journals the end of a call where nobody can be told that the journal failed.
    pub(crate) async fn journal_or_log(&self, ending: Ending) {
        let request = ending.call.head.request.clone();
        log_failure(&request, self.journal(ending).await);
    }

    /// The same, from where nothing can be awaited.
    pub(crate) fn journal_in_background(&self, ending: Ending) {
        let (request, writing) = (ending.call.head.request.clone(), self.0.store.finish(&ending.call));
        let ended = Ended { hub: self.clone(), ending, writing: Some(writing), is_journaled: false };
        self.0.tasks.spawn_on(async move { log_failure(&request, journaled(ended).await) }, &self.0.runtime);
    }
}

/// A call that has just ended and is being journaled. Its waiters are answered when that is done, or when this is
/// dropped: nobody waits for ever because somebody else's connection broke.
struct Ended<H: Borrow<Hub>> {
    hub: H,
    ending: Ending,
    /// What comes of it in the journal, until that is known.
    writing: Option<StoreFuture<()>>,
    is_journaled: bool,
}

async fn journaled<H: Borrow<Hub>>(mut ended: Ended<H>) -> Result<(), StoreError> {
    let written = match &mut ended.writing {
        Some(writing) => writing.await,
        None => Ok(()),
    };
    (ended.writing, ended.is_journaled) = (None, written.is_ok());
    written
}

fn log_failure(request: &RequestId, journaled: Result<(), StoreError>) {
    if let Err(error) = journaled {
        tracing::error!(%request, %error, "the end of a call was not journaled");
    }
}

impl<H: Borrow<Hub>> Drop for Ended<H> {
    fn drop(&mut self) {
        let (hub, call) = (self.hub.borrow(), &self.ending.call);
        hub.of_client(call.head.client(), |table| {
            table.metrics.finished(call);
            if self.is_journaled {
                table.finished.journaled(&call.head.request);
            }
        });
        self.ending.waiters.tell(call);
        hub.changed_if_draining();
        if let Some(writing) = self.writing.take() {
            // Whoever waited for it has gone; what comes of it counts all the same.
            let (own, head) = (hub.clone(), call.head.clone());
            let journaling = async move {
                let written = writing.await;
                if written.is_ok() {
                    own.of_client(head.client(), |table| table.finished.journaled(&head.request));
                }
                log_failure(&head.request, written);
            };
            hub.0.tasks.spawn_on(journaling, &hub.0.runtime);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
