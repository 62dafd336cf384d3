//! What `/event` tells of sessions: the whole list, in its order, with all fields.

use std::io::{ErrorKind, Read};

use handback_core::sessions::ModelEvent;
use handback_core::store::StopReason;
use handback_core::tools::Permission;
use handback_testkit::session::{events_until, permit, tool_part};
use handback_testkit::tidy::Tidier;
use handback_testkit::{Answer, RawSocket, TestServer, TestStream};
use reqwest::Method;
use serde_json::{Value, json};

use super::{World, id};

const PIXEL: &str = "data:image/png;base64,iVBORw0KGgo=";

fn event(kind: &str, properties: Value) -> Value {
    json!({ "type": kind, "properties": properties })
}

fn status(status: &str) -> Value {
    event("session.status", json!({ "sessionID": "ses_1", "status": { "type": status } }))
}

fn session(kind: &str, title: &str) -> Value {
    let info = json!({
        "id": "ses_1", "slug": "ses_1", "projectID": "global", "directory": "", "clientID": "tab", "title": title,
        "version": env!("CARGO_PKG_VERSION"), "model": { "providerID": "fake", "id": "one" },
        "time": { "created": "time", "updated": "time" },
    });
    event(kind, json!({ "sessionID": "ses_1", "info": info }))
}

fn tokens() -> Value {
    json!({ "input": 0, "output": 0, "reasoning": 0, "cache": { "read": 0, "write": 0 } })
}

fn user() -> Value {
    let info = json!({
        "id": "msg_1", "sessionID": "ses_1", "role": "user", "time": { "created": "time" }, "agent": "default",
        "model": { "providerID": "fake", "modelID": "one" },
    });
    event("message.updated", json!({ "sessionID": "ses_1", "info": info }))
}

/// An assistant's message; without `finish` it has just begun.
fn assistant(id: &str, finish: Option<&str>) -> Value {
    let mut info = json!({
        "id": id, "sessionID": "ses_1", "role": "assistant", "time": { "created": "time" }, "agent": "default",
        "mode": "default", "parentID": "msg_1", "providerID": "fake", "modelID": "one",
        "path": { "cwd": "", "root": "" }, "cost": 0.0, "tokens": tokens(),
    });
    if let Some(finish) = finish {
        info["time"]["completed"] = "time".into();
        info["finish"] = finish.into();
    }
    event("message.updated", json!({ "sessionID": "ses_1", "info": info }))
}

fn part(id: &str, message: &str, mut part: Value) -> Value {
    part["id"] = id.into();
    part["messageID"] = message.into();
    part["sessionID"] = "ses_1".into();
    event("message.part.updated", json!({ "sessionID": "ses_1", "part": part }))
}

fn with_delta(mut event: Value, delta: &str) -> Value {
    event["properties"]["delta"] = delta.into();
    event
}

fn tool(state: Value) -> Value {
    part("prt_4", "msg_2", json!({ "type": "tool", "callID": "cal_1", "tool": "client_tab_a", "state": state }))
}

fn step_finish(id: &str, message: &str, reason: &str) -> Value {
    part(id, message, json!({ "type": "step-finish", "reason": reason, "cost": 0.0, "tokens": tokens() }))
}

fn piece(message: &str, part: &str, delta: &str) -> Value {
    let field = "text";
    let properties =
        json!({ "sessionID": "ses_1", "messageID": message, "partID": part, "field": field, "delta": delta });
    event("message.part.delta", properties)
}

