//! What servers do that the documentation of these wires does not say, all of it seen in the wild.

use handback_core::message::{Kept, StopReason, Usage};
use handback_core::model::ModelEvent;
use serde_json::{Value, json};

use super::fake::Fake;
use super::{Wire, ask, collect, failure, provider_error, settings};

/// What these events mean.
async fn meaning(wire: Wire, events: &[&str]) -> Vec<ModelEvent> {
    let fake = Fake::start().await;
    let model = wire.model(settings(wire, &fake));
    let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
    let (events, _) = tokio::join!(collect(ask(&*model)), fake.stream(&body));
    events.into_iter().map(Result::unwrap).collect()
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.to_owned())
}

/// A whole call, up to its arguments.
fn call(index: usize, id: &str, name: &str, arguments: &str) -> [ModelEvent; 2] {
    [
        ModelEvent::CallStarted { index, id: id.to_owned(), name: name.to_owned() },
        ModelEvent::Arguments { index, delta: arguments.to_owned() },
    ]
}

fn kept(value: Value) -> Kept {
    Kept::new(&value).unwrap()
}

/// The ends of so many calls.
fn ends(count: usize) -> Vec<ModelEvent> {
    let mut events: Vec<_> = (0..count).map(|index| ModelEvent::CallEnded { index, kept: None }).collect();
    events.push(ModelEvent::Stop(StopReason::ToolCalls));
    events
}

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
async fn reasoning_by_either_name_and_by_both() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"reasoning":"a"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_content":"b"}}]}"#,
            r#"{"choices":[{"delta":{"reasoning":"c","reasoning_content":"c"}}]}"#,
            r#"{"choices":[{"delta":{"content":"d"},"finish_reason":""}]}"#,
            r#"{"choices":[{"delta":{"content":null,"refusal":"e"},"finish_reason":null}]}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"text","text":"f"},{"type":"thinking","thinking":[]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":{"new":1},"reasoning":7}},{"index":1,"delta":{"content":"another choice"}}]}"#,
            "",
            r#"{"choices":[{"delta":null,"finish_reason":"stop"}]}"#,
            "[DONE]",
        ],
    )
    .await;
    let kept = kept(json!({"spellings": ["reasoning", "reasoning_content"]}));
    let reasoning = ModelEvent::Reasoning("abc".to_owned());
    assert_eq!(events, [reasoning, text("def"), ModelEvent::Kept(kept), ModelEvent::Stop(StopReason::Stop)]);
}

#[tokio::test]
async fn usage_without_overlap() {
    let cases = [
        (r#"{"prompt_tokens":9,"completion_tokens":5}"#, (9, 5, None, None)),
        (
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}"#,
            (5, 2, Some(3), Some(4)),
        ),
        // Where what was thought is not among what was written.
        (
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":300}}"#,
            (9, 5, Some(300), None),
        ),
        // What is counted as nothing is not the same as what is not counted.
        (
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}"#,
            (9, 5, Some(0), Some(0)),
        ),
        (
            r#"{"prompt_tokens":11.0,"completion_tokens":"5","prompt_tokens_details":{"cached_tokens":-1},"completion_tokens_details":7}"#,
            (11, 5, None, None),
        ),
    ];
    for (usage, (input, output, reasoning, cache_read)) in cases {
        let chunk = format!(r#"{{"choices":null,"usage":{usage}}}"#);
        let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let events = meaning(Wire::OpenAi, &[finish, &chunk]).await;
        let usage = Usage { input, output, reasoning, cache_read, cache_write: None };
        assert_eq!(events, [ModelEvent::Usage(usage), ModelEvent::Stop(StopReason::Stop)]);
    }
}

