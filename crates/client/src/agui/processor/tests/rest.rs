use super::ToolCallStatus::{Completed, Executing, Failed, Pending, Streaming};
use super::*;

fn snapshot(state: Value) -> Value {
    json!({"type": "STATE_SNAPSHOT", "snapshot": state})
}

fn delta(operations: Value) -> Value {
    json!({"type": "STATE_DELTA", "delta": operations})
}

#[test]
fn p39_a_snapshot_is_the_state() {
    let conversation = told(&[snapshot(json!({"a": 1})), snapshot(json!({"b": [null]}))]);
    assert_eq!(conversation.state(), &json!({"b": [null]}));
    // Any JSON is a state.
    assert_eq!(told(&[snapshot(json!([1]))]).state(), &json!([1]));
}

#[test]
fn p40_a_delta_changes_the_state() {
    let change =
        delta(json!([{"op": "replace", "path": "/a", "value": 2}, {"op": "add", "path": "/b", "value": null}]));
    assert_eq!(told(&[snapshot(json!({"a": 1})), change]).state(), &json!({"a": 2, "b": null}));
}

#[test]
fn p41_a_delta_changes_the_state_that_there_is_at_first() {
    assert_eq!(told(&[delta(json!([{"op": "add", "path": "/a", "value": 1}]))]).state(), &json!({"a": 1}));
}

#[test]
fn a_delta_that_does_not_fit_leaves_the_state_and_the_run_goes_on() {
    let misfit = delta(json!([{"op": "replace", "path": "/a", "value": 2}, {"op": "remove", "path": "/x"}]));
    let conversation = told(&[run_started(), snapshot(json!({"a": 1})), misfit]);
    assert_eq!((conversation.state(), conversation.status()), (&json!({"a": 1}), &ConversationStatus::Running));
}

fn activity(id: &str, kind: &str, content: Value) -> Value {
    json!({"type": "ACTIVITY_SNAPSHOT", "messageId": id, "activityType": kind, "content": content})
}

#[test]
fn p42_p43_p44_tools_that_the_server_runs_are_seen_from_idle_and_during_a_text_and_gathered() {
    let first = activity("1", "skill_tool_call", json!({"tool_name": "search"}));
    let conversation = told(std::slice::from_ref(&first));
    assert_eq!(conversation.activity(), &calling(&["search"]));
    let conversation = told(&[text_start("m"), first, activity("2", "skill_tool_call", json!({"tool_name": "read"}))]);
    assert_eq!(conversation.activity(), &calling(&["search", "read"]));
    assert_eq!(conversation.streaming_text().map(|text| text.id.as_str()), Some("m"));
}

#[test]
fn p45_p46_p47_p48_other_activities_are_no_tools() {
    for (kind, content) in [
        ("skill_tool_result", json!({"tool_name": "search"})),
        ("skill_tool_call", json!({"tool_name": 1})),
        ("skill_tool_call", json!({})),
        ("", json!({"tool_name": "search"})),
    ] {
        let conversation = told(&[activity("1", kind, content.clone())]);
        assert_eq!(conversation.activity(), &Activity::None, "{kind} {content}");
        // Only one without a type is none at all.
        assert_eq!(conversation.items().len(), usize::from(!kind.is_empty()));
    }
}

#[test]
fn activities_are_items_that_change() {
    let shown = |conversation: &Conversation| -> Vec<Value> {
        let contents = conversation.items().iter().map(|item| match item {
            Item::Activity { id, kind, content } => json!([id, kind, content]),
            other => panic!("{other:?}"),
        });
        contents.collect()
    };
    let change = |operations: Value| json!({"type": "ACTIVITY_DELTA", "messageId": "1", "activityType": "plan", "patch": operations});
    let mut conversation = told(&[activity("1", "plan", json!({"done": 0})), activity("2", "plan", json!({}))]);
    conversation = after(conversation, &[change(json!([{"op": "replace", "path": "/done", "value": 1}]))]);
    assert_eq!(shown(&conversation), [json!(["1", "plan", {"done": 1}]), json!(["2", "plan", {}])]);
    // What does not fit, what would be no object, and what is not known, changes nothing.
    let stranger = json!({"type": "ACTIVITY_DELTA", "messageId": "3", "activityType": "plan", "patch": []});
    for misfit in [
        change(json!([{"op": "remove", "path": "/x"}])),
        change(json!([{"op": "replace", "path": "", "value": 1}])),
        stranger,
    ] {
        assert_eq!(after(conversation.clone(), &[misfit]), conversation);
    }
    let mut kept = activity("1", "plan", json!({"new": true}));
    kept["replace"] = json!(false);
    assert_eq!(after(conversation.clone(), &[kept]), conversation);
    conversation = after(conversation, &[activity("1", "list", json!({"new": true}))]);
    assert_eq!(shown(&conversation), [json!(["1", "list", {"new": true}]), json!(["2", "plan", {}])]);
}

