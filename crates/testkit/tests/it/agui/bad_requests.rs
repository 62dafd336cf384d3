//! Inputs that make no sense are refused, and change nothing: no thread is made, nothing is forgotten, nobody is
//! stopped.

use handback_testkit::agui::{Page, refused, result, user};
use handback_testkit::{Answer, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use super::World;

/// Posts what must be refused, and checks that no thread has come of it.
async fn must_refuse(server: &TestServer, input: &Value) {
    let shown: String = input.to_string().chars().take(200).collect();
    let answer = server.refused_agui("/agui", input).await;
    assert_eq!(answer.status, 400, "{shown}: {answer:?}");
    answer.must_fail(400, "INVALID_REQUEST");
    assert_eq!(server.get("/session").await.body, json!([]), "{shown}");
}

fn good() -> Value {
    let mut page = Page::new("t");
    page.say("u1", "hi");
    page.input()
}

fn with(key: &str, value: Value) -> Value {
    let mut input = good();
    input[key] = value;
    input
}

fn without(key: &str) -> Value {
    let mut input = good();
    input.as_object_mut().unwrap().remove(key);
    input
}

#[tokio::test]
async fn inputs_that_make_no_sense_make_no_thread() {
    let world = World::start().await;
    let mut inputs: Vec<Value> = vec![json!({}), json!([]), json!(null), json!("hi"), json!(1)];
    inputs.extend(["threadId", "runId", "messages"].map(without));
    let ids = [json!(""), json!(null), json!(1), json!(["t"]), json!({})];
    inputs.extend(ids.iter().flat_map(|id| [with("threadId", id.clone()), with("runId", id.clone())]));
    inputs.extend([json!("a\nb"), json!("x".repeat(257)), json!("é".repeat(129))].map(|id| with("threadId", id)));
    inputs.push(with("runId", json!("x".repeat(257))));
    let lists = [json!({}), json!("hi"), json!([1]), json!([null]), json!([[]]), json!(["hi"]), json!(null), json!([])];
    inputs.extend(lists.map(|list| with("messages", list)));
    inputs
        .extend([json!({}), json!("x"), json!([1]), json!([{}]), json!([["pick"]])].map(|tools| with("tools", tools)));
    inputs.extend([json!("x"), json!([1]), json!([{ "value": "x" }])].map(|context| with("context", context)));
    inputs
        .extend([json!("x"), json!([1]), json!([{}]), json!([{ "interruptId": "x" }])].map(|all| with("resume", all)));
    let unknown_status = json!([{ "interruptId": "x", "status": "maybe" }]);
    inputs.push(with("resume", unknown_status));
    let props = [
        json!({ "clientID": "a b" }),
        json!({ "clientID": "" }),
        json!({ "clientID": 1 }),
        json!({ "model": "no slash" }),
        json!({ "model": "nobody/one" }),
        json!({ "model": 1 }),
    ];
    inputs.extend(props.map(|props| with("forwardedProps", props)));
    inputs.extend([json!(1), json!({}), json!([])].map(|version| with("protocolVersion", version)));
    for input in &inputs {
        must_refuse(&world.server, input).await;
    }
    assert_eq!(world.model.shown(), []);
}

#[tokio::test]
async fn messages_that_make_no_sense_make_no_thread() {
    let world = World::start().await;
    let messages = [
        json!({ "id": "u1", "role": "user" }),
        json!({ "role": "user", "content": "hi" }),
        json!({ "id": 1, "role": "user", "content": "hi" }),
        json!({ "id": "u1", "role": "user", "content": 1 }),
        json!({ "id": "u1", "role": "user", "content": null }),
        json!({ "id": "u1", "role": "user", "content": "" }),
        json!({ "id": "u1", "role": "user", "content": " \n" }),
        json!({ "id": "u1", "role": "user", "content": [] }),
        json!({ "id": "u1", "role": "user", "content": [{ "type": "hologram" }] }),
        json!({ "id": "u1", "role": "user", "content": [{ "type": "text" }] }),
        json!({ "id": "u1", "role": "user", "content": vec![json!({ "type": "text", "text": "x" }); 4_097] }),
        json!({ "id": "u\n1", "role": "user", "content": "hi" }),
        json!({ "id": "x".repeat(257), "role": "user", "content": "hi" }),
        json!({ "id": "u1", "content": "hi" }),
        json!({ "id": "u1", "role": "", "content": "hi" }),
        json!({ "id": "u1", "role": "system", "content": "hi" }),
        json!({ "id": "u1", "role": "system", "content": [] }),
        json!({ "id": "u1", "role": "developer" }),
        json!({ "id": "u1", "role": "assistant", "content": "hi" }),
        json!({ "id": "r1", "role": "tool", "content": "hi" }),
        json!({ "id": "r1", "role": "tool", "toolCallId": "c1" }),
        json!({ "id": "r1", "role": "tool", "toolCallId": 1, "content": "hi" }),
        json!({ "id": "r1", "role": "tool", "toolCallId": "x".repeat(257), "content": "hi" }),
        result("r1", "nobody", "hi"),
    ];
    for message in messages {
        must_refuse(&world.server, &with("messages", json!([message]))).await;
    }
    assert_eq!(world.model.shown(), []);
}

#[tokio::test]
async fn there_is_something_new_or_nothing_is_run() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will_say("Hello.");
    page.run(&world.server).await;
    let before = world.history("t").await;
    // The last word is the answer; it knows of no call; an empty message says nothing.
    let mut forged = page.clone();
    forged.answer("nobody", "hi");
    let mut empty = page.clone();
    empty.say("u2", "");
    for mut page in [page, forged, empty] {
        let message = world.server.refused_agui("/agui", &page.input()).await;
        assert!(message.must_fail(400, "INVALID_REQUEST").contains("nothing to answer"), "{message:?}");
    }
    assert_eq!(world.history("t").await, before);
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn results_of_calls_that_an_unknown_history_does_not_have_make_no_thread() {
    let world = World::start().await;
    let answer = json!({ "id": "a1", "role": "assistant", "content": "Hello." });
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "pick", "arguments": "{}" } });
    let calling = json!({ "id": "a1", "role": "assistant", "toolCalls": [call] });
    for said in [answer, calling] {
        must_refuse(&world.server, &with("messages", json!([user("u1", "hi"), said, result("r1", "nobody", "x")])))
            .await;
    }
}

