//! The path of a call: it is made, offered to one connection of its client, and ends in exactly one way.
//!
//! ```text
//! delegate  1 check the input against the tool's schema; rate limit
//!           2 enter it in the table with its waiter; journal it
//!           3 permission: deny ends it, ask waits on the approval clock        (approval.rs has the answers)
//!           4 admit it: its id goes to one connection's outbox     (connection.rs takes it from there)
//! complete  1 may this caller answer this call?
//!           2 the table: first writer wins   3 journal   4 wake the waiter
//! resume    the waiter gives the outcome; housekeeping ends calls that are out of time
//! ```
//!
//! Result, timeout, cancel and disconnect all end the same entry of the table. Only the first of them finds it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::approval::{Asked, OpenAsk};
use crate::calls::finished::End;
use crate::calls::hub::Hub;
use crate::calls::open_call::{Entered, Identity, Known, OpenCall};
use crate::calls::pending::{PendingCall, Stage};
use crate::calls::shards::Lifecycle;
use crate::calls::table::{Ending, Table};
use crate::calls::trail;
use crate::id::{CallId, ClientId, ConnectionName, MessageId, RequestId, SessionId};
use crate::schema::{InputError, one_line};
use crate::store::{
    Ask, Begun, CallHead, Cancellation, Ended, Executor, FinishedCall, IfFull, JournaledCall, Origin, Outcome,
    StoreError, Tool,
};
use crate::tools::Permission;

/// A call to make.
#[derive(Debug)]
pub struct NewCall {
    /// The tool to call.
    pub callee: Callee,
    /// The call's id; generated when `None`.
    pub request: Option<RequestId>,
    /// The session that the call belongs to.
    pub session: SessionId,
    /// The message that the call belongs to.
    pub message: MessageId,
    /// The caller's own id of the call.
    pub call: CallId,
    /// The input.
    pub input: Box<RawValue>,
    /// How long the call may take; `None` means the tool's own timeout or the default.
    pub timeout: Option<Duration>,
    /// Who asks for the call.
    pub origin: Origin,
    /// Whether the call is allowed.
    pub permission: Permission,
    /// The preferred connection: only it is offered the call, as long as it is connected.
    pub connection: Option<ConnectionName>,
}

/// The tool to call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Callee {
    /// A tool that a client has registered.
    Registered {
        /// The tool's full id.
        tool: String,
        /// The client that has the tool, or `None` for any. Two clients may have the same tool id one after the other.
        client: Option<ClientId>,
    },
    /// A frontend tool, which needs no registration.
    Frontend(Arc<Tool>),
    /// A tool with this id that is gone. The call can only be joined.
    Gone(String),
}

/// Why a call was refused. Nothing was changed and no client knows of it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Nobody offers such a tool.
    #[error("there is no tool {0}")]
    UnknownTool(String),
    /// The tool does not accept that input.
    #[error("{0}")]
    InvalidInput(#[from] InputError),
    /// Another call has this id, or had it.
    #[error("the requestID {0} is in use for another call; choose another or leave it out")]
    DuplicateRequest(RequestId),
    /// A call had this id, and how it ended is no longer known.
    #[error("the call {0} is over, and its outcome is no longer kept; choose another requestID")]
    Forgotten(RequestId),
    /// The client got too many calls in a minute.
    #[error("too many calls for this client; try again in {} s", .retry_after.as_secs_f64().ceil())]
    RateLimited {
        /// How long to wait before a retry.
        retry_after: Duration,
    },
    /// The client has too many open calls.
    #[error("too many calls are under way; try again later")]
    Overloaded,
    /// The server is stopping.
    #[error("the server is shutting down")]
    ShuttingDown,
    /// The journal failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Refusal {
    /// The reason as a word, for the log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::UnknownTool(_) => "unknown_tool",
            Self::InvalidInput(_) => "invalid_input",
            Self::DuplicateRequest(_) => "duplicate_request",
            Self::Forgotten(_) => "forgotten",
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::ShuttingDown => "shutting_down",
            Self::Store(_) => "store",
        }
    }
}

