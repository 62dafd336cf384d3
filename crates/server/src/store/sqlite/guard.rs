//! Checks that the file is still the one that was opened. SQLite would go on writing into a file that was deleted or
//! replaced, where nobody finds it.

use std::fs::{self, File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use super::database::Fault;
use super::open::beside;

/// The files of a database, by the endings of their names.
const ENDINGS: [&str; 3] = ["", "-wal", "-shm"];

/// The files that were opened. Once one of them is lost it stays lost, because others may have written to the file that
/// has its name now.
pub(super) struct Guard {
    files: Vec<(PathBuf, Identity)>,
    is_lost: bool,
}

impl Guard {
    /// Guards an open database and the files that belong to it.
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let known = |ending| {
            let path = beside(path, ending);
            let identity = identity(&fs::metadata(&path)?);
            Ok((path, identity))
        };
        Ok(Self { files: ENDINGS.into_iter().map(known).collect::<io::Result<_>>()?, is_lost: false })
    }

    /// Whether an open file is the guarded database.
    pub(super) fn is_of(&self, held: &File) -> io::Result<bool> {
        let held = identity(&held.metadata()?);
        Ok(self.files.first().is_some_and(|(_, known)| *known == held))
    }

    /// Whether a check has found that a file is lost.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Fails if a file was deleted or replaced, and logs that the first time.
    pub(super) fn check(&mut self) -> Result<(), Fault> {
        let is_there = |(path, known): &(PathBuf, Identity)| match fs::metadata(path) {
            Ok(found) => identity(&found) == *known,
            // A file that cannot be looked at may still be there.
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        };
        if !self.is_lost
            && let Some((path, _)) = self.files.iter().find(|file| !is_there(file))
        {
            self.is_lost = true;
            tracing::error!(
                file = %path.display(),
                "the database was deleted or replaced while the server has it open: nothing is written any more; put the \
                 right file in its place and restart the server"
            );
        }
        if self.is_lost { Err(Fault::Lost) } else { Ok(()) }
    }
}

#[cfg(unix)]
type Identity = (u64, u64);

#[cfg(unix)]
fn identity(file: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

/// Elsewhere a file that is open can be neither deleted nor replaced.
#[cfg(not(unix))]
type Identity = ();

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}
