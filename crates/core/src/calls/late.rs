//! Answers to calls that are over: a repeated answer is known, another one is refused, and one that comes too late is kept.

use std::sync::Arc;

use crate::calls::delegate::{Actor, Answerer, NotTaken, Taken};
use crate::calls::hub::Hub;
use crate::calls::trail;
use crate::events::Event;
use crate::id::RequestId;
use crate::store::{FinishedCall, Outcome, OutcomeKind};

impl Hub {
    /// Judges an answer to a call that the table has forgotten, or that ended in an earlier process.
    pub(super) async fn answer_finished(
        &self,
        request: &RequestId,
        actor: &Actor,
        answerer: Answerer<'_>,
        outcome: Outcome,
    ) -> Result<Taken, NotTaken> {
        if let Some(unjournaled) = self.unjournaled(request) {
            // A late result can be kept with a call that the journal has. The end that counts is read next.
            self.journal_now(&unjournaled).await?;
        }
        let call = self.finished(request).await?.ok_or(NotTaken::Unknown)?;
        if !actor.may_touch(call.head.client(), &call.head.session) {
            return Err(NotTaken::Forbidden);
        }
        if !answerer.takes(call.head.tool.executor) {
            return Err(NotTaken::Unknown);
        }
        match call.outcome.answer_hash() {
            None => {
                // A frontend that says that it was too late has no result.
                let is_result = outcome.kind() != OutcomeKind::Timeout;
                let might_have = call.may_have_run && answerer.may_answer(call.claimant.as_deref());
                if is_result && might_have && self.0.store.keep_late(request, outcome.clone()).await? {
                    trail::late(&call.head, &outcome);
                    let call = FinishedCall { late: Some(outcome), ..FinishedCall::clone(&call) };
                    self.emit(Event::Late(Arc::new(call)));
                }
                Err(NotTaken::Over)
            }
            taken if taken == outcome.answer_hash() => Ok(Taken::Again),
            Some(_) => Err(NotTaken::Conflict),
        }
    }
}
