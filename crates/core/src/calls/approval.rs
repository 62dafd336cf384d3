//! Asks: calls that wait for somebody to allow them. `sessions/approving.rs` handles answers that hold for later calls too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::calls::delegate::Actor;
use crate::calls::frontend::timeout_for;
use crate::calls::hub::Hub;
use crate::calls::table::Ending;
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
        let unknown = || NotAnswered::Unknown(id.clone());
        let ask = self.ask(id).ok_or_else(unknown)?;
        if !actor.may_touch(ask.call.client(), &ask.call.session) {
            return Err(NotAnswered::Forbidden);
        }
        if answer.reply == Reply::Reject {
            let message = answer.message.filter(|message| !message.trim().is_empty());
            let reason = message.unwrap_or_else(|| "The user rejected this call".to_owned());
            let ending = self.deny(&ask, reason).ok_or_else(unknown)?;
            self.journal(ending).await?;
            return Ok(ask);
        }
        if let Some(input) = &answer.input {
            self.schemas().check(&ask.call.tool.spec.schema, input, self.limits()).await?;
        }
        let (now, wall) = (Instant::now(), self.0.clock.now());
        let timeout = match (&answer.input, ask.call.tool.executor) {
            // The input of a frontend's call may set its timeout.
            (Some(input), Executor::Frontend) => {
                timeout_for(&ask.call.tool.spec, input).min(self.limits().largest_timeout)
            }
            _ => ask.call.timeout,
        };
        let head = Arc::new(CallHead {
            input: answer.input.map_or_else(|| ask.call.input.clone(), one_line),
            timeout,
            deadline: wall + timeout,
            expires: now + timeout,
            ..CallHead::clone(&ask.call)
        });
        // Journaled with the approved input before it goes on. The answer holds even if the caller goes away meanwhile.
        let open = self.of_client(head.client(), |table| table.take_ask(id)).ok_or_else(unknown)?;
        let hub = self.clone();
        let approving = async move {
            let client = head.client().clone();
            let mut call = JournaledCall::new(head.clone());
            call.offered = hub.of_client(&client, |table| u32::from(table.has_taker(&head)));
            let journaled = hub.0.store.begin(&call, IfFull::Fails).await;
            match &journaled {
                Ok(_) => hub.of_client(&client, |table| {
                    table.note(&head.request, call.offered);
                    table.approve(open, answer.reply, head, Instant::now());
                }),
                Err(error) if error.is_passing() => hub.of_client(&client, |table| {
                    let until = table.approval_ends(open.ask.created, hub.0.clock.now(), Instant::now());
                    table.hold(open, until);
                }),
                Err(_) => {
                    hub.of_client(&client, |table| table.reject(&open.ask));
                    let reason = "The call could not be recorded by the server and was not made".to_owned();
                    if let Some(ending) = hub.end(&head, Outcome::Denied(reason)) {
                        hub.journal_or_log(ending).await;
                    }
                }
            }
            journaled
        };
        self.run_to_end(approving).await?;
        Ok(ask)
    }

    /// Ends a call that still waits for its ask.
    fn deny(&self, ask: &Ask, reason: String) -> Option<Ending> {
        self.of_client(ask.call.client(), |table| {
            table.find_ask(&ask.id)?;
            table.finish(&ask.call.request, Outcome::Denied(reason), None, Instant::now())
        })
    }
}
