use serde_json::{Value, json};

use super::*;

fn input() -> Value {
    json!({ "threadId": "t", "runId": "r", "messages": [], "tools": [{ "name": "pick" }] })
}

fn input_1_0() -> Value {
    let mut input = input();
    input["protocolVersion"] = "1.0".into();
    input
}

fn started() -> Value {
    json!({ "type": "RUN_STARTED", "threadId": "t", "runId": "r" })
}

fn started_1_0() -> Value {
    let mut started = started();
    started["protocolVersion"] = "1.0".into();
    started
}

fn finished() -> Value {
    json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r" })
}

fn finished_with(outcome: Value) -> Value {
    let mut finished = finished();
    finished["outcome"] = outcome;
    finished
}

fn text_events(kind: &str, id: &str) -> Value {
    match kind {
        "CONTENT" => json!({ "type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": "x" }),
        other => json!({ "type": format!("TEXT_MESSAGE_{other}"), "messageId": id }),
    }
}

fn call(tool: &str) -> Value {
    json!({ "type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": tool, "parentMessageId": "m" })
}

fn arguments() -> Value {
    json!({ "type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{}" })
}

fn end_of_call() -> Value {
    json!({ "type": "TOOL_CALL_END", "toolCallId": "c" })
}

fn told(message: &str) -> Value {
    json!({ "type": "TOOL_CALL_RESULT", "messageId": message, "toolCallId": "c", "content": "ok", "role": "tool" })
}