/// On whose behalf a call is answered, cancelled or allowed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Actor {
    /// The application, or anybody if no keys are used.
    Trusted,
    /// A client, perhaps limited to one session.
    Client {
        /// The client.
        client: ClientId,
        /// The only session, if there is a limit.
        session: Option<SessionId>,
    },
}

impl Actor {
    /// Whether the actor may touch a call of that client and session.
    pub fn may_touch(&self, client: &ClientId, session: &SessionId) -> bool {
        match self {
            Self::Trusted => true,
            Self::Client { client: own, session: only } => {
                own == client && only.as_ref().is_none_or(|only| only == session)
            }
        }
    }
}

/// A result that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// The result ended the call.
    First,
    /// The same result had already ended the call.
    Again,
}

/// Why a result or a cancel was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// There is no such call.
    #[error("Unknown request ID")]
    Unknown,
    /// The call belongs to another client.
    #[error("this is not your call")]
    Forbidden,
    /// Another result was accepted.
    #[error("another result was taken for this call")]
    Conflict,
    /// The call is over.
    #[error("the call is over")]
    Over,
    /// The call still waits for its ask.
    #[error("the call waits to be allowed; it cannot be answered yet")]
    NotAllowedYet,
    /// Another frontend has claimed the call.
    #[error("another one has claimed this call")]
    Claimed,
    /// The journal failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NotTaken {
    /// The reason as a word, for the log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Forbidden => "forbidden",
            Self::Conflict => "conflict",
            Self::Over => "over",
            Self::NotAllowedYet => "not_allowed_yet",
            Self::Claimed => "claimed",
            Self::Store(_) => "store",
        }
    }
}

