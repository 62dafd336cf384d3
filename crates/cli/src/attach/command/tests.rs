#![cfg(unix)]

use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

use handback_client::CancellationToken;
use handback_wire::client_tools::{Effect, ToolRequest};
use tokio::time::Instant;

use super::*;

fn invocation(cancellation: &CancellationToken) -> Invocation {
    let request = ToolRequest {
        kind: "client-tool-request".to_owned(),
        request_id: "request".to_owned(),
        session_id: "session".to_owned(),
        message_id: "message".to_owned(),
        call_id: "call".to_owned(),
        tool: "client_laptop_tool".to_owned(),
        input: RawValue::from_string(r#"{"text": "hello"}"#.to_owned()).unwrap(),
        deadline: String::new(),
        effect: Effect::Write,
        attempt: 2,
        execution_mode: None,
    };
    Invocation::new(request, Instant::now() + Duration::from_secs(60), cancellation.clone())
}

async fn shell(script: &str) -> Result<Success, String> {
    run(&["sh", "-c", script].map(OsString::from), invocation(&CancellationToken::new())).await
}

#[tokio::test]
async fn the_command_gets_the_input_and_its_output_is_the_output() {
    let variables = "$HANDBACK_REQUEST_ID $HANDBACK_SESSION_ID $HANDBACK_CALL_ID $HANDBACK_ATTEMPT";
    let success = shell(&format!("cat; echo \" {variables}\"; echo not shown >&2")).await.unwrap();
    assert_eq!(success.output, "{\"text\": \"hello\"} request session call 2\n");
    assert!(success.metadata.is_none());
}

#[tokio::test]
async fn a_command_that_fails_is_an_error_with_the_end_of_its_errors() {
    assert_eq!(shell("echo half; echo broken >&2; exit 3").await.unwrap_err(), "exit status: 3: broken");
    assert_eq!(shell("exit 4").await.unwrap_err(), "exit status: 4");
    let long = shell("yes | head -c 100000 >&2; printf end >&2; exit 5").await.unwrap_err();
    assert!(long.starts_with("exit status: 5: …"), "{long}");
    assert!(long.ends_with("y\nend"), "{long}");
    assert_eq!(long.len(), "exit status: 5: …".len() + ERROR_TAIL);
}

#[tokio::test]
async fn a_command_that_is_not_there_is_an_error() {
    let error = run(&["/no/such/command".into()], invocation(&CancellationToken::new())).await.unwrap_err();
    assert!(error.starts_with("cannot start /no/such/command: "), "{error}");
}

#[tokio::test]
async fn output_beyond_the_limit_is_an_error() {
    assert_eq!(shell("head -c 3145728 /dev/zero | tr '\\0' x").await.unwrap().output.len(), MAX_OUTPUT);
    // `yes` never ends by itself.
    assert_eq!(shell("yes").await.unwrap_err(), "the command's output is larger than 3145728 bytes");
}

#[tokio::test]
async fn output_that_is_not_utf8_is_made_readable_with_a_note() {
    let success = shell("printf 'a\\377b'").await.unwrap();
    assert_eq!(success.output, "a\u{fffd}b");
    assert!(success.metadata.unwrap().get().contains("not UTF-8"));
}

#[tokio::test]
async fn what_the_command_leaves_behind_does_not_hold_the_output_up() {
    assert_eq!(shell("echo done; sleep 20 &").await.unwrap().output, "done\n");
}

#[tokio::test]
async fn a_cancelled_command_takes_its_children_with_it() {
    let fifo = Fifo::new("cancelled");
    let cancellation = CancellationToken::new();
    let watcher = fifo.watch(cancellation.clone());
    // A child that does not listen to SIGTERM, and holds the pipe open as long as it lives.
    let script = format!("(trap '' TERM; sleep 1000 > '{}') & wait", fifo.0.display());
    let ended = run(&["sh", "-c", &script].map(OsString::from), invocation(&cancellation)).await;
    assert_eq!(ended.unwrap_err(), "the command was stopped before it was done");
    watcher.await.unwrap();
}

#[tokio::test]
async fn a_dropped_call_takes_its_command_with_it() {
    let fifo = Fifo::new("dropped");
    let opened = CancellationToken::new();
    let watcher = fifo.watch(opened.clone());
    let script = format!("sleep 1000 > '{}' & wait", fifo.0.display());
    let command = ["sh", "-c", &script].map(OsString::from);
    tokio::select! {
        ended = run(&command, invocation(&CancellationToken::new())) => panic!("{ended:?}"),
        () = opened.cancelled() => {}
    }
    watcher.await.unwrap();
}

/// A named pipe: whoever reads it sees its end when the last process that writes to it is gone.
struct Fifo(PathBuf);

impl Fifo {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("handback-{}-{name}", std::process::id()));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        Self(path)
    }

    /// Fires `opened` when the pipe is written to, and ends when nobody is left who could.
    fn watch(&self, opened: CancellationToken) -> tokio::task::JoinHandle<()> {
        let path = self.0.clone();
        tokio::task::spawn_blocking(move || {
            let mut pipe = File::open(path).unwrap();
            opened.cancel();
            assert_eq!(pipe.read_to_end(&mut Vec::new()).unwrap(), 0);
        })
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}