fn thought(kind: &str) -> Value {
    match kind {
        "MESSAGE_START" => json!({ "type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning" }),
        "MESSAGE_CONTENT" => json!({ "type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "x" }),
        other => json!({ "type": format!("REASONING_{other}"), "messageId": "m" }),
    }
}

/// What the rules say of a whole stream.
fn verdict(input: &Value, events: &[Value]) -> Result<(), String> {
    let mut rules = Rules::new(input);
    events.iter().try_for_each(|event| rules.take(event))?;
    rules.end()
}

fn success(pending: &[&str]) -> Value {
    match pending {
        [] => json!({ "type": "success" }),
        pending => json!({ "type": "success", "pendingToolCallIds": pending }),
    }
}

#[test]
fn good_streams_pass() {
    let interrupt =
        json!({ "type": "interrupt", "interrupts": [{ "id": "i", "reason": "tool_call", "toolCallId": "c" }] });
    let old = [
        vec![started(), finished()],
        vec![started(), json!({ "type": "RUN_ERROR", "message": "no", "code": "x" })],
        // What is open when a run fails stays so.
        vec![started(), text_events("START", "m"), json!({ "type": "RUN_ERROR", "message": "no" })],
        vec![
            started(),
            json!({ "type": "STATE_SNAPSHOT", "snapshot": null }),
            text_events("START", "m"),
            call("pick"),
            text_events("CONTENT", "m"),
            arguments(),
            text_events("END", "m"),
            end_of_call(),
            finished(),
        ],
        vec![started(), call("server"), arguments(), end_of_call(), told("n"), finished()],
        // A result of a call that an earlier run told.
        vec![started(), told("n"), finished()],
        vec![
            started(),
            thought("START"),
            thought("MESSAGE_START"),
            thought("MESSAGE_CONTENT"),
            thought("MESSAGE_END"),
            thought("END"),
            finished(),
        ],
        vec![started(), call("server"), end_of_call(), finished_with(interrupt)],
    ];
    for events in old {
        assert_eq!(verdict(&input(), &events), Ok(()), "{events:#?}");
    }
    let parts = json!({ "type": "TOOL_CALL_RESULT", "messageId": "n", "toolCallId": "c", "content": [{ "type": "text", "text": "ok" }] });
    let new = [
        vec![started_1_0(), call("pick"), end_of_call(), finished_with(success(&["c"]))],
        vec![started_1_0(), parts, finished_with(success(&[]))],
        vec![started_1_0(), call("server"), end_of_call(), finished_with(json!({ "type": "cancelled" }))],
    ];
    for events in new {
        assert_eq!(verdict(&input_1_0(), &events), Ok(()), "{events:#?}");
    }
}

/// A stream that breaks a rule, and the rule.
type Case = (Vec<Value>, &'static str);

fn must_break(input: &Value, cases: Vec<Case>) {
    for (events, rule) in cases {
        let broken = verdict(input, &events).expect_err(rule);
        assert!(broken.starts_with(rule), "{broken}, and not: {rule}");
    }
}

#[test]
fn an_order_that_clients_reject_is_found() {
    let error = json!({ "type": "RUN_ERROR", "message": "no" });
    let step = |kind: &str| json!({ "type": format!("STEP_{kind}"), "stepName": "s" });
    must_break(
        &input(),
        vec![
            (vec![], "the stream ended without a terminal event"),
            (vec![started()], "the stream ended without a terminal event"),
            (vec![error.clone()], "the first event is RUN_STARTED"),
            (vec![finished()], "the first event is RUN_STARTED"),
            (vec![text_events("START", "m")], "the first event is RUN_STARTED"),
            (vec![started(), started()], "a run begins once"),
            (vec![started(), finished(), finished()], "nothing comes after the terminal event"),
            (vec![started(), error.clone(), finished()], "nothing comes after the terminal event"),
            (vec![started(), finished(), error], "nothing comes after the terminal event"),
            (vec![started(), text_events("CONTENT", "m")], "what goes on or ends is open"),
            (vec![started(), text_events("END", "m")], "what goes on or ends is open"),
            (vec![started(), text_events("START", "m"), text_events("END", "n")], "what goes on or ends is open"),
            (
                vec![started(), text_events("START", "m"), text_events("START", "m")],
                "what is begun was not begun before",
            ),
            (
                vec![started(), text_events("START", "m"), text_events("END", "m"), text_events("CONTENT", "m")],
                "what goes on or ends is open",
            ),
            (
                vec![started(), text_events("START", "m"), text_events("END", "m"), text_events("START", "m")],
                "what is begun was not begun before",
            ),
            (vec![started(), text_events("START", "m"), finished()], "the run is finished while text m is open"),
            (vec![started(), call("pick"), finished()], "the run is finished while call c is open"),
            (vec![started(), arguments()], "what goes on or ends is open"),
            (vec![started(), end_of_call()], "what goes on or ends is open"),
            (vec![started(), call("pick"), call("pick")], "what is begun was not begun before"),
            (vec![started(), step("FINISHED")], "what goes on or ends is open"),
            (vec![started(), step("STARTED"), finished()], "the run is finished while step s is open"),
            (vec![started(), thought("MESSAGE_START")], "what goes on or ends is open"),
            (vec![started(), thought("START"), thought("START")], "what is begun was not begun before"),
            (vec![started(), thought("START"), finished()], "the run is finished while reasoning m is open"),
            (
                vec![started(), thought("START"), thought("MESSAGE_START"), thought("END")],
                "what was thought ends before the thinking",
            ),
            (vec![started(), thought("START"), thought("MESSAGE_CONTENT")], "what goes on or ends is open"),
        ],
    );
}

#[test]
fn a_call_that_nobody_would_answer_or_twice_is_found() {
    let left_open = "call c is left open, but server is no tool of the page";
    must_break(
        &input(),
        vec![
            (vec![started(), call("server"), end_of_call(), finished()], left_open),
            (vec![started(), call("pick"), told("n")], "a result comes after the arguments"),
            (vec![started(), told("n"), told("o")], "a call has one result"),
            (vec![started(), told("n"), call("pick")], "a call begins before its result"),
        ],
    );
    let mut other = told("n");
    other["toolCallId"] = "d".into();
    must_break(&input(), vec![(vec![started(), told("n"), other], "a result is a message of its own")]);
    let finished_success = |pending: &[&str]| finished_with(success(pending));
    must_break(
        &input_1_0(),
        vec![
            (vec![started_1_0(), call("server"), end_of_call(), finished_success(&["c"])], left_open),
            (
                vec![started_1_0(), call("pick"), end_of_call(), finished_success(&[])],
                "every call that is left open is pending",
            ),
            (vec![started_1_0(), told("n"), finished_success(&["c"])], "a call that has a result is not pending"),
            (vec![started_1_0(), finished_success(&["c", "c"])], "a pending call is named once"),
            (
                vec![started_1_0(), finished_with(json!({ "type": "success", "pendingToolCallIds": [] }))],
                "where nothing is pending nothing is said of it",
            ),
        ],
    );
}

#[test]
fn what_one_generation_does_not_know_is_found() {
    let parts = json!({ "type": "TOOL_CALL_RESULT", "messageId": "n", "toolCallId": "c", "content": [] });
    let told_1_0 = "`protocolVersion` is told to whoever knows it, and to no others";
    must_break(
        &input(),
        vec![
            (vec![started_1_0()], told_1_0),
            (vec![started(), finished_with(success(&[]))], "the outcome `success` came with 1.0"),
            (vec![started(), finished_with(json!({ "type": "cancelled" }))], "the outcome `cancelled` came with 1.0"),
            (vec![started(), parts], "results in parts came with 1.0"),
        ],
    );
    must_break(
        &input_1_0(),
        vec![(vec![started()], told_1_0), (vec![started_1_0(), finished()], "whoever knows outcomes is told one")],
    );
}

#[test]
fn an_event_that_is_not_as_it_should_be_is_found() {
    let with = |mut event: Value, key: &str, value: Value| {
        event[key] = value;
        event
    };
    let usage = |entry: Value| with(finished(), "usage", json!([entry]));
    let interrupts = |interrupts: Value| finished_with(json!({ "type": "interrupt", "interrupts": interrupts }));
    let other_thread = with(finished(), "threadId", json!("u"));
    let total = json!({ "inputTokens": 1, "outputTokens": 1, "totalTokens": 3 });
    must_break(
        &input(),
        vec![
            (vec![json!([])], "an event is an object with a type"),
            (vec![json!({ "type": 1 })], "an event is an object with a type"),
            (vec![json!({ "type": "THINKING_START" })], "there is no such type of event"),
            (vec![json!({ "type": "RUN_STARTED", "threadId": "t" })], "runId is missing"),
            (vec![with(started(), "agent", json!("x"))], "there is no field agent"),
            (vec![with(started(), "parentRunId", json!(null))], "parentRunId is a text"),
            (vec![with(started(), "timestamp", json!(null))], "there is a null"),
            (vec![with(started(), "threadId", json!("u"))], "the thread and the run are those of the input"),
            (vec![started(), other_thread], "the thread and the run are those of the input"),
            (vec![started(), json!({ "type": "RUN_ERROR", "message": "" })], "an error says what it is"),
            (vec![started(), text_events("START", "")], "what is begun has a name"),
            (vec![started(), with(text_events("START", "m"), "role", json!("robot"))], "unknown variant"),
            (vec![started(), with(finished(), "outcome", json!({ "type": "maybe" }))], "there is no outcome maybe"),
            (vec![started(), interrupts(json!([]))], "an interrupt says what it waits for"),
            (
                vec![started(), interrupts(json!([{ "id": "i", "reason": "tool_call" }]))],
                "an interrupt of a call says which",
            ),
            (vec![started(), usage(total)], "the total is the sum"),
            (vec![started(), usage(json!({ "reasoningTokens": 1 }))], "reasoning is a part of what is written"),
            (vec![started(), usage(json!({ "tokens": 1 }))], "it is not written as it was read"),
        ],
    );
}