/// The events of a turn in which the call of `a` has to be allowed.
fn turn_with_an_ask() -> Vec<Value> {
    let (open, over) = (json!({ "start": "time" }), json!({ "start": "time", "end": "time" }));
    let text = |text: &str, time: &Value| json!({ "type": "text", "text": text, "time": time });
    let pending = |raw: &str| json!({ "status": "pending", "input": {}, "raw": raw });
    let completed = json!({
        "status": "completed", "input": { "n": 1 }, "output": "2", "title": "Added", "metadata": { "exact": true },
        "time": over,
    });
    let ask = json!({
        "id": "per_1", "type": "client_tool", "permission": "client_tool", "tool": "client_tab_a",
        "pattern": "client_tab_a", "patterns": ["client_tab_a"], "always": ["client_tab_a"], "sessionID": "ses_1",
        "messageID": "msg_2", "callID": "cal_1", "clientID": "tab", "title": "Run a on tab", "input": { "n": 1 },
        "metadata": { "tool": "client_tab_a", "input": { "n": 1 } }, "time": { "created": "time" },
    });
    let replied = json!({
        "sessionID": "ses_1", "permissionID": "per_1", "requestID": "per_1", "response": "once", "reply": "once",
    });
    let request = json!({
        "type": "client-tool-request", "requestID": "req_1", "sessionID": "ses_1", "messageID": "msg_2",
        "callID": "cal_1", "tool": "client_tab_a", "input": { "n": 1 }, "deadline": "time", "effect": "write",
        "attempt": 1,
    });
    let call = json!({
        "sessionID": "ses_1", "messageID": "msg_2", "callID": "cal_1", "tool": "client_tab_a", "clientID": "tab",
    });
    let mut succeeded = call.clone();
    succeeded["success"] = true.into();
    vec![
        session("session.created", "New session"),
        session("session.updated", "New session"),
        user(),
        part("prt_1", "msg_1", json!({ "type": "text", "text": "what is 1 + 1?" })),
        session("session.updated", "what is 1 + 1?"),
        status("busy"),
        assistant("msg_2", None),
        part("prt_2", "msg_2", json!({ "type": "step-start" })),
        piece("msg_2", "prt_3", "Let me"),
        with_delta(part("prt_3", "msg_2", text("Let me", &open)), "Let me"),
        piece("msg_2", "prt_3", " see."),
        with_delta(part("prt_3", "msg_2", text("Let me see.", &open)), " see."),
        part("prt_3", "msg_2", text("Let me see.", &over)),
        tool(pending("")),
        tool(pending("{\"n\":")),
        tool(pending("{\"n\":1}")),
        tool(json!({ "status": "running", "input": { "n": 1 }, "time": open })),
        event("permission.updated", ask.clone()),
        event("permission.asked", ask),
        event("permission.replied", replied),
        event("client-tool.request", json!({ "clientID": "tab", "request": request })),
        event("client-tool.executing", call),
        event("client-tool.completed", succeeded),
        tool(completed),
        step_finish("prt_5", "msg_2", "tool-calls"),
        assistant("msg_2", Some("tool-calls")),
        assistant("msg_3", None),
        part("prt_6", "msg_3", json!({ "type": "step-start" })),
        piece("msg_3", "prt_7", "It is 2."),
        with_delta(part("prt_7", "msg_3", text("It is 2.", &open)), "It is 2."),
        part("prt_7", "msg_3", text("It is 2.", &over)),
        step_finish("prt_8", "msg_3", "stop"),
        assistant("msg_3", Some("stop")),
        session("session.updated", "what is 1 + 1?"),
        status("idle"),
        event("session.idle", json!({ "sessionID": "ses_1" })),
    ]
}

