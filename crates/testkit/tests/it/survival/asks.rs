//! Asks that outlive the process: they are answered as soon as the next one is there, or their time is over by then.

use std::sync::Arc;
use std::time::Duration;

use handback_core::calls::{Actor, Delivery, NotAnswered, Opening};
use handback_core::clock::Clock;
use handback_core::events::TurnEvent;
use handback_core::id::ClientId;
use handback_core::sessions::{NewSession, PageRequest, Prompt};
use handback_core::store::{Answer, Reply, Session, SessionStore, TurnNeeds};
use handback_core::tools::Placement;
use handback_testkit::mortal::{Death, Kept, Mortal};
use tokio::time::{Instant, sleep, timeout};

use super::process;

fn desk() -> ClientId {
    ClientId::parse("desk").unwrap()
}

/// A process that dies while a turn waits for the answer to an ask. Returns the session.
async fn ask_and_die(kept: &Arc<Kept>, clock: &Clock) -> Arc<Session> {
    let store = Mortal::new(kept, Death::Never);
    let sessions = process::start(&store, clock.clone());
    let tools = process::tools(Duration::from_secs(3_600));
    sessions.hub().register(&desk(), &Placement::Everywhere, tools).unwrap().stored().await.unwrap();
    let session = sessions.create(NewSession { client: Some(desk()), ..NewSession::default() }).await.unwrap();
    let needs = TurnNeeds { is_followed: true, ..TurnNeeds::default() };
    sessions.prompt(&session, Prompt { needs, ..process::prompt(clock, "asked") }).await.unwrap();
    while sessions.hub().asks(None).is_empty() {
        sleep(Duration::from_millis(10)).await;
    }
    store.die();
    session
}

#[tokio::test(start_paused = true)]
async fn an_ask_whose_time_is_over_meanwhile_is_denied_at_the_start() {
    for (seconds, is_over) in [(298, false), (301, true)] {
        let (kept, clock) = (Arc::new(Kept::default()), Clock::running());
        let session = ask_and_die(&kept, &clock).await;
        clock.jump(seconds * 1_000);
        let store = Mortal::new(&kept, Death::Never);
        let sessions = process::start(&store, clock.of_next_process());
        process::recover(&sessions).await;
        if is_over && let Some(ask) = sessions.hub().asks(None).pop() {
            // The process has not looked at the time yet.
            let yes = Answer { reply: Reply::Once, input: None, message: None };
            let answered = sessions.hub().answer(&ask.id, &Actor::Trusted, yes).await;
            assert!(matches!(answered, Err(NotAnswered::Unknown(_))), "{answered:?}");
        }
        let began = Instant::now();
        let over = async {
            while sessions.is_busy(&session.id) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), over).await.expect("the turn is over");
        assert_eq!(began.elapsed() < Duration::from_millis(500), is_over);
        let messages = store.messages(&session.id).await.unwrap();
        assert_eq!(process::text_of(messages.last().unwrap()), "Denied: the approval expired");
    }
}

#[tokio::test(start_paused = true)]
async fn who_answers_an_ask_before_its_turn_is_entered_again_is_told_how_it_goes_on() {
    let kept = Arc::new(Kept::default());
    let session = ask_and_die(&kept, &Clock::system()).await;
    let sessions = process::start(&Mortal::new(&kept, Death::Never), Clock::system());
    process::recover(&sessions).await;
    let [ask] = sessions.hub().asks(None).try_into().unwrap();
    let yes = Answer { reply: Reply::Once, input: None, message: None };
    let request = PageRequest { answers: vec![(ask.id.clone(), yes)], ..PageRequest::default() };
    // Nothing but this runs until it waits.
    let mut playback = sessions.converse(&session, &Actor::Trusted, &request).await.unwrap();
    let opening = Opening { client: desk(), name: None, grace: Duration::ZERO, session: None, last_seen: None };
    let mut connection = sessions.hub().connect(opening).unwrap();
    let Delivery::Request { head, .. } = connection.next().await else { panic!("no request") };
    sessions.hub().complete(&head.request, &Actor::Trusted, process::success("done")).await.unwrap();
    let (mut said, mut answered) = (Vec::new(), false);
    while let Some(event) = playback.next().await {
        match event {
            TurnEvent::Answered { reply, .. } => answered = reply == Reply::Once,
            TurnEvent::StepDone(answer) => said.push(answer.answers().is_some()),
            TurnEvent::Ended(error) => assert!(error.is_none(), "{error:?}"),
            _ => {}
        }
    }
    assert!(answered && said == [true, true], "{answered} {said:?}");
}
