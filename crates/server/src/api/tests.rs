//! A new protocol gets prompts, page tools, holds, resumes and repeats from what all have in common.

pub(crate) mod plain;

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use futures_util::stream;
use handback_core::calls::{Actor, Connection, Delivery, Opening};
use handback_core::clock::Clock;
use handback_core::id::{ClientId, SessionId, ToolName};
use handback_core::schema::Schema;
use handback_core::sessions::{Model, ModelEvent, ModelRequest, ModelStream};
use handback_core::store::{Effect, ModelRef, Outcome, StopReason, Success, ToolSpec};
use handback_core::tools::{Permission, Placement};
use serde_json::{Value, json};
use tower_service::Service;

use crate::app::{App, Extensions};
use crate::config::{Agent, AgentPermission, Config};

/// Says, step by step, what it was told to say.
#[derive(Default)]
struct Told(Mutex<VecDeque<Vec<ModelEvent>>>);

impl Model for Told {
    fn stream(&self, _: ModelRequest<'_>) -> ModelStream {
        let step = self.0.lock().unwrap().pop_front().expect("a step");
        Box::pin(stream::iter(step.into_iter().map(Ok)))
    }
}

fn says(text: &str) -> Vec<ModelEvent> {
    vec![ModelEvent::Text(text.to_owned()), ModelEvent::Stop(StopReason::Stop)]
}

fn calls(names: &[&str]) -> Vec<ModelEvent> {
    let call = |(index, name): (usize, &&str)| {
        let (id, name) = (String::new(), (*name).to_owned());
        [ModelEvent::CallStarted { index, id, name }, ModelEvent::CallEnded { index, kept: None }]
    };
    names.iter().enumerate().flat_map(call).chain([ModelEvent::Stop(StopReason::ToolCalls)]).collect()
}

struct World {
    app: App,
    router: Router,
}

impl World {
    async fn start(steps: Vec<Vec<ModelEvent>>, permission: Permission) -> Self {
        let mut config = Config { model: ModelRef::parse("fake/model").unwrap(), ..Config::default() };
        let permission = AgentPermission { client_tools: permission, ..AgentPermission::default() };
        config.agents.insert("default".to_owned(), Agent { permission, ..Agent::default() });
        let model: Arc<dyn Model> = Arc::new(Told(Mutex::new(steps.into())));
        let extensions = Extensions { models: vec![("fake".to_owned(), model)], ..Extensions::default() };
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let app = App::new(config, address, Clock::system(), extensions).await.unwrap();
        let router = App::routes().router.with_state(app.clone());
        Self { app, router }
    }

    /// What a request is answered with, line by line, and the names that come last in them.
    async fn talk(&self, body: Value) -> Vec<String> {
        let request = Request::post("/plain").body(Body::from(body.to_string())).unwrap();
        let response = self.router.clone().call(request).await.unwrap();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    /// A client with one tool, which is offered in a session.
    fn client(&self, session: &str) -> Connection {
        let client = ClientId::parse("tab").unwrap();
        let spec = ToolSpec {
            name: ToolName::parse("click").unwrap(),
            description: String::new(),
            schema: Arc::new(Schema::any_object()),
            timeout: None,
            effect: Effect::Write,
            version: None,
        };
        let place = Placement::In(SessionId::parse(session).unwrap());
        self.app.hub().register(&client, &place, vec![spec]).unwrap();
        let opening = Opening { client, name: None, grace: Duration::ZERO, session: None, last_seen: None };
        self.app.hub().connect(opening).unwrap()
    }

    /// A client answers the next call that it is given.
    async fn answer(&self, connection: &mut Connection, output: &str) {
        let Delivery::Request { head, .. } = connection.next().await else { panic!("a call") };
        let success = Success { output: output.to_owned(), ..Success::default() };
        self.app.hub().complete(&head.request, &Actor::Trusted, Outcome::Success(success)).await.unwrap();
    }
}

/// The last word of a line.
fn name(line: &str) -> &str {
    line.rsplit(' ').next().unwrap()
}

#[tokio::test]
async fn what_is_said_is_answered_and_a_repeat_is_told_again() {
    let world = World::start(vec![says("Hello.")], Permission::Allow).await;
    let said = json!({ "chat": "c", "id": "m1", "say": "hi" });
    assert_eq!(world.talk(said.clone()).await, ["say Hello.", "said Hello.", "end"]);
    // The model is not asked again: it would have nothing to say.
    assert_eq!(world.talk(said).await, ["said Hello.", "end"]);
}

#[tokio::test]
async fn a_page_runs_its_own_tools_and_the_turn_goes_on_with_their_results() {
    let world = World::start(vec![calls(&["pick"]), says("Blue.")], Permission::Allow).await;
    let lines = world.talk(json!({ "chat": "c", "say": "which?", "tools": ["pick"] })).await;
    assert_eq!((lines.len(), lines[1].as_str()), (2, "end"), "{lines:?}");
    let results = json!({ name(&lines[0]): "blue" });
    let lines = world.talk(json!({ "chat": "c", "tools": ["pick"], "results": results })).await;
    assert_eq!(lines, ["say Blue.", "said Blue.", "end"]);
}

#[tokio::test]
async fn a_clients_tool_is_held_for() {
    let world = World::start(vec![calls(&["client_tab_click"]), says("Done.")], Permission::Allow).await;
    let mut connection = world.client("c");
    let talking = world.talk(json!({ "chat": "c", "say": "click" }));
    let (lines, ()) = tokio::join!(talking, world.answer(&mut connection, "clicked"));
    assert_eq!(lines, ["got clicked", "say Done.", "said Done.", "end"]);
}

#[tokio::test]
async fn an_ask_ends_the_stream_and_its_answer_resumes_the_turn() {
    let world = World::start(vec![calls(&["client_tab_click"]), says("Done.")], Permission::Ask).await;
    let mut connection = world.client("c");
    let lines = world.talk(json!({ "chat": "c", "say": "click" })).await;
    assert_eq!((lines.len(), &lines[0][..4]), (1, "ask "), "{lines:?}");
    let talking = world.talk(json!({ "chat": "c", "allow": [name(&lines[0])] }));
    let (lines, ()) = tokio::join!(talking, world.answer(&mut connection, "clicked"));
    assert_eq!(lines, ["got clicked", "say Done.", "said Done.", "end"]);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_and_makes_no_session() {
    let world = World::start(Vec::new(), Permission::Allow).await;
    assert_eq!(world.talk(json!({ "chat": "c", "results": { "nothing": "x" } })).await, [""; 0]);
    assert!(world.app.sessions().get(&SessionId::parse("c").unwrap()).await.is_err());
}
