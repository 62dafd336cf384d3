//! What goes wrong on the way, or here.

use std::sync::mpsc::channel;

use handback_client::{Client, ClientOptions, ExecuteOptions, Transport};

use super::*;
use crate::stub::{cancel_frame, request_frame};

/// Does not come back for a long time once its connection is lost.
fn slow_to_return(stub: &Stub, mut options: Options) -> ClientTools {
    options.reconnect = (Duration::from_secs(600), Duration::from_secs(600));
    ClientTools::new(Api::new(&stub.url, None).unwrap(), "laptop", options)
}

/// A request for a tool that is not there.
fn unknown(id: &str) -> Value {
    let mut unknown = request(id, "write", 1);
    unknown["tool"] = json!("client_laptop_other");
    unknown
}

#[tokio::test]
async fn a_call_that_is_known_is_not_answered_otherwise_when_its_tool_is_gone_or_its_time_is_over() {
    let mut stub = Stub::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let (options, mut seen) = observed();
    let running = run(&stub, Some(gated(&gate)), options);
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    while !matches!(next(&mut seen).await, Status::Started { .. }) {}
    running.tools.unregister("tool").await.unwrap();
    let mut late = request("a", "write", 3);
    late["deadline"] = json!("2001-01-01T00:00:00Z");
    connection.request("e-2", &request("a", "write", 2));
    connection.request("e-3", &late);
    connection.request("e-4", &unknown("b"));
    assert_eq!(next(&mut stub.results).await["requestID"], "b");
    gate.add_permits(1);
    assert_eq!(next(&mut stub.results).await, success("a", "run 1"));
    connection.request("e-5", &request("a", "write", 4));
    assert_eq!(next(&mut stub.results).await, success("a", "run 1"));
    connection.request("e-6", &late);
    assert_eq!(next(&mut stub.results).await, success("a", "run 1"));
}

#[tokio::test]
async fn a_tool_that_was_not_confirmed_before_a_goodbye_is_forgotten() {
    let named = |output: &'static str| Tool::new("tool", "", move |_| async move { Ok(output) });
    let mut stub = Stub::start().await;
    let running = start(&stub, named("first"));
    stub.connected().await;
    stub.refuse("register", &[503; 1000]);
    let tools = running.tools.clone();
    let registering = TaskTracker::new().spawn(async move { tools.register(named("second")).await });
    running.tools.state().wait_for(|state| matches!(state, State::Retrying)).await.unwrap();
    running.shutdown.cancel();
    end(running.task).await.unwrap();
    assert!(matches!(end(registering).await, Err(Error::Closed { .. })));
    stub.forgive();
    while stub.connections.try_recv().is_ok() {}
    running.tools.register(named("third")).await.unwrap();
    running.tools.connect(None).await.unwrap();
    stub.connected().await.request("e-1", &request("a", "write", 1));
    assert_eq!(next(&mut stub.results).await, success("a", "third"));
}

#[tokio::test]
async fn a_result_does_not_wait_for_the_stream_of_calls() {
    let mut stub = Stub::start().await;
    let gate = Arc::new(Semaphore::new(0));
    let (options, mut seen) = observed();
    let tools = slow_to_return(&stub, options);
    tools.register(gated(&gate)).await.unwrap();
    tools.connect(None).await.unwrap();
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    while !matches!(next(&mut seen).await, Status::Started { .. }) {}
    connection.cut();
    tools.state().wait_for(|state| matches!(state, State::Retrying)).await.unwrap();
    gate.add_permits(1);
    assert_eq!(next(&mut stub.results).await, success("a", "run 1"));
}

