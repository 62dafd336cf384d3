use super::ToolCallStatus::{Pending, Streaming};
use super::*;

fn text_chunk(more: Value) -> Value {
    chunk("TEXT_MESSAGE_CHUNK", more)
}

fn call_chunk(more: Value) -> Value {
    chunk("TOOL_CALL_CHUNK", more)
}

fn chunk(kind: &str, mut more: Value) -> Value {
    more["type"] = json!(kind);
    more
}

#[test]
fn a_text_in_chunks_begins_with_the_first_and_ends_with_whatever_comes_next() {
    let first =
        [text_chunk(json!({"messageId": "m", "role": "user", "delta": "a"})), text_chunk(json!({"delta": "b"}))];
    let conversation = told(&first);
    assert_eq!(conversation.streaming_text(), Some(&text("m", Role::User, "ab")));
    // Another text ends it too.
    let conversation = after(
        conversation,
        &[text_chunk(json!({"messageId": "m", "delta": "c"})), text_chunk(json!({"messageId": "n"}))],
    );
    assert_eq!(conversation.items()[0], Item::Text(text("m", Role::User, "abc")));
    assert_eq!(conversation.streaming_text(), Some(&text("n", Role::Assistant, "")));
    let conversation = after(conversation, &[json!({"type": "STEP_FINISHED", "stepName": "s"})]);
    assert_eq!(conversation.streaming_text(), None);
}

#[test]
fn a_call_in_chunks_is_pending_with_whatever_comes_next() {
    let first = call_chunk(json!({"toolCallId": "c", "toolCallName": "look", "delta": "{"}));
    let conversation = told(&[first, call_chunk(json!({"delta": "}"}))]);
    assert_eq!(calls(&conversation), [call("c", "look", "{}", Streaming, None)]);
    let raw = json!({"type": "RAW", "event": 1});
    assert_eq!(calls(&after(conversation.clone(), &[raw]))[0].status, Streaming);
    for next in [
        run_finished(),
        text_chunk(json!({"messageId": "m"})),
        call_chunk(json!({"toolCallId": "d", "toolCallName": "e"})),
    ] {
        assert_eq!(calls(&after(conversation.clone(), &[next]))[0], call("c", "look", "{}", Pending, None));
    }
}

#[test]
fn chunks_that_belong_to_nothing_are_dropped() {
    let strays =
        [text_chunk(json!({"delta": "x"})), call_chunk(json!({"delta": "x"})), call_chunk(json!({"toolCallId": "c"}))];
    assert_eq!(told(&strays), Conversation::default());
    // A chunk without an id goes on with its own kind only.
    let conversation = told(&[text_chunk(json!({"messageId": "m", "delta": "a"})), call_chunk(json!({"delta": "x"}))]);
    assert_eq!(conversation.items(), [Item::Text(text("m", Role::Assistant, "a"))]);
}

#[test]
fn reasoning_comes_in_chunks_too() {
    let chunk = |delta: &str| json!({"type": "REASONING_MESSAGE_CHUNK", "messageId": "t", "delta": delta});
    let conversation = told(&[chunk("a"), chunk("b")]);
    assert_eq!((conversation.is_thinking(), conversation.reasoning()), (true, "ab"));
    let conversation = after(conversation, &[text_start("m")]);
    assert_eq!((conversation.is_thinking(), conversation.streaming_text().unwrap().reasoning.as_str()), (false, "ab"));
}
