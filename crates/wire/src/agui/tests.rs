use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;

/// What is read is written again as it was.
fn round_trips<T: Serialize + DeserializeOwned>(json: &Value) {
    let read: T = serde_json::from_str(&json.to_string()).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert_eq!(&serde_json::to_value(&read).unwrap(), json);
}

fn read<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_str(&json.to_string()).unwrap()
}

/// Every type of event twice: with what it must have, and with all that it may have besides.
fn events() -> Vec<(Value, Value)> {
    let interrupt = json!({"id": "i", "reason": "tool_call", "message": "May I?", "toolCallId": "c",
        "responseSchema": {"type": "object"}, "expiresAt": "2026-01-01T00:00:00Z", "metadata": {"k": null},
        "subagentRunId": "s"});
    let usage = json!([{"provider": "p", "model": "m", "inputTokens": 3, "outputTokens": 2, "totalTokens": 5,
        "reasoningTokens": 1, "cachedInputTokens": 1, "cacheWriteInputTokens": 0}]);
    let input = json!({"threadId": "t", "runId": "r", "messages": []});
    vec![
        (
            json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
            json!({"parentRunId": "q", "protocolVersion": "1.0", "input": input}),
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
            json!({"result": {"n": null}, "usage": usage, "outcome": {"type": "interrupt", "interrupts": [interrupt]}}),
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}}),
            json!({"outcome": {"type": "success", "pendingToolCallIds": ["c"]}}),
        ),
        (
            json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "cancelled"}}),
            json!({"usage": []}),
        ),
        (json!({"type": "RUN_ERROR", "message": "no"}), json!({"code": "c", "usage": usage})),
        (json!({"type": "STEP_STARTED", "stepName": "s"}), json!({})),
        (json!({"type": "STEP_FINISHED", "stepName": "s"}), json!({})),
        (json!({"type": "TEXT_MESSAGE_START", "messageId": "m"}), json!({"role": "developer", "name": "n"})),
        (json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": ""}), json!({})),
        (json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}), json!({})),
        (json!({"type": "TEXT_MESSAGE_CHUNK"}), json!({"messageId": "m", "role": "user", "delta": "d", "name": "n"})),
        (json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "n"}), json!({"parentMessageId": "m"})),
        (json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{"}), json!({})),
        (json!({"type": "TOOL_CALL_END", "toolCallId": "c"}), json!({})),
        (
            json!({"type": "TOOL_CALL_CHUNK"}),
            json!({"toolCallId": "c", "toolCallName": "n", "parentMessageId": "m", "delta": "d"}),
        ),
        (
            json!({"type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": "r"}),
            json!({"role": "tool", "content": [{"type": "text", "text": "r"}]}),
        ),
        (json!({"type": "STATE_SNAPSHOT", "snapshot": null}), json!({"snapshot": {"a": [null]}})),
        (json!({"type": "STATE_DELTA", "delta": []}), json!({"delta": [{"op": "add", "path": "/a", "value": null}]})),
        (
            json!({"type": "MESSAGES_SNAPSHOT", "messages": []}),
            json!({"messages": [{"role": "user", "id": "u", "content": "hi"}]}),
        ),
        (
            json!({"type": "ACTIVITY_SNAPSHOT", "messageId": "m", "activityType": "a", "content": {}}),
            json!({"content": {"a": null}, "replace": false}),
        ),
        (
            json!({"type": "ACTIVITY_DELTA", "messageId": "m", "activityType": "a", "patch": []}),
            json!({"patch": [{"op": "remove", "path": "/a"}]}),
        ),
        (json!({"type": "RAW", "event": null}), json!({"event": {"a": 1}, "source": "s"})),
        (json!({"type": "CUSTOM", "name": "n", "value": null}), json!({"value": [1, null]})),
        (json!({"type": "REASONING_START", "messageId": "m"}), json!({})),
        (json!({"type": "REASONING_END", "messageId": "m"}), json!({})),
        (json!({"type": "REASONING_MESSAGE_START", "messageId": "m", "role": "reasoning"}), json!({})),
        (json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "m", "delta": "d"}), json!({})),
        (json!({"type": "REASONING_MESSAGE_END", "messageId": "m"}), json!({})),
        (json!({"type": "REASONING_MESSAGE_CHUNK"}), json!({"messageId": "m", "delta": "d"})),
        (
            json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "tool-call", "entityId": "c", "encryptedValue": "x"}),
            json!({"subtype": "message"}),
        ),
        (
            json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"}),
            json!({"description": "d", "parentSubagentRunId": "p", "parentToolCallId": "c", "parentMessageId": "m"}),
        ),
        (
            json!({"type": "SUBAGENT_FINISHED", "subagentRunId": "s"}),
            json!({"result": 1, "outcome": {"type": "suspended", "interruptIds": ["i"]}}),
        ),
        (json!({"type": "SUBAGENT_ERROR", "subagentRunId": "s", "message": "no"}), json!({"code": "c"})),
    ]
}

