//! What is kept of a session, and whose it is.

use super::*;
use crate::store::OpenTurn;

/// The needs of a prompt that a client sends.
fn by(client: &str) -> TurnNeeds {
    TurnNeeds { client: Some(ClientId::parse(client).unwrap()), ..TurnNeeds::default() }
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
    assert!(!world.sessions.delete(&session).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_session_is_its_clients_and_an_unclaimed_one_is_the_first_prompters() {
    let world = World::new(vec![]);
    let bound = world.session().await;
    let free = world.sessions.create(NewSession::default()).await.unwrap();
    let as_client = |name: &str| Prompt { needs: by(name), ..prompt("hi") };
    let stranger = world.sessions.prompt(&bound, as_client("stranger")).await;
    assert!(matches!(stranger, Err(SessionError::Forbidden)), "{stranger:?}");
    assert!(world.sessions.messages(&bound.id).await.unwrap().is_empty());
    world.sessions.prompt(&free, as_client("tab")).await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[0]["tools"], json!(["client_tab_a", "client_tab_b"]));
    let free = world.sessions.get(&free.id).await.unwrap();
    let late = world.sessions.prompt(&free, as_client("stranger")).await;
    assert!(matches!(late, Err(SessionError::Forbidden)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_with_messages_is_not_taken_by_the_client_of_a_later_prompt() {
    let world = World::new(vec![]);
    let session = world.sessions.create(NewSession::default()).await.unwrap();
    let as_client = |name: &str| Prompt { needs: by(name), ..prompt("hi") };
    world.say(&session, "between us").await.unwrap().answer.unwrap().await.unwrap();
    // Its tools are there for this turn.
    world.sessions.prompt(&session, as_client("tab")).await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["tools"], json!(["client_tab_a", "client_tab_b"]));
    assert_eq!(world.sessions.get(&session.id).await.unwrap().client, None);
    world.sessions.prompt(&session, as_client("stranger")).await.unwrap().answer.unwrap().await.unwrap();
    world.say(&session, "alone again").await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!([&world.shown()[2]["tools"], &world.shown()[3]["tools"]], [&json!([]), &json!([])]);
}

#[tokio::test(start_paused = true)]
async fn tools_come_into_a_session_by_its_client_the_application_or_whoever_is_limited_to_it() {
    let world = World::new(vec![]);
    let bound = world.session().await.id.clone();
    let free = world.sessions.create(NewSession::default()).await.unwrap().id.clone();
    let opaque = SessionId::parse("opaque").unwrap();
    let [tab, other] = ["tab", "other"].map(|name| ClientId::parse(name).unwrap());
    let placed = async |caller: &Actor, client: &ClientId, session: &SessionId| {
        let placement = world.sessions.placement(caller, client, Some(session.clone())).await;
        placement.map_err(|error| assert!(matches!(error, SessionError::Forbidden | SessionError::NobodysSession(_))))
    };
    let whole = |client: &ClientId| Actor::Client { client: client.clone(), session: None };
    let limited =
        |client: &ClientId, to: &SessionId| Actor::Client { client: client.clone(), session: Some(to.clone()) };
    for session in [&bound, &free, &opaque] {
        assert_eq!(placed(&Actor::Trusted, &tab, session).await, Ok(Placement::In(session.clone())));
        assert_eq!(placed(&limited(&tab, session), &tab, session).await, Ok(Placement::OnlyIn(session.clone())));
    }
    assert_eq!(placed(&whole(&tab), &tab, &bound).await, Ok(Placement::In(bound.clone())));
    for session in [&free, &opaque] {
        assert_eq!(placed(&whole(&tab), &tab, session).await, Err(()));
    }
    for caller in [Actor::Trusted, whole(&other), limited(&other, &bound)] {
        assert_eq!(placed(&caller, &other, &bound).await, Err(()), "it is another client's");
    }
    assert_eq!(world.sessions.placement(&whole(&tab), &tab, None).await.unwrap(), Placement::Everywhere);
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
async fn the_turns_that_an_earlier_process_left_open_go_on_in_their_order() {
    let world = World::new(vec![text("one"), text("two")]);
    let session = world.session().await;
    let user = |id: &str, turn: Option<OpenTurn>| Message {
        id: MessageId::parse(id).unwrap(),
        session: session.id.clone(),
        created: crate::clock::Time(0),
        role: Role::User(UserMessage {
            wants_reply: turn.is_some(),
            turn,
            ..UserMessage::new("default", ModelRef::parse("fake/one").unwrap())
        }),
        parts: Vec::new(),
    };
    let since = |since: u64| Some(OpenTurn::new(crate::clock::Time(since), None));
    let store = world.sessions.store();
    let begun = user("msg_2", since(1));
    let half_said = answer(&world.sessions, &begun);
    for message in [user("msg_1", since(2)), begun, user("msg_3", None), half_said] {
        store.save_message(&Arc::new(message)).await.unwrap();
    }
    let left = world.sessions.recover().await.unwrap();
    // They change nothing before they are told to begin.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.shown().is_empty() && world.sessions.is_busy(&session.id));
    assert_eq!(left.begin(), 2);
    world.sessions.all_idle().await;
    let expected: [&[&str]; 5] =
        [&[], &[], &[], &["start", "text one", "finish stop"], &["start", "text two", "finish stop"]];
    assert_eq!(history(&world, &session).await, expected);
    let stored = world.sessions.messages(&session.id).await.unwrap();
    let answered: Vec<_> = stored.iter().filter_map(|message| message.answers()).map(MessageId::as_str).collect();
    assert_eq!(answered, ["msg_2", "msg_1"]);
    assert_eq!(world.sessions.recover().await.unwrap().begin(), 0);
}

/// Each time the process ends before the turn has stored anything.
#[tokio::test(start_paused = true)]
async fn a_turn_that_comes_no_further_in_ten_processes_is_given_up() {
    let store = Arc::new(MemoryStore::default());
    let hang = || vec![Said::Hang(Arc::default())];
    let world = World::on(store.clone(), vec![hang()], With::default());
    let session = world.session().await;
    world.say(&session, "go").await.unwrap();
    for life in 1..=10 {
        let world = World::on(store.clone(), vec![hang()], With::default());
        assert_eq!(world.sessions.recover().await.unwrap().begin(), 1, "life {life}");
        let before = tokio::time::Instant::now();
        while world.shown().is_empty() && world.sessions.is_busy(&session.id) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(world.shown().len() == usize::from(life < 10), "life {life}");
        // From the third life on it pauses, so that others come first, and each time for longer.
        let least = match life {
            2..10 => (Duration::from_millis(250) * 2_u32.pow(life - 2)).min(Duration::from_secs(2)),
            _ => Duration::ZERO,
        };
        let paused = least..=least * 2 + Duration::from_millis(100);
        assert!(paused.contains(&before.elapsed()), "life {life}: {:?}", before.elapsed());
    }
    let world = World::on(store, vec![], With::default());
    let error = "error The turn was given up: the server was restarted 10 times before it came any further";
    assert_eq!(history(&world, &session).await[1], ["start", error]);
    assert_eq!(world.sessions.recover().await.unwrap().begin(), 0);
}

/// The process ends while the model says the same once more.
#[tokio::test(start_paused = true)]
async fn how_often_a_call_was_made_is_known_after_a_restart() {
    let store = Arc::new(MemoryStore::default());
    let same = || calls(&[("client_tab_a", r#"{"n":1}"#)]);
    let world =
        World::on(store.clone(), vec![same(), same(), same(), vec![Said::Hang(Arc::default())]], With::default());
    let session = world.session().await;
    let mut connection = world.connect();
    world.say(&session, "go").await.unwrap();
    for _ in 0..3 {
        let (request, ..) = offered(&mut connection).await;
        world.complete(&request, "ok").await;
    }
    while world.shown().len() < 4 {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let world = World::on(store, (0..10).map(|_| same()).collect(), With::default());
    world.sessions.recover().await.unwrap().begin();
    world.sessions.all_idle().await;
    assert_eq!(world.shown().len(), 2, "once it is refused, and once more it is the end");
    let last = history(&world, &session).await.pop().unwrap().pop().unwrap();
    assert_eq!(last, "error The turn was stopped: the model called client_tab_a with the same input over and over");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_for_must_be_there_and_nothing_is_kept_of_what_is_refused() {
    let world = World::new(vec![]);
    let session = world.session().await;
    let unknown = [
        Prompt { agent: Some("nobody".into()), ..prompt("x") },
        Prompt { needs: with_model("nowhere/x"), ..prompt("x") },
    ];
    for prompt in unknown {
        assert!(world.sessions.prompt(&session, prompt).await.is_err());
    }
    let id = MessageId::parse("msg_mine").unwrap();
    let named = || Prompt { message: Some(id.clone()), ..prompt("x") };
    world.sessions.prompt(&session, named()).await.unwrap().answer.unwrap().await.unwrap();
    let again = world.sessions.prompt(&session, named()).await;
    assert!(matches!(again, Err(SessionError::DuplicateMessage(_))), "{again:?}");
    assert_eq!(history(&world, &session).await.len(), 2);
    let silent = Prompt { wants_reply: false, ..prompt("just so you know") };
    assert!(world.sessions.prompt(&session, silent).await.unwrap().answer.is_none());
    assert_eq!((history(&world, &session).await.len(), world.shown().len()), (3, 1));
}

/// A store in memory forgets the sessions that were used longest ago.
#[tokio::test(start_paused = true)]
async fn a_session_that_the_store_has_forgotten_is_gone() {
    let store = Arc::new(MemoryStore::new(&Limits { stored_sessions: 2, ..Limits::default() }));
    let world = World::on(store, vec![], With::default());
    let first = world.session().await;
    world.answer(&first, "hello").await;
    for _ in 0..2 {
        world.session().await;
    }
    assert!(matches!(world.sessions.get(&first.id).await, Err(SessionError::Unknown(_))));
    assert!(world.sessions.messages(&first.id).await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_said_in_a_session_that_is_gone_is_not_in_the_next_one_of_its_id() {
    let world = World::new(vec![]);
    let session = world.session().await;
    assert!(world.sessions.delete(&session).await.unwrap());
    // Whoever says this found the session before it was deleted.
    let late = Prompt { message: Some(MessageId::parse("msg_late").unwrap()), ..prompt("late") };
    assert!(world.sessions.prompt(&session, late).await.unwrap().answer.unwrap().await.is_err());
    let anew = NewSession { client: Some(client()), ..NewSession::default() };
    let anew = world.sessions.get_or_create(session.id.clone(), anew).await.unwrap();
    assert!(world.sessions.messages(&anew.id).await.unwrap().is_empty());
}
