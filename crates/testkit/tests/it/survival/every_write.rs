//! A turn with two calls at once, one of which has to be allowed, and a process that dies at each of its writes: in the
//! end everything is as if it had not died.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream;
use handback_core::Hub;
use handback_core::calls::{Actor, Connection, Delivery, Opening};
use handback_core::clock::Clock;
use handback_core::id::{ClientId, RequestId, SessionId, ToolName};
use handback_core::limits::Limits;
use handback_core::schema::Schema;
use handback_core::sessions::{
    Agent, Agents, Model, ModelEvent, ModelRequest, ModelStream, Models, NewSession, Prompt, Sessions, Setup,
};
use handback_core::store::{
    Answer, CallFilter, CallStore, Effect, Message, ModelRef, Most, Outcome, PartBody, Reply, SessionStore, Span,
    StopReason, Success, ToolSpec, ToolState, TurnNeeds,
};
use handback_core::tools::{Permission, Placement, Policy, ToolPattern};
use handback_testkit::mortal::{Death, Kept, Mortal};
use tokio_util::task::TaskTracker;

/// Calls both tools, and then says what came of it.
struct Caller;

impl Model for Caller {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
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
        let mut said = Vec::new();
        if results.is_empty() {
            for (index, name) in ["client_desk_read", "client_desk_write"].into_iter().enumerate() {
                said.push(ModelEvent::CallStarted { index, id: String::new(), name: name.to_owned() });
                said.push(ModelEvent::Arguments { index, delta: format!(r#"{{"n":{index}}}"#) });
                said.push(ModelEvent::CallEnded { index, kept: None });
            }
            said.push(ModelEvent::Stop(StopReason::ToolCalls));
        } else {
            said.push(ModelEvent::Text(results.join(" and ")));
            said.push(ModelEvent::Stop(StopReason::Stop));
        }
        Box::pin(stream::iter(said.into_iter().map(Ok)))
    }
}

/// A client with a memory: it runs each call once, and gives its result again when it is asked again.
#[derive(Default)]
struct Desk {
    results: Mutex<BTreeMap<RequestId, String>>,
    /// How often each tool ran.
    runs: Mutex<BTreeMap<String, usize>>,
    attempts: Mutex<Vec<u32>>,
}

impl Desk {
    fn id() -> ClientId {
        ClientId::parse("desk").unwrap()
    }

    /// Takes calls and answers them, for as long as the process lives.
    async fn work(&self, hub: Hub, mut connection: Connection) {
        let known: Vec<_> = self.results.lock().unwrap().clone().into_iter().collect();
        // Results that were not taken are sent again, as soon as there is somebody to take them.
        for (request, output) in known {
            _ = hub.complete(&request, &Actor::Trusted, success(&output)).await;
        }
        loop {
            let Delivery::Request { head, attempt, .. } = connection.next().await else { return };
            self.attempts.lock().unwrap().push(attempt);
            let output = self.results.lock().unwrap().get(&head.request).cloned();
            let output = output.unwrap_or_else(|| {
                *self.runs.lock().unwrap().entry(head.tool.spec.name.to_string()).or_default() += 1;
                let output = format!("{} {}", head.tool.spec.name, head.input);
                self.results.lock().unwrap().insert(head.request.clone(), output.clone());
                output
            });
            hub.complete(&head.request, &Actor::Trusted, success(&output)).await.unwrap();
        }
    }
}

fn success(output: &str) -> Outcome {
    Outcome::Success(Success { output: output.to_owned(), ..Success::default() })
}

fn tools() -> Vec<ToolSpec> {
    let spec = |name: &str| ToolSpec {
        name: ToolName::parse(name).unwrap(),
        description: String::new(),
        schema: Arc::new(Schema::any_object()),
        timeout: Some(Duration::from_secs(3_600)),
        effect: Effect::Write,
        version: None,
    };
    vec![spec("read"), spec("write")]
}

struct Process {
    store: Arc<Mortal>,
    sessions: Sessions,
}

impl Process {
    async fn start(kept: &Arc<Kept>, death: Death) -> Self {
        let store = Arc::new(Mortal::new(kept, death));
        let hub = Hub::new(Limits::default(), Clock::system(), store.clone(), TaskTracker::new());
        let mut models = Models::default();
        models.insert("test", Arc::new(Caller));
        let asks = (ToolPattern::parse("*_write").unwrap(), Permission::Ask);
        let agent = Agent { policy: Policy { client_tools: Permission::Allow, tools: vec![asks] }, ..Agent::default() };
        let setup = Setup {
            models,
            default_model: ModelRef::parse("test/caller").unwrap(),
            agents: Agents::from_iter([("default".into(), agent)]),
            tools: Vec::new(),
            frontend_tools: Vec::new(),
            hooks: Vec::new(),
        };
        Self { sessions: Sessions::new(hub, store.clone(), setup), store }
    }

    async fn recover(&self) {
        self.sessions.hub().recover().await.unwrap();
        self.sessions.recover().await.unwrap();
    }

    /// Lets the client work and the user allow what is asked, until the turn is over.
    async fn live(&self, desk: &Desk, session: &SessionId) {
        let hub = self.sessions.hub().clone();
        let opening = Opening { client: Desk::id(), name: None, grace: Duration::ZERO, session: None, last_seen: None };
        let connection = hub.connect(opening).unwrap();
        let allowing = async {
            loop {
                for ask in hub.asks(None) {
                    let answer = Answer { reply: Reply::Once, input: None, message: None };
                    self.sessions.answer(&ask.id, &Actor::Trusted, answer).await.unwrap();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let over = async {
            while self.sessions.is_busy(session) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::select! {
            () = desk.work(hub.clone(), connection) => panic!("the connection was closed"),
            () = allowing => {}
            () = over => {}
        }
    }
}

/// What is there in the end, without ids and times.
async fn end(kept: &Arc<Kept>, session: &SessionId) -> Vec<String> {
    let store = Mortal::new(kept, Death::Never);
    let said = |message: &Arc<Message>| {
        let part = |body: &PartBody| match body {
            PartBody::Tool(tool) => match &tool.state {
                ToolState::Done { input, .. } => format!("{} {input}: {:?}", tool.tool, tool.result_for_model(9_999)),
                state => panic!("{state:?} in the end"),
            },
            PartBody::Text { text, .. } => format!("text {text}"),
            PartBody::StepStart => "begins".to_owned(),
            PartBody::StepFinish { reason, .. } => format!("ends: {}", reason.as_str()),
            other => panic!("{other:?}"),
        };
        let parts: Vec<String> = message.parts.iter().map(|said| part(&said.body)).collect();
        assert!(message.turn().is_none() && (message.answers().is_none() || message.is_complete()));
        format!("{} {:?}", parts.join(", "), message.error())
    };
    let mut told: Vec<String> = store.messages(session).await.unwrap().iter().map(said).collect();
    let calls = store.list_finished(&CallFilter::default(), None, Most::items(100)).await.unwrap().items;
    let mut calls: Vec<String> =
        calls.iter().map(|(_, call)| format!("{} {:?}", call.head.tool.id, call.outcome)).collect();
    calls.sort();
    told.extend(calls);
    assert!(store.open_calls().await.unwrap().is_empty());
    assert!(store.open_turns().await.unwrap().is_empty());
    told
}

fn prompt() -> Prompt {
    let now = Clock::system().time();
    let body = PartBody::Text { text: "go".to_owned(), span: Span { start: now, end: Some(now) } };
    Prompt { message: None, parts: vec![body], agent: None, wants_reply: true, needs: TurnNeeds::default() }
}

/// How a process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It dies.
    Dies(Death),
    /// It is stopped after so many writes, and waits for nothing.
    Stops(usize),
}

/// A process that ends so, and one that does not. Returns what is there in the end, and how many writes the first one
/// has made; `None` if it had not taken the prompt.
async fn end_and_go_on(end: End) -> (Option<Vec<String>>, usize, Arc<Desk>) {
    let (kept, desk) = (Arc::new(Kept::default()), Arc::new(Desk::default()));
    // The session and the tools are there before anything dies.
    let session = {
        let before = Process::start(&kept, Death::Never).await;
        before.sessions.hub().register(&Desk::id(), &Placement::Everywhere, tools()).unwrap().stored().await.unwrap();
        let new = NewSession { client: Some(Desk::id()), ..NewSession::default() };
        before.sessions.create(new).await.unwrap()
    };
    let death = if let End::Dies(death) = end { death } else { Death::Never };
    let first = Process::start(&kept, death).await;
    let living = async {
        first.recover().await;
        first.sessions.prompt(&session, prompt()).await.unwrap();
        first.live(&desk, &session.id).await;
    };
    let dead = async {
        match end {
            End::Dies(_) => {
                while !first.store.is_dead() {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                // What is under way gets as far as it can without a store.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            End::Stops(writes) => {
                first.store.until_written(writes).await;
                first.sessions.close(Duration::ZERO).await;
                first.sessions.hub().close(Duration::ZERO).await;
            }
        }
    };
    tokio::select! {
        () = living => {}
        () = dead => {}
    }
    let writes = first.store.writes();
    let taken = !Mortal::new(&kept, Death::Never).messages(&session.id).await.unwrap().is_empty();
    if taken && end != End::Dies(Death::Never) {
        let next = Process::start(&kept, Death::Never).await;
        next.recover().await;
        next.live(&desk, &session.id).await;
    }
    let told = if taken { Some(self::end(&kept, &session.id).await) } else { None };
    (told, writes, desk)
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_as_it_would_have_whichever_write_was_the_last() {
    let (expected, writes, _) = end_and_go_on(End::Dies(Death::Never)).await;
    let expected = expected.unwrap();
    assert!(expected[2].contains("read {\"n\":0} and write {\"n\":1}"), "{expected:?}");
    assert!(writes >= 8, "{writes} writes");
    let ends = |count| [End::Dies(Death::At(count)), End::Dies(Death::After(count)), End::Stops(count)];
    for end in (0..=writes).flat_map(ends) {
        let (told, _, desk) = end_and_go_on(end).await;
        let Some(told) = told else {
            assert!(ends(0).contains(&end), "{end:?}: nothing is stored");
            continue;
        };
        assert_eq!(told, expected, "{end:?}");
        let runs = desk.runs.lock().unwrap().clone();
        assert_eq!(runs, BTreeMap::from([("read".to_owned(), 1), ("write".to_owned(), 1)]), "{end:?}");
    }
}
