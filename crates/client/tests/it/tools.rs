//! Calls that come to a client, and what it makes of them.

mod changes;
mod faults;
mod hostile;
mod turmoil;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use handback_client::{
    Api, CancellationToken, ClientTools, Effect, Error, Options, State, Status, Success, Tool, ToolError,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::stub::{Stub, end, next};

/// A client that was started, and the way to stop it.
struct Running {
    task: JoinHandle<Result<(), Error>>,
    shutdown: CancellationToken,
    tools: ClientTools,
}

fn start(stub: &Stub, tool: Tool) -> Running {
    run(stub, Some(tool), Options::default())
}

fn run(stub: &Stub, tool: Option<Tool>, options: Options) -> Running {
    run_at(&stub.url, tool, options)
}

fn run_at(url: &str, tool: Option<Tool>, mut options: Options) -> Running {
    options.reconnect = (Duration::from_millis(10), Duration::from_millis(20));
    let tools = ClientTools::new(Api::new(url, Some("secret")).unwrap(), "laptop", options);
    let (shutdown, running) = (CancellationToken::new(), tools.clone());
    let stop = shutdown.clone();
    let task = TaskTracker::new().spawn(async move {
        if let Some(tool) = tool {
            running.register(tool).await?;
        }
        running.run(None, stop).await
    });
    Running { task, shutdown, tools }
}

/// Options whose observer tells the test.
fn observed() -> (Options, UnboundedReceiver<Status>) {
    let (statuses, seen) = unbounded_channel();
    let observer = Arc::new(move |status| drop(statuses.send(status)));
    (Options::with(|options| options.observer = observer), seen)
}

/// Answers with its input.
fn echo() -> Tool {
    Tool::new("tool", "", |call| async move { Ok(output(call.request.input.get())) })
}

/// Waits for a permit, then answers with how often it was run.
fn gated(gate: &Arc<Semaphore>) -> Tool {
    let gate = Arc::clone(gate);
    let runs = Arc::new(AtomicUsize::new(0));
    Tool::new("tool", "", move |_| {
        let (gate, runs) = (Arc::clone(&gate), Arc::clone(&runs));
        async move {
            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
            gate.acquire().await.unwrap().forget();
            Ok(output(&format!("run {run}")))
        }
    })
}

fn output(text: &str) -> Success {
    Success { output: text.to_owned(), ..Success::default() }
}

fn request(id: &str, effect: &str, attempt: u32) -> Value {
    json!({
        "type": "client-tool-request", "requestID": id, "sessionID": "s", "messageID": "m", "callID": "c",
        "tool": "client_laptop_tool", "input": {"text": "hello"},
        "deadline": "2199-01-01T00:00:00Z", "effect": effect, "attempt": attempt,
    })
}

fn success(id: &str, output: &str) -> Value {
    json!({"requestID": id, "result": {"status": "success", "title": "", "output": output}})
}

fn error(id: &str, error: &str) -> Value {
    json!({"requestID": id, "result": {"status": "error", "error": error}})
}

#[tokio::test]
async fn a_call_is_delivered_and_answered() {
    let mut stub = Stub::start().await;
    let mut tool = echo();
    tool.definition.description = "Says it again.".to_owned();
    let _running = start(&stub, tool.effect(Effect::Read));
    let connection = next(&mut stub.connections).await;
    assert_eq!(connection.client_id, "laptop");
    assert_eq!(connection.query["grace"], "30000");
    assert_eq!(connection.query["connection"].len(), 32);
    assert_eq!((connection.authorization.as_deref(), &connection.last_event_id), (Some("Bearer secret"), &None));
    let tool = json!({"id": "tool", "description": "Says it again.", "effect": "read"});
    assert_eq!(next(&mut stub.registrations).await, json!({"clientID": "laptop", "tools": [tool]}));
    connection.ping();
    connection.request("e-1", &request("a", "read", 1));
    assert_eq!(next(&mut stub.results).await, success("a", r#"{"text":"hello"}"#));
}

#[tokio::test]
async fn a_client_whose_stream_is_cut_returns_where_it_was() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, echo());
    let first = stub.connected().await;
    let name = first.query["connection"].clone();
    first.request("e-1", &request("a", "write", 1));
    next(&mut stub.results).await;
    first.ping();
    first.cut();
    // Refusals that may pass do not end it either.
    stub.refuse("pending", &[503, 429, 404]);
    let second = stub.connected().await;
    assert_eq!((second.last_event_id.as_deref(), &second.query["connection"]), (Some("e-1"), &name));
    second.request("e-2", &request("b", "write", 1));
    assert_eq!(next(&mut stub.results).await["requestID"], "b");
}

#[tokio::test]
async fn the_same_call_twice_runs_once() {
    let mut stub = Stub::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let _running = start(&stub, gated(&gate));
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "read", 1));
    connection.request("e-2", &request("a", "read", 2));
    connection.cut();
    let connection = stub.connected().await;
    connection.request("e-3", &request("a", "read", 3));
    gate.add_permits(10);
    assert_eq!(next(&mut stub.results).await, success("a", "run 1"));
    // Its result is known now, so it is sent again; another call is the second run.
    connection.request("e-4", &request("a", "read", 4));
    assert_eq!(next(&mut stub.results).await, success("a", "run 1"));
    connection.request("e-5", &request("b", "read", 1));
    assert_eq!(next(&mut stub.results).await, success("b", "run 2"));
}

