//! Ids that prompts bring along, from when one is looked up until its message is kept: of two prompts at once with the
//! same id, one is taken.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ahash::HashSet;

use crate::id::{MessageId, SessionId};

type Id = (SessionId, MessageId);

/// The ids that are claimed. There are never more than requests under way.
#[derive(Debug, Default, Clone)]
pub(super) struct Claims(Arc<Mutex<HashSet<Id>>>);

/// A claim; dropping it gives the id free.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Claims,
    id: Id,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, HashSet<Id>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the id of a message; `None` if somebody else does.
    pub(super) fn claim(&self, session: &SessionId, message: &MessageId) -> Option<Claim> {
        let id = (session.clone(), message.clone());
        self.lock().insert(id.clone()).then(|| Claim { claims: self.clone(), id })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.id);
    }
}
