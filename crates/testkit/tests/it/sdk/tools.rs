//! The tools of a client, on both transports.

use std::sync::Arc;
use std::time::Duration;

use handback_client::{
    Api, ClientTools, Effect, Invocation, Journal, Options, State, Status, Tool, ToolError, Transport,
};
use handback_testkit::keys::{seconds_from_now, token};
use handback_testkit::server::{PATIENCE, lasting_address};
use handback_testkit::{Scratch, TestServer};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

pub(super) const BOTH: [Transport; 2] = [Transport::Sse, Transport::WebSocket];

fn client(server: &TestServer, mut options: Options) -> ClientTools {
    options.reconnect = (Duration::from_millis(10), Duration::from_millis(50));
    ClientTools::new(Api::new(&server.url, None).unwrap(), "laptop", options)
}

async fn connected(server: &TestServer, options: Options, tool: Tool) -> ClientTools {
    let tools = client(server, options);
    tools.register(tool).await.unwrap();
    timeout(PATIENCE, tools.connect(None)).await.expect("it connects").unwrap();
    tools
}

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// Who is greeted.
    name: String,
}

fn greet() -> Tool {
    Tool::typed("greet", "Greets somebody", |greeting: Greeting, _| async move {
        match greeting.name.as_str() {
            "nobody" => Err(ToolError::new("there is nobody to greet")),
            name => Ok(format!("Hello, {name}!")),
        }
    })
}

/// Says that it was started, and answers when there is a permit.
pub(super) fn gated() -> (Tool, mpsc::UnboundedReceiver<Invocation>, Arc<Semaphore>) {
    let (started, starts) = mpsc::unbounded_channel();
    let gate = Arc::new(Semaphore::new(0));
    let permits = Arc::clone(&gate);
    let tool = Tool::new("gated", "", move |call: Invocation| {
        let (started, permits) = (started.clone(), Arc::clone(&permits));
        async move {
            let cancellation = call.cancellation.clone();
            started.send(call).unwrap();
            tokio::select! {
                permit = permits.acquire() => permit?.forget(),
                () = cancellation.cancelled() => return Err(ToolError::new("stopped at the gate")),
            }
            Ok("through the gate")
        }
    });
    (tool, starts, gate)
}

async fn greeting(server: &TestServer, name: &str) -> Value {
    let call = json!({ "toolID": "client_laptop_greet", "input": { "name": name } });
    let answer = server.execute(call).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body
}

#[tokio::test]
async fn a_typed_tool_is_offered_with_its_schema_and_called() {
    for transport in BOTH {
        let server = TestServer::start().await;
        let tools =
            connected(&server, Options::with(|options| options.transport = transport), greet().effect(Effect::Read))
                .await;
        let offered = json!([{
            "id": "client_laptop_greet", "description": "Greets somebody", "effect": "read",
            "parameters": {
                "type": "object", "required": ["name"],
                "properties": { "name": { "type": "string", "description": "Who is greeted." } },
            },
        }]);
        server.get("/client-tools/tools/laptop").await.must_be(200, &offered);
        let hello = json!({ "status": "success", "title": "", "output": "Hello, Ada!" });
        assert_eq!(greeting(&server, "Ada").await, hello);
        let nobody = json!({ "status": "error", "error": "there is nobody to greet" });
        assert_eq!(greeting(&server, "nobody").await, nobody);
        let misfit = json!({ "toolID": "client_laptop_greet", "input": { "name": 7 } });
        server.execute(misfit).await.unwrap().must_fail(400, "INVALID_REQUEST");
        tools.disconnect().await;
        server.get("/client-tools/clients").await.must_be(200, &json!([]));
    }
}