#[tokio::test]
async fn what_is_no_json_is_refused() {
    let server = TestServer::start().await;
    for body in ["", "hi", "{", "{\"threadId\":\"t\",}", "\u{0}"] {
        let request = server.request(Method::POST, "/agui").body(body);
        refused(request).await.must_fail(400, "INVALID_REQUEST");
    }
    let request = server.request(Method::POST, "/agui").body(b"{\"threadId\":\"\xff\"}".to_vec());
    refused(request).await.must_fail(400, "INVALID_REQUEST");
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        assert_eq!(Answer::to(server.request(method, "/agui")).await.status, 405);
    }
}

#[tokio::test]
async fn an_agent_that_is_not_there_is_404() {
    let world = World::start().await;
    world.server.refused_agui("/agui/nobody", &good()).await.must_fail(404, "NOT_FOUND");
    assert_eq!(world.server.get("/session").await.body, json!([]));
}

#[tokio::test]
async fn a_tool_of_the_page_with_the_name_of_another_is_refused() {
    let world = World::start().await;
    world.server.register("tab", &["t"]).await;
    let tools = |names: &[&str]| {
        let tools: Vec<Value> = names.iter().map(|name| json!({ "name": name, "description": "x" })).collect();
        let mut input = with("tools", json!(tools));
        input["forwardedProps"] = json!({ "clientID": "tab" });
        input
    };
    for names in [&["list_tools"] as &[&str], &["client_tab_t"], &["a", "b", "a"], &["a b"], &[""], &[&"x".repeat(129)]]
    {
        must_refuse(&world.server, &tools(names)).await;
    }
    let bad_schemas = [json!({ "type": "nothing" }), json!([]), json!("x"), json!({ "$ref": "http://a/b" }), json!(1)];
    for schema in bad_schemas {
        must_refuse(&world.server, &with("tools", json!([{ "name": "a", "description": "", "parameters": schema }])))
            .await;
    }
    // Another client's tools are not in the way.
    world.model.will_say("Hello.");
    let mut input = tools(&["client_tab_t"]);
    input["forwardedProps"] = json!({ "clientID": "other" });
    assert_eq!(world.server.agui(&input).await.last().await["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn what_is_too_much_is_refused() {
    let world = World::with(|config| config.limits.tools_per_client = 3).await;
    let many: Vec<Value> = (0..10_001).map(|number| user(&format!("u{number}"), "x")).collect();
    must_refuse(&world.server, &with("messages", json!(many))).await;
    let tools: Vec<Value> = (0..4).map(|number| json!({ "name": format!("t{number}"), "description": "" })).collect();
    let answer = world.server.refused_agui("/agui", &with("tools", json!(tools))).await;
    answer.must_fail(413, "TOO_LARGE");
    assert_eq!(world.server.get("/session").await.body, json!([]));
    let world = World::with(|config| config.limits.body_bytes = 1_000).await;
    let answer = world.server.refused_agui("/agui", &with("messages", json!([user("u1", &"x".repeat(2_000))]))).await;
    answer.must_fail(413, "TOO_LARGE");
}

#[tokio::test]
async fn more_runs_than_may_wait_are_refused() {
    let world = World::with(|config| config.limits.queued_prompts = 1).await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let mut first = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    page.say("u2", "and");
    let mut second = page.begin(&world.server).await;
    second.next().await;
    page.say("u3", "and");
    world.server.refused_agui("/agui", &page.input()).await.must_fail(409, "CONFLICT");
    asked.answer("One.");
    first.last().await;
    world.model.asked().await.answer("Two.");
    assert_eq!(second.last().await["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn a_message_with_the_id_of_an_answer_is_refused() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will_say("Hello.");
    page.run(&world.server).await;
    let answer = page.messages[1]["id"].as_str().unwrap().to_owned();
    let before = world.history("t").await;
    page.say(&answer, "mine now");
    world.server.refused_agui("/agui", &page.input()).await.must_fail(409, "CONFLICT");
    assert_eq!(world.history("t").await, before);
}

#[tokio::test]
async fn what_is_refused_leaves_the_pages_calls_open() {
    let world = World::start().await;
    let (mut page, calls) = world.with_calls(&[("pick", json!({}))]).await;
    let answer = page.messages[1]["id"].as_str().unwrap();
    let bad = with("messages", json!([user(answer, "mine now")]));
    world.server.refused_agui("/agui", &bad).await.must_fail(409, "CONFLICT");
    page.answer(&calls[0], "really");
    world.model.will_say("Done.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().results, ["really"]);
}

#[tokio::test]
async fn a_message_with_the_id_of_an_answer_in_an_unknown_history_makes_no_thread() {
    let world = World::start().await;
    let answer = json!({ "id": "y", "role": "assistant", "content": "Hello." });
    let input = with("messages", json!([user("x", "hi"), answer, user("y", "and?")]));
    world.server.refused_agui("/agui", &input).await.must_fail(409, "CONFLICT");
    assert_eq!(world.server.get("/session").await.body, json!([]));
}

#[tokio::test]
async fn a_history_without_ids_is_taken_up() {
    let world = World::start().await;
    let call = json!({ "id": "c1", "type": "function", "function": { "name": "pick", "arguments": "{}" } });
    let calling = json!({ "id": "", "role": "assistant", "toolCalls": [call] });
    let history = json!([user("", "hi"), calling, result("r1", "c1", "five")]);
    world.model.will_say("Five.");
    let mut stream = world.server.agui(&with("messages", history)).await;
    assert_eq!(stream.last().await["type"], "RUN_FINISHED");
    assert_eq!(world.model.last_shown().conversation, ["user | hi", "assistant | pick {} → five"]);
}

#[tokio::test]
async fn what_finds_no_room_to_wait_is_not_said_in_part() {
    let world = World::with(|config| config.limits.queued_prompts = 1).await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let mut first = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    page.say("u2", "and");
    let mut second = page.begin(&world.server).await;
    second.next().await;
    page.say("early", "and");
    page.say("late", "and");
    world.server.refused_agui("/agui", &page.input()).await.must_fail(409, "CONFLICT");
    asked.answer("One.");
    first.last().await;
    world.model.asked().await.answer("Two.");
    second.last().await;
    let history = ["user | hi", "assistant | One. | <stop>", "user | and", "assistant | Two. | <stop>"];
    let mut stored = world.history("t").await;
    stored.sort_unstable();
    let mut expected = history.map(str::to_owned).to_vec();
    expected.sort_unstable();
    assert_eq!(stored, expected);
}

#[tokio::test]
async fn patterns_that_cost_too_much_are_refused_in_no_time() {
    let server = TestServer::apart().await;
    let properties: serde_json::Map<String, Value> = (0..100)
        .map(|number| (format!("a{number}"), json!({ "pattern": format!("\\p{{L}}{{200}}{number}") })))
        .collect();
    let parameters = json!({ "type": "object", "properties": properties });
    let tools = json!([{ "name": "p", "description": "", "parameters": parameters }]);
    let input = with("tools", tools);
    let refusing = must_refuse(&server, &input);
    tokio::time::timeout(handback_testkit::server::PATIENCE, refusing).await.expect("it is refused in time");
}

#[tokio::test]
async fn what_is_wrong_with_a_message_is_said() {
    let world = World::start().await;
    let parts = vec![json!({ "type": "text", "text": "x" }); 4_097];
    for message in [
        json!({ "id": "u1", "role": "user", "content": parts }),
        json!({ "id": "u1", "role": "user", "content": "hi", "metadata": [] }),
    ] {
        let response = world.server.request(Method::POST, "/agui").json(&with("messages", json!([message])));
        let answer = refused(response).await;
        let words = answer.must_fail(400, "INVALID_REQUEST");
        assert!(words.contains("at most 4096 parts") && words.contains("optional"), "{words}");
    }
}
