//! Reads columns of rows. An error names the row by its first column.

use handback_core::id::InvalidId;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;

use super::fault::Fault;

/// Reads a column of JSON.
pub(super) fn json<T: DeserializeOwned>(row: &Row, column: usize, table: &'static str) -> Result<T, Fault> {
    serde_json::from_str(row.try_get(column)?).map_err(|error| unreadable(row, table, &error))
}

/// Reads a column of JSON that may be NULL.
pub(super) fn optional_json<T: DeserializeOwned>(
    row: &Row,
    column: usize,
    table: &'static str,
) -> Result<Option<T>, Fault> {
    let text: Option<&str> = row.try_get(column)?;
    text.map(serde_json::from_str).transpose().map_err(|error| unreadable(row, table, &error))
}

/// Reads a column of ids.
pub(super) fn name<T>(
    row: &Row,
    column: usize,
    table: &'static str,
    parse: fn(&str) -> Result<T, InvalidId>,
) -> Result<T, Fault> {
    parse(row.try_get(column)?).map_err(|error| unreadable(row, table, &error))
}

/// A count or a size as the database's integer.
pub(super) fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn unreadable(row: &Row, table: &'static str, cause: &dyn std::fmt::Display) -> Fault {
    let id = row.try_get(0).unwrap_or_default();
    Fault::Row { table, id, cause: cause.to_string() }
}
