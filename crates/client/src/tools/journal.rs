//! What is kept of calls beyond this process, so that none is run twice although the process is started anew.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use handback_wire::client_tools::ToolResult;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use super::clock::LONGEST;

/// How long a call is remembered after its deadline. The server does not offer it any more by then.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// A larger result is not kept, only that there was one.
const MAX_RESULT_BYTES: usize = 64 * 1024;
/// How many calls are kept; the one that expires first is forgotten first, and that some were is written down.
const MAX_CALLS: usize = 16 * 1024;
/// After so many calls the old ones are cleared away.
const CLEAR_EVERY: usize = 4 * 1024;
/// The file that says until when calls may come that were forgotten.
const FORGOTTEN: &str = "forgotten";

/// What is remembered of calls.
#[derive(Debug, Clone)]
pub struct Journal(Option<Arc<Directory>>);

impl Journal {
    /// Nothing is kept beyond this process: a `write` call that may have been run by an earlier one is not run, but
    /// answered with an error that says that its outcome is unknown.
    pub fn memory() -> Self {
        Self(None)
    }

    /// Calls are kept in this directory, which is created if it is not there. All processes that offer tools under one
    /// client id should share one.
    ///
    /// # Errors
    /// The directory cannot be created or read.
    pub fn directory(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        fs::create_dir_all(&path)?;
        let directory = Directory { path, begun: AtomicUsize::new(1) };
        directory.clear()?;
        Ok(Self(Some(Arc::new(directory))))
    }

    /// Takes note that a call begins, unless it has before.
    pub(super) async fn begin(&self, client_id: &str, request_id: &str, remaining: Duration) -> Beginning {
        let Some(directory) = self.0.clone() else { return Beginning::NotKept };
        let name = name(client_id, request_id);
        on_disk(move || directory.begin(&name, remaining)).await.unwrap_or_else(Beginning::Failed)
    }

    /// Takes note of the result of a call.
    pub(super) async fn finish(&self, client_id: &str, request_id: &str, result: &Arc<ToolResult>) {
        let Some(directory) = self.0.clone() else { return };
        let (name, result) = (name(client_id, request_id), Arc::clone(result));
        if let Err(error) = on_disk(move || directory.finish(&name, &result)).await {
            tracing::warn!(request_id, %error, "the result is not in the journal; a repeated call will not find it");
        }
    }
}

/// What the journal says to a call that is about to be run.
#[derive(Debug)]
pub(super) enum Beginning {
    /// There is no journal beyond this process.
    NotKept,
    /// It was not begun before, as far as is known: others may have been forgotten for want of room.
    First { has_forgotten: bool },
    /// It was begun, and its end is not known.
    Begun,
    /// It was run; this is its result, if that was kept.
    Done(Option<Arc<ToolResult>>),
    /// The journal cannot be written.
    Failed(io::Error),
}

/// What is written down of a call. The TypeScript SDK writes the same, so that both may share a directory.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    /// When it may be forgotten, in milliseconds since 1970.
    expires: u64,
    state: NoteState,
    /// `None` while it runs, or if it was too large.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Arc<ToolResult>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum NoteState {
    Started,
    Done,
}

/// One file for each call.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    begun: AtomicUsize,
}

impl Directory {
    fn begin(&self, name: &str, remaining: Duration) -> io::Result<Beginning> {
        if self.begun.fetch_add(1, Ordering::Relaxed).is_multiple_of(CLEAR_EVERY) {
            self.clear()?;
        }
        let path = self.path.join(name);
        // Whoever creates the file runs the call: of two processes, one.
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let expires = now_in_milliseconds() + milliseconds(remaining + KEPT);
                let note = Note { expires, state: NoteState::Started, result: None };
                file.write_all(&serde_json::to_vec(&note)?)?;
                Ok(Beginning::First { has_forgotten: self.forgotten_until()? > now_in_milliseconds() })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(match read(&path)? {
                Some(Note { state: NoteState::Done, result, .. }) => Beginning::Done(result),
                // One that cannot be read is just being written, or was when the machine stopped.
                Some(Note { state: NoteState::Started, .. }) | None => Beginning::Begun,
            }),
            Err(error) => Err(error),
        }
    }

    fn finish(&self, name: &str, result: &Arc<ToolResult>) -> io::Result<()> {
        let path = self.path.join(name);
        let began = read(&path)?.map(|note| note.expires);
        let expires = began.unwrap_or_else(|| now_in_milliseconds() + milliseconds(KEPT));
        let mut note = Note { expires, state: NoteState::Done, result: Some(Arc::clone(result)) };
        let mut text = serde_json::to_vec(&note)?;
        if text.len() > MAX_RESULT_BYTES {
            note.result = None;
            text = serde_json::to_vec(&note)?;
        }
        replace(&path, &text)
    }

    /// Until when calls may come that were forgotten.
    fn forgotten_until(&self) -> io::Result<u64> {
        match fs::read_to_string(self.path.join(FORGOTTEN)) {
            Ok(text) => Ok(text.trim().parse().unwrap_or(u64::MAX)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// Forgets what may be forgotten, and more if there is too much.
    fn clear(&self) -> io::Result<()> {
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
                    // Nobody knows how long it was given.
                    Ok(changed) => since_1970(changed) + milliseconds(LONGEST + KEPT),
                    // Another process has cleared it away.
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
            replace(&self.path.join(FORGOTTEN), until.to_string().as_bytes())?;
        }
        excess.iter().try_for_each(|(_, path)| remove(path))
    }
}

/// Reads what was written down; `None` if it is not there, or not all of it.
fn read(path: &Path) -> io::Result<Option<Note>> {
    match fs::read(path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file at once: whoever reads it sees what was there before, or all of what is there now.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("{:016x}.tmp", fastrand::u64(..)));
    fs::write(&draft, text).and_then(|()| fs::rename(&draft, path)).inspect_err(|_| _ = remove(&draft))
}

/// Whether a journal has written a file of this name.
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

/// The file of a call: ids may be longer than a file's name, and have other characters.
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

/// Runs something that waits for the disk.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests;