impl Hub {
    /// Makes a call, or joins the same call if it was made before. When this returns, the call is in the table and on its
    /// way, or over.
    // Not an `async fn`: its future would have the call twice.
    pub fn open(&self, new: NewCall) -> impl Future<Output = Result<OpenCall, Refusal>> + Send {
        let known = new.request.as_ref().map_or(Known::No, |request| self.join(request, &Identity::from(&new)));
        let tool = match &new.callee {
            Callee::Frontend(tool) => Ok(tool.clone()),
            Callee::Registered { tool: id, client } => {
                let meant = |tool: &Arc<Tool>| client.as_ref().is_none_or(|client| *client == tool.client);
                self.tool(id).filter(meant).ok_or_else(|| Refusal::UnknownTool(id.clone()))
            }
            Callee::Gone(id) => Err(Refusal::UnknownTool(id.clone())),
        };
        async move {
            if !matches!(known, Known::No) {
                // Boxed: this is rare, and would enlarge the future of every call.
                let joining = self.joined(known, new.request.as_ref(), Identity::from(&new));
                if let Some(joined) = Box::pin(joining).await {
                    return joined;
                }
            }
            let (limits, is_chosen) = (self.limits(), new.request.is_some());
            let checked = match tool {
                Ok(tool) => match self.schemas().check(&tool.spec.schema, &new.input, limits).await {
                    Ok(()) => Ok(tool),
                    Err(unfit) => Err(unfit.into()),
                },
                Err(refusal) => Err(refusal),
            };
            let tool = match checked {
                Ok(tool) => tool,
                Err(refusal) => {
                    return Box::pin(self.join_finished_or_refuse(new.request.as_ref(), Identity::from(&new), refusal))
                        .await;
                }
            };
            let (now, created) = (Instant::now(), self.0.clock.now());
            let timeout =
                new.timeout.or(tool.spec.timeout).unwrap_or(limits.clocks.default_timeout).min(limits.largest_timeout);
            let head = Arc::new(CallHead {
                request: new.request.unwrap_or_else(|| self.request_id(&tool.client)),
                session: new.session,
                message: new.message,
                call: new.call,
                origin: new.origin,
                connection: new.connection,
                tool,
                input: one_line(new.input),
                timeout,
                created,
                deadline: created + timeout,
                expires: now + timeout,
            });

            let (ask, asked) = self.question(new.permission, &head);
            let mut journaled = JournaledCall::new(head.clone());
            journaled.ask = asked.as_ref().map(|asked| (asked.ask.id.clone(), asked.ask.created));
            journaled.denied = (new.permission == Permission::Deny).then(|| NOT_ALLOWED.into());
            let ended;
            (ended, journaled.offered) = match self.enter(&head, new.permission, now) {
                // Another caller may just have made the same call.
                Err(Refusal::DuplicateRequest(_)) => {
                    match Box::pin(self.enter_or_join(&head, new.permission, now)).await {
                        Entered::New(ended, offered) => (ended, offered),
                        Entered::Joined(joined) => return joined,
                    }
                }
                Err(Refusal::ShuttingDown) => return Err(Refusal::ShuttingDown),
                Err(refusal) => {
                    let request = is_chosen.then_some(&head.request);
                    return Box::pin(self.join_finished_or_refuse(request, Identity::from(&*head), refusal)).await;
                }
                Ok(entered) => entered,
            };
            let is_allowed = new.permission == Permission::Allow;
            let open = OpenCall { hub: self.clone(), asked, is_allowed, ended, over: false, head };
            trail::opened(&open.head);
            // A turn waits if the disk is full. An application can try again.
            let if_full = if new.origin == Origin::Model { IfFull::Waits } else { IfFull::Fails };
            let begun = self.0.store.begin(&journaled, if_full);
            drop(journaled);
            let refusal = match begun.await {
                Ok(Begun::New) => None,
                // The id was chosen, and used before. The table has forgotten that, but the journal has not.
                Ok(Begun::Before(call)) => return open.replace(call),
                Ok(Begun::Gone) => Some(Refusal::Forgotten(open.head.request.clone())),
                Err(error) => Some(error.into()),
            };
            if let Some(refusal) = refusal {
                open.withdraw();
                return Err(refusal);
            }
            if let Some(ask) = open.ask() {
                trail::asked(&open.head, ask);
            }
            // Without an ask, the time that the journal took counts as time in the queue.
            let permit = |table: &mut Table| permit(table, &open.head, new.permission, ask, now);
            self.of_client(open.head.client(), permit);
            if new.permission == Permission::Deny
                && let Some(ending) = self.end(&open.head, Outcome::Denied(NOT_ALLOWED.to_owned()))
            {
                // Boxed: this is rare, and would enlarge the future of every call.
                Box::pin(self.journal_or_log(ending)).await;
            }
            Ok(open)
        }
    }

    /// Enters a call in the table. Returns its waiter, and the number of the first offer if somebody can take it at once.
    /// Nobody can answer it before it is journaled and permitted.
    pub(super) fn enter(
        &self,
        head: &Arc<CallHead>,
        permission: Permission,
        now: Instant,
    ) -> Result<(oneshot::Receiver<Arc<FinishedCall>>, u32), Refusal> {
        let (client, request, limits) = (head.client(), &head.request, self.limits());
        let (waiter, ended) = oneshot::channel();
        let shards = &self.0.shards;
        if !shards.take(request, client) {
            return Err(Refusal::DuplicateRequest(request.clone()));
        }
        let entered = self.of_client(client, |table| {
            // A turn under way may go on for a while, if what it does not finish is left to the next process.
            let goes_on = head.origin == Origin::Model && self.0.store.is_lasting();
            match table.common.lifecycle() {
                Lifecycle::Serving => {}
                Lifecycle::Draining if goes_on => {}
                _ => return Err(Refusal::ShuttingDown),
            }
            // The tool was found before, but may have gone with its client.
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
            let rate = match head.origin {
                Origin::Model => &table.model_rate,
                Origin::Application => &table.execute_rate,
            };
            // The last check: a refused call does not count.
            rate.check(client).map_err(|retry_after| Refusal::RateLimited { retry_after })?;
            // If nobody can take the call now, its first offer is journaled when somebody can.
            let is_lasting = self.0.store.is_lasting();
            let offered = if permission == Permission::Allow && (!is_lasting || table.has_taker(head)) { 1 } else { 0 };
            let noted = if is_lasting { offered } else { u32::MAX };
            Ok((table.enter(head.clone(), noted, Some(waiter), now), offered))
        });
        match entered {
            Ok((number, offered)) => {
                shards.entered(request, client, number);
                Ok((ended, offered))
            }
            Err(refusal) => {
                shards.not_entered(request, client);
                Err(refusal)
            }
        }
    }

