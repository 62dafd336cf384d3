//! Asks: calls that wait for somebody to allow them. `sessions/approving.rs` handles answers that hold for later calls too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::delegate::Actor;
use crate::calls::frontend::timeout_for;
use crate::calls::hub::Hub;
use crate::calls::trail;
use crate::id::{PermissionId, SessionId};
use crate::schema::{InputError, one_line};
use crate::store::{Answer, Ask, CallHead, Executor, IfFull, JournaledCall, Outcome, Reply, StoreError};

/// Why an answer does not count. The ask stays open, unless the journal failed for good: then the call is denied.
#[derive(Debug, thiserror::Error)]
pub enum NotAnswered {
    /// There is no such ask, or it was answered, or its time is over.
    #[error("there is no open permission request {0}; it may have been answered or expired")]
    Unknown(PermissionId),
    /// The call belongs to another client.
    #[error("this is not your call")]
    Forbidden,
    /// The tool does not accept that input.
    #[error("`input` does not fit the tool's schema: {0}")]
    InvalidInput(#[from] InputError),
    /// The journal failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NotAnswered {
    /// The reason as a word, for the log.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "unknown",
            Self::Forbidden => "forbidden",
            Self::InvalidInput(_) => "invalid_input",
            Self::Store(_) => "store",
        }
    }
}

/// The caller's side of an ask.
pub(crate) struct Asked {
    pub(crate) ask: Arc<Ask>,
    /// Receives the head of the approved call, with the approved input and the new deadline.
    pub(crate) approved: oneshot::Receiver<Arc<CallHead>>,
}

/// An open ask in the table.
#[derive(Debug)]
pub(crate) struct OpenAsk {
    pub(crate) ask: Arc<Ask>,
    /// The callers who wait for the answer.
    pub(crate) tell: Vec<oneshot::Sender<Arc<CallHead>>>,
}

impl OpenAsk {
    /// Lets another caller wait for the answer.
    pub(crate) fn follow(&mut self) -> Asked {
        let (tell, approved) = oneshot::channel();
        self.tell.push(tell);
        Asked { ask: self.ask.clone(), approved }
    }
}

impl Hub {
    /// The open asks, oldest first.
    pub fn asks(&self, session: Option<&SessionId>) -> Vec<Arc<Ask>> {
        if !self.has_asks() {
            return Vec::new();
        }
        let mut asks: Vec<Arc<Ask>> = self.everywhere(|table| table.open_asks(session)).flatten().collect();
        asks.sort_by(|one, other| one.id.cmp(&other.id));
        asks
    }

    /// An open ask.
    pub fn ask(&self, id: &PermissionId) -> Option<Arc<Ask>> {
        if !self.has_asks() {
            return None;
        }
        self.everywhere(|table| table.find_ask(id)).find_map(|ask| ask)
    }

    /// Whether there is any open ask. Usually there is none, and the shards need not be searched.
    fn has_asks(&self) -> bool {
        self.0.shards.common().asks.load(Ordering::Acquire) > 0
    }

    /// Answers an ask: the call goes on, or ends as denied. The first answer counts.
    pub async fn answer(&self, id: &PermissionId, actor: &Actor, answer: Answer) -> Result<Arc<Ask>, NotAnswered> {
        let answered = self.take_reply(id, actor, answer).await;
        if let Err(why) = &answered {
            trail::reply_refused(id, why);
        }
        answered
    }

    async fn take_reply(&self, id: &PermissionId, actor: &Actor, answer: Answer) -> Result<Arc<Ask>, NotAnswered> {
        let unknown = || NotAnswered::Unknown(id.clone());
        let ask = self.ask(id).ok_or_else(unknown)?;
        if !actor.may_touch(ask.call.client(), &ask.call.session) {
            return Err(NotAnswered::Forbidden);
        }
        let (head, denied) = match answer.reply {
            Reply::Reject => {
                let message = answer.message.filter(|message| !message.trim().is_empty());
                (ask.call.clone(), Some(message.unwrap_or_else(|| "The user rejected this call".to_owned())))
            }
            _ => (self.approved(&ask.call, answer.input).await?, None),
        };
        // Journaled before it goes on or ends. The answer holds even if the caller goes away meanwhile.
        let open = self.of_call_in_time(&head.request, |table| table.take_ask(id)).ok_or_else(unknown)?;
        self.run_to_end(self.clone().carry_out(open, answer.reply, head, denied)).await?;
        Ok(ask)
    }

    /// A call as it goes on once it is approved, with this input if there is one.
    async fn approved(&self, call: &CallHead, input: Option<Box<RawValue>>) -> Result<Arc<CallHead>, InputError> {
        if let Some(input) = &input {
            self.schemas().check(&call.tool.spec.schema, input, self.limits()).await?;
        }
        let timeout = match (&input, call.tool.executor) {
            // The input of a frontend's call may set its timeout.
            (Some(input), Executor::Frontend) => timeout_for(&call.tool.spec, input).min(self.limits().largest_timeout),
            _ => call.timeout,
        };
        Ok(Arc::new(CallHead {
            input: input.map_or_else(|| call.input.clone(), one_line),
            timeout,
            deadline: self.0.clock.now() + timeout,
            expires: Instant::now() + timeout,
            ..CallHead::clone(call)
        }))
    }

    /// Journals the answer to an ask that was taken, and acts on it. If it cannot be journaled now, the ask is open again.
    async fn carry_out(
        self,
        open: OpenAsk,
        reply: Reply,
        head: Arc<CallHead>,
        denied: Option<String>,
    ) -> Result<(), StoreError> {
        let mut call = JournaledCall::new(head.clone());
        match &denied {
            Some(reason) => {
                call.ask = Some((open.ask.id.clone(), open.ask.created));
                call.denied = Some(reason.as_str().into());
            }
            None => call.offered = self.of_client(head.client(), |table| u32::from(table.has_taker(&head))),
        }
        let journaled = self.0.store.change(&call, IfFull::Fails).await;
        let denied = match (&journaled, denied) {
            (Ok(_), None) => {
                trail::allowed(&head, &open.ask);
                self.of_client(head.client(), |table| {
                    table.note(&head.request, call.offered);
                    table.approve(open, reply, head.clone(), Instant::now());
                });
                return Ok(());
            }
            (Ok(_), Some(reason)) => reason,
            (Err(error), _) if error.is_passing() => {
                self.of_client(head.client(), |table| {
                    let until = table.approval_ends(open.ask.created, self.0.clock.now(), Instant::now());
                    table.hold(open, until);
                });
                return journaled.map(drop);
            }
            (Err(_), _) => "The call could not be recorded by the server and was not made".to_owned(),
        };
        self.of_client(head.client(), |table| table.reject(&open.ask));
        if let Some(ending) = self.end(&head, Outcome::Denied(denied)) {
            self.journal_or_log(ending).await;
        }
        journaled.map(drop)
    }
}
