//! Ids that prompts bring along, from when one is looked up until its message is kept: of two prompts at once with the
//! same id, one waits until it is known what became of the other.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::id::{MessageId, SessionId};
use crate::sharded::Sharded;

type Id = (SessionId, MessageId);

/// The ids that are claimed. There are never more than requests under way.
#[derive(Debug, Default, Clone)]
pub(super) struct Claims(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    ids: Sharded<Id, ()>,
    /// An id is free again.
    free: Notify,
}

/// A claim; dropping it gives the id free.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Claims,
    id: Id,
}

impl Claims {
    /// Claims the id of a session that is made, filled or forgotten; waits while somebody else does.
    pub(super) async fn claim_session(&self, session: &SessionId) -> Claim {
        // No message has an empty id.
        self.claim(session, &MessageId::default()).await
    }

    /// Claims the id of a message; waits while somebody else does.
    pub(super) async fn claim(&self, session: &SessionId, message: &MessageId) -> Claim {
        let id = (session.clone(), message.clone());
        loop {
            let free = self.0.free.notified();
            tokio::pin!(free);
            // Listens before it looks, so that no change is missed in between.
            free.as_mut().enable();
            if self.0.ids.of(&id).insert(id.clone(), ()).is_none() {
                return Claim { claims: self.clone(), id };
            }
            free.await;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.claims.0.ids.of(&self.id).remove(&self.id);
        self.claims.0.free.notify_waiters();
    }
}
