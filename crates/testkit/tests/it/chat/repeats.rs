//! The same message again, edited, or to be answered anew.

use handback_core::sessions::ModelEvent;
use handback_core::store::TurnError;
use handback_testkit::chat::{assistant, saying, user};
use handback_testkit::client::success;
use handback_testkit::server::until;
use handback_testkit::{Scratch, ScriptedClient};
use serde_json::{Value, json};

use super::{World, url};

fn with(mut body: Value, more: Value) -> Value {
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

#[tokio::test]
async fn the_same_message_again_follows_its_turn() {
    let world = World::start().await;
    let body = saying("chat", "u1", "hi");
    let mut one = world.server.chat(&body).await;
    let asked = world.model.asked().await;
    let mut two = world.server.chat(&body).await;
    asked.answer("Once.");
    let lines = one.lines().await;
    assert_eq!(two.lines().await, lines);
    assert_eq!(one.seen()[0], two.seen()[0]);
    // Over: its answer is told from the store.
    assert_eq!(world.server.chat_lines(&body).await, lines);
    assert_eq!(world.history("chat").await, ["user | hi", "assistant | Once. | <stop>"]);
    assert_eq!(world.model.shown().len(), 1);
}

#[tokio::test]
async fn the_same_message_after_a_turn_that_broke_off_goes_on_and_runs_nothing_again() {
    let world = World::start().await;
    let client = ScriptedClient::attach(&world.server, "tab", &["t"], |_| Some(success("done"))).await;
    let body = with(saying("chat", "u1", "go"), json!({ "clientID": "tab" }));
    world.model.will_call(&[("client_tab_t", json!({}))]);
    let mut stream = world.server.chat(&body).await;
    let asked = world.model.asked().await;
    asked.say(ModelEvent::Text("Half".to_owned()));
    stream.until("text-delta").await;
    world.server.abort("chat").await;
    world.model.will_say("Done.");
    let lines = world.server.chat_lines(&body).await;
    let said = |word: &str| lines.iter().any(|line| line.contains(word));
    assert!(said("tool-output-available") && said("Done.") && !said("Half"), "{lines:#?}");
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
    assert_eq!(client.calls().len(), 1);
    assert_eq!(world.model.last_shown().conversation, ["user | go", "assistant | client_tab_t {} → done"]);
    // It has ended by itself: the answer may have been lost on its way, and is told once more.
    assert_eq!(world.server.chat_lines(&body).await.last(), lines.last());
    assert_eq!(world.model.shown().len(), 3);
}

#[tokio::test]
async fn the_same_message_after_a_turn_that_did_nothing_is_answered_anew() {
    let world = World::start().await;
    let body = saying("chat", "u1", "hi");
    world.model.will(vec![Ok(ModelEvent::Text("Half".to_owned())), Err(TurnError::Other("broken".to_owned()))]);
    world.server.chat_lines(&body).await;
    world.model.will_say("Hello.");
    let lines = world.server.chat_lines(&body).await;
    assert!(lines.iter().any(|line| line.contains("Hello.")), "{lines:#?}");
    assert_eq!(world.history("chat").await, ["user | hi", "assistant | Hello. | <stop>"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_message_many_times_at_once_is_one_turn_that_all_follow() {
    let scratch = Scratch::new();
    let kept = World::with(|config| config.data = Some(scratch.path().to_owned())).await;
    for world in [World::start().await, kept] {
        for round in 0..5 {
            let body = saying(&format!("chat{round}"), "u1", "hi");
            let posts: Vec<_> = (0..8).map(|_| world.server.chat(&body)).collect();
            let streams = futures_util::future::join_all(posts).await;
            world.model.asked().await.answer("Once.");
            for mut stream in streams {
                assert_eq!(stream.lines().await.len(), 7);
            }
            let history = world.history(&format!("chat{round}")).await;
            assert_eq!(history, ["user | hi", "assistant | Once. | <stop>"]);
        }
        assert_eq!(world.model.shown().len(), 5);
    }
}

#[tokio::test]
async fn a_message_that_waits_for_its_turn_may_come_again_and_stops_nobody() {
    let world = World::start().await;
    let mut first = world.server.chat(&saying("chat", "u1", "one")).await;
    let asked = world.model.asked().await;
    let mut second = world.server.chat(&saying("chat", "u2", "two")).await;
    let mut again = world.server.chat(&saying("chat", "u2", "two")).await;
    asked.answer("First.");
    assert_eq!(first.lines().await.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
    world.model.asked().await.answer("Second.");
    let lines = second.lines().await;
    assert_eq!(lines.last().unwrap(), r#"finish {"finishReason":"stop"}"#);
    assert_eq!(again.lines().await, lines);
    let history = world.history("chat").await;
    assert_eq!(history.iter().filter(|line| line.starts_with("user")).count(), 2, "{history:?}");
    assert_eq!(world.model.shown().len(), 2);
}

#[tokio::test]
async fn a_message_without_an_id_is_a_new_one_each_time() {
    let world = World::start().await;
    for _ in 0..2 {
        world.model.will_say("Hello.");
        let message = json!({ "role": "user", "parts": [{ "type": "text", "text": "hi" }] });
        assert_eq!(world.server.chat_lines(&json!({ "id": "chat", "messages": [message] })).await.len(), 7);
    }
    assert_eq!(world.history("chat").await.len(), 4);
}

#[tokio::test]
async fn an_edited_message_is_answered_anew_and_what_came_after_is_forgotten() {
    let world = World::start().await;
    for (message, text, answer) in [("u1", "one", "First."), ("u2", "two", "Second."), ("u3", "three", "Third.")] {
        world.model.will_say(answer);
        world.server.chat_lines(&saying("chat", message, text)).await;
    }
    world.model.will_say("Other.");
    let page = world.page("chat").await;
    let body = json!({
        "id": "chat", "messages": [page[0], page[1], user("u2", "zwei")], "messageId": "u2", "trigger": "submit-message",
    });
    assert_eq!(world.server.chat_lines(&body).await.len(), 7);
    let history = ["user | one", "assistant | First. | <stop>", "user | zwei", "assistant | Other. | <stop>"];
    assert_eq!(world.history("chat").await, history);
    let shown = world.model.last_shown().conversation;
    assert_eq!(shown, ["user | one", "assistant | First.", "user | zwei"]);
}

#[tokio::test]
async fn a_prompt_that_waits_is_told_when_the_conversation_is_taken_up_before_it() {
    let world = World::start().await;
    world.model.will_say("First.");
    world.server.chat_lines(&saying("chat", "u1", "one")).await;
    let running = world.server.prompt("chat", "two");
    let _thinking = world.model.asked().await;
    let waiting = world.server.prompt("chat", "three");
    until("it waits", async || world.history("chat").await.len() == 5).await;
    world.model.will_say("Anew.");
    let anew =
        json!({ "id": "chat", "messages": [user("u1", "eins")], "messageId": "u1", "trigger": "submit-message" });
    world.server.chat_lines(&anew).await;
    let discarded = waiting.await.unwrap();
    assert_eq!((discarded.status, &discarded.body["name"]), (409, &json!("ConflictError")), "{discarded:?}");
    assert_eq!(running.await.unwrap().status, 200);
    assert_eq!(world.history("chat").await, ["user | eins", "assistant | Anew. | <stop>"]);
}

/// Its turn broke off, and somebody is impatient.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_message_many_times_at_once_is_one_turn_that_all_follow() {
    let scratch = Scratch::new();
    let kept = World::with(|config| config.data = Some(scratch.path().to_owned())).await;
    for world in [World::start().await, kept] {
        for round in 0..5 {
            let body = saying(&format!("chat{round}"), "u1", "hi");
            world.model.will(vec![Err(TurnError::Other("broken".to_owned()))]);
            world.server.chat_lines(&body).await;
            let posts: Vec<_> = (0..8).map(|_| world.server.chat(&body)).collect();
            let streams = futures_util::future::join_all(posts).await;
            world.model.asked().await.answer("Once.");
            for mut stream in streams {
                let lines = stream.lines().await;
                assert!(lines.iter().any(|line| line.contains("Once.")), "{lines:#?}");
            }
            assert_eq!(world.model.shown().len(), 2 * (round + 1));
        }
    }
}

#[tokio::test]
async fn an_answer_is_regenerated() {
    let world = World::start().await;
    world.model.will_call(&[("list_tools", json!({}))]);
    world.model.will_say("First.");
    world.server.chat_lines(&saying("chat", "u1", "one")).await;
    let page = world.page("chat").await;
    world.model.will_say("Better.");
    let body =
        with(saying("chat", "u1", "one"), json!({ "trigger": "regenerate-message", "messageId": page[1]["id"] }));
    let mut stream = world.server.chat(&body).await;
    assert_eq!(stream.lines().await.len(), 7);
    assert_ne!(stream.seen()[0]["messageId"], page[1]["id"]);
    assert_eq!(world.history("chat").await, ["user | one", "assistant | Better. | <stop>"]);
    assert_eq!(world.model.last_shown().conversation, ["user | one"]);
}

#[tokio::test]
async fn regenerating_while_a_turn_is_under_way_stops_it() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url())]);
    let mut stream = world.server.chat(&saying("chat", "u1", "one")).await;
    let call = stream.call().await;
    world.model.will_say("Better.");
    let body = with(saying("chat", "u1", "one"), json!({ "trigger": "regenerate-message" }));
    assert_eq!(world.server.chat_lines(&body).await.len(), 7);
    assert_eq!(stream.lines().await.last().unwrap(), r#"abort {"reason":"The turn was aborted"}"#);
    let late = json!({ "toolCallId": call, "status": "success" });
    world.server.ack(&late).await.must_be(410, &json!({ "ok": false, "reason": "expired" }));
    assert_eq!(world.history("chat").await, ["user | one", "assistant | Better. | <stop>"]);
}

#[tokio::test]
async fn an_earlier_message_again_is_told_with_its_own_answer() {
    let world = World::start().await;
    for (message, answer) in [("u1", "First."), ("u2", "Second.")] {
        world.model.will_say(answer);
        world.server.chat_lines(&saying("chat", message, message)).await;
    }
    let lines = world.server.chat_lines(&saying("chat", "u1", "u1")).await;
    assert_eq!(lines[3], r#"text-delta {"delta":"First.","id":"prt_1"}"#);
    assert_eq!(world.history("chat").await.len(), 4);
}

#[tokio::test]
async fn the_id_of_an_answer_is_no_users_to_take() {
    let world = World::start().await;
    for (message, answer) in [("u1", "First."), ("u2", "Second.")] {
        world.model.will_say(answer);
        world.server.chat_lines(&saying("chat", message, message)).await;
    }
    let before = world.history("chat").await;
    let answer = world.page("chat").await[1]["id"].as_str().unwrap().to_owned();
    world.server.refused_chat(&saying("chat", &answer, "mine")).await.must_fail(409, "CONFLICT");
    assert_eq!(world.history("chat").await, before);
}

#[tokio::test]
async fn a_repeated_message_tells_steps_and_calls_with_their_ends_only() {
    let world = World::start().await;
    world.model.will_call(&[("open-url", url()), ("open-url", json!({}))]);
    world.model.will_say("Done.");
    let mut stream = world.server.chat(&saying("chat", "u1", "go")).await;
    let call_id = stream.call().await;
    world.server.ack(&json!({ "toolCallId": call_id, "status": "failed", "errorText": "blocked" })).await;
    stream.lines().await;
    let lines = [
        r#"start {"messageId":"msg_1"}"#,
        "start-step",
        r#"tool-input-start {"toolCallId":"cal_1","toolName":"open-url"}"#,
        r#"tool-input-delta {"inputTextDelta":"{\"url\":\"https://example.org/\"}","toolCallId":"cal_1"}"#,
        r#"tool-output-error {"errorText":"blocked","toolCallId":"cal_1"}"#,
        r#"tool-input-start {"toolCallId":"cal_2","toolName":"open-url"}"#,
        r#"tool-input-delta {"inputTextDelta":"{}","toolCallId":"cal_2"}"#,
        r#"tool-output-error {"errorText":"Invalid input: the input: \"url\" is a required property","toolCallId":"cal_2"}"#,
        "finish-step",
        "start-step",
        r#"text-start {"id":"prt_1"}"#,
        r#"text-delta {"delta":"Done.","id":"prt_1"}"#,
        r#"text-end {"id":"prt_1"}"#,
        "finish-step",
        r#"finish {"finishReason":"stop"}"#,
    ];
    assert_eq!(world.server.chat_lines(&saying("chat", "u1", "go")).await, lines);
    // A page that comes back has the same as messages.
    let call = |arguments: Value, error: &str, id: &Value| {
        json!({
            "type": "tool-open-url", "toolCallId": id, "state": "output-error", "input": arguments, "errorText": error,
        })
    };
    let page = world.page("chat").await;
    let ids = [&page[1]["parts"][1]["toolCallId"], &page[1]["parts"][2]["toolCallId"]];
    assert_eq!(ids[0], &json!(call_id));
    let parts = json!([
        { "type": "step-start" },
        call(url(), "blocked", ids[0]),
        call(json!({}), "Invalid input: the input: \"url\" is a required property", ids[1]),
        { "type": "step-start" },
        { "type": "text", "text": "Done.", "state": "done" },
    ]);
    let said = json!([{ "type": "text", "text": "go", "state": "done" }]);
    let user = json!({ "id": "u1", "role": "user", "parts": said });
    assert_eq!(page, [user, assistant(page[1]["id"].as_str().unwrap(), parts)]);
}
