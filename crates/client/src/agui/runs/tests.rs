use std::collections::HashSet;

use futures_util::future::BoxFuture;
use handback_wire::agui::RunAgentInput;

use super::super::run::tests::support::*;
use super::super::{Agent, AgentError, ClientTool, Conversation, EventStream, Phase, RunOptions, ToolRegistry};
use super::*;

fn key(thread: &str) -> RunKey {
    RunKey::new("server", "room", thread)
}

fn run_of(agent: Arc<dyn Agent>, tools: impl IntoIterator<Item = ClientTool>) -> (Run, Recorder) {
    let tools = tools.into_iter().fold(ToolRegistry::new(), |registry, tool| registry.register(tool));
    let run = Run::new(agent, tools, Conversation::default(), RunOptions::default());
    let recorder = Recorder::of(&run);
    (run, recorder)
}

/// A run that hangs until the gate is open.
fn hanging(gate: &Gate) -> Run {
    run_of(FakeAgent::new([Script::run("r", &[]).before_the_end(Beat::Wait(gate.clone()))]), []).0
}

fn quick() -> Run {
    run_of(FakeAgent::new([Script::run("r", &[text("m", "Hello")])]), []).0
}

/// Who, and what became of it.
fn brief(event: &Lifecycle) -> String {
    match event {
        Lifecycle::Started { key, .. } => format!("{} started", key.thread),
        Lifecycle::Continued { key } => format!("{} continued", key.thread),
        Lifecycle::Completed { key, ending: Ending::Ended(state), .. } => format!("{} {state:?}", key.thread),
        Lifecycle::Completed { key, ending, .. } => format!("{} {ending:?}", key.thread),
        Lifecycle::Missed(count) => format!("missed {count}"),
    }
}

async fn next(events: &mut BoxStream<'static, Lifecycle>, count: usize) -> Vec<String> {
    let some = events.take(count).map(|event| brief(&event)).collect();
    timeout(Duration::from_secs(20), some).await.expect("they come in time")
}

async fn until_running(handle: &RunHandle) {
    handle.watch().wait_for(|view| view.state.is_running()).await.unwrap();
}

#[tokio::test]
async fn the_lifecycle_of_a_run_is_told() {
    let workshop = Workshop::default();
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let scripts = [Script::run("r1", &[call("c1", "look", "")]), Script::run("r2", &[text("m", "Done.")])];
    let (run, recorder) = run_of(FakeAgent::new(scripts), [workshop.echo("look")]);
    let handle = registry.start(key("t"), run, RunRequest::Say("Hi".to_owned())).unwrap();
    assert_eq!(next(&mut events, 3).await, ["t started", "t continued", "t Completed"]);
    assert_eq!((handle.state(), registry.active()), (RunState::Completed, Vec::new()));
    recorder.assert_no_flash(1);
}

#[tokio::test]
async fn a_second_start_is_an_error_while_the_first_goes_on_and_none_for_other_threads() {
    let registry = RunRegistry::new();
    let gate = Gate::new();
    let first = registry.start(key("t"), hanging(&gate), RunRequest::Start).unwrap();
    assert_eq!(registry.start(key("t"), quick(), RunRequest::Start).unwrap_err(), StartError::Active);
    let others = [RunKey::new("server", "other", "t"), RunKey::new("other", "room", "t"), key("other")];
    for other in &others {
        registry.start(other.clone(), hanging(&gate), RunRequest::Start).unwrap();
    }
    let active: HashSet<RunKey> = registry.active().into_iter().collect();
    assert_eq!(active, others.into_iter().chain([key("t")]).collect());
    until_running(&first).await;
    assert!(registry.get(&key("t")).is_some_and(|handle| handle.state().is_running()));
    let mut events = registry.lifecycle();
    gate.cancel();
    let mut ended = next(&mut events, 4).await;
    ended.sort();
    assert_eq!(ended, ["other Completed", "t Completed", "t Completed", "t Completed"]);
    registry.start(key("t"), quick(), RunRequest::Start).unwrap();
}

#[tokio::test]
async fn one_that_is_replaced_is_dropped_in_silence_and_the_next_begins_when_it_is_gone() {
    let workshop = Workshop::default();
    let (begun, never) = (Gate::new(), Gate::new());
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let agent = FakeAgent::new([Script::run("r1", &[call("c1", "wait", "")])]);
    let (old, recorder) = run_of(agent.clone(), [workshop.gated("wait", &begun, &never)]);
    let old = registry.start(key("t"), old, RunRequest::Start).unwrap();
    begun.cancelled().await;
    let seen = recorder.seen();

    let watching = Arc::new(Jealous { workshop: workshop.clone(), agent: FakeAgent::new([Script::run("r2", &[])]) });
    let new = registry.replace(key("t"), run_of(watching, []).0, RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 4).await, ["t started", "t Replaced", "t started", "t Completed"]);
    assert_eq!((new.state(), old.state()), (RunState::Completed, RunState::Running(Phase::Executing)));
    assert_eq!((recorder.seen(), agent.inputs().len(), workshop.running()), (seen, 1, 0));
    assert_eq!(registry.active(), []);
}

