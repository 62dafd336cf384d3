//! The open file, as the writer sees it, and what its tables share.

use std::fs::File;

use handback_core::id::{InvalidId, RunId};
use handback_core::store::StoreError;
use rusqlite::config::DbConfig;
use rusqlite::types::Type;
use rusqlite::{Connection, Error, ErrorCode, Params, Row};
use serde::de::DeserializeOwned;

use super::Bounds;
use super::calls::{self, EndedCalls, Pruning};
use super::guard::Guard;
use super::messages::SavedMessages;
use super::usage::Counter;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error(transparent)]
    Sqlite(#[from] Error),
    #[error("the {table} {id} cannot be read: {cause}")]
    Row { table: &'static str, id: String, cause: Error },
    #[error("it cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("event {first} of the run {run} cannot be kept: only {stored} are kept before it")]
    Gap { run: RunId, first: usize, stored: i64 },
    #[error("the message has too many parts")]
    TooManyParts,
    #[error("SQLite keeps no write-ahead log there; its journal mode is {0}")]
    NoLog(String),
    #[error("earlier writes wait for room")]
    Behind,
    #[error("SQLite gave up the transaction")]
    TransactionLost,
    #[error("another program reads it; what was written last is in the log beside it, and must be kept with it")]
    InUse,
    #[error("the file was deleted or replaced while the server has it open; restart the server")]
    Lost,
}

/// The open file, and what is remembered of it. What is remembered is only a shortcut, and is forgotten after a rollback.
pub(super) struct Database {
    pub(super) connection: Connection,
    /// The calls that have ended so far.
    pub(super) ended: EndedCalls,
    /// Those that are committed.
    committed: EndedCalls,
    pub(super) pruning: Pruning,
    pub(super) saved: SavedMessages,
    pub(super) counter: Counter,
    pub(super) guard: Guard,
    /// While these are held, no other server opens the file. They are released after the connection.
    _locks: Vec<File>,
}

impl Database {
    pub(super) fn new(connection: Connection, guard: Guard, locks: Vec<File>, was_closed: bool) -> Result<Self, Fault> {
        let (ended, counter) = (calls::ended(&connection)?, Counter::new(&connection, was_closed)?);
        Ok(Self {
            connection,
            ended,
            committed: ended,
            pruning: Pruning::default(),
            saved: SavedMessages::default(),
            counter,
            guard,
            _locks: locks,
        })
    }

    pub(super) fn begin(&self) -> Result<(), Fault> {
        // An immediate transaction fails here, and not in the middle, if another program writes.
        self.connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), Fault> {
        self.counter.count(&self.connection)?;
        self.connection.prepare_cached("COMMIT")?.execute([])?;
        self.counter.commit();
        self.committed = self.ended;
        Ok(())
    }

    /// Writes what sessions take to their rows, which commits put off.
    pub(super) fn write_usage(&mut self) -> Result<(), Fault> {
        match self.counter.has_unwritten() {
            true => self.change(|database| database.counter.write(&database.connection)),
            false => Ok(()),
        }
    }

    /// Counts again what one of the sessions takes that an earlier process changed last.
    pub(super) fn recount(&mut self) -> Result<(), Fault> {
        match self.counter.next_unsure() {
            Some(session) => self.change(|database| database.counter.recount(&database.connection, &session)),
            None => Ok(()),
        }
    }

    /// Deletes the oldest calls, if that is due.
    pub(super) fn prune(&mut self, bounds: &Bounds) -> Result<(), Fault> {
        if !self.pruning.is_due(self.ended, bounds) {
            return Ok(());
        }
        self.pruning.begin(self.ended);
        let mut has_more = false;
        self.change(|database| {
            has_more = calls::prune(database, bounds)?;
            Ok(())
        })?;
        if has_more {
            self.pruning.go_on();
        }
        Ok(())
    }

    /// Changes something that nobody waits for.
    fn change(&mut self, change: impl FnOnce(&mut Self) -> Result<(), Fault>) -> Result<(), Fault> {
        if self.guard.is_lost() {
            return Ok(());
        }
        self.begin()?;
        let written = change(self).and_then(|()| self.commit());
        if written.is_err() {
            self.roll_back();
        }
        written
    }

    /// Writes a value that is there already.
    pub(super) fn probe(&mut self) -> Result<(), Fault> {
        let version: i64 = self.connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        Ok(self.connection.pragma_update(None, "user_version", version)?)
    }

    /// Undoes what is not committed.
    pub(super) fn roll_back(&mut self) {
        self.ended = self.committed;
        self.saved.forget();
        self.counter.forget();
        // After some errors SQLite has rolled back by itself.
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }

    /// Moves everything from the log into the file, and closes it.
    pub(super) fn close(mut self) -> Result<(), Fault> {
        if self.guard.check().is_err() {
            // SQLite would delete the log of whatever file has this name now.
            self.connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
            self.connection.close().map_err(|(_, error)| error)?;
            return Err(Fault::Lost);
        }
        let is_busy = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        self.connection.close().map_err(|(_, error)| error)?;
        if is_busy? { Err(Fault::InUse) } else { Ok(()) }
    }
}

/// The fault as the error of the store.
pub(super) fn store_error(file: &str, fault: &Fault) -> StoreError {
    let cause = format!("{file}: {fault}");
    let Fault::Sqlite(error) = fault else {
        let is_passing = matches!(fault, Fault::Lost | Fault::Behind);
        return if is_passing { StoreError::Unavailable(cause) } else { StoreError::Failed(cause) };
    };
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(cause),
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::ReadOnly
            | ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen,
        ) => StoreError::Unavailable(cause),
        _ => StoreError::Failed(cause),
    }
}

/// Reads the rows of a query. An error names the row by its first column.
pub(super) fn query<T, C>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    table: &'static str,
    read: impl Fn(&Row<'_>) -> Result<T, Error>,
    collect: impl FnOnce(&mut dyn Iterator<Item = Result<T, Fault>>) -> Result<C, Fault>,
) -> Result<C, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let unreadable = |row: &Row<'_>, cause| Fault::Row { table, id: row.get(0).unwrap_or_default(), cause };
    let mut rows = statement.query_and_then(values, |row| read(row).map_err(|cause| unreadable(row, cause)))?;
    collect(&mut rows)
}

/// Reads a column of JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> Result<T, Error> {
    serde_json::from_str(row.get_ref(column)?.as_str()?).map_err(|error| unreadable(column, error))
}

/// Reads a column of ids.
pub(super) fn name<T>(row: &Row<'_>, column: usize, parse: fn(&str) -> Result<T, InvalidId>) -> Result<T, Error> {
    parse(row.get_ref(column)?.as_str()?).map_err(|error| unreadable(column, error))
}

/// How many more bytes there are now than before.
pub(super) fn growth(before: i64, now: usize) -> i64 {
    integer(now) - before
}

/// A count or a size as SQLite's integer.
pub(super) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

pub(super) fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
