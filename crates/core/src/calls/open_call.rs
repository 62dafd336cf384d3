//! A caller's side of a call: it waits for the outcome, and may join a call that was made before.

use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::approval::Asked;
use crate::calls::delegate::{Callee, NewCall, Refusal};
use crate::calls::hub::Hub;
use crate::calls::pending::Stage;
use crate::calls::table::Table;
use crate::calls::trail;
use crate::id::{CallId, MessageId, RequestId, SessionId};
use crate::schema::is_same_json;
use crate::store::{Ask, CallHead, FinishedCall, Origin, Outcome, StoreError};
use crate::tools::Permission;

/// How often a call tries to enter or to join while another caller holds its id. That takes moments.
const MOST_TRIES: usize = 1_000;

impl Hub {
    /// Joins the call with this id, if the table has it.
    pub(super) fn join(&self, request: &RequestId, new: &Identity<'_>) -> Known {
        let refused = || Known::Joined(Err(Refusal::DuplicateRequest(request.clone())));
        let known = self.of_call(request, |table| {
            let Some(call) = table.calls.get_mut(request) else {
                return match table.finished.get(request, Instant::now()).map(|over| over.unjournaled.clone()) {
                    None => Known::No,
                    Some(None) => Known::Over,
                    Some(Some(call)) if !new.is(&call.head) => refused(),
                    Some(Some(call)) => Known::Unjournaled(call),
                };
            };
            if !new.is(&call.head) {
                return refused();
            }
            call.callers += 1;
            let asked = call.ask.as_mut().map(|open| open.follow());
            let is_allowed = call.stage != Stage::AwaitingApproval;
            let (waiter, ended) = oneshot::channel();
            call.waiters.add(waiter);
            let head = call.head.clone();
            Known::Joined(Ok(OpenCall { hub: self.clone(), head, asked, is_allowed, ended, over: false }))
        });
        if let Known::Joined(Ok(open)) = &known {
            trail::joined(&open.head);
        }
        known
    }

    /// The call that was joined, if the table knows one.
    pub(super) async fn joined(
        &self,
        known: Known,
        request: Option<&RequestId>,
        new: Identity<'_>,
    ) -> Option<Result<OpenCall, Refusal>> {
        match known {
            Known::No => None,
            Known::Joined(joined) => Some(joined),
            Known::Over => Some(self.join_finished_or_refuse(request, new, Refusal::Forgotten(request?.clone())).await),
            // An outcome is told when it is journaled. The journal may know another one, of an earlier call with this id.
            Known::Unjournaled(call) => match self.journal_now(&call).await {
                Ok(_) => Some(self.join_finished_or_refuse(request, new, Refusal::Forgotten(request?.clone())).await),
                Err(error) => Some(Err(error.into())),
            },
        }
    }

    /// Makes or joins a call of an application, even if the caller goes away before it is journaled: another one may have
    /// joined it by then. A call that goes on does so whoever waits for it.
    pub async fn open_to_end(&self, new: NewCall, goes_on: bool) -> Result<OpenCall, Refusal> {
        let hub = self.clone();
        self.run_to_end(async move {
            let open = hub.open(new).await?;
            if goes_on {
                open.keep();
            }
            Ok(open)
        })
        .await
    }

    /// Joins the call with this id, if it is over and still known; otherwise the new call is refused. What stands in the way
    /// of a new call, such as a missing tool, does not keep anybody from the outcome of an earlier one.
    pub(super) async fn join_finished_or_refuse(
        &self,
        request: Option<&RequestId>,
        new: Identity<'_>,
        refusal: Refusal,
    ) -> Result<OpenCall, Refusal> {
        self.join_finished(request, new).await.unwrap_or(Err(refusal))
    }

    /// Joins the call with this id, if it is over and still known.
    async fn join_finished(&self, request: Option<&RequestId>, new: Identity<'_>) -> Option<Result<OpenCall, Refusal>> {
        let request = request?;
        match self.finished(request).await {
            Ok(call) => call.map(|call| match new.is(&call.head) {
                true => {
                    trail::joined(&call.head);
                    Ok(OpenCall::finished(self, call))
                }
                false => Err(Refusal::DuplicateRequest(request.clone())),
            }),
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Enters a call whose id was taken a moment ago, or joins the call that has taken it. A caller that has reserved an id
    /// enters its call at once, or gives the id back.
    pub(super) async fn enter_or_join(&self, head: &Arc<CallHead>, permission: Permission, now: Instant) -> Entered {
        let identity = || Identity::from(&**head);
        for _ in 0..MOST_TRIES {
            let known = self.join(&head.request, &identity());
            if let Some(joined) = self.joined(known, Some(&head.request), identity()).await {
                return Entered::Joined(joined);
            }
            match self.enter(head, permission, now) {
                Ok((ended, offered)) => return Entered::New(ended, offered),
                Err(Refusal::DuplicateRequest(_)) => tokio::task::yield_now().await,
                Err(refusal) => return Entered::Joined(Err(refusal)),
            }
        }
        Entered::Joined(Err(Refusal::DuplicateRequest(head.request.clone())))
    }
}

/// A call that was entered in the table, or joined, or refused.
pub(super) enum Entered {
    /// Its waiter, and the number of its first offer if somebody can take it at once.
    New(oneshot::Receiver<Arc<FinishedCall>>, u32),
    /// The call that was joined, or why neither was done.
    Joined(Result<OpenCall, Refusal>),
}

/// What the table knows of the id of a call that is made.
pub(super) enum Known {
    /// Nothing.
    No,
    /// The call was joined, or the id belongs to another one.
    Joined(Result<OpenCall, Refusal>),
    /// The same call is over, and is being journaled.
    Unjournaled(Arc<FinishedCall>),
    /// A call with this id is over, and the journal has it.
    Over,
}

/// What two calls with the same id must have in common to be the same call, made again.
pub(super) enum Identity<'a> {
    /// Of a model's call: its place in its session.
    Model(&'a SessionId, &'a MessageId, &'a CallId),
    /// Of an application's call: the tool and the input.
    Application(&'a str, &'a RawValue),
}

impl<'a> From<&'a NewCall> for Identity<'a> {
    fn from(new: &'a NewCall) -> Self {
        match (new.origin, &new.callee) {
            (Origin::Model, _) => Self::Model(&new.session, &new.message, &new.call),
            (_, Callee::Registered { tool, .. } | Callee::Gone(tool)) => Self::Application(tool, &new.input),
            (_, Callee::Frontend(tool)) => Self::Application(tool.id.as_str(), &new.input),
        }
    }
}

impl<'a> From<&'a CallHead> for Identity<'a> {
    fn from(head: &'a CallHead) -> Self {
        match head.origin {
            Origin::Model => Self::Model(&head.session, &head.message, &head.call),
            Origin::Application => Self::Application(head.tool.id.as_str(), &head.input),
        }
    }
}

