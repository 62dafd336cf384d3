//! Copies a database and checks one, whether a server has it open or not. Both only read it.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use handback_core::id::{RequestId, SessionId};
use rusqlite::{Connection, ErrorCode};
use tokio::time::Instant;

use super::database::{Fault, name};
use super::open::{OpenError, connect_reader, private_file};
use super::schema::{self, Found, MIGRATIONS};
use super::{calls, clients, messages, runs, sessions};

/// How many steps SQLite takes before it is asked whether there is time for more.
const STEPS: i32 = 10_000;

/// What [`check`] found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Checked {
    /// How many sessions can be read.
    pub sessions: usize,
    /// How many messages can be read.
    pub messages: usize,
    /// How many runs can be read.
    pub runs: usize,
    /// How many calls can be read.
    pub calls: usize,
    /// How many clients can be read.
    pub clients: usize,
    /// What is wrong, a line each.
    pub wrong: Vec<String>,
}

/// Copies the database to a new file, as it is at one moment. The copy is for its owner alone.
pub fn back_up(path: &Path, to: &Path) -> Result<(), OpenError> {
    let connection = reader(path)?;
    let unreachable = |cause| OpenError::Unreachable { path: to.to_owned(), cause };
    let name = to.to_str().ok_or_else(|| OpenError::unusable(to, "its name is not UTF-8"))?;
    // SQLite writes into an empty file, and this one is new and private.
    let file = private_file().create_new(true).open(to).map_err(unreachable)?;
    let copied = connection.execute("VACUUM INTO ?1", [name]).map_err(|error| OpenError::unusable(path, error));
    let copied = copied.and_then(|_| file.sync_all().and_then(|()| sync_directory(to)).map_err(unreachable));
    if copied.is_err()
        && let Err(error) = fs::remove_file(to)
    {
        tracing::warn!(file = %to.display(), %error, "half a backup is left");
    }
    copied
}

/// A file is there after a power cut only if its directory was written, too.
#[cfg(unix)]
fn sync_directory(file: &Path) -> std::io::Result<()> {
    let directory = file.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Reads everything in a database: each page, each index, each row.
pub fn check(path: &Path) -> Result<Checked, OpenError> {
    let connection = reader(path)?;
    let unusable = |error: rusqlite::Error| OpenError::unusable(path, error);
    // What a server writes meanwhile is not looked at.
    let snapshot = connection.unchecked_transaction().map_err(unusable)?;
    let mut checked = Checked::default();
    let version = refuse_others(&snapshot, path)?;
    checked.look(pages(&snapshot));
    checked.look(references(&snapshot));
    if version == MIGRATIONS.len() {
        checked.read_rows(&snapshot);
    } else {
        let older = "the rows cannot be read before a server has opened it and brought it up to date";
        checked.wrong.push(format!("it has version {version}, not {}; {older}", MIGRATIONS.len()));
    }
    Ok(checked)
}

/// What [`glance`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Glance {
    /// All pages and rows are where they belong.
    Sound,
    /// The first thing that is wrong.
    Damaged(String),
    /// There was not enough time to look at everything; what was looked at is sound.
    Unfinished,
}

/// Looks at the pages of a database and at whose they are, but not at what is in the rows, and stops after `within`.
pub fn glance(path: &Path, within: Duration) -> Result<Glance, OpenError> {
    let until = Instant::now() + within;
    let mut connection = reader(path)?;
    let unusable = |error: rusqlite::Error| OpenError::unusable(path, error);
    refuse_others(&connection, path)?;
    connection.progress_handler(STEPS, Some(move || Instant::now() >= until)).map_err(unusable)?;
    match connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)) {
        Ok(line) if line == "ok" => Ok(Glance::Sound),
        Ok(line) => Ok(Glance::Damaged(line)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => Ok(Glance::Unfinished),
        Err(error) => Err(unusable(error)),
    }
}

/// Refuses a database of another program or of a newer version. Returns its version.
fn refuse_others(connection: &Connection, path: &Path) -> Result<usize, OpenError> {
    match schema::look(connection, MIGRATIONS.len()).map_err(|error| OpenError::unusable(path, error))? {
        Found::Foreign => Err(OpenError::Foreign { path: path.to_owned() }),
        Found::Newer(found) => Err(OpenError::Newer { path: path.to_owned(), found, known: MIGRATIONS.len() }),
        Found::Version(version) => Ok(version),
    }
}

fn reader(path: &Path) -> Result<Connection, OpenError> {
    let path = path.canonicalize().map_err(|cause| OpenError::Unreachable { path: path.to_owned(), cause })?;
    let connection = connect_reader(&path).map_err(|fault| OpenError::unusable(&path, fault))?;
    match connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            Err(OpenError::NotADatabase { path })
        }
        Err(error) => Err(OpenError::unusable(&path, error)),
        Ok(()) => Ok(connection),
    }
}

/// What SQLite finds wrong with the pages and the indexes.
fn pages(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let lines: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}

/// Rows that belong to no other row.
fn references(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let orphan = |row: &rusqlite::Row<'_>| {
        Ok(format!("a row of {} belongs to a {} that is not there", row.get::<_, String>(0)?, row.get::<_, String>(2)?))
    };
    Ok(statement.query_map([], orphan)?.collect::<Result<_, _>>()?)
}

impl Checked {
    fn look(&mut self, found: Result<Vec<String>, Fault>) {
        self.wrong.extend(found.unwrap_or_else(|fault| vec![fault.to_string()]));
    }

    /// Counts rows, or notes why they cannot be read.
    fn count(&mut self, counted: fn(&mut Self) -> &mut usize, read: Result<usize, Fault>) {
        match read {
            Ok(count) => *counted(self) += count,
            Err(fault) => self.wrong.push(fault.to_string()),
        }
    }

    fn read_rows(&mut self, connection: &Connection) {
        for session in self.ids(connection, "SELECT id FROM session ORDER BY number", SessionId::parse) {
            let found = sessions::find(connection, &session).map(|found| usize::from(found.is_some()));
            self.count(|checked| &mut checked.sessions, found);
            self.count(|checked| &mut checked.messages, messages::list(connection, &session).map(|list| list.len()));
            let runs = runs::list(connection, &session).and_then(|list| {
                for run in &list {
                    runs::events(connection, &session, &run.id, 0)?;
                }
                Ok(list.len())
            });
            self.count(|checked| &mut checked.runs, runs);
        }
        self.count(|checked| &mut checked.calls, calls::open(connection).map(|open| open.len()));
        let ended = "SELECT request FROM call WHERE ended IS NOT NULL ORDER BY ended";
        for request in self.ids(connection, ended, RequestId::parse) {
            let found = calls::finished(connection, &request).map(|found| usize::from(found.is_some()));
            self.count(|checked| &mut checked.calls, found);
        }
        self.count(|checked| &mut checked.clients, clients::list(connection).map(|clients| clients.len()));
    }

    /// The ids that a query gives.
    fn ids<T>(
        &mut self,
        connection: &Connection,
        sql: &str,
        parse: fn(&str) -> Result<T, handback_core::id::InvalidId>,
    ) -> Vec<T> {
        let read = || -> Result<Vec<T>, Fault> {
            Ok(connection.prepare(sql)?.query_map([], |row| name(row, 0, parse))?.collect::<Result<_, _>>()?)
        };
        read().unwrap_or_else(|fault| {
            self.wrong.push(fault.to_string());
            Vec::new()
        })
    }
}
