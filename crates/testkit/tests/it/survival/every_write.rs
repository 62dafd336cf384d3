//! A turn with four calls at once, of which one has to be allowed, one is refused by the user and one by the agent, and a
//! process that dies at each of its writes: in the end everything is as if it had not died.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use handback_core::Hub;
use handback_core::calls::{Actor, Connection, Delivery, Opening};
use handback_core::clock::Clock;
use handback_core::id::{ClientId, RequestId, SessionId};
use handback_core::sessions::{NewSession, Sessions};
use handback_core::store::{Answer, CallFilter, CallStore, Message, Most, PartBody, Reply, SessionStore, ToolState};
use handback_core::tools::Placement;
use handback_testkit::mortal::{Death, Kept, Mortal};

use super::process;

/// A client with a memory: it runs each call once, and gives its result again when it is asked again.
#[derive(Default)]
struct Desk {
    results: Mutex<BTreeMap<RequestId, String>>,
    /// How often each tool ran.
    runs: Mutex<BTreeMap<String, usize>>,
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
            _ = hub.complete(&request, &Actor::Trusted, process::success(&output)).await;
        }
        loop {
            let Delivery::Request { head, .. } = connection.next().await else { return };
            let output = self.results.lock().unwrap().get(&head.request).cloned();
            let output = output.unwrap_or_else(|| {
                *self.runs.lock().unwrap().entry(head.tool.spec.name.to_string()).or_default() += 1;
                let output = format!("{} {}", head.tool.spec.name, head.input);
                self.results.lock().unwrap().insert(head.request.clone(), output.clone());
                output
            });
            hub.complete(&head.request, &Actor::Trusted, process::success(&output)).await.unwrap();
        }
    }
}

/// Lets the client work and the user answer what is asked, until the turn is over.
async fn live(sessions: &Sessions, desk: &Desk, session: &SessionId) {
    let hub = sessions.hub().clone();
    let opening = Opening { client: Desk::id(), name: None, grace: Duration::ZERO, session: None, last_seen: None };
    let connection = hub.connect(opening).unwrap();
    let answering = async {
        loop {
            for ask in hub.asks(None) {
                let is_refused = ask.call.tool.spec.name.as_str() == "refused";
                let reply = if is_refused { Reply::Reject } else { Reply::Once };
                let answer = Answer { reply, input: None, message: None };
                sessions.answer(&ask.id, &Actor::Trusted, answer).await.unwrap();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let over = async {
        while sessions.is_busy(session) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = desk.work(hub.clone(), connection) => panic!("the connection was closed"),
        () = answering => {}
        () = over => {}
    }
}

/// What is there in the end, without ids and times.
async fn end(kept: &Arc<Kept>, session: &SessionId) -> Vec<String> {
    let store = Mortal::new(kept, Death::Never);
    let said = |message: &Arc<Message>| {
        let part = |body: &PartBody| match body {
            PartBody::Tool(tool) => match &tool.state {
                ToolState::Done { input, .. } => format!("{} {input}: {}", tool.tool, process::result_of(tool)),
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
    let start = |death| {
        let store = Mortal::new(&kept, death);
        (process::start(&store, Clock::system()), store)
    };
    // The session and the tools are there before anything dies.
    let session = {
        let (before, _) = start(Death::Never);
        let tools = process::tools(Duration::from_secs(3_600));
        before.hub().register(&Desk::id(), &Placement::Everywhere, tools).unwrap().stored().await.unwrap();
        let new = NewSession { client: Some(Desk::id()), ..NewSession::default() };
        before.create(new).await.unwrap()
    };
    let (first, store) = start(if let End::Dies(death) = end { death } else { Death::Never });
    let living = async {
        process::recover(&first).await;
        first.prompt(&session, process::prompt(&Clock::system(), "read+asked+refused+denied")).await.unwrap();
        live(&first, &desk, &session.id).await;
    };
    let dead = async {
        match end {
            End::Dies(_) => {
                store.until_dead().await;
                // What is under way gets as far as it can without a store.
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            End::Stops(writes) => {
                store.until_written(writes).await;
                process::stop(&first).await;
            }
        }
    };
    tokio::select! {
        () = living => {}
        () = dead => {}
    }
    let taken = !Mortal::new(&kept, Death::Never).messages(&session.id).await.unwrap().is_empty();
    if taken && end != End::Dies(Death::Never) {
        let (next, _) = start(Death::Never);
        process::recover(&next).await;
        live(&next, &desk, &session.id).await;
    }
    let told = if taken { Some(self::end(&kept, &session.id).await) } else { None };
    (told, store.writes(), desk)
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_as_it_would_have_whichever_write_was_the_last() {
    let (expected, writes, _) = end_and_go_on(End::Dies(Death::Never)).await;
    let expected = expected.unwrap();
    assert!(expected[2].contains("read {\"n\":0} and asked {\"n\":1}"), "{expected:?}");
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
        assert_eq!(runs, BTreeMap::from([("read".to_owned(), 1), ("asked".to_owned(), 1)]), "{end:?}");
    }
}
