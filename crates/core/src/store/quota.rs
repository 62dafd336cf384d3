//! Quotas: how much may be kept before nothing new is begun.

use super::{SessionStore, StoreError};
use crate::id::ClientId;
use crate::limits::Quotas;

/// How much is kept: sessions with their messages, runs and events. Finished calls have a bound of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageUsed {
    /// Sessions of the client.
    pub client_sessions: u64,
    /// About how many bytes they take.
    pub client_bytes: u64,
    /// About how many bytes all sessions take, those without a client too.
    pub bytes: u64,
}

impl Quotas {
    /// Whether a client, or nobody in particular, may begin something.
    pub(crate) async fn must_allow(
        &self,
        store: &dyn SessionStore,
        client: Option<&ClientId>,
        what: Beginning,
    ) -> Result<(), StoreError> {
        // Where the oldest goes instead, nobody is refused.
        if !store.keeps_all() {
            return Ok(());
        }
        let usage = store.usage(client).await?;
        if usage.bytes >= self.bytes {
            return Err(QuotaExceeded::Bytes { most: self.bytes }.into());
        }
        let Some(client) = client.cloned() else { return Ok(()) };
        if usage.client_bytes >= self.client_bytes {
            return Err(QuotaExceeded::ClientBytes { client, most: self.client_bytes }.into());
        }
        if what == Beginning::Session && usage.client_sessions >= self.client_sessions {
            return Err(QuotaExceeded::ClientSessions { client, most: self.client_sessions }.into());
        }
        Ok(())
    }
}

/// What is begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// A session.
    Session,
    /// Something in a session that is there.
    InSession,
}

/// Which quota is used up. The words are for whoever is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaExceeded {
    /// Sessions of a client.
    #[error("client {client} has as many sessions as limits.sessionsPerClient allows ({most}); delete some of them")]
    ClientSessions {
        /// The client.
        client: ClientId,
        /// How many it may have.
        most: u64,
    },
    /// Bytes of a client.
    #[error(
        "the sessions of client {client} take as many bytes as limits.sessionBytesPerClient allows ({most}); delete \
         some of them"
    )]
    ClientBytes {
        /// The client.
        client: ClientId,
        /// How many they may take.
        most: u64,
    },
    /// Bytes in all.
    #[error(
        "the sessions on this server take as many bytes as limits.sessionBytes allows ({most}); delete some of them"
    )]
    Bytes {
        /// How many they may take.
        most: u64,
    },
}
