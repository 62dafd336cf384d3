//! What is offered changes while the client is connected.

use handback_client::{Error, Options, State, Status, Tool};
use serde_json::json;
use tokio_util::task::TaskTracker;

use super::{run, start};
use crate::stub::{Stub, end, next};

fn named(name: &str) -> Tool {
    Tool::new(name, "", |_| async { Ok("done") })
}

fn registration(names: &[&str]) -> serde_json::Value {
    let tools: Vec<_> = names.iter().map(|name| json!({"id": name, "description": ""})).collect();
    json!({"clientID": "laptop", "tools": tools})
}

#[tokio::test]
async fn a_tool_is_registered_when_the_server_has_confirmed_it() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("first"));
    stub.connected().await;
    running.tools.register(named("second")).await.unwrap();
    assert_eq!(stub.registrations.try_recv().unwrap(), registration(&["second"]));
    running.tools.unregister("first").await.unwrap();
    let unregistration = json!({"clientID": "laptop", "toolIDs": ["client_laptop_first"]});
    assert_eq!(stub.unregistrations.try_recv().unwrap(), unregistration);
}

#[tokio::test]
async fn a_tool_that_the_server_refuses_is_not_offered_and_harms_no_other() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("good"));
    let connection = stub.connected().await;
    stub.refuse("register", &[400]);
    let refused = running.tools.register(named("bad")).await.unwrap_err();
    assert_eq!((refused.status(), refused.to_string().as_str()), (Some(400), "not now"));
    connection.cut();
    next(&mut stub.connections).await;
    assert_eq!(next(&mut stub.registrations).await, registration(&["good"]));
}

#[tokio::test]
async fn a_change_waits_for_a_connection_that_is_lost() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("first"));
    let connection = stub.connected().await;
    // The change is lost with the connection, and asked for again on the next.
    stub.refuse("register", &[503]);
    stub.refuse("pending", &[503, 503, 503]);
    let (tools, task) = (running.tools.clone(), TaskTracker::new());
    let registering = task.spawn(async move { tools.register(named("second")).await });
    end(registering).await.unwrap();
    assert_eq!(next(&mut stub.registrations).await, registration(&["first"]));
    assert_eq!(next(&mut stub.registrations).await, registration(&["second"]));
    drop(connection);
    // From now on it is one of them.
    next(&mut stub.connections).await.cut();
    next(&mut stub.connections).await;
    assert_eq!(next(&mut stub.registrations).await, registration(&["first", "second"]));
}

#[tokio::test]
async fn a_change_ends_when_the_client_is_disconnected_and_is_made_at_the_next_connection() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("first"));
    let connection = stub.connected().await;
    stub.refuse("pending", &[503; 1000]);
    connection.cut();
    let mut state = running.tools.state();
    state.wait_for(|state| matches!(state, State::Retrying)).await.unwrap();
    let tools = running.tools.clone();
    let registering = TaskTracker::new().spawn(async move { tools.register(named("second")).await });
    running.shutdown.cancel();
    end(running.task).await.unwrap();
    // It may have come before the end or after it.
    if let Err(error) = end(registering).await {
        assert!(matches!(error, Error::Closed { .. }), "{error}");
    }
    running.tools.register(named("third")).await.unwrap();
}

#[tokio::test]
async fn another_session_is_joined_and_joined_again_after_the_connection_was_lost() {
    let mut stub = Stub::start().await;
    let running = run(&stub, Some(named("tool")), Options::default());
    let connection = stub.connected().await;
    running.tools.connect(Some("ses_1")).await.unwrap();
    let in_session = json!({"clientID": "laptop", "sessionID": "ses_1", "tools": [{"id": "tool", "description": ""}]});
    assert_eq!(next(&mut stub.registrations).await, in_session);
    // The same again is nothing new.
    running.tools.connect(Some("ses_1")).await.unwrap();
    running.tools.connect(None).await.unwrap();
    assert_eq!(stub.registrations.try_recv().ok(), None);
    connection.cut();
    let _connection = next(&mut stub.connections).await;
    assert_eq!(next(&mut stub.registrations).await, registration(&["tool"]));
    assert_eq!(next(&mut stub.registrations).await, in_session);
}

#[tokio::test]
async fn a_client_that_was_disconnected_connects_again_under_another_name() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("tool"));
    let first = stub.connected().await;
    running.shutdown.cancel();
    end(running.task).await.unwrap();
    let tools = running.tools.clone();
    let connecting = TaskTracker::new().spawn(async move { tools.connect(None).await });
    let second = stub.connected().await;
    end(connecting).await.unwrap();
    assert_ne!(first.query["connection"], second.query["connection"]);
    assert_eq!(second.last_event_id, None);
}

#[tokio::test]
async fn tries_that_fail_in_a_row_can_be_limited() {
    let mut stub = Stub::start().await;
    let running = run(&stub, None, Options::with(|options| options.max_reconnect_attempts = Some(2)));
    next(&mut stub.connections).await.cut();
    stub.refuse("pending", &[503]);
    // A success in between starts the count anew.
    next(&mut stub.connections).await.cut();
    stub.refuse("pending", &[503, 503, 418]);
    assert_eq!(end(running.task).await.unwrap_err().status(), Some(503));
    let refusal = running.tools.connect(None).await.unwrap_err();
    assert_eq!(refusal.status(), Some(418));
    assert!(matches!(&*running.tools.state().borrow(), State::Closed(Some(_))));
}

#[tokio::test]
async fn a_client_that_is_dropped_lets_go_of_its_connection() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("tool"));
    let connection = stub.connected().await;
    running.task.abort();
    drop(running);
    end(TaskTracker::new().spawn(connection.closed())).await;
}

#[tokio::test]
async fn whoever_connects_during_a_goodbye_is_connected_after_it() {
    let mut stub = Stub::start().await;
    let running = start(&stub, named("tool"));
    let first = stub.connected().await;
    let (leaving, returning) = (running.tools.clone(), running.tools.clone());
    let tasks = TaskTracker::new();
    let left = tasks.spawn(async move { leaving.disconnect().await });
    let mut state = running.tools.state();
    let returned = tasks.spawn(async move { returning.connect(None).await });
    end(left).await;
    let goodbye = next(&mut stub.goodbyes).await;
    assert_eq!(goodbye["connection"], first.query["connection"]);
    // Whether it came first or not, it is connected in the end, unless it was taken back by the goodbye.
    match end(returned).await {
        Ok(()) => {}
        Err(error) => assert!(matches!(error, Error::Closed { .. }), "{error}"),
    }
    let connecting = running.tools.clone();
    let connected = tasks.spawn(async move { connecting.connect(None).await });
    end(connected).await.unwrap();
    assert!(state.borrow_and_update().is_open());
}

#[tokio::test]
async fn an_observer_that_panics_harms_nobody() {
    let mut stub = Stub::start().await;
    let observer = std::sync::Arc::new(|status| assert_eq!(status, Status::Connected { tools: Vec::new() }));
    let running = run(&stub, Some(named("tool")), Options::with(|options| options.observer = observer));
    let connection = stub.connected().await;
    connection.request("e-1", &super::request("a", "write", 1));
    assert_eq!(next(&mut stub.results).await, super::success("a", "done"));
    running.tools.connect(None).await.unwrap();
}
