use handback_core::clock::Time;
use handback_core::store::ToolResult;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::super::samples;
use super::*;

const NOW: Time = Time(0);

/// An answer with a call of the page that is over.
fn answer() -> Message {
    let result = ToolResult::Given { output: to_raw_value("teal").unwrap(), error: None };
    let input = to_raw_value(&json!({})).unwrap();
    samples::answer(vec![samples::call("1", ToolState::Done { input, start: NOW, end: NOW, result })])
}

/// The published client keeps what it has by the ids: with another one, the result came after the answer to it.
#[test]
fn a_result_that_the_page_sent_keeps_its_id() {
    let call = json!({ "id": "cal_1", "type": "function", "function": { "name": "pick", "arguments": "{}" } });
    let said = json!({ "role": "user", "id": "said", "content": "Which?" });
    let told = json!({ "role": "assistant", "id": "msg_1", "toolCalls": [call] });
    let result = |id: &str| json!({ "role": "tool", "id": id, "toolCallId": "cal_1", "content": "teal" });
    for (sent, id) in [
        (json!([said, told, result("the page's")]), "the page's"),
        (json!([said, told]), "prt_1"),
        (json!([said]), "prt_1"),
    ] {
        let sent: Vec<Shown> = serde_json::from_value(sent).unwrap();
        let messages = messages(&sent, None, [&answer()], |_| Content::Text("teal".to_owned()));
        assert_eq!(serde_json::to_value(messages).unwrap(), json!([said, told, result(id)]));
    }
}
