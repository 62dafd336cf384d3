use handback_wire::agui::Event;
use serde_json::{Value, json};

use super::super::conversation::{ConversationStatus, Role};
use super::super::process;
use super::*;

fn after(conversation: Conversation, events: &[Value]) -> Conversation {
    let read = |event: &Value| serde_json::from_value::<Event>(event.clone()).unwrap();
    events.iter().map(read).fold(conversation, |conversation, event| process(conversation, &event))
}

fn mapped(conversation: &Conversation) -> Value {
    let mut messages = serde_json::to_value(messages(conversation)).unwrap();
    // Those that are made here have ids by chance.
    for message in messages.as_array_mut().unwrap() {
        if message["id"].as_str().unwrap().starts_with("msg_") {
            message["id"] = json!("*");
        }
    }
    messages
}

fn call(id: &str, arguments: &str) -> [Value; 3] {
    [
        json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "look", "parentMessageId": "m1"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}),
        json!({"type": "TOOL_CALL_END", "toolCallId": id}),
    ]
}

fn wire_call(id: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "look", "arguments": arguments}})
}

fn text(id: &str, text: &str) -> [Value; 3] {
    [
        json!({"type": "TEXT_MESSAGE_START", "messageId": id}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
    ]
}

#[test]
fn an_empty_conversation_has_no_messages() {
    assert_eq!(mapped(&Conversation::default()), json!([]));
}

#[test]
fn texts_are_messages_of_their_roles_in_order_also_empty_ones() {
    let mut conversation = Conversation::default();
    conversation.add(Role::System, "Be brief");
    conversation.say("Hi");
    conversation = after(conversation, &text("m1", "Hello"));
    conversation.add(Role::User, "");
    assert_eq!(
        mapped(&conversation),
        json!([
            {"role": "system", "id": "*", "content": "Be brief"}, {"role": "user", "id": "*", "content": "Hi"},
            {"role": "assistant", "id": "m1", "content": "Hello"}, {"role": "user", "id": "*", "content": ""},
        ])
    );
}

#[test]
fn i03_i04_i05_calls_come_with_their_results_and_open_ones_are_left_out() {
    let mut conversation = after(
        Conversation::default(),
        &["none", "empty", "failed", "pending", "executing"].map(|id| call(id, "")).concat(),
    );
    for id in ["none", "empty", "failed", "executing"] {
        conversation.begin_call(id);
    }
    conversation.end_call("none", Ok("42".to_owned()));
    conversation.end_call("empty", Ok(String::new()));
    conversation.end_call("failed", Err("no luck".to_owned()));
    assert_eq!(
        mapped(&conversation),
        json!([
            {"role": "assistant", "id": "m1", "toolCalls": [wire_call("none", "{}"), wire_call("empty", "{}"), wire_call("failed", "{}")]},
            {"role": "tool", "id": "tool_result_none", "toolCallId": "none", "content": "42"},
            {"role": "tool", "id": "tool_result_empty", "toolCallId": "empty", "content": ""},
            {"role": "tool", "id": "tool_result_failed", "toolCallId": "failed", "content": "no luck", "error": "no luck"},
        ])
    );
}

#[test]
fn open_calls_alone_are_no_message_at_all() {
    let conversation = after(Conversation::default(), &[call("c1", "{}").as_slice(), &call("c2", "{}")[..2]].concat());
    assert_eq!(mapped(&conversation), json!([]));
}

#[test]
fn calls_are_one_message_with_the_text_that_they_belong_to() {
    let mut events = text("m1", "Let me look.").to_vec();
    events.extend(call("c1", r#"{"a":1}"#));
    events.push(json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c1", "content": "seen"}));
    // More calls of the same message, after something else was said.
    events.extend(text("m2", "And again."));
    events.extend(call("c2", "{}"));
    events.push(json!({"type": "TOOL_CALL_RESULT", "messageId": "y", "toolCallId": "c2", "content": [{"type": "text", "text": "seen too"}]}));
    assert_eq!(
        mapped(&after(Conversation::default(), &events)),
        json!([
            {"role": "assistant", "id": "m1", "content": "Let me look.", "toolCalls": [wire_call("c1", r#"{"a":1}"#)]},
            {"role": "tool", "id": "tool_result_c1", "toolCallId": "c1", "content": "seen"},
            {"role": "assistant", "id": "m2", "content": "And again."},
            {"role": "assistant", "id": "tool_calls_c2", "toolCalls": [wire_call("c2", "{}")]},
            {"role": "tool", "id": "tool_result_c2", "toolCallId": "c2", "content": "seen too"},
        ])
    );
}

#[test]
fn arguments_that_were_cut_off_are_not_sent() {
    let mut events = call("c1", r#"{"a":"#)[..2].to_vec();
    events.push(json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}));
    let error = "incomplete arguments: the run ended before they were complete";
    assert_eq!(
        mapped(&after(Conversation::default(), &events)),
        json!([
            {"role": "assistant", "id": "m1", "toolCalls": [wire_call("c1", "{}")]},
            {"role": "tool", "id": "tool_result_c1", "toolCallId": "c1", "content": error, "error": error},
        ])
    );
}

#[test]
fn errors_activities_and_unread_events_are_no_messages_and_others_are_passed_on() {
    let mut conversation = Conversation::default();
    let parts = json!({"role": "user", "id": "u", "content": [{"type": "text", "text": "this"}]});
    conversation.add_message(serde_json::from_value(parts.clone()).unwrap());
    conversation.note_undecodable("NEW", "unknown");
    let activity = json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "v", "activityType": "a", "content": {}});
    conversation = after(conversation, &[activity, json!({"type": "RUN_ERROR", "message": "no"})]);
    assert_eq!(conversation.items().len(), 4);
    assert_eq!(mapped(&conversation), json!([parts]));
}

#[test]
fn a_text_that_was_cut_off_is_sent_once_something_follows_it() {
    let mut conversation = Conversation::default();
    conversation.say("Hi");
    conversation = after(conversation, &text("m1", "Hel")[..2]);
    conversation.stop(ConversationStatus::Cancelled, "cancelled");
    assert_eq!(mapped(&conversation), json!([{"role": "user", "id": "*", "content": "Hi"}]));
    conversation.say("Go on");
    assert_eq!(
        mapped(&conversation),
        json!([
            {"role": "user", "id": "*", "content": "Hi"}, {"role": "assistant", "id": "m1", "content": "Hel"},
            {"role": "user", "id": "*", "content": "Go on"},
        ])
    );
}
