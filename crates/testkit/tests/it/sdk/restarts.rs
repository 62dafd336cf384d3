//! A server that ends at the worst moment and is had again: whoever waits notices nothing but the time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handback_client::{
    Client, ClientOptions, Effect, ExecuteOptions, Invocation, Options, SessionHandle, StartSession, Status, Transport,
    TurnEvent,
};
use handback_core::sessions::ModelEvent;
use handback_core::store::StopReason;
use handback_testkit::server::{PATIENCE, lasting_address, until};
use handback_testkit::{FakeModel, Scratch, TestServer};
use handback_wire::client_tools::Outcome;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, UnboundedReceiver};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::proxy::{Moment, Proxy};
use super::tools::{BOTH, gated};
use crate::restarts::{Killed, Restarts, Stopped};

const TOOL: &str = "client_laptop_gated";

/// A server that remembers, and a client of it with a tool that answers when the test says so.
struct Stage<S> {
    server: S,
    address: SocketAddr,
    data: Scratch,
    proxy: Proxy,
    client: Client,
    session: SessionHandle,
    starts: UnboundedReceiver<Invocation>,
    gate: Arc<Semaphore>,
    statuses: UnboundedReceiver<Status>,
}

impl<S: Restarts> Stage<S> {
    async fn set(mut server: S, transport: Transport) -> Self {
        let data = Scratch::new();
        let address = server.start(lasting_address(), &data).await;
        let proxy = Proxy::to(address).await;
        let (observer, statuses) = mpsc::unbounded_channel();
        let tools = Options::with(|options| {
            options.transport = transport;
            options.reconnect = (Duration::from_millis(10), Duration::from_millis(50));
            options.observer = Arc::new(move |status| drop(observer.send(status)));
        });
        let options = ClientOptions::with(|options| {
            options.client_id = Some("laptop".to_owned());
            options.tools = tools;
        });
        let client = Client::new(&proxy.url, options).unwrap();
        let (tool, starts, gate) = gated();
        // A `write` that is on its way to the client when the server ends is not run, since it may have been.
        client.tools().register(tool.effect(Effect::Read)).await.unwrap();
        let session = client.start_session(StartSession::default()).await.unwrap();
        Self { server, address, data, proxy, client, session, starts, gate, statuses }
    }

    async fn restart(&mut self) {
        self.server.start(self.address, &self.data).await;
    }

    /// The next call that the client runs.
    async fn started(&mut self) -> Invocation {
        timeout(PATIENCE, self.starts.recv()).await.expect("a call starts").unwrap()
    }

    /// Makes a prompt and a call in the background, both answered by the tool.
    fn ask(&self) -> JoinHandle<(String, Value)> {
        let (client, session) = (self.client.clone(), self.session.session().id.clone());
        TaskTracker::new().spawn(async move {
            let prompt = client.tools().turn(&session, "call gated {}").finish();
            let call = client.execute(TOOL, json!({ "a": 1 }), ExecuteOptions::default());
            let (answer, result) = timeout(PATIENCE, async { tokio::join!(prompt, call) }).await.expect("answers");
            (answer.unwrap().text(), serde_json::to_value(result.unwrap()).unwrap())
        })
    }

    /// Checks that nothing but time has passed: each call was run once, each result delivered, and the prompt said once.
    async fn must_be_answered(mut self, asked: JoinHandle<(String, Value)>) {
        let (answer, result) = asked.await.unwrap();
        assert_eq!(answer, "The tool `gated` answered: through the gate");
        assert_eq!(result, json!({ "status": "success", "title": "", "output": "through the gate" }));
        let statuses: Vec<_> = std::iter::from_fn(|| self.statuses.try_recv().ok()).collect();
        let undelivered = |status: &&Status| matches!(status, Status::Undelivered { .. });
        assert_eq!(statuses.iter().find(undelivered), None);
        assert!(self.starts.try_recv().is_err(), "a call was run again");
        let messages = self.client.api().messages(&self.session.session().id, None).await.unwrap();
        let roles: Vec<_> = messages.iter().map(|message| message.info.role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "assistant"]);
    }
}

