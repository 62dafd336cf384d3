//! What is kept of calls beyond this process, so that none is run twice although the process is started anew.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};
use handback_wire::client_tools::ToolResult;

/// How long a call is remembered after its deadline. The server does not offer it any more by then.
const KEPT: Duration = Duration::from_secs(10 * 60);
/// A larger result is not kept, only that there was one.
const MAX_RESULT_BYTES: usize = 64 * 1024;
/// How many calls are kept; the one that expires first is forgotten first.
const MAX_CALLS: usize = 64 * 1024;
/// After so many calls the old ones are cleared away.
const CLEAR_EVERY: usize = 4 * 1024;

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
    /// It was not begun before.
    First,
    /// It was begun, and its end is not known.
    Begun,
    /// It was run; this is its result, if that was kept.
    Done(Option<ToolResult>),
    /// The journal cannot be written.
    Failed(io::Error),
}

/// One file for each call: empty while it runs, then its result. When it may be forgotten is the time of its last change,
/// which is set to that.
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
            Ok(file) => {
                file.set_modified(expiry(remaining))?;
                Ok(Beginning::First)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let text = fs::read_to_string(&path)?;
                if text.is_empty() {
                    return Ok(Beginning::Begun);
                }
                // Something else than a result is there when it was too large.
                Ok(Beginning::Done(serde_json::from_str(&text).ok()))
            }
            Err(error) => Err(error),
        }
    }

    fn finish(&self, name: &str, result: &ToolResult) -> io::Result<()> {
        let mut text = serde_json::to_vec(result)?;
        if text.len() > MAX_RESULT_BYTES {
            text = br#"{"status":"done"}"#.to_vec();
        }
        let path = self.path.join(name);
        let draft = path.with_extension("new");
        let expires = fs::metadata(&path).and_then(|metadata| metadata.modified());
        let mut file = File::create(&draft)?;
        file.write_all(&text)?;
        file.set_modified(expires.unwrap_or_else(|_| expiry(Duration::ZERO)))?;
        drop(file);
        // At once: there is never half a result.
        fs::rename(&draft, &path)
    }

    /// Forgets what may be forgotten.
    fn clear(&self) -> io::Result<()> {
        let now = now();
        let mut kept = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let path = entry.path();
            if !is_ours(&path) {
                continue;
            }
            // Another process may have cleared it away.
            match entry.metadata().and_then(|metadata| metadata.modified()) {
                Ok(expires) if expires > now => kept.push((expires, path)),
                Ok(_) => remove(&path)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        kept.sort();
        let excess = kept.len().saturating_sub(MAX_CALLS);
        kept.iter().take(excess).try_for_each(|(_, path)| remove(path))
    }
}

/// Whether the journal has written a file of this name.
fn is_ours(path: &Path) -> bool {
    let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()) && matches!(extension, Some("json" | "new"))
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

fn expiry(remaining: Duration) -> SystemTime {
    now() + remaining + KEPT
}

#[expect(clippy::disallowed_methods, reason = "files outlive the process, so this is wall time")]
fn now() -> SystemTime {
    SystemTime::now()
}

/// Runs something that waits for the disk.
async fn on_disk<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| Err(io::Error::other(error)))
}

#[cfg(test)]
mod tests;
