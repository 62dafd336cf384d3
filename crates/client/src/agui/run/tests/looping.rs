//! Tools, and the runs that continue after them.

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use handback_wire::agui::RunAgentInput;
use serde_json::json;

use super::super::*;
use super::support::*;
use crate::ToolError;
use crate::agui::conversation::{Activity, Item, Role, ToolCallStatus};
use crate::agui::{AgentError, EventStream, Incoming};

fn completed(id: &str, result: &str) -> (String, ToolCallStatus, Option<String>) {
    (id.to_owned(), ToolCallStatus::Completed, Some(result.to_owned()))
}

fn failed(id: &str, error: &str) -> (String, ToolCallStatus, Option<String>) {
    (id.to_owned(), ToolCallStatus::Failed, Some(error.to_owned()))
}

fn wire_call(id: &str, name: &str, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn tool_message(id: &str, content: &str) -> Value {
    json!({"role": "tool", "id": format!("tool_result_{id}"), "toolCallId": id, "content": content})
}

#[tokio::test]
async fn n01_a_call_is_run_and_the_next_run_gets_its_result() {
    let workshop = Workshop::default();
    let scripts = [
        Script::run("r1", &[text("m1", "Let me look."), call("c1", "look", r#"{"at":1}"#)]),
        Script::run("r2", &[text("m2", "It is 1.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Completed);
    let user = json!({"role": "user", "id": "*", "content": "Hi"});
    assert_eq!(scenario.messages(0), json!([user]));
    assert_eq!(
        scenario.messages(1),
        json!([
            user, {"role": "assistant", "id": "m1", "content": "Let me look."},
            {"role": "assistant", "id": "tool_calls_c1", "toolCalls": [wire_call("c1", "look", r#"{"at":1}"#)]},
            tool_message("c1", r#"echo {"at":1}"#),
        ])
    );
    assert_eq!((scenario.last_text(), scenario.agent.inputs().len()), ("It is 1.".to_owned(), 2));
}

#[tokio::test]
async fn n02_i01_two_calls_are_run_at_once_and_answered_together() {
    let workshop = Workshop::default();
    // Each waits for the other: one after the other, they would never end.
    let (first, second) = (Gate::new(), Gate::new());
    let tools = [workshop.gated("first", &first, &second), workshop.gated("second", &second, &first)];
    let scripts = [
        Script::run("r1", &[call("c1", "first", "{}"), call("c2", "second", "{}")]),
        Script::run("r2", &[text("m2", "Both.")]),
    ];
    let mut scenario = Scenario::new(scripts, tools);
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!(scenario.calls(), [completed("c1", "done"), completed("c2", "done")]);
    assert_eq!(
        scenario.messages(1),
        json!([
            {"role": "user", "id": "*", "content": "Hi"},
            {"role": "assistant", "id": "tool_calls_c1", "toolCalls": [wire_call("c1", "first", "{}"), wire_call("c2", "second", "{}")]},
            tool_message("c1", "done"), tool_message("c2", "done"),
        ])
    );
    let items = scenario.conversation().items().to_vec();
    assert!(
        matches!(&items[..], [Item::Text(_), Item::ToolCalls(_), Item::Text(last)] if last.role == Role::Assistant)
    );
    assert_eq!((scenario.agent.inputs().len(), workshop.most.load(std::sync::atomic::Ordering::SeqCst)), (2, 2));
}

#[tokio::test]
async fn n03_tools_may_be_called_again_after_tools() {
    let workshop = Workshop::default();
    let scripts = [
        Script::run("r1", &[call("c1", "look", "1")]),
        Script::run("r2", &[call("c2", "look", "2")]),
        Script::run("r3", &[text("m", "Done.")]),
    ];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Completed);
    let last = scenario.messages(2);
    let results: Vec<&Value> = last.as_array().unwrap().iter().filter(|message| message["role"] == "tool").collect();
    assert_eq!(results, [&tool_message("c1", "echo 1"), &tool_message("c2", "echo 2")]);
    let parents: Vec<Option<String>> = scenario.agent.inputs().into_iter().map(|input| input.parent_run_id).collect();
    assert_eq!(parents, [None, Some("r1".to_owned()), Some("r2".to_owned())]);
}

#[tokio::test]
async fn n04_i02_a_tool_that_fails_or_panics_fails_alone_and_the_run_goes_on() {
    let workshop = Workshop::default();
    let failing = workshop.tool("fail", |_call| async { Err(ToolError::new("no luck")) });
    let panicking = workshop.tool("panic", |call| async move {
        assert!(call.id.is_empty(), "always");
        Ok(String::new())
    });
    let scripts = [
        Script::run("r1", &[call("c1", "fail", ""), call("c2", "look", ""), call("c3", "panic", "")]),
        Script::run("r2", &[text("m", "Sorry.")]),
    ];
    let mut scenario = Scenario::new(scripts, [failing, workshop.echo("look"), panicking]);
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!(
        scenario.calls(),
        [failed("c1", "no luck"), completed("c2", "echo "), failed("c3", "the tool panicked")]
    );
    let mut first = tool_message("c1", "no luck");
    first["error"] = json!("no luck");
    assert_eq!((&scenario.messages(1)[2], &scenario.messages(1)[3]), (&first, &tool_message("c2", "echo ")));
}

#[tokio::test]
async fn all_tools_failing_still_continues() {
    let workshop = Workshop::default();
    let failing = workshop.tool("fail", |_call| async { Err(ToolError::new("no luck")) });
    let scripts = [Script::run("r1", &[call("c1", "fail", "")]), Script::run("r2", &[])];
    let mut scenario = Scenario::new(scripts, [failing]);
    assert_eq!((scenario.say().await, scenario.agent.inputs().len()), (RunState::Completed, 2));
}

#[tokio::test]
async fn n08_an_agent_that_calls_for_ever_reaches_the_depth_limit() {
    let workshop = Workshop::default();
    let scripts = (0..12).map(|n| Script::run(&format!("r{n}"), &[call(&format!("c{n}"), "look", "")]));
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    let error = RunError::DepthLimit { limit: 10 };
    assert!(error.to_string().contains("depth limit"));
    assert_eq!(scenario.say().await, RunState::Failed(error));
    // One and ten more; what nobody would have been told was not run.
    assert_eq!((scenario.agent.inputs().len(), workshop.begun().len()), (11, 10));
    assert_eq!(scenario.conversation().active_tool_calls().count(), 0);
}

#[tokio::test]
async fn the_depth_limit_can_be_set() {
    let workshop = Workshop::default();
    let options = RunOptions { depth_limit: 0, ..RunOptions::default() };
    let mut scenario = Scenario::with([Script::run("r1", &[call("c", "look", "")])], [workshop.echo("look")], options);
    assert_eq!(scenario.say().await, RunState::Failed(RunError::DepthLimit { limit: 0 }));
    assert_eq!((scenario.agent.inputs().len(), workshop.begun().len()), (1, 0));
}

#[tokio::test]
async fn n09_a_tool_that_is_not_here_is_not_run() {
    let workshop = Workshop::default();
    let mut scenario = Scenario::new([Script::run("r1", &[call("c1", "elsewhere", "{}")])], [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!(scenario.calls(), [("c1".to_owned(), ToolCallStatus::Pending, None)]);
    assert_eq!((scenario.agent.inputs().len(), workshop.begun().len()), (1, 0));
}

#[tokio::test]
async fn calls_of_the_server_are_not_run_though_there_is_such_a_tool_here() {
    let workshop = Workshop::default();
    let result = json!({"type": "TOOL_CALL_RESULT", "messageId": "x", "toolCallId": "c1", "content": "by the server"});
    let scripts =
        [Script::run("r1", &[call("c1", "look", ""), vec![result], call("c2", "look", "")]), Script::run("r2", &[])];
    let mut scenario = Scenario::new(scripts, [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!(
        (scenario.calls(), workshop.begun()),
        (vec![completed("c1", "by the server"), completed("c2", "echo ")], vec!["c2".to_owned()])
    );
    // Both results go back, in the order of the calls.
    let results: Vec<Value> =
        scenario.messages(1).as_array().unwrap().iter().filter(|message| message["role"] == "tool").cloned().collect();
    assert_eq!(results, [tool_message("c1", "by the server"), tool_message("c2", "echo ")]);
}

#[tokio::test]
async fn n10_n11_n12_while_tools_run_the_run_is_running_and_shows_their_calls() {
    let workshop = Workshop::default();
    let (begun, gate) = (Gate::new(), Gate::new());
    let scripts = [Script::run("r1", &[call("c1", "wait", "{}")]), Script::run("r2", &[])];
    let mut scenario = Scenario::new(scripts, [workshop.gated("wait", &begun, &gate)]);
    let handle = scenario.run.handle();
    let watching = async {
        begun.cancelled().await;
        let view = handle.watch().borrow().clone();
        assert_eq!(view.state, RunState::Running(Phase::Executing));
        assert_eq!((view.state.is_running(), view.state.is_streaming(), view.state.can_send()), (true, true, false));
        let calls: Vec<_> = view.conversation.tool_calls().map(|call| (call.id.as_str(), call.status)).collect();
        assert_eq!(calls, [("c1", ToolCallStatus::Executing)]);
        assert_eq!(view.conversation.active_tool_calls().count(), 0);
        assert_eq!(view.conversation.activity(), &Activity::CallingTools(vec!["wait".to_owned()]));
        gate.cancel();
    };
    let (state, ()) = tokio::join!(scenario.say(), watching);
    assert_eq!((state, handle.state().can_send()), (RunState::Completed, true));
    let phases = [Phase::Streaming, Phase::Executing, Phase::Continuing, Phase::Streaming];
    assert_eq!(scenario.recorder.phases(), phases);
}

#[tokio::test]
async fn n13_without_calls_a_run_just_completes() {
    let mut scenario = Scenario::new([Script::run("r1", &[text("m", "Hello")])], []);
    assert_eq!(scenario.run.handle().state(), RunState::Idle);
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!((scenario.recorder.phases(), scenario.agent.inputs().len()), (vec![Phase::Streaming], 1));
}

#[tokio::test]
async fn n14_n15_n16_every_input_has_the_tools_and_what_else_the_application_says() {
    let workshop = Workshop::default();
    let options = RunOptions {
        context: vec![Context { description: "d".to_owned(), value: "v".to_owned() }],
        forwarded_props: json!({"clientID": "c"}),
        state: Some(json!({"a": 1})),
        ..RunOptions::default()
    };
    let scripts = [
        Script::run("r1", &[call("c1", "look", ""), vec![json!({"type": "STATE_SNAPSHOT", "snapshot": {"a": 2}})]]),
        Script::run(
            "r2",
            &[
                vec![json!({"type": "STATE_DELTA", "delta": [{"op": "add", "path": "/b", "value": 3}]})],
                call("c2", "look", ""),
            ],
        ),
        Script::run("r3", &[]),
    ];
    let mut scenario = Scenario::with(scripts, [workshop.echo("look")], options);
    scenario.say().await;
    let inputs = scenario.agent.inputs();
    let states: Vec<Value> = inputs.iter().map(|input| input.state.clone().unwrap()).collect();
    // What a run makes of the state is what the next one gets.
    assert_eq!(states, [json!({"a": 1}), json!({"a": 2}), json!({"a": 2, "b": 3})]);
    let tools =
        json!([{"name": "look", "description": "Does look", "parameters": {"type": "object", "properties": {}}}]);
    let mut ids = HashSet::new();
    for input in inputs {
        assert!(ids.insert(input.run_id.clone()), "every run has an id of its own");
        let mut input = serde_json::to_value(input).unwrap();
        let rest = ["runId", "parentRunId", "state", "messages", "threadId"];
        input.as_object_mut().unwrap().retain(|key, _| !rest.contains(&key.as_str()));
        let said = json!({"protocolVersion": "1.0", "tools": tools, "context": [{"description": "d", "value": "v"}], "forwardedProps": {"clientID": "c"}});
        assert_eq!(input, said);
    }
    let options = RunOptions { protocol_version: None, ..RunOptions::default() };
    let mut bare = Scenario::with([Script::run("r1", &[])], [], options);
    bare.say().await;
    let input = &bare.agent.inputs()[0];
    assert_eq!((input.tools.len(), &input.protocol_version, &input.state), (0, &None, &Some(json!({}))));
}

#[tokio::test]
async fn the_thread_is_the_one_that_the_agent_tells() {
    let mut scenario = Scenario::new([Script::run("r1", &[]), Script::run("r2", &[])], []);
    scenario.say().await;
    scenario.say().await;
    let threads: Vec<String> = scenario.agent.inputs().into_iter().map(|input| input.thread_id).collect();
    assert_eq!(threads, ["", "t"]);
}

#[tokio::test]
async fn calls_are_run_when_the_run_has_finished_and_not_before() {
    let workshop = Workshop::default();
    let gate = Gate::new();
    let first =
        Script::run("r1", &[call("c1", "look", "1"), call("c2", "look", "2")]).before_the_end(Beat::Wait(gate.clone()));
    let mut scenario = Scenario::new([first, Script::run("r2", &[])], [workshop.echo("look")]);
    let mut views = scenario.run.watch();
    let watching = async {
        let both = |view: &View| {
            view.conversation.active_tool_calls().filter(|call| call.status == ToolCallStatus::Pending).count() == 2
        };
        views.wait_for(both).await.unwrap();
        assert_eq!(workshop.begun(), [""; 0]);
        gate.cancel();
    };
    tokio::join!(scenario.say(), watching);
    assert_eq!(workshop.begun(), ["c1", "c2"]);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_takes_too_long_fails_and_is_told_so_and_the_run_goes_on() {
    let workshop = Workshop::default();
    let never = Gate::new();
    let tools = [
        workshop.gated("slow", &Gate::new(), &never),
        workshop.gated("slower", &Gate::new(), &never).timeout(Duration::from_secs(90)),
        workshop.echo("look"),
    ];
    let scripts = [
        Script::run("r1", &[call("c1", "slow", ""), call("c2", "slower", ""), call("c3", "look", "")]),
        Script::run("r2", &[text("m", "Never mind.")]),
    ];
    let mut scenario = Scenario::new(scripts, tools);
    let began = tokio::time::Instant::now();
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!(began.elapsed().as_secs(), 90);
    let expected = [
        failed("c1", "the tool did not finish within 1m"),
        failed("c2", "the tool did not finish within 1m 30s"),
        completed("c3", "echo "),
    ];
    assert_eq!(scenario.calls(), expected);
    let contexts = workshop.contexts.lock().unwrap().clone();
    let told: Vec<bool> = contexts.iter().map(|context| context.cancellation.is_cancelled()).collect();
    let until: Vec<u64> = contexts.iter().map(|context| (context.deadline - began).as_secs()).collect();
    assert_eq!((told, until, workshop.running()), (vec![true, true, false], vec![60, 90, 60], 0));
    let who: Vec<_> =
        contexts.into_iter().map(|context| (context.call_id, context.thread_id, context.run_id)).collect();
    assert_eq!(who[0], ("c1".to_owned(), Some("t".to_owned()), Some("r1".to_owned())));
}

#[tokio::test]
async fn a_tool_may_take_for_ever() {
    let workshop = Workshop::default();
    let tools = [workshop.echo("look").timeout(Duration::MAX)];
    let mut scenario = Scenario::new([Script::run("r1", &[call("c1", "look", "")]), Script::run("r2", &[])], tools);
    assert_eq!(scenario.say().await, RunState::Completed);
    assert_eq!(scenario.calls(), [completed("c1", "echo ")]);
}

/// An agent that never stops telling does not keep the tools from being run.
#[tokio::test]
async fn what_comes_after_the_end_without_end_does_not_matter() {
    struct Talkative;
    impl Agent for Talkative {
        fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
            let script = match input.parent_run_id {
                None => Script::run("r1", &[call("c1", "look", "")]),
                Some(_) => Script::run("r2", &[]),
            };
            let late = Incoming::Undecodable { kind: "LATE".to_owned(), reason: String::new() };
            let events = FakeAgent::new([script]).run(input);
            async move { Ok(events.await?.chain(futures_util::stream::repeat(Ok(late))).boxed()) }.boxed()
        }
    }
    let workshop = Workshop::default();
    let pausing = workshop.tool("look", |_call| async {
        Pause::default().await;
        Ok("seen".to_owned())
    });
    let tools = ToolRegistry::new().register(pausing);
    let mut run = Run::new(Arc::new(Talkative), tools, Conversation::default(), RunOptions::default());
    let recorder = Recorder::of(&run);
    assert_eq!(run.say("Hi").await, Ok(RunState::Completed));
    recorder.assert_no_flash(1);
}

#[tokio::test]
async fn more_calls_than_can_be_run_at_once_fail() {
    let workshop = Workshop::default();
    let calls: Vec<Vec<Value>> = (0..1_030).map(|n| call(&format!("c{n}"), "look", "")).collect();
    let mut scenario = Scenario::new([Script::run("r1", &calls), Script::run("r2", &[])], [workshop.echo("look")]);
    assert_eq!(scenario.say().await, RunState::Completed);
    let calls = scenario.calls();
    assert_eq!((workshop.begun().len(), &calls[1_023]), (1_024, &completed("c1023", "echo ")));
    assert_eq!(calls[1_024], failed("c1024", "more than 1024 calls at once; it was not run"));
}

#[tokio::test]
async fn a_run_uses_the_tools_that_it_began_with_and_an_alias_is_a_tools_name() {
    let workshop = Workshop::default();
    let registry = ToolRegistry::new().register(workshop.echo("look")).alias("client_x_look", "look").unwrap();
    let agent = FakeAgent::new([Script::run("r1", &[call("c1", "client_x_look", "")]), Script::run("r2", &[])]);
    let mut run = Run::new(agent.clone(), registry.clone(), Conversation::default(), RunOptions::default());
    let recorder = Recorder::of(&run);
    let _without = registry.unregister("look");
    assert_eq!(run.start().await, Ok(RunState::Completed));
    assert_eq!((workshop.begun(), agent.inputs().len()), (vec!["c1".to_owned()], 2));
    recorder.assert_no_flash(1);
}

#[tokio::test]
async fn calls_that_were_left_open_before_are_not_run_later() {
    let workshop = Workshop::default();
    let agent = FakeAgent::new([Script::run("r1", &[call("c1", "look", "")]), Script::run("r2", &[text("m", "Hi")])]);
    let mut without = Run::new(agent.clone(), ToolRegistry::new(), Conversation::default(), RunOptions::default());
    assert_eq!(without.say("Hi").await, Ok(RunState::Completed));
    let tools = ToolRegistry::new().register(workshop.echo("look"));
    let mut with = Run::new(agent.clone(), tools, without.handle().conversation(), RunOptions::default());
    let recorder = Recorder::of(&with);
    assert_eq!(with.say("Hi again").await, Ok(RunState::Completed));
    assert_eq!((workshop.begun().len(), agent.inputs().len()), (0, 2));
    recorder.assert_no_flash(1);
}

/// What is seen is changed in place: the first text stays where it is in memory, however many events come.
#[tokio::test]
async fn a_hundred_thousand_events_are_seen_without_a_copy() {
    let delta = json!({"type": "TOOL_CALL_ARGS", "toolCallId": "c1", "delta": "0123456789"});
    let start = json!({"type": "TOOL_CALL_START", "toolCallId": "c1", "toolCallName": "elsewhere"});
    let script = Script::run("r1", &[text("m", "It stays where it is."), vec![start], vec![delta; 100_000]]);
    let agent = FakeAgent::new([script]);
    let mut run = Run::new(agent, ToolRegistry::new(), Conversation::default(), RunOptions::default());
    let places = Arc::new(std::sync::Mutex::new((0_usize, HashSet::new())));
    let noted = Arc::clone(&places);
    run.handle.tap(move |view| {
        let mut noted = noted.lock().unwrap();
        noted.0 += 1;
        if let Some(Item::Text(text)) = view.conversation.items().first() {
            noted.1.insert(text.text.as_ptr() as usize);
        }
    });
    assert_eq!(run.say("This is said first.").await, Ok(RunState::Completed));
    let (views, places) = &*places.lock().unwrap();
    assert_eq!((*views, places.len()), (100_007, 1));
}
