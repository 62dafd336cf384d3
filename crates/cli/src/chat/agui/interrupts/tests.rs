use handback_client::agui::process;

use super::*;

fn interrupt(value: Value) -> Interrupt {
    serde_json::from_value(value).unwrap()
}

/// A conversation with a call `c` of `read`.
fn conversation() -> Conversation {
    let events = [
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
        json!({"type": "TOOL_CALL_START", "toolCallId": "c", "toolCallName": "read"}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c", "delta": "{\"path\":\"a\"}"}),
        json!({"type": "TOOL_CALL_END", "toolCallId": "c"}),
    ];
    events.into_iter().fold(Conversation::default(), |conversation, event| {
        process(conversation, &serde_json::from_value(event).unwrap())
    })
}

fn approval(properties: Value) -> Question {
    let schema = json!({"type": "object", "properties": properties});
    let value = json!({"id": "i", "reason": "tool_call", "toolCallId": "c", "responseSchema": schema});
    question(1, &interrupt(value), &conversation())
}

/// What is sent after this line, or what is said instead.
fn typed(question: &mut Question, line: Option<&str>) -> Value {
    match question.read(line) {
        Ok(answer) => json!(resume(&question.id, answer)),
        Err(remark) => json!(remark),
    }
}

fn resolved(payload: Value) -> Value {
    json!({"interruptId": "i", "status": "resolved", "payload": payload})
}

#[test]
fn a_call_is_allowed_in_the_ways_that_the_agent_knows() {
    let all = json!({"approved": {}, "always": {}, "editedArgs": {}});
    assert_eq!(approval(all.clone()).text(), "Allow read {\"path\":\"a\"}? [y]es, [a]lways, [n]o, [e]dit: ");
    assert_eq!(approval(json!({"approved": {}})).text(), "Allow read {\"path\":\"a\"}? [y]es, [n]o: ");
    for (line, payload) in [
        (Some("y"), json!({"approved": true})),
        (Some("a"), json!({"approved": true, "always": true})),
        (Some("n"), json!({"approved": false})),
        (None, json!({"approved": false})),
    ] {
        assert_eq!(typed(&mut approval(all.clone()), line), resolved(payload), "{line:?}");
    }
    let mut edited = approval(all);
    assert_eq!(typed(&mut edited, Some("e")), json!(""));
    let payload = json!({"approved": true, "editedArgs": {"path": "b"}});
    assert_eq!(typed(&mut edited, Some("{\"path\":\"b\"}")), resolved(payload));
}

#[test]
fn where_nobody_is_asked_calls_are_allowed_or_not_and_the_rest_is_refused() {
    let asked = approval(json!({}));
    let allowed = asked.allowed().map(|answer| json!(resume("i", answer)));
    assert_eq!(allowed, Some(resolved(json!({"approved": true}))));
    assert_eq!(json!(resume("i", asked.rejected("no"))), resolved(json!({"approved": false, "reason": "no"})));
    let asked = question(1, &interrupt(json!({"id": "i", "reason": "input_required"})), &conversation());
    assert_eq!((asked.allowed().is_none(), asked.subject.as_str()), (true, "input_required"));
    assert_eq!(json!(resume("i", asked.rejected("no"))), json!({"interruptId": "i", "status": "cancelled"}));
}

#[test]
fn anything_else_is_answered_in_words_or_in_json() {
    let asked = |schema: Value| {
        let value = json!({"id": "i", "reason": "input_required", "message": "Which\nday?", "responseSchema": schema});
        question(1, &interrupt(value), &conversation())
    };
    let mut words = asked(json!({"type": "string"}));
    assert_eq!(words.text(), "Which day? (text; empty to refuse): ");
    assert_eq!(typed(&mut words, Some(" Sunday ")), resolved(json!("Sunday")));
    assert_eq!(typed(&mut words, Some("")), json!({"interruptId": "i", "status": "cancelled"}));
    let mut number = asked(json!({"type": "object"}));
    assert_eq!(number.text(), "Which day? (JSON; empty to refuse): ");
    assert_eq!(typed(&mut number, Some("Sunday")), json!("That is not JSON: expected value at line 1 column 1\n"));
    assert_eq!(typed(&mut number, Some("{\"day\":7}")), resolved(json!({"day": 7})));
}