#[tokio::test]
async fn a_turn_with_an_ask_and_a_call_is_told_step_by_step() {
    let mut world = World::with(|config| permit(config, Permission::Ask)).await;
    let mut events = world.server.events().await;
    world.session = world.server.session_of("tab").await;
    let prompt = world.server.prompt(&world.session, "what is 1 + 1?");
    let mut seen = Vec::new();
    let mut until = async |seen: &mut Vec<Value>, found: &dyn Fn(&Value) -> bool| loop {
        seen.push(events.next().await.data);
        if found(&seen[seen.len() - 1]["properties"]) {
            return;
        }
    };
    // Each piece is told before the next is said, so that it is known which come together.
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Let me".to_owned()));
    until(&mut seen, &|event| event["part"]["text"] == "Let me").await;
    asked.say(ModelEvent::Text(" see.".to_owned()));
    until(&mut seen, &|event| event["part"]["text"] == "Let me see.").await;
    asked.say(ModelEvent::CallStarted { index: 0, id: "x".to_owned(), name: "client_tab_a".to_owned() });
    until(&mut seen, &|event| event["part"]["state"]["raw"] == "").await;
    asked.say(ModelEvent::Arguments { index: 0, delta: "{\"n\":".to_owned() });
    until(&mut seen, &|event| event["part"]["state"]["raw"] == "{\"n\":").await;
    asked.say(ModelEvent::Arguments { index: 0, delta: "1}".to_owned() });
    until(&mut seen, &|event| event["part"]["state"]["raw"] == "{\"n\":1}").await;
    asked.say(ModelEvent::CallEnded { index: 0, kept: None });
    asked.say(ModelEvent::Stop(handback_core::store::StopReason::ToolCalls));
    let ask = world.server.until_asked(1).await.remove(0);
    world.server.reply(&ask, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    let call = world.stream.next_call().await;
    let result = json!({ "status": "success", "title": "Added", "output": "2", "metadata": { "exact": true } });
    world.server.post("/client-tools/result", json!({ "requestID": id(&call), "result": result })).await;
    world.model.asked().await.answer("It is 2.");
    prompt.await.unwrap();
    seen.extend(events_until(&mut events, "session.idle").await);

    // The order of the fields of an object says nothing; the request's id is the one that the client was given.
    let mut tidier = Tidier::default();
    let seen: Vec<Value> = seen.iter().map(|event| tidier.tidy(event)).collect();
    let expected = turn_with_an_ask();
    for (place, (seen, expected)) in seen.iter().zip(&expected).enumerate() {
        assert_eq!(seen, expected, "event {place}");
    }
    assert_eq!(seen.len(), expected.len());
    assert_eq!(tidier.tidy(&call)["requestID"], "req_1");
}

/// The types of events and, of parts and statuses, what they say.
fn outline(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let line = |event: &Value| {
        let properties = &event["properties"];
        let about = match event["type"].as_str().unwrap() {
            "session.status" => text(&properties["status"]["type"]),
            "message.part.updated" if properties["part"]["type"] == "tool" => {
                text(&properties["part"]["state"]["status"])
            }
            "message.part.updated" => text(&properties["part"]["type"]),
            "message.updated" if properties["info"]["role"] == "user" => "user".to_owned(),
            "message.updated" if properties["info"]["time"]["completed"].is_null() => "begun".to_owned(),
            "message.updated" => "complete".to_owned(),
            "session.error" => text(&properties["error"]["name"]),
            "permission.replied" => text(&properties["reply"]),
            "client-tool.failed" => text(&properties["error"]),
            _ => String::new(),
        };
        format!("{} {about}", event["type"].as_str().unwrap()).trim_end().to_owned()
    };
    events.iter().map(line).collect()
}

#[tokio::test]
async fn an_abort_is_told_as_an_error_and_the_message_is_complete() {
    let mut world = World::start().await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    let prompt = world.server.prompt(&world.session, "go");
    world.stream.next_call().await;
    world.server.abort(&world.session).await;
    prompt.await.unwrap();
    let seen = events_until(&mut events, "session.idle").await;
    let expected = [
        "message.updated user",
        "message.part.updated text",
        "session.updated",
        "session.status busy",
        "message.updated begun",
        "message.part.updated step-start",
        "message.part.updated pending",
        "message.part.updated pending",
        "message.part.updated running",
        "client-tool.request",
        "client-tool.executing",
        "client-tool.failed The turn was stopped",
        "session.error MessageAbortedError",
        "message.part.updated error",
        "message.updated complete",
        "session.updated",
        "session.status idle",
        "session.idle",
    ];
    assert_eq!(outline(&seen), expected);
    let error = json!({ "name": "MessageAbortedError", "data": { "message": "The turn was aborted" } });
    assert_eq!(seen[12]["properties"], json!({ "sessionID": world.session, "error": error }));
    assert_eq!(seen[14]["properties"]["info"]["error"], error);
    assert_eq!(seen[13]["properties"]["part"]["state"]["error"], "Not finished: The turn was aborted; it may have run");
}

#[tokio::test]
async fn a_session_that_is_deleted_while_it_runs_ends_and_is_told_as_deleted_last() {
    let mut world = World::start().await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    let prompt = world.server.prompt(&world.session, "go");
    world.stream.next_call().await;
    world.server.delete(&format!("/session/{}", world.session), json!({})).await.must_be(200, &json!(true));
    prompt.await.unwrap();
    let seen = events_until(&mut events, "session.deleted").await;
    let last = seen.last().unwrap();
    assert_eq!(last["properties"]["info"]["id"], json!(world.session));
    assert_eq!(last["properties"]["sessionID"], json!(world.session));
    let outline = outline(&seen);
    assert!(outline.contains(&"client-tool.failed The turn was stopped".to_owned()), "{outline:#?}");
    // Nothing is told of it any more.
    world.server.register("marker", &["t"]).await;
    assert_eq!(events.next().await.data["type"], "client-tool.registered");
}

#[tokio::test]
async fn a_turn_without_tools_begins_and_ends_its_message() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    world.model.will_say("Hello.");
    world.server.say(&world.session, "hi").await;
    let expected = [
        "message.updated user",
        "message.part.updated text",
        "session.updated",
        "session.status busy",
        "message.updated begun",
        "message.part.updated step-start",
        "message.part.delta",
        "message.part.updated text",
        "message.part.updated text",
        "message.part.updated step-finish",
        "message.updated complete",
        "session.updated",
        "session.status idle",
        "session.idle",
    ];
    assert_eq!(outline(&events_until(&mut events, "session.idle").await), expected);
}

