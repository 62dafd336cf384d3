//! The journal: records of calls that outlive the process, so that a restarted process runs none of them twice.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use handback_wire::client_tools::{Effect, ToolRequest, ToolResult};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::clock::LONGEST_CALL;

/// How long a record is kept after the call's deadline. The server does not offer the call any more by then.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// The size limit of a record. A larger one is kept without its result.
const MAX_RECORD_BYTES: usize = 64 * 1024;
/// How many records are kept. Beyond that, those that expire first are forgotten, which [`FORGOTTEN`] notes.
const MAX_CALLS: usize = 16 * 1024;
/// How many calls begin between two clean-ups.
const CLEANUP_INTERVAL: usize = 4 * 1024;
/// The file with the time until which calls with forgotten records may arrive.
const FORGOTTEN: &str = "forgotten";

/// Where calls are recorded, so that none is run twice.
#[derive(Debug, Clone)]
pub struct Journal(Option<Arc<Directory>>);

impl Journal {
    /// Nothing outlives this process. A `write` call that an earlier process may have run is not run: its answer is the
    /// error that its outcome is unknown.
    pub fn memory() -> Self {
        Self(None)
    }

    /// Calls are recorded in this directory, which is created if needed. All processes with the same client id should
    /// share one.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn directory(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::open(path.into(), File::sync_all)
    }

    fn open(path: PathBuf, sync: SyncFile) -> io::Result<Self> {
        make_directory(&path, sync)?;
        let directory = Directory { path, sync, begun: AtomicUsize::new(1) };
        directory.clean_up()?;
        Ok(Self(Some(Arc::new(directory))))
    }

    /// Records that a call begins, unless it is recorded already.
    pub(super) async fn begin(&self, client_id: &str, request: &ToolRequest, remaining: Duration) -> Beginning {
        let Some(directory) = self.0.clone() else { return Beginning::NotKept };
        let (name, effect) = (name(client_id, &request.request_id), request.effect);
        on_disk(move || directory.begin(&name, effect, remaining)).await.unwrap_or_else(Beginning::Failed)
    }

    /// Records the result of a call.
    pub(super) async fn record(&self, client_id: &str, request: &ToolRequest, result: &Arc<ToolResult>) {
        let Some(directory) = self.0.clone() else { return };
        let ToolRequest { request_id, effect, .. } = request;
        let (name, effect, result) = (name(client_id, request_id), *effect, Arc::clone(result));
        if let Err(error) = on_disk(move || directory.record(&name, effect, &result)).await {
            tracing::warn!(request_id, %error, "the result is not in the journal; a repeated call will not find it");
        }
    }
}

/// The journal's knowledge of a call that is about to run.
#[derive(Debug)]
pub(super) enum Beginning {
    /// The journal does not outlive the process.
    NotKept,
    /// The call has no record. `has_forgotten`: its record may have been forgotten.
    First { has_forgotten: bool },
    /// The call began, and may have ended.
    Begun,
    /// The call ran, with this result if it was stored.
    Done(Option<Arc<ToolResult>>),
    /// The journal cannot be written.
    Failed(io::Error),
}

/// The record of a call. The TypeScript SDK uses the same format, so that both can share a directory.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// When the record may be deleted, in milliseconds since 1970.
    expires: u64,
    state: NoteState,
    /// `None` while the call runs, or if the result was too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Arc<ToolResult>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoteState {
    Started,
    Done,
}

/// Has the disk keep a file from now on, even if the machine stops. Tests have other disks.
type SyncFile = fn(&File) -> io::Result<()>;

/// A directory with one file for each call.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    sync: SyncFile,
    begun: AtomicUsize,
}