fn with(event: &Value, more: &Value) -> Value {
    let mut event = event.clone();
    for (key, value) in more.as_object().unwrap() {
        event[key] = value.clone();
    }
    event
}

#[test]
fn every_type_of_event_round_trips_with_and_without_what_is_optional() {
    let types: std::collections::BTreeSet<String> =
        events().iter().map(|(event, _)| event["type"].as_str().unwrap().to_owned()).collect();
    assert_eq!(types.len(), 31);
    let common = json!({"timestamp": 1, "rawEvent": {"a": null}, "metadata": {"k": null}, "subagentRunId": "s"});
    for (least, more) in events() {
        round_trips::<Event>(&least);
        round_trips::<Event>(&with(&least, &more));
        round_trips::<Event>(&with(&with(&least, &more), &common));
    }
}

#[test]
fn nulls_of_optional_fields_and_unknown_fields_are_passed_over() {
    for (least, more) in events() {
        let names = ["timestamp", "rawEvent", "metadata"];
        let mut noisy = with(&least, &json!({"somethingNew": {"a": 1}}));
        for name in names.into_iter().chain(more.as_object().unwrap().keys().map(String::as_str)) {
            if least.get(name).is_none() {
                noisy[name] = Value::Null;
            }
        }
        let event: Event = read(noisy);
        assert_eq!(serde_json::to_value(event).unwrap(), least);
    }
}

#[test]
fn what_is_not_quite_as_it_should_be_is_read() {
    let event = |more: Value| with(&json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}), &more);
    for (timestamp, expected) in [(json!(1.9), 1), (json!(1e3), 1_000), (json!(-1), -1), (json!(1e300), i64::MAX)] {
        let read: Event = read(event(json!({"timestamp": timestamp})));
        assert_eq!(read.common.timestamp, Some(expected));
    }
    let later = event(json!({"outcome": {"type": "postponed", "until": null}}));
    round_trips::<Event>(&later);
    let Event { body: Body::RunFinished { outcome, .. }, .. } = read(later) else { panic!("it is finished") };
    assert_eq!(outcome, Some(Outcome::Other(json!({"type": "postponed", "until": null}))));
}

#[test]
fn what_an_event_must_have_is_missed() {
    for (least, _) in events() {
        for key in least.as_object().unwrap().keys().filter(|key| !["outcome", "subagentRunId"].contains(&key.as_str()))
        {
            let mut cut = least.clone();
            cut.as_object_mut().unwrap().remove(key);
            assert!(serde_json::from_value::<Event>(cut.clone()).is_err(), "{cut}");
        }
    }
    assert!(serde_json::from_value::<Event>(json!({"type": "THINKING_START"})).is_err());
}

#[test]
fn messages_round_trip() {
    let labels = json!({"name": "n", "encryptedValue": "e", "metadata": {"k": null}, "subagentRunId": "s"});
    let sources = [
        json!({"type": "data", "value": "aGk=", "mimeType": "image/png"}),
        json!({"type": "url", "value": "https://x"}),
        json!({"type": "url", "value": "https://x", "mimeType": "audio/mpeg"}),
        json!({"type": "file", "value": "f", "provider": "p", "mimeType": "video/mp4"}),
    ];
    let mut parts = vec![
        json!({"type": "text", "text": "hi", "id": "p", "metadata": [1]}),
        json!({"type": "binary", "mimeType": "image/png", "data": "aGk=", "filename": "f"}),
    ];
    for kind in ["image", "audio", "video", "document"] {
        parts.extend(sources.iter().map(|source| json!({"type": kind, "source": source})));
    }
    let call = json!({"id": "c", "type": "function", "function": {"name": "n", "arguments": "{}"},
        "encryptedValue": "e", "metadata": {"k": 1}});
    for message in [
        json!({"role": "developer", "id": "d", "content": "be"}),
        json!({"role": "system", "id": "s", "content": "be"}),
        json!({"role": "assistant", "id": "a"}),
        json!({"role": "assistant", "id": "a", "content": "hi", "toolCalls": [call]}),
        json!({"role": "user", "id": "u", "content": "hi"}),
        json!({"role": "user", "id": "u", "content": parts}),
        json!({"role": "tool", "id": "t", "toolCallId": "c", "content": "done"}),
        json!({"role": "tool", "id": "t", "toolCallId": "c", "content": parts, "error": "no"}),
        json!({"role": "activity", "id": "v", "activityType": "a", "content": {"k": null}}),
        json!({"role": "reasoning", "id": "r", "content": "hm"}),
    ] {
        round_trips::<Message>(&message);
        round_trips::<Message>(&with(&message, &labels));
        assert!(!matches!(read::<Message>(message.clone()), Message::Other(_)), "{message}");
    }
}

#[test]
fn messages_and_parts_of_unknown_kinds_are_kept() {
    let strange = json!({"role": "oracle", "id": "o", "content": [{"deep": null}]});
    let message: Message = read(strange.clone());
    assert_eq!((message.id(), &message), (Some("o"), &Message::Other(strange.clone())));
    round_trips::<Message>(&strange);
    let user = json!({"role": "user", "id": "u", "content": [{"type": "scent", "of": "rain"}, {"type": "text", "text": "hi"}]});
    round_trips::<Message>(&user);
    let Message::User { content, .. } = read(user) else { panic!("it is a user's") };
    assert_eq!(content.text(), "hi");
}