#[tokio::test]
async fn a_write_that_may_have_run_elsewhere_is_not_run_again() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, echo());
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 2));
    let result = next(&mut stub.results).await;
    assert_eq!(result["result"]["status"], "error");
    assert!(result["result"]["error"].as_str().unwrap().starts_with("the outcome is unknown"), "{result}");
    connection.request("e-2", &request("b", "idempotent", 2));
    assert_eq!(next(&mut stub.results).await["result"]["status"], "success");
}

#[tokio::test]
async fn calls_run_at_the_same_time() {
    let mut stub = Stub::start().await;
    let meeting = Arc::new(tokio::sync::Barrier::new(2));
    let _running = start(
        &stub,
        Tool::new("tool", "", move |_| {
            let meeting = Arc::clone(&meeting);
            async move {
                meeting.wait().await;
                Ok(output("met"))
            }
        }),
    );
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    connection.request("e-2", &request("b", "write", 1));
    assert_eq!(next(&mut stub.results).await["result"]["output"], "met");
    assert_eq!(next(&mut stub.results).await["result"]["output"], "met");
}

#[tokio::test]
async fn a_result_is_sent_again_until_the_server_takes_it() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, echo());
    let connection = stub.connected().await;
    stub.refuse("result", &[503, 429]);
    connection.request("e-1", &request("a", "write", 1));
    let first = next(&mut stub.results).await;
    assert_eq!((&next(&mut stub.results).await, &next(&mut stub.results).await), (&first, &first));
}

#[tokio::test]
async fn a_refused_result_is_final_and_reported() {
    for status in [404, 409, 410] {
        let mut stub = Stub::start().await;
        let (options, mut seen) = observed();
        let _running = run(&stub, Some(echo()), options);
        let connection = stub.connected().await;
        stub.refuse("result", &[status]);
        connection.request("e-1", &request("a", "write", 1));
        assert_eq!(next(&mut seen).await, Status::Connected { tools: vec!["client_laptop_tool".to_owned()] });
        let tool = "client_laptop_tool".to_owned();
        assert_eq!(next(&mut seen).await, Status::Started { request_id: "a".to_owned(), tool, attempt: 1 });
        assert!(matches!(next(&mut seen).await, Status::Finished { error: None, .. }));
        let undelivered = Status::Undelivered { request_id: "a".to_owned(), reason: "not now".to_owned() };
        assert_eq!(next(&mut seen).await, undelivered);
        connection.request("e-2", &request("b", "write", 1));
        assert_eq!(next(&mut stub.results).await["requestID"], "a");
        assert_eq!(next(&mut stub.results).await["requestID"], "b");
    }
}

#[tokio::test]
async fn a_result_that_the_server_cannot_take_becomes_an_error() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, echo());
    let connection = stub.connected().await;
    stub.refuse("result", &[413]);
    connection.request("e-1", &request("a", "write", 1));
    assert_eq!(next(&mut stub.results).await["result"]["status"], "success");
    let text = "the tool ran, but its result was not accepted: not now";
    assert_eq!(next(&mut stub.results).await, error("a", text));
}

#[tokio::test]
async fn a_cancelled_call_stops_its_handler_and_sends_nothing() {
    let mut stub = Stub::start().await;
    let (stopped, mut stops) = unbounded_channel();
    let _running = start(
        &stub,
        Tool::new("tool", "", move |call| {
            let stopped = stopped.clone();
            async move {
                if call.request.request_id == "a" {
                    call.cancellation.cancelled().await;
                    stopped.send(call.request.request_id).unwrap();
                }
                Ok(output("done"))
            }
        }),
    );
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    connection.cancel("e-2", "a");
    assert_eq!(next(&mut stops).await, "a");
    connection.request("e-3", &request("b", "write", 1));
    assert_eq!(next(&mut stub.results).await, success("b", "done"));
}

