//! Calls that have to be allowed: the run ends with interrupts, and the next answers them.

mod mixed;

use std::time::Duration;

use handback_core::tools::Permission;
use handback_testkit::agui::{Generation, Page, resolved};
use handback_testkit::session::permit;
use handback_testkit::{AguiStream, TestStream};
use serde_json::{Value, json};

use super::{World, call, calls, result, run, text};

/// A server that asks before calls of clients, and the client `tab` with its tools `a` (takes an integer `n`) and `b`.
struct Asking {
    world: World,
    client: TestStream,
    page: Page,
}

impl Asking {
    async fn start() -> Self {
        Self::with(Duration::from_secs(60)).await
    }

    async fn with(approval_timeout: Duration) -> Self {
        let world = World::with(|config| {
            permit(config, Permission::Ask);
            config.client_tools.approval_timeout = approval_timeout;
        })
        .await;
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let tools = json!([{ "id": "a", "parameters": schema }, { "id": "b" }]);
        world.server.post("/client-tools/register", json!({ "clientID": "tab", "tools": tools })).await;
        let client = world.server.stream("tab").await;
        let mut page = Page::new("t");
        page.more = json!({ "forwardedProps": { "clientID": "tab" } });
        page.say("u1", "go");
        Self { world, client, page }
    }

    /// Runs until the model's calls have to be allowed.
    async fn ask(&mut self, wanted: &[(&str, Value)]) -> AguiStream {
        self.world.model.will_call(wanted);
        self.page.run(&self.world.server).await
    }

    async fn resume(&mut self, resume: Value) -> AguiStream {
        self.page.resume(&self.world.server, resume).await
    }

    /// Begins a run that answers interrupts.
    async fn begin(&mut self, resume: Value) -> AguiStream {
        let mut input = self.page.input();
        input["resume"] = resume;
        self.world.server.agui(&input).await
    }

    /// Takes the next call of the client, and answers it; gives its input.
    async fn answer_next(&mut self, output: &str) -> Value {
        let call = self.client.next_call().await;
        self.world
            .server
            .answer(call["requestID"].as_str().unwrap(), output)
            .await
            .must_be(200, &json!({ "success": true }));
        call["input"].clone()
    }
}

/// The lines of a run that ends with interrupts: each an ask, a call, and what it is about.
fn interrupted(number: usize, middle: &[&[String]], asks: &[(&str, &str, &str)]) -> Vec<String> {
    let schema = json!({
        "type": "object",
        "properties": {
            "approved": { "type": "boolean", "description": "Whether the call may be made" },
            "editedArgs": { "type": "object", "description": "Arguments in place of the model's" },
            "reason": { "type": "string", "description": "Why it may not, for the model" },
            "always": { "type": "boolean", "description": "Whether all calls of this tool in this thread may be made" },
        },
        "required": ["approved"],
    });
    let interrupts: Vec<Value> = asks
        .iter()
        .map(|(ask, call, about)| {
            json!({
                "id": ask, "reason": "tool_call", "toolCallId": call, "message": format!("Allow {about}?"),
                "expiresAt": "time", "responseSchema": schema,
            })
        })
        .collect();
    let outcome = json!({ "type": "interrupt", "interrupts": interrupts });
    let mut lines = run(number, middle);
    lines.pop();
    lines.push(format!(
        "RUN_FINISHED {}",
        json!({ "outcome": outcome, "runId": format!("r{number}"), "threadId": "t" })
    ));
    lines
}

