//! What servers do that the documentation of these wires does not say, all of it seen in the wild.

mod calls;
mod thoughts;

use std::time::Duration;

use handback_core::sessions::ModelEvent;
use handback_core::store::{Kept, StopReason, Usage};
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
async fn a_stream_that_stays_open_ends_when_the_model_is_done() {
    let last = [
        (Wire::OpenAi, r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}"#),
        (Wire::Anthropic, r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#),
    ];
    for (wire, last) in last {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        // Nobody waits that long.
        settings.bounds.stall = Duration::from_secs(600);
        settings.bounds.last_words = Duration::ZERO;
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
async fn signs_of_life_after_the_end_are_not_waited_for() {
    let fake = Fake::start().await;
    let mut settings = settings(Wire::OpenAi, &fake);
    settings.bounds.last_words = Duration::from_millis(50);
    let model = Wire::OpenAi.model(settings);
    let answer = async {
        let mut request = fake.request().await;
        request.send(super::fake::STREAM).await;
        let done: &[u8] = b"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n";
        request.chunks([done]).await;
        let mut beats = tokio::time::interval(Duration::from_millis(5));
        loop {
            beats.tick().await;
            request.chunks([&b"data: {\"choices\":[],\"usage\":null}\n\n"[..]]).await;
        }
    };
    let events = tokio::select! {
        events = collect(ask(&*model)) => events,
        () = answer => unreachable!("it goes on for ever"),
    };
    assert_eq!(events, [Ok(text("a")), Ok(ModelEvent::Stop(StopReason::Stop))]);
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
