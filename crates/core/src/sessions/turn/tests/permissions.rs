//! Calls that are denied, or asked for first.

use super::*;

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
    world.sessions.answer(&asks[0], &Actor::Trusted, answer).await.unwrap();
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
    let early = world.hub().complete(&request, &Actor::Trusted, Outcome::Error("x".to_owned())).await;
    assert!(matches!(early, Err(crate::calls::NotTaken::NotAllowedYet)), "{early:?}");
    assert_eq!(world.hub().asks(None).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_abort_closes_the_asks_of_its_turn() {
    let with = With { permission: Permission::Ask, ..With::default() };
    let world = World::with(vec![calls(&[("client_tab_a", "{}")])], with);
    let session = world.session().await;
    let mut listener = world.hub().subscribe(Topic::Everything);
    let prompted = world.say(&session, "go").await.unwrap();
    let asks = world.until_asked(1).await;
    world.sessions.abort(&session.id).await.unwrap();
    assert_eq!(brief(&prompted.answer.unwrap().await.unwrap()).pop().unwrap(), "error The turn was aborted");
    assert!(world.hub().asks(None).is_empty());
    let late = world.reply(&asks[0], Reply::Once, None).await;
    assert!(matches!(late, Err(NotAnswered::Unknown(_))), "{late:?}");
    let told = super::events::until_idle(&mut listener).await;
    assert!(told.contains(&"answered Reject".to_owned()), "{told:?}");
}