    /// The ask that a call needs, if any: the part for the table, and the part for the caller.
    fn question(&self, permission: Permission, head: &Arc<CallHead>) -> (Option<OpenAsk>, Option<Asked>) {
        if permission != Permission::Ask {
            return (None, None);
        }
        let ask = Ask { id: self.0.clock.permission_id(), call: head.clone(), created: self.0.clock.time() };
        let mut open = OpenAsk { ask: Arc::new(ask), tell: Vec::new() };
        let asked = open.follow();
        (Some(open), Some(asked))
    }

    /// Takes a client's answer to a call.
    pub async fn complete(&self, request: &RequestId, actor: &Actor, outcome: Outcome) -> Result<Taken, NotTaken> {
        self.answer_call(request, actor, Answerer::Client, outcome).await
    }

    /// Takes an answer to a call, and journals it. It counts after that.
    pub(crate) async fn answer_call(
        &self,
        request: &RequestId,
        actor: &Actor,
        answerer: Answerer<'_>,
        outcome: Outcome,
    ) -> Result<Taken, NotTaken> {
        let taken = self.take_answer(request, actor, answerer, outcome).await;
        trail::answered(request, &taken);
        taken
    }

    async fn take_answer(
        &self,
        request: &RequestId,
        actor: &Actor,
        answerer: Answerer<'_>,
        outcome: Outcome,
    ) -> Result<Taken, NotTaken> {
        let mut outcome = Some(outcome);
        let decided = match self.decide(request, actor, answerer, &mut outcome) {
            // Boxed: this is rare, and would enlarge the future of every answer.
            Err(why @ (NotTaken::Unknown | NotTaken::Over)) => {
                let Some(outcome) = outcome else { return Err(why) };
                let judged = Box::pin(self.answer_finished(request, actor, answerer, outcome)).await;
                // The table may know more: the call may have been deleted with its session.
                return if let Err(NotTaken::Unknown) = judged { Err(why) } else { judged };
            }
            decided => decided?,
        };
        match decided {
            // Journaled first: a result that was acknowledged is never lost.
            Decided::Ended(ending) => {
                let call = ending.call.clone();
                match self.journal(ending).await? {
                    Ended::First => Ok(Taken::First),
                    // Another table that shares the store was first.
                    Ended::Before(_) | Ended::Gone => {
                        Box::pin(self.answer_finished(request, actor, answerer, call.outcome.clone())).await
                    }
                }
            }
            Decided::Before(None) => Ok(Taken::Again),
            // Journaling the first answer failed, or is in progress: the journal stores it once.
            Decided::Before(Some(unjournaled)) => match (self.journal_now(&unjournaled).await?, outcome) {
                (Ended::First, _) | (_, None) => Ok(Taken::Again),
                (_, Some(outcome)) => Box::pin(self.answer_finished(request, actor, answerer, outcome)).await,
            },
        }
    }

    /// Cancels a call.
    pub async fn cancel(&self, request: &RequestId, actor: &Actor, reason: String) -> Result<(), NotTaken> {
        let cancelled = self.take_cancel(request, actor, reason).await;
        trail::cancelled(request, &cancelled);
        cancelled
    }

