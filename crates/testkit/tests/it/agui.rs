//! AG-UI over real sockets: what a front end posts, and the whole stream that it gets.

mod bad_requests;
mod ends;
mod held;
mod histories;
mod interrupts;
mod leaving;
mod meanwhile;
mod ownership;
mod pages;
mod plain;
mod random;
mod repeats;
mod threads;

use handback_testkit::agui::Page;
use serde_json::{Value, json};

use crate::world::World;

impl World {
    /// A page whose run has ended with calls of its own tools, and these.
    async fn with_calls(&self, wanted: &[(&str, Value)]) -> (Page, Vec<String>) {
        self.model.will_call(wanted);
        let mut page = Page::new("t");
        page.say("u1", "go");
        let stream = page.run(&self.server).await;
        assert_eq!(stream.seen().last().unwrap()["type"], "RUN_FINISHED");
        (page, stream.calls("pick"))
    }
}

/// The lines of a whole run, from its beginning to its end, with what is between them.
fn run(number: usize, middle: &[&[String]]) -> Vec<String> {
    let ids = json!({ "runId": format!("r{number}"), "threadId": "t" });
    let mut lines = vec![format!("RUN_STARTED {ids}")];
    lines.extend(middle.concat());
    lines.push(format!("RUN_FINISHED {ids}"));
    lines
}

/// The lines of a run that fails.
fn failed_run(number: usize, middle: &[&[String]], code: &str, message: &str) -> Vec<String> {
    let mut lines = run(number, middle);
    lines.pop();
    lines.push(format!("RUN_ERROR {}", json!({ "code": code, "message": message })));
    lines
}

/// The lines of a run of 1.0.
fn run_1_0(number: usize, middle: &[&[String]], outcome: &Value) -> Vec<String> {
    let mut ids = json!({ "runId": format!("r{number}"), "threadId": "t", "protocolVersion": "1.0" });
    let mut lines = vec![format!("RUN_STARTED {ids}")];
    lines.extend(middle.concat());
    ids.as_object_mut().unwrap().remove("protocolVersion");
    ids["outcome"] = outcome.clone();
    lines.push(format!("RUN_FINISHED {ids}"));
    lines
}

/// The lines of a text.
fn text(message: &str, text: &str) -> Vec<String> {
    vec![
        format!("TEXT_MESSAGE_START {}", json!({ "messageId": message, "role": "assistant" })),
        format!("TEXT_MESSAGE_CONTENT {}", json!({ "messageId": message, "delta": text })),
        format!("TEXT_MESSAGE_END {}", json!({ "messageId": message })),
    ]
}

/// The lines of a call; its message is the first.
fn call(id: &str, tool: &str, arguments: &str) -> Vec<String> {
    calls(&[(id, tool, arguments)])
}

/// The lines of calls of one step: all of them end when the model has said everything.
fn calls(calls: &[(&str, &str, &str)]) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, tool, arguments) in calls {
        let started = json!({ "toolCallId": id, "toolCallName": tool, "parentMessageId": "msg_1" });
        lines.push(format!("TOOL_CALL_START {started}"));
        lines.push(format!("TOOL_CALL_ARGS {}", json!({ "toolCallId": id, "delta": arguments })));
    }
    lines.extend(calls.iter().map(|(id, ..)| format!("TOOL_CALL_END {}", json!({ "toolCallId": id }))));
    lines
}

/// The line that tells what came of a call.
fn result(message: &str, id: &str, content: &str) -> Vec<String> {
    let fields = json!({ "messageId": message, "toolCallId": id, "content": content, "role": "tool" });
    vec![format!("TOOL_CALL_RESULT {fields}")]
}
