//! Answers that differ, come early, come with something else, or come for a turn that nobody follows.

use handback_core::store::TurnError;
use handback_testkit::agui::{Generation, Page, resolved};
use serde_json::{Value, json};

use super::super::run_1_0;
use super::{Asking, call, result, run, text};

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["type"].as_str()).collect()
}

#[tokio::test]
async fn always_for_one_call_does_not_answer_what_has_an_answer_of_its_own() {
    for always_is_first in [true, false] {
        let mut asking = Asking::start().await;
        let stream = asking.ask(&[("client_tab_a", json!({ "n": 1 })), ("client_tab_a", json!({ "n": 2 }))]).await;
        let interrupts = stream.interrupts();
        let always = resolved(&interrupts[0], json!({ "approved": true, "always": true }));
        let no = resolved(&interrupts[1], json!({ "approved": false, "reason": "not that" }));
        let answers = if always_is_first { json!([always, no]) } else { json!([no, always]) };
        let mut stream = asking.begin(answers).await;
        assert_eq!(asking.answer_next("ran").await, json!({ "n": 1 }));
        // From now on all of them may be made, and this is the next that the client gets.
        asking.world.model.asked().await.call(&[("client_tab_a", json!({ "n": 3 }))]);
        assert_eq!(asking.answer_next("ran as well").await, json!({ "n": 3 }));
        asking.world.model.asked().await.answer("Done.");
        assert_eq!(stream.last().await["type"], "RUN_FINISHED");
        let conversation = [
            "user | go",
            r#"assistant | client_tab_a {"n":1} → ran | client_tab_a {"n":2} ✗ not that"#,
            r#"assistant | client_tab_a {"n":3} → ran as well"#,
        ];
        assert_eq!(asking.world.model.last_shown().conversation, conversation);
    }
}

#[tokio::test]
async fn always_for_one_call_does_not_take_the_edited_arguments_of_another() {
    for always_is_first in [true, false] {
        let mut asking = Asking::start().await;
        let stream = asking.ask(&[("client_tab_a", json!({ "n": 1 })), ("client_tab_a", json!({ "n": 2 }))]).await;
        let interrupts = stream.interrupts();
        let always = resolved(&interrupts[0], json!({ "approved": true, "always": true }));
        let edited = resolved(&interrupts[1], json!({ "approved": true, "editedArgs": { "n": 20 } }));
        let answers = if always_is_first { json!([always, edited]) } else { json!([edited, always]) };
        asking.world.model.will_say("Done.");
        let mut stream = asking.begin(answers).await;
        let mut inputs = [asking.answer_next("ran").await, asking.answer_next("ran").await];
        // Which of them is made first is not said.
        inputs.sort_by_key(|input| input["n"].as_i64());
        assert_eq!(inputs, [json!({ "n": 1 }), json!({ "n": 20 })]);
        assert_eq!(stream.last().await["type"], "RUN_FINISHED");
    }
}

#[tokio::test]
async fn two_answers_to_one_interrupt_are_none() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    let [yes, no] = [true, false].map(|approved| resolved(&interrupt, json!({ "approved": approved })));
    for answers in [json!([yes, no]), json!([no, yes]), json!([yes, yes])] {
        let last = asking.resume(answers).await.last().await;
        assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("invalid_resume")), "{last}");
        assert_eq!(asking.world.server.asks().await.len(), 1);
    }
}

#[tokio::test]
async fn more_answers_than_anybody_has_questions_are_refused() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let yes = resolved(&stream.interrupts()[0], json!({ "approved": true }));
    let mut input = asking.page.input();
    input["resume"] = json!(vec![yes; 10_000]);
    asking.world.server.refused_agui("/agui", &input).await.must_fail(400, "INVALID_REQUEST");
    assert_eq!(asking.world.server.asks().await.len(), 1);
}

