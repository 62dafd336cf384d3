//! Runs a command for a call.

use std::ffi::OsString;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use handback_client::{Invocation, Success};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// The largest output of a command. With the JSON around it, more would not fit into a request.
const MAX_OUTPUT: usize = 3 * 1024 * 1024;
/// How much of the end of standard error goes into the error's text.
const ERROR_TAIL: usize = 4 * 1024;
/// How long a command may take to stop when it is asked to; then it is killed.
const STOP: Duration = Duration::from_secs(2);
/// How long to wait for the output of a command that has ended. It ends late only when a process that the command left
/// behind holds it open.
const DRAIN: Duration = Duration::from_secs(1);

/// Runs `command` with the input of the call; the error is a text for the model.
pub(super) async fn run(command: &[OsString], invocation: Invocation) -> Result<Success, String> {
    let [program, arguments @ ..] = command else { return Err("there is no command to run".to_owned()) };
    let request = &invocation.request;
    let mut builder = Command::new(program);
    builder
        .args(arguments)
        .env("HANDBACK_REQUEST_ID", &request.request_id)
        .env("HANDBACK_SESSION_ID", &request.session_id)
        .env("HANDBACK_CALL_ID", &request.call_id)
        .env("HANDBACK_ATTEMPT", request.attempt.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    #[cfg(unix)]
    builder.process_group(0);
    let mut child = builder.spawn().map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    // On platforms without process groups, only the command itself is killed.
    #[cfg(unix)]
    let mut group = ProcessGroup::of(&child);
    let (status, output, errors) = tokio::select! {
        ended = communicate(&mut child, request.input.get().as_bytes()) => ended?,
        () = invocation.cancellation.cancelled() => {
            #[cfg(unix)]
            group.signal(rustix::process::Signal::TERM);
            // The group is killed when this returns, even if the command does not stop in time.
            let _ = timeout(STOP, child.wait()).await;
            return Err("the command was stopped before it was done".to_owned());
        }
    };
    // Processes that the command left behind live on, such as a server that it started.
    #[cfg(unix)]
    group.release();
    if !status.success() {
        let cut = if errors.len() > ERROR_TAIL { "…" } else { "" };
        let tail = &errors[errors.len().saturating_sub(ERROR_TAIL)..];
        let tail = format!("{cut}{}", String::from_utf8_lossy(tail));
        return Err(if tail.trim().is_empty() { status.to_string() } else { format!("{status}: {}", tail.trim()) });
    }
    match String::from_utf8(output) {
        Ok(output) => Ok(Success { output, ..Success::default() }),
        Err(error) => {
            let output = String::from_utf8_lossy(error.as_bytes()).into_owned();
            let note = r#"{"note":"the output was not UTF-8; what could not be read was replaced"}"#;
            Ok(Success { output, metadata: RawValue::from_string(note.to_owned()).ok(), ..Success::default() })
        }
    }
}

/// Feeds the command and waits for its end. Returns its status, its output and the end of its standard error.
async fn communicate(child: &mut Child, input: &[u8]) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), String> {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let status = {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command may end, or close its input, without having read it.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let read_output = read(stdout, &mut output, |output| {
            let is_too_large = output.len() > MAX_OUTPUT;
            if is_too_large { Err(format!("the command's output is larger than {MAX_OUTPUT} bytes")) } else { Ok(()) }
        });
        let read_errors = read(stderr, &mut errors, |errors| {
            // One more byte is kept, to know whether some are dropped.
            errors.drain(..errors.len().saturating_sub(ERROR_TAIL + 1));
            Ok(())
        });
        let mut pipes = pin!(async { tokio::try_join!(feed, read_output, read_errors) });
        let status = tokio::select! {
            piped = &mut pipes => {
                piped?;
                child.wait().await
            }
            status = child.wait() => {
                if let Ok(piped) = timeout(DRAIN, pipes).await {
                    piped?;
                }
                status
            }
        };
        status.map_err(pipe_error)?
    };
    Ok((status, output, errors))
}

/// Reads a pipe to its end. After each read, `check` may shorten the data or stop.
async fn read(
    pipe: Option<impl AsyncRead + Unpin>,
    data: &mut Vec<u8>,
    check: impl Fn(&mut Vec<u8>) -> Result<(), String>,
) -> Result<(), String> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    while pipe.read_buf(data).await.map_err(pipe_error)? > 0 {
        check(data)?;
    }
    Ok(())
}

fn pipe_error(error: std::io::Error) -> String {
    format!("cannot speak to the command: {error}")
}

/// The command and the processes that it started, which must not outlive the call: dropping this kills them all.
#[cfg(unix)]
struct ProcessGroup(Option<rustix::process::Pid>);

#[cfg(unix)]
impl ProcessGroup {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(rustix::process::Pid::from_raw))
    }

    fn release(&mut self) {
        self.0 = None;
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(group) = self.0 {
            // The kill fails if all processes have ended already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

#[cfg(unix)]
impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

#[cfg(test)]
mod tests;
