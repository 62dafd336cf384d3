//! Why an operation failed, and what that means to whoever asked for it.

use handback_core::id::RunId;
use handback_core::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("{}", said(.0))]
    Postgres(#[from] Error),
    #[error("the {table} {id} cannot be read: {cause}")]
    Row { table: &'static str, id: String, cause: String },
    #[error("it cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("event {first} of the run {run} cannot be kept: only {stored} are kept before it")]
    Gap { run: RunId, first: usize, stored: String },
    #[error("the message has too many parts")]
    TooManyParts,
    #[error("earlier writes wait until they can be written")]
    Behind,
    #[error("it did not answer within {0} s")]
    Silent(u64),
    /// No connection can be had, for whatever reason: it may pass.
    #[error("{0}")]
    Unreachable(String),
    #[error("another server uses this database; each needs a database of its own")]
    InUse,
    #[error("the server does not know this statement")]
    Unprepared,
}

impl Fault {
    /// Whether the connection is of no use any more, and what was under way may or may not have been written.
    pub(super) fn is_lost_connection(&self) -> bool {
        match self {
            Self::Silent(_) | Self::Unreachable(_) | Self::InUse => true,
            Self::Postgres(error) => match error.code() {
                None => {
                    error.is_closed()
                        || std::error::Error::source(error).is_some_and(|cause| cause.is::<std::io::Error>())
                }
                // The database goes down, and says so before it closes the connection.
                Some(code) => code.code().starts_with("57P") || code.code().starts_with("08"),
            },
            _ => false,
        }
    }

    /// Whether a connection broke while something was under way, so that another one may do better.
    pub(super) fn is_broken_connection(&self) -> bool {
        matches!(self, Self::Postgres(_)) && self.is_lost_connection()
    }

    /// Whether PostgreSQL knows of it, and rolls the transaction back.
    pub(super) fn is_of_postgres(&self) -> bool {
        matches!(self, Self::Postgres(_) | Self::Gap { .. })
    }

    /// The fault as the error of the store.
    pub(super) fn store_error(&self, database: &str) -> StoreError {
        let cause = format!("{database}: {self}");
        match self {
            Self::Behind | Self::Silent(_) | Self::Unreachable(_) | Self::InUse => StoreError::Unavailable(cause),
            Self::Postgres(error) => match error.code() {
                Some(code) if *code == SqlState::DISK_FULL => StoreError::Full(cause),
                Some(code) if is_passing(code) => StoreError::Unavailable(cause),
                None if self.is_lost_connection() => StoreError::Unavailable(cause),
                _ => StoreError::Failed(cause),
            },
            _ => StoreError::Failed(cause),
        }
    }
}

/// Whether the same statement may succeed later: the database is short of something, goes down, fails over, or two
/// transactions were in each other's way.
fn is_passing(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "55" | "57") || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// What PostgreSQL says, without the words that the driver puts around it.
fn said(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => said.message().to_owned(),
        (None, Some(cause)) => cause.to_string(),
        (None, None) => error.to_string(),
    }
}
