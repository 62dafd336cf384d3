//! The Rust front end of AG-UI against a real server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use handback_client::agui;
use handback_client::agui::wire::{Resume, ResumeStatus};
use handback_client::agui::{
    ClientTool, Conversation, Ending, HttpAgent, Item, Lifecycle, Phase, Run, RunError, RunKey, RunOptions,
    RunRegistry, RunRequest, RunState, ThreadAgent, ToolCallStatus, ToolRegistry,
};
use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, TurnError};
use handback_core::tools::Permission;
use handback_server::config::{Agent, AgentPermission, Config};
use handback_testkit::client::success;
use handback_testkit::model::Piece;
use handback_testkit::{FakeModel, ScriptedClient, TestServer};
use serde_json::json;
use tokio::time::timeout;

/// For what takes a thousand requests.
const LONG: Duration = Duration::from_secs(120);

struct World {
    server: TestServer,
    model: FakeModel,
    /// How often the tool was run.
    ran: Arc<AtomicUsize>,
}

impl World {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let model = FakeModel::default();
        let server = TestServer::with_model(&model, change).await;
        Self { server, model, ran: Arc::default() }
    }

    fn tools(&self) -> ToolRegistry {
        let ran = self.ran.clone();
        ToolRegistry::new().register(ClientTool::new("greet", "Greets", move |call, _context| {
            ran.fetch_add(1, Ordering::Relaxed);
            async move { Ok(format!("Hello, {}!", call.arguments)) }
        }))
    }

    fn agent(&self) -> Arc<dyn agui::Agent> {
        Arc::new(HttpAgent::new(&format!("{}/agui", self.server.url)).unwrap())
    }

    fn thread_agent(&self) -> Arc<dyn agui::Agent> {
        Arc::new(ThreadAgent::new(&self.server.url, "default").unwrap())
    }

    fn run_of(&self, agent: Arc<dyn agui::Agent>) -> Run {
        Run::new(agent, self.tools(), Conversation::default(), RunOptions::default())
    }
}

/// What a conversation has, one line each.
fn lines(conversation: &Conversation) -> Vec<String> {
    let line = |item: &Item| match item {
        Item::Text(text) => vec![format!("{:?}: {}", text.role, text.text)],
        Item::ToolCalls(group) => {
            let call = |call: &handback_client::agui::ToolCall| {
                let result = call.result.as_deref().unwrap_or_default();
                format!("{} {} {:?} {result}", call.name, call.arguments, call.status)
            };
            group.calls.iter().map(call).collect()
        }
        other => vec![format!("{other:?}")],
    };
    conversation.items().iter().flat_map(line).collect()
}

fn provider_error() -> TurnError {
    TurnError::Provider { message: "the provider is down".to_owned(), status: Some(503), retryable: true }
}

