use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{CallId, MessageId, PartId, SessionId};
use handback_core::store::{AssistantMessage, ModelRef, Role, StopReason, ToolPart, ToolResult, Usage};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::*;

const NOW: Time = Time(0);

/// An answer with a call of the page that is over.
fn answer() -> Message {
    let raw = |value: Value| -> Box<RawValue> { to_raw_value(&value).unwrap() };
    let result = ToolResult::Given { output: raw(json!("teal")), error: None };
    let call = ToolPart {
        call: CallId::parse("cal_1").unwrap(),
        provider_call: "call_1".to_owned(),
        alias: "pick".into(),
        tool: "pick".into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state: ToolState::Done { input: raw(json!({})), start: NOW, end: NOW, result },
    };
    let part = Part { id: PartId::parse("prt_1").unwrap(), body: PartBody::Tool(call) };
    Message {
        id: MessageId::parse("msg_1").unwrap(),
        session: SessionId::parse("thread").unwrap(),
        created: NOW,
        role: Role::Assistant(AssistantMessage {
            parent: MessageId::parse("said").unwrap(),
            agent: "default".into(),
            model: ModelRef::parse("a/b").unwrap(),
            completed: Some(NOW),
            finish: Some(StopReason::ToolCalls),
            usage: Usage::default(),
            error: None,
            kept: None,
        }),
        parts: vec![Arc::new(part)],
    }
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
