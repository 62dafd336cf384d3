//! Opens the file: creates it if it does not exist, locks it, migrates it to this version, and tidies it up.

use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::Bounds;
use super::database::{Database, Fault};
use super::guard::Guard;
use super::schema::{self, Found, MIGRATIONS};

/// How long to wait for another program that locks the file, such as one that makes a backup.
const BUSY: Duration = Duration::from_secs(5);

/// How many prepared statements are kept, which is more than there are.
const STATEMENTS: usize = 64;

/// Why a file cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, its directory or its lock cannot be created or opened.
    #[error("{} cannot be opened: {cause}", path.display())]
    Unreachable {
        /// What cannot be opened.
        path: PathBuf,
        /// Why.
        cause: io::Error,
    },
    /// Another server has it open.
    #[error("{} is in use by another server; each needs a file of its own", path.display())]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Not a SQLite file.
    #[error("{} is not a database", path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// A SQLite file with something else in it.
    #[error("{} is a database of another program", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A newer version of the server wrote it.
    #[error("{} has version {found}, which is newer than version {known} that this server knows", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: usize,
        /// The newest version that is known here.
        known: usize,
    },
    /// SQLite cannot use it, or what is in it cannot be read.
    #[error("{} cannot be used: {cause}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        cause: String,
    },
}

impl OpenError {
    /// SQLite cannot use the file.
    pub(super) fn unusable(path: &Path, cause: impl fmt::Display) -> Self {
        Self::Unusable { path: path.to_owned(), cause: cause.to_string() }
    }
}

/// Opens a file. Also returns its full path.
pub(super) fn open(path: &Path, bounds: &Bounds) -> Result<(Database, PathBuf), OpenError> {
    let path = find_or_create(path)?;
    let mut locks = vec![lock_beside(&path)?];
    locks.extend(lock_itself(&path)?);
    let unusable = |fault: Fault| match fault {
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            OpenError::NotADatabase { path: path.clone() }
        }
        fault => OpenError::unusable(&path, fault),
    };
    // Without a log, whoever had the file open has closed it.
    let was_closed = std::fs::metadata(beside(&path, "-wal")).map_or(true, |log| log.len() == 0);
    let mut connection = connect(&path).map_err(unusable)?;
    match schema::look(&connection, MIGRATIONS.len()).map_err(|error| unusable(error.into()))? {
        Found::Version(version) => prepare(&mut connection, version, bounds).map_err(unusable)?,
        Found::Foreign => return Err(OpenError::Foreign { path }),
        Found::Newer(found) => return Err(OpenError::Newer { path, found, known: MIGRATIONS.len() }),
    }
    let unreachable = |cause| OpenError::Unreachable { path: path.clone(), cause };
    let guard = Guard::new(&path).map_err(unreachable)?;
    if let Some(held) = locks.get(1)
        && !guard.is_of(held).map_err(unreachable)?
    {
        return Err(unusable(Fault::Lost));
    }
    let database = Database::new(connection, guard, locks, was_closed).map_err(unusable)?;
    Ok((database, path))
}

/// The path of a file that belongs to the database, by the ending of its name.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

/// The file's true path. What is created for it is for its owner alone; what exists is left as it is.
fn find_or_create(path: &Path) -> Result<PathBuf, OpenError> {
    let unreachable = |cause| OpenError::Unreachable { path: path.to_owned(), cause };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(directory).map_err(unreachable)?;
    }
    // A file that exists is not opened and closed here: that would release the locks of whoever has it open in this
    // process.
    match private_file().create_new(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(unreachable(error)),
        // The path has no links in it, so that one file has one lock.
        _ => path.canonicalize().map_err(unreachable),
    }
}

/// Takes the lock beside the file, which the system releases when the process ends, however it ends. It is none of
/// SQLite's locks, so that other programs can still read the file, for a backup say. It comes before the lock on the file
/// itself: whoever is refused here has not opened the file, and closing it would release SQLite's locks if it is open in
/// this process.
fn lock_beside(path: &Path) -> Result<File, OpenError> {
    let name = beside(path, "-lock");
    let file = private_file().create(true).truncate(false).open(&name);
    file.and_then(try_lock).map_err(|cause| refused(path, name, cause))
}

/// Takes a lock on the file itself, so that no other server has it when the lock beside it was deleted. Linux keeps
/// these locks apart from SQLite's; other systems do not, and SQLite would wait for this one.
#[cfg(target_os = "linux")]
fn lock_itself(path: &Path) -> Result<Option<File>, OpenError> {
    if path.is_dir() {
        // SQLite has the better words for it.
        return Ok(None);
    }
    File::open(path).and_then(try_lock).map(Some).map_err(|cause| refused(path, path.to_owned(), cause))
}

#[cfg(not(target_os = "linux"))]
fn lock_itself(_: &Path) -> Result<Option<File>, OpenError> {
    Ok(None)
}

fn try_lock(file: File) -> io::Result<File> {
    file.try_lock()?;
    Ok(file)
}

/// Why a lock of the file at `path` was not taken.
fn refused(path: &Path, lock: PathBuf, cause: io::Error) -> OpenError {
    match cause.kind() {
        io::ErrorKind::WouldBlock => OpenError::InUse { path: path.to_owned() },
        _ => OpenError::Unreachable { path: lock, cause },
    }
}

/// Opens a file that exists.
pub(super) fn connect(path: &Path) -> Result<Connection, Fault> {
    connect_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Opens a file that a server has open already, to read it only.
pub(super) fn connect_reader(path: &Path) -> Result<Connection, Fault> {
    let connection = connect_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    set_up(&connection)?;
    connection.execute_batch("PRAGMA cache_size = -4096")?;
    Ok(connection)
}

fn connect_with(path: &Path, access: OpenFlags) -> Result<Connection, Fault> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Sets up what holds for the writer and for readers.
fn set_up(connection: &Connection) -> Result<(), Fault> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A statement is prepared once, whatever its values are.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY")?)
}

/// Sets up the writer's connection, and migrates the file to this version.
fn prepare(connection: &mut Connection, version: usize, bounds: &Bounds) -> Result<(), Fault> {
    set_up(connection)?;
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::NoLog(mode));
    }
    // A commit is one write to the log. Whether it waits for the disk says what it survives.
    let synchronous = if bounds.waits_for_disk { "FULL" } else { "NORMAL" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.execute_batch(
        "PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -8192;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    // The bound comes after the migrations, which may need more space for a while.
    schema::migrate(connection, version, MIGRATIONS)?;
    let page: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(connection.execute_batch(&format!("PRAGMA max_page_count = {}", bounds.file_bytes / u64::from(page)))?)
}

/// Options to write a file that only its owner may read.
pub(super) fn private_file() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}
