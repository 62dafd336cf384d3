//! Turns with tools of frontends and pages.

use super::*;
use crate::calls::NotTaken;
use crate::events::Follower;
use crate::id::CallId;
use crate::store::{Ack, AckStatus, Most, PageTool, SessionFilter};

fn tool(name: &str) -> Arc<ToolSpec> {
    let schema = to_raw_value(&json!({ "type": "object", "properties": { "n": { "type": "integer" } } })).unwrap();
    Arc::new(ToolSpec {
        name: ToolName::parse(name).unwrap(),
        description: String::new(),
        schema: Arc::new(Schema::compile(&schema, &Limits::default()).unwrap()),
        timeout: Some(Duration::from_secs(60)),
        effect: Effect::Write,
        version: None,
    })
}

fn world(steps: Vec<Vec<Said>>, permission: Permission) -> World {
    World::with(steps, With { frontend_tools: vec![tool("open-url")], permission, ..With::default() })
}

async fn chat(world: &World) -> Arc<Session> {
    let id = SessionId::parse("chat").unwrap();
    world.sessions.get_or_create(id, NewSession { has_frontend: true, ..NewSession::default() }).await.unwrap()
}

fn needs(page_tools: &[&str]) -> TurnNeeds {
    let page_tools = page_tools.iter().map(|name| {
        let parameters = Some(tool(name).schema.source().to_owned());
        PageTool { name: ToolName::parse(name).unwrap(), description: String::new(), parameters }
    });
    TurnNeeds { is_followed: true, has_frontend: true, page_tools: page_tools.collect(), ..TurnNeeds::default() }
}

fn taken_up(user: &Message, page_tools: &[&str]) -> Arc<Message> {
    Arc::new(user.taken_up(&needs(page_tools)))
}

async fn say(world: &World, session: &Arc<Session>, page_tools: &[&str]) -> Prompted {
    world.sessions.prompt(session, Prompt { needs: needs(page_tools), ..prompt("go") }).await.unwrap()
}

/// The next call that a page may act on, with its input.
async fn handed_out(follower: &mut Follower) -> (CallId, String) {
    loop {
        let event = follower.next().await.expect("the turn goes on");
        let TurnEvent::Part { part, .. } = event else { continue };
        let PartBody::Tool(tool) = &part.body else { continue };
        if let ToolState::Running { input, .. } | ToolState::Yielded { input, .. } = &tool.state {
            return (tool.call.clone(), input.get().to_owned());
        }
    }
}

async fn acknowledge(world: &World, call: &CallId, ack: Ack) -> Result<(), NotTaken> {
    let request = RequestId::from(call);
    world.hub().acknowledge(&request, &Actor::Trusted, None, ack).await.map(|_| ())
}

fn success(output: Value) -> Ack {
    let output = Some(to_raw_value(&output).unwrap());
    Ack { status: AckStatus::Success, output, error_text: None, requested_at: None }
}

