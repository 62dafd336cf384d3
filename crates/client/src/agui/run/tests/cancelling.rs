//! Runs that are cancelled, at any time.

use serde_json::json;

use super::super::*;
use super::dropping::{long_scenario, poll_times};
use super::support::*;
use crate::agui::conversation::ToolCallStatus;

/// Cancels when the gate is open, and sees the end at once.
async fn cancel_at(gate: &Gate, handle: &RunHandle) {
    gate.cancelled().await;
    assert!(handle.state().is_running());
    assert!(handle.cancel());
    assert_eq!(handle.state(), RunState::Cancelled);
    assert!(!handle.cancel(), "once is enough");
}

#[tokio::test]
async fn n07_cancel_while_a_tool_runs_ends_it_and_nothing_more_is_asked_for() {
    let workshop = Workshop::default();
    let (begun, never) = (Gate::new(), Gate::new());
    let tools = [workshop.gated("wait", &begun, &never), workshop.echo("look")];
    let scripts = [Script::run("r1", &[call("c1", "look", ""), call("c2", "wait", ""), call("c3", "elsewhere", "")])];
    let mut scenario = Scenario::new(scripts, tools);
    let handle = scenario.run.handle();
    let (state, ()) = tokio::join!(scenario.say(), cancel_at(&begun, &handle));
    assert_eq!((state, scenario.agent.inputs().len()), (RunState::Cancelled, 1));
    assert_eq!((workshop.running(), scenario.agent.streams()), (0, 0));
    let cancelled = Some("the run was cancelled".to_owned());
    let done = ("c1".to_owned(), ToolCallStatus::Completed, Some("echo ".to_owned()));
    let open = |id: &str| (id.to_owned(), ToolCallStatus::Failed, cancelled.clone());
    assert_eq!(scenario.calls(), [done, open("c2"), open("c3")]);
    let told = workshop.contexts.lock().unwrap().iter().find(|context| context.call_id == "c2").unwrap().clone();
    assert!(told.cancellation.is_cancelled());
}

#[tokio::test]
async fn tools_are_told_of_a_cancel_before_it_returns() {
    let workshop = Workshop::default();
    let (begun, never) = (Gate::new(), Gate::new());
    let mut scenario =
        Scenario::new([Script::run("r1", &[call("c1", "wait", "")])], [workshop.gated("wait", &begun, &never)]);
    let handle = scenario.run.handle();
    let contexts = Arc::clone(&workshop.contexts);
    let cancelling = async {
        begun.cancelled().await;
        handle.cancel();
        assert!(contexts.lock().unwrap()[0].cancellation.is_cancelled());
    };
    tokio::join!(scenario.say(), cancelling);
}

#[tokio::test]
async fn cancel_while_the_run_is_asked_for_or_streaming() {
    let never = Gate::new();
    let asking = Script::run("r1", &[]).behind(&never);
    let streaming = Script::run("r1", &[text("m", "Hel")[..2].to_vec()]).before_the_end(Beat::Wait(never.clone()));
    for script in [asking, streaming] {
        let mut scenario = Scenario::new([script], []);
        let (handle, agent) = (scenario.run.handle(), Arc::clone(&scenario.agent));
        let waiting = async {
            let mut views = handle.watch();
            views.wait_for(|view| view.state.is_running()).await.unwrap();
            tokio::task::yield_now().await;
            assert_eq!(agent.streams(), 1);
            assert!(handle.cancel());
            assert_eq!(handle.state(), RunState::Cancelled);
        };
        let (state, ()) = tokio::join!(scenario.say(), waiting);
        assert_eq!((state, scenario.agent.streams()), (RunState::Cancelled, 0));
    }
}

#[tokio::test]
async fn cancel_while_the_continuation_is_asked_for_and_the_tool_ran_once() {
    let workshop = Workshop::default();
    let never = Gate::new();
    let scripts = [
        Script::run("r1", &[call("c1", "look", "1")]),
        Script::run("r2", &[]).behind(&never),
        Script::run("r3", &[text("m", "Done.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    let handle = scenario.run.handle();
    let asked = async {
        let mut views = handle.watch();
        views.wait_for(|view| view.state == RunState::Running(Phase::Continuing)).await.unwrap();
        assert!(handle.cancel());
    };
    let (state, ()) = tokio::join!(scenario.say(), asked);
    assert_eq!((state, scenario.agent.inputs().len(), scenario.agent.streams()), (RunState::Cancelled, 2, 0));
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    assert_eq!((workshop.begun(), scenario.messages(2)), (vec!["c1".to_owned()], scenario.messages(1)));
}

#[tokio::test]
async fn a_run_that_is_over_cannot_be_cancelled() {
    let mut scenario = Scenario::new([Script::run("r1", &[])], []);
    assert!(!scenario.run.handle().cancel());
    scenario.say().await;
    assert!(!scenario.run.handle().cancel());
    assert_eq!(scenario.run.handle().state(), RunState::Completed);
}

#[tokio::test]
async fn a_run_that_the_server_cancelled_is_cancelled() {
    let workshop = Workshop::default();
    let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r1", "outcome": {"type": "cancelled"}});
    let script = Script::of(events_of(&[call("c1", "look", ""), vec![finished]]));
    let mut scenario = Scenario::new([script], [workshop.echo("look")]);
    assert_eq!((scenario.say().await, workshop.begun().len()), (RunState::Cancelled, 0));
}

/// Whenever it comes, a cancel is the last that is seen, and nothing is asked for after it.
#[tokio::test]
async fn cancelling_after_any_poll_is_final() {
    for polls in 1.. {
        let (mut scenario, workshop) = long_scenario();
        let (handle, agent) = (scenario.run.handle(), Arc::clone(&scenario.agent));
        let mut turn = Box::pin(scenario.run.say("Hi"));
        if poll_times(turn.as_mut(), polls).is_some() {
            assert!(polls > 30, "there are enough polls to cancel at: {polls}");
            drop(turn);
            scenario.endings = 1;
            return;
        }
        assert!(handle.cancel());
        let (seen, asked) = (scenario.recorder.seen().len(), agent.inputs().len());
        assert_eq!(turn.await, Ok(RunState::Cancelled));
        assert_eq!((scenario.recorder.seen().len(), agent.inputs().len()), (seen, asked), "after {polls} polls");
        assert_eq!((workshop.running(), agent.streams(), handle.state()), (0, 0, RunState::Cancelled));
        scenario.endings = 1;
    }
}
