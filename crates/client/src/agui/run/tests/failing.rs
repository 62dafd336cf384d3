//! Runs that fail, and what is left of them.

use serde_json::json;

use super::super::*;
use super::support::*;
use crate::agui::AgentError;
use crate::agui::conversation::{Item, ToolCallStatus};

fn refused() -> AgentError {
    AgentError::Refused { status: 500, message: "out of order".to_owned() }
}

fn failed(error: AgentError) -> RunState {
    RunState::Failed(RunError::Agent(error))
}

#[tokio::test]
async fn n05_n06_a_continuation_that_is_refused_fails_the_run_and_leaves_no_call_open() {
    let workshop = Workshop::default();
    let scripts = [Script::run("r1", &[call("c1", "look", "1")]), Script::refusing(refused())];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, failed(refused()));
    assert_eq!(scenario.conversation().active_tool_calls().count(), 0);
    // The result is there for the next try.
    assert_eq!(scenario.calls(), [("c1".to_owned(), ToolCallStatus::Completed, Some("echo 1".to_owned()))]);
    assert!(scenario.run.handle().state().can_send());
}

#[tokio::test]
async fn retrying_sends_the_results_again_and_runs_no_tool_again() {
    let workshop = Workshop::default();
    let scripts = [
        Script::run("r1", &[call("c1", "look", "1")]),
        Script::refusing(refused()),
        Script::of(vec![Beat::Lost]),
        Script::run("r4", &[text("m", "At last.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, failed(refused()));
    assert_eq!(scenario.turn(RunRequest::Retry).await, failed(lost()));
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    assert_eq!((scenario.last_text(), workshop.begun()), ("At last.".to_owned(), vec!["c1".to_owned()]));
    let expected = scenario.messages(1);
    assert_eq!(expected[2]["content"], "echo 1");
    assert_eq!((scenario.messages(2), scenario.messages(3)), (expected.clone(), expected));
    let inputs = scenario.agent.inputs();
    assert_eq!(inputs[3].parent_run_id.as_deref(), Some("r1"));
    assert_eq!(inputs.iter().map(|input| input.run_id.clone()).collect::<HashSet<_>>().len(), 4);
}

#[tokio::test]
async fn errors_of_agents_are_told_apart() {
    for error in [
        AgentError::AuthExpired { status: 401, message: "who are you".to_owned() },
        AgentError::RateLimited { message: "slowly".to_owned(), retry_after: Some(Duration::from_secs(3)) },
        refused(),
        lost(),
    ] {
        let mut scenario = Scenario::new([Script::refusing(error.clone())], []);
        assert_eq!(scenario.say().await, failed(error.clone()));
        let last = scenario.conversation().items().last().cloned();
        assert_eq!(last, Some(Item::Error { message: error.to_string() }));
    }
}

#[tokio::test]
async fn a_run_that_the_agent_says_has_failed_failed() {
    let workshop = Workshop::default();
    let error = json!({"type": "RUN_ERROR", "message": "out of tokens", "code": "budget"});
    let script = Script::of(events_of(&[text("m", "Hm"), call("c1", "look", ""), vec![error]]));
    let mut scenario = Scenario::new([script], [workshop.echo("look")]);
    let expected = RunError::Reported { message: "out of tokens".to_owned(), code: Some("budget".to_owned()) };
    assert_eq!(scenario.say().await, RunState::Failed(expected));
    assert_eq!((workshop.begun().len(), scenario.conversation().active_tool_calls().count()), (0, 0));
}

#[tokio::test]
async fn a_stream_without_an_end_of_the_run_is_lost_and_its_calls_are_not_run() {
    let workshop = Workshop::default();
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r1"});
    let cut = events_of(&[vec![started], text("m", "Hm"), call("c1", "look", "")]);
    let ended = AgentError::NetworkLost { reason: "the stream ended before the run did".to_owned() };
    for (script, error) in [
        (Script::of(cut.clone()), ended),
        (Script::of(cut).then(Beat::Lost), lost()),
        (Script::of(Vec::new()), {
            AgentError::NetworkLost { reason: "the stream ended before the run did".to_owned() }
        }),
    ] {
        let mut scenario = Scenario::new([script], [workshop.echo("look")]);
        assert_eq!(scenario.say().await, failed(error));
        assert_eq!((workshop.begun().len(), scenario.conversation().active_tool_calls().count()), (0, 0));
    }
}

#[tokio::test]
async fn a_text_that_was_cut_off_is_told_anew_when_it_is_tried_again() {
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r1"});
    let cut = events_of(&[vec![started], text("m", "It is f")[..2].to_vec()]);
    let scripts = [Script::of(cut).then(Beat::Lost), Script::run("r2", &[text("m", "It is four.")])];
    let mut scenario = Scenario::new(scripts, []);
    assert_eq!(scenario.say().await, failed(lost()));
    assert_eq!(scenario.last_text(), "It is f");
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    assert_eq!(scenario.messages(1), json!([{"role": "user", "id": "*", "content": "Hi"}]));
    let texts = scenario.conversation().items().iter().filter(|item| matches!(item, Item::Text(_))).count();
    assert_eq!((scenario.last_text(), texts), ("It is four.".to_owned(), 2));
}

#[tokio::test]
async fn what_happens_after_the_end_of_a_run_changes_nothing() {
    let workshop = Workshop::default();
    let late = json!({"type": "RUN_ERROR", "message": "too late"});
    for after in [Beat::Lost, Beat::Event(late), Beat::Undecodable("NEW")] {
        let scripts = [
            Script::run("r1", &[call("c1", "look", "")]).then(after.clone()).then(Beat::Wait(Gate::new())),
            Script::run("r2", &[text("m", "Fine.")]).then(after),
        ];
        let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
        assert_eq!(scenario.say().await, RunState::Completed);
        assert_eq!((scenario.last_text(), scenario.agent.streams()), ("Fine.".to_owned(), 0));
    }
}

#[tokio::test]
async fn the_rest_of_a_stream_is_read_while_tools_run() {
    let workshop = Workshop::default();
    let (begun, gate, read) = (Gate::new(), Gate::new(), Gate::new());
    let opener = gate.clone();
    let scripts = [
        // Only who reads on reaches the gate behind the end; the tool waits for it.
        Script::run("r1", &[call("c1", "wait", "")]).then(Beat::Wait(read.clone())).then(Beat::Lost),
        Script::run("r2", &[]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.gated("wait", &begun, &gate)]);
    let agent = Arc::clone(&scenario.agent);
    let watching = async {
        begun.cancelled().await;
        assert_eq!(agent.streams(), 1);
        read.cancel();
        while agent.streams() > 0 {
            tokio::task::yield_now().await;
        }
        opener.cancel();
    };
    let (state, ()) = tokio::join!(scenario.say(), watching);
    assert_eq!(state, RunState::Completed);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_is_seen_and_the_run_goes_on() {
    let workshop = Workshop::default();
    let scripts = [
        Script::run("r1", &[call("c1", "look", "")]).before_the_end(Beat::Undecodable("THINKING_START")),
        Script::run("r2", &[text("m", "Fine.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Completed);
    let unread = Item::Undecodable { kind: "THINKING_START".to_owned(), reason: "unknown".to_owned(), count: 1 };
    assert!(scenario.conversation().items().contains(&unread));
    assert_eq!(workshop.begun(), ["c1"]);
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_an_end() {
    let workshop = Workshop::default();
    for kind in ["RUN_FINISHED", "RUN_ERROR"] {
        let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r1"});
        let told = events_of(&[vec![started], call("c1", "look", "")]);
        // Nobody waits for what will never come.
        let script = Script::of(told).then(Beat::Undecodable(kind)).then(Beat::Wait(Gate::new()));
        let mut scenario = Scenario::new([script], [workshop.echo("look")]);
        let reason = format!("how the run ended cannot be read, {kind}: unknown");
        assert_eq!(scenario.say().await, failed(AgentError::Unexpected { reason }));
        assert_eq!((workshop.begun().len(), scenario.conversation().active_tool_calls().count()), (0, 0));
    }
}

#[tokio::test]
async fn after_a_failure_the_conversation_goes_on() {
    let scripts = [Script::refusing(refused()), Script::run("r2", &[text("m", "Hello")])];
    let mut scenario = Scenario::new(scripts, []);
    scenario.say().await;
    assert_eq!(scenario.say().await, RunState::Completed);
    let user = json!({"role": "user", "id": "*", "content": "Hi"});
    assert_eq!(scenario.messages(1), json!([user, user]));
}
