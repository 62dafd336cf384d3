//! A local server: the `handback` binary, started on a free port.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::client::{Client, ClientOptions};
use crate::error::Error;
use crate::lock::lock;

/// The environment variable that names the binary if the options do not.
const BINARY_VARIABLE: &str = "HANDBACK_BINARY";
/// The line that the server prints when it is ready.
const READY: &str = "handback listening on ";
/// How long the server may take to start; then it is killed.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the server may take to stop; then it is killed. It lets calls under way finish for 10 s.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);
/// A longer line is read as several.
const MAX_LINE_BYTES: u64 = 8 * 1024;
/// How many lines are kept, the newest ones, for the error if the server does not start.
const MAX_LINES: usize = 64;

/// The options of a local server. By default, it stores nothing and needs no configuration.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct LocalOptions {
    /// The binary; by default, the one that the variable `HANDBACK_BINARY` names, or `handback` on the `PATH`.
    pub binary: Option<PathBuf>,
    /// The directory of the database; by default, nothing outlives the server.
    pub data: Option<PathBuf>,
    /// The configuration file; by default, the server looks for one in its usual places.
    pub config: Option<PathBuf>,
    /// Further arguments of `handback serve`.
    pub arguments: Vec<OsString>,
    /// The options of [`Handback::client`].
    pub client: ClientOptions,
}

/// A server that this process has started. Dropping this kills it; [`Handback::close`] lets it finish.
#[derive(Debug)]
pub struct Handback {
    child: Child,
    url: String,
    client: Client,
}

impl Handback {
    /// Starts a server on a free port of this machine; it keeps everything in memory.
    ///
    /// # Errors
    /// [`Error::NotStarted`].
    pub async fn start() -> Result<Self, Error> {
        Self::start_with(LocalOptions::default()).await
    }

    /// Starts a server on a free port of this machine.
    ///
    /// # Errors
    /// [`Error::NotStarted`], with the server's standard error.
    pub async fn start_with(options: LocalOptions) -> Result<Self, Error> {
        // Nothing else in this crate reads the environment. It does here because the binary depends on the machine.
        let binary = binary(options.binary.as_ref(), std::env::var_os(BINARY_VARIABLE));
        let failed = |reason: String| Error::NotStarted { binary: binary.display().to_string(), reason };
        let mut command = command(&binary, &options);
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
            return Err(failed("it has no standard output".to_owned()));
        };
        let (readers, lines) = (TaskTracker::new(), LastLines::default());
        let collecting = readers.spawn(lines.clone().collect(BufReader::new(stderr)));
        let mut stdout = BufReader::new(stdout);
        let url = match timeout(START_TIMEOUT, find_url(&mut stdout)).await {
            Ok(Some(url)) => url,
            ended => {
                let reason = if ended.is_ok() { "it ended" } else { "it did not start in time" };
                // This fails if the server has ended by itself.
                let _ = child.start_kill();
                // The wait is limited, because another process may hold the other end of the pipe.
                let _ = timeout(STOP_TIMEOUT, collecting).await;
                return Err(failed(format!("{reason}{}", lines.after_colon())));
            }
        };
        // A full pipe that nobody reads would stop the server.
        readers.spawn(LastLines::default().collect(stdout));
        let client = Client::new(&url, options.client)?;
        Ok(Self { child, url, client })
    }

    /// The server's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// A client of the server.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Disconnects the client's tools and stops the server; calls under way may finish first.
    pub async fn close(mut self) {
        self.client.tools().disconnect().await;
        #[cfg(unix)]
        if let Some(id) = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw)
            && rustix::process::kill_process(id, rustix::process::Signal::TERM).is_ok()
            && timeout(STOP_TIMEOUT, self.child.wait()).await.is_ok()
        {
            return;
        }
        if let Err(error) = self.child.kill().await {
            tracing::warn!(%error, "the server could not be stopped");
        }
    }
}

/// The binary that the options or the environment name, or `handback` on the `PATH`.
fn binary(named: Option<&PathBuf>, variable: Option<OsString>) -> PathBuf {
    let variable = variable.filter(|name| !name.is_empty()).map(PathBuf::from);
    named.cloned().or(variable).unwrap_or_else(|| PathBuf::from("handback"))
}

fn command(binary: &Path, options: &LocalOptions) -> Command {
    let mut command = Command::new(binary);
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    match &options.data {
        Some(data) => command.arg("--data").arg(data),
        None => command.arg("--ephemeral"),
    };
    if let Some(config) = &options.config {
        command.arg("--config").arg(config);
    }
    command.args(&options.arguments);
    // The server takes variables with this prefix for settings, and would warn about this one.
    command.env_remove(BINARY_VARIABLE);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Reads until the server prints its URL; `None` if it does not.
async fn find_url(stdout: &mut (impl AsyncBufReadExt + Unpin)) -> Option<String> {
    while let Some(line) = next_line(stdout).await {
        if let Some(url) = line.strip_prefix(READY) {
            return Some(url.to_owned());
        }
    }
    None
}

/// The next line, or the first part of a long one; `None` at the end.
async fn next_line(pipe: &mut (impl AsyncBufReadExt + Unpin)) -> Option<String> {
    let mut line = Vec::new();
    // A pipe that cannot be read counts as ended.
    let length = pipe.take(MAX_LINE_BYTES).read_until(b'\n', &mut line).await.ok()?;
    (length > 0).then(|| String::from_utf8_lossy(&line).trim_end().to_owned())
}

/// The last lines that a server printed.
#[derive(Debug, Clone, Default)]
struct LastLines(Arc<Mutex<VecDeque<String>>>);

impl LastLines {
    async fn collect(self, mut pipe: BufReader<impl AsyncRead + Unpin>) {
        while let Some(line) = next_line(&mut pipe).await {
            tracing::debug!(target: "handback::server", "{line}");
            let mut lines = lock(&self.0);
            if lines.len() == MAX_LINES {
                lines.pop_front();
            }
            lines.push_back(line);
        }
    }

    /// A colon and the lines after it; empty if there are no lines.
    fn after_colon(&self) -> String {
        let lines = lock(&self.0);
        if lines.is_empty() { String::new() } else { format!(": {}", Vec::from(lines.clone()).join("\n")) }
    }
}

#[cfg(test)]
mod tests;
