//! The stores that last. The traits that they implement, and the store in memory, are in [`handback_core::store`].

mod forms;
pub mod postgres;
mod probe;
mod rank;
mod sqlite;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use handback_core::limits::Limits;
use handback_core::store::{MemoryStore, SessionStore, Store, StoreError};

use crate::config::{Config, Durability, Storage};

pub use self::postgres::Postgres;
pub use self::sqlite::{Bounds, Checked, Figures, Glance, OpenError, Sqlite, back_up, check, glance};

/// The database in its directory.
pub fn database_in(data: &Path) -> PathBuf {
    data.join("handback.db")
}

/// The store of a server.
pub enum ServerStore {
    /// In memory.
    Memory(Arc<MemoryStore>),
    /// In a file.
    File(Arc<Sqlite>),
    /// In a PostgreSQL database.
    Postgres(Arc<Postgres>),
}

/// Why the database of a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The file.
    #[error(transparent)]
    File(#[from] OpenError),
    /// The PostgreSQL database.
    #[error(transparent)]
    Postgres(#[from] postgres::OpenError),
}

impl ServerStore {
    /// Opens the database that the settings name.
    pub async fn open(config: &Config) -> Result<Self, DatabaseError> {
        Ok(match config.storage() {
            Storage::Memory => Self::Memory(Arc::new(MemoryStore::new(&config.limits))),
            Storage::Directory(directory) => {
                Self::File(Arc::new(Sqlite::open(&database_in(directory), file_bounds(config))?))
            }
            Storage::Postgres(url) => {
                Self::Postgres(Arc::new(Postgres::open(url.expose(), postgres_bounds(&config.limits)).await?))
            }
        })
    }

    /// The store.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Memory(store) => store.clone(),
            Self::File(store) => store.clone(),
            Self::Postgres(store) => store.clone(),
        }
    }

    /// Closes it after everything that it accepted is written.
    pub async fn close(&self) -> Result<(), StoreError> {
        match self {
            Self::Memory(_) => Ok(()),
            Self::File(store) => store.close().await,
            Self::Postgres(store) => store.close().await,
        }
    }

    /// Whether it can be written at the moment.
    pub async fn is_writable(&self) -> bool {
        match self {
            Self::Memory(_) => true,
            Self::File(store) => store.is_writable().await,
            Self::Postgres(store) => store.is_writable().await,
        }
    }

    /// How many bytes of sessions it keeps; `None` if it is in memory.
    pub async fn stored_bytes(&self) -> Result<Option<u64>, StoreError> {
        let used = match self {
            Self::Memory(_) => return Ok(None),
            Self::File(store) => store.usage(None),
            Self::Postgres(store) => store.usage(None),
        };
        Ok(Some(used.await?.bytes))
    }
}

/// The bounds of a file, from the settings.
fn file_bounds(config: &Config) -> Bounds {
    let limits = &config.limits;
    let bounds = Bounds::default();
    // A quota of 0 means no limit.
    let quota = if limits.session_bytes == 0 { u64::MAX } else { limits.session_bytes };
    Bounds {
        calls: limits.calls_on_disk,
        call_bytes: limits.call_bytes_on_disk,
        call_age: limits.calls_kept_for,
        waits_for_disk: config.durability == Durability::Power,
        // The file may grow far beyond the quota, so that turns under way still have room when the quota is used up.
        file_bytes: quota.saturating_mul(2).max(bounds.file_bytes),
        ..bounds
    }
}

/// The bounds of a PostgreSQL database, from the settings.
fn postgres_bounds(limits: &Limits) -> postgres::Bounds {
    postgres::Bounds {
        calls: limits.calls_on_disk,
        call_bytes: limits.call_bytes_on_disk,
        call_age: limits.calls_kept_for,
        ..postgres::Bounds::default()
    }
}