#[test]
fn p49_events_of_the_applications_own_pass_through() {
    let before = told(&[run_started(), text_start("m")]);
    for event in [
        json!({"type": "CUSTOM", "name": "n", "value": 1}),
        json!({"type": "RAW", "event": {}}),
        json!({"type": "STEP_STARTED", "stepName": "s"}),
        json!({"type": "SUBAGENT_STARTED", "subagentRunId": "s", "name": "n"}),
        json!({"type": "REASONING_ENCRYPTED_VALUE", "subtype": "message", "entityId": "m", "encryptedValue": "x"}),
    ] {
        assert_eq!(after(before.clone(), std::slice::from_ref(&event)), before, "{event}");
    }
}

#[test]
fn interrupts_are_open_until_a_run_finishes_without_them() {
    let outcome = json!({"type": "interrupt", "interrupts": [{"id": "i", "reason": "tool_call"}]});
    let interrupted = told(&[json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": outcome})]);
    let ids = |conversation: &Conversation| {
        conversation.interrupts().iter().map(|interrupt| interrupt.id.clone()).collect::<Vec<_>>()
    };
    assert_eq!((ids(&interrupted), interrupted.status()), (vec!["i".to_owned()], &ConversationStatus::Completed));
    let failed = after(interrupted, &[run_started(), json!({"type": "RUN_ERROR", "message": "a bad answer"})]);
    assert_eq!(ids(&failed), ["i"]);
    assert_eq!(ids(&after(failed, &[run_started(), run_finished()])), [""; 0]);
}

#[test]
fn events_that_cannot_be_read_are_seen_and_counted() {
    let mut conversation = told(&[text_start("m")]);
    conversation.note_undecodable("NEW", "unknown variant");
    conversation.note_undecodable("NEW", "unknown variant");
    conversation.note_undecodable("", &"ö".repeat(1_000));
    let unread =
        |kind: &str, reason: &str, count| Item::Undecodable { kind: kind.to_owned(), reason: reason.to_owned(), count };
    assert_eq!(conversation.items()[1..], [unread("NEW", "unknown variant", 2), unread("", &"ö".repeat(256), 1)]);
    let more = after(conversation, &[text_content("m", "goes on")]);
    assert_eq!(more.streaming_text().map(|text| text.text.as_str()), Some("goes on"));
}

/// A server that sends nothing else does not fill the memory with why.
#[test]
fn there_is_an_end_to_how_many_kinds_of_unread_events_are_seen() {
    let mut conversation = Conversation::default();
    for number in 0..1_000 {
        conversation.note_undecodable(&number.to_string(), "unknown");
        conversation.say("in between");
    }
    let counts = conversation.items().iter().filter_map(|item| match item {
        Item::Undecodable { count, .. } => Some(*count),
        _ => None,
    });
    let counts: Vec<u64> = counts.collect();
    assert_eq!((counts.len(), counts[98], counts[99]), (100, 1, 901));
}

fn messages(messages: Value) -> Value {
    json!({"type": "MESSAGES_SNAPSHOT", "messages": messages})
}

#[test]
fn a_snapshot_of_the_messages_is_the_conversation() {
    let called =
        |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let parts = json!({"role": "user", "id": "p", "content": [{"type": "text", "text": "this"}]});
    let conversation = told(&[
        text_start("old"),
        text_end("old"),
        messages(json!([
            {"role": "developer", "id": "d", "content": "be"}, {"role": "user", "id": "u", "content": "hi"}, parts,
            {"role": "reasoning", "id": "r", "content": "hm"},
            {"role": "assistant", "id": "a", "content": "look", "toolCalls": [called("1", "x"), called("2", "y"), called("3", "z")]},
            {"role": "tool", "id": "t1", "toolCallId": "1", "content": "one"},
            {"role": "tool", "id": "t2", "toolCallId": "2", "content": "no", "error": "no"},
            {"role": "tool", "id": "t9", "toolCallId": "9", "content": "nobody asked"},
            {"role": "activity", "id": "v", "activityType": "plan", "content": {"a": 1}},
            {"role": "oracle", "id": "o"},
        ])),
    ]);
    let Item::ToolCalls(group) = &conversation.items()[4] else { panic!("they are calls") };
    let expected = [
        call("1", "x", "{}", Completed, Some("one")),
        call("2", "y", "{}", Failed, Some("no")),
        call("3", "z", "{}", Pending, None),
    ];
    assert_eq!((group.parent_message_id.as_deref(), group.calls.as_slice()), (Some("a"), &expected[..]));
    let looked = Text { reasoning: "hm".to_owned(), ..text("a", Role::Assistant, "look") };
    let items = conversation.items();
    assert_eq!(items[..2], [Item::Text(text("d", Role::System, "be")), Item::Text(text("u", Role::User, "hi"))]);
    assert_eq!(items[3], Item::Text(looked));
    assert!(matches!(&items[2], Item::Message(message) if message.id() == Some("p")));
    assert!(matches!(&items[5], Item::Activity { id, .. } if id == "v"));
    assert!(matches!(&items[6], Item::Message(message) if message.id() == Some("o")));
    assert_eq!(items.len(), 7);
}

#[test]
fn a_snapshot_takes_no_call_back_and_loses_nothing_that_is_open() {
    let mut conversation = told(&[
        call_start("1", "x"),
        call_end("1"),
        call_start("2", "x"),
        call_end("2"),
        call_start("3", "x"),
        text_start("m"),
    ]);
    conversation.begin_call("1");
    let called = json!({"id": "1", "type": "function", "function": {"name": "x", "arguments": "{}"}});
    let seen = messages(
        json!([{"role": "assistant", "id": "a", "toolCalls": [called]}, {"role": "tool", "id": "t", "toolCallId": "1", "content": "x"}]),
    );
    let conversation = after(conversation, &[seen, call_args("3", "{}"), text_content("m", "still here")]);
    let expected =
        [call("1", "x", "", Executing, None), call("2", "x", "", Pending, None), call("3", "x", "{}", Streaming, None)];
    assert_eq!(calls(&conversation), expected);
    assert_eq!(conversation.streaming_text(), Some(&text("m", Role::Assistant, "still here")));
}

/// A call in the history that nobody answered is not one that is to be run.
#[test]
fn a_call_that_only_a_snapshot_tells_is_not_open_when_the_user_went_on_without_it() {
    let calls_of = |id: &str, ids: &[&str]| {
        let one = |id: &&str| json!({"id": id, "type": "function", "function": {"name": "x", "arguments": "{}"}});
        json!({"role": "assistant", "id": id, "toolCalls": ids.iter().map(one).collect::<Vec<_>>()})
    };
    let result = |id: &str| json!({"role": "tool", "id": format!("t{id}"), "toolCallId": id, "content": "x"});
    let known = told(&[call_start("0", "x"), call_end("0")]);
    let history = messages(json!([
        calls_of("a", &["0", "1", "2"]), result("2"), {"role": "user", "id": "u", "content": "never mind"},
        calls_of("b", &["3", "4"]), result("4"), {"role": "assistant", "id": "c", "content": "Let me see."},
    ]));
    let statuses: Vec<_> = after(known, &[history]).tool_calls().map(|call| call.status).collect();
    assert_eq!(statuses, [Pending, Failed, Completed, Pending, Completed]);
}

#[test]
fn what_runs_took_is_counted_however_they_end() {
    let usage = json!([{"inputTokens": 3, "outputTokens": 2}, {"inputTokens": 1}]);
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "usage": usage});
    let failed = json!({"type": "RUN_ERROR", "message": "no", "usage": [{"inputTokens": u64::MAX, "outputTokens": 4}]});
    let conversation = told(&[run_started(), finished]);
    assert_eq!(conversation.usage(), Usage { input_tokens: 4, output_tokens: 2 });
    let conversation = after(conversation, &[run_started(), failed, run_started(), run_finished()]);
    assert_eq!(conversation.usage(), Usage { input_tokens: u64::MAX, output_tokens: 6 });
}
