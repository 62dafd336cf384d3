use super::*;

#[test]
fn p01_a_run_that_started_is_running() {
    let conversation = told(&[run_started()]);
    assert_eq!((conversation.status(), conversation.thread_id()), (&ConversationStatus::Running, Some("t")));
    // A thread that has an id keeps it.
    assert_eq!(after(Conversation::in_thread("mine"), &[run_started()]).thread_id(), Some("mine"));
}

#[test]
fn p02_a_run_that_finished_is_completed() {
    let conversation = told(&[run_started(), run_finished()]);
    assert_eq!((conversation.status(), conversation.parent_run_id()), (&ConversationStatus::Completed, Some("r")));
}

#[test]
fn p03_a_run_that_failed_says_why() {
    let conversation = told(&[run_started(), json!({"type": "RUN_ERROR", "message": "out of luck"})]);
    assert_eq!(conversation.status(), &ConversationStatus::Failed("out of luck".to_owned()));
    assert_eq!(conversation.items(), [Item::Error { message: "out of luck".to_owned() }]);
    // It is not what the next run goes on from.
    assert_eq!(conversation.parent_run_id(), None);
}

#[test]
fn p04_a_text_that_starts_is_streaming() {
    let conversation = told(&[text_start("m")]);
    assert_eq!(conversation.streaming_text(), Some(&text("m", Role::Assistant, "")));
    assert_eq!(conversation.activity(), &Activity::Responding);
}

#[test]
fn p05_content_is_ignored_while_nothing_is_streaming() {
    assert_eq!(told(&[text_content("m", "x")]), Conversation::default());
}

#[test]
fn p06_content_is_appended() {
    let conversation = told(&[text_start("m"), text_content("m", "Hel"), text_content("m", "lo")]);
    assert_eq!(conversation.streaming_text(), Some(&text("m", Role::Assistant, "Hello")));
}

#[test]
fn p07_content_of_another_text_is_ignored() {
    let streaming = told(&[text_start("m"), text_content("m", "Hello")]);
    assert_eq!(after(streaming.clone(), &[text_content("other", "x")]), streaming);
}

#[test]
fn p08_the_end_completes_a_text() {
    let conversation = told(&[text_start("m"), text_content("m", "Hello"), text_end("m")]);
    assert_eq!(conversation.items(), [Item::Text(text("m", Role::Assistant, "Hello"))]);
    assert_eq!((conversation.streaming_text(), conversation.activity()), (None, &Activity::None));
    assert_eq!(after(conversation.clone(), &[text_content("m", "x")]), conversation);
}

#[test]
fn p09_the_end_keeps_the_role() {
    let start = json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "user"});
    let conversation = told(&[start, text_content("m", "Hello"), text_end("m")]);
    assert_eq!(conversation.items(), [Item::Text(text("m", Role::User, "Hello"))]);
}

#[test]
fn p10_the_end_of_another_text_is_ignored() {
    let streaming = told(&[text_start("m"), text_content("m", "Hello")]);
    assert_eq!(after(streaming.clone(), &[text_end("other")]), streaming);
}