#[tokio::test]
async fn an_expired_call_stops_its_handler() {
    let mut stub = Stub::start().await;
    let (stopped, mut stops) = unbounded_channel();
    let _running = start(
        &stub,
        Tool::new("tool", "", move |call| {
            let stopped = stopped.clone();
            async move {
                call.cancellation.cancelled().await;
                stopped.send(call.deadline <= Instant::now()).unwrap();
                Ok(output("too late"))
            }
        }),
    );
    let connection = stub.connected().await;
    let mut short = request("a", "write", 1);
    short["deadline"] = json!("2026-11-15T12:00:00.100Z");
    connection.request("e-1", &short);
    assert!(next(&mut stops).await);
}

#[tokio::test]
async fn a_result_that_comes_too_late_is_sent_once() {
    for (refusal, is_cancelled) in [(410, false), (503, false), (410, true)] {
        let mut stub = Stub::start().await;
        let (options, mut seen) = observed();
        let tool = Tool::new("tool", "", |call| async move {
            if call.request.request_id == "a" {
                call.cancellation.cancelled().await;
            }
            Ok(output("done"))
        });
        let _running = run(&stub, Some(tool), options);
        let connection = stub.connected().await;
        stub.refuse("result", &[refusal]);
        let mut short = request("a", "write", 1);
        short["deadline"] = json!("2026-11-15T12:00:00.900Z");
        connection.request("e-1", &short);
        while !matches!(next(&mut seen).await, Status::Started { .. }) {}
        if is_cancelled {
            // The server's clock is ahead of what this client knows of it.
            connection.cancel("e-2", "a");
        }
        assert_eq!(next(&mut stub.results).await, success("a", "done"));
        connection.request("e-3", &request("b", "write", 1));
        assert_eq!(next(&mut stub.results).await, success("b", "done"));
        while let status = next(&mut seen).await
            && !matches!(&status, Status::Finished { request_id, .. } if request_id == "b")
        {
            assert!(!matches!(status, Status::Undelivered { .. }), "{status:?}");
        }
    }
}

#[tokio::test]
async fn a_call_that_cannot_be_run_is_answered_all_the_same() {
    let mut stub = Stub::start().await;
    let _running = start(
        &stub,
        Tool::new("tool", "", |_| async move {
            let bug: Option<Result<Success, ToolError>> = std::hint::black_box(None);
            bug.expect("a bug in a tool")
        }),
    );
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    assert_eq!(next(&mut stub.results).await, error("a", "the tool panicked"));
    let mut unknown = request("b", "write", 1);
    unknown["tool"] = json!("client_laptop_other");
    connection.request("e-2", &unknown);
    assert_eq!(next(&mut stub.results).await, error("b", "this client does not offer client_laptop_other"));
    let mut late = request("c", "write", 1);
    late["deadline"] = json!("2001-01-01T00:00:00Z");
    connection.request("e-3", &late);
    assert_eq!(next(&mut stub.results).await, error("c", "the call reached the client after its deadline"));
}

#[tokio::test]
async fn refused_credentials_are_final() {
    for status in [401, 403] {
        let mut stub = Stub::start().await;
        let running = start(&stub, echo());
        stub.connected().await.cut();
        stub.refuse("pending", &[status]);
        assert_eq!(end(running.task).await.unwrap_err().status(), Some(status));
    }
    let stub = Stub::start().await;
    stub.refuse("register", &[401]);
    assert_eq!(end(start(&stub, echo()).task).await.unwrap_err().status(), Some(401));
}

#[tokio::test]
async fn tools_that_the_server_does_not_take_are_final() {
    let stub = Stub::start().await;
    stub.refuse("register", &[400]);
    assert_eq!(end(start(&stub, echo()).task).await.unwrap_err().status(), Some(400));
}

#[tokio::test]
async fn a_client_that_stops_says_goodbye_and_answers_for_its_calls() {
    let mut stub = Stub::start().await;
    let running = start(
        &stub,
        Tool::new("tool", "", |call| async move {
            call.cancellation.cancelled().await;
            Err::<Success, _>(ToolError::new("stopped halfway"))
        }),
    );
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    // The answer to a second call shows that the first one was read.
    let mut unknown = request("b", "write", 1);
    unknown["tool"] = json!("client_laptop_other");
    connection.request("e-2", &unknown);
    next(&mut stub.results).await;
    running.shutdown.cancel();
    assert_eq!(next(&mut stub.results).await, error("a", "stopped halfway"));
    let goodbye = json!({"clientID": "laptop", "connection": connection.query["connection"]});
    assert_eq!(next(&mut stub.goodbyes).await, goodbye);
    end(running.task).await.unwrap();
    assert!(matches!(&*running.tools.state().borrow(), State::Closed(None)));
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (options, mut seen) = observed();
    let running = run_at(&url, None, options);
    for _ in 0..3 {
        assert!(matches!(next(&mut seen).await, Status::Disconnected { .. }));
    }
    running.shutdown.cancel();
    end(running.task).await.unwrap();
}
