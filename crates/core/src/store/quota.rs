//! Quotas: how much may be stored before nothing new may begin.

use super::{SessionStore, StoreError};
use crate::id::ClientId;
use crate::limits::Quotas;

/// How much is stored: sessions with their messages, runs and events. Finished calls have a separate bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StorageUsed {
    /// The number of the client's sessions.
    pub client_sessions: u64,
    /// The approximate size of the client's sessions.
    pub client_bytes: u64,
    /// The approximate size of all sessions, including those without a client.
    pub bytes: u64,
}

impl Quotas {
    /// Checks that something new may begin, for a client or without one.
    pub(crate) async fn must_allow(
        &self,
        store: &dyn SessionStore,
        client: Option<&ClientId>,
        what: Beginning,
    ) -> Result<(), StoreError> {
        // A store that drops the oldest sessions instead refuses nobody.
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

/// What is about to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// A new session.
    Session,
    /// Something new in an existing session.
    InSession,
}

/// The quota that is used up. The messages are for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuotaExceeded {
    /// The client has too many sessions.
    #[error("client {client} has as many sessions as limits.sessionsPerClient allows ({most}); delete some of them")]
    ClientSessions {
        /// The client.
        client: ClientId,
        /// How many sessions the client may have.
        most: u64,
    },
    /// The client's sessions take too many bytes.
    #[error(
        "the sessions of client {client} take as many bytes as limits.sessionBytesPerClient allows ({most}); delete \
         some of them"
    )]
    ClientBytes {
        /// The client.
        client: ClientId,
        /// How many bytes the client's sessions may take.
        most: u64,
    },
    /// All sessions together take too many bytes.
    #[error(
        "the sessions on this server take as many bytes as limits.sessionBytes allows ({most}); delete some of them"
    )]
    Bytes {
        /// How many bytes all sessions may take.
        most: u64,
    },
}