#[tokio::test(start_paused = true)]
async fn a_frontends_call_can_be_answered_as_soon_as_it_is_seen() {
    let world = world(vec![calls(&[("open-url", r#"{"n":1}"#)]), text("done")], Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &[]).await;
    let mut follower = prompted.feed.unwrap().follow(0);
    let (call, input) = handed_out(&mut follower).await;
    assert_eq!(input, r#"{"n":1}"#);
    acknowledge(&world, &call, success(json!({ "url": "x" }))).await.unwrap();
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!([r#"{"status":"success","output":{"url":"x"}}"#]));
    assert_eq!(
        history(&world, &session).await[1][1],
        r#"open-url {"n":1} → {"status":"success","output":{"url":"x"}}"#
    );
}

#[tokio::test(start_paused = true)]
async fn nobody_answers_and_the_model_is_told_so() {
    let world = world(vec![calls(&[("open-url", "{}")]), text("done")], Permission::Allow);
    let session = chat(&world).await;
    say(&world, &session, &[]).await.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!([r#"{"status":"timeout"}"#]));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_the_model_as_the_frontend_says_it() {
    let world = world(vec![calls(&[("open-url", "{}")]), text("done")], Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &[]).await;
    let (call, _) = handed_out(&mut prompted.feed.unwrap().follow(0)).await;
    let error_text = Some("blocked".to_owned());
    let ack = Ack { status: AckStatus::Failed, output: None, error_text, requested_at: None };
    acknowledge(&world, &call, ack).await.unwrap();
    prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[1]["results"], json!([r#"{"status":"failed","errorText":"blocked"}"#]));
}

#[tokio::test(start_paused = true)]
async fn an_input_that_does_not_fit_is_never_handed_out() {
    let world = world(vec![calls(&[("open-url", r#"{"n":"x"}"#)]), text("done")], Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &[]).await;
    let mut follower = prompted.feed.unwrap().follow(0);
    while let Some(event) = follower.next().await {
        if let TurnEvent::Part { part, .. } = event
            && let PartBody::Tool(tool) = &part.body
        {
            assert!(!matches!(tool.state, ToolState::Running { .. }), "{tool:?}");
        }
    }
    assert_eq!(
        history(&world, &session).await[1][1],
        r#"open-url {"n":"x"} ✗ Invalid input: at /n: "x" is not of type "integer""#
    );
}

#[tokio::test(start_paused = true)]
async fn a_call_that_has_to_be_allowed_is_handed_out_when_it_is_and_as_it_is_then() {
    let world = world(vec![calls(&[("open-url", r#"{"n":1}"#)]), text("done")], Permission::Ask);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &[]).await;
    let mut follower = prompted.feed.unwrap().follow(0);
    let ask = loop {
        match follower.next().await.expect("the turn goes on") {
            TurnEvent::Asked(ask) => break ask,
            TurnEvent::Part { part, .. } => assert!(
                !matches!(&part.body, PartBody::Tool(tool) if matches!(tool.state, ToolState::Running { .. })),
                "{part:?}"
            ),
            _ => {}
        }
    };
    let early = acknowledge(&world, &ask.call, success(json!(1))).await;
    assert!(matches!(early, Err(NotTaken::NotAllowedYet)), "{early:?}");
    world.reply(&ask.id, Reply::Once, Some(json!({ "n": 2 }))).await.unwrap();
    let (call, input) = handed_out(&mut follower).await;
    assert_eq!((&call, input.as_str()), (&ask.call, r#"{"n":2}"#));
    acknowledge(&world, &call, success(json!(1))).await.unwrap();
    prompted.answer.unwrap().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_turn_ends_with_a_pages_calls_and_goes_on_with_their_results() {
    let steps = vec![
        calls(&[("ask_user", r#"{"n":1}"#), ("open-url", "{}"), ("ask_user", r#"{"n":2}"#)]),
        text("both are known"),
    ];
    let world = world(steps, Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &["ask_user"]).await;
    let mut follower = prompted.feed.unwrap().follow(0);
    let handed: Vec<_> = [handed_out(&mut follower).await, handed_out(&mut follower).await].into();
    let (held, _) = handed_out(&mut follower).await;
    acknowledge(&world, &held, success(json!("opened"))).await.unwrap();
    let last = prompted.answer.unwrap().await.unwrap();
    let yielded = brief(&last);
    assert_eq!(yielded[1], r#"ask_user yielded {"n":1}"#);
    assert_eq!(yielded[2], r#"open-url {} → {"status":"success","output":"opened"}"#);
    assert!(!world.sessions.is_busy(&session.id));

    let given = |output: Value| ToolResult::Given { output: to_raw_value(&output).unwrap(), error: None };
    let results = vec![
        (handed[0].0.clone(), given(json!("blue"))),
        // Its end is known already, and stays.
        (held, given(json!("forged"))),
    ];
    let user = taken_up(&prompted.user, &["ask_user"]);
    let go_on = world.sessions.go_on(&session, &user, &last.id, results);
    go_on.await.unwrap().answer.unwrap().await.unwrap();
    assert_eq!(
        world.shown()[1]["results"],
        json!(["blue", r#"{"status":"success","output":"opened"}"#, "The page did not run this call"])
    );
    assert_eq!(world.shown()[1]["messages"], 2);
    assert_eq!(history(&world, &session).await[2][1], "text both are known");
}

#[tokio::test(start_paused = true)]
async fn two_who_go_on_at_once_are_one() {
    let world = world(vec![calls(&[("ask_user", "{}")]), text("done")], Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &["ask_user"]).await;
    let (call, _) = handed_out(&mut prompted.feed.unwrap().follow(0)).await;
    let last = prompted.answer.unwrap().await.unwrap();
    let result = ToolResult::Given { output: to_raw_value(&1).unwrap(), error: None };
    let user = taken_up(&prompted.user, &["ask_user"]);
    let go_on = || {
        let results = vec![(call.clone(), result.clone())];
        world.sessions.go_on(&session, &user, &last.id, results)
    };
    let (one, other) = tokio::join!(go_on(), go_on());
    assert!(matches!(other, Err(SessionError::DuplicateMessage(_))), "{other:?}");
    one.unwrap().answer.unwrap().await.unwrap();
    // Nor does one that comes when the other is over.
    let late = go_on().await;
    assert!(matches!(late, Err(SessionError::DuplicateMessage(_))), "{late:?}");
    assert_eq!(world.shown().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn frontends_tools_are_offered_where_there_is_one_or_when_asked_for() {
    let world = world(vec![text("1"), text("2"), text("3"), text("4")], Permission::Allow);
    let plain = world.session().await;
    world.answer(&plain, "x").await;
    let on = Prompt {
        needs: TurnNeeds { switches: BTreeMap::from([("open-url".to_owned(), true)]), ..TurnNeeds::default() },
        ..prompt("x")
    };
    world.sessions.prompt(&plain, on).await.unwrap().answer.unwrap().await.unwrap();
    let session = chat(&world).await;
    say(&world, &session, &["mine"]).await.answer.unwrap().await.unwrap();
    let off = Prompt {
        needs: TurnNeeds { switches: BTreeMap::from([("open-url".to_owned(), false)]), ..TurnNeeds::default() },
        ..prompt("x")
    };
    world.sessions.prompt(&session, off).await.unwrap().answer.unwrap().await.unwrap();
    let offered: Vec<Value> = world.shown().iter().map(|shown| shown["tools"].clone()).collect();
    assert_eq!(
        offered,
        [
            json!(["client_tab_a", "client_tab_b"]),
            json!(["open-url", "client_tab_a", "client_tab_b"]),
            json!(["open-url", "mine"]),
            json!([]),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_abort_cancels_a_frontends_call() {
    let world = world(vec![calls(&[("open-url", "{}")])], Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &[]).await;
    let (call, _) = handed_out(&mut prompted.feed.unwrap().follow(0)).await;
    world.sessions.abort(&session.id).await.unwrap();
    let late = acknowledge(&world, &call, success(json!(1))).await;
    assert!(matches!(late, Err(NotTaken::Over)), "{late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_session_of_a_chosen_id_is_made_once() {
    let world = world(Vec::new(), Permission::Allow);
    let (one, other) = tokio::join!(chat(&world), chat(&world));
    assert_eq!((one.id.as_str(), one.created), (other.id.as_str(), other.created));
    assert_eq!(world.sessions.list(&SessionFilter::default(), None, Most::items(10)).await.unwrap().items.len(), 1);
}

fn again(id: &MessageId, text: &str) -> Prompt {
    Prompt { message: Some(id.clone()), ..prompt(text) }
}

fn texts(history: Vec<Vec<String>>) -> Vec<String> {
    history.into_iter().flatten().filter(|part| part.starts_with("text")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_from_before() {
    let world = world(vec![text("1"), text("2"), text("3")], Permission::Allow);
    let session = chat(&world).await;
    say(&world, &session, &[]).await.answer.unwrap().await.unwrap();
    let second = say(&world, &session, &[]).await;
    second.answer.unwrap().await.unwrap();
    let anew = world.sessions.prompt_anew(&session, again(&second.user.id, "otherwise")).await.unwrap();
    anew.answer.unwrap().await.unwrap();
    assert_eq!(texts(history(&world, &session).await), ["text go", "text 1", "text otherwise", "text 3"]);
}

#[tokio::test(start_paused = true)]
async fn beginning_anew_stops_what_runs_and_what_waits() {
    let world = world(vec![calls(&[("open-url", "{}")]), text("anew")], Permission::Allow);
    let session = chat(&world).await;
    let first = say(&world, &session, &[]).await;
    handed_out(&mut first.feed.unwrap().follow(0)).await;
    let waiting = say(&world, &session, &[]).await;
    let anew = world.sessions.prompt_anew(&session, again(&first.user.id, "otherwise")).await.unwrap();
    assert!(waiting.answer.unwrap().await.is_err());
    anew.answer.unwrap().await.unwrap();
    assert_eq!(texts(history(&world, &session).await), ["text otherwise", "text anew"]);
    assert_eq!(world.hub().counts().calls, 0);
}

#[tokio::test(start_paused = true)]
async fn several_who_begin_anew_at_once_leave_one_conversation() {
    let world = world((0..6).map(|number| text(&number.to_string())).collect(), Permission::Allow);
    let session = chat(&world).await;
    let first = say(&world, &session, &[]).await;
    first.answer.unwrap().await.unwrap();
    let anew =
        (0..4).map(|number| world.sessions.prompt_anew(&session, again(&first.user.id, &format!("try {number}"))));
    for prompted in futures_util::future::join_all(anew).await {
        // Stopped by the next, or answered.
        prompted.unwrap().answer.unwrap().await.unwrap();
    }
    let messages = world.sessions.messages(&session.id).await.unwrap();
    let parents: Vec<_> = messages
        .iter()
        .map(|message| match &message.role {
            Role::User(_) => None,
            Role::Assistant(said) => Some(said.parent.clone()),
        })
        .collect();
    assert_eq!(parents, [None, Some(first.user.id.clone())], "{:?}", history(&world, &session).await);
}

/// What of a session is stored, message by message.
async fn stored(world: &World, session: &Arc<Session>) -> Vec<Vec<String>> {
    world.sessions.messages(&session.id).await.unwrap().iter().map(|message| brief(message)).collect()
}

fn broken() -> Said {
    Said::Error(TurnError::Provider { message: "broken".to_owned(), status: None, retryable: true })
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_failed_is_taken_up_where_it_was() {
    let partial = vec![Said::Event(ModelEvent::Text("half".to_owned())), broken()];
    let steps = vec![calls(&[("page", "{}")]), partial, text("whole")];
    let world = world(steps, Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &["page"]).await;
    let last = prompted.answer.unwrap().await.unwrap();
    let PartBody::Tool(tool) = &last.parts[1].body else { panic!("a call") };
    let result = ToolResult::Failed("no".to_owned());
    let (call, user) = (tool.call.clone(), taken_up(&prompted.user, &[]));
    let gone_on = world.sessions.go_on(&session, &user, &last.id, vec![(call, result)]).await.unwrap();
    gone_on.answer.unwrap().await.unwrap();
    let again = world.sessions.try_again(&session, &user).await.unwrap();
    again.answer.unwrap().await.unwrap();
    assert_eq!(
        stored(&world, &session).await,
        [
            vec!["text go"],
            vec!["start", "page {} ✗ no", "finish tool-calls"],
            vec!["start", "text half", "error broken"],
            vec!["start", "text whole", "finish stop"]
        ]
    );
    // The results are those that were kept: nobody had to bring them again. What failed is not shown.
    let shown = world.shown();
    assert_eq!((&shown[2]["results"], &shown[2]["messages"]), (&json!(["no"]), &json!(2)));
}

#[tokio::test(start_paused = true)]
async fn what_a_failed_turn_has_done_is_not_forgotten() {
    let call_and_break = |name: &str| {
        let mut said = calls(&[(name, "{}")]);
        said.pop();
        said.push(broken());
        said
    };
    let world = world(vec![call_and_break("page"), text("whole")], Permission::Allow);
    let session = chat(&world).await;
    let prompted = say(&world, &session, &["page"]).await;
    prompted.answer.unwrap().await.unwrap();
    let again = world.sessions.try_again(&session, &taken_up(&prompted.user, &[])).await.unwrap();
    again.answer.unwrap().await.unwrap();
    assert_eq!(
        stored(&world, &session).await,
        [
            vec!["text go"],
            vec!["start", "page {} ✗ Not finished: broken", "error broken"],
            vec!["start", "text whole", "finish stop"]
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn one_turn_is_stopped_and_others_go_on() {
    let hang = vec![Said::Hang(Arc::default())];
    let world = world(vec![hang, text("third")], Permission::Allow);
    let session = chat(&world).await;
    let first = say(&world, &session, &[]).await;
    let second = say(&world, &session, &[]).await;
    let third = say(&world, &session, &[]).await;
    let feed = second.feed.unwrap();
    world.sessions.stop_turn(&session.id, &feed);
    assert!(second.answer.unwrap().await.is_err(), "it never runs");
    assert!(feed.follow(0).next().await.is_none());
    // Of a turn that is over, nothing is stopped.
    world.sessions.stop_turn(&session.id, &feed);
    world.sessions.stop_turn(&session.id, &first.feed.unwrap());
    let stopped = first.answer.unwrap().await.unwrap();
    assert_eq!(stopped.error(), Some(&TurnError::Aborted("The turn was aborted".to_owned())));
    assert_eq!(brief(&third.answer.unwrap().await.unwrap()), ["start", "text third", "finish stop"]);
}

#[tokio::test(start_paused = true)]
async fn of_several_who_repeat_a_message_at_once_one_is_answered_and_nobody_is_stopped() {
    let world = World::new(vec![text("first"), calls(&[("client_tab_a", "{}")]), text("second")]);
    let session = world.session().await;
    let mut connection = world.connect();
    let said = || Prompt { message: Some(MessageId::parse("msg_1").unwrap()), ..prompt("go") };
    world.sessions.prompt(&session, said()).await.unwrap().answer.unwrap().await.unwrap();
    let repeat = || world.sessions.prompt_again(&session, said());
    let (one, two, three) = tokio::join!(repeat(), repeat(), repeat());
    let mut answers = Vec::new();
    for repeated in [one, two, three] {
        match repeated {
            Ok(prompted) => answers.push(prompted.answer.unwrap()),
            Err(error) => assert!(matches!(error, SessionError::DuplicateMessage(_)), "{error}"),
        }
    }
    assert_eq!(answers.len(), 1);
    let (request, ..) = offered(&mut connection).await;
    world.complete(&request, "once").await;
    let answer = answers.remove(0).await.unwrap();
    assert!(answer.parts.iter().any(|part| matches!(&part.body, PartBody::Text { text, .. } if text == "second")));
}

#[tokio::test(start_paused = true)]
async fn what_a_turn_needs_is_stored_with_its_prompt_until_it_is_over() {
    let hang = Said::Hang(Arc::new(Mutex::new(None)));
    let world = world(vec![calls(&[("page", "{}")]), vec![hang]], Permission::Allow);
    let session = chat(&world).await;
    let stored_needs = async || match &world.sessions.messages(&session.id).await.unwrap()[0].role {
        Role::User(said) => said.needs.clone(),
        Role::Assistant(_) => panic!("a user's message"),
    };
    let page = TurnNeeds { instructions: vec!["Be kind.".to_owned()], ..needs(&["page"]) };
    let prompted = world.sessions.prompt(&session, Prompt { needs: page, ..prompt("go") }).await.unwrap();
    let kept = stored_needs().await;
    assert_eq!((kept.page_tools[0].name.as_str(), &kept.instructions[..]), ("page", &["Be kind.".to_owned()][..]));
    let last = prompted.answer.unwrap().await.unwrap();
    assert_eq!(world.shown()[0]["system"], "Be kind.");
    // The page brings them again when it goes on.
    let left = stored_needs().await;
    assert!(left.page_tools.is_empty() && left.instructions.is_empty() && left.is_followed, "{left:?}");
    let PartBody::Tool(tool) = &last.parts[1].body else { panic!("a call") };
    let results = vec![(tool.call.clone(), ToolResult::Failed("no".to_owned()))];
    let user = taken_up(&prompted.user, &["other"]);
    let gone_on = world.sessions.go_on(&session, &user, &last.id, results).await.unwrap();
    assert_eq!(stored_needs().await.page_tools[0].name.as_str(), "other");
    while world.shown().len() < 2 {
        tokio::task::yield_now().await;
    }
    world.sessions.abort(&session.id).await.unwrap();
    gone_on.answer.unwrap().await.unwrap();
    assert!(stored_needs().await.page_tools.is_empty());
    assert!(world.shown()[1]["tools"].as_array().unwrap().contains(&json!("other")), "{:?}", world.shown()[1]);
}
