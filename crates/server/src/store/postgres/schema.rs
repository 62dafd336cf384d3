//! The versions of the tables, and the migrations between them. All tables are in the schema `handback`.

use tokio_postgres::Client;

use super::fault::Fault;

/// The scripts that make each version out of the one before it. A released script never changes.
pub(super) const MIGRATIONS: &[&str] = &[include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];

/// Servers migrate one after the other: the holder of this lock does. "hndb" in ASCII.
const ONE_AT_A_TIME: &str = "SELECT pg_advisory_lock(1752065122)";
const NEXT: &str = "SELECT pg_advisory_unlock(1752065122)";

/// The oldest PostgreSQL that is known to work.
const OLDEST: i32 = 15;

/// What a database is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It has one of our versions.
    Version(i32),
    /// A newer version of the server has written it.
    Newer(i32),
    /// It has a schema of this name that is not ours.
    Foreign,
    /// PostgreSQL itself is older than what is known to work.
    OldServer(i32),
    /// Its texts are not in UTF-8.
    Encoding(String),
}

/// Looks at a database. `None` if it has none of our tables yet. Also returns the version of PostgreSQL.
pub(super) async fn look(client: &Client, newest: usize) -> Result<(Option<Found>, String), Fault> {
    let about = "SELECT current_setting('server_version_num')::INTEGER / 10000, current_setting('server_encoding'),
        to_regnamespace('handback') IS NOT NULL, to_regclass('handback.version') IS NOT NULL,
        current_setting('server_version')";
    let about = client.query_one(about, &[]).await?;
    let (server, encoding): (i32, String) = (about.try_get(0)?, about.try_get(1)?);
    let found = match (about.try_get(2)?, about.try_get(3)?) {
        _ if server < OLDEST => Some(Found::OldServer(server)),
        _ if encoding != "UTF8" => Some(Found::Encoding(encoding)),
        (true, false) => Some(Found::Foreign),
        (_, true) => {
            let version: i32 = client.query_one("SELECT version FROM handback.version", &[]).await?.try_get(0)?;
            let is_newer = usize::try_from(version).is_ok_and(|version| version > newest);
            Some(if is_newer { Found::Newer(version) } else { Found::Version(version) })
        }
        (false, _) => None,
    };
    Ok((found, about.try_get(4)?))
}

/// Looks at a database, and brings it to the newest version if it is ours or has none of our tables. After an error, the
/// connection must be dropped: it may be in a transaction that failed.
pub(super) async fn prepare(client: &Client, migrations: &[&str]) -> Result<Found, Fault> {
    client.batch_execute(ONE_AT_A_TIME).await?;
    // After an error nothing more is done with this connection, and the lock goes with it.
    let found = migrate(client, migrations).await?;
    client.batch_execute(NEXT).await?;
    Ok(found)
}

async fn migrate(client: &Client, migrations: &[&str]) -> Result<Found, Fault> {
    let from = match look(client, migrations.len()).await?.0 {
        Some(Found::Version(version)) => version,
        Some(other) => return Ok(other),
        None => {
            let begin = "BEGIN; CREATE SCHEMA handback; CREATE TABLE handback.version (version INTEGER NOT NULL);
                INSERT INTO handback.version VALUES (0); COMMIT";
            client.batch_execute(begin).await?;
            0
        }
    };
    let mut newest = from;
    for (version, script) in (1..).zip(migrations).filter(|(version, _)| *version > from) {
        let step = format!("BEGIN; {script}; UPDATE handback.version SET version = {version}; COMMIT");
        client.batch_execute(&step).await?;
        newest = version;
    }
    Ok(Found::Version(newest))
}

#[cfg(test)]
mod tests;
