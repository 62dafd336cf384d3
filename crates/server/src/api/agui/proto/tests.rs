use handback_wire::agui::Body;
use serde_json::json;

use super::{MEDIA_TYPE, frames, is_wanted};

#[test]
fn the_front_end_says_what_it_would_rather_have() {
    let cases = [
        (MEDIA_TYPE.to_owned(), true),
        (format!("{MEDIA_TYPE}, text/event-stream"), true),
        (format!("text/event-stream;q=0.5 , {}; q=0.9", MEDIA_TYPE.to_uppercase()), true),
        (format!("{MEDIA_TYPE};q=0.2, text/event-stream;q=0.5"), false),
        (format!("{MEDIA_TYPE};q=0"), false),
        (format!("{MEDIA_TYPE};q=never"), false),
        (format!("{MEDIA_TYPE}2"), false),
        ("text/event-stream".to_owned(), false),
        ("*/*".to_owned(), false),
        (String::new(), false),
    ];
    for (accept, wanted) in cases {
        assert_eq!(is_wanted(&accept), wanted, "{accept}");
    }
}

/// A frame of an event, in hex.
fn frame(event: serde_json::Value, speaks_1_0: bool) -> String {
    let body: Body = serde_json::from_value(event).unwrap();
    frames(&[body], speaks_1_0).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn members_of_events_are_fields_of_the_schema() {
    let parts = json!([
        { "type": "text", "text": "a", "metadata": [1.5, null, true, { "k": "v" }] },
        { "type": "image", "source": { "type": "url", "value": "u", "mimeType": "i/p" } },
        { "type": "document", "source": { "type": "file", "value": "unknown to the schema" } },
    ]);
    let result = json!({ "type": "TOOL_CALL_RESULT", "messageId": "m", "toolCallId": "c", "content": parts });
    assert_eq!(
        frame(result.clone(), true),
        concat!(
            "00000049b201460a0208151a016d2201633a2a0a280a01611a2332210a0911000000000000f83f0a0208000a0220010a0c2a0a0a080a",
            "016b12031a01763a0e120c0a0a12080a01751203692f70"
        )
    );
    assert_eq!(frame(result, false), "", "front ends before 1.0 do not know it");
    let interrupt = json!({ "id": "i", "reason": "tool_call", "responseSchema": { "type": "object" } });
    let (outcome, usage) = (json!({ "type": "interrupt", "interrupts": [interrupt] }), json!([{ "inputTokens": 300 }]));
    let finished = json!({ "type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome, "usage": usage });
    assert_eq!(
        frame(finished, false),
        concat!(
            "000000426a400a02080c1201741a01722a09696e7465727275707432240a01691209746f6f6c5f63616c6c2a142a120a100a04747970",
            "6512081a066f626a6563743a0318ac02"
        )
    );
}