/// Nobody hears more of a run that was stopped, though it is in the middle of something.
#[tokio::test]
async fn the_end_is_the_last_that_is_told_also_when_a_tool_stops_its_own_run() {
    let (workshop, registry) = (Workshop::default(), RunRegistry::new());
    let mut events = registry.lifecycle();
    let own = registry.clone();
    let stopping = workshop.tool("stop", move |_call| {
        assert!(own.stop(&key("t")));
        async { Ok(String::new()) }
    });
    let scripts = [Script::run("r1", &[call("c1", "stop", "")]), Script::run("r2", &[])];
    registry.start(key("t"), run_of(FakeAgent::new(scripts), [stopping]).0, RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 2).await, ["t started", "t Stopped"]);
    registry.close().await;
    registry.runs.send(Lifecycle::Continued { key: key("the next that is told") });
    assert_eq!(next(&mut events, 1).await, ["the next that is told continued"]);
}

/// It takes a while until it is gone.
struct Lingering;

impl Drop for Lingering {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(300));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_takes_the_place_of_another_asks_for_nothing_before_that_is_gone() {
    let workshop = Workshop::default();
    let begun = Gate::new();
    let opener = begun.clone();
    let lingering = workshop.tool("wait", move |_call| {
        let (opener, lingering) = (opener.clone(), Lingering);
        async move {
            opener.cancel();
            std::future::pending::<()>().await;
            drop(lingering);
            Ok(String::new())
        }
    });
    let registry = RunRegistry::new();
    let agent = FakeAgent::new([Script::run("r1", &[call("c1", "wait", "")])]);
    registry.start(key("t"), run_of(agent, [lingering]).0, RunRequest::Start).unwrap();
    begun.cancelled().await;
    let mut events = registry.lifecycle();
    let jealous = Arc::new(Jealous { workshop: workshop.clone(), agent: FakeAgent::new([Script::run("r2", &[])]) });
    let (run, recorder) = run_of(jealous, []);
    registry.replace(key("t"), run, RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 3).await, ["t Replaced", "t started", "t Completed"]);
    recorder.assert_no_flash(1);
}

/// A run that failed is tried again by another one, which has the conversation.
#[tokio::test]
async fn what_failed_is_tried_again_and_answers_are_given_in_the_place_of_it() {
    let workshop = Workshop::default();
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let scripts = [Script::run("r1", &[call("c1", "look", "1")]), Script::refusing(lost())];
    let (run, recorder) = run_of(FakeAgent::new(scripts), [workshop.echo("look")]);
    let failed = registry.start(key("t"), run, RunRequest::Say("Hi".to_owned())).unwrap();
    assert_eq!(next(&mut events, 3).await[..2], ["t started", "t continued"]);
    recorder.assert_no_flash(1);
    let agent = FakeAgent::new([Script::run("r2", &[text("m", "Done.")])]);
    let again = Run::new(agent.clone(), ToolRegistry::new(), failed.conversation(), RunOptions::default());
    let recorder = Recorder::of(&again);
    registry.start(key("t"), again, RunRequest::Retry).unwrap();
    assert_eq!(next(&mut events, 2).await, ["t started", "t Completed"]);
    recorder.assert_no_flash(1);
    let sent = serde_json::to_value(&agent.inputs()[0].messages).unwrap();
    assert_eq!((&sent[2]["content"], workshop.begun().len()), (&serde_json::json!("echo 1"), 1));
}

/// An agent that is asked only when no tool runs any more.
struct Jealous {
    workshop: Workshop,
    agent: Arc<FakeAgent>,
}

impl Agent for Jealous {
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        assert_eq!(self.workshop.running(), 0);
        self.agent.run(input)
    }
}

#[tokio::test]
async fn replacing_where_nothing_goes_on_is_a_start() {
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    registry.replace(key("t"), quick(), RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 2).await, ["t started", "t Completed"]);
}

#[tokio::test]
async fn one_that_is_over_makes_way_before_its_task_has_ended() {
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let handle = registry.start(key("t"), hanging(&Gate::new()), RunRequest::Start).unwrap();
    until_running(&handle).await;
    // Nothing is awaited in between: the task of the first has not seen its end.
    assert!(registry.cancel(&key("t")));
    registry.start(key("t"), quick(), RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 4).await, ["t started", "t Cancelled", "t started", "t Completed"]);
    assert_eq!(registry.active(), []);
}

#[tokio::test]
async fn cancelling_is_seen_and_stopping_is_not() {
    let registry = RunRegistry::new();
    let (cancelled, stopped) = (key("cancelled"), key("stopped"));
    let first = registry.start(cancelled.clone(), hanging(&Gate::new()), RunRequest::Start).unwrap();
    let second = registry.start(stopped.clone(), hanging(&Gate::new()), RunRequest::Start).unwrap();
    until_running(&first).await;
    until_running(&second).await;
    let mut events = registry.lifecycle();
    assert!(registry.cancel(&cancelled));
    assert_eq!(first.state(), RunState::Cancelled);
    assert_eq!(next(&mut events, 1).await, ["cancelled Cancelled"]);
    assert!(registry.stop(&stopped));
    assert_eq!(next(&mut events, 1).await, ["stopped Stopped"]);
    assert!(second.state().is_running());
    assert_eq!([registry.cancel(&cancelled), registry.stop(&stopped), registry.cancel(&stopped)], [false; 3]);
}

