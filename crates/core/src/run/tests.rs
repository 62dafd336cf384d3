//! Turns against a model that says what the test tells it, with time that only moves when the test says so.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::*;
use crate::agent::Agents;
use crate::call::{Outcome, Success};
use crate::clock::Clock;
use crate::connection::{Connection, Delivery, Opening};
use crate::delegate::Caller;
use crate::event::Subscription;
use crate::hub::Hub;
use crate::id::{ClientId, MessageId, PermissionId, RequestId, ToolName};
use crate::limits::Limits;
use crate::message::{ModelRef, Part, PartBody, Span, StopReason, ToolResult, ToolState};
use crate::model::{Model, ModelEvent, ModelStream, Models};
use crate::permission::{Answer, NotAnswered, Reply};
use crate::policy::{Permission, Policy};
use crate::schema::Schema;
use crate::sessions::{NewSession, Prompt, Prompted, SessionError, Setup};
use crate::store::{MemoryStore, Store};
use crate::tool::{Effect, ToolSpec};
use crate::toolbox::{Before, BoxFuture, Hook, HookedCall, Invocation, ListTools, ServerTool, ServerToolSpec};

/// Says, step by step, what it was told to say.
#[derive(Default)]
struct Fake {
    steps: Mutex<VecDeque<Vec<Said>>>,
    shown: Mutex<Vec<Value>>,
}

#[derive(Clone)]
enum Said {
    Event(ModelEvent),
    Error(TurnError),
    /// Nothing more, for ever; whoever holds the other end learns when the stream is dropped.
    Hang(Arc<Mutex<Option<oneshot::Sender<()>>>>),
}

impl Model for Fake {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let tools: Vec<&str> = request.tools.iter().map(|tool| tool.alias).collect();
        let results: Vec<String> = request
            .messages
            .last()
            .into_iter()
            .flat_map(|message| &message.parts)
            .filter_map(|part| match &part.body {
                PartBody::Tool(tool) => Some(tool.result_for_model(request.most_output).0),
                _ => None,
            })
            .collect();
        let shown =
            json!({ "system": request.system, "messages": request.messages.len(), "tools": tools, "results": results });
        self.shown.lock().unwrap().push(shown);
        let step = self.steps.lock().unwrap().pop_front().unwrap_or_else(|| text("nothing more"));
        Box::pin(stream::iter(step).then(async |said| match said {
            Said::Event(event) => Ok(event),
            Said::Error(error) => Err(error),
            Said::Hang(dropped) => {
                let _dropped = dropped.lock().unwrap().take();
                std::future::pending().await
            }
        }))
    }
}

fn text(text: &str) -> Vec<Said> {
    vec![Said::Event(ModelEvent::Text(text.to_owned())), stop(StopReason::Stop)]
}

fn stop(reason: StopReason) -> Said {
    Said::Event(ModelEvent::Stop(reason))
}

fn calls(calls: &[(&str, &str)]) -> Vec<Said> {
    let mut said = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let (id, name) = (format!("provider_{index}"), (*name).to_owned());
        said.push(Said::Event(ModelEvent::CallStarted { index, id, name }));
        let (first, rest) = arguments.split_at(arguments.len() / 2);
        for delta in [first, rest] {
            said.push(Said::Event(ModelEvent::Arguments { index, delta: delta.to_owned() }));
        }
        said.push(Said::Event(ModelEvent::CallEnded { index }));
    }
    said.push(stop(StopReason::ToolCalls));
    said
}

struct World {
    sessions: Sessions,
    model: Arc<Fake>,
}

#[derive(Default)]
struct With {
    limits: Limits,
    permission: Permission,
    tools: Vec<Arc<dyn ServerTool>>,
    hooks: Vec<Arc<dyn Hook>>,
}

fn client() -> ClientId {
    ClientId::parse("tab").unwrap()
}

impl World {
    fn new(steps: Vec<Vec<Said>>) -> Self {
        Self::with(steps, With::default())
    }

    fn with(steps: Vec<Vec<Said>>, with: With) -> Self {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let hub = Hub::new(with.limits, Clock::counting(), store, TaskTracker::new());
        let model = Arc::new(Fake { steps: Mutex::new(steps.into()), shown: Mutex::default() });
        let mut models = Models::default();
        models.insert("fake", model.clone());
        let agent = Agent { policy: Policy { client_tools: with.permission, tools: Vec::new() }, ..Agent::default() };
        let setup = Setup {
            models,
            default_model: ModelRef::parse("fake/one").unwrap(),
            agents: Agents::from_iter([("default".into(), agent)]),
            tools: with.tools,
            hooks: with.hooks,
        };
        let world = Self { sessions: Sessions::new(hub, setup), model };
        for name in ["a", "b"] {
            let schema =
                to_raw_value(&json!({ "type": "object", "properties": { "n": { "type": "integer" } } })).unwrap();
            let spec = ToolSpec {
                name: ToolName::parse(name).unwrap(),
                description: String::new(),
                schema: Arc::new(Schema::compile(&schema, &Limits::default()).unwrap()),
                timeout: None,
                effect: Effect::Write,
                version: None,
            };
            world.hub().register(&client(), None, vec![spec]).unwrap();
        }
        world
    }

