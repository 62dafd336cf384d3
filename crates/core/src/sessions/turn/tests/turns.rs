//! Turns and their calls: results, failures, aborts, providers that fail.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_turn_calls_a_tool_and_answers_from_its_result() {
    let world = World::new(vec![calls(&[("client_tab_a", r#"{"n": 1}"#)]), text("It is 2.")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "what is 1 + 1?").await.unwrap();
    let (request, tool, input) = offered(&mut connection).await;
    assert_eq!((tool.as_str(), input.as_str()), ("a", r#"{"n": 1}"#));
    assert!(world.sessions.is_busy(&session.id));
    world.complete(&request, "2").await;
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "text It is 2.", "finish stop"]);
    assert!(!world.sessions.is_busy(&session.id));
    let expected: [&[&str]; 3] = [
        &["text what is 1 + 1?"],
        &["start", r#"client_tab_a {"n": 1} → 2"#, "finish tool-calls"],
        &["start", "text It is 2.", "finish stop"],
    ];
    assert_eq!(history(&world, &session).await, expected);
    let shown = [
        json!({ "system": null, "messages": 1, "tools": ["client_tab_a", "client_tab_b"], "results": [] }),
        json!({ "system": null, "messages": 2, "tools": ["client_tab_a", "client_tab_b"], "results": ["2"] }),
    ];
    assert_eq!(world.shown(), shown);
    assert_eq!(world.sessions.get(&session.id).await.unwrap().title, "what is 1 + 1?");
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_step_run_at_once_each_fails_alone_and_the_model_gets_them_in_its_order() {
    let wanted = [("client_tab_a", "{}"), ("client_tab_b", "{}"), ("client_tab_a", r#"{"n":3}"#)];
    let world = World::new(vec![calls(&wanted), text("done")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let mut open = Vec::new();
    for _ in 0..3 {
        open.push(offered(&mut connection).await);
    }
    // The last first, the second fails, the first never answers.
    world.complete(&open[2].0, "third").await;
    let error = Outcome::Error("no such file".to_owned());
    world.hub().complete(&open[1].0, &Actor::Trusted, error).await.unwrap();
    tokio::time::advance(Duration::from_secs(31)).await;
    prompted.answer.unwrap().await.unwrap();
    let timeout = "Client tool execution timed out after 30000ms; it may have run";
    assert_eq!(world.shown()[1]["results"], json!([timeout, "no such file", "third"]));
    let step = &history(&world, &session).await[1];
    assert_eq!(step[1], format!("client_tab_a {{}} ✗ {timeout}"));
    assert_eq!(step[2], "client_tab_b {} ✗ no such file");
    assert_eq!(step[3], r#"client_tab_a {"n":3} → third"#);
}

#[tokio::test(start_paused = true)]
async fn what_the_model_gets_wrong_is_a_result_and_the_turn_goes_on() {
    let wanted = [
        ("client_tab_a", r#"{"n": "one"}"#),
        ("client_tab_a", "{not json"),
        ("client_tab_a", "[1]"),
        ("nothing", "{}"),
        ("client_tab_b", ""),
    ];
    let world = World::new(vec![calls(&wanted), text("sorry")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (request, tool, input) = offered(&mut connection).await;
    assert_eq!((tool.as_str(), input.as_str()), ("b", "{}"));
    world.complete(&request, "ok").await;
    assert_eq!(brief(&prompted.answer.unwrap().await.unwrap())[1], "text sorry");
    let shown = world.shown();
    let results: Vec<&str> =
        shown[1]["results"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    assert_eq!(results[0], "Invalid input: at /n: \"one\" is not of type \"integer\"");
    assert!(results[1].starts_with("Invalid input: the arguments are not JSON: "), "{}", results[1]);
    assert_eq!(results[2], "Invalid input: the arguments must be a JSON object, not `[1]`");
    assert_eq!(results[3], "There is no tool `nothing`. There is: client_tab_a, client_tab_b");
    assert_eq!(results[4], "ok");
}

#[tokio::test(start_paused = true)]
async fn an_abort_reaches_a_model_that_thinks() {
    let (dropped, is_dropped) = oneshot::channel();
    let hang = Said::Hang(Arc::new(Mutex::new(Some(dropped))));
    let world = World::new(vec![vec![Said::Event(ModelEvent::Text("I".to_owned())), hang]]);
    let session = world.session().await;
    let prompted = world.say(&session, "go").await.unwrap();
    while world.shown().is_empty() {
        tokio::task::yield_now().await;
    }
    world.sessions.abort(&session.id).await.unwrap();
    assert!(is_dropped.await.is_err(), "the stream is dropped");
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "text I", "error The turn was aborted"]);
    // Nothing to stop is fine as well.
    world.sessions.abort(&session.id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_ends_the_turn_with_its_error() {
    let error = TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true };
    let failing = vec![Said::Event(ModelEvent::Text("Well".to_owned())), Said::Error(error)];
    let cut = vec![Said::Event(ModelEvent::CallStarted { index: 0, id: String::new(), name: "client_tab_a".into() })];
    let world = World::new(vec![failing, cut, text("back again")]);
    let session = world.session().await;
    let mut connection = world.connect();
    assert_eq!(brief(&*world.answer(&session, "one").await), ["start", "text Well", "error overloaded"]);
    let expected = [
        "start",
        "client_tab_a {} ✗ Not finished: The model's answer was cut off",
        "error The model's answer was cut off",
    ];
    assert_eq!(brief(&*world.answer(&session, "two").await), expected);
    assert!(connection.next().now_or_never().is_none(), "a call that was cut is not made");
    assert_eq!(brief(&*world.answer(&session, "three").await)[1], "text back again");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_is_told_to_the_model() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}")]), text("gone")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    offered(&mut connection).await;
    drop(connection);
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!(["Client disconnected; it may have run"]));
    assert_eq!(world.shown()[1]["tools"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_was_given_has_not_run_when_its_turn_is_stopped() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}")])]);
    let session = world.session().await;
    let prompted = world.say(&session, "go").await.unwrap();
    while world.hub().counts().calls == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    world.sessions.abort(&session.id).await.unwrap();
    let answer = prompted.answer.unwrap().await.unwrap();
    let aborted = "client_tab_a {} ✗ Not finished: The turn was aborted";
    assert_eq!(brief(&answer), ["start", aborted, "error The turn was aborted"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_cancels_open_calls_and_tells_the_client() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}"), ("client_tab_b", "{}")]), text("never")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (first, ..) = offered(&mut connection).await;
    let (second, ..) = offered(&mut connection).await;
    world.complete(&first, "one").await;
    world.sessions.abort(&session.id).await.unwrap();
    assert!(!world.sessions.is_busy(&session.id));
    let answer = prompted.answer.unwrap().await.unwrap();
    let expected = [
        "start",
        "client_tab_a {} → one",
        "client_tab_b {} ✗ Not finished: The turn was aborted; it may have run",
        "error The turn was aborted",
    ];
    assert_eq!(brief(&answer), expected);
    match connection.next().await {
        Delivery::Cancel { request, reason, .. } => assert_eq!((request, &*reason), (second, "The turn was stopped")),
        other => panic!("{other:?}"),
    }
    assert_eq!((world.shown().len(), world.hub().counts().calls), (1, 0));
}