#[tokio::test]
async fn reasons_to_stop() {
    let openai = [
        ("stop", StopReason::Stop),
        // It says so, but there are no calls.
        ("tool_calls", StopReason::Stop),
        ("length", StopReason::Length),
        ("content_filter", StopReason::ContentFilter),
        ("surprise", StopReason::Other),
    ];
    for (reason, expected) in openai {
        let finish = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"{reason}"}}]}}"#);
        assert_eq!(meaning(Wire::OpenAi, &[&finish]).await, [ModelEvent::Stop(expected)], "{reason}");
    }
    let anthropic = [
        ("end_turn", StopReason::Stop),
        ("stop_sequence", StopReason::Stop),
        ("tool_use", StopReason::Stop),
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::ContentFilter),
        ("pause_turn", StopReason::Other),
    ];
    for (reason, expected) in anthropic {
        let finish = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
        let stop = r#"{"type":"message_stop"}"#;
        assert_eq!(meaning(Wire::Anthropic, &[&finish, stop]).await, [ModelEvent::Stop(expected)], "{reason}");
    }
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
async fn reasoning_in_parts_in_details_and_by_a_third_name() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":"b"},{"type":"text","text":"c"}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"d","index":0},{"type":"reasoning.encrypted","data":"x","index":1}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"e","signature":"s","index":0},{"type":"reasoning.summary","summary":"f"}]}}]}"#,
            r#"{"choices":[{"delta":{"thinking":"g"},"finish_reason":"stop"}]}"#,
        ],
    )
    .await;
    let reasoning = |text: &str| ModelEvent::Reasoning(text.to_owned());
    let details = json!([
        {"type": "reasoning.text", "text": "de", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
        {"type": "reasoning.summary", "summary": "f"},
    ]);
    let kept = kept(json!({"spellings": ["thinking_part", "thinking"], "members": {"reasoning_details": details}}));
    let expected =
        [reasoning("ab"), text("c"), reasoning("defg"), ModelEvent::Kept(kept), ModelEvent::Stop(StopReason::Stop)];
    assert_eq!(events, expected);
}

