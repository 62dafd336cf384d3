//! The behaviours P1 to P49 of a client's event processor, and what else can come.

mod calls;
mod chunks;
mod rest;
mod texts;

use serde_json::json;

use super::*;

/// A conversation after events.
fn after(conversation: Conversation, events: &[Value]) -> Conversation {
    let read = |event: &Value| serde_json::from_value::<Event>(event.clone()).unwrap();
    events.iter().map(read).fold(conversation, |conversation, event| process(conversation, &event))
}

/// A new conversation after events.
fn told(events: &[Value]) -> Conversation {
    after(Conversation::default(), events)
}

fn run_started() -> Value {
    json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"})
}

fn run_finished() -> Value {
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"})
}

fn text_start(id: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_START", "messageId": id})
}

fn text_content(id: &str, delta: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": delta})
}

fn text_end(id: &str) -> Value {
    json!({"type": "TEXT_MESSAGE_END", "messageId": id})
}

fn call_start(id: &str, name: &str) -> Value {
    json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name})
}

fn call_args(id: &str, delta: &str) -> Value {
    json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": delta})
}

fn call_end(id: &str) -> Value {
    json!({"type": "TOOL_CALL_END", "toolCallId": id})
}

fn call_result(id: &str, content: &str) -> Value {
    json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": id, "content": content})
}

fn text(id: &str, role: Role, text: &str) -> Text {
    Text { id: id.to_owned(), role, text: text.to_owned(), reasoning: String::new(), is_cut_off: false }
}

fn call(id: &str, name: &str, arguments: &str, status: ToolCallStatus, result: Option<&str>) -> ToolCall {
    let [id, name, arguments] = [id, name, arguments].map(str::to_owned);
    ToolCall { id, name, arguments, status, result: result.map(str::to_owned) }
}

fn calls(conversation: &Conversation) -> Vec<ToolCall> {
    conversation.tool_calls().cloned().collect()
}

fn calling(names: &[&str]) -> Activity {
    Activity::CallingTools(names.iter().map(|name| (*name).to_owned()).collect())
}
