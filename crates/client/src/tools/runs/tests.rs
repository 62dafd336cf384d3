use super::*;

fn output(text: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::Error { error: text.to_owned() })
}

/// One word for each admission, so that sequences can be compared whole.
fn admit(runs: &mut Runs, id: &str) -> String {
    match runs.admit(id, &CancellationToken::new()) {
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
    let mut runs = Runs::default();
    assert_eq!(admit(&mut runs, "a"), "new");
    assert_eq!(admit(&mut runs, "a"), "running");
    runs.finish("a", output("first"));
    assert_eq!(admit(&mut runs, "a"), "done first");
    assert_eq!(admit(&mut runs, "a"), "done first");
}

#[test]
fn a_call_that_is_given_up_is_not_run_again_and_makes_room() {
    let mut runs = Runs::default();
    for index in 0..MAX_RUNNING {
        admit(&mut runs, &index.to_string());
    }
    runs.give_up("0", output("unknown"));
    assert_eq!((admit(&mut runs, "0").as_str(), admit(&mut runs, "more").as_str()), ("done unknown", "new"));
    // One that has ended has its own result, and one that never came has none.
    runs.finish("1", output("first"));
    runs.give_up("1", output("unknown"));
    runs.give_up("never", output("unknown"));
    assert_eq!((admit(&mut runs, "1").as_str(), admit(&mut runs, "never").as_str()), ("done first", "new"));
}

#[test]
fn a_cancel_reaches_a_running_call_only() {
    let mut runs = Runs::default();
    assert!(!runs.cancel("a"));
    let Admission::New(cancellation) = runs.admit("a", &CancellationToken::new()) else {
        panic!("nothing is known of it");
    };
    assert!(runs.cancel("a"));
    assert!(cancellation.is_cancelled());
    runs.finish("a", output("cancelled"));
    assert!(!runs.cancel("a"));
}

#[test]
fn too_many_running_calls_are_refused_until_one_is_done() {
    let mut runs = Runs::default();
    for index in 0..MAX_RUNNING {
        assert_eq!(admit(&mut runs, &index.to_string()), "new");
    }
    assert_eq!(admit(&mut runs, "more"), "full");
    runs.finish("0", output("done"));
    assert_eq!(admit(&mut runs, "more"), "new");
}

#[test]
fn of_the_oldest_only_that_they_were_there_is_remembered() {
    let mut runs = Runs::default();
    for index in 0..=MAX_RESULTS {
        runs.finish(&index.to_string(), output("x"));
    }
    assert_eq!((runs.done.len(), runs.without_result, runs.result_bytes), (MAX_RESULTS + 1, 1, MAX_RESULTS));
    assert_eq!(admit(&mut runs, "0"), "done");
    assert_eq!(admit(&mut runs, "1"), "done x");
    // A late second result of a forgotten one changes nothing.
    runs.finish("0", output("late"));
    assert_eq!((admit(&mut runs, "0").as_str(), runs.result_bytes), ("done", MAX_RESULTS));
}

#[test]
fn the_oldest_calls_are_forgotten_altogether() {
    let mut runs = Runs::default();
    for index in 0..=MAX_CALLS {
        runs.finish(&index.to_string(), output("x"));
    }
    assert_eq!((runs.entries.len(), runs.done.len()), (MAX_CALLS, MAX_CALLS));
    assert_eq!(runs.without_result, MAX_CALLS - MAX_RESULTS);
    assert_eq!((admit(&mut runs, "0").as_str(), admit(&mut runs, "1").as_str()), ("new", "done"));
}

#[test]
fn the_oldest_results_are_forgotten_by_size_but_never_the_newest() {
    let mut runs = Runs::default();
    runs.finish("old", output("x"));
    runs.finish("large", output(&"x".repeat(MAX_RESULT_BYTES + 1)));
    assert_eq!((admit(&mut runs, "old").as_str(), runs.without_result), ("done", 1));
    runs.finish("new", output("y"));
    assert_eq!((runs.without_result, runs.result_bytes), (2, 1));
}

#[test]
fn a_second_result_of_a_call_keeps_the_books() {
    let mut runs = Runs::default();
    runs.finish("a", output("one"));
    runs.finish("a", output("three"));
    assert_eq!((&runs.done, runs.result_bytes), (&VecDeque::from(["a".to_owned()]), 5));
    assert_eq!(admit(&mut runs, "a"), "done three");
}
