//! Calls.

use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, Usage};
use serde_json::json;

use super::super::Wire;
use super::{call, ends, kept, meaning, text};

#[tokio::test]
async fn whole_calls_in_one_chunk_that_just_stop() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"a","index":0,"type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},{"id":"b","index":0,"type":"function","function":{"name":"g","arguments":"{}"}}]},"finish_reason":null}]}"#,
            r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}]}"#,
            "[DONE]",
        ],
    )
    .await;
    assert_eq!(events, [&call(0, "a", "f", r#"{"x":1}"#)[..], &call(1, "b", "g", "{}"), &ends(2)].concat());
}

#[tokio::test]
async fn calls_without_index_and_id() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{\"x\""}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":":1}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":{"x": 2}}}]},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [&call(0, "", "f", r#"{"x":1}"#)[..], &call(1, "", "f", r#"{"x": 2}"#), &ends(2)].concat());
}

#[tokio::test]
async fn calls_without_index_but_with_their_id_each_time() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"f","arguments":"["}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    let rest = ModelEvent::Arguments { index: 0, delta: "}".to_owned() };
    assert_eq!(events, [&call(0, "a", "f", "{")[..], &call(1, "b", "f", "["), &[rest], &ends(2)].concat());
}

#[tokio::test]
async fn a_new_id_with_every_piece_is_the_same_call() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [&call(0, "a", "f", "{}")[..], &ends(1)].concat());

    // And no index.
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"g","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [&call(0, "a", "f", "{}")[..], &call(1, "c", "g", "{}"), &ends(2)].concat());
}

#[tokio::test]
async fn a_name_that_comes_late_or_never() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    let late = [
        ModelEvent::CallEnded { index: 0, kept: None },
        ModelEvent::CallStarted { index: 1, id: "b".to_owned(), name: String::new() },
        ModelEvent::Arguments { index: 1, delta: "{}".to_owned() },
        ModelEvent::CallEnded { index: 1, kept: None },
        ModelEvent::Stop(StopReason::ToolCalls),
    ];
    assert_eq!(events, [&call(0, "a", "f", "{}")[..], &late].concat());
}