#[tokio::test]
async fn an_answer_that_comes_before_the_run_has_ended_with_its_question_is_followed_to_the_next() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({ "n": 1 }))]).await;
    let always = resolved(&stream.interrupts()[0], json!({ "approved": true, "always": true }));
    let mut stream = asking.begin(json!([always])).await;
    asking.answer_next("one").await;
    // One call that is made at once, and one that has to be allowed: the run waits for the first.
    asking.world.model.asked().await.call(&[("client_tab_a", json!({ "n": 2 })), ("client_tab_b", json!({}))]);
    let slow = asking.client.next_call().await;
    let early = asking.world.server.until_asked(1).await.remove(0);
    let mut second = asking.begin(json!([resolved(&early, json!({ "approved": true }))])).await;
    asking.answer_next("b").await;
    asking.world.server.answer(slow["requestID"].as_str().unwrap(), "two").await;
    asking.world.model.asked().await.call(&[("client_tab_b", json!({}))]);
    for stream in [&mut stream, &mut second] {
        let last = stream.last().await;
        let interrupts = stream.interrupts();
        assert_eq!(interrupts.len(), 1, "{last}");
        assert_eq!(interrupts[0]["id"], asking.world.server.asks().await[0]["id"]);
        assert_eq!(stream.calls("client_tab_b").last().unwrap(), interrupts[0]["toolCallId"].as_str().unwrap());
    }
}

#[tokio::test]
async fn calls_that_the_page_cannot_answer_any_more_are_not_pending() {
    let mut asking = Asking::start().await;
    asking.page.generation = Generation::New;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    // What is said besides is answered when the turn that was interrupted is over, and that ends with a call.
    asking.page.say("u2", "and hurry up");
    asking.world.model.will_call(&[("pick", json!({ "n": 1 }))]);
    asking.world.model.will_say("I hurried.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.answer_next("ran").await;
    let middle: [&[String]; 4] = [
        &result("prt_1", "cal_1", "ran"),
        &call("cal_2", "pick", r#"{"n":1}"#),
        &result("prt_2", "cal_2", "The page did not run this call"),
        &text("msg_2", "I hurried."),
    ];
    assert_eq!(stream.lines().await, run_1_0(2, &middle, &json!({ "type": "success" })));
    let conversation = [
        "user | go",
        "assistant | client_tab_a {} → ran",
        r#"assistant | pick {"n":1} ✗ The page did not run this call"#,
        "user | and hurry up",
    ];
    assert_eq!(asking.world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn a_turn_that_fails_is_not_how_the_run_ends_if_another_answers_after_it() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    asking.page.say("u2", "and hurry up");
    let overloaded = TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true };
    asking.world.model.will(vec![Err(overloaded)]);
    asking.world.model.will_say("I hurried.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.answer_next("ran").await;
    let middle: [&[String]; 2] = [&result("prt_1", "cal_1", "ran"), &text("msg_1", "I hurried.")];
    assert_eq!(stream.lines().await, run(2, &middle));
}

#[tokio::test]
async fn questions_of_a_turn_that_nobody_follows_are_answered_all_the_same() {
    let mut asking = Asking::start().await;
    let server = &asking.world.server;
    let session = server.session_of("tab").await;
    asking.world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    server.prompt_async(&session, "go").await;
    let ask = server.until_asked(1).await.remove(0);
    let mut page = Page::new(&session);
    page.more = json!({ "forwardedProps": { "clientID": "tab" } });
    page.say("u1", "hello?");
    let last = page.run(server).await.last().await;
    assert_eq!(last["code"], "interrupts_open", "{last}");
    page.messages.clear();
    let stream = page.resume(server, json!([resolved(&ask, json!({ "approved": true }))])).await;
    assert_eq!(kinds(stream.seen()), ["RUN_STARTED", "RUN_FINISHED"]);
    assert_eq!(stream.interrupts(), [] as [Value; 0]);
    assert_eq!(asking.answer_next("ran").await, json!({ "n": 1 }));
    asking.world.model.asked().await.answer("Done.");
    asking.world.server.until_idle(&session).await;
    let history =
        ["user | go", r#"assistant | client_tab_a {"n":1} → ran | <tool-calls>"#, "assistant | Done. | <stop>"];
    assert_eq!(asking.world.history(&session).await, history);
}
