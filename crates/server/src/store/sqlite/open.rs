//! Opening the file: it is made if there is none, locked, brought to this version, and tidied up.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::database::{Database, Fault};
use super::guard::Guard;
use super::schema::{self, Found, MIGRATIONS};
use super::{Bounds, calls};

/// How long to wait for another program that holds on to the file, such as one that makes a backup.
const BUSY: Duration = Duration::from_secs(5);

/// Statements that are kept ready; there are fewer.
const STATEMENTS: usize = 64;

/// Why a file cannot be used as a store.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file, its directory or its lock cannot be made or opened.
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
    /// Written by a newer version.
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

/// Opens a file. Gives its full path, too.
pub(super) fn open(path: &Path, bounds: &Bounds) -> Result<(Database, PathBuf), OpenError> {
    let path = find_or_make(path)?;
    let mut locks = vec![lock(&path)?];
    locks.extend(lock_itself(&path)?);
    let unusable = |fault: Fault| match fault {
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            OpenError::NotADatabase { path: path.clone() }
        }
        fault => OpenError::Unusable { path: path.clone(), cause: fault.to_string() },
    };
    let was_closed = has_no_log(&path);
    let (mut connection, found) = connect(&path).map_err(unusable)?;
    match found {
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
    let mut database = Database::new(connection, guard, locks, was_closed).map_err(unusable)?;
    calls::end_left_over(&mut database).and_then(|()| calls::prune(&mut database, bounds)).map_err(unusable)?;
    Ok((database, path))
}

/// The file's true path. What has to be made for it is for its owner alone; what is there is left as it is.
fn find_or_make(path: &Path) -> Result<PathBuf, OpenError> {
    let unreachable = |cause| OpenError::Unreachable { path: path.to_owned(), cause };
    if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
        private_directory().create(directory).map_err(unreachable)?;
    }
    // A file that is there is not opened and closed here: that would let go of the locks of whoever has it open in
    // this process.
    match private_file().write(true).create_new(true).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(unreachable(error)),
    }
    // However it is spelled, and whatever links lead to it: one file has one lock.
    path.canonicalize().map_err(unreachable)
}

/// Takes the lock beside the file, which the system lets go of when the process ends, however it ends. A lock of its
/// own, not one of SQLite's: other programs can still read the file, to make a backup or to look at it. It comes before
/// the lock on the file itself: whoever is refused here has not opened the file, and closing it would let go of SQLite's
/// locks if it is open in this process.
fn lock(path: &Path) -> Result<File, OpenError> {
    let mut name = path.as_os_str().to_owned();
    name.push("-lock");
    let unreachable = |cause| OpenError::Unreachable { path: PathBuf::from(&name), cause };
    let lock = private_file().write(true).create(true).truncate(false).open(&name).map_err(unreachable)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(cause)) => Err(unreachable(cause)),
    }
}

/// Takes a lock on the file itself, so that no other server has it when the lock beside it was deleted. Linux keeps
/// these apart from the locks that SQLite takes; other systems do not, and SQLite would wait for this one.
#[cfg(target_os = "linux")]
fn lock_itself(path: &Path) -> Result<Option<File>, OpenError> {
    let unreachable = |cause| OpenError::Unreachable { path: path.to_owned(), cause };
    if path.is_dir() {
        // SQLite has the better words for it.
        return Ok(None);
    }
    let file = File::open(path).map_err(unreachable)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(cause)) => Err(unreachable(cause)),
    }
}

#[cfg(not(target_os = "linux"))]
fn lock_itself(_: &Path) -> Result<Option<File>, OpenError> {
    Ok(None)
}

/// Whether whoever had the file open has closed it: then all of it is in the one file.
fn has_no_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).map_or(true, |log| log.len() == 0)
}

/// Opens a file that is there and looks at what it is; nothing in it is changed.
fn connect(path: &Path) -> Result<(Connection, Found), Fault> {
    let connection = connect_to(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let found = schema::look(&connection, MIGRATIONS.len())?;
    Ok((connection, found))
}

/// Opens a file that a server has open already, for checkpoints.
pub(super) fn connect_beside(path: &Path) -> Result<Connection, Fault> {
    connect_to(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// Opens a file that a server has open already, only to read it.
pub(super) fn connect_reader(path: &Path) -> Result<Connection, Fault> {
    let connection = connect_to(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    set_up(&connection)?;
    connection.execute_batch("PRAGMA cache_size = -4096")?;
    Ok(connection)
}

fn connect_to(path: &Path, access: OpenFlags) -> Result<Connection, Fault> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// What holds for whoever writes and whoever reads.
fn set_up(connection: &Connection) -> Result<(), Fault> {
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // A statement is prepared once, whatever its values are.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY")?)
}

/// Sets the file up, and brings it to this version.
fn prepare(connection: &mut Connection, version: usize, bounds: &Bounds) -> Result<(), Fault> {
    set_up(connection)?;
    // A commit is one write to the log, without waiting for the disk; see `Sqlite` for what that means.
    let mode: String = connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
    if mode != "wal" {
        return Err(Fault::NoLog(mode));
    }
    connection.execute_batch(
        "PRAGMA synchronous = NORMAL;
         PRAGMA foreign_keys = ON;
         PRAGMA cache_size = -8192;
         PRAGMA journal_size_limit = 67108864;",
    )?;
    // A step to the next version may need more than the bound for a while.
    schema::migrate(connection, version, MIGRATIONS)?;
    let page: u32 = connection.query_row("PRAGMA page_size", [], |row| row.get(0))?;
    Ok(connection.execute_batch(&format!("PRAGMA max_page_count = {}", bounds.file_bytes / u64::from(page)))?)
}

#[cfg(unix)]
fn private_directory() -> DirBuilder {
    use std::os::unix::fs::DirBuilderExt;
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder
}

#[cfg(not(unix))]
fn private_directory() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    builder
}

#[cfg(unix)]
fn private_file() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(not(unix))]
fn private_file() -> OpenOptions {
    OpenOptions::new()
}
