//! Runs without calls: texts, what the model thinks, what it costs, and what it is told besides the conversation.

use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, Usage};
use handback_server::config::Agent;
use handback_testkit::agui::{Generation, Page, user};
use handback_testkit::{AguiStream, FakeModel, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use super::{World, run, run_1_0, text};

#[tokio::test]
async fn a_text_is_a_message_between_a_beginning_and_an_end() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will_say("Hello.");
    let mut stream = page.run(&world.server).await;
    assert_eq!(stream.lines().await, run(1, &[&text("msg_1", "Hello.")]));
    let header = |name: &str| stream.headers[name].to_str().unwrap().to_owned();
    assert_eq!(header("content-type"), "text/event-stream");
    assert!(header("cache-control").contains("no-cache"));
    assert_eq!(header("x-accel-buffering"), "no");
    assert_eq!(stream.ids(), [""; 0]);
    // And the next, in the same thread.
    page.say("u2", "again");
    world.model.will_say("Again.");
    assert_eq!(page.run(&world.server).await.lines().await, run(2, &[&text("msg_1", "Again.")]));
    let conversation = ["user | hi", "assistant | Hello.", "user | again"];
    assert_eq!(world.model.last_shown().conversation, conversation);
    let history = ["user | hi", "assistant | Hello. | <stop>", "user | again", "assistant | Again. | <stop>"];
    assert_eq!(world.history("t").await, history);
    // The answer has the id that the front end knows it by.
    assert_eq!(page.messages[1]["id"], world.server.messages("t").await[1]["info"]["id"]);
}

#[tokio::test]
async fn whoever_speaks_1_0_is_told_the_version_and_the_outcome() {
    let world = World::start().await;
    for (number, version) in ["1.0", "1.1", "2.0", "10.3"].into_iter().enumerate() {
        let mut page = Page::speaking("t", Generation::New);
        page.say(&format!("u{number}"), "hi");
        page.more = json!({ "protocolVersion": version });
        world.model.will_say("Hello.");
        let expected = run_1_0(1, &[&text("msg_1", "Hello.")], &json!({ "type": "success" }));
        assert_eq!(page.run(&world.server).await.lines().await, expected);
    }
}

#[tokio::test]
async fn an_older_or_unreadable_version_gets_the_older_events() {
    let world = World::start().await;
    for (number, version) in
        [json!("0.9"), json!("0.0.59"), json!(""), json!("new"), json!(null)].into_iter().enumerate()
    {
        let mut page = Page::new("t");
        page.say(&format!("u{number}"), "hi");
        world.model.will_say("Hello.");
        let input = page.input();
        let mut sent = input.clone();
        sent["protocolVersion"] = version;
        let request = world.server.request(Method::POST, "/agui").body(sent.to_string());
        let mut stream = AguiStream::read(request).await;
        assert_eq!(stream.lines().await, run(1, &[&text("msg_1", "Hello.")]));
    }
}

#[tokio::test]
async fn a_text_is_told_as_it_grows() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let mut stream = page.begin(&world.server).await;
    let asked = world.model.asked().await;
    for piece in ["One", ", two", "", " \u{1f600}\n\n\r\nthree\u{2028}"] {
        asked.say(ModelEvent::Text(piece.to_owned()));
        if !piece.is_empty() {
            assert_eq!(stream.until("TEXT_MESSAGE_CONTENT").await["delta"], piece);
        }
    }
    asked.say(ModelEvent::Stop(StopReason::Stop));
    page.read(&mut stream).await;
    assert_eq!(page.messages[1]["content"], "One, two \u{1f600}\n\n\r\nthree\u{2028}");
}

