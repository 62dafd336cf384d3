//! The names that a model knows tools by, and tools that are switched on and off.

use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, ScriptedClient, TestServer};
use serde_json::{Value, json};

use super::World;

const UUIDS: [&str; 2] = ["3f2b8c1e-9d4a-4e7b-8f60-1a2b3c4d5e6f", "00c0ffee-9d4a-4e7b-8f60-1a2b3c4d5e6f"];

/// Whether a provider would take this name.
fn fits(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

#[tokio::test]
async fn ids_that_providers_do_not_take_get_a_stable_name_and_the_client_sees_the_full_id() {
    let World { server, model, .. } = World::start().await;
    let long = "a_tool_with_a_rather_long_name_that_fills_all_of_its_64_letters_";
    assert_eq!(long.len(), 64);
    let clients = [
        (UUIDS[0], "battery", None),
        (UUIDS[1], "read_the_clipboard_of_the_browser", Some("read_the_clipboard_of_the_browser_")),
        ("tab.1@example.com:8080", "files.read", Some("files_read_")),
        ("x", long, Some("a_tool_with_a_rather_long_name_that_fills_all_of_its_64_")),
        ("plain", "tool", None),
    ];
    for (client, tool, expected) in clients {
        server.register(client, &[tool]).await;
        let mut stream = server.stream(client).await;
        let session = server.session_of(client).await;
        let full = format!("client_{client}_{tool}");
        let listed = server.get(&format!("/session/{session}/tools")).await.body;
        let alias =
            listed.as_array().unwrap().iter().find(|listed| listed["id"] == full.as_str()).unwrap()["name"].clone();
        let alias = alias.as_str().unwrap();
        assert!(fits(alias), "{alias}");
        match expected {
            Some(start) => {
                let digits = alias.strip_prefix(&start[..start.len().min(56)]).unwrap_or_else(|| panic!("{alias}"));
                assert!(digits.len() == 8 && digits.chars().all(|c| c.is_ascii_hexdigit()), "{alias}");
            }
            None if fits(&full) => assert_eq!(alias, full),
            None => panic!("{full} does not fit"),
        }
        model.will_call(&[(alias, json!({}))]);
        model.will_say("Done.");
        let prompt = server.prompt(&session, "go");
        let call = stream.next_call().await;
        assert_eq!(call["tool"], full.as_str());
        server.answer(super::id(&call), "ok").await;
        prompt.await.unwrap();
        assert_eq!(model.last_shown().aliases(), ["list_tools", alias], "the same name in the next step");
        let messages = server.messages(&session).await;
        assert_eq!(handback_testkit::session::tool_part(&messages[1])["tool"], full.as_str());
    }
}

#[tokio::test]
async fn names_stay_the_same_when_the_client_returns_and_on_another_server() {
    let alias = async |server: &TestServer| {
        let client = ScriptedClient::attach(server, "tab.1", &["read", "write"], |_| None).await;
        let session = server.session_of("tab.1").await;
        let tools = server.get(&format!("/session/{session}/tools")).await.body;
        drop(client);
        server.until("the client is gone", |counts| counts.clients == 0).await;
        [tools[1]["name"].clone(), tools[2]["name"].clone()]
    };
    let server = TestServer::start().await;
    let first = alias(&server).await;
    assert_ne!(first[0], first[1]);
    assert_eq!(alias(&server).await, first);
    assert_eq!(alias(&TestServer::start().await).await, first);
    // Written down, so that a new version of the server keeps them as well.
    assert_eq!(first, [json!("read_26b1fbbc"), json!("write_d1713a17")]);
}

#[tokio::test]
async fn tools_whose_names_look_alike_are_told_apart() {
    let World { server, model, .. } = World::start().await;
    let names = ["a.b", "a:b", "a@b", "a_b"];
    server.register("tab.x", &names).await;
    let mut stream = server.stream("tab.x").await;
    let session = server.session_of("tab.x").await;
    let tools = server.get(&format!("/session/{session}/tools")).await.body;
    let aliases: Vec<&str> = (1..=4).map(|place| tools[place]["name"].as_str().unwrap()).collect();
    model.will_call(&aliases.iter().map(|alias| (*alias, json!({}))).collect::<Vec<_>>());
    model.will_say("All four.");
    let prompt = server.prompt(&session, "go");
    let mut called = Vec::new();
    for _ in names {
        let call = stream.next_call().await;
        server.answer(super::id(&call), call["tool"].as_str().unwrap()).await;
        called.push(call["tool"].as_str().unwrap().to_owned());
    }
    prompt.await.unwrap();
    let expected = names.map(|name| format!("client_tab.x_{name}"));
    assert_eq!((called, model.last_shown().results), (expected.to_vec(), expected.to_vec()));
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_told_to_the_model_with_what_is() {
    let world = World::start().await;
    world.model.will_call(&[("a", json!({})), ("", json!({})), (&"x".repeat(200), json!({}))]);
    world.model.will_say("Sorry.");
    world.server.say(&world.session, "go").await;
    let there = "There is: list_tools, client_tab_a, client_tab_b";
    let long = format!("There is no tool `{}…`. {there}", "x".repeat(60));
    let results = [format!("There is no tool `a`. {there}"), format!("There is no tool ``. {there}"), long];
    assert_eq!(world.model.last_shown().results, results);
    // The part has the name as the model wrote it.
    let messages = world.server.messages(&world.session).await;
    assert_eq!(messages[1]["parts"][1]["tool"], "a");
}

#[tokio::test]
async fn the_tool_that_lists_tools_runs_on_the_server() {
    let world = World::start().await;
    world.model.will_call(&[("list_tools", json!({}))]);
    world.model.will_say("Two.");
    world.server.say(&world.session, "what is there?").await;
    let messages = world.server.messages(&world.session).await;
    let state = &handback_testkit::session::tool_part(&messages[1])["state"];
    assert_eq!((&state["status"], &state["title"]), (&json!("completed"), &json!("2 tools")));
    let listed: Value = serde_json::from_str(state["output"].as_str().unwrap()).unwrap();
    let row = |name: &str, description: &str, parameters: Value| json!({ "name": name, "description": description, "runs": "on the client", "parameters": parameters });
    let any = json!({ "type": "object" });
    assert_eq!(listed, json!([row("client_tab_a", "Counts", super::schema_of_a()), row("client_tab_b", "", any)]));
    assert_eq!(world.server.counts().calls, 0);
}

#[tokio::test]
async fn tools_are_switched_off_for_a_turn_by_name_id_or_pattern() {
    let world = World::start().await;
    let cases = [
        (json!({}), vec!["list_tools", "client_tab_a", "client_tab_b"]),
        (json!({ "b": false }), vec!["list_tools", "client_tab_a"]),
        (json!({ "client_tab_a": false }), vec!["list_tools", "client_tab_b"]),
        (json!({ "list_tools": false }), vec!["client_tab_a", "client_tab_b"]),
        (json!({ "*": false }), vec![]),
        (json!({ "*": false, "a": true }), vec!["client_tab_a"]),
        (json!({ "client_*": false, "client_tab_b": true }), vec!["list_tools", "client_tab_b"]),
        (json!({ "nobody": false, "a": true }), vec!["list_tools", "client_tab_a", "client_tab_b"]),
    ];
    for (tools, expected) in cases {
        world.model.will_say("Yes.");
        let mut body = text_prompt("go");
        body["tools"] = tools.clone();
        let answer = Answer::to(world.server.saying(&world.session, &body)).await;
        assert_eq!(answer.status, 200);
        assert_eq!(world.model.last_shown().aliases(), expected, "{tools}");
        let messages = world.server.messages(&world.session).await;
        let kept = &messages[messages.len() - 2]["info"]["tools"];
        assert_eq!(*kept, if tools == json!({}) { Value::Null } else { tools });
    }
    // It holds for that turn alone, and in it for every step.
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("Not allowed.");
    let mut body = text_prompt("go");
    body["tools"] = json!({ "b": false });
    Answer::to(world.server.saying(&world.session, &body)).await;
    assert_eq!(
        world.model.last_shown().results,
        ["There is no tool `client_tab_b`. There is: list_tools, client_tab_a"]
    );
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "client_tab_a"]);
    world.model.will_say("Back.");
    world.server.say(&world.session, "and now?").await;
    assert_eq!(world.model.last_shown().aliases(), ["list_tools", "client_tab_a", "client_tab_b"]);
}

#[tokio::test]
async fn tools_that_come_during_a_turn_are_offered_in_its_next_step() {
    let mut world = World::start().await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    world.server.register("tab", &["late"]).await;
    world.server.answer(super::id(&call), "ok").await;
    let asked = world.model.asked().await;
    assert_eq!(asked.shown.aliases(), ["list_tools", "client_tab_a", "client_tab_b", "client_tab_late"]);
    asked.answer("Done.");
    prompt.await.unwrap();
}
