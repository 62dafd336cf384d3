//! What servers do that the documentation of these wires does not say, all of it seen in the wild.

use handback_core::message::{StopReason, Usage};
use handback_core::model::ModelEvent;

use super::fake::Fake;
use super::{Wire, ask, collect, settings};

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

/// The ends of so many calls.
fn ends(count: usize) -> Vec<ModelEvent> {
    let mut events: Vec<_> = (0..count).map(|index| ModelEvent::CallEnded { index }).collect();
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
        ModelEvent::CallEnded { index: 0 },
        ModelEvent::CallStarted { index: 1, id: "b".to_owned(), name: String::new() },
        ModelEvent::Arguments { index: 1, delta: "{}".to_owned() },
        ModelEvent::CallEnded { index: 1 },
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
    assert_eq!(events, [ModelEvent::Reasoning("abc".to_owned()), text("def"), ModelEvent::Stop(StopReason::Stop)]);
}

#[tokio::test]
async fn usage_without_overlap() {
    let cases = [
        (r#"{"prompt_tokens":9,"completion_tokens":5}"#, [9, 5, 0, 0]),
        (
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}"#,
            [5, 2, 3, 4],
        ),
        // Where what was thought is not among what was written.
        (
            r#"{"prompt_tokens":9,"completion_tokens":5,"prompt_tokens_details":null,"completion_tokens_details":{"reasoning_tokens":300}}"#,
            [9, 5, 300, 0],
        ),
    ];
    for (usage, [input, output, reasoning, cache_read]) in cases {
        let chunk = format!(r#"{{"choices":null,"usage":{usage}}}"#);
        let finish = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
        let events = meaning(Wire::OpenAi, &[finish, &chunk]).await;
        let usage = Usage { input, output, reasoning, cache_read, cache_write: 0 };
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
        &[ModelEvent::Reasoning("t".to_owned()), ModelEvent::Signature("s".to_owned()), text("a")][..],
        &call(0, "a", "f", r#"{"x": 1}"#),
        &[end],
        &call(1, "b", "g", r#"{"x": 2}"#),
        &[ModelEvent::Usage(usage), other_end, stop],
    ];
    assert_eq!(events, expected.concat());
}