#[tokio::test]
async fn tools_come_and_go_while_the_client_is_connected() {
    for transport in BOTH {
        let server = TestServer::start().await;
        let tools = connected(&server, Options::with(|options| options.transport = transport), greet()).await;
        let (gated, _starts, _gate) = gated();
        tools.register(gated).await.unwrap();
        let names = async || {
            let offered = server.get("/client-tools/tools/laptop").await.body;
            offered.as_array().unwrap().iter().map(|tool| tool["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names().await, ["client_laptop_greet", "client_laptop_gated"]);
        tools.unregister("greet").await.unwrap();
        assert_eq!(names().await, ["client_laptop_gated"]);
        let broken = greet().parameters(serde_json::from_str(r#"{"type": "nothing that is"}"#).unwrap());
        let refusal = tools.register(broken).await.unwrap_err();
        assert_eq!(refusal.status(), Some(400));
        assert!(refusal.to_string().contains("greet"), "{refusal}");
        assert_eq!(names().await, ["client_laptop_gated"]);
    }
}

#[tokio::test]
async fn a_goodbye_leaves_the_tools_to_another_connection_of_the_same_client() {
    for transport in BOTH {
        let server = TestServer::start().await;
        let options = || Options::with(|options| options.transport = transport);
        let first = connected(&server, options(), greet()).await;
        let second = connected(&server, options(), greet()).await;
        first.disconnect().await;
        assert_eq!(greeting(&server, "Ada").await["output"], "Hello, Ada!");
        // The handlers are told, and what they still say is delivered.
        let (gated, mut starts, _gate) = gated();
        second.register(gated).await.unwrap();
        let call = server.execute(json!({ "toolID": "client_laptop_gated" }));
        let invocation = starts.recv().await.unwrap();
        second.disconnect().await;
        assert!(invocation.cancellation.is_cancelled());
        let last_words = json!({ "status": "error", "error": "stopped at the gate" });
        call.await.unwrap().must_be(200, &last_words);
        server.get("/client-tools/clients").await.must_be(200, &json!([]));
    }
}

#[tokio::test]
async fn a_cancelled_call_reaches_its_handler() {
    for transport in BOTH {
        let server = TestServer::start().await;
        let (gated, mut starts, _gate) = gated();
        let _tools = connected(&server, Options::with(|options| options.transport = transport), gated).await;
        let call = server.execute(json!({ "toolID": "client_laptop_gated", "requestID": "r" }));
        let invocation = starts.recv().await.unwrap();
        server
            .post("/client-tools/cancel", json!({ "requestID": "r" }))
            .await
            .must_be(200, &json!({ "success": true }));
        timeout(PATIENCE, invocation.cancellation.cancelled()).await.unwrap();
        call.await.unwrap().must_fail(409, "CANCELLED");
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_is_told_as_an_error_and_the_client_stays() {
    for transport in BOTH {
        let server = TestServer::start().await;
        let large = Tool::new("large", "", |_| async { Ok("x".repeat(5 * 1024 * 1024)) });
        let tools = connected(&server, Options::with(|options| options.transport = transport), large).await;
        tools.register(greet()).await.unwrap();
        let answer = server.execute(json!({ "toolID": "client_laptop_large" })).await.unwrap();
        assert_eq!(answer.body["status"], "error", "{answer:?}");
        assert!(answer.error().starts_with("the tool ran, but its result was not accepted: "), "{answer:?}");
        assert_eq!(greeting(&server, "Ada").await["output"], "Hello, Ada!");
    }
}

#[tokio::test]
async fn a_token_that_ends_takes_the_connection_with_it() {
    for transport in BOTH {
        let server = TestServer::protected(|_| {}).await;
        // Five seconds of leeway are always granted.
        let token = token(&json!({ "clientID": "laptop", "exp": seconds_from_now(-3) }));
        let tools = ClientTools::new(
            Api::new(&server.url, Some(&token)).unwrap(),
            "laptop",
            Options::with(|options| {
                options.transport = transport;
                options.reconnect = (Duration::from_millis(10), Duration::from_millis(50));
            }),
        );
        tools.register(greet()).await.unwrap();
        tools.connect(None).await.unwrap();
        let mut state = tools.state();
        let closed = timeout(PATIENCE, state.wait_for(|state| matches!(state, State::Closed(_)))).await.unwrap();
        let State::Closed(Some(error)) = &*closed.unwrap() else { panic!("it was not asked to close") };
        assert!(!error.is_transient(), "{error}");
    }
}

#[tokio::test]
async fn a_restarted_server_is_found_again_with_the_tools() {
    for transport in BOTH {
        let server = TestServer::with(|config| config.listen = lasting_address()).await;
        let (statuses, mut seen) = mpsc::unbounded_channel();
        let observer = Arc::new(move |status| drop(statuses.send(status)));
        let tools = connected(
            &server,
            Options::with(|options| {
                options.transport = transport;
                options.observer = observer;
            }),
            greet(),
        )
        .await;
        assert!(matches!(seen.recv().await, Some(Status::Connected { .. })));
        let address = server.address;
        server.stop().await;
        let server = TestServer::with(|config| config.listen = address).await;
        loop {
            let status = timeout(PATIENCE, seen.recv()).await.expect("it comes back").unwrap();
            if matches!(status, Status::Connected { .. }) {
                break;
            }
        }
        assert_eq!(greeting(&server, "Ada").await["output"], "Hello, Ada!");
        tools.disconnect().await;
    }
}

#[tokio::test]
async fn a_process_that_is_started_anew_knows_what_it_has_begun() {
    for transport in BOTH {
        let server = TestServer::start().await;
        let scratch = Scratch::new();
        let options = || {
            Options::with(|options| {
                options.transport = transport;
                options.journal = Journal::directory(scratch.join("journal")).unwrap();
            })
        };
        let (first_tool, mut starts, _gate) = gated();
        let first = connected(&server, options(), first_tool).await;
        let call = server.execute(json!({ "toolID": "client_laptop_gated", "requestID": "begun" }));
        starts.recv().await.unwrap();
        // As a crash would: no goodbye.
        drop(first);
        server.until("the connection is gone", |counts| counts.connections == 0).await;
        let waiting = server.execute(json!({ "toolID": "client_laptop_gated", "requestID": "new" }));
        let (second_tool, mut starts, gate) = gated();
        let _second = connected(&server, options(), second_tool).await;
        let answer = call.await.unwrap();
        assert!(answer.error().starts_with("the outcome is unknown"), "{answer:?}");
        gate.add_permits(1);
        assert_eq!(waiting.await.unwrap().body["output"], "through the gate");
        assert_eq!(starts.recv().await.unwrap().request.request_id, "new");
        assert!(starts.try_recv().is_err(), "the call that was begun is not run again");
    }
}