#[tokio::test]
async fn turns_that_wait_for_each_other_are_busy_until_the_last() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    let prompts = [world.server.prompt(&world.session, "one"), world.server.prompt(&world.session, "two")];
    let first = world.model.asked().await;
    // Both are there before the first is answered.
    while events_until(&mut events, "message.updated").await.is_empty() {}
    let mut users = 1;
    while users < 2 {
        let event = events.next().await.data;
        users += usize::from(event["properties"]["info"]["role"] == "user");
    }
    first.answer("first");
    world.model.asked().await.answer("second");
    for prompt in prompts {
        prompt.await.unwrap();
    }
    let statuses: Vec<String> = outline(&events_until(&mut events, "session.idle").await)
        .into_iter()
        .filter(|line| line.starts_with("session.status") || line.starts_with("session.idle"))
        .collect();
    assert_eq!(statuses.last().unwrap(), "session.idle");
    assert_eq!(statuses.iter().filter(|line| line.ends_with("idle")).count(), 2, "{statuses:?}");
}

/// Reads until the session is idle; nothing on the way may carry a file.
async fn without_files(events: &mut TestStream) -> Vec<Value> {
    let seen = events_until(events, "session.idle").await;
    for event in &seen {
        assert!(!event.to_string().contains("base64"), "{event}");
    }
    seen
}

#[tokio::test]
async fn an_image_is_whole_on_the_tool_part_and_a_link_that_works_in_events() {
    let mut world = World::start().await;
    let mut events = world.server.events().await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("A pixel.");
    let prompt = world.server.prompt(&world.session, "a screenshot, please");
    let call = world.stream.next_call().await;
    let files = json!([
        { "mime": "image/png", "filename": "screen.png", "url": PIXEL },
        { "mime": "text/plain", "url": "https://example.com/notes.txt" },
    ]);
    let metadata = json!({ "thumbnail": PIXEL, "width": 1 });
    let result = json!({ "status": "success", "output": "taken", "metadata": metadata, "attachments": files });
    let answered = world.server.post("/client-tools/result", json!({ "requestID": id(&call), "result": result })).await;
    answered.must_be(200, &json!({ "success": true }));
    prompt.await.unwrap();

    // In the API the files are parts, as they came.
    let messages = world.server.messages(&world.session).await;
    let part = tool_part(&messages[1]);
    let file = |number: usize, rest: Value| {
        let mut file = rest;
        file["type"] = "file".into();
        file["id"] = format!("{}_{number}", part["id"].as_str().unwrap()).into();
        file["sessionID"] = part["sessionID"].clone();
        file["messageID"] = part["messageID"].clone();
        file
    };
    assert_eq!(part["state"]["attachments"], json!([file(0, files[0].clone()), file(1, files[1].clone())]));
    assert_eq!(part["state"]["metadata"], metadata);
    // The model is shown that they are there.
    assert_eq!(
        world.model.last_shown().conversation[1],
        "assistant | client_tab_b {} → taken [image/png] [text/plain]"
    );

    // In events a link to the call stands in their place.
    let seen = without_files(&mut events).await;
    let told = seen.iter().rfind(|event| event["properties"]["part"]["state"]["status"] == "completed").unwrap();
    let state = &told["properties"]["part"]["state"];
    let link = format!("/client-tools/calls/{}", id(&call));
    let shown = json!({ "mime": "image/png", "filename": "screen.png", "url": link });
    assert_eq!(state["attachments"], json!([file(0, shown), file(1, files[1].clone())]));
    assert_eq!(state["metadata"], json!({ "thumbnail": link, "width": 1 }));
    let followed = world.server.get(&link).await;
    assert_eq!((followed.status, &followed.body["outcome"]["attachments"]), (200, &files));
}