impl Directory {
    fn begin(&self, name: &str, effect: Effect, remaining: Duration) -> io::Result<Beginning> {
        if self.begun.fetch_add(1, Ordering::Relaxed).is_multiple_of(CLEANUP_INTERVAL) {
            self.clean_up()?;
        }
        let path = self.path.join(name);
        // Of two processes, the one that creates the file runs the call.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let expires = now_in_milliseconds() + milliseconds(remaining + KEPT);
                let note = Note { expires, state: NoteState::Started, result: None };
                file.write_all(&serde_json::to_vec(&note)?)?;
                // The record is on the disk before the call runs, in case the machine stops.
                let sync = self.sync_for(effect);
                sync(&file)?;
                sync_directory(&path, sync)?;
                Ok(Beginning::First { has_forgotten: self.forgotten_until()? > now_in_milliseconds() })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(match read(&path)? {
                Some(Note { state: NoteState::Done, result, .. }) => Beginning::Done(result),
                // An unreadable file is being written, or was when the machine stopped.
                Some(Note { state: NoteState::Started, .. }) | None => Beginning::Begun,
            }),
            Err(error) => Err(error),
        }
    }

    fn record(&self, name: &str, effect: Effect, result: &Arc<ToolResult>) -> io::Result<()> {
        let path = self.path.join(name);
        let began = read(&path)?.map(|note| note.expires);
        let expires = began.unwrap_or_else(|| now_in_milliseconds() + milliseconds(KEPT));
        let mut note = Note { expires, state: NoteState::Done, result: Some(Arc::clone(result)) };
        let mut text = serde_json::to_vec(&note)?;
        if text.len() > MAX_RECORD_BYTES {
            note.result = None;
            text = serde_json::to_vec(&note)?;
        }
        replace(&path, &text, self.sync_for(effect))
    }

    /// How the record of such a call is synced. A call that may run twice needs none: without its record it runs again.
    fn sync_for(&self, effect: Effect) -> SyncFile {
        if effect == Effect::Write { self.sync } else { |_| Ok(()) }
    }

    /// The time until which calls with forgotten records may arrive.
    fn forgotten_until(&self) -> io::Result<u64> {
        match fs::read_to_string(self.path.join(FORGOTTEN)) {
            Ok(text) => Ok(text.trim().parse().unwrap_or(u64::MAX)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Deletes the records that have expired, and more if there are too many.
    fn clean_up(&self) -> io::Result<()> {
        let now = now_in_milliseconds();
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            if !is_ours(&path) {
                continue;
            }
            let expires = match read(&path)? {
                Some(note) => note.expires,
                None => match fs::metadata(&path).and_then(|metadata| metadata.modified()) {
                    // The record does not say when it expires, so the latest possible time is used.
                    Ok(changed) => since_1970(changed) + milliseconds(LONGEST_CALL + KEPT),
                    // Another process has deleted it.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                },
            };
            if expires > now { kept.push((expires, path)) } else { remove(&path)? }
        }
        kept.sort();
        let excess = &kept[..kept.len().saturating_sub(MAX_CALLS)];
        if let Some((last, _)) = excess.last() {
            let until = self.forgotten_until()?.max(*last);
            replace(&self.path.join(FORGOTTEN), until.to_string().as_bytes(), self.sync)?;
        }
        excess.iter().try_for_each(|(_, path)| remove(path))
    }
}

/// Reads a record; `None` if there is none, or it is incomplete.
fn read(path: &Path) -> io::Result<Option<Note>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Replaces a file atomically: readers see all of the old content, or all of the new, even if the machine stops.
fn replace(path: &Path, text: &[u8], sync: SyncFile) -> io::Result<()> {
    let draft = path.with_extension(format!("{:016x}.tmp", fastrand::u64(..)));
    let written = File::create(&draft).and_then(|mut file| file.write_all(text).and_then(|()| sync(&file)));
    written.and_then(|()| fs::rename(&draft, path)).inspect_err(|_| _ = remove(&draft))?;
    sync_directory(path, sync)
}

/// Makes a directory, and those above it that are missing, so that they outlive a stop of the machine.
fn make_directory(path: &Path, sync: SyncFile) -> io::Result<()> {
    let missing: Vec<&Path> =
        path.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists()).collect();
    fs::create_dir_all(path)?;
    missing.into_iter().try_for_each(|path| sync_directory(path, sync))
}

/// A file or directory is there after a power cut only if the directory that it is in was written, too.
///
/// Some file systems cannot sync a directory (network shares, FUSE), and a directory that this process may enter but not
/// read cannot be opened for it. That is no error: it would refuse every `write` call, though the record is written and
/// is there for as long as the machine does not stop.
#[cfg(unix)]
fn sync_directory(path: &Path, sync: SyncFile) -> io::Result<()> {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let synced = File::open(directory.unwrap_or(Path::new("."))).and_then(|directory| sync(&directory));
    synced.or_else(|error| match error.kind() {
        InvalidInput | Unsupported | PermissionDenied => Ok(()),
        _ => Err(error),
    })
}

#[cfg(not(unix))]
fn sync_directory(_: &Path, _: SyncFile) -> io::Result<()> {
    Ok(())
}

/// Whether a file name is one of a journal.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let (hash, rest) = name.split_at_checked(64).unwrap_or_default();
    hash.bytes().all(|byte| byte.is_ascii_hexdigit()) && rest.starts_with('.')
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The name of a call's file. It is a hash, because ids may be too long for a file name, or have other characters.
fn name(client_id: &str, request_id: &str) -> String {
    let hash = digest(&SHA256, format!("{client_id}\n{request_id}").as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).chain([".json".to_owned()]).collect()
}

#[expect(clippy::disallowed_methods, reason = "files outlive the process, so this is wall time")]
fn now_in_milliseconds() -> u64 {
    since_1970(SystemTime::now())
}

fn since_1970(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, milliseconds)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Runs blocking file operations.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests;