#[tokio::test(start_paused = true)]
async fn a_result_is_sent_again_until_just_before_the_deadline() {
    let mut stub = Stub::start().await;
    let (options, mut seen) = observed();
    let _running = run(&stub, Some(echo()), options);
    let connection = stub.connected().await;
    stub.refuse("result", &[503; 1000]);
    let mut short = request("a", "write", 1);
    short["deadline"] = json!("2026-11-15T12:00:20Z");
    let deadline = Instant::now() + Duration::from_secs(20);
    connection.request("e-1", &short);
    while !matches!(next(&mut seen).await, Status::Undelivered { .. }) {}
    let left = deadline.checked_duration_since(Instant::now());
    assert!(left.is_some_and(|left| left < Duration::from_millis(400)), "given up {left:?} before the deadline");
}

#[tokio::test]
async fn what_something_on_the_way_says_of_a_result_is_not_final() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, echo());
    let connection = stub.connected().await;
    stub.misroute("result", &[200, 302, 404]);
    connection.request("e-1", &request("a", "write", 1));
    let first = next(&mut stub.results).await;
    for _ in 0..3 {
        assert_eq!(next(&mut stub.results).await, first);
    }
}

#[tokio::test]
async fn what_something_on_the_way_says_is_told_at_the_first_connection() {
    for (transport, said) in [
        (Transport::Sse, "\"text/plain; charset=utf-8\" is not an event stream"),
        (Transport::WebSocket, "200 OK in place of a WebSocket"),
    ] {
        let stub = Stub::start().await;
        stub.misroute(if transport == Transport::Sse { "pending" } else { "ws" }, &[503, 200]);
        let refused =
            end(run(&stub, None, Options::with(|options| options.transport = transport)).task).await.unwrap_err();
        assert!(matches!(refused, Error::Unexpected { .. }), "{refused:?}");
        assert!(refused.to_string().ends_with(said), "{refused}");
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_it_began_is_not_run() {
    let mut stub = Stub::start().await;
    let (ran, mut runs) = unbounded_channel();
    let tool = Tool::new("tool", "", move |call| {
        ran.send(call.request.request_id).unwrap();
        async { Ok("done") }
    });
    let _running = start(&stub, tool);
    let connection = stub.connected().await;
    connection.send(request_frame("e-1", &request("a", "write", 1)) + &cancel_frame("e-2", "a"));
    connection.request("e-3", &request("b", "write", 1));
    assert_eq!(next(&mut stub.results).await, success("b", "done"));
    assert_eq!((next(&mut runs).await.as_str(), runs.try_recv().is_err()), ("b", true));
}

#[tokio::test]
async fn an_error_that_the_server_cannot_take_is_told_in_other_words() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, Tool::new("tool", "", |_| async { Err::<Success, _>(ToolError::new("x".repeat(99))) }));
    let connection = stub.connected().await;
    stub.misroute("result", &[413]);
    connection.request("e-1", &request("a", "write", 1));
    assert_eq!(next(&mut stub.results).await, error("a", &"x".repeat(99)));
    let said = next(&mut stub.results).await["result"]["error"].as_str().unwrap().to_owned();
    assert!(said.starts_with("the tool ran, but its result was not accepted: "), "{said}");
}

#[tokio::test]
async fn a_change_that_waits_is_told_why_the_connection_is_refused() {
    let mut stub = Stub::start().await;
    let running = start(&stub, echo());
    let connection = stub.connected().await;
    stub.refuse("pending", &[503, 503, 503, 401]);
    connection.cut();
    running.tools.state().wait_for(|state| matches!(state, State::Retrying)).await.unwrap();
    assert_eq!(running.tools.register(echo()).await.unwrap_err().status(), Some(401));
}

