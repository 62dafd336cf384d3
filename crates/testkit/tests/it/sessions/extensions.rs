//! What an embedding program adds: hooks around calls, and tools that run on the server.

use std::sync::Arc;

use handback_core::schema::Schema;
use handback_core::store::{ModelRef, Success, ToolResult};
use handback_core::tools::{Before, BoxFuture, Hook, HookedCall, Invocation, ServerTool, ServerToolSpec};
use handback_server::app::Extensions;
use handback_testkit::model::MODEL;
use handback_testkit::session::tool_part;
use handback_testkit::{FakeModel, ScriptedClient, TestServer};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

/// Doubles numbers on the way to the client, refuses 13, and signs what comes back.
struct Doubling;

impl Hook for Doubling {
    fn before<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Before> {
        let input: Value = serde_json::from_str(call.input.get()).unwrap();
        Box::pin(std::future::ready(match input["n"].as_i64() {
            Some(13) => Before::Refuse(format!("{} does not take 13", call.tool)),
            Some(n) => Before::Change(to_raw_value(&json!({ "n": n * 2 })).unwrap()),
            None => Before::Go,
        }))
    }

    fn after<'a>(&'a self, _call: HookedCall<'a>, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(std::future::ready(match result {
            ToolResult::Completed { title, output, metadata, attachments } => {
                ToolResult::Completed { title, output: format!("{output}, signed"), metadata, attachments }
            }
            other => other,
        }))
    }
}

/// Says in which session it is asked.
struct WhereAmI(ServerToolSpec);

impl ServerTool for WhereAmI {
    fn spec(&self) -> &ServerToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Success, String>> {
        let client = invocation.session.client.as_ref().map(ToString::to_string);
        let said = client.map(|client| Success { output: format!("with {client}"), ..Success::default() });
        Box::pin(std::future::ready(said.ok_or_else(|| "with nobody".to_owned())))
    }
}

async fn server(model: &FakeModel) -> TestServer {
    let spec = ServerToolSpec::new("where_am_i", "Says where", Arc::new(Schema::any_object())).unwrap();
    let extensions =
        Extensions { hooks: vec![Arc::new(Doubling)], tools: vec![Arc::new(WhereAmI(spec))], ..model.extensions() };
    TestServer::with_extensions(|config| config.model = ModelRef::parse(MODEL).unwrap(), extensions).await
}

#[tokio::test]
async fn hooks_change_the_input_refuse_calls_and_change_what_comes_back() {
    let model = FakeModel::default();
    let server = server(&model).await;
    let echo = |call: &Value| Some(json!({ "status": "success", "output": format!("got {}", call["input"]["n"]) }));
    let client = ScriptedClient::attach(&server, "tab", &["a"], echo).await;
    let session = server.session_of("tab").await;
    model.will_call(&[("client_tab_a", json!({ "n": 21 })), ("client_tab_a", json!({ "n": 13 }))]);
    model.will_say("Done.");
    server.say(&session, "go").await;
    assert_eq!(model.last_shown().results, ["got 42, signed", "client_tab_a does not take 13"]);
    let inputs: Vec<Value> = client.calls().iter().map(|call| call["input"].clone()).collect();
    assert_eq!(inputs, [json!({ "n": 42 })]);
    let step = "assistant | client_tab_a {\"n\":42} → got 42, signed | \
                client_tab_a {\"n\":13} ✗ client_tab_a does not take 13 | <tool-calls>";
    assert_eq!(server.history(&session).await[1], step);
}

#[tokio::test]
async fn a_tool_of_the_server_runs_there_in_every_session() {
    let model = FakeModel::default();
    let server = server(&model).await;
    for (body, result) in [(json!({ "clientID": "tab" }), "with tab, signed"), (json!({}), "with nobody")] {
        let session = server.session(body).await;
        let tools = server.get(&format!("/session/{session}/tools")).await.body;
        let expected = json!({
            "id": "where_am_i", "name": "where_am_i", "description": "Says where", "parameters": { "type": "object" },
            "runs": "server", "permission": "allow",
        });
        assert_eq!(tools[1], expected);
        model.will_call(&[("where_am_i", json!({}))]);
        model.will_say("Here.");
        server.say(&session, "where am I?").await;
        assert_eq!(model.last_shown().results, [result]);
        let messages = server.messages(&session).await;
        assert_eq!(tool_part(&messages[1])["tool"], "where_am_i");
    }
    // No client had to do with it.
    assert_eq!(server.get("/client-tools/calls").await.body, json!([]));
}