#[tokio::test]
async fn the_answer_to_a_prompt_has_the_images_of_its_own_message() {
    // The call and the answer are one message when the turn is stopped there.
    let mut world = World::with(|config| config.limits.steps = 1).await;
    world.model.will_call(&[("client_tab_b", json!({})), ("client_tab_a", json!({}))]);
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.stream.next_call().await;
    let result = json!({ "status": "success", "attachments": [{ "mime": "image/png", "url": PIXEL }] });
    world.server.post("/client-tools/result", json!({ "requestID": id(&call), "result": result })).await;
    world.stream.next_call().await;
    world.server.abort(&world.session).await;
    let answer = prompt.await.unwrap();
    let part = answer.body["parts"].as_array().unwrap().iter().find(|part| part["tool"] == "client_tab_b").unwrap();
    assert_eq!(part["state"]["attachments"][0]["url"], PIXEL);
}

#[tokio::test]
async fn files_in_a_prompt_or_an_input_never_travel_in_events() {
    let mut world = World::with(|config| permit(config, Permission::Ask)).await;
    let mut events = world.server.events().await;
    let prompt = world.server.prompt_with(
        &world.session,
        json!({ "parts": [
            { "type": "text", "text": "what is this?" },
            { "type": "file", "mime": "image/png", "filename": "x.png", "url": PIXEL },
        ]}),
    );
    world.model.asked().await.call(&[("client_tab_b", json!({ "image": PIXEL, "deep": [{ "again": PIXEL }] }))]);
    let ask = world.server.until_asked(1).await.remove(0);
    world.server.reply(&ask, json!({ "reply": "once" })).await;
    let call = world.stream.next_call().await;
    assert_eq!(call["input"]["image"], PIXEL);
    world.server.answer(id(&call), PIXEL).await;
    world.model.asked().await.answer("A pixel.");
    prompt.await.unwrap();
    let seen = without_files(&mut events).await;
    let link = format!("/client-tools/calls/{}", id(&call));
    let find = |found: &dyn Fn(&Value) -> bool| seen.iter().find(|event| found(event)).unwrap()["properties"].clone();
    let file = find(&|event| event["properties"]["part"]["type"] == "file");
    assert_eq!(file["part"]["url"], format!("/session/{}/message", world.session));
    let asked = find(&|event| event["type"] == "permission.asked");
    assert_eq!(asked["input"], json!({ "image": link, "deep": [{ "again": link }] }));
    assert_eq!(asked["metadata"]["input"], asked["input"]);
    let done = find(&|event| event["properties"]["part"]["state"]["status"] == "completed");
    assert_eq!(
        (&done["part"]["state"]["output"], &done["part"]["state"]["input"]["image"]),
        (&json!(link), &json!(link))
    );
    // The messages themselves have them.
    let messages = world.server.messages(&world.session).await;
    assert_eq!(messages[0]["parts"][1]["url"], PIXEL);
    assert_eq!(tool_part(&messages[1])["state"]["output"], PIXEL);
}