#[tokio::test]
async fn anthropic_blocks_that_come_whole_or_are_numbered_alike() {
    let events = meaning(
        Wire::Anthropic,
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"t","signature":"s"}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{"x": 1}}}"#,
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"b","name":"g","input":{"x": 1}}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"x\": 2}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":3,"output_tokens":4}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    )
    .await;
    let usage = Usage { input: 3, output: 4, ..Usage::default() };
    let [end, other_end, stop] = <[ModelEvent; 3]>::try_from(ends(2)).unwrap();
    let expected = [
        &[ModelEvent::Reasoning("t".to_owned()), ModelEvent::Thought(kept("s".into())), text("a")][..],
        &call(0, "a", "f", r#"{"x": 1}"#),
        &[end],
        &call(1, "b", "g", r#"{"x": 2}"#),
        &[ModelEvent::Usage(usage), other_end, stop],
    ];
    assert_eq!(events, expected.concat());
}

#[tokio::test]
async fn calls_as_some_servers_write_them() {
    let cases: [(&[&str], Vec<ModelEvent>); 9] = [
        // The index as a text.
        (
            &[
                r#"[{"index":"0","id":"a","function":{"name":"f","arguments":"{"}},{"index":"1","id":"b","function":{"name":"g","arguments":"["}}]"#,
                r#"[{"index":"0","function":{"arguments":"}"}}]"#,
            ],
            [&call(0, "a", "f", "{")[..], &call(1, "b", "g", "["), &[more(0, "}")], &ends(2)].concat(),
        ),
        // Index 0 and no id for every call.
        (
            &[
                r#"[{"index":0,"id":"","function":{"name":"f","arguments":"{}"}}]"#,
                r#"[{"index":0,"id":"","function":{"name":"f","arguments":"{\"x\":"}}]"#,
                r#"[{"index":0,"id":"","function":{"name":"f","arguments":"1}"}}]"#,
                r#"[{"index":0,"id":"","function":{"name":"g","arguments":"{}"}},{"index":0,"id":"","function":{"name":"h","arguments":""}},{"index":0,"id":"","function":{"name":"i","arguments":""}}]"#,
            ],
            [
                &call(0, "", "f", "{}")[..],
                &call(1, "", "f", r#"{"x":1}"#),
                &call(2, "", "g", "{}"),
                &[ModelEvent::CallStarted { index: 3, id: String::new(), name: "h".to_owned() }],
                &ends(5)[..4],
                &[ModelEvent::CallStarted { index: 4, id: String::new(), name: "i".to_owned() }],
                &ends(5)[4..],
            ]
            .concat(),
        ),
        // A name in pieces, and one that is repeated.
        (
            &[
                r#"[{"index":0,"id":"a","function":{"name":"get_"}}]"#,
                r#"[{"index":0,"function":{"name":"weather","arguments":""}}]"#,
                r#"[{"index":0,"function":{"arguments":"{}"}}]"#,
                r#"[{"index":1,"id":"b","function":{"name":"f"}}]"#,
                r#"[{"index":1,"id":"b","function":{"name":"f","arguments":"{}"}}]"#,
            ],
            [&call(0, "a", "get_weather", "{}")[..], &call(1, "b", "f", "{}"), &ends(2)].concat(),
        ),
        // No arguments, or JSON in place of a text.
        (
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":null}}]"#,
                r#"[{"index":1,"id":"b","function":{"name":"g","arguments":{"x": 1}}}]"#,
            ],
            [
                &[ModelEvent::CallStarted { index: 0, id: "a".to_owned(), name: "f".to_owned() }][..],
                &call(1, "b", "g", r#"{"x": 1}"#),
                &ends(2),
            ]
            .concat(),
        ),
        // An id that is used twice.
        (
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
                r#"[{"index":1,"id":"a","function":{"name":"g","arguments":"{}"}}]"#,
            ],
            [&call(0, "a", "f", "{}")[..], &call(1, "a", "g", "{}"), &ends(2)].concat(),
        ),
        // And with one index; a call that is only said again is no other.
        (
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}},{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":" "}}]"#,
                r#"[{"index":0,"id":"a","function":{"name":"f"}}]"#,
            ],
            [&call(0, "a", "f", r#"{"x":1}"#)[..], &call(1, "a", "f", "{} "), &ends(2)].concat(),
        ),
        // Members that only the server knows.
        (
            &[
                r#"[{"index":0,"id":"a","type":"function","extra_content":{"google":{"thought_signature":"S"}},"function":{"name":"f","arguments":"{}","more":[1]}}]"#,
                r#"[{"index":0,"extra_content":{"google":{"other":2}},"function":{"more":[2]}}]"#,
            ],
            {
                let members = json!({"extra_content": {"google": {"thought_signature": "S", "other": 2}}});
                let kept = kept(json!({"members": members, "function": {"more": [1, 2]}}));
                let end = ModelEvent::CallEnded { index: 0, kept: Some(kept) };
                [&call(0, "a", "f", "{}")[..], &[end, ModelEvent::Stop(StopReason::ToolCalls)]].concat()
            },
        ),
        // One index for two calls, whose ids say which is meant.
        (
            &[
                r#"[{"index":0,"id":"a","function":{"name":"f"}},{"index":0,"id":"b","function":{"name":"g"}}]"#,
                r#"[{"index":0,"id":"a","function":{"arguments":"{\"x\":1}"}}]"#,
                r#"[{"index":0,"id":"b","function":{"arguments":"{}"}}]"#,
            ],
            [
                &[ModelEvent::CallStarted { index: 0, id: "a".to_owned(), name: "f".to_owned() }][..],
                &[more(0, r#"{"x":1}"#)],
                &call(1, "b", "g", "{}"),
                &ends(2),
            ]
            .concat(),
        ),
        // Nothing at all.
        (
            &["null", "[]", r#"[{"index":null,"id":null,"function":null}]"#],
            [&call(0, "", "", "")[..1], &ends(1)].concat(),
        ),
    ];
    for (deltas, expected) in cases {
        let mut events: Vec<String> =
            deltas.iter().map(|calls| format!(r#"{{"choices":[{{"delta":{{"tool_calls":{calls}}}}}]}}"#)).collect();
        events.push(r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}"#.to_owned());
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        assert_eq!(meaning(Wire::OpenAi, &events).await, expected, "{deltas:?}");
    }
}

fn more(index: usize, delta: &str) -> ModelEvent {
    ModelEvent::Arguments { index, delta: delta.to_owned() }
}

#[tokio::test]
async fn calls_by_their_old_name_and_whole_messages() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"role":"assistant","content":null,"function_call":{"name":"get_","arguments":""}}}]}"#,
            r#"{"choices":[{"delta":{"function_call":{"name":"f"}}}]}"#,
            r#"{"choices":[{"delta":{"function_call":{"arguments":"{\"x\":"}}}]}"#,
            r#"{"choices":[{"delta":{"function_call":{"arguments":"1}"}},"finish_reason":"function_call"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [&call(0, "", "get_f", r#"{"x":1}"#)[..], &ends(1)].concat());

    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"message":{"role":"assistant","content":"a"}}]}"#,
            r#"{"choices":[{"delta":{},"message":{"content":"b","tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [&[text("ab")][..], &call(0, "a", "f", "{}"), &ends(1)].concat());

    // Some use both names.
    let both = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}],"function_call":{"name":"f","arguments":"{}"}},"finish_reason":"tool_calls"}]}"#;
    assert_eq!(meaning(Wire::OpenAi, &[both]).await, [&call(0, "a", "f", "{}")[..], &ends(1)].concat());

    // Who speaks is no part of what is said.
    let role = r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#;
    let whole = r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#;
    assert_eq!(meaning(Wire::OpenAi, &[role, whole]).await, [text("a"), ModelEvent::Stop(StopReason::Stop)]);

    // Some repeat at the end what they have said.
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"content":"a"}}]}"#,
            r#"{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [text("a"), ModelEvent::Stop(StopReason::Stop)]);
}