#[tokio::test]
async fn a_change_that_something_on_the_way_answers_is_asked_for_again() {
    let mut stub = Stub::start().await;
    let running = start(&stub, echo());
    stub.connected().await;
    stub.misroute("register", &[404]);
    running.tools.register(echo()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_change_that_never_gets_to_the_server_is_an_error_after_a_minute() {
    let stub = Stub::start().await;
    let tools = slow_to_return(&stub, Options::default());
    tools.connect(None).await.unwrap();
    // The next connection, and with it the next try, comes minutes later.
    stub.misroute("register", &[405; 2]);
    assert_eq!(tools.register(echo()).await.unwrap_err().status(), Some(405));
    // A gateway may let some changes through, and others not.
    tools.register(echo()).await.unwrap();
    stub.misroute("unregister", &[405; 2]);
    assert_eq!(tools.unregister("tool").await.unwrap_err().status(), Some(405));
    // The minute begins anew when the server was lost in between.
    stub.refuse("pending", &[503]);
    stub.misroute("register", &[405; 2]);
    tools.register(echo()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_connected_to_was_there() {
    let mut stub = Stub::start().await;
    let client = Client::new(&stub.url, ClientOptions::default()).unwrap();
    client.tools().connect(None).await.unwrap();
    let _connection = next(&mut stub.connections).await;
    // The stub has nothing there, as a proxy without its server.
    let ended = client.execute("client_laptop_tool", json!({}), ExecuteOptions::default()).await;
    assert!(matches!(ended, Err(Error::GivenUp { .. })), "{ended:?}");
}

#[tokio::test]
async fn an_event_id_that_no_request_can_carry_is_passed_over() {
    let mut stub = Stub::start().await;
    let _running = start(&stub, echo());
    let connection = stub.connected().await;
    connection.request("e-1", &request("a", "write", 1));
    connection.request("e\u{1}2", &request("b", "write", 1));
    connection.request(&"e".repeat(100_000), &request("c", "write", 1));
    for _ in 0..3 {
        next(&mut stub.results).await;
    }
    connection.cut();
    assert_eq!(stub.connected().await.last_event_id.as_deref(), Some("e-1"));
}

#[tokio::test]
async fn a_session_that_is_joined_twice_at_once_is_joined_once() {
    let mut stub = Stub::start().await;
    let running = start(&stub, echo());
    let connection = stub.connected().await;
    let join = || running.tools.connect(Some("ses_1"));
    let (first, second) = tokio::join!(join(), join());
    first.and(second).unwrap();
    while stub.registrations.try_recv().is_ok() {}
    connection.cut();
    next(&mut stub.connections).await;
    assert_eq!(next(&mut stub.registrations).await["sessionID"], Value::Null);
    assert_eq!(next(&mut stub.registrations).await["sessionID"], "ses_1");
    running.tools.register(echo()).await.unwrap();
    assert_eq!(next(&mut stub.registrations).await["sessionID"], Value::Null);
}

#[tokio::test]
async fn results_are_sent_a_few_at_a_time_and_all_of_them() {
    const CALLS: usize = 300;
    let mut stub = Stub::start().await;
    stub.gate.forget_permits(Semaphore::MAX_PERMITS);
    let _running = start(&stub, echo());
    let connection = stub.connected().await;
    (0..CALLS).for_each(|call| connection.request(&format!("e-{call}"), &unknown(&call.to_string())));
    let mut released = 0;
    for received in 1..=CALLS {
        next(&mut stub.results).await;
        let under_way = received + stub.results.len() - released;
        assert!(under_way <= 64, "{under_way} at once");
        if received >= 64 {
            stub.gate.add_permits(1);
            released += 1;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_blocks_its_thread_does_not_hold_up_a_goodbye() {
    let mut stub = Stub::start().await;
    let (release, blocked) = channel::<()>();
    let blocked = Arc::new(std::sync::Mutex::new(blocked));
    let (options, mut seen) = observed();
    let tool = Tool::new("tool", "", move |_| {
        let blocked = Arc::clone(&blocked);
        async move { Ok(format!("{:?}", blocked.lock().unwrap().recv())) }
    });
    let running = run(&stub, Some(tool), options);
    stub.connected().await.request("e-1", &request("a", "write", 1));
    while !matches!(next(&mut seen).await, Status::Started { .. }) {}
    running.shutdown.cancel();
    end(running.task).await.unwrap();
    drop(release);
}
