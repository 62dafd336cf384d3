use serde_json::value::RawValue;

use super::*;

fn request(id: &str, effect: Effect, attempt: u32) -> ToolRequest {
    ToolRequest {
        kind: "client-tool-request".to_owned(),
        request_id: id.to_owned(),
        session_id: String::new(),
        message_id: String::new(),
        call_id: String::new(),
        tool: "client_laptop_tool".to_owned(),
        input: RawValue::from_string("{}".to_owned()).unwrap(),
        deadline: String::new(),
        effect,
        attempt,
    }
}

fn output(text: &str) -> Arc<ToolResult> {
    Arc::new(ToolResult::Error { error: text.to_owned() })
}

/// One word for each admission, so that sequences can be compared whole.
fn admit(journal: &mut Journal, id: &str, effect: Effect, attempt: u32) -> String {
    match journal.admit(&request(id, effect, attempt), &CancellationToken::new()) {
        Admission::Run(_) => "run".to_owned(),
        Admission::Running => "running".to_owned(),
        Admission::OutcomeUnknown => "unknown".to_owned(),
        Admission::Full => "full".to_owned(),
        Admission::Known(result) => match &*result {
            ToolResult::Error { error } => format!("known {error}"),
            ToolResult::Success(success) => format!("known {}", success.output),
        },
    }
}

#[test]
fn a_call_that_comes_again_runs_once_and_is_answered_with_its_result() {
    let mut journal = Journal::default();
    assert_eq!(admit(&mut journal, "a", Effect::Write, 1), "run");
    assert_eq!(admit(&mut journal, "a", Effect::Write, 2), "running");
    journal.finish("a", output("first"));
    assert_eq!(admit(&mut journal, "a", Effect::Write, 3), "known first");
    assert_eq!(admit(&mut journal, "a", Effect::Read, 4), "known first");
}

#[test]
fn an_unknown_call_offered_before_runs_only_if_twice_is_harmless() {
    let mut journal = Journal::default();
    assert_eq!(admit(&mut journal, "write", Effect::Write, 2), "unknown");
    assert_eq!(admit(&mut journal, "read", Effect::Read, 2), "run");
    assert_eq!(admit(&mut journal, "idempotent", Effect::Idempotent, 2), "run");
}

#[test]
fn a_cancel_reaches_a_running_call_only() {
    let mut journal = Journal::default();
    assert!(!journal.cancel("a"));
    let Admission::Run(cancellation) = journal.admit(&request("a", Effect::Write, 1), &CancellationToken::new()) else {
        panic!("a new call is run");
    };
    assert!(journal.cancel("a"));
    assert!(cancellation.is_cancelled());
    journal.finish("a", output("cancelled"));
    assert!(!journal.cancel("a"));
}

#[test]
fn too_many_running_calls_are_refused_until_one_is_done() {
    let mut journal = Journal::default();
    for index in 0..MAX_RUNNING {
        assert_eq!(admit(&mut journal, &index.to_string(), Effect::Write, 1), "run");
    }
    assert_eq!(admit(&mut journal, "more", Effect::Write, 1), "full");
    journal.finish("0", output("done"));
    assert_eq!(admit(&mut journal, "more", Effect::Write, 1), "run");
}

#[test]
fn the_oldest_results_are_forgotten_by_count() {
    let mut journal = Journal::default();
    for index in 0..=MAX_RESULTS {
        journal.finish(&index.to_string(), output("x"));
    }
    assert_eq!(
        (journal.entries.len(), journal.done.len(), journal.done_bytes),
        (MAX_RESULTS, MAX_RESULTS, MAX_RESULTS)
    );
    assert_eq!(admit(&mut journal, "0", Effect::Write, 2), "unknown");
    assert_eq!(admit(&mut journal, "1", Effect::Write, 2), "known x");
}

#[test]
fn the_oldest_results_are_forgotten_by_size_but_never_the_newest() {
    let mut journal = Journal::default();
    journal.finish("old", output("x"));
    journal.finish("large", output(&"x".repeat(MAX_RESULT_BYTES + 1)));
    assert_eq!(admit(&mut journal, "old", Effect::Write, 2), "unknown");
    assert_eq!(journal.done, ["large"]);
    journal.finish("new", output("y"));
    assert_eq!((&journal.done, journal.done_bytes), (&VecDeque::from(["new".to_owned()]), 1));
}

#[test]
fn a_second_result_of_a_call_keeps_the_books() {
    let mut journal = Journal::default();
    journal.finish("a", output("one"));
    journal.finish("a", output("three"));
    assert_eq!((&journal.done, journal.done_bytes), (&VecDeque::from(["a".to_owned()]), 5));
}