#[tokio::test]
async fn arguments_are_told_with_a_link_in_place_of_a_file_in_them() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    let _prompt = world.server.prompt(&world.session, "go");
    let asked = world.model.asked().await;
    asked.say(ModelEvent::CallStarted { index: 0, id: "x".to_owned(), name: "client_tab_b".to_owned() });
    let pieces = ["{\"n\":1,", "\"image\":\"da", "ta:image/png;", "base64,iVBOR", "w0KGgo=\"}"];
    let mut seen = Vec::new();
    for piece in pieces {
        asked.say(ModelEvent::Arguments { index: 0, delta: piece.to_owned() });
        loop {
            let event = events.next().await.data;
            let state = &event["properties"]["part"]["state"];
            if state["status"] == "pending" && state["raw"] != "" {
                assert_eq!(event["properties"]["delta"], Value::Null, "deltas are of texts");
                seen.push(state["raw"].clone());
                break;
            }
        }
    }
    let linked = format!("{{\"n\":1,\"image\":\"/session/{}/message", world.session);
    let expected = [
        "{\"n\":1,",
        "{\"n\":1,\"image\":\"da",
        "{\"n\":1,\"image\":\"data:image/png;",
        &linked,
        &format!("{linked}\"}}"),
    ];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn events_are_one_line_each_and_without_files_whatever_others_wrote() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    // Several lines in the metadata, and in what the model writes as arguments.
    let body = format!("{{\n\"clientID\": \"tab\",\n\"metadata\": {{\n\"image\":\n\"{PIXEL}\"\n}}}}");
    let made = Answer::to(world.server.request(Method::POST, "/session").body(body)).await;
    assert_eq!(made.body["metadata"], json!({ "image": PIXEL }), "{made:?}");
    let session = made.body["id"].as_str().unwrap();
    let prompt = json!({
        "system": format!("You see {PIXEL}."),
        "parts": [
            { "type": "text", "text": format!("Look: ![it]({PIXEL})") },
            { "type": "file", "mime": "image/png", "url": PIXEL },
        ],
    });
    let path = format!("/session/{session}/message");
    let answering = world.server.request(Method::POST, &path).json(&prompt);
    let (answer, ()) = tokio::join!(Answer::to(answering), async {
        let asked = world.model.asked().await;
        asked.say(ModelEvent::CallStarted { index: 0, id: "x".to_owned(), name: "list_tools".to_owned() });
        asked.say(ModelEvent::Arguments { index: 0, delta: format!("{{\n\n\"image\": \"{PIXEL}\"\r\n}}") });
        asked.say(ModelEvent::Stop(StopReason::ToolCalls));
        world.model.asked().await.answer(&format!("I saw {PIXEL}, I think."));
    });
    assert_eq!(answer.status, 200, "{answer:?}");
    // A frame of several lines would not be JSON, and the stream of the test would say so.
    let seen = without_files(&mut events).await;
    let link = format!("/session/{session}/message");
    let told = |needle: &str| seen.iter().any(|event| event.to_string().contains(needle));
    for needle in ["Look: ![it](", "You see ", "I saw ", "\"url\":\"", "\\\"image\\\": \\\""] {
        assert!(told(&format!("{needle}{link}")), "{needle}: {seen:#?}");
    }
    // Whoever asks for it gets it whole.
    let history = world.server.messages(session).await;
    assert_eq!(history.iter().map(|message| message.to_string().matches("base64").count()).sum::<usize>(), 5);
}

#[tokio::test]
async fn the_events_of_a_turn_are_there_when_its_answer_is_there() {
    let server = TestServer::apart().await;
    let session = server.session(json!({})).await;
    let mut socket = RawSocket::open(server.address).await;
    socket.get("/event").await;
    let mut socket = socket.socket.into_std().unwrap();
    for turn in 0..100 {
        let answer = server.say(&session, &format!("turn {turn}")).await;
        let mut events = Vec::new();
        let read = socket.read_to_end(&mut events).unwrap_err();
        assert_eq!(read.kind(), ErrorKind::WouldBlock);
        let events = String::from_utf8(events).unwrap();
        let id = answer["info"]["id"].as_str().unwrap();
        let is_end = |line: &str| line.contains("message.updated") && line.contains(id) && line.contains("completed");
        assert!(events.lines().any(is_end), "turn {turn}: {events}");
    }
}
