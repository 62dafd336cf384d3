//! Turns against a model that says what the test tells it, with time that only moves when the test says so.

mod bounds;
mod events;
mod extensions;
mod faults;
mod frontends;
mod keeping;
mod metrics;
mod permissions;
mod turns;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;

use super::*;
use crate::calls::{Actor, Connection, Delivery, Hub, NotAnswered, Opening};
use crate::clock::Clock;
use crate::events::{Event, Subscription, Topic, TurnEvent};
use crate::id::{ClientId, MessageId, PermissionId, RequestId, ToolName};
use crate::limits::Limits;
use crate::schema::Schema;
use crate::sessions::agent::Agents;
use crate::sessions::model::{Model, ModelEvent, ModelStream, Models};
use crate::sessions::{NewSession, Prompt, Prompted, SessionError, Setup};
use crate::store::{
    Answer, CallStore, Effect, MemoryStore, ModelRef, Outcome, Part, PartBody, Reply, SessionStore, Span, StopReason,
    Success, ToolResult, ToolSpec, ToolState,
};
use crate::tools::{
    Before, BoxFuture, Hook, HookedCall, Invocation, ListTools, Permission, Placement, Policy, ServerTool,
    ServerToolSpec,
};

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
        let shown = json!({ "system": request.system, "messages": request.earlier.len() + request.messages.len(), "tools": tools, "results": results });
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
        said.push(Said::Event(ModelEvent::CallEnded { index, kept: None }));
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
    frontend_tools: Vec<Arc<ToolSpec>>,
    hooks: Vec<Arc<dyn Hook>>,
    models: Vec<(&'static str, Arc<dyn Model>)>,
}

fn client() -> ClientId {
    ClientId::parse("tab").unwrap()
}

impl World {
    fn new(steps: Vec<Vec<Said>>) -> Self {
        Self::with(steps, With::default())
    }

    fn with(steps: Vec<Vec<Said>>, with: With) -> Self {
        Self::on(Arc::new(MemoryStore::default()), steps, with)
    }

    fn on(store: Arc<impl CallStore + SessionStore>, steps: Vec<Vec<Said>>, with: With) -> Self {
        let hub = Hub::new(with.limits, Clock::counting(), store.clone(), TaskTracker::new());
        let model = Arc::new(Fake { steps: Mutex::new(steps.into()), shown: Mutex::default() });
        let mut models = Models::default();
        models.insert("fake", model.clone());
        for (name, model) in with.models {
            models.insert(name, model);
        }
        let agent = Agent { policy: Policy { client_tools: with.permission, tools: Vec::new() }, ..Agent::default() };
        let setup = Setup {
            models,
            default_model: ModelRef::parse("fake/one").unwrap(),
            agents: Agents::from_iter([("default".into(), agent)]),
            tools: with.tools,
            frontend_tools: with.frontend_tools,
            hooks: with.hooks,
        };
        let world = Self { sessions: Sessions::new(hub, store, setup), model };
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
            world.hub().register(&client(), &Placement::Everywhere, vec![spec]).unwrap();
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

    async fn say(&self, session: &Arc<Session>, text: &str) -> Result<Prompted, SessionError> {
        self.sessions.prompt(session, prompt(text)).await
    }

    async fn answer(&self, session: &Arc<Session>, text: &str) -> Arc<Message> {
        self.say(session, text).await.unwrap().answer.unwrap().await.unwrap()
    }

    async fn complete(&self, request: &RequestId, output: &str) {
        let success = Success { output: output.to_owned(), ..Success::default() };
        self.hub().complete(request, &Actor::Trusted, Outcome::Success(success)).await.unwrap();
    }

    fn shown(&self) -> Vec<Value> {
        self.model.shown.lock().unwrap().clone()
    }

    async fn reply(&self, id: &PermissionId, reply: Reply, input: Option<Value>) -> Result<(), NotAnswered> {
        let input = input.map(|input| to_raw_value(&input).unwrap());
        self.sessions.answer(id, &Actor::Trusted, Answer { reply, input, message: None }).await.map(|_| ())
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
    Prompt { message: None, parts: vec![body], agent: None, wants_reply: true, needs: TurnNeeds::default() }
}

fn with_model(name: &str) -> TurnNeeds {
    TurnNeeds { model: Some(ModelRef::parse(name).unwrap()), ..TurnNeeds::default() }
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
            ToolState::Yielded { input, .. } => format!("{} yielded {input}", tool.tool),
            ToolState::Done { input, result: ToolResult::Given { output, error }, .. } => {
                let failed = error.as_ref().map(|error| format!(" ✗ {error}")).unwrap_or_default();
                format!("{} {input} → {output}{failed}", tool.tool)
            }
            ToolState::Done { input, result: ToolResult::Completed { output, .. }, .. } => {
                format!("{} {input} → {output}", tool.tool)
            }
            ToolState::Done {
                input,
                result: ToolResult::Failed(error) | ToolResult::Denied { reason: error, .. },
                ..
            } => {
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

/// A message with nothing in it.
fn assistant_shell(id: MessageId) -> Message {
    Message {
        id,
        session: SessionId::parse("").unwrap(),
        created: crate::clock::Time(0),
        role: Role::User(UserMessage { wants_reply: false, ..UserMessage::new("", ModelRef::parse("a/b").unwrap()) }),
        parts: Vec::new(),
    }
}