#[tokio::test]
async fn a_tool_is_run_here_and_the_turn_is_one_run_to_whoever_looks() {
    let world = World::start().await;
    for agent in [world.agent(), world.thread_agent()] {
        world.model.will_call(&[("greet", json!({ "n": 1 })), ("list_tools", json!({})), ("greet", json!({ "n": 2 }))]);
        world.model.will_say("Done.");
        let mut run = world.run_of(agent);
        let mut views = run.watch();
        let watching = async {
            let mut seen = Vec::new();
            loop {
                let state = views.borrow_and_update().state.clone();
                let is_over = !matches!(state, RunState::Idle | RunState::Running(_));
                seen.push(state);
                if is_over || views.changed().await.is_err() {
                    return seen;
                }
            }
        };
        let (ended, seen) = tokio::join!(run.say("go"), watching);
        assert_eq!(ended.unwrap(), RunState::Completed);
        let between: Vec<&RunState> = seen.iter().filter(|state| **state != RunState::Idle).collect();
        let (last, before) = between.split_last().unwrap();
        assert_eq!(**last, RunState::Completed);
        assert!(before.iter().all(|state| state.is_running()), "{seen:?}");
        let conversation = run.handle().conversation();
        let listed = conversation.tool_calls().find(|call| call.name == "list_tools").unwrap();
        assert_eq!(listed.status, ToolCallStatus::Completed);
        let listed = listed.result.clone().unwrap();
        assert_eq!(
            lines(&conversation),
            [
                "User: go".to_owned(),
                r#"greet {"n":1} Completed Hello, {"n":1}!"#.to_owned(),
                format!("list_tools {{}} Completed {listed}"),
                r#"greet {"n":2} Completed Hello, {"n":2}!"#.to_owned(),
                "Assistant: Done.".to_owned(),
            ]
        );
        let results = world.model.last_shown().results;
        assert_eq!(results, [r#"Hello, {"n":1}!"#, listed.as_str(), r#"Hello, {"n":2}!"#]);
    }
    assert_eq!((world.ran.load(Ordering::Relaxed), world.model.shown().len()), (4, 4));
}

#[tokio::test]
async fn a_continuation_that_failed_is_tried_again_with_the_same_results() {
    let world = World::start().await;
    for agent in [world.agent(), world.thread_agent()] {
        let before = world.ran.load(Ordering::Relaxed);
        world.model.will_call(&[("greet", json!({}))]);
        world.model.will(vec![Ok(ModelEvent::Text("Half".to_owned())), Err(provider_error())]);
        let mut run = world.run_of(agent);
        let failed = run.say("go").await.unwrap();
        let (message, code) = ("the provider is down".to_owned(), Some("provider_error".to_owned()));
        assert_eq!(failed, RunState::Failed(RunError::Reported { message, code }));
        world.model.will_say("Whole.");
        assert_eq!(run.retry().await.unwrap(), RunState::Completed);
        assert_eq!(world.ran.load(Ordering::Relaxed), before + 1, "the tool was run once");
        assert_eq!(world.model.last_shown().conversation, ["user | go", "assistant | greet {} → Hello, {}!"]);
        assert_eq!(lines(&run.handle().conversation()).last().unwrap(), "Assistant: Whole.");
    }
}

#[tokio::test]
async fn interrupts_are_answered_and_the_turn_goes_on() {
    let world = World::with(|config| {
        let permission = AgentPermission { client_tools: Permission::Ask, ..AgentPermission::default() };
        config.agents.insert("default".to_owned(), Agent { permission, ..Agent::default() });
    })
    .await;
    let _client = ScriptedClient::attach(&world.server, "laptop", &["erase"], |_| Some(success("erased"))).await;
    for (approved, expected) in [(true, "Completed erased"), (false, "Completed Not now")] {
        world.model.will_call(&[("client_laptop_erase", json!({ "n": 1 }))]);
        let forwarded_props = json!({ "clientID": "laptop" });
        let options = RunOptions::with(|options| options.forwarded_props = forwarded_props);
        let mut run = Run::new(world.agent(), world.tools(), Conversation::default(), options);
        let RunState::Interrupted(interrupts) = run.say("go").await.unwrap() else { panic!("it asks") };
        assert_eq!(interrupts.len(), 1);
        world.model.will_say("Fine.");
        let answer = Resume {
            interrupt_id: interrupts[0].id.clone(),
            status: ResumeStatus::Resolved,
            payload: Some(json!({ "approved": approved, "reason": "Not now" })),
            metadata: None,
        };
        assert_eq!(run.resume(vec![answer]).await.unwrap(), RunState::Completed);
        assert_eq!(
            lines(&run.handle().conversation()),
            ["User: go", &format!(r#"client_laptop_erase {{"n":1}} {expected}"#), "Assistant: Fine."]
        );
    }
}

#[tokio::test]
async fn a_cancelled_run_is_stopped_at_the_server_too() {
    let world = World::start().await;
    let mut run = world.run_of(world.agent());
    let handle = run.handle();
    let cancelling = async {
        let asked = world.model.asked().await;
        assert!(handle.cancel());
        assert_eq!(handle.state(), RunState::Cancelled);
        asked.dropped().await;
    };
    let (ended, ()) = tokio::join!(run.say("go"), cancelling);
    assert_eq!(ended.unwrap(), RunState::Cancelled);
}

#[tokio::test]
async fn a_server_that_stops_ends_the_run() {
    let world = World::with(|config| config.limits.drain_timeout = Duration::ZERO).await;
    let mut run = world.run_of(world.agent());
    let stopping = async {
        let _asked = world.model.asked().await;
        world.server.stop().await;
    };
    let (ended, ()) = tokio::join!(run.say("go"), stopping);
    let RunState::Failed(RunError::Reported { code, .. }) = ended.unwrap() else { panic!("it is told why") };
    assert_eq!(code.as_deref(), Some("shutting_down"));
}

#[tokio::test]
async fn a_hundred_thousand_pieces_of_arguments_arrive_whole() {
    let world = World::start().await;
    let mut pieces: Vec<Piece> = Vec::new();
    let (index, id, name) = (0, "provider".to_owned(), "greet".to_owned());
    pieces.push(Ok(ModelEvent::CallStarted { index, id, name }));
    pieces.push(Ok(ModelEvent::Arguments { index, delta: r#"{"text":""#.to_owned() }));
    pieces.extend((0..100_000).map(|_| Ok(ModelEvent::Arguments { index, delta: "xy".to_owned() })));
    pieces.push(Ok(ModelEvent::Arguments { index, delta: r#""}"#.to_owned() }));
    pieces.push(Ok(ModelEvent::CallEnded { index, kept: None }));
    pieces.push(Ok(ModelEvent::Stop(StopReason::ToolCalls)));
    world.model.will(pieces);
    world.model.will_say("Long.");
    let mut run = world.run_of(world.agent());
    let ended = timeout(LONG, run.say("go")).await.expect("it is linear").unwrap();
    assert_eq!(ended, RunState::Completed);
    let conversation = run.handle().conversation();
    let call = conversation.tool_calls().next().unwrap();
    assert_eq!(call.arguments.len(), 200_000 + r#"{"text":""}"#.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_runs_at_once_have_their_tools_run_and_are_done() {
    const RUNS: usize = 1_000;
    let world = World::start().await;
    let (agent, runs) = (world.agent(), RunRegistry::new());
    let mut lifecycle = runs.lifecycle();
    let listening = async {
        let (mut completed, mut continued) = (0, 0);
        while completed < RUNS {
            match lifecycle.next().await.expect("the registry is there") {
                Lifecycle::Completed { ending: Ending::Ended(RunState::Completed), .. } => completed += 1,
                Lifecycle::Continued { .. } => continued += 1,
                Lifecycle::Started { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        continued
    };
    // Each is asked for calls before it is to say something.
    for _ in 0..RUNS {
        world.model.will_call(&[("greet", json!({}))]);
    }
    let speaking = async {
        for _ in 0..RUNS {
            world.model.asked().await.answer("Done.");
        }
    };
    let starting = async {
        for number in 0..RUNS {
            let run = world.run_of(agent.clone());
            runs.start(RunKey::new("here", "default", number.to_string()), run, RunRequest::Say("go".to_owned()))
                .unwrap();
            tokio::task::yield_now().await;
        }
    };
    let all = async { tokio::join!(starting, speaking, listening).2 };
    assert_eq!(timeout(LONG, all).await.expect("all of them are done"), RUNS);
    assert_eq!(world.ran.load(Ordering::Relaxed), RUNS);
    assert!(runs.active().is_empty());
}

#[test]
fn a_run_that_goes_on_is_streaming_and_nothing_can_be_said() {
    for phase in [Phase::Streaming, Phase::Executing, Phase::Continuing] {
        let state = RunState::Running(phase);
        assert_eq!((state.is_streaming(), state.can_send()), (true, false));
    }
}