    fn hub(&self) -> &Hub {
        self.sessions.hub()
    }

    async fn session(&self) -> Arc<Session> {
        self.sessions.create(NewSession { client: Some(client()), ..NewSession::default() }).await.unwrap()
    }

    fn connect(&self) -> Connection {
        let opening = Opening { client: client(), name: None, grace: Duration::ZERO, session: None, last_seen: None };
        self.hub().connect(opening).unwrap()
    }

    async fn say(&self, session: &Session, text: &str) -> Result<Prompted, SessionError> {
        self.sessions.prompt(&session.id, prompt(text)).await
    }

    async fn answer(&self, session: &Session, text: &str) -> Arc<Message> {
        self.say(session, text).await.unwrap().answer.unwrap().await.unwrap()
    }

    async fn complete(&self, request: &RequestId, output: &str) {
        let success = Success { output: output.to_owned(), ..Success::default() };
        self.hub().complete(request, &Caller::Trusted, Outcome::Success(success)).await.unwrap();
    }

    fn shown(&self) -> Vec<Value> {
        self.model.shown.lock().unwrap().clone()
    }

    async fn reply(&self, id: &PermissionId, reply: Reply, input: Option<Value>) -> Result<(), NotAnswered> {
        let input = input.map(|input| to_raw_value(&input).unwrap());
        self.sessions.answer(id, &Caller::Trusted, Answer { reply, input, message: None }).await.map(|_| ())
    }

    async fn until_asked(&self, count: usize) -> Vec<PermissionId> {
        loop {
            let asks = self.hub().asks(None);
            if asks.len() >= count {
                return asks.iter().map(|ask| ask.id.clone()).collect();
            }
            tokio::task::yield_now().await;
        }
    }
}

fn prompt(text: &str) -> Prompt {
    let now = crate::clock::Time(0);
    let body = PartBody::Text { text: text.to_owned(), span: Span { start: now, end: Some(now) } };
    Prompt {
        client: None,
        message: None,
        agent: None,
        model: None,
        system: None,
        tools: BTreeMap::new(),
        parts: vec![body],
        wants_reply: true,
    }
}

async fn offered(connection: &mut Connection) -> (RequestId, String, String) {
    match connection.next().await {
        Delivery::Request { head, .. } => {
            (head.request.clone(), head.tool.spec.name.to_string(), head.input.get().to_owned())
        }
        other => panic!("{other:?}"),
    }
}

/// What a message says, briefly.
fn brief(message: &Message) -> Vec<String> {
    let part = |part: &Arc<Part>| match &part.body {
        PartBody::Text { text, .. } => format!("text {text}"),
        PartBody::Reasoning { text, .. } => format!("reasoning {text}"),
        PartBody::File(file) => format!("file {}", file.mime),
        PartBody::StepStart => "start".to_owned(),
        PartBody::StepFinish { reason, .. } => format!("finish {}", reason.as_str()),
        PartBody::Tool(tool) => match &tool.state {
            ToolState::Pending { raw } => format!("{} pending {raw}", tool.tool),
            ToolState::Running { input, .. } => format!("{} running {input}", tool.tool),
            ToolState::Done { input, result: ToolResult::Completed { output, .. }, .. } => {
                format!("{} {input} → {output}", tool.tool)
            }
            ToolState::Done { input, result: ToolResult::Failed(error), .. } => {
                format!("{} {input} ✗ {error}", tool.tool)
            }
        },
    };
    let mut brief: Vec<String> = message.parts.iter().map(part).collect();
    if let Role::Assistant(said) = &message.role {
        assert!(said.completed.is_some() || !brief.is_empty());
        brief.extend(said.error.as_ref().map(|error| format!("error {}", error.message())));
    }
    brief
}