#[test]
fn a_message_with_too_many_parts_is_not_built() {
    let parts =
        |count: usize| json!({"role": "user", "id": "u", "content": vec![json!({"type": "text", "text": ""}); count]});
    assert!(matches!(read::<Message>(parts(4_096)), Message::User { .. }));
    assert!(matches!(read::<Message>(parts(4_097)), Message::Other(_)));
}

#[test]
fn an_input_round_trips_and_both_generations_are_read() {
    let full = json!({"threadId": "t", "runId": "r", "protocolVersion": "1.0", "parentRunId": "q",
        "state": {"a": null}, "messages": [{"role": "user", "id": "u", "content": "hi"}],
        "tools": [{"name": "n", "description": "d", "parameters": {"type": "object"}, "metadata": {"k": 1}}],
        "context": [{"description": "d", "value": "v"}], "forwardedProps": {"clientID": "c"},
        "resume": [{"interruptId": "i", "status": "resolved", "payload": {"approved": true}, "metadata": {}},
            {"interruptId": "j", "status": "cancelled"}]});
    round_trips::<RunAgentInput>(&full);
    let least = json!({"threadId": "t", "runId": "r", "messages": []});
    let nulls = json!({"protocolVersion": null, "parentRunId": null, "state": null, "tools": null, "context": null,
        "forwardedProps": null, "resume": null, "somethingNew": 1});
    let input: RunAgentInput = read(with(&least, &nulls));
    let plain = RunAgentInput { protocol_version: None, ..RunAgentInput::new("t", "r", Vec::new()) };
    assert_eq!(input, plain);
    // Those before 1.0 always have these.
    assert_eq!(serde_json::to_value(&plain).unwrap(), with(&least, &json!({"tools": [], "context": []})));
    for missing in ["threadId", "runId", "messages"] {
        let mut cut = least.clone();
        cut.as_object_mut().unwrap().remove(missing);
        assert!(serde_json::from_value::<RunAgentInput>(cut).is_err(), "{missing}");
    }
}

#[test]
fn versions_from_1_0_on_are_known() {
    for version in ["1.0", "1", "1.7.2", "2.0", "10.0"] {
        assert!(speaks_1_0(Some(version)), "{version}");
    }
    for version in [None, Some(""), Some("0.0.59"), Some("one"), Some(".1"), Some("-1")] {
        assert!(!speaks_1_0(version), "{version:?}");
    }
}

#[test]
fn inputs_are_read_by_the_names_of_python_and_with_the_nulls_of_go() {
    let camel: RunAgentInput = read(json!({
        "threadId": "t", "runId": "r", "parentRunId": "q", "protocolVersion": "1.0", "forwardedProps": {"a_b": 1},
        "tools": [], "context": [], "resume": [{"interruptId": "i", "status": "resolved"}],
        "messages": [
            {"role": "assistant", "id": "a", "encryptedValue": "e", "toolCalls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "encryptedValue": "e"},
            ]},
            {"role": "tool", "id": "b", "toolCallId": "c", "content": "x", "subagentRunId": "s"},
            {"role": "activity", "id": "d", "activityType": "x", "content": {}},
            {"role": "user", "id": "u", "content": [
                {"type": "image", "source": {"type": "data", "value": "v", "mimeType": "image/png"}},
                {"type": "image", "source": {"type": "url", "value": "v", "mimeType": "image/png"}},
                {"type": "binary", "mimeType": "image/png", "data": "v"},
            ]},
        ],
    }));
    let snake: RunAgentInput = read(json!({
        "thread_id": "t", "run_id": "r", "parent_run_id": "q", "protocol_version": "1.0", "forwarded_props": {"a_b": 1},
        "tools": null, "context": null, "resume": [{"interrupt_id": "i", "status": "resolved"}],
        "messages": [
            {"role": "assistant", "id": "a", "encrypted_value": "e", "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}, "encrypted_value": "e"},
            ]},
            {"role": "tool", "id": "b", "tool_call_id": "c", "content": "x", "subagent_run_id": "s"},
            {"role": "activity", "id": "d", "activity_type": "x", "content": {}},
            {"role": "user", "id": "u", "content": [
                {"type": "image", "source": {"type": "data", "value": "v", "mime_type": "image/png"}},
                {"type": "image", "source": {"type": "url", "value": "v", "mime_type": "image/png"}},
                {"type": "binary", "mime_type": "image/png", "data": "v"},
            ]},
        ],
    }));
    assert_eq!(camel, snake);
    let empty: RunAgentInput = read(json!({"threadId": "t", "runId": "r", "messages": null, "resume": null}));
    assert_eq!(empty, RunAgentInput { protocol_version: None, ..RunAgentInput::new("t", "r", vec![]) });
}
