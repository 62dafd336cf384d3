use super::ToolCallStatus::{Completed, Executing, Failed, Pending, Streaming};
use super::*;

#[test]
fn p14_a_call_that_starts_is_streaming() {
    let conversation = told(&[call_start("c", "look")]);
    assert_eq!(calls(&conversation), [call("c", "look", "", Streaming, None)]);
    assert_eq!(conversation.activity(), &calling(&["look"]));
}

#[test]
fn p15_p30_the_names_of_tools_are_gathered_each_once() {
    let conversation = told(&[call_start("1", "a"), call_start("2", "b"), call_start("3", "a")]);
    assert_eq!(conversation.activity(), &calling(&["a", "b"]));
    let many: Vec<Value> = (0..100).map(|number| call_start(&number.to_string(), &number.to_string())).collect();
    let Activity::CallingTools(names) = told(&many).activity().clone() else { panic!("tools are called") };
    assert_eq!(names.len(), 64);
}

#[test]
fn p16_one_delta_is_the_arguments() {
    assert_eq!(
        calls(&told(&[call_start("c", "look"), call_args("c", "{}")])),
        [call("c", "look", "{}", Streaming, None)]
    );
}

#[test]
fn p17_deltas_are_joined() {
    let events = [call_start("c", "look"), call_args("c", r#"{"a""#), call_args("c", ":1}")];
    assert_eq!(calls(&told(&events)), [call("c", "look", r#"{"a":1}"#, Streaming, None)]);
}

#[test]
fn p18_without_deltas_the_arguments_are_empty() {
    assert_eq!(calls(&told(&[call_start("c", "look"), call_end("c")])), [call("c", "look", "", Pending, None)]);
}

#[test]
fn p19_what_is_told_of_an_unknown_call_is_dropped() {
    let before = told(&[call_start("c", "look")]);
    for event in [call_args("x", "{}"), call_end("x"), call_result("x", "seen")] {
        assert_eq!(after(before.clone(), std::slice::from_ref(&event)), before, "{event}");
    }
}

#[test]
fn p20_arguments_after_the_end_are_dropped() {
    let before = told(&[call_start("c", "look"), call_args("c", "{}"), call_end("c")]);
    assert_eq!(after(before.clone(), &[call_args("c", "x")]), before);
}

#[test]
fn p21_p22_a_call_with_all_its_arguments_is_pending_and_stays_there() {
    let conversation = told(&[call_start("c", "look"), call_args("c", "{}"), call_end("c")]);
    assert_eq!(calls(&conversation), [call("c", "look", "{}", Pending, None)]);
    assert_eq!(conversation.active_tool_calls().count(), 1);
}

#[test]
fn p23_the_end_leaves_the_activity_alone() {
    assert_eq!(told(&[call_start("c", "look"), call_end("c")]).activity(), &calling(&["look"]));
}

#[test]
fn p24_a_second_end_changes_nothing() {
    let before = told(&[call_start("c", "look"), call_end("c")]);
    assert_eq!(after(before.clone(), &[call_end("c")]), before);
}

#[test]
fn p25_nothing_takes_a_call_back() {
    let mut executing = told(&[call_start("c", "look"), call_args("c", "{}"), call_end("c")]);
    executing.begin_call("c");
    let mut completed = executing.clone();
    completed.end_call("c", Ok("seen".to_owned()));
    let mut failed = executing.clone();
    failed.end_call("c", Err("no".to_owned()));
    for (conversation, status) in [(executing, Executing), (completed, Completed), (failed, Failed)] {
        let before = calls(&conversation);
        assert_eq!(before[0].status, status);
        let mut again = after(
            conversation,
            &[call_start("c", "look"), call_args("c", "x"), call_end("c"), call_result("c", "x"), run_finished()],
        );
        assert_eq!(calls(&again), before);
        if status != Executing {
            again.begin_call("c");
            again.end_call("c", Ok("other".to_owned()));
            again.end_call("c", Err("other".to_owned()));
            assert_eq!(calls(&again), before);
        }
    }
}

#[test]
fn only_a_pending_call_can_be_begun() {
    let mut streaming = told(&[call_start("c", "look")]);
    streaming.begin_call("c");
    assert_eq!(calls(&streaming)[0].status, Streaming);
}

#[test]
fn p26_calls_keep_what_is_theirs_also_when_they_are_told_at_once() {
    let turns = [
        vec![call_start("1", "a"), call_args("1", "one"), call_end("1"), call_start("2", "b"), call_args("2", "two")],
        vec![call_start("1", "a"), call_start("2", "b"), call_args("2", "two"), call_args("1", "one"), call_end("1")],
    ];
    for turn in turns {
        assert_eq!(calls(&told(&turn)), [call("1", "a", "one", Pending, None), call("2", "b", "two", Streaming, None)]);
    }
}

#[test]
fn p27_p28_a_result_completes_a_call_that_is_pending_or_streaming() {
    let conversation = told(&[
        call_start("1", "a"),
        call_end("1"),
        call_result("1", "one"),
        call_start("2", "b"),
        call_result("2", "two"),
    ]);
    let expected = [call("1", "a", "", Completed, Some("one")), call("2", "b", "", Completed, Some("two"))];
    assert_eq!((calls(&conversation), conversation.active_tool_calls().count()), (expected.to_vec(), 0));
}

#[test]
fn p29_a_second_result_changes_nothing() {
    let before = told(&[call_start("1", "a"), call_end("1"), call_result("1", "one")]);
    assert_eq!(after(before.clone(), &[call_result("1", "two")]), before);
}

#[test]
fn p31_texts_and_calls_go_side_by_side_in_the_order_in_which_they_began() {
    let conversation = told(&[
        text_start("m"),
        call_start("c", "look"),
        text_content("m", "Looking"),
        call_args("c", "{}"),
        text_end("m"),
        call_end("c"),
    ]);
    let group = super::super::super::ToolCallGroup {
        calls: vec![call("c", "look", "{}", Pending, None)],
        ..Default::default()
    };
    assert_eq!(conversation.items(), [Item::Text(text("m", Role::Assistant, "Looking")), Item::ToolCalls(group)]);
}

#[test]
fn a_call_that_starts_twice_is_one_call() {
    let conversation = told(&[
        call_start("c", "look"),
        call_args("c", "{"),
        call_start("c", "look"),
        call_args("c", "}"),
        call_end("c"),
    ]);
    assert_eq!(calls(&conversation), [call("c", "look", "{}", Pending, None)]);
}

#[test]
fn calls_are_grouped_by_the_message_that_they_belong_to() {
    let of = |id: &str, message: &str| json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": "a", "parentMessageId": message});
    let groups = |conversation: &Conversation| -> Vec<Vec<String>> {
        let ids = conversation.items().iter().map(|item| match item {
            Item::ToolCalls(group) => group.calls.iter().map(|call| call.id.clone()).collect(),
            other => panic!("{other:?}"),
        });
        ids.collect()
    };
    let by_message = told(&[of("1", "m"), call_result("1", "x"), of("2", "m"), of("3", "n")]);
    assert_eq!(groups(&by_message), [vec!["1", "2"], vec!["3"]]);
    // Where no message is named, a call after a result was made after it.
    let by_result = told(&[call_start("1", "a"), call_start("2", "a"), call_result("1", "x"), call_start("3", "a")]);
    assert_eq!(groups(&by_result), [vec!["1", "2"], vec!["3"]]);
}

#[test]
fn a_call_without_all_its_arguments_fails_with_the_run() {
    let conversation =
        told(&[call_start("1", "a"), call_args("1", "{"), call_start("2", "b"), call_end("2"), run_finished()]);
    let incomplete = "incomplete arguments: the run ended before they were complete";
    assert_eq!(
        calls(&conversation),
        [call("1", "a", "{", Failed, Some(incomplete)), call("2", "b", "", Pending, None)]
    );
}

#[test]
fn all_open_calls_fail_with_a_run_that_fails_or_is_cancelled() {
    let open =
        told(&[call_start("1", "a"), call_start("2", "b"), call_end("2"), call_start("3", "c"), call_result("3", "x")]);
    let failed = after(open.clone(), &[json!({"type": "RUN_ERROR", "message": "no"})]);
    let cancelled = after(
        open,
        &[json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "cancelled"}})],
    );
    let statuses = |conversation: &Conversation| conversation.tool_calls().map(|call| call.status).collect::<Vec<_>>();
    assert_eq!(statuses(&failed), [Failed, Failed, Completed]);
    assert_eq!(calls(&failed)[1].result.as_deref(), Some("the run failed before the tool was run"));
    assert_eq!((statuses(&cancelled)[1], cancelled.status()), (Failed, &ConversationStatus::Cancelled));
}

/// What grows is never copied: a copy has no room to grow, so its capacity would change with every event, and the text
/// that came before it would be somewhere else.
#[test]
fn a_hundred_thousand_deltas_cost_what_they_bring() {
    let mut conversation = told(&[
        text_start("m"),
        text_content("m", "some text that stays where it is"),
        text_end("m"),
        call_start("c", "look"),
    ]);
    let place = |conversation: &Conversation| match &conversation.items()[0] {
        Item::Text(text) => text.text.as_ptr() as usize,
        other => panic!("{other:?}"),
    };
    let (before, delta) = (place(&conversation), serde_json::from_value(call_args("c", "0123456789")).unwrap());
    let (mut moves, mut capacity) = (0, 0);
    for _ in 0..100_000 {
        conversation = process(conversation, &delta);
        let now = conversation.tool_call("c").unwrap().arguments.capacity();
        moves += usize::from(now != capacity);
        capacity = now;
    }
    assert_eq!((conversation.tool_call("c").unwrap().arguments.len(), place(&conversation)), (1_000_000, before));
    assert!(moves <= 24, "a million bytes are 2^20, and their room was changed {moves} times");
}