async fn history(world: &World, session: &Session) -> Vec<Vec<String>> {
    world.sessions.messages(&session.id).await.unwrap().iter().map(|message| brief(message)).collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_calls_a_tool_and_answers_from_its_result() {
    let world = World::new(vec![calls(&[("client_tab_a", r#"{"n": 1}"#)]), text("It is 2.")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "what is 1 + 1?").await.unwrap();
    let (request, tool, input) = offered(&mut connection).await;
    assert_eq!((tool.as_str(), input.as_str()), ("a", r#"{"n": 1}"#));
    assert!(world.sessions.is_busy(&session.id));
    world.complete(&request, "2").await;
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "text It is 2.", "finish stop"]);
    assert!(!world.sessions.is_busy(&session.id));
    let expected: [&[&str]; 3] = [
        &["text what is 1 + 1?"],
        &["start", r#"client_tab_a {"n": 1} → 2"#, "finish tool-calls"],
        &["start", "text It is 2.", "finish stop"],
    ];
    assert_eq!(history(&world, &session).await, expected);
    let shown = [
        json!({ "system": null, "messages": 1, "tools": ["client_tab_a", "client_tab_b"], "results": [] }),
        json!({ "system": null, "messages": 2, "tools": ["client_tab_a", "client_tab_b"], "results": ["2"] }),
    ];
    assert_eq!(world.shown(), shown);
    assert_eq!(world.sessions.get(&session.id).await.unwrap().title, "what is 1 + 1?");
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_step_run_at_once_each_fails_alone_and_the_model_gets_them_in_its_order() {
    let wanted = [("client_tab_a", "{}"), ("client_tab_b", "{}"), ("client_tab_a", r#"{"n":3}"#)];
    let world = World::new(vec![calls(&wanted), text("done")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(offered(&mut connection).await);
    }
    // The last first, the second fails, the first never answers.
    world.complete(&open[2].0, "third").await;
    let error = Outcome::Error("no such file".to_owned());
    world.hub().complete(&open[1].0, &Caller::Trusted, error).await.unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    prompted.answer.unwrap().await.unwrap();
    let timeout = "Client tool execution timed out after 30000ms";
    assert_eq!(world.shown()[1]["results"], json!([timeout, "no such file", "third"]));
    let step = &history(&world, &session).await[1];
    assert_eq!(step[1], format!("client_tab_a {{}} ✗ {timeout}"));
    assert_eq!(step[2], "client_tab_b {} ✗ no such file");
    assert_eq!(step[3], r#"client_tab_a {"n":3} → third"#);
}

#[tokio::test(start_paused = true)]
async fn what_the_model_gets_wrong_is_a_result_and_the_turn_goes_on() {
    let wanted = [
        ("client_tab_a", r#"{"n": "one"}"#),
        ("client_tab_a", "{not json"),
        ("client_tab_a", "[1]"),
        ("nothing", "{}"),
        ("client_tab_b", ""),
    ];
    let world = World::new(vec![calls(&wanted), text("sorry")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (request, tool, input) = offered(&mut connection).await;
    assert_eq!((tool.as_str(), input.as_str()), ("b", "{}"));
    world.complete(&request, "ok").await;
    assert_eq!(brief(&prompted.answer.unwrap().await.unwrap())[1], "text sorry");
    let shown = world.shown();
    let results: Vec<&str> =
        shown[1]["results"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(results[0], "Invalid input: at /n: \"one\" is not of type \"integer\"");
    assert!(results[1].starts_with("Invalid input: the arguments are not JSON: "), "{}", results[1]);
    assert_eq!(results[2], "Invalid input: the arguments must be a JSON object, not `[1]`");
    assert_eq!(results[3], "There is no tool `nothing`. There is: client_tab_a, client_tab_b");
    assert_eq!(results[4], "ok");
}

#[tokio::test(start_paused = true)]
async fn a_denied_call_never_reaches_the_client() {
    let with = With { permission: Permission::Deny, ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", "{}")]), text("I may not.")], with);
    let session = world.session().await;
    let mut connection = world.connect();
    world.answer(&session, "go").await;
    assert_eq!(world.shown()[1]["results"], json!(["This tool is not allowed here"]));
    assert!(connection.next().now_or_never().is_none());
    assert_eq!(world.hub().counts().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn an_ask_waits_on_its_own_clock_and_the_execution_clock_starts_when_it_is_answered() {
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", r#"{"n":1}"#)]), text("done")], with);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    tokio::time::advance(Duration::from_secs(299)).await;
    assert!(connection.next().now_or_never().is_none());
    // An input that does not fit leaves the ask open.
    let bad = world.reply(&asks[0], Reply::Once, Some(json!({ "n": "x" }))).await;
    assert!(matches!(bad, Err(NotAnswered::InvalidInput(_))), "{bad:?}");
    world.reply(&asks[0], Reply::Once, Some(json!({ "n": 7 }))).await.unwrap();
    let (request, _, input) = offered(&mut connection).await;
    assert_eq!(input, r#"{"n":7}"#);
    tokio::time::advance(Duration::from_secs(29)).await;
    world.complete(&request, "seven").await;
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(history(&world, &session).await[1][1], r#"client_tab_a {"n":7} → seven"#);
    let again = world.reply(&asks[0], Reply::Once, None).await;
    assert!(matches!(again, Err(NotAnswered::Unknown(_))), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn an_ask_that_nobody_answers_is_a_denial() {
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", "{}")]), text("nobody")], with);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    tokio::time::advance(Duration::from_secs(301)).await;
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!(["Denied: the approval expired"]));
    assert!(world.reply(&asks[0], Reply::Once, None).await.is_err());
    assert!(connection.next().now_or_never().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_rejected_call_is_told_to_the_model_with_the_reason() {
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", "{}")]), text("fine")], with);
    let session = world.session().await;
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    let answer = Answer { reply: Reply::Reject, input: None, message: Some("not today".to_owned()) };
    world.sessions.answer(&asks[0], &Caller::Trusted, answer).await.unwrap();
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!(["not today"]));
}

#[tokio::test(start_paused = true)]
async fn always_holds_for_the_tool_in_this_session_and_for_its_open_asks() {
    let both = [("client_tab_a", r#"{"n":1}"#), ("client_tab_a", r#"{"n":2}"#), ("client_tab_b", "{}")];
    let steps = vec![calls(&both), calls(&[("client_tab_a", r#"{"n":3}"#)]), text("done")];
    let world = World::with(steps, With { permission: Permission::Ask, ..With::default() });
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(3).await;
    world.reply(&asks[0], Reply::Always, None).await.unwrap();
    for _ in 0..2 {
        let (request, tool, _) = offered(&mut connection).await;
        assert_eq!(tool, "a");
        world.complete(&request, "ok").await;
    }
    assert_eq!(world.hub().asks(None).len(), 1);
    world.reply(&asks[2], Reply::Reject, None).await.unwrap();
    let (request, tool, input) = offered(&mut connection).await;
    assert_eq!((tool.as_str(), input.as_str()), ("a", r#"{"n":3}"#));
    world.complete(&request, "ok").await;
    prompted.answer.unwrap().await.unwrap();
    let approved = world.sessions.get(&session.id).await.unwrap().approved.clone();
    assert_eq!(approved.into_iter().collect::<Vec<_>>(), ["client_tab_a"]);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_to_be_allowed_cannot_be_answered() {
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", "{}")])], with);
    let session = world.session().await;
    let _prompted = world.say(&session, "go").await.unwrap();
    world.until_asked(1).await;
    let request = world.hub().asks(None)[0].call.request.clone();
    let early = world.hub().complete(&request, &Caller::Trusted, Outcome::Error("x".to_owned())).await;
    assert!(matches!(early, Err(crate::delegate::NotTaken::NotAllowedYet)), "{early:?}");
    assert_eq!(world.hub().asks(None).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_abort_cancels_open_calls_and_asks_and_tells_the_client() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}"), ("client_tab_b", "{}")]), text("never")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (first, ..) = offered(&mut connection).await;
    let (second, ..) = offered(&mut connection).await;
    world.complete(&first, "one").await;
    world.sessions.abort(&session.id).await;
    assert!(!world.sessions.is_busy(&session.id));
    let answer = prompted.answer.unwrap().await.unwrap();
    let expected = [
        "start",
        "client_tab_a {} → one",
        "client_tab_b {} ✗ Not finished: The turn was aborted",
        "error The turn was aborted",
    ];
    assert_eq!(brief(&answer), expected);
    match connection.next().await {
        Delivery::Cancel { request, reason, .. } => assert_eq!((request, &*reason), (second, "The turn was stopped")),
        other => panic!("{other:?}"),
    }
    assert_eq!((world.shown().len(), world.hub().counts().calls), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn an_abort_reaches_a_model_that_thinks() {
    let (dropped, is_dropped) = oneshot::channel();
    let hang = Said::Hang(Arc::new(Mutex::new(Some(dropped))));
    let world = World::new(vec![vec![Said::Event(ModelEvent::Text("I".to_owned())), hang]]);
    let session = world.session().await;
    let prompted = world.say(&session, "go").await.unwrap();
    while world.shown().is_empty() {
        tokio::task::yield_now().await;
    }
    world.sessions.abort(&session.id).await;
    assert!(is_dropped.await.is_err(), "the stream is dropped");
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "text I", "error The turn was aborted"]);
    // Nothing to stop is fine as well.
    world.sessions.abort(&session.id).await;
}

#[tokio::test(start_paused = true)]
async fn one_turn_at_a_time_eight_wait_and_the_rest_are_refused() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}")])]);
    let session = world.session().await;
    let mut connection = world.connect();
    let mut prompts = Vec::new();
    for number in 0..9 {
        prompts.push(world.say(&session, &format!("prompt {number}")).await.unwrap());
    }
    let refused = world.say(&session, "one too many").await;
    assert!(matches!(refused, Err(SessionError::QueueFull(8))), "{refused:?}");
    let (request, ..) = offered(&mut connection).await;
    world.complete(&request, "ok").await;
    for prompted in prompts {
        let answer = prompted.answer.unwrap().await.unwrap();
        let Role::Assistant(said) = &answer.role else { panic!("{answer:?}") };
        assert_eq!(said.parent, prompted.user.id);
    }
    // Each turn saw the conversation before it, and none that came after.
    let counts: Vec<u64> = world.shown().iter().map(|shown| shown["messages"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    assert_eq!(history(&world, &session).await.len(), 19);
}

#[tokio::test(start_paused = true)]
async fn steps_are_bounded() {
    let steps = (0..10).map(|n| calls(&[("client_tab_a", &format!(r#"{{"n":{n}}}"#))])).collect();
    let world = World::with(steps, With { limits: Limits { steps: 4, ..Limits::default() }, ..With::default() });
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    for _ in 0..4 {
        let (request, ..) = offered(&mut connection).await;
        world.complete(&request, "ok").await;
    }
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "error The turn was stopped after 4 steps; say something to go on"]);
    assert_eq!(world.shown().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_same_call_over_and_over_is_stopped() {
    let world = World::new((0..10).map(|_| calls(&[("client_tab_a", r#"{"n":1}"#)])).collect());
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    for _ in 0..3 {
        let (request, ..) = offered(&mut connection).await;
        world.complete(&request, "ok").await;
    }
    let answer = prompted.answer.unwrap().await.unwrap();
    let last = brief(&answer).pop().unwrap();
    assert_eq!(last, "error The turn was stopped: the model called client_tab_a with the same input over and over");
    assert!(connection.next().now_or_never().is_none(), "three times and no more");
    assert_eq!(world.shown().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_ends_the_turn_with_its_error() {
    let error = TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true };
    let failing = vec![Said::Event(ModelEvent::Text("Well".to_owned())), Said::Error(error)];
    let cut = vec![Said::Event(ModelEvent::CallStarted { index: 0, id: String::new(), name: "client_tab_a".into() })];
    let world = World::new(vec![failing, cut, text("back again")]);
    let session = world.session().await;
    let mut connection = world.connect();
    assert_eq!(brief(&*world.answer(&session, "one").await), ["start", "text Well", "error overloaded"]);
    let expected = [
        "start",
        "client_tab_a {} ✗ Not finished: The model's answer was cut off",
        "error The model's answer was cut off",
    ];
    assert_eq!(brief(&*world.answer(&session, "two").await), expected);
    assert!(connection.next().now_or_never().is_none(), "a call that was cut is not made");
    assert_eq!(brief(&*world.answer(&session, "three").await)[1], "text back again");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_is_told_to_the_model() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}")]), text("gone")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    offered(&mut connection).await;
    drop(connection);
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!(["Client disconnected"]));
    assert_eq!(world.shown()[1]["tools"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_session_stops_and_does_not_come_back() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}")])]);
    let session = world.session().await;
    let mut connection = world.connect();
    let running = world.say(&session, "go").await.unwrap();
    let waiting = world.say(&session, "next").await.unwrap();
    offered(&mut connection).await;
    assert!(world.sessions.delete(&session).await.unwrap());
    assert!(matches!(connection.next().await, Delivery::Cancel { .. }));
    assert_eq!(brief(&running.answer.unwrap().await.unwrap()).last().unwrap(), "error The turn was aborted");
    assert!(waiting.answer.unwrap().await.is_err());
    assert!(matches!(world.sessions.get(&session.id).await, Err(SessionError::Unknown(_))));
    assert!(world.sessions.messages(&session.id).await.unwrap().is_empty());
    assert!(matches!(world.say(&session, "hello?").await, Err(SessionError::Unknown(_))));
    assert!(!world.sessions.delete(&session).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_session_is_its_clients_and_an_unclaimed_one_is_the_first_prompters() {
    let world = World::new(vec![]);
    let bound = world.session().await;
    let free = world.sessions.create(NewSession::default()).await.unwrap();
    let as_client = |name: &str| Prompt { client: Some(ClientId::parse(name).unwrap()), ..prompt("hi") };
    let stranger = world.sessions.prompt(&bound.id, as_client("stranger")).await;
    assert!(matches!(stranger, Err(SessionError::Forbidden)), "{stranger:?}");
    assert!(world.sessions.messages(&bound.id).await.unwrap().is_empty());
    world.sessions.prompt(&free.id, as_client("tab")).await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[0]["tools"], json!(["client_tab_a", "client_tab_b"]));
    let late = world.sessions.prompt(&free.id, as_client("stranger")).await;
    assert!(matches!(late, Err(SessionError::Forbidden)), "{late:?}");
    let other = ClientId::parse("other").unwrap();
    assert!(world.sessions.must_be_open_to(&other, Some(&free.id)).await.is_err());
    world.sessions.must_be_open_to(&other, Some(&SessionId::parse("opaque").unwrap())).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_must_be_there_and_nothing_is_kept_of_what_is_refused() {
    let world = World::new(vec![]);
    let session = world.session().await;
    let unknown = [
        Prompt { agent: Some("nobody".into()), ..prompt("x") },
        Prompt { model: Some(ModelRef::parse("nowhere/x").unwrap()), ..prompt("x") },
    ];
    for prompt in unknown {
        assert!(world.sessions.prompt(&session.id, prompt).await.is_err());
    }
    let id = MessageId::parse("msg_mine").unwrap();
    let named = || Prompt { message: Some(id.clone()), ..prompt("x") };
    world.sessions.prompt(&session.id, named()).await.unwrap().answer.unwrap().await.unwrap();
    let again = world.sessions.prompt(&session.id, named()).await;
    assert!(matches!(again, Err(SessionError::DuplicateMessage(_))), "{again:?}");
    assert_eq!(history(&world, &session).await.len(), 2);
    let silent = Prompt { wants_reply: false, ..prompt("just so you know") };
    assert!(world.sessions.prompt(&session.id, silent).await.unwrap().answer.is_none());
    assert_eq!((history(&world, &session).await.len(), world.shown().len()), (3, 1));
}

struct Double;

impl Hook for Double {
    fn before<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Before> {
        let input: Value = serde_json::from_str(call.input.get()).unwrap();
        Box::pin(async move {
            match input["n"].as_i64() {
                Some(0) => Before::Refuse("zero is not done".to_owned()),
                Some(13) => panic!("unlucky"),
                Some(n) => Before::Change(to_raw_value(&json!({ "n": n * 2 })).unwrap()),
                None => Before::Go,
            }
        })
    }

    fn after<'a>(&'a self, _call: HookedCall<'a>, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match result {
                ToolResult::Failed(error) => ToolResult::Failed(format!("hooked: {error}")),
                done => done,
            }
        })
    }
}

struct Fragile(ServerToolSpec);

impl ServerTool for Fragile {
    fn spec(&self) -> &ServerToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Success, String>> {
        let input: Value = serde_json::from_str(invocation.input.get()).unwrap();
        Box::pin(async move {
            match input["mode"].as_str() {
                Some("panic") => panic!("oh"),
                Some("hang") => std::future::pending().await,
                Some("fail") => Err("it broke".to_owned()),
                _ => {
                    Ok(Success { output: format!("in {}", invocation.session.id.as_str().len()), ..Success::default() })
                }
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_change_and_refuse_and_a_panic_is_one_calls_failure() {
    let wanted = [
        ("client_tab_a", r#"{"n":21}"#),
        ("client_tab_a", r#"{"n":0}"#),
        ("client_tab_b", r#"{"n":13}"#),
        ("client_tab_b", r#"{"n":1.5}"#),
    ];
    let with = With { hooks: vec![Arc::new(Double)], ..With::default() };
    let world = World::with(vec![calls(&wanted), text("done")], with);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (request, _, input) = offered(&mut connection).await;
    assert_eq!(input, r#"{"n":42}"#);
    world.complete(&request, "ok").await;
    prompted.answer.unwrap().await.unwrap();
    let results = world.shown()[1]["results"].clone();
    assert_eq!(results[0], "ok");
    assert_eq!(results[1], "zero is not done");
    assert_eq!(results[2], "The tool failed inside the server; see its log");
    assert_eq!(results[3], "hooked: Invalid input: at /n: 1.5 is not of type \"integer\"");
}

#[tokio::test(start_paused = true)]
async fn server_tools_run_here_and_are_bounded_and_isolated() {
    let spec = ServerToolSpec::new("fragile", "breaks", Arc::new(Schema::any_object())).unwrap();
    let tools: Vec<Arc<dyn ServerTool>> = vec![Arc::new(ListTools::default()), Arc::new(Fragile(spec))];
    let modes = ["panic", "hang", "fail", "work"].map(|mode| format!(r#"{{"mode":"{mode}"}}"#));
    let mut wanted: Vec<(&str, &str)> = modes.iter().map(|mode| ("fragile", mode.as_str())).collect();
    wanted.push(("list_tools", "{}"));
    let world = World::with(vec![calls(&wanted), text("done")], With { tools, ..With::default() });
    let session = world.session().await;
    world.answer(&session, "go").await;
    let results = world.shown()[1]["results"].clone();
    assert_eq!(results[0], "The tool failed inside the server; see its log");
    assert_eq!(results[1], "The tool timed out after 30000ms");
    assert_eq!(results[2], "it broke");
    assert_eq!(results[3], "in 23");
    let listed: Value = serde_json::from_str(results[4].as_str().unwrap()).unwrap();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fragile", "client_tab_a", "client_tab_b"]);
}

#[tokio::test(start_paused = true)]
async fn tools_can_be_switched_off_for_a_turn() {
    let world = World::new(vec![]);
    let session = world.session().await;
    let off = Prompt { tools: BTreeMap::from([("b".to_owned(), false)]), ..prompt("x") };
    world.sessions.prompt(&session.id, off).await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[0]["tools"], json!(["client_tab_a"]));
}

#[tokio::test(start_paused = true)]
async fn stopping_the_server_lets_turns_finish_for_a_while_and_then_says_so_on_them() {
    let (dropped, _is_dropped) = oneshot::channel();
    let hang = vec![Said::Hang(Arc::new(Mutex::new(Some(dropped))))];
    let world = World::new(vec![hang]);
    let session = world.session().await;
    let prompted = world.say(&session, "go").await.unwrap();
    world.sessions.close(Duration::from_secs(10)).await;
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "error The server was stopped while this turn was under way"]);
    assert!(matches!(world.say(&session, "more").await, Err(SessionError::ShuttingDown)));
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_process_left_behind_is_marked_as_interrupted() {
    let world = World::new(vec![]);
    let session = world.session().await;
    let user = |id: &str, wants_reply| Message {
        id: MessageId::parse(id).unwrap(),
        session: session.id.clone(),
        created: crate::clock::Time(0),
        role: Role::User(UserMessage {
            agent: "default".into(),
            model: ModelRef::parse("fake/one").unwrap(),
            system: None,
            tools: BTreeMap::new(),
            wants_reply,
        }),
        parts: Vec::new(),
    };
    let store = world.sessions.store();
    let (answered, waiting) = (user("msg_1", true), user("msg_2", true));
    let begun = assistant(&world.sessions, &answered);
    for message in [answered, waiting, user("msg_3", false)] {
        store.save_message(&Arc::new(message)).await.unwrap();
    }
    Draft::new(&world.sessions, &session, begun).save();
    assert_eq!(world.sessions.recover().await.unwrap(), 2);
    let error = "error The server was restarted before this turn was over";
    let expected: [&[&str]; 5] = [&[], &[], &[], &["start", error], &["start", error]];
    assert_eq!(history(&world, &session).await, expected);
    assert_eq!(world.sessions.recover().await.unwrap(), 0);
}

/// All events until the session is idle, briefly.
async fn events(events: &mut Subscription) -> Vec<String> {
    let mut told = Vec::new();
    loop {
        let event = match events.next().await.unwrap() {
            Event::Session(_, SessionEvent::Part { part, delta, message }) => {
                let message = Message { parts: vec![part], ..assistant_shell(message) };
                format!("part {} {:?}", brief_unfinished(&message), delta.as_deref().unwrap_or_default())
            }
            Event::Session(_, SessionEvent::Delta { field, delta, .. }) => format!("delta {field:?} {delta:?}"),
            Event::Session(_, SessionEvent::Message(message)) => match &message.role {
                Role::User(_) => "user".to_owned(),
                Role::Assistant(said) => format!("assistant {}", said.completed.is_some()),
            },
            Event::Session(_, SessionEvent::Idle) => return told,
            Event::Session(_, event) => format!("{event:?}"),
            Event::Requested(_) => "requested".to_owned(),
            Event::Executing(_) => "executing".to_owned(),
            Event::Finished(_) => "finished".to_owned(),
            Event::Asked(_) => "asked".to_owned(),
            Event::Answered(_, reply) => format!("answered {reply:?}"),
            other => format!("{other:?}"),
        };
        told.push(event);
    }
}

fn assistant_shell(id: MessageId) -> Message {
    Message {
        id,
        session: SessionId::parse("").unwrap(),
        created: crate::clock::Time(0),
        role: Role::User(UserMessage {
            agent: "".into(),
            model: ModelRef::parse("a/b").unwrap(),
            system: None,
            tools: BTreeMap::new(),
            wants_reply: false,
        }),
        parts: Vec::new(),
    }
}

fn brief_unfinished(message: &Message) -> String {
    brief(message).pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn listeners_are_told_every_step_in_order() {
    let mut first = vec![Said::Event(ModelEvent::Reasoning("hm".to_owned()))];
    first.extend(calls(&[("client_tab_a", r#"{"n":1}"#)]));
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![first, text("done")], with);
    let session = world.session().await;
    let mut listener = world.hub().subscribe();
    let mut connection = world.connect();
    let _prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    world.reply(&asks[0], Reply::Once, None).await.unwrap();
    let (request, ..) = offered(&mut connection).await;
    world.complete(&request, "ok").await;
    let expected = [
        "user",
        "part text go \"\"",
        "Updated",
        "Busy",
        "assistant false",
        "part start \"\"",
        "delta Reasoning \"hm\"",
        "part reasoning hm \"hm\"",
        "part reasoning hm \"\"",
        "part client_tab_a pending  \"\"",
        "delta Arguments \"{\\\"n\\\":1}\"",
        "part client_tab_a pending {\"n\":1} \"{\\\"n\\\":1}\"",
        "part client_tab_a running {\"n\":1} \"\"",
        "asked",
        "answered Once",
        "requested",
        "executing",
        "finished",
        "part client_tab_a {\"n\":1} → ok \"\"",
        "part finish tool-calls \"\"",
        "assistant true",
        "assistant false",
        "part start \"\"",
        "delta Text \"done\"",
        "part text done \"done\"",
        "part text done \"\"",
        "part finish stop \"\"",
        "assistant true",
        "Updated",
    ];
    assert_eq!(events(&mut listener).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_costs_listeners_no_more_than_in_proportion() {
    const PIECES: usize = 100_000;
    let mut said: Vec<Said> = (0..PIECES).map(|_| Said::Event(ModelEvent::Text("word ".to_owned()))).collect();
    said.push(stop(StopReason::Stop));
    let world = World::new(vec![said]);
    let session = world.session().await;
    let mut listener = world.hub().subscribe();
    let _prompted = world.say(&session, "go").await.unwrap();
    let (mut pieces, mut shown, mut deltas) = (String::new(), 0, String::new());
    loop {
        match listener.next().await.expect("a listener that reads is not left behind") {
            Event::Session(_, SessionEvent::Delta { delta, .. }) => pieces.push_str(&delta),
            Event::Session(_, SessionEvent::Part { part, delta, .. }) => {
                if let (PartBody::Text { text, .. }, Some(delta)) = (&part.body, delta) {
                    shown += text.len();
                    deltas.push_str(&delta);
                    assert_eq!(deltas.len(), text.len());
                }
            }
            Event::Session(_, SessionEvent::Idle) => break,
            _ => {}
        }
    }
    assert_eq!(pieces.len(), PIECES * 5);
    assert!(shown < 40 * pieces.len(), "{shown}");
}

#[test]
fn a_conversation_is_in_order_whatever_the_order_of_storing() {
    let (hub_free, parent) = (assistant_shell(MessageId::parse("u1").unwrap()), MessageId::parse("u1").unwrap());
    let assistant = |id: &str, parent: &MessageId| {
        let mut message = assistant_shell(MessageId::parse(id).unwrap());
        message.role = Role::Assistant(AssistantMessage {
            parent: parent.clone(),
            agent: "".into(),
            model: ModelRef::parse("a/b").unwrap(),
            completed: None,
            finish: None,
            usage: Usage::default(),
            error: None,
        });
        Arc::new(message)
    };
    let user = |id: &str| Arc::new(assistant_shell(MessageId::parse(id).unwrap()));
    let second = MessageId::parse("u2").unwrap();
    let third = user("u3");
    let stored = vec![
        Arc::new(hub_free),
        assistant("a1", &parent),
        user("u2"),
        assistant("a1b", &parent),
        third.clone(),
        assistant("a2", &second),
        user("u4"),
    ];
    let ordered: Vec<String> = conversation(stored, &third).iter().map(|message| message.id.to_string()).collect();
    assert_eq!(ordered, ["u1", "a1", "a1b", "u2", "a2", "u3"]);
}

#[test]
fn long_output_is_cut_with_a_note() {
    let part = |output: &str| crate::message::ToolPart {
        call: crate::id::CallId::parse("c").unwrap(),
        provider_call: String::new(),
        alias: "".into(),
        tool: "".into(),
        request: None,
        state: ToolState::Done {
            input: RawValue::from_string("{}".to_owned()).unwrap(),
            start: crate::clock::Time(0),
            end: crate::clock::Time(0),
            result: ToolResult::Completed {
                title: String::new(),
                output: output.to_owned(),
                metadata: None,
                attachments: Vec::new(),
            },
        },
    };
    assert_eq!(part("short").result_for_model(5), ("short".to_owned(), false));
    assert_eq!(part("äöü").result_for_model(3).0, "ä\n\n[cut: 2 of 6 bytes are shown]");
}
