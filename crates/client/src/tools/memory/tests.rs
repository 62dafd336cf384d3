use super::*;

fn output(text: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::Error { error: text.to_owned() })
}

/// One word for each admission, so that sequences can be compared whole.
fn admit(memory: &mut Memory, id: &str) -> String {
    match memory.admit(id, &CancellationToken::new()) {
        Admission::New(_) => "new".to_owned(),
        Admission::Running => "running".to_owned(),
        Admission::Full => "full".to_owned(),
        Admission::Done(None) => "done".to_owned(),
        Admission::Done(Some(result)) => match &*result {
            ToolResult::Error { error } => format!("done {error}"),
            ToolResult::Success(success) => format!("done {}", success.output),
        },
    }
}

#[test]
fn a_call_that_comes_again_is_running_and_then_known() {
    let mut memory = Memory::default();
    assert_eq!(admit(&mut memory, "a"), "new");
    assert_eq!(admit(&mut memory, "a"), "running");
    memory.record("a", output("first"));
    assert_eq!(admit(&mut memory, "a"), "done first");
    assert_eq!(admit(&mut memory, "a"), "done first");
}

#[test]
fn a_call_that_is_given_up_is_not_run_again_and_makes_room() {
    let mut memory = Memory::default();
    for index in 0..MAX_RUNNING {
        admit(&mut memory, &index.to_string());
    }
    memory.give_up("0", output("unknown"));
    assert_eq!((admit(&mut memory, "0").as_str(), admit(&mut memory, "more").as_str()), ("done unknown", "new"));
    // One that has ended has its own result, and one that never came has none.
    memory.record("1", output("first"));
    memory.give_up("1", output("unknown"));
    memory.give_up("never", output("unknown"));
    assert_eq!((admit(&mut memory, "1").as_str(), admit(&mut memory, "never").as_str()), ("done first", "new"));
}

#[test]
fn a_cancel_reaches_a_running_call_only() {
    let mut memory = Memory::default();
    assert!(!memory.cancel("a"));
    let Admission::New(cancellation) = memory.admit("a", &CancellationToken::new()) else {
        panic!("nothing is known of it");
    };
    assert!(memory.cancel("a"));
    assert!(cancellation.is_cancelled());
    memory.record("a", output("cancelled"));
    assert!(!memory.cancel("a"));
}

#[test]
fn too_many_running_calls_are_refused_until_one_is_done() {
    let mut memory = Memory::default();
    for index in 0..MAX_RUNNING {
        assert_eq!(admit(&mut memory, &index.to_string()), "new");
    }
    assert_eq!(admit(&mut memory, "more"), "full");
    memory.record("0", output("done"));
    assert_eq!(admit(&mut memory, "more"), "new");
}

#[test]
fn of_the_oldest_only_that_they_were_there_is_remembered() {
    let mut memory = Memory::default();
    for index in 0..=MAX_RESULTS {
        memory.record(&index.to_string(), output("x"));
    }
    assert_eq!((memory.done.len(), memory.without_result, memory.result_bytes), (MAX_RESULTS + 1, 1, MAX_RESULTS));
    assert_eq!(admit(&mut memory, "0"), "done");
    assert_eq!(admit(&mut memory, "1"), "done x");
    // A late second result of a forgotten one changes nothing.
    memory.record("0", output("late"));
    assert_eq!((admit(&mut memory, "0").as_str(), memory.result_bytes), ("done", MAX_RESULTS));
}

#[test]
fn the_oldest_calls_are_forgotten_altogether() {
    let mut memory = Memory::default();
    for index in 0..=MAX_CALLS {
        memory.record(&index.to_string(), output("x"));
    }
    assert_eq!((memory.calls.len(), memory.done.len()), (MAX_CALLS, MAX_CALLS));
    assert_eq!(memory.without_result, MAX_CALLS - MAX_RESULTS);
    assert_eq!((admit(&mut memory, "0").as_str(), admit(&mut memory, "1").as_str()), ("new", "done"));
}

#[test]
fn the_oldest_results_are_forgotten_by_size_but_never_the_newest() {
    let mut memory = Memory::default();
    memory.record("old", output("x"));
    memory.record("large", output(&"x".repeat(MAX_RESULT_BYTES + 1)));
    assert_eq!((admit(&mut memory, "old").as_str(), memory.without_result), ("done", 1));
    memory.record("new", output("y"));
    assert_eq!((memory.without_result, memory.result_bytes), (2, 1));
}

#[test]
fn a_second_result_of_a_call_keeps_the_books() {
    let mut memory = Memory::default();
    memory.record("a", output("one"));
    memory.record("a", output("three"));
    assert_eq!((&memory.done, memory.result_bytes), (&VecDeque::from(["a".to_owned()]), 5));
    assert_eq!(admit(&mut memory, "a"), "done three");
}
