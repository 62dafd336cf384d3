//! Runs that must know something before they go on.

use handback_wire::agui::{Interrupt, ResumeStatus};
use serde_json::json;

use super::super::*;
use super::support::*;
use crate::agui::conversation::ToolCallStatus;

fn interrupted(ids: &[&str]) -> Value {
    let interrupts: Vec<Value> =
        ids.iter().map(|id| json!({"id": id, "reason": "tool_call", "toolCallId": "c1"})).collect();
    json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r1", "outcome": {"type": "interrupt", "interrupts": interrupts}})
}

fn asks(ids: &[&str]) -> Vec<Interrupt> {
    let ask = |id: &&str| Interrupt {
        id: (*id).to_owned(),
        reason: "tool_call".to_owned(),
        tool_call_id: Some("c1".to_owned()),
        ..Interrupt::default()
    };
    ids.iter().map(ask).collect()
}

fn answer(id: &str) -> Resume {
    Resume {
        interrupt_id: id.to_owned(),
        status: ResumeStatus::Resolved,
        payload: Some(json!({"approved": true})),
        metadata: None,
    }
}

fn interrupting(ids: &[&str]) -> Script {
    Script::of(events_of(&[call("c1", "look", ""), vec![interrupted(ids)]]))
}

#[tokio::test]
async fn a_call_that_needs_approval_is_run_after_it_and_not_before() {
    let workshop = Workshop::default();
    let scripts = [interrupting(&["i"]), Script::run("r2", &[]), Script::run("r3", &[text("m", "Done.")])];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Interrupted(asks(&["i"])));
    let state = scenario.run.handle().state();
    assert_eq!((state.can_send(), state.is_streaming(), workshop.begun().len()), (false, false, 0));
    assert_eq!(scenario.turn(RunRequest::Resume(vec![answer("i")])).await, RunState::Completed);
    assert_eq!((workshop.begun(), scenario.last_text()), (vec!["c1".to_owned()], "Done.".to_owned()));
    let answers: Vec<Option<Vec<Resume>>> = scenario.agent.inputs().into_iter().map(|input| input.resume).collect();
    // Answered once: the continuation has its results instead.
    assert_eq!(answers, [None, Some(vec![answer("i")]), None]);
}

#[tokio::test]
async fn a_call_that_is_denied_is_answered_by_the_server_and_not_run() {
    let workshop = Workshop::default();
    let denied = json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c1", "content": "denied"});
    let scripts = [interrupting(&["i"]), Script::run("r2", &[vec![denied], text("m", "Then not.")])];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    scenario.say().await;
    let refusal = Resume { status: ResumeStatus::Cancelled, payload: None, ..answer("i") };
    assert_eq!(scenario.turn(RunRequest::Resume(vec![refusal])).await, RunState::Completed);
    assert_eq!((workshop.begun().len(), scenario.agent.inputs().len()), (0, 2));
}

#[tokio::test]
async fn answers_must_fit_and_nothing_else_can_be_said() {
    let mut scenario = Scenario::new([interrupting(&["i", "j"])], []);
    let nothing = RunRequestError::Answers { unanswered: Vec::new(), unknown: vec!["i".to_owned()] };
    assert_eq!(scenario.run.resume(vec![answer("i")]).await, Err(nothing));
    scenario.say().await;
    let error = |unanswered: &[&str], unknown: &[&str]| {
        let owned = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Err(RunRequestError::Answers { unanswered: owned(unanswered), unknown: owned(unknown) })
    };
    assert_eq!(scenario.run.resume(vec![answer("j")]).await, error(&["i"], &[]));
    assert_eq!(scenario.run.resume(Vec::new()).await, error(&["i", "j"], &[]));
    assert_eq!(
        scenario.run.resume(vec![answer("i"), answer("j"), answer("j"), answer("k")]).await,
        error(&[], &["j", "k"])
    );
    for turn in [RunRequest::Say("Well?".to_owned()), RunRequest::Start, RunRequest::Retry] {
        assert_eq!(scenario.run.request(turn).await, Err(RunRequestError::Interrupted));
    }
    assert_eq!(scenario.run.handle().state(), RunState::Interrupted(asks(&["i", "j"])));
    assert_eq!(scenario.agent.inputs().len(), 1);
}

#[tokio::test]
async fn answers_that_were_lost_are_sent_again() {
    let scripts = [interrupting(&["i"]), Script::refusing(lost()), Script::run("r3", &[]), Script::run("r4", &[])];
    let mut scenario = Scenario::new(scripts, []);
    scenario.say().await;
    let failed = RunState::Failed(RunError::Agent(lost()));
    assert_eq!(scenario.turn(RunRequest::Resume(vec![answer("i")])).await, failed);
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    scenario.say().await;
    let answers: Vec<bool> = scenario.agent.inputs().iter().map(|input| input.resume.is_some()).collect();
    assert_eq!(answers, [false, true, true, false]);
}