impl Identity<'_> {
    fn is(&self, head: &CallHead) -> bool {
        match (self, Identity::from(head)) {
            (Self::Model(session, message, call), Identity::Model(of, in_message, known)) => {
                (*session, *message, *call) == (of, in_message, known)
            }
            (Self::Application(tool, input), Identity::Application(known, with)) => {
                *tool == known && is_same_json(input, with)
            }
            _ => false,
        }
    }
}

/// An open call, and the right to its outcome. When the last of its callers drops this, the call is cancelled and the
/// client is told, unless it was told to go on.
pub struct OpenCall {
    pub(super) hub: Hub,
    pub(super) head: Arc<CallHead>,
    pub(super) asked: Option<Asked>,
    pub(super) is_allowed: bool,
    pub(super) ended: oneshot::Receiver<Arc<FinishedCall>>,
    pub(super) over: bool,
}

impl OpenCall {
    /// A call that is over.
    fn finished(hub: &Hub, call: Arc<FinishedCall>) -> Self {
        let (tell, ended) = oneshot::channel();
        let (head, is_allowed) = (call.head.clone(), !matches!(call.outcome, Outcome::Denied(_)));
        // The receiver is here.
        _ = tell.send(call);
        Self { hub: hub.clone(), head, asked: None, is_allowed, ended, over: true }
    }

    /// Takes the call out of the table, because another call had its id. If that was the same call, gives its outcome.
    pub(super) fn replace(mut self, before: Arc<FinishedCall>) -> Result<Self, Refusal> {
        let is_same = Identity::from(&*self.head).is(&before.head);
        self.take_out(is_same.then_some(&before));
        match is_same {
            true => {
                trail::joined(&before.head);
                Ok(Self::finished(&self.hub, before))
            }
            false => Err(Refusal::DuplicateRequest(self.head.request.clone())),
        }
    }

    /// Takes the call out of the table, because it cannot be journaled. Whoever has joined it is told to ask again.
    pub(super) fn withdraw(mut self) {
        self.take_out(None);
    }

    /// Removes the call as if it had never been made. Whoever has joined it gets the outcome of the earlier call.
    fn take_out(&mut self, before: Option<&Arc<FinishedCall>>) {
        self.over = true;
        let removed = self.hub.of_client(self.head.client(), |table| table.withdraw(&self.head.request));
        if let (Some(mut waiters), Some(before)) = (removed, before) {
            waiters.tell(before);
        }
    }

    /// Lets the call go on to its deadline, whoever waits for it.
    fn keep(&self) {
        let keep = |table: &mut Table| table.calls.get_mut(&self.head.request).map(|call| call.is_kept = true);
        self.hub.of_client(self.head.client(), keep);
    }

    /// The call as it was made, or as it was approved.
    pub fn head(&self) -> &Arc<CallHead> {
        &self.head
    }

    /// The open ask of the call, if there is one.
    pub fn ask(&self) -> Option<&Arc<Ask>> {
        self.asked.as_ref().map(|asked| &asked.ask)
    }

    /// Waits until the call may go on, within the time for approvals if it has an ask. Returns whether it may; then its
    /// head has the approved input.
    pub async fn allowed(&mut self) -> bool {
        if let Some(asked) = &mut self.asked {
            // If the call ends without an answer, the sender is dropped with it.
            let answer = (&mut asked.approved).await;
            self.asked = None;
            if let Ok(head) = answer {
                self.head = head;
                self.is_allowed = true;
            }
        }
        self.is_allowed
    }

    /// Waits until the call ends, at its deadline at the latest. Fails if the server stops before, and the call goes on
    /// in the next process.
    pub async fn outcome(mut self) -> Result<Arc<FinishedCall>, Refusal> {
        match (&mut self.ended).await {
            Ok(finished) => {
                self.over = true;
                Ok(finished)
            }
            Err(_) if self.hub.is_leaving() => Err(Refusal::ShuttingDown),
            Err(_) => {
                self.over = true;
                let cause = "the call or its outcome cannot be stored yet";
                Err(StoreError::Unavailable(cause.to_owned()).into())
            }
        }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let left = self.hub.of_client(self.head.client(), |table| table.leave(&self.head.request, Instant::now()));
        if let Some(ending) = left {
            self.hub.journal_in_background(ending);
        }
    }
}
