//! Tools that frontends run. Every frontend that shows the session shows the call; one of them claims it and reports
//! how it went.
//!
//! Such a call is in the table like any other, under the id that its session has for it, before anybody can see it: an
//! ack cannot come too early. It waits for no connection, only for its ack or its deadline.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::calls::delegate::{Actor, Answerer, NotTaken, Taken, not_yet};
use crate::calls::hub::Hub;
use crate::calls::table::Table;
use crate::calls::trail;
use crate::id::RequestId;
use crate::store::{Ack, CallHead, Executor, FinishedCall, IfFull, Outcome, StoreFuture, ToolSpec};

/// How long a frontend has if neither the tool nor the call says.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest time that a frontend may take. Longer timeouts are cut to it.
pub const LARGEST_TIMEOUT: Duration = Duration::from_hours(24);

/// Converts seconds to a timeout: less than one second is the default, more than a day is a day.
pub fn timeout_of(seconds: f64) -> Duration {
    if seconds >= LARGEST_TIMEOUT.as_secs_f64() {
        LARGEST_TIMEOUT
    } else if seconds >= 1.0 {
        Duration::from_secs_f64(seconds)
    } else {
        DEFAULT_TIMEOUT
    }
}

/// How long a call with this input may take. Its own `timeoutSec` overrides the tool's.
pub(crate) fn timeout_for(spec: &ToolSpec, input: &RawValue) -> Duration {
    #[derive(Deserialize)]
    struct Input {
        #[serde(rename = "timeoutSec")]
        seconds: Option<f64>,
    }
    // Anything but a number of seconds is ignored here; the schema says whether it is valid.
    let asked = serde_json::from_str(input.get()).ok().and_then(|Input { seconds }| seconds);
    asked.map(timeout_of).or(spec.timeout).unwrap_or(DEFAULT_TIMEOUT)
}

/// What a frontend wants of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Claim {
    /// Nobody else may run the call.
    Take,
    /// Others may run the call again.
    Release,
}

/// A claim that was changed, and is not stored yet.
struct ChangedClaim {
    head: Arc<CallHead>,
    /// The claim before.
    before: Option<Box<str>>,
    writing: StoreFuture<()>,
}

impl Hub {
    /// Takes a frontend's report of how a call went. `claimant` is the frontend's name, if it has one: it cannot answer
    /// a call that another one has claimed.
    pub async fn acknowledge(
        &self,
        request: &RequestId,
        actor: &Actor,
        claimant: Option<&str>,
        ack: Ack,
    ) -> Result<Taken, NotTaken> {
        self.answer_call(request, actor, Answerer::Frontend(claimant), Outcome::Acknowledged(ack)).await
    }

    /// Claims a call, so that only this frontend runs it, or releases it. Claiming twice is the same as once. A claim
    /// counts for later processes, too.
    pub async fn claim(
        &self,
        request: &RequestId,
        actor: &Actor,
        claimant: &str,
        claim: Claim,
    ) -> Result<(), NotTaken> {
        let ChangedClaim { head, before, writing } = match self.change_claim(request, actor, claimant, claim) {
            // It may have ended in an earlier process.
            Err(NotTaken::Unknown) => {
                let is_it = |call: &Arc<FinishedCall>| call.head.tool.executor == Executor::Frontend;
                let over = self.finished(request).await?.filter(is_it).ok_or(NotTaken::Unknown)?;
                let touchable = actor.may_touch(over.head.client(), &over.head.session);
                return Err(if touchable { NotTaken::Over } else { NotTaken::Forbidden });
            }
            changed => changed?,
        };
        if let Err(error) = writing.await {
            let undo = |table: &mut Table| table.calls.get_mut(request).map(|call| call.claimant = before);
            self.of_call(request, undo);
            return Err(error.into());
        }
        match claim {
            Claim::Take => trail::claimed(&head),
            Claim::Release => trail::released(&head),
        }
        Ok(())
    }

    /// Changes the claim on a call.
    fn change_claim(
        &self,
        request: &RequestId,
        actor: &Actor,
        claimant: &str,
        claim: Claim,
    ) -> Result<ChangedClaim, NotTaken> {
        self.of_call_in_time(request, |table| {
            let Some(call) = table.calls.get_mut(request) else {
                let over =
                    table.finished.get(request, Instant::now()).filter(|call| call.executor == Executor::Frontend);
                let over = over.ok_or(NotTaken::Unknown)?;
                let touchable = actor.may_touch(&over.client, &over.session);
                return Err(if touchable { NotTaken::Over } else { NotTaken::Forbidden });
            };
            if call.head.tool.executor != Executor::Frontend {
                return Err(NotTaken::Unknown);
            }
            if !actor.may_touch(call.head.client(), &call.head.session) {
                return Err(NotTaken::Forbidden);
            }
            if let Some(why) = not_yet(call) {
                return Err(why);
            }
            if call.claimant.as_deref().is_some_and(|other| other != claimant) {
                return Err(NotTaken::Claimed);
            }
            let changed = (claim == Claim::Take).then(|| claimant.into());
            let before = std::mem::replace(&mut call.claimant, changed);
            let writing = self.0.store.change(&call.journaled(call.noted), IfFull::Fails);
            Ok(ChangedClaim { head: call.head.clone(), before, writing })
        })
    }
}

#[cfg(test)]
mod tests;