#[test]
fn p11_p12_p13_roles_are_kept_and_a_developer_is_the_system() {
    for (said, role) in
        [("user", Role::User), ("system", Role::System), ("developer", Role::System), ("assistant", Role::Assistant)]
    {
        let conversation = told(&[json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": said})]);
        assert_eq!(conversation.items(), [Item::Text(text("m", role, ""))], "{said}");
    }
}

#[test]
fn a_text_without_an_end_is_completed_by_the_next_and_by_the_end_of_the_run() {
    let conversation = told(&[
        text_start("a"),
        text_content("a", "one"),
        text_start("b"),
        text_content("a", "x"),
        text_content("b", "two"),
        run_finished(),
    ]);
    let texts = [Item::Text(text("a", Role::Assistant, "one")), Item::Text(text("b", Role::Assistant, "two"))];
    assert_eq!((conversation.items(), conversation.streaming_text()), (&texts[..], None));
}

#[test]
fn a_text_is_cut_off_when_the_run_fails() {
    let conversation =
        told(&[text_start("a"), text_content("a", "one"), json!({"type": "RUN_ERROR", "message": "no"})]);
    let cut_off = Text { is_cut_off: true, ..text("a", Role::Assistant, "one") };
    assert_eq!(conversation.items(), [Item::Text(cut_off), Item::Error { message: "no".to_owned() }]);
}

#[test]
fn a_text_that_is_told_again_by_another_run_begins_anew() {
    let first = told(&[
        run_started(),
        text_start("m"),
        text_content("m", "Hel"),
        json!({"type": "RUN_ERROR", "message": "no"}),
    ]);
    let again = after(first, &[run_started(), text_start("m"), text_content("m", "Hello"), text_end("m")]);
    let told = [Item::Text(text("m", Role::Assistant, "Hello")), Item::Error { message: "no".to_owned() }];
    assert_eq!(again.items(), told);
    // In the same run, it goes on.
    let more = after(
        again,
        &[text_start("n"), text_content("n", "a"), text_end("n"), text_start("n"), text_content("n", "b")],
    );
    assert_eq!(more.items()[2], Item::Text(text("n", Role::Assistant, "ab")));
}

fn reasoning(kind: &str) -> Value {
    json!({"type": kind, "messageId": "t", "role": "reasoning"})
}

fn thought(delta: &str) -> Value {
    json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "t", "delta": delta})
}

#[test]
fn p32_reasoning_that_starts_is_seen() {
    for kind in ["REASONING_START", "REASONING_MESSAGE_START"] {
        let conversation = told(&[reasoning(kind)]);
        assert_eq!((conversation.is_thinking(), conversation.activity()), (true, &Activity::Thinking), "{kind}");
    }
}

#[test]
fn p33_p34_reasoning_is_gathered() {
    let conversation = told(&[reasoning("REASONING_MESSAGE_START"), thought("Let me "), thought("think")]);
    assert_eq!(conversation.reasoning(), "Let me think");
    assert_eq!(conversation.items(), []);
}

#[test]
fn p35_reasoning_that_ends_is_no_more_seen_and_kept() {
    for kind in ["REASONING_END", "REASONING_MESSAGE_END"] {
        let conversation = told(&[reasoning("REASONING_START"), thought("hm"), reasoning(kind)]);
        assert_eq!((conversation.is_thinking(), conversation.reasoning()), (false, "hm"), "{kind}");
    }
}

#[test]
fn p36_reasoning_goes_with_the_text_that_follows() {
    let conversation = told(&[reasoning("REASONING_START"), thought("hm"), text_start("m")]);
    let with = Text { reasoning: "hm".to_owned(), ..text("m", Role::Assistant, "") };
    assert_eq!((conversation.streaming_text(), conversation.reasoning()), (Some(&with), ""));
}

#[test]
fn p37_reasoning_is_appended_while_a_text_is_streaming() {
    let conversation = told(&[thought("a"), text_start("m"), thought("b"), text_content("m", "x"), thought("c")]);
    let with = Text { reasoning: "abc".to_owned(), ..text("m", Role::Assistant, "x") };
    assert_eq!(conversation.streaming_text(), Some(&with));
}

#[test]
fn p38_a_complete_text_keeps_its_reasoning_and_the_next_has_its_own() {
    let events = [thought("a"), text_start("m"), text_end("m"), thought("b"), text_start("n"), text_end("n")];
    let with =
        |id, reasoning: &str| Item::Text(Text { reasoning: reasoning.to_owned(), ..text(id, Role::Assistant, "") });
    assert_eq!(told(&events).items(), [with("m", "a"), with("n", "b")]);
}

#[test]
fn reasoning_goes_with_calls_where_no_text_follows() {
    let conversation = told(&[reasoning("REASONING_START"), thought("look it up"), call_start("c", "look")]);
    let Item::ToolCalls(group) = &conversation.items()[0] else { panic!("they are calls") };
    assert_eq!((group.reasoning.as_str(), conversation.reasoning()), ("look it up", ""));
}
