//! What models think.

use handback_core::sessions::ModelEvent;
use handback_core::store::StopReason;
use serde_json::{Value, json};

use super::super::Wire;
use super::{kept, meaning, text};

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
async fn reasoning_in_parts_in_details_and_by_a_third_name() {
    let events = meaning(
        Wire::OpenAi,
        &[
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}}]}"#,
            r#"{"choices":[{"delta":{"content":[{"type":"thinking","thinking":"b"},{"type":"text","text":"c"}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"d","index":0},{"type":"reasoning.encrypted","data":"x","index":1}]}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_details":[{"type":"reasoning.text","text":"e","signature":"s","index":0},{"type":"reasoning.summary","summary":"f"}]}}]}"#,
            r#"{"choices":[{"delta":{"thinking":"g","reasoning_text":"ha","reasoning_signature":"x","channel":"one","at":1}}]}"#,
            r#"{"choices":[{"delta":{"reasoning_text":"ha","reasoning_signature":"y","channel":"","at":2},"finish_reason":"stop"}]}"#,
        ],
    )
    .await;
    let reasoning = |text: &str| ModelEvent::Reasoning(text.to_owned());
    let details = json!([
        {"type": "reasoning.text", "text": "de", "index": 0, "signature": "s"},
        {"type": "reasoning.encrypted", "data": "x", "index": 1},
        {"type": "reasoning.summary", "summary": "f"},
    ]);
    let members = json!({
        "reasoning_details": details, "reasoning_text": "haha", "reasoning_signature": "y", "channel": "one", "at": 2,
    });
    let kept = kept(json!({"spellings": ["thinking_part", "thinking"], "members": members}));
    let expected =
        [reasoning("ab"), text("c"), reasoning("defg"), ModelEvent::Kept(kept), ModelEvent::Stop(StopReason::Stop)];
    assert_eq!(events, expected);
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