/// Nothing is awaited in between: its task has not been polled yet.
#[tokio::test]
async fn one_that_was_just_started_is_running_and_can_be_cancelled() {
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let agent = FakeAgent::new([]);
    for start in [RunRegistry::start, RunRegistry::replace] {
        let (run, recorder) = run_of(agent.clone(), []);
        let handle = start(&registry, key("t"), run, RunRequest::Say("Hi".to_owned())).unwrap();
        assert_eq!((handle.state(), handle.conversation().items().len()), (RunState::Running(Phase::Streaming), 1));
        assert!(registry.cancel(&key("t")));
        assert_eq!(next(&mut events, 2).await, ["t started", "t Cancelled"]);
        assert_eq!((handle.state(), agent.inputs().len()), (RunState::Cancelled, 0));
        recorder.assert_no_flash(1);
    }
}

#[tokio::test]
async fn closing_drops_all_runs_and_twice_is_once() {
    let workshop = Workshop::default();
    let (begun, never) = (Gate::new(), Gate::new());
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let agent = FakeAgent::new([Script::run("r1", &[call("c1", "wait", "")])]);
    let (run, recorder) = run_of(agent.clone(), [workshop.gated("wait", &begun, &never)]);
    let handle = registry.start(key("t"), run, RunRequest::Start).unwrap();
    begun.cancelled().await;
    let seen = recorder.seen();
    registry.close().await;
    registry.close().await;
    assert_eq!((workshop.running(), agent.streams(), handle.state().is_running()), (0, 0, true));
    assert_eq!((recorder.seen(), registry.active()), (seen, Vec::new()));
    assert_eq!(registry.start(key("t"), quick(), RunRequest::Start).unwrap_err(), StartError::Closed);
    assert_eq!(registry.replace(key("t"), quick(), RunRequest::Start).unwrap_err(), StartError::Closed);
    drop(registry);
    let told: Vec<String> = events.by_ref().map(|event| brief(&event)).collect().await;
    assert_eq!(told, ["t started", "t Stopped"]);
}

#[tokio::test]
async fn the_last_clone_takes_the_runs_with_it() {
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    let agent = FakeAgent::new([Script::run("r", &[]).before_the_end(Beat::Wait(Gate::new()))]);
    let handle = registry.start(key("t"), run_of(agent.clone(), []).0, RunRequest::Start).unwrap();
    until_running(&handle).await;
    let clone = registry.clone();
    drop(registry);
    assert_eq!(clone.active(), [key("t")]);
    drop(clone);
    let told: Vec<String> = events.by_ref().map(|event| brief(&event)).collect().await;
    assert_eq!((told, agent.streams()), (vec!["t started".to_owned(), "t Stopped".to_owned()], 0));
}

struct Panicking;

impl Agent for Panicking {
    fn run(&self, _input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        panic!("what a bad agent");
    }
}

#[tokio::test]
async fn whatever_ends_a_run_its_thread_is_free_again() {
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    registry.start(key("t"), run_of(Arc::new(Panicking), []).0, RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 2).await, ["t started", "t Stopped"]);
    registry.start(key("t"), quick(), RunRequest::Resume(Vec::new())).unwrap();
    assert_eq!(next(&mut events, 2).await, ["t started", "t Refused(Answers { unanswered: [], unknown: [] })"]);
    let refusing = FakeAgent::new([Script::refusing(lost())]);
    registry.start(key("t"), run_of(refusing, []).0, RunRequest::Start).unwrap();
    assert_eq!(next(&mut events, 2).await[1], r#"t Failed(Agent(NetworkLost { reason: "cut" }))"#);
    assert_eq!(registry.active(), []);
}

#[tokio::test]
async fn one_who_does_not_keep_up_is_told_what_it_missed() {
    let registry = RunRegistry::new();
    let mut events = registry.lifecycle();
    for number in 0..1_000 {
        registry.start(key(&number.to_string()), quick(), RunRequest::Start).unwrap();
    }
    let mut late = registry.lifecycle();
    assert_eq!(next(&mut late, 1_000).await.len(), 1_000);
    assert_eq!(next(&mut events, 2).await, ["missed 976", "976 started"]);
}

#[tokio::test]
async fn there_is_an_end_to_how_many_runs_there_are() {
    let registry = RunRegistry::new();
    let gate = Gate::new();
    for number in 0..MAX_RUNS {
        registry.start(key(&number.to_string()), hanging(&gate), RunRequest::Start).unwrap();
    }
    assert_eq!(registry.start(key("more"), quick(), RunRequest::Start).unwrap_err(), StartError::TooMany);
    assert!(registry.replace(key("0"), hanging(&gate), RunRequest::Start).is_ok());
    registry.close().await;
}
