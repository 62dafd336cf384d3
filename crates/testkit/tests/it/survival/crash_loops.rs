//! Processes that end again and again: a turn that ends them is given up, and turns that are well are not.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use handback_core::clock::Clock;
use handback_core::sessions::NewSession;
use handback_core::store::{Message, Session, SessionStore, TurnError};
use handback_testkit::mortal::{Death, Kept, Mortal};
use tokio::time::{sleep, timeout};

use super::process::{self, DEADLY};

/// So many lives a turn has that comes no further.
const LIVES: usize = 10;
/// How long a process is looked at.
const A_WHILE: Duration = Duration::from_secs(3_600);
/// A call of a tool that is not there, and an answer.
const WELL: &str = "nothing";

/// Sessions in which each of these is said. Whatever they say, the model is not asked yet.
async fn say(kept: &Arc<Kept>, clock: &Clock, texts: &[&str]) -> Vec<Arc<Session>> {
    let (store, mut said) = (Mortal::new(kept, Death::Never), Vec::new());
    let sessions = process::start(&store, clock.clone());
    for text in texts {
        let session = sessions.create(NewSession::default()).await.unwrap();
        sessions.prompt(&session, process::prompt(clock, text)).await.unwrap();
        said.push(session);
    }
    store.die();
    said
}

/// A process that takes up what the one before has left, until nothing is under way. Says no if it is dead before.
async fn live(store: &Mortal, clock: &Clock, said: &[Arc<Session>]) -> bool {
    let sessions = process::start(store, clock.of_next_process());
    let over = async {
        process::recover(&sessions).await;
        while said.iter().any(|session| sessions.is_busy(&session.id)) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = store.until_dead() => false,
        over = timeout(A_WHILE, over) => over.is_ok(),
    }
}

/// The answer in a session, if there is one.
async fn answer(kept: &Arc<Kept>, session: &Session) -> Option<Arc<Message>> {
    let messages = Mortal::new(kept, Death::Never).messages(&session.id).await.unwrap();
    messages.into_iter().find(|message| message.answers().is_some() && message.is_complete())
}

#[tokio::test(start_paused = true)]
async fn turns_that_end_the_process_are_given_up_and_the_others_are_answered() {
    let (kept, clock) = (Arc::new(Kept::default()), Clock::running());
    let texts = [WELL, DEADLY, WELL, WELL, DEADLY, WELL];
    let said = say(&kept, &clock, &texts).await;
    let mut lives = 0;
    while !live(&Mortal::slow(&kept, Death::Never, Rng::with_seed(lives)), &clock, &said).await {
        lives += 1;
        assert!(lives <= 2 * LIVES as u64, "it goes on and on");
    }
    for (text, session) in texts.iter().zip(&said) {
        let answer = answer(&kept, session).await.unwrap();
        match answer.error() {
            None => assert_eq!(*text, WELL, "what ends the process was answered"),
            Some(TurnError::Other(error)) => {
                let given_up = format!("The turn was given up: the server was restarted {LIVES} times");
                assert!(*text == DEADLY && error.starts_with(&given_up), "\"{text}\": {error}");
            }
            Some(error) => panic!("\"{text}\": {error:?}"),
        }
    }
}

/// Processes that end for another reason, after less time than a turn needs for its first step or after a little more.
#[tokio::test(start_paused = true)]
async fn a_turn_that_is_well_is_answered_however_often_the_process_ends() {
    for seed in 0..50 {
        let (kept, clock, mut random) = (Arc::new(Kept::default()), Clock::running(), Rng::with_seed(seed));
        let said = say(&kept, &clock, &[WELL; 20]).await;
        for _ in 0..50 {
            let store = Mortal::slow(&kept, Death::Never, random.fork());
            let lasts = Duration::from_millis(random.u64(..1_000));
            if let Ok(is_over) = timeout(lasts, live(&store, &clock, &said)).await {
                assert!(is_over);
            }
            store.die();
        }
        assert!(live(&Mortal::new(&kept, Death::Never), &clock, &said).await, "seed {seed}: it does not end");
        for session in &said {
            let answer = answer(&kept, session).await.unwrap();
            assert_eq!(answer.error(), None, "seed {seed}");
        }
    }
}
