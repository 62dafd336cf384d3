//! Running a command for a call.

use std::ffi::OsString;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use handback_client::{Invocation, Success};
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// More output is an error: with the JSON around it, it would not fit into a request.
const MAX_OUTPUT: usize = 3 * 1024 * 1024;
/// So much of the end of standard error is kept for the error's text.
const ERROR_TAIL: usize = 4 * 1024;
/// How long a command may take to stop when it is asked to; then it is killed.
const STOP: Duration = Duration::from_secs(2);
/// How long the output of a command that has ended may take. It ends late only when something that the command left
/// behind holds it open.
const DRAIN: Duration = Duration::from_secs(1);

/// What a command that ended has left.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    error_tail: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("the command's output is larger than {MAX_OUTPUT} bytes")]
    TooLarge,
    #[error("cannot speak to the command: {0}")]
    Pipe(#[from] io::Error),
}

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
    let mut group = Group::of(&child);
    let ended = tokio::select! {
        ended = finish(&mut child, request.input.get().as_bytes()) => ended,
        () = invocation.cancellation.cancelled() => {
            group.terminate();
            // The group is killed when this returns, whether the command heard or not.
            let _ = timeout(STOP, child.wait()).await;
            return Err("the command was stopped before it was done".to_owned());
        }
    };
    let ended = ended.map_err(|failure| failure.to_string())?;
    group.release();
    result(ended)
}

/// Feeds the command and waits for its end.
async fn finish(child: &mut Child, input: &[u8]) -> Result<Ended, Failure> {
    let (mut output, mut error_tail) = (Vec::new(), Vec::new());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let status = {
        let feed = async {
            if let Some(mut stdin) = stdin {
                // A command may end, or close its input, without having read it.
                let _ = stdin.write_all(input).await;
            }
            Ok(())
        };
        let mut piping =
            pin!(async { tokio::try_join!(feed, read(stdout, &mut output), read_tail(stderr, &mut error_tail)) });
        tokio::select! {
            piped = &mut piping => {
                piped?;
                child.wait().await?
            }
            status = child.wait() => {
                if let Ok(piped) = timeout(DRAIN, piping).await {
                    piped?;
                }
                status?
            }
        }
    };
    Ok(Ended { status, output, error_tail })
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, output: &mut Vec<u8>) -> Result<(), Failure> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    while pipe.read_buf(output).await? > 0 {
        if output.len() > MAX_OUTPUT {
            return Err(Failure::TooLarge);
        }
    }
    Ok(())
}

async fn read_tail(pipe: Option<impl AsyncRead + Unpin>, tail: &mut Vec<u8>) -> Result<(), Failure> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    while pipe.read_buf(tail).await? > 0 {
        // One byte more is kept, to know that some was dropped.
        let excess = tail.len().saturating_sub(ERROR_TAIL + 1);
        tail.drain(..excess);
    }
    Ok(())
}

fn result(ended: Ended) -> Result<Success, String> {
    let Ended { status, output, error_tail } = ended;
    if !status.success() {
        let tail = if error_tail.len() > ERROR_TAIL {
            format!("…{}", String::from_utf8_lossy(&error_tail[1..]))
        } else {
            String::from_utf8_lossy(&error_tail).into_owned()
        };
        let tail = tail.trim();
        return Err(if tail.is_empty() { format!("{status}") } else { format!("{status}: {tail}") });
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

/// The command and what it started, which must not outlive the call: dropping this kills them all.
#[cfg(unix)]
struct Group(Option<rustix::process::Pid>);

#[cfg(unix)]
impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(rustix::process::Pid::from_raw))
    }

    /// Asks all of them to stop.
    fn terminate(&self) {
        self.signal(rustix::process::Signal::TERM);
    }

    /// Lets go of what the command left behind when it ended by itself, such as a server that it was to start.
    fn release(&mut self) {
        self.0 = None;
    }

    fn signal(&self, signal: rustix::process::Signal) {
        if let Some(group) = self.0 {
            // It fails when all of them have ended already.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }
}

#[cfg(unix)]
impl Drop for Group {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::KILL);
    }
}

/// Where there are no process groups, the command alone is killed when it is dropped.
#[cfg(not(unix))]
struct Group;

#[cfg(not(unix))]
impl Group {
    fn of(_child: &Child) -> Self {
        Self
    }

    fn terminate(&self) {}

    fn release(&mut self) {}
}

#[cfg(test)]
mod tests;
