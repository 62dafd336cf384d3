//! Locks on ids of messages and sessions. A prompt holds the lock of its message's id until the message is stored, so that
//! a second prompt with the same id waits for the first.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::id::{MessageId, SessionId};
use crate::sharded::Sharded;
use crate::until::until;

type Id = (SessionId, MessageId);

/// The locked ids. There are never more than requests in progress.
#[derive(Debug, Default, Clone)]
pub(super) struct IdLocks(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    ids: Sharded<Id, ()>,
    /// Notified when an id is released.
    free: Notify,
}

/// A lock on an id; dropping it releases the id.
#[derive(Debug)]
pub(super) struct IdLock {
    locks: IdLocks,
    id: Id,
}

impl IdLocks {
    /// Locks the id of a session that is created, filled or deleted; waits while somebody else holds the lock.
    pub(super) async fn lock_session(&self, session: &SessionId) -> IdLock {
        // The empty message id stands for the session: no message has it.
        self.lock(session, &MessageId::default()).await
    }

    /// Locks the id of a message; waits while somebody else holds the lock.
    pub(super) async fn lock(&self, session: &SessionId, message: &MessageId) -> IdLock {
        let id = (session.clone(), message.clone());
        until(&self.0.free, || self.0.ids.of(&id).insert(id.clone(), ()).is_none().then_some(())).await;
        IdLock { locks: self.clone(), id }
    }
}

impl Drop for IdLock {
    fn drop(&mut self) {
        self.locks.0.ids.of(&self.id).remove(&self.id);
        self.locks.0.free.notify_waiters();
    }
}