#[tokio::test]
async fn what_the_model_thinks_is_reasoning_and_no_part_of_the_text() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let (thinks, says) =
        (|text: &str| Ok(ModelEvent::Reasoning(text.to_owned())), |text: &str| Ok(ModelEvent::Text(text.to_owned())));
    world.model.will(vec![
        thinks("Hm"),
        thinks(", well"),
        says("I think"),
        thinks("Really?"),
        says("so."),
        Ok(ModelEvent::Stop(StopReason::Stop)),
    ]);
    let lines = page.run(&world.server).await.lines().await;
    let thought = |id: &str, text: &str| {
        vec![
            format!("REASONING_START {}", json!({ "messageId": id })),
            format!("REASONING_MESSAGE_START {}", json!({ "messageId": id, "role": "reasoning" })),
            format!("REASONING_MESSAGE_CONTENT {}", json!({ "messageId": id, "delta": text })),
            format!("REASONING_MESSAGE_END {}", json!({ "messageId": id })),
            format!("REASONING_END {}", json!({ "messageId": id })),
        ]
    };
    let middle: [&[String]; 4] =
        [&thought("prt_1", "Hm, well"), &text("msg_1", "I think"), &thought("prt_2", "Really?"), &text("prt_3", "so.")];
    assert_eq!(lines, run(1, &middle));
    // A front end that sends it back tells the model nothing new.
    page.say("u2", "and?");
    world.model.will_say("Yes.");
    page.run(&world.server).await;
    let conversation = ["user | hi", "assistant | (Hm, well) | I think | (Really?) | so.", "user | and?"];
    assert_eq!(world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn an_answer_of_nothing_is_a_run_of_nothing() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    world.model.will(vec![Ok(ModelEvent::Text(String::new())), Ok(ModelEvent::Stop(StopReason::Stop))]);
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[]));
}

#[tokio::test]
async fn what_a_run_costs_is_summed_up_over_its_steps() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let used = |input, output, reasoning, cache_read, cache_write| {
        Ok(ModelEvent::Usage(Usage { input, output, reasoning, cache_read, cache_write }))
    };
    let called = handback_testkit::model::called(&[("list_tools", "{}".to_owned())]);
    world.model.will([vec![used(1, 1, None, None, None), used(10, 20, Some(3), Some(4), Some(0))], called].concat());
    world.model.will(vec![
        used(100, 200, None, None, None),
        Ok(ModelEvent::Text("x".into())),
        Ok(ModelEvent::Stop(StopReason::Stop)),
    ]);
    let last = page.run(&world.server).await.last().await;
    let usage = json!([{
        "provider": "fake", "model": "one", "inputTokens": 114, "outputTokens": 223, "totalTokens": 337,
        "reasoningTokens": 3, "cachedInputTokens": 4, "cacheWriteInputTokens": 0,
    }]);
    assert_eq!(last["usage"], usage);
    // Each run tells its own.
    page.say("u2", "again");
    world.model.will(vec![used(1, 2, None, None, None), Ok(ModelEvent::Stop(StopReason::Stop))]);
    let last = page.run(&world.server).await.last().await;
    let usage = json!([{ "provider": "fake", "model": "one", "inputTokens": 1, "outputTokens": 2, "totalTokens": 3 }]);
    assert_eq!(last["usage"], usage);
}

#[tokio::test]
async fn the_state_comes_back_as_it_is() {
    let world = World::start().await;
    let states =
        [json!({ "a": null, "b": [1.5, null, { "c": "\n\n" }] }), json!([]), json!("text"), json!(0), json!(false)];
    for (number, state) in states.into_iter().enumerate() {
        let mut page = Page::new("t");
        page.say(&format!("u{number}"), "hi");
        page.more = json!({ "state": state });
        world.model.will_say("Hello.");
        let mut stream = page.run(&world.server).await;
        let snapshot = vec![format!("STATE_SNAPSHOT {}", json!({ "snapshot": state }))];
        assert_eq!(stream.lines().await, run(1, &[&snapshot, &text("msg_1", "Hello.")]));
    }
    // Where there is none nothing is said.
    for (number, state) in [json!({}), json!(null)].into_iter().enumerate() {
        let mut page = Page::new("t");
        page.say(&format!("w{number}"), "hi");
        page.more = json!({ "state": state });
        world.model.will_say("Hello.");
        assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Hello.")]));
    }
}

