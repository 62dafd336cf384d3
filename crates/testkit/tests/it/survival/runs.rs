//! A run of a thread, whose process dies at any write: whoever follows it afterwards has the whole conversation, each thing
//! once.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use handback_core::clock::Clock;
use handback_core::id::{MessageId, RunId};
use handback_core::sessions::{NewSession, PageRequest, Runs, Said, Sessions};
use handback_core::store::{Message, PartBody, Session, SessionStore, ToolState, TurnNeeds};
use handback_core::{calls::Actor, events::TurnEvent};
use handback_testkit::mortal::{Death, Kept, Mortal};
use serde_json::value::to_raw_value;
use tokio::time::sleep;

use super::process;

/// A call of a tool that is not there, and an answer.
const TEXT: &str = "nothing";

/// A process whose store takes its time: a run stores what it tells while the turn goes on.
fn start(kept: &Arc<Kept>, death: Death, seed: u64) -> (Sessions, Runs, Mortal) {
    let store = Mortal::slow(kept, death, Rng::with_seed(seed));
    let sessions = process::start(&store, Clock::system());
    let runs = Runs::new(sessions.hub().clone(), Arc::new(store.clone()));
    (sessions, runs, store)
}

/// Starts a run, as a page does, and records it to its end.
async fn converse(sessions: &Sessions, runs: &Runs, session: &Arc<Session>, run: &RunId) {
    let recorder = runs.start(&session.id, run, to_raw_value(&()).unwrap()).await.unwrap();
    let said = Said { message: None, parts: process::prompt(&Clock::system(), TEXT).parts };
    let needs = TurnNeeds { is_followed: true, run: Some(run.clone()), ..TurnNeeds::default() };
    let request = PageRequest { said: vec![said], needs, ..PageRequest::default() };
    recorder.record(sessions.converse(session, &Actor::Trusted, &request).await.unwrap()).await;
}

/// What somebody knows who has followed a run: the answers with what is in them, in order.
#[derive(Debug, Default, PartialEq, Eq)]
struct Known(Vec<(MessageId, Vec<String>)>);

impl Known {
    fn part(&mut self, message: &MessageId, body: &PartBody) {
        let text = match body {
            PartBody::Text { text, .. } => text.clone(),
            PartBody::Tool(tool) if matches!(tool.state, ToolState::Done { .. }) => process::result_of(tool),
            _ => return,
        };
        let (_, parts) = self.0.iter_mut().find(|(id, _)| id == message).expect("an answer that was begun");
        parts.push(text);
    }

    fn answer(&mut self, answer: &Message) {
        assert!(self.0.iter().all(|(id, _)| *id != answer.id), "{} begins twice", answer.id);
        self.0.push((answer.id.clone(), Vec::new()));
        answer.parts.iter().for_each(|part| self.part(&answer.id, &part.body));
    }

    fn hear(&mut self, event: &TurnEvent) {
        match event {
            TurnEvent::StepBegan(answer) => self.answer(answer),
            TurnEvent::Part { message, part } => self.part(message, &part.body),
            TurnEvent::Restarted { answers, .. } => {
                self.0.clear();
                answers.iter().for_each(|answer| self.answer(answer));
            }
            TurnEvent::Ended(error) => assert!(error.is_none(), "{error:?}"),
            _ => {}
        }
    }
}

/// Lets a process die while it runs a turn that a run tells of, and another one go on. Returns what whoever follows the run
/// knows then, what is stored, and how many writes the first process has made; `None` if it had not taken the prompt.
async fn die_and_go_on(death: Death, seed: u64) -> (Option<(Known, Known)>, usize) {
    let kept = Arc::new(Kept::default());
    let (session, run) = {
        let (sessions, runs, _) = start(&kept, Death::Never, seed);
        let session = sessions.create(NewSession::default()).await.unwrap();
        let run = runs.create(&session.id, None, None).await.unwrap();
        (session, run.id.clone())
    };
    let (sessions, runs, store) = start(&kept, death, seed);
    let dead = async {
        store.until_dead().await;
        sleep(Duration::from_secs(1)).await;
    };
    tokio::select! {
        () = converse(&sessions, &runs, &session, &run) => {}
        () = dead => {}
    }
    let (sessions, runs, reading) = start(&kept, Death::Never, seed);
    if reading.messages(&session.id).await.unwrap().is_empty() {
        return (None, store.writes());
    }
    sessions.hub().recover().await.unwrap();
    let left = sessions.recover().await.unwrap();
    runs.recover(&sessions).await.unwrap();
    left.begin();
    let (_, feed) = runs.run_with_feed(&session.id, &run).await.unwrap().unwrap();
    let mut following = feed.follow(0);
    let mut known = Known::default();
    while let Some(event) = following.next().await {
        known.hear(&event);
    }
    let mut stored = Known::default();
    let messages = reading.messages(&session.id).await.unwrap();
    messages.iter().filter(|message| message.answers().is_some()).for_each(|answer| stored.answer(answer));
    (Some((known, stored)), store.writes())
}

#[tokio::test(start_paused = true)]
async fn a_run_tells_the_whole_turn_whichever_write_was_the_last() {
    for seed in 0..5 {
        let (whole, writes) = die_and_go_on(Death::Never, seed).await;
        let (known, stored) = whole.unwrap();
        assert_eq!((known.0.len(), &known), (2, &stored));
        assert!(writes >= 8, "{writes} writes");
        for death in (0..=writes).flat_map(|count| [Death::At(count), Death::After(count)]) {
            match die_and_go_on(death, seed).await.0 {
                Some((known, stored)) => assert_eq!((stored.0.len(), known), (2, stored), "{seed}, {death:?}"),
                None => assert!(matches!(death, Death::At(0..4) | Death::After(0..4)), "{death:?}: the prompt is lost"),
            }
        }
    }
}