#[tokio::test]
async fn a_call_that_is_approved_is_made_in_the_next_run_and_not_told_again() {
    let mut asking = Asking::start().await;
    let mut stream = asking.ask(&[("client_tab_a", json!({ "n": 1 }))]).await;
    let wanted = call("cal_1", "client_tab_a", r#"{"n":1}"#);
    let expected = interrupted(1, &[&wanted], &[("per_1", "cal_1", r#"client_tab_a with {"n":1}"#)]);
    assert_eq!(stream.lines().await, expected);
    let interrupt = &stream.interrupts()[0];
    let left = handback_testkit::keys::seconds_until(interrupt["expiresAt"].as_str().unwrap());
    assert!((30.0..=60.0).contains(&left), "{left}");
    // It waits, in the open.
    assert_eq!(asking.world.server.status("t").await, "busy");
    assert_eq!(asking.world.server.asks().await[0]["id"], interrupt["id"]);

    asking.world.model.will_say("Done.");
    let mut stream = asking.begin(json!([resolved(interrupt, json!({ "approved": true }))])).await;
    assert_eq!(asking.answer_next("ran").await, json!({ "n": 1 }));
    let expected = run(2, &[&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")]);
    assert_eq!(stream.lines().await, expected);
    assert_eq!(asking.world.model.last_shown().results, ["ran"]);
    assert_eq!(asking.world.server.asks().await.len(), 0);
    let told = stream.seen().iter().find(|event| event["type"] == "TOOL_CALL_RESULT").unwrap();
    assert_eq!(told["toolCallId"], interrupt["toolCallId"]);
}

#[tokio::test]
async fn a_call_that_is_not_approved_is_told_as_its_result() {
    let interrupt_of = |stream: &AguiStream| stream.interrupts()[0].clone();
    let denials = [
        (json!({ "status": "resolved", "payload": { "approved": false } }), "The user rejected this call"),
        (json!({ "status": "resolved", "payload": { "approved": false, "reason": "not there" } }), "not there"),
        (
            json!({ "status": "resolved", "payload": { "approved": false, "editedArgs": { "n": "x" }, "always": true } }),
            "The user rejected this call",
        ),
        (json!({ "status": "resolved", "payload": false }), "The user rejected this call"),
        (json!({ "status": "cancelled" }), "The user cancelled this call"),
        (json!({ "status": "cancelled", "payload": { "approved": true } }), "The user cancelled this call"),
    ];
    for generation in [Generation::Old, Generation::New] {
        for (mut answer, reason) in denials.clone() {
            let mut asking = Asking::start().await;
            asking.page.generation = generation;
            let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
            answer["interruptId"] = interrupt_of(&stream)["id"].clone();
            asking.world.model.will_say("I see.");
            let lines = asking.resume(json!([answer])).await.lines().await;
            let expected = [result("prt_1", "cal_1", reason), text("msg_1", "I see.")].concat();
            assert_eq!(lines[1..lines.len() - 1], expected);
            assert_eq!(asking.world.model.last_shown().results, [reason]);
            assert_eq!(asking.world.server.asks().await.len(), 0);
        }
    }
}

#[tokio::test]
async fn edited_arguments_are_what_the_client_gets() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({ "n": 1 }))]).await;
    let interrupt = stream.interrupts()[0].clone();
    // What does not fit the tool is refused, and nothing is answered.
    let bad = json!({ "approved": true, "editedArgs": { "n": "x" } });
    let mut stream = asking.resume(json!([resolved(&interrupt, bad)])).await;
    let last = stream.last().await;
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("invalid_resume")), "{last}");
    assert_eq!(asking.world.server.asks().await.len(), 1);
    asking.world.model.will_say("Done.");
    let good = json!({ "approved": true, "editedArgs": { "n": 2 } });
    let mut stream = asking.begin(json!([resolved(&interrupt, good)])).await;
    assert_eq!(asking.answer_next("ran").await, json!({ "n": 2 }));
    assert_eq!(stream.lines().await, run(3, &[&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")]));
    let history = asking.world.history("t").await;
    assert_eq!(history[1], r#"assistant | client_tab_a {"n":2} → ran | <tool-calls>"#);
}

#[tokio::test]
async fn always_allows_the_tool_for_the_rest_of_the_thread() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({ "n": 1 }))]).await;
    let interrupt = stream.interrupts()[0].clone();
    asking.world.model.will_call(&[("client_tab_a", json!({ "n": 2 }))]);
    asking.world.model.will_say("Done.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true, "always": true }))])).await;
    asking.answer_next("one").await;
    asking.answer_next("two").await;
    let second = call("cal_2", "client_tab_a", r#"{"n":2}"#);
    let middle: [&[String]; 4] =
        [&result("prt_1", "cal_1", "one"), &second, &result("prt_2", "cal_2", "two"), &text("msg_2", "Done.")];
    assert_eq!(stream.lines().await, run(2, &middle));
}

#[tokio::test]
async fn two_questions_are_two_interrupts_and_are_answered_together() {
    let mut asking = Asking::start().await;
    let mut stream = asking.ask(&[("client_tab_a", json!({ "n": 1 })), ("client_tab_b", json!({}))]).await;
    let wanted = calls(&[("cal_1", "client_tab_a", r#"{"n":1}"#), ("cal_2", "client_tab_b", "{}")]);
    let asks = [("per_1", "cal_1", r#"client_tab_a with {"n":1}"#), ("per_2", "cal_2", "client_tab_b with {}")];
    assert_eq!(stream.lines().await, interrupted(1, &[&wanted], &asks));
    let interrupts = stream.interrupts();
    // One of them is not enough, and is not answered either.
    let yes = json!({ "approved": true });
    let mut half = asking.resume(json!([resolved(&interrupts[0], yes.clone())])).await;
    let message = format!(
        "The thread waits for an answer: `resume` has to answer all open interrupts, and does not answer {}",
        interrupts[1]["id"].as_str().unwrap()
    );
    let last = half.last().await;
    assert_eq!(last, json!({ "type": "RUN_ERROR", "code": "interrupts_open", "message": message }));
    assert_eq!(asking.world.server.asks().await.len(), 2);
    asking.world.model.will_say("Done.");
    let no = json!({ "approved": false, "reason": "no" });
    let both = json!([resolved(&interrupts[1], no), resolved(&interrupts[0], yes)]);
    let mut stream = asking.begin(both).await;
    asking.answer_next("ran").await;
    let lines = stream.lines().await;
    let mut results = lines[1..3].to_vec();
    results.sort_unstable();
    let mut expected = [result("prt_1", "cal_1", "no"), result("prt_2", "cal_2", "ran")].concat();
    // Which of them is over first is not said.
    if !lines[1].contains(r#""no""#) {
        expected = [result("prt_1", "cal_1", "ran"), result("prt_2", "cal_2", "no")].concat();
    }
    assert_eq!(results, expected);
    assert_eq!(lines[3..6], text("msg_1", "Done."));
    assert_eq!(asking.world.model.last_shown().results, ["ran", "no"]);
}

#[tokio::test]
async fn open_interrupts_and_any_other_input_is_an_error_that_changes_nothing() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    let before = asking.world.history("t").await;
    let mut said = asking.page.clone();
    said.say("u2", "hello?");
    let mut answered = asking.page.clone();
    answered.answer(interrupt["toolCallId"].as_str().unwrap(), "forged");
    let mut again = asking.page.clone();
    again.messages.truncate(1);
    for mut page in [said, answered, again] {
        let mut stream = page.run(&asking.world.server).await;
        let ask = interrupt["id"].as_str().unwrap();
        let message = format!(
            "The thread waits for an answer: `resume` has to answer all open interrupts, and does not answer {ask}"
        );
        assert_eq!(stream.last().await, json!({ "type": "RUN_ERROR", "code": "interrupts_open", "message": message }));
        assert_eq!(stream.seen().len(), 2);
    }
    assert_eq!(asking.world.history("t").await, before);
    assert_eq!(asking.world.server.asks().await.len(), 1);
    assert_eq!(asking.world.model.shown().len(), 1);
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_answers_nothing() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({})), ("client_tab_b", json!({}))]).await;
    let interrupts = stream.interrupts();
    let payloads = [
        json!(null),
        json!({}),
        json!({ "approved": "yes" }),
        json!("yes"),
        json!([]),
        // The fields in their order are no object.
        json!([true]),
        json!([true, {}, "because", true]),
        json!({ "approved": true, "editedArgs": [] }),
    ];
    for payload in payloads {
        let good = resolved(&interrupts[0], json!({ "approved": true }));
        let answers = json!([good, resolved(&interrupts[1], payload.clone())]);
        let mut stream = asking.resume(answers).await;
        let last = stream.last().await;
        assert_eq!(
            (&last["type"], &last["code"]),
            (&json!("RUN_ERROR"), &json!("invalid_resume")),
            "{payload}: {last}"
        );
        assert_eq!(stream.seen().len(), 2);
        assert_eq!(asking.world.server.asks().await.len(), 2, "{payload}");
    }
}

#[tokio::test]
async fn an_interrupt_that_is_not_there_is_an_error() {
    let mut asking = Asking::start().await;
    let nobody = json!({ "interruptId": "per_nobody", "status": "resolved", "payload": { "approved": true } });
    // In a thread that nobody knows, in one where nothing is asked, and in one that waits.
    let mut stream = asking.resume(json!([nobody])).await;
    let last = stream.last().await;
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("unknown_interrupt")), "{last}");
    asking.world.model.will_say("Hello.");
    asking.page.run(&asking.world.server).await;
    let last = asking.resume(json!([nobody])).await.last().await;
    assert_eq!(last["code"], "unknown_interrupt", "{last}");
    asking.page.say("u2", "go");
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let own = resolved(&stream.interrupts()[0], json!({ "approved": true }));
    let last = asking.resume(json!([own, nobody])).await.last().await;
    assert_eq!(last["code"], "unknown_interrupt", "{last}");
    assert_eq!(asking.world.server.asks().await.len(), 1);
    // That of another thread is not there either.
    let mut other = Page::new("other");
    other.say("w1", "go");
    let last = other.resume(&asking.world.server, json!([own])).await.last().await;
    assert_eq!(last["code"], "unknown_interrupt", "{last}");
    assert_eq!(asking.world.server.asks().await.len(), 1);
}

#[tokio::test]
async fn resume_alone_in_a_thread_that_nobody_knows_is_an_unknown_interrupt() {
    let world = World::start().await;
    let mut page = Page::new("t");
    let nobody = json!({ "interruptId": "per_nobody", "status": "resolved", "payload": { "approved": true } });
    let last = page.resume(&world.server, json!([nobody])).await.last().await;
    assert_eq!(last["code"], "unknown_interrupt", "{last}");
}

#[tokio::test]
async fn the_same_answer_again_while_the_call_runs_follows_the_same_run() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    let resume = json!([resolved(&interrupt, json!({ "approved": true }))]);
    let mut first = asking.begin(resume.clone()).await;
    let call = asking.client.next_call().await;
    // The reader was cut off and comes again.
    let mut second = asking.begin(resume.clone()).await;
    // Who says something else now learns that it does not count.
    let last = asking.resume(json!([resolved(&interrupt, json!({ "approved": false }))])).await.last().await;
    assert_eq!(last["code"], "unknown_interrupt", "{last}");
    asking.world.model.will_say("Done.");
    asking.world.server.answer(call["requestID"].as_str().unwrap(), "ran").await;
    let middle: [&[String]; 2] = [&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")];
    assert_eq!(first.lines().await, run(2, &middle));
    assert_eq!(second.lines().await, run(3, &middle));
    assert_eq!(asking.world.model.shown().len(), 2);
    // And when all is over it is not there any more.
    let last = asking.resume(resume).await.last().await;
    assert_eq!(last["code"], "unknown_interrupt", "{last}");
}

#[tokio::test]
async fn an_interrupt_whose_time_is_over_is_not_there_any_more() {
    let mut asking = Asking::with(Duration::from_millis(50)).await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    asking.world.model.asked().await.answer("Nobody said anything.");
    asking.world.server.until_idle("t").await;
    let last = asking.resume(json!([resolved(&interrupt, json!({ "approved": true }))])).await.last().await;
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("unknown_interrupt")), "{last}");
    // What came of it is in the thread.
    let history = asking.world.history("t").await;
    assert_eq!(history[1], "assistant | client_tab_a {} ✗ Denied: the approval expired | <tool-calls>");
    assert_eq!(history[2], "assistant | Nobody said anything. | <stop>");
    asking.page.say("u2", "and now?");
    asking.world.model.will_say("Now I can.");
    assert_eq!(asking.page.run(&asking.world.server).await.lines().await, run(3, &[&text("msg_1", "Now I can.")]));
}