#[tokio::test]
async fn instructions_and_context_reach_the_model_beside_the_agents_own() {
    let model = FakeModel::default();
    let server = TestServer::with_model(&model, |config| {
        let agent = Agent { system: Some("Be brief.".to_owned()), ..Agent::default() };
        config.agents.insert("default".to_owned(), agent);
    })
    .await;
    let mut page = Page::new("t");
    page.messages = vec![
        json!({ "id": "s1", "role": "system", "content": "You are a cook." }),
        json!({ "id": "d1", "role": "developer", "content": "No meat." }),
        user("u1", "hi"),
    ];
    page.more =
        json!({ "context": [{ "description": "The time", "value": "noon" }, { "description": "", "value": "x" }] });
    model.will_say("Hello.");
    page.run(&server).await;
    let system = "Be brief.\n\nYou are a cook.\n\nNo meat.\n\nThe time: noon\n\n: x";
    assert_eq!(model.last_shown().system.as_deref(), Some(system));
    assert_eq!(model.last_shown().conversation, ["user | hi"]);
    // They are those of this run, and an earlier one's are not added to them.
    page.say("u2", "again");
    page.messages.remove(1);
    page.more = json!({});
    model.will_say("Hello.");
    page.run(&server).await;
    assert_eq!(model.last_shown().system.as_deref(), Some("Be brief.\n\nYou are a cook."));
}

#[tokio::test]
async fn instructions_are_the_runs_and_not_kept_with_every_message() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.messages.push(json!({ "id": "s1", "role": "system", "content": "You are a cook." }));
    for number in 0..5 {
        page.say(&format!("u{number}"), "hi");
    }
    world.model.will_say("Hello.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().system.as_deref(), Some("You are a cook."));
    let stored = json!(world.server.messages("t").await).to_string();
    assert!(!stored.contains("cook"), "{stored}");
}

#[tokio::test]
async fn the_application_may_choose_the_model() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    page.more = json!({ "forwardedProps": { "model": "fake/two", "other": { "deep": null } } });
    world.model.will_say("Hello.");
    page.run(&world.server).await;
    assert_eq!(world.model.last_shown().model, "two");
    // They are the application's own, and need not be an object.
    for (number, props) in [json!(null), json!("x"), json!([1])].into_iter().enumerate() {
        page.say(&format!("w{number}"), "hi");
        page.more = json!({ "forwardedProps": props });
        world.model.will_say("Hello.");
        assert_eq!(page.run(&world.server).await.last().await["type"], "RUN_FINISHED");
    }
}

#[tokio::test]
async fn an_agents_path_uses_its_instructions_and_its_policy() {
    let model = FakeModel::default();
    let server = TestServer::with_model(&model, |config| {
        let permission = handback_server::config::AgentPermission {
            client_tools: handback_core::tools::Permission::Deny,
            ..Default::default()
        };
        let agent = Agent { system: Some("Be brief.".to_owned()), permission, ..Agent::default() };
        config.agents.insert("short".to_owned(), agent);
    })
    .await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    model.will_call(&[("pick", json!({}))]);
    model.will_say("I may not.");
    let input = page.input();
    let mut stream = AguiStream::open(server.request(Method::POST, "/agui/short"), &input).await;
    let denied = super::result("prt_1", "cal_1", "This tool is not allowed here");
    assert_eq!(
        stream.lines().await,
        run(1, &[&super::call("cal_1", "pick", "{}"), &denied, &text("msg_2", "I may not.")])
    );
    assert_eq!(model.last_shown().system.as_deref(), Some("Be brief."));
    assert_eq!(server.get("/session/t").await.body["agent"], "short");
    // The default agent's path uses the agent of the thread.
    page.say("u2", "again");
    model.will_say("Yes.");
    page.run(&server).await;
    assert_eq!(model.last_shown().system.as_deref(), Some("Be brief."));
}