#[tokio::test]
async fn calls_wait_on_for_answers_that_were_lost_and_are_run_when_these_arrive() {
    let bad = json!({"type": "RUN_ERROR", "message": "not like this", "code": "invalid_resume"});
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r2"});
    let cut = Script::of(events_of(&[vec![started], call("new", "look", "")[..2].to_vec()])).then(Beat::Lost);
    for fault in [Script::refusing(lost()), cut, Script::of(events_of(&[vec![bad]]))] {
        for turn in [RunRequest::Retry, RunRequest::Resume(vec![answer("i")])] {
            let workshop = Workshop::default();
            let both =
                Script::of(events_of(&[call("c1", "look", "1"), call("c2", "look", "2"), vec![interrupted(&["i"])]]));
            let scripts = [both, fault.clone(), Script::run("r3", &[]), Script::run("r4", &[text("m", "Done.")])];
            let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
            scenario.say().await;
            assert!(matches!(scenario.turn(RunRequest::Resume(vec![answer("i")])).await, RunState::Failed(_)));
            assert!(scenario.calls().iter().all(|(id, status, _)| match id.as_str() {
                "new" => *status == ToolCallStatus::Failed,
                _ => *status == ToolCallStatus::Pending,
            }));
            assert_eq!((scenario.turn(turn).await, scenario.last_text()), (RunState::Completed, "Done.".to_owned()));
            assert_eq!(workshop.begun(), ["c1", "c2"]);
            // Nothing is said of calls that wait.
            assert!(!scenario.messages(2).to_string().contains("c1"));
        }
    }
}

#[tokio::test]
async fn answers_that_were_taken_are_not_sent_again_with_the_results() {
    let workshop = Workshop::default();
    let scripts = [
        interrupting(&["i"]),
        Script::run("r2", &[]),
        Script::refusing(lost()),
        Script::run("r4", &[text("m", "Done.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    scenario.say().await;
    let failed = RunState::Failed(RunError::Agent(lost()));
    assert_eq!(scenario.turn(RunRequest::Resume(vec![answer("i")])).await, failed);
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    let answers: Vec<bool> = scenario.agent.inputs().iter().map(|input| input.resume.is_some()).collect();
    assert_eq!((answers, workshop.begun()), (vec![false, true, false, false], vec!["c1".to_owned()]));
    assert_eq!(scenario.messages(3), scenario.messages(2));
}

#[tokio::test]
async fn what_the_agent_no_longer_wants_to_know_is_not_told_again() {
    let gone = json!({"type": "RUN_ERROR", "message": "nobody asks", "code": "unknown_interrupt"});
    let scripts = [interrupting(&["i"]), Script::of(events_of(&[vec![gone]])), Script::run("r3", &[])];
    let mut scenario = Scenario::new(scripts, []);
    scenario.say().await;
    scenario.turn(RunRequest::Resume(vec![answer("i")])).await;
    assert_eq!((scenario.conversation().interrupts(), scenario.calls()[0].1), (&[][..], ToolCallStatus::Failed));
    assert_eq!(scenario.turn(RunRequest::Retry).await, RunState::Completed);
    assert_eq!(scenario.agent.inputs()[2].resume, None);
}

/// A call of another turn, which nobody ran, does not wait for these answers.
#[tokio::test]
async fn answers_run_no_call_that_was_left_open_before() {
    let workshop = Workshop::default();
    let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r1"});
    let asking = events_of(&[vec![started], call("c1", "look", ""), vec![interrupted(&["i"])]]);
    let mut without = Scenario::new([Script::run("r0", &[call("old", "look", "")]), Script::of(asking)], []);
    without.say().await;
    without.turn(RunRequest::Start).await;
    let agent = FakeAgent::new([Script::run("r2", &[]), Script::run("r3", &[])]);
    let tools = ToolRegistry::new().register(workshop.echo("look"));
    let mut run = Run::new(agent, tools, without.conversation(), RunOptions::default());
    assert_eq!(run.resume(vec![answer("i")]).await, Ok(RunState::Completed));
    assert_eq!(workshop.begun(), ["c1"]);
}

#[tokio::test]
async fn cancelled_answers_leave_no_call_that_waits() {
    let never = Gate::new();
    let mut scenario = Scenario::new([interrupting(&["i"]), Script::run("r2", &[]).behind(&never)], []);
    scenario.say().await;
    let handle = scenario.run.handle();
    let cancelling = async {
        handle.watch().wait_for(|view| view.state.is_running()).await.unwrap();
        assert!(handle.cancel());
    };
    let (state, ()) = tokio::join!(scenario.turn(RunRequest::Resume(vec![answer("i")])), cancelling);
    assert_eq!((state, scenario.conversation().active_tool_calls().count()), (RunState::Cancelled, 0));
}

#[tokio::test]
async fn answers_that_the_agent_does_not_take_can_be_given_anew() {
    let bad = json!({"type": "RUN_ERROR", "message": "not like this", "code": "invalid_resume"});
    let scripts = [interrupting(&["i"]), Script::of(events_of(&[vec![bad]])), Script::run("r3", &[])];
    let mut scenario = Scenario::new(scripts, []);
    scenario.say().await;
    assert!(matches!(scenario.turn(RunRequest::Resume(vec![answer("i")])).await, RunState::Failed(_)));
    assert_eq!(scenario.turn(RunRequest::Resume(vec![answer("i")])).await, RunState::Completed);
    assert_eq!(scenario.conversation().interrupts(), []);
}

#[tokio::test]
async fn another_run_can_answer_what_the_conversation_was_asked() {
    let workshop = Workshop::default();
    let mut scenario = Scenario::new([interrupting(&["i"])], []);
    scenario.say().await;
    let agent = FakeAgent::new([Script::run("r2", &[]), Script::run("r3", &[])]);
    let tools = ToolRegistry::new().register(workshop.echo("look"));
    let mut run = Run::new(agent, tools, scenario.conversation(), RunOptions::default());
    let recorder = Recorder::of(&run);
    assert_eq!(run.resume(vec![answer("i")]).await, Ok(RunState::Completed));
    assert_eq!(workshop.begun(), ["c1"]);
    recorder.assert_no_flash(1);
}