    async fn take_cancel(&self, request: &RequestId, actor: &Actor, reason: String) -> Result<(), NotTaken> {
        let outcome = Outcome::Cancelled(Cancellation::Requested(reason));
        match self.decide(request, actor, Answerer::Anybody, &mut Some(outcome)) {
            Ok(Decided::Ended(ending)) => match self.journal(ending).await? {
                Ended::First => Ok(()),
                Ended::Before(_) | Ended::Gone => Err(NotTaken::Over),
            },
            Ok(Decided::Before(_)) => Err(NotTaken::Over),
            // A call is listed for longer than its answer is remembered.
            Err(NotTaken::Unknown) => match self.finished(request).await? {
                None => Err(NotTaken::Unknown),
                Some(call) if actor.may_touch(call.head.client(), &call.head.session) => Err(NotTaken::Over),
                Some(_) => Err(NotTaken::Forbidden),
            },
            Err(why) => Err(why),
        }
    }

    /// Ends a call on an actor's behalf with this outcome, which is taken, or says why not.
    pub(crate) fn decide(
        &self,
        request: &RequestId,
        actor: &Actor,
        answerer: Answerer<'_>,
        outcome: &mut Option<Outcome>,
    ) -> Result<Decided, NotTaken> {
        let now = Instant::now();
        let answer = outcome.as_ref().and_then(Outcome::answer_hash);
        self.of_call_in_time(request, |table| {
            if let Some(call) = table.calls.get(request) {
                if !actor.may_touch(call.head.client(), &call.head.session) {
                    return Err(NotTaken::Forbidden);
                }
                if !answerer.takes(call.head.tool.executor) {
                    return Err(NotTaken::Unknown);
                }
                if let Some(why) = not_yet(call).filter(|_| answer.is_some()) {
                    return Err(why);
                }
                if !answerer.may_answer(call.claimant.as_deref()) {
                    return Err(NotTaken::Claimed);
                }
                let outcome = outcome.take().ok_or(NotTaken::Unknown)?;
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

/// Why a call cannot be answered or claimed yet, if that is so. One that is made just now, and is not journaled yet, has been
/// seen by nobody; but the journal may know that it ended in an earlier process.
pub(super) fn not_yet(call: &PendingCall) -> Option<NotTaken> {
    let is_asked = call.asked.is_some();
    let why = || if is_asked { NotTaken::NotAllowedYet } else { NotTaken::Unknown };
    (call.stage == Stage::AwaitingApproval).then(why)
}

/// The role in which a call is answered: clients and frontends have separate endpoints.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Answerer<'a> {
    /// Any actor that may touch the call.
    Anybody,
    /// The client that was offered the call.
    Client,
    /// A frontend that shows the call, with the name that it claims calls by, if it has one.
    Frontend(Option<&'a str>),
}

impl Answerer<'_> {
    pub(super) fn takes(self, executor: Executor) -> bool {
        match self {
            Self::Anybody => true,
            Self::Client => executor == Executor::Client,
            Self::Frontend(_) => executor == Executor::Frontend,
        }
    }

    /// Whether this answerer may answer a call that `claimant` has claimed.
    pub(super) fn may_answer(self, claimant: Option<&str>) -> bool {
        match self {
            Self::Frontend(own) => claimant.is_none() || claimant == own,
            Self::Anybody | Self::Client => true,
        }
    }
}

/// The result of an attempt to end a call.
pub(crate) enum Decided {
    /// The attempt ended the call.
    Ended(Ending),
    /// The same result had already ended it. The call is here if the journal does not have it yet.
    Before(Option<Arc<FinishedCall>>),
}

/// The reason of a call that the policy denies, for the model.
pub(crate) const NOT_ALLOWED: &str = "This tool is not allowed here";

/// Lets a journaled call go on, or wait for its ask. A denied call stays where it is.
fn permit(table: &mut Table, head: &CallHead, permission: Permission, ask: Option<OpenAsk>, now: Instant) {
    match (permission, ask) {
        (Permission::Allow, _) => table.admit(&head.request, now),
        (Permission::Ask, Some(ask)) => table.ask(ask, now + table.common.limits.clocks.approval_timeout),
        _ => {}
    }
}

#[cfg(test)]
pub(crate) mod tests;
