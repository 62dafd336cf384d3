//! The versions of the file, the migrations between them, and the files that are not ours.

use rusqlite::{Connection, Error, TransactionBehavior};

/// Marks the file as ours: "hndb".
const APPLICATION: i32 = 0x686e_6462;

/// The scripts that make each version out of the one before it. The first starts with an empty file. A released script
/// never changes.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("migrations/1.sql"),
    include_str!("migrations/2.sql"),
    include_str!("migrations/3.sql"),
    include_str!("migrations/4.sql"),
    include_str!("migrations/5.sql"),
    include_str!("migrations/6.sql"),
];

/// What a file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Empty, or one of our versions.
    Version(usize),
    /// A newer version of the server wrote it.
    Newer(usize),
    /// Another program wrote it.
    Foreign,
}

/// Looks at a file without changing it.
pub(super) fn look(connection: &Connection, newest: usize) -> Result<Found, Error> {
    let application: i32 = connection.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let is_empty = !connection.prepare("SELECT 1 FROM sqlite_schema")?.exists([])?;
    Ok(match usize::try_from(version) {
        Ok(0) if application == 0 && is_empty => Found::Version(0),
        Ok(version) if application == APPLICATION && version > newest => Found::Newer(version),
        Ok(version) if application == APPLICATION && version > 0 => Found::Version(version),
        _ => Found::Foreign,
    })
}

/// Migrates a file to the newest version. Each step is one transaction.
pub(super) fn migrate(connection: &mut Connection, from: usize, migrations: &[&str]) -> Result<(), Error> {
    for (step, script) in migrations.iter().enumerate().skip(from) {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute_batch(script)?;
        let version = step + 1;
        transaction
            .execute_batch(&format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {version}"))?;
        transaction.commit()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