#[tokio::test]
async fn an_interrupt_whose_time_is_over_is_not_there_while_its_turn_goes_on_either() {
    let mut asking = Asking::with(Duration::from_millis(50)).await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    // The model is asked what it makes of the denial.
    let asked = asking.world.model.asked().await;
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asked.answer("Nobody said anything.");
    let last = stream.last().await;
    assert_eq!((&last["type"], &last["code"]), (&json!("RUN_ERROR"), &json!("unknown_interrupt")), "{last}");
}

#[tokio::test]
async fn what_came_of_other_calls_before_the_interrupt_is_not_told_twice() {
    let mut asking = Asking::start().await;
    let mut stream = asking.ask(&[("list_tools", json!({})), ("client_tab_a", json!({}))]).await;
    let lines = stream.lines().await;
    assert_eq!(lines.iter().filter(|line| line.starts_with("TOOL_CALL_RESULT")).count(), 1, "{lines:#?}");
    let interrupt = stream.interrupts()[0].clone();
    asking.world.model.will_say("Done.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.answer_next("ran").await;
    assert_eq!(stream.lines().await, run(2, &[&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")]));
}

#[tokio::test]
async fn an_answer_given_elsewhere_counts_and_the_run_goes_on_from_there() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    let ask = asking.world.server.asks().await.remove(0);
    asking.world.server.reply(&ask, json!({ "reply": "once" })).await.must_be(200, &json!(true));
    let call = asking.client.next_call().await;
    asking.world.model.will_say("Done.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.world.server.answer(call["requestID"].as_str().unwrap(), "ran").await;
    assert_eq!(stream.lines().await, run(2, &[&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")]));
}

#[tokio::test]
async fn results_that_come_with_the_answers_go_on_in_the_same_run() {
    let mut asking = Asking::start().await;
    let mut stream = asking.ask(&[("pick", json!({ "n": 1 })), ("client_tab_a", json!({}))]).await;
    let wanted = calls(&[("cal_1", "pick", r#"{"n":1}"#), ("cal_2", "client_tab_a", "{}")]);
    let asks = [("per_1", "cal_2", "client_tab_a with {}")];
    assert_eq!(stream.lines().await, interrupted(1, &[&wanted], &asks));
    let interrupt = stream.interrupts()[0].clone();
    asking.page.answer(&stream.calls("pick")[0], "picked");
    asking.world.model.will_say("Done.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.answer_next("ran").await;
    assert_eq!(stream.lines().await, run(2, &[&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done.")]));
    assert_eq!(asking.world.model.last_shown().results, ["picked", "ran"]);
}

#[tokio::test]
async fn without_results_the_pages_calls_are_pending_after_the_answers() {
    let mut asking = Asking::start().await;
    asking.page.generation = Generation::New;
    let stream = asking.ask(&[("pick", json!({ "n": 1 })), ("client_tab_a", json!({}))]).await;
    let (interrupt, pick) = (stream.interrupts()[0].clone(), stream.calls("pick").remove(0));
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.answer_next("ran").await;
    asking.page.read(&mut stream).await;
    let kinds: Vec<&str> = stream.seen().iter().filter_map(|event| event["type"].as_str()).collect();
    assert_eq!(kinds, ["RUN_STARTED", "TOOL_CALL_RESULT", "RUN_FINISHED"]);
    let outcome = json!({ "type": "success", "pendingToolCallIds": [pick] });
    assert_eq!(stream.seen().last().unwrap()["outcome"], outcome);
    asking.page.answer(&pick, "picked");
    asking.world.model.will_say("Done.");
    asking.page.run(&asking.world.server).await;
    assert_eq!(asking.world.model.last_shown().results, ["picked", "ran"]);
}

#[tokio::test]
async fn what_the_user_says_with_the_answers_is_answered_after_them() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({}))]).await;
    let interrupt = stream.interrupts()[0].clone();
    asking.page.say("u2", "and hurry up");
    asking.world.model.will_say("Done.");
    asking.world.model.will_say("I hurried.");
    let mut stream = asking.begin(json!([resolved(&interrupt, json!({ "approved": true }))])).await;
    asking.answer_next("ran").await;
    let middle: [&[String]; 3] =
        [&result("prt_1", "cal_1", "ran"), &text("msg_1", "Done."), &text("msg_2", "I hurried.")];
    assert_eq!(stream.lines().await, run(2, &middle));
    let conversation = ["user | go", "assistant | client_tab_a {} → ran", "assistant | Done.", "user | and hurry up"];
    assert_eq!(asking.world.model.last_shown().conversation, conversation);
}

#[tokio::test]
async fn a_run_that_answers_may_end_with_interrupts_again() {
    let mut asking = Asking::start().await;
    let stream = asking.ask(&[("client_tab_a", json!({ "n": 1 }))]).await;
    let first = stream.interrupts()[0].clone();
    asking.world.model.will_call(&[("client_tab_b", json!({}))]);
    let mut stream = asking.begin(json!([resolved(&first, json!({ "approved": true }))])).await;
    asking.answer_next("one").await;
    asking.page.read(&mut stream).await;
    let second_call = call("cal_2", "client_tab_b", "{}");
    let expected = interrupted(
        2,
        &[&result("prt_1", "cal_1", "one"), &second_call],
        &[("per_1", "cal_2", "client_tab_b with {}")],
    );
    assert_eq!(stream.lines().await, expected);
    // The first again is not enough.
    let last = asking.resume(json!([resolved(&first, json!({ "approved": true }))])).await.last().await;
    assert_eq!(last["code"], "interrupts_open", "{last}");
    let second = stream.interrupts()[0].clone();
    asking.world.model.will_say("Done.");
    let mut stream = asking.begin(json!([resolved(&second, json!({ "approved": true }))])).await;
    asking.answer_next("two").await;
    assert_eq!(stream.lines().await, run(4, &[&result("prt_1", "cal_1", "two"), &text("msg_1", "Done.")]));
}
