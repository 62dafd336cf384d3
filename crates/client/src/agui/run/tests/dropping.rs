//! Runs that are dropped, at any time.

use std::pin::Pin;
use std::task::{Context as TaskContext, Poll, Waker};

use serde_json::json;

use super::super::*;
use super::support::*;
use crate::agui::conversation::{Item, ToolCallStatus};

/// Two tools at once, two continuations, and a rest at every turn.
pub(super) fn long_scenario() -> (Scenario, Workshop) {
    let workshop = Workshop::default();
    let slow = |name: &str| {
        workshop.tool(name, |call| async move {
            for _ in 0..3 {
                Pause::default().await;
            }
            Ok(format!("did {}", call.name))
        })
    };
    let scripts = [
        Script::run("r1", &[text("m1", "One."), call("c1", "left", ""), call("c2", "right", "")]).slowly(),
        Script::run("r2", &[call("c3", "left", ""), call("c4", "right", "")]).slowly(),
        Script::run("r3", &[text("m3", "Done.")]).slowly(),
    ];
    (Scenario::new(scripts, [slow("left"), slow("right")]), workshop)
}

/// Polls so often, or until it is done.
pub(super) fn poll_times<F: Future>(mut future: Pin<&mut F>, times: usize) -> Option<F::Output> {
    let mut context = TaskContext::from_waker(Waker::noop());
    for _ in 0..times {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
    }
    None
}

#[tokio::test(start_paused = true)]
async fn dropping_after_any_poll_stops_everything_in_silence() {
    for polls in 0.. {
        let (mut scenario, workshop) = long_scenario();
        let handle = scenario.run.handle();
        let mut turn = Box::pin(scenario.run.say("Hi"));
        if let Some(state) = poll_times(turn.as_mut(), polls) {
            drop(turn);
            assert_eq!((state, scenario.agent.inputs().len()), (Ok(RunState::Completed), 3));
            assert!(polls > 30, "there are enough polls to drop at: {polls}");
            scenario.endings = 1;
            return;
        }
        let (seen, asked, begun) = (scenario.recorder.seen(), scenario.agent.inputs().len(), workshop.begun());
        drop(turn);
        assert_eq!((workshop.running(), scenario.agent.streams()), (0, 0), "after {polls} polls");
        // Whatever was under way has time to go on, if it could.
        tokio::time::sleep(Duration::from_secs(3_600)).await;
        assert_eq!((scenario.recorder.seen(), scenario.agent.inputs().len(), workshop.begun()), (seen, asked, begun));
        assert_eq!(handle.state().is_running(), polls > 0);
        let open = handle.conversation();
        for context in workshop.contexts.lock().unwrap().iter() {
            let is_open = open.tool_call(&context.call_id).is_some_and(|call| !call.is_over());
            assert_eq!(context.cancellation.is_cancelled(), is_open, "{} after {polls} polls", context.call_id);
        }
    }
}

#[tokio::test]
async fn dropping_while_the_continuation_is_asked_for_and_the_tool_ran_once() {
    let workshop = Workshop::default();
    let never = Gate::new();
    let scripts = [
        Script::run("r1", &[call("c1", "look", "1")]),
        Script::run("r2", &[]).behind(&never),
        Script::run("r3", &[text("m", "Done.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    let handle = scenario.run.handle();
    let mut turn = Box::pin(scenario.run.say("Hi"));
    assert_eq!(poll_times(turn.as_mut(), 8), None);
    assert_eq!(handle.state(), RunState::Running(Phase::Continuing));
    drop(turn);
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    assert_eq!((workshop.begun(), scenario.messages(2)), (vec!["c1".to_owned()], scenario.messages(1)));
}

#[tokio::test]
async fn a_tool_that_was_dropped_in_its_middle_has_failed_for_the_next_try() {
    let workshop = Workshop::default();
    let (begun, never) = (Gate::new(), Gate::new());
    let scripts = [Script::run("r1", &[call("c1", "wait", "{}")]), Script::run("r2", &[text("m", "Never mind.")])];
    let mut scenario = Scenario::new(scripts, [workshop.gated("wait", &begun, &never)]);
    {
        let turn = scenario.run.say("Hi");
        tokio::select! {
            _ = turn => panic!("the tool never ends"),
            () = begun.cancelled() => {}
        }
    }
    assert_eq!(scenario.calls(), [("c1".to_owned(), ToolCallStatus::Executing, None)]);
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    let gone = "the run was dropped before the tool was done".to_owned();
    assert_eq!(scenario.calls(), [("c1".to_owned(), ToolCallStatus::Failed, Some(gone.clone()))]);
    assert_eq!((&scenario.messages(1)[2]["error"], workshop.begun().len()), (&Value::String(gone), 1));
}

/// What was told by half is not taken for the whole, by nobody: not what was said, not what was thought, not the
/// arguments of a call.
#[tokio::test]
async fn what_was_dropped_in_its_middle_does_not_get_into_the_next_run() {
    let workshop = Workshop::default();
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r1"});
    let chunk = json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c1", "toolCallName": "look", "delta": "{\"all\":"});
    let thought = |text: &str| json!({"type": "REASONING_MESSAGE_CONTENT", "messageId": "x", "delta": text});
    let cut = vec![vec![started], text("m1", "It is f")[..2].to_vec(), vec![thought("old"), chunk]];
    let scripts = [
        Script::of(events_of(&cut)).then(Beat::Wait(Gate::new())),
        Script::run("r2", &[vec![thought("new")], text("m2", "It is four.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(poll_times(Box::pin(scenario.run.say("Hi")).as_mut(), 8), None);
    assert_eq!(scenario.calls(), [("c1".to_owned(), ToolCallStatus::Streaming, None)]);
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    let conversation = scenario.conversation();
    let texts = conversation.items().iter().filter_map(|item| match item {
        Item::Text(text) => Some((text.text.as_str(), text.reasoning.as_str(), text.is_cut_off)),
        _ => None,
    });
    let texts: Vec<_> = texts.collect();
    assert_eq!(texts, [("Hi", "", false), ("It is f", "old", true), ("It is four.", "new", false)]);
    let gone = "the run was dropped before the tool was done".to_owned();
    assert_eq!(scenario.calls(), [("c1".to_owned(), ToolCallStatus::Failed, Some(gone))]);
    assert_eq!(workshop.begun().len(), 0);
}