#[tokio::test]
async fn what_to_expect_is_told_of_every_agent() {
    let server = TestServer::with(|config| _ = config.agents.insert("short".to_owned(), Agent::default())).await;
    for (path, name) in [("/agui", "default"), ("/agui/default", "default"), ("/agui/short", "short")] {
        let told = server.get(path).await;
        assert_eq!((told.status, &told.body["identity"]["name"]), (200, &json!(name)), "{told:?}");
        for (group, key) in [("transport", "streaming"), ("tools", "clientProvided"), ("humanInTheLoop", "interrupts")]
        {
            assert_eq!(told.body[group][key], true, "{told:?}");
        }
        assert_eq!(told.body["tools"]["items"][0]["name"], "list_tools");
    }
    server.get("/agui/nobody").await.must_fail(404, "NOT_FOUND");
}

#[tokio::test]
async fn unknown_fields_unknown_parts_and_nulls_are_passed_over() {
    let world = World::start().await;
    let content = json!([
        { "type": "text", "text": "look", "metadata": null },
        { "type": "image", "source": { "type": "data", "value": "AAAA", "mimeType": "image/png" } },
        { "type": "document", "source": { "type": "url", "value": "http://a/b.pdf", "mimeType": "application/pdf" } },
        { "type": "document", "source": { "type": "file", "value": "file-1" } },
        { "type": "binary", "mimeType": "audio/wav", "data": "AAAA" },
        { "type": "hologram", "x": 1 },
    ]);
    let mut page = Page::new("t");
    page.messages = vec![
        json!({ "id": "x1", "role": "activity", "activityType": "PLAN", "content": {} }),
        json!({ "id": "x2", "role": "ghost", "content": 1 }),
        json!({ "id": "u1", "role": "user", "content": content, "name": null, "unknown": [] }),
    ];
    page.more = json!({
        "parentRunId": null, "context": null, "forwardedProps": null, "state": null, "resume": null, "tools": null, "new": { "a": 1 },
    });
    world.model.will_say("Nice.");
    assert_eq!(page.run(&world.server).await.lines().await, run(1, &[&text("msg_1", "Nice.")]));
    let shown = world.model.last_shown().conversation;
    assert_eq!(shown, ["user | look | [image/png] | [application/pdf] | [audio/wav]"]);
}

#[tokio::test]
async fn the_run_that_one_goes_on_from_is_told() {
    let world = World::start().await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    page.more = json!({ "parentRunId": "r0" });
    world.model.will_say("Hello.");
    let stream = page.run(&world.server).await;
    let started: &Value = &stream.seen()[0];
    assert_eq!(*started, json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r1", "parentRunId": "r0" }));
}

#[tokio::test]
async fn ids_are_whatever_the_front_end_makes_of_them() {
    let world = World::start().await;
    let odd = ["a/b c?d#e%20", "\u{1f600}ä", &"x".repeat(256), "\"quoted\\\""];
    for thread in odd {
        let mut page = Page::new(thread);
        page.say(thread, "hi");
        page.more = json!({ "runId": thread });
        world.model.will_say("Hello.");
        let stream = page.run(&world.server).await;
        assert_eq!(stream.seen()[0], json!({ "type": "RUN_STARTED", "threadId": thread, "runId": thread }));
    }
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive_with_comments() {
    let world =
        World::with(|config| config.client_tools.keepalive_interval = std::time::Duration::from_millis(10)).await;
    let mut page = Page::new("t");
    page.say("u1", "hi");
    let mut stream = page.begin(&world.server).await;
    assert_eq!(stream.next().await["type"], "RUN_STARTED");
    for _ in 0..3 {
        assert_eq!(stream.comment().await, ": keep-alive");
    }
    world.model.asked().await.answer("Hello.");
    assert_eq!(stream.lines().await, run(1, &[&text("msg_1", "Hello.")]));
}