#[tokio::test]
async fn characters_that_are_cut_in_halves() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"reasoning":"a\ud83c","content":"","extra":"\ud83c"}}]}"#,
            r#"{"choices":[{"delta":{"content":"","reasoning":"\udf89"}}]}"#,
            r#"{"choices":[{"delta":{"content":"b\ud83c"}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83c"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\udf89\"}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"content":"c\ud83c"},"finish_reason":"tool_calls"}]}"#,
        ],
    )
    .await;
    let expected = [
        &[ModelEvent::Reasoning("a🎉".to_owned()), text("b\u{FFFD}")][..],
        &call(0, "a", "f", r#"{"x":"🎉"}"#),
        &[text("c\u{FFFD}"), ModelEvent::CallEnded { index: 0, kept: None }],
        &[ModelEvent::Kept(kept(json!({"spellings": ["reasoning"], "members": {"extra": "\u{FFFD}"}})))],
        &[ModelEvent::Stop(StopReason::ToolCalls)],
    ];
    assert_eq!(events, expected.concat());

    let events = meaning(
        Wire::Anthropic,
        &[
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"\ud83c"}}"#,
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\udf89\ud83c"}}"#,
            r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"x\":\"\ud83c"}}"#,
            r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\udf89\"}"}}"#,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    )
    .await;
    let expected = [&[text("🎉\u{FFFD}")][..], &call(0, "a", "f", r#"{"x":"🎉"}"#), &ends(1)];
    assert_eq!(events, expected.concat());
}

#[tokio::test]
async fn a_reason_to_stop_that_never_comes() {
    let events = meaning(Wire::OpenAi, &[r#"{"choices":[{"delta":{"content":"a"}}]}"#, "[DONE]"]).await;
    assert_eq!(events, [text("a"), ModelEvent::Stop(StopReason::Stop)]);
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    let events = meaning(Wire::Anthropic, &[delta, r#"{"type":"message_stop"}"#]).await;
    assert_eq!(events, [text("a"), ModelEvent::Stop(StopReason::Stop)]);
}

#[tokio::test]
async fn an_error_that_is_a_reason_to_stop() {
    let fake = Fake::start().await;
    let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
    let chunk = r#"data: {"choices":[{"delta":{"content":""},"finish_reason":"error"}]}"#;
    let (error, _) = tokio::join!(failure(ask(&*model)), fake.stream(format!("{chunk}\n\ndata: [DONE]\n\n")));
    let message = "openai/some-model failed while it answered: it stopped with an error and does not say which";
    assert_eq!(error, provider_error(message, None, false));
}

#[tokio::test]
async fn calls_as_some_servers_write_them() {
    let cases: [(&[&str], Vec<ModelEvent>); 8] = [
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
            r#"{"choices":[{"delta":{"role":"assistant","content":null,"function_call":{"name":"f","arguments":""}}}]}"#,
            r#"{"choices":[{"delta":{"function_call":{"arguments":"{\"x\":"}}}]}"#,
            r#"{"choices":[{"delta":{"function_call":{"arguments":"1}"}},"finish_reason":"function_call"}]}"#,
        ],
    )
    .await;
    assert_eq!(events, [&call(0, "", "f", r#"{"x":1}"#)[..], &ends(1)].concat());

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

#[tokio::test]
async fn a_stream_that_stays_open_ends_when_the_model_is_done() {
    let last = [
        (Wire::OpenAi, r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#),
        (Wire::Anthropic, r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#),
    ];
    for (wire, last) in last {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        // Nobody waits that long.
        settings.bounds.stall = std::time::Duration::from_secs(600);
        let model = wire.model(settings);
        let answer = async {
            let mut request = fake.request().await;
            request.send(super::fake::STREAM).await;
            request.chunks([format!("data: {last}\n\n").as_bytes()]).await;
            request
        };
        let (events, _open) = tokio::join!(collect(ask(&*model)), answer);
        assert_eq!(events.last(), Some(&Ok(ModelEvent::Stop(StopReason::Stop))));
    }
}

#[tokio::test]
async fn another_answer_replaces_the_first() {
    let begun =
        |id: &str| format!(r#"{{"type":"message_start","message":{{"id":"{id}","usage":{{"input_tokens":3}}}}}}"#);
    let call_block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#;
    let (first, second) = (begun("one"), begun("two"));
    let events = meaning(
        Wire::Anthropic,
        &[
            &first,
            call_block,
            // Said once more.
            &first,
            &second,
            call_block,
            r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"}}"#,
            r#"{"type":"message_stop"}"#,
        ],
    )
    .await;
    let usage = ModelEvent::Usage(Usage { input: 3, ..Usage::default() });
    let begins = ModelEvent::CallStarted { index: 0, id: "a".to_owned(), name: "f".to_owned() };
    let attempt = [usage.clone(), begins];
    assert_eq!(events, [&attempt[..], &[usage, ModelEvent::Restarted], &attempt, &ends(1)].concat());
}

#[tokio::test]
async fn thoughts_that_are_hidden_or_not_signed() {
    let block = |index: u64, block: &str| {
        format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#)
    };
    let stop = |index: u64| format!(r#"{{"type":"content_block_stop","index":{index}}}"#);
    let delta =
        |index: u64, delta: &str| format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#);
    let events = [
        block(0, r#"{"type":"thinking","thinking":"a","signature":""}"#),
        delta(0, r#"{"type":"signature_delta","signature":"S1"}"#),
        delta(0, r#"{"type":"signature_delta","signature":"S2"}"#),
        stop(0),
        block(1, r#"{"type":"redacted_thinking","data":"D"}"#),
        stop(1),
        block(2, r#"{"type":"thinking","thinking":"b"}"#),
        delta(2, r#"{"type":"thinking_delta","thinking":"c"}"#),
        stop(2),
        delta(3, r#"{"type":"thinking_delta","thinking":"d"}"#),
        block(4, r#"{"type":"text","text":"e"}"#),
        r#"{"type":"message_stop"}"#.to_owned(),
    ];
    let events = meaning(Wire::Anthropic, &events.each_ref().map(String::as_str)).await;
    let thought = |text: &str, value: Value| [ModelEvent::Reasoning(text.to_owned()), ModelEvent::Thought(kept(value))];
    let expected = [
        &thought("a", "S1S2".into())[..],
        &[ModelEvent::Thought(kept(json!({"data": "D"})))],
        &thought("bc", json!({})),
        &thought("d", json!({})),
        &[text("e"), ModelEvent::Stop(StopReason::Stop)],
    ];
    assert_eq!(events, expected.concat());
}

/// Some servers give a reason to stop with every chunk: what they have begun is waited for.
#[tokio::test]
async fn a_reason_to_stop_with_every_chunk_is_none() {
    let fake = Fake::start().await;
    let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
    let chunk = |arguments: &str| {
        let function = json!({"name": "f", "arguments": arguments});
        let delta = json!({"tool_calls": [{"index": 0, "id": "a", "function": function}]});
        let chunk = json!({"choices": [{"delta": delta, "finish_reason": "stop"}]});
        format!("data: {chunk}\n\n")
    };
    let answer = async {
        let mut request = fake.request().await;
        request.send(super::fake::STREAM).await;
        request.chunks([chunk("{\"x\":").as_bytes()]).await;
        // Longer than a model that is done is waited for.
        tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
        request.chunks([chunk("1}").as_bytes(), b"data: [DONE]\n\n"]).await;
        request.end().await;
    };
    let (events, ()) = tokio::join!(collect(ask(&*model)), answer);
    let events: Vec<ModelEvent> = events.into_iter().map(Result::unwrap).collect();
    assert_eq!(events, [&call(0, "a", "f", r#"{"x":1}"#)[..], &ends(1)].concat());
}