/// The server ends while both handlers run, and they end when it is back and has offered both calls again.
async fn while_handlers_run(server: impl Restarts, transport: Transport) {
    let mut stage = Stage::set(server, transport).await;
    let asked = stage.ask();
    let started = [stage.started().await, stage.started().await];
    stage.server.stop().await;
    stage.restart().await;
    for call in started {
        until("it is offered again", async || {
            let call = stage.client.api().call(&call.request.request_id, None).await;
            call.is_ok_and(|call| call.attempt == 2)
        })
        .await;
    }
    stage.gate.add_permits(2);
    stage.must_be_answered(asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_while_handlers_run_costs_time_only() {
    for transport in BOTH {
        while_handlers_run(Killed::default(), transport).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_stopped_while_handlers_run_costs_time_only() {
    for transport in BOTH {
        while_handlers_run(Stopped::default(), transport).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results_are_delivered_to_a_server_that_is_away_when_the_handlers_end() {
    for transport in BOTH {
        let mut stage = Stage::set(Killed::default(), transport).await;
        let asked = stage.ask();
        stage.started().await;
        stage.started().await;
        stage.server.stop().await;
        stage.gate.add_permits(2);
        for _ in 0..2 {
            while !matches!(stage.statuses.recv().await, Some(Status::Finished { .. })) {}
        }
        stage.restart().await;
        stage.must_be_answered(asked).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_again_and_again_costs_time_only() {
    let mut stage = Stage::set(Killed::default(), Transport::Sse).await;
    let asked = stage.ask();
    stage.started().await;
    stage.started().await;
    for _ in 0..3 {
        stage.server.stop().await;
        stage.restart().await;
    }
    stage.gate.add_permits(2);
    stage.must_be_answered(asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_while_the_server_is_away_is_answered_when_it_is_back() {
    let mut stage = Stage::set(Killed::default(), Transport::Sse).await;
    stage.gate.add_permits(2);
    stage.server.stop().await;
    stage.client.tools().state().wait_for(|state| !state.is_open()).await.unwrap();
    let asked = stage.ask();
    stage.restart().await;
    stage.started().await;
    stage.started().await;
    stage.must_be_answered(asked).await;
}

/// The server is killed with a request on its way, before it has it or before its answer arrives.
async fn lost_with(request: &'static str, moment: Moment) {
    let mut stage = Stage::set(Killed::default(), Transport::Sse).await;
    stage.gate.add_permits(2);
    let lost = stage.proxy.lose(request, moment);
    let asked = stage.ask();
    timeout(PATIENCE, lost).await.expect("the request comes").unwrap();
    stage.server.stop().await;
    stage.restart().await;
    stage.proxy.open();
    stage.started().await;
    stage.started().await;
    stage.must_be_answered(asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_before_it_has_a_request_gets_it_again() {
    for request in ["/prompt_async", "/client-tools/execute", "/client-tools/result"] {
        lost_with(request, Moment::Before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_before_it_has_answered_a_request_does_it_once() {
    for request in ["/prompt_async", "/client-tools/execute", "/client-tools/result"] {
        lost_with(request, Moment::After).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_is_started_while_the_server_is_killed_is_started() {
    for moment in [Moment::Before, Moment::After] {
        let mut stage = Stage::set(Killed::default(), Transport::Sse).await;
        let lost = stage.proxy.lose("POST /session ", moment);
        let client = stage.client.clone();
        let starting = TaskTracker::new().spawn(async move { client.start_session(StartSession::default()).await });
        timeout(PATIENCE, lost).await.expect("the request comes").unwrap();
        stage.server.stop().await;
        stage.restart().await;
        stage.proxy.open();
        let session = timeout(PATIENCE, starting).await.expect("it starts").unwrap().unwrap();
        stage.gate.add_permits(1);
        let answer = timeout(PATIENCE, session.prompt("call gated {}")).await.expect("an answer").unwrap();
        assert_eq!(answer.text(), "The tool `gated` answered: through the gate");
        let mut sessions = stage.client.api().sessions(None).await.unwrap();
        sessions.retain(|known| known.id != session.session().id && known.id != stage.session.session().id);
        assert!(sessions.is_empty(), "a session that nobody knows: {sessions:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_given_up_while_the_server_is_away_is_cancelled_when_it_is_back() {
    for is_dropped in [false, true] {
        let mut stage = Stage::set(Killed::default(), Transport::Sse).await;
        let options = ExecuteOptions::with(|options| options.request_id = Some("mine".to_owned()));
        let (client, cancellation) = (stage.client.clone(), options.cancellation.clone());
        let executing = TaskTracker::new().spawn(async move { client.execute(TOOL, json!({}), options).await });
        stage.started().await;
        stage.server.stop().await;
        if is_dropped {
            executing.abort();
        } else {
            cancellation.cancel();
        }
        stage.restart().await;
        until("it is cancelled", async || {
            let call = stage.client.api().call("mine", None).await;
            call.is_ok_and(|call| matches!(call.outcome, Some(Outcome::Cancelled { .. })))
        })
        .await;
        if !is_dropped {
            let ended = timeout(PATIENCE, executing).await.expect("it ends").unwrap().unwrap_err();
            assert_eq!((ended.status(), ended.to_string().as_str()), (Some(409), "Cancelled"));
        }
    }
}

#[tokio::test]
async fn a_server_that_is_restarted_while_the_model_speaks_has_it_speak_again() {
    let (model, data, address) = (FakeModel::default(), Scratch::new(), lasting_address());
    let start = || {
        TestServer::with_model(&model, |config| {
            config.listen = address;
            config.data = Some(data.path().to_owned());
            config.limits.drain_timeout = Duration::from_millis(50);
        })
    };
    let server = start().await;
    let client = Client::new(&server.url, ClientOptions::default()).unwrap();
    let session = client.start_session(StartSession::with(|session| session.without_tools = true)).await.unwrap();
    let mut turn = session.stream("hello");
    let speaking = async {
        let asked = model.asked().await;
        asked.say(ModelEvent::Text("Good ".to_owned()));
        asked
    };
    let mut events = Vec::new();
    let (first, _asked) = tokio::join!(turn.next(), speaking);
    events.push(first.unwrap().unwrap());
    server.stop().await;
    let server = start().await;
    let speaking = async {
        let asked = model.asked().await;
        asked.say(ModelEvent::Text("Good day".to_owned()));
        asked.say(ModelEvent::Stop(StopReason::Stop));
    };
    let listening = async {
        while let Some(event) = turn.next().await {
            events.push(event.unwrap());
        }
    };
    timeout(PATIENCE, async { tokio::join!(listening, speaking) }).await.expect("an answer");
    let Some(TurnEvent::Done { message, .. }) = events.last() else { panic!("{events:?}") };
    assert_eq!(message.text(), "Good day");
    let pieces: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            TurnEvent::Text { part, text } => Some((part, text.as_str())),
            _ => None,
        })
        .collect();
    let [(dropped, "Good "), (said, "Good day")] = pieces[..] else { panic!("{pieces:?}") };
    assert_ne!(dropped, said);
    assert_eq!(server.history(&session.session().id).await, ["user | hello", "assistant | Good day | <stop>"]);
}
