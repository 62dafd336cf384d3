//! What is bounded: queues, steps, repeats, output, and which tools are offered.

use super::*;

#[tokio::test(start_paused = true)]
async fn one_turn_at_a_time_eight_wait_and_the_rest_are_refused() {
    let world = World::new(vec![calls(&[("client_tab_a", "{}")])]);
    let session = world.session().await;
    let mut connection = world.connect();
    let mut prompts = Vec::new();
    for number in 0..9 {
        prompts.push(world.say(&session, &format!("prompt {number}")).await.unwrap());
    }
    let refused = world.say(&session, "one too many").await;
    assert!(matches!(refused, Err(SessionError::QueueFull(8))), "{refused:?}");
    let (request, ..) = offered(&mut connection).await;
    world.complete(&request, "ok").await;
    for prompted in prompts {
        let answer = prompted.answer.unwrap().await.unwrap();
        let Role::Assistant(said) = &answer.role else { panic!("{answer:?}") };
        assert_eq!(said.parent, prompted.user.id);
    }
    // Each turn saw the conversation before it, and none that came after.
    let counts: Vec<u64> = world.shown().iter().map(|shown| shown["messages"].as_u64().unwrap()).collect();
    assert_eq!(counts, [1, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
    assert_eq!(history(&world, &session).await.len(), 19);
}

#[tokio::test(start_paused = true)]
async fn steps_are_bounded() {
    let steps = (0..10).map(|n| calls(&[("client_tab_a", &format!(r#"{{"n":{n}}}"#))])).collect();
    let world = World::with(steps, With { limits: Limits { steps: 4, ..Limits::default() }, ..With::default() });
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    for _ in 0..4 {
        let (request, ..) = offered(&mut connection).await;
        world.complete(&request, "ok").await;
    }
    let answer = prompted.answer.unwrap().await.unwrap();
    assert_eq!(brief(&answer), ["start", "error The turn was stopped after 4 steps; say something to go on"]);
    assert_eq!(world.shown().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn the_same_call_over_and_over_is_stopped() {
    let world = World::new((0..10).map(|_| calls(&[("client_tab_a", r#"{"n":1}"#)])).collect());
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    for _ in 0..3 {
        let (request, ..) = offered(&mut connection).await;
        world.complete(&request, "ok").await;
    }
    let answer = prompted.answer.unwrap().await.unwrap();
    let last = brief(&answer).pop().unwrap();
    assert_eq!(last, "error The turn was stopped: the model called client_tab_a with the same input over and over");
    assert!(connection.next().now_or_never().is_none(), "three times and no more");
    assert_eq!(world.shown().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn tools_can_be_switched_off_for_a_turn() {
    let world = World::new(vec![]);
    let session = world.session().await;
    let off = Prompt {
        needs: TurnNeeds { switches: BTreeMap::from([("b".to_owned(), false)]), ..TurnNeeds::default() },
        ..prompt("x")
    };
    world.sessions.prompt(&session, off).await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[0]["tools"], json!(["client_tab_a"]));
}

#[test]
fn long_output_is_cut_with_a_note() {
    let part = |output: &str| crate::store::ToolPart {
        call: crate::id::CallId::parse("c").unwrap(),
        provider_call: String::new(),
        alias: "".into(),
        tool: "".into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state: ToolState::Done {
            input: RawValue::from_string("{}".to_owned()).unwrap(),
            start: crate::clock::Time(0),
            end: crate::clock::Time(0),
            result: ToolResult::Completed {
                title: String::new(),
                output: output.to_owned(),
                metadata: None,
                attachments: Vec::new(),
            },
        },
    };
    assert_eq!(part("short").result_for_model(5), ("short".to_owned(), false));
    assert_eq!(part("äöü").result_for_model(3).0, "ä\n\n[cut: 2 of 6 bytes are shown]");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_makes_parts_without_end_is_stopped() {
    let mut said = Vec::new();
    for _ in 0..10_000 {
        said.push(Said::Event(ModelEvent::Text("a".to_owned())));
        said.push(Said::Event(ModelEvent::Reasoning("b".to_owned())));
    }
    let world = World::new(vec![said]);
    let session = world.session().await;
    let answer = world.answer(&session, "go").await;
    let error = "error The provider's stream makes no sense: too many parts in one message";
    assert_eq!((answer.parts.len(), brief(&answer).pop().unwrap().as_str()), (256, error));
}

#[tokio::test(start_paused = true)]
async fn arguments_that_are_nested_too_deep_are_not_kept() {
    let deep = format!("{{\"n\":{}{}}}", "[".repeat(200), "]".repeat(200));
    let world = World::new(vec![calls(&[("client_tab_a", &deep)]), text("sorry")]);
    let session = world.session().await;
    world.answer(&session, "go").await;
    let step = &history(&world, &session).await[1];
    assert_eq!(step[1], "client_tab_a {} ✗ Invalid input: the arguments are nested more than 128 deep");
}
