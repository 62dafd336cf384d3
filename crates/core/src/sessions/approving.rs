//! Answers to asks, and tools that are allowed for as long as a session exists.

use std::sync::Arc;

use super::Sessions;
use crate::calls::{Actor, NotAnswered};
use crate::id::{PermissionId, SessionId};
use crate::store::{Answer, Ask, IfFull, Reply, Session, StoreError};

impl Sessions {
    /// Answers an ask. `Always` allows the tool as long as the session exists, and answers its other open asks too.
    pub async fn answer(&self, id: &PermissionId, actor: &Actor, answer: Answer) -> Result<Arc<Ask>, NotAnswered> {
        match answer.reply {
            Reply::Once | Reply::Reject => self.hub().answer(id, actor, answer).await,
            Reply::Always => self.hub().run_to_end(self.clone().always(id.clone(), actor.clone(), answer)).await,
        }
    }

    async fn always(self, id: PermissionId, actor: Actor, answer: Answer) -> Result<Arc<Ask>, NotAnswered> {
        let ask = self.hub().answer(&id, &actor, answer).await?;
        self.approve(&ask.call.session, ask.call.tool.id.as_str()).await?;
        for other in self.hub().asks(Some(&ask.call.session)) {
            if other.call.tool.id == ask.call.tool.id {
                let answer = Answer { reply: Reply::Once, input: None, message: None };
                match self.hub().answer(&other.id, &actor, answer).await {
                    // Somebody else has answered it first.
                    Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(ask)
    }

    /// Allows a tool as long as the session exists.
    pub(crate) async fn approve(&self, id: &SessionId, tool: &str) -> Result<(), StoreError> {
        loop {
            if let Some((_, saving)) = self.change(id, |session| session.approved.insert(tool.to_owned())) {
                return saving.await;
            }
            // No turn is running. The lock excludes other approvals and deletion.
            let _id_lock = self.0.id_locks.lock_session(id).await;
            let Some(stored) = self.find(id).await? else { return Ok(()) };
            let mut changed = Session::clone(&stored);
            changed.approved.insert(tool.to_owned());
            let saving = {
                let live = self.live(id);
                // Try again if the next turn has begun, or is over already.
                let known = self.0.held.get(id).and_then(|held| held.session());
                let is_stale = live.contains_key(id) || known.is_some_and(|known| known.updated != stored.updated);
                (!is_stale).then(|| self.0.held.save_session(&Arc::new(changed), IfFull::Fails))
            };
            match saving {
                Some(saving) => return saving.await,
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Whether a tool is allowed as long as the session exists.
    pub(crate) fn is_always_allowed(&self, id: &SessionId, tool: &str) -> bool {
        let live = self.live(id);
        let session = live.get(id).and_then(|live| live.session.as_ref());
        session.is_some_and(|session| session.approved.contains(tool))
    }
}
