//! Results that come while the turn that they belong to is still under way.

use handback_core::sessions::ModelEvent;
use handback_server::config::OnDisconnect;
use handback_testkit::TestStream;
use handback_testkit::agui::{Generation, Page};
use handback_testkit::model::called;
use serde_json::{Value, json};

use super::{World, result, run, run_1_0, text};

/// A page that has left its run in the middle of a step with a call of the client `tab` and one of its own.
struct Left {
    world: World,
    _client: TestStream,
    page: Page,
    held: Value,
    pick: String,
}

impl Left {
    async fn start(generation: Generation) -> Self {
        let world = World::with(|config| config.agui.on_disconnect = OnDisconnect::Continue).await;
        world.server.register("tab", &["t"]).await;
        let mut client = world.server.stream("tab").await;
        let wanted = called(&[("client_tab_t", r#"{"title":"a"}"#.to_owned()), ("pick", r#"{"n":1}"#.to_owned())]);
        world.model.will([vec![Ok(ModelEvent::Text("Well.".to_owned()))], wanted].concat());
        let mut page = Page::speaking("t", generation);
        page.more = json!({ "forwardedProps": { "clientID": "tab" } });
        page.say("u1", "go");
        let mut stream = page.begin(&world.server).await;
        let held = client.next_call().await;
        stream.until("TOOL_CALL_END").await;
        stream.until("TOOL_CALL_END").await;
        page.take(stream.seen());
        let pick = stream.calls("pick").remove(0);
        Self { world, _client: client, page, held, pick }
    }

    /// The client has run its call.
    async fn answer_held(&self) {
        let held = self.held["requestID"].as_str().unwrap();
        self.world.server.answer(held, "ran").await.must_be(200, &json!({ "success": true }));
    }
}

#[tokio::test]
async fn the_page_is_told_only_what_it_does_not_know() {
    for generation in [Generation::Old, Generation::New] {
        let mut left = Left::start(generation).await;
        left.page.answer(&left.pick.clone(), "picked");
        let mut expected = left.page.messages.clone();
        let mut stream = left.page.begin(&left.world.server).await;
        assert_eq!(stream.next().await["type"], "RUN_STARTED");
        left.answer_held().await;
        left.world.model.asked().await.answer("Done.");
        left.page.read(&mut stream).await;
        let middle: [&[String]; 2] = [&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")];
        let lines = match generation {
            Generation::Old => run(2, &middle),
            Generation::New => run_1_0(2, &middle, &json!({ "type": "success" })),
        };
        assert_eq!(stream.lines().await, lines);
        assert_eq!(left.world.model.last_shown().results, ["ran", "picked"]);
        // Nothing is there twice.
        let told = |kind: &str| stream.seen().iter().find(|event| event["type"] == kind).unwrap();
        let ran = told("TOOL_CALL_RESULT");
        expected.push(
            json!({ "id": ran["messageId"], "role": "tool", "toolCallId": left.held["callID"], "content": "ran" }),
        );
        let said = &told("TEXT_MESSAGE_START")["messageId"];
        expected.push(json!({ "id": said, "role": "assistant", "content": "Done." }));
        assert_eq!(left.page.messages, expected);
        assert_eq!(left.page.messages[1]["content"], "Well.");
        assert_eq!(left.page.messages[1]["toolCalls"][0]["function"]["arguments"], r#"{"title":"a"}"#);
    }
}

#[tokio::test]
async fn of_two_who_bring_the_results_one_goes_on_and_the_other_follows() {
    let mut left = Left::start(Generation::Old).await;
    left.page.answer(&left.pick.clone(), "picked");
    let input = left.page.input();
    let server = &left.world.server;
    let mut both = [server.agui(&input).await, server.agui(&input).await];
    for stream in &mut both {
        assert_eq!(stream.next().await["type"], "RUN_STARTED");
    }
    left.answer_held().await;
    left.world.model.asked().await.answer("Done.");
    let middle: [&[String]; 2] = [&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")];
    for stream in &mut both {
        assert_eq!(stream.lines().await, run(2, &middle));
    }
    assert_eq!(left.world.model.shown().len(), 2);
    assert_eq!(left.world.history("t").await.len(), 3);
}

#[tokio::test]
async fn results_that_come_with_a_message_are_kept_when_their_turn_is_over() {
    let mut left = Left::start(Generation::New).await;
    left.page.answer(&left.pick.clone(), "picked");
    left.page.say("u2", "and?");
    let mut stream = left.page.begin(&left.world.server).await;
    assert_eq!(stream.next().await["type"], "RUN_STARTED");
    left.answer_held().await;
    left.world.model.asked().await.answer("Done.");
    assert_eq!(stream.last().await["outcome"], json!({ "type": "success" }));
    let conversation =
        ["user | go", r#"assistant | Well. | client_tab_t {"title":"a"} → ran | pick {"n":1} → picked"#, "user | and?"];
    assert_eq!(left.world.model.last_shown().conversation, conversation);
    let stored = &left.world.history("t").await[1];
    assert!(stored.contains(r#"pick {"n":1} → picked"#), "{stored}");
}
