//! What the errors of this API look like, and how a turn ends that goes wrong.

use handback_core::sessions::ModelEvent;
use handback_core::store::{StopReason, TurnError, Usage};
use handback_testkit::Answer;
use handback_testkit::model::called;
use handback_testkit::session::events_until;
use handback_testkit::store_contract::samples::wanted_back;
use handback_testkit::tidy::tidy;
use serde_json::{Value, json};

use super::World;

/// Checks that an answer is an error of this API with nothing but what such an error has; gives its message.
#[track_caller]
pub(super) fn must_fail(answer: &Answer, status: u16) -> &str {
    let (message, reason) = must_fail_for(answer, status);
    assert_eq!(reason, None);
    message
}

/// The same of one that may say why, for programs; gives both.
#[track_caller]
pub(super) fn must_fail_for(answer: &Answer, status: u16) -> (&str, Option<&str>) {
    let (name, message) = (name_of(status), &answer.body["data"]["message"]);
    let mut expected = json!({ "name": name, "data": { "message": message } });
    let reason = answer.body["data"]["reason"].as_str();
    if let Some(reason) = reason {
        expected["data"]["reason"] = reason.into();
    }
    assert_eq!((answer.status, &answer.body), (status, &expected));
    let message = message.as_str().expect("a message for people");
    assert!(!message.is_empty());
    (message, reason)
}

/// What errors of a status are called.
pub(super) fn name_of(status: u16) -> &'static str {
    match status {
        401 => "UnauthorizedError",
        403 => "ForbiddenError",
        404 => "NotFoundError",
        409 => "ConflictError",
        500.. => "UnknownError",
        _ => "BadRequest",
    }
}

#[tokio::test]
async fn a_provider_that_fails_in_the_middle_ends_the_turn_with_its_error_on_the_message() {
    let world = World::start().await;
    let mut events = world.server.events().await;
    let cases = [
        (
            TurnError::Provider { message: "overloaded".to_owned(), status: Some(529), retryable: true },
            json!({ "name": "APIError", "data": { "message": "overloaded", "statusCode": 529, "isRetryable": true } }),
        ),
        (
            TurnError::Provider { message: "no answer for 60 s".to_owned(), status: None, retryable: true },
            json!({ "name": "APIError", "data": { "message": "no answer for 60 s", "isRetryable": true } }),
        ),
        (
            TurnError::Auth { provider: "fake".into(), message: "the key is refused".to_owned() },
            json!({ "name": "ProviderAuthError", "data": { "message": "the key is refused", "providerID": "fake" } }),
        ),
        (
            TurnError::Other("something else".to_owned()),
            json!({ "name": "UnknownError", "data": { "message": "something else" } }),
        ),
    ];
    for (error, expected) in cases {
        let prompt = world.server.prompt(&world.session, "go");
        let asked = world.model.asked().await;
        asked.say(ModelEvent::Text("Well".to_owned()));
        asked.fail(error);
        let answer = prompt.await.unwrap();
        assert_eq!((answer.status, &answer.body["info"]["error"]), (200, &expected));
        assert_eq!(answer.body["parts"][1]["text"], "Well", "what was said before is kept");
        assert!(answer.body["info"]["time"]["completed"].is_u64());
        let told = events_until(&mut events, "session.error").await.pop().unwrap();
        assert_eq!(told["properties"], json!({ "sessionID": world.session, "error": expected }));
        events_until(&mut events, "session.idle").await;
        assert_eq!(world.server.messages(&world.session).await.pop().unwrap(), answer.body);
    }
    world.model.will_say("Better now.");
    assert_eq!(world.server.say(&world.session, "and now?").await["info"]["error"], Value::Null);
}

#[tokio::test]
async fn a_stream_that_is_cut_in_the_middle_of_a_call_ends_the_turn_and_the_call_is_not_made() {
    let mut world = World::start().await;
    let prompt = world.server.prompt(&world.session, "go");
    let asked = world.model.asked().await;
    let name = "client_tab_a".to_owned();
    asked.say(ModelEvent::CallStarted { index: 0, id: "x".to_owned(), name });
    asked.say(ModelEvent::Arguments { index: 0, delta: "{\"n\":".to_owned() });
    drop(asked);
    let answer = prompt.await.unwrap();
    let error =
        json!({ "name": "APIError", "data": { "message": "The model's answer was cut off", "isRetryable": true } });
    assert_eq!((answer.status, &answer.body["info"]["error"]), (200, &error));
    let step = "assistant | client_tab_a {} ✗ Not finished: The model's answer was cut off | \
                !APIError: The model's answer was cut off";
    assert_eq!(world.history().await, ["user | go", step]);
    world.server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "marker" })).await;
    world.stream.expect_call("marker").await;
}

#[tokio::test]
async fn a_stream_that_makes_no_sense_ends_the_turn() {
    let world = World::start().await;
    let started = |index| Ok(ModelEvent::CallStarted { index, id: String::new(), name: "client_tab_b".to_owned() });
    let cases = [
        (
            vec![Ok(ModelEvent::Arguments { index: 3, delta: "{}".to_owned() })],
            "arguments of a call that was not begun",
        ),
        (vec![Ok(ModelEvent::CallEnded { index: 3, kept: None })], "the end of a call that was not begun"),
        (vec![started(0), started(0)], "the same call twice"),
    ];
    for (pieces, problem) in cases {
        world.model.will(pieces);
        let answer = world.server.say(&world.session, "go").await;
        let message = format!("The provider's stream makes no sense: {problem}");
        let error = json!({ "name": "APIError", "data": { "message": message, "isRetryable": false } });
        assert_eq!(answer["info"]["error"], error);
    }
    assert_eq!(world.server.counts().calls, 0);
}

#[tokio::test]
async fn why_the_model_stopped_is_on_the_message() {
    let world = World::start().await;
    for (reason, said) in [
        (StopReason::Stop, "stop"),
        (StopReason::Length, "length"),
        (StopReason::ContentFilter, "content-filter"),
        (StopReason::Other, "other"),
    ] {
        world.model.will(vec![Ok(ModelEvent::Text("so".to_owned())), Ok(ModelEvent::Stop(reason))]);
        let answer = world.server.say(&world.session, "go").await;
        assert_eq!((&answer["info"]["finish"], &answer["info"]["error"]), (&json!(said), &Value::Null));
        assert_eq!(answer["parts"][2]["reason"], said);
    }
}

#[tokio::test]
async fn what_a_turn_cost_is_on_its_message_and_its_step() {
    let world = World::start().await;
    let usage = Usage { input: 11, output: 7, reasoning: Some(3), cache_read: Some(5), cache_write: Some(2) };
    world.model.will(vec![
        Ok(ModelEvent::Reasoning("hm".to_owned())),
        Ok(ModelEvent::Thought(wanted_back("signed".into()))),
        // This one only its provider can read: nobody is shown that there is one.
        Ok(ModelEvent::Thought(wanted_back("encrypted".into()))),
        Ok(ModelEvent::Text("so".to_owned())),
        Ok(ModelEvent::Usage(usage)),
        Ok(ModelEvent::Stop(StopReason::Stop)),
    ]);
    let answer = tidy(&world.server.say(&world.session, "go").await);
    let tokens = json!({ "input": 11, "output": 7, "reasoning": 3, "cache": { "read": 5, "write": 2 } });
    assert_eq!(answer["info"]["tokens"], tokens);
    let part = |id: &str, mut rest: Value| {
        rest["id"] = id.into();
        rest["messageID"] = answer["info"]["id"].clone();
        rest["sessionID"] = "ses_1".into();
        rest
    };
    let time = json!({ "start": "time", "end": "time" });
    let expected = json!([
        part("prt_1", json!({ "type": "step-start" })),
        part("prt_2", json!({ "type": "reasoning", "text": "hm", "time": time })),
        part("prt_3", json!({ "type": "text", "text": "so", "time": time })),
        part("prt_4", json!({ "type": "step-finish", "reason": "stop", "cost": 0.0, "tokens": tokens })),
    ]);
    assert_eq!(answer["parts"], expected);
}

#[tokio::test]
async fn the_steps_of_a_turn_are_bounded() {
    let mut world = World::with(|config| config.limits.steps = 4).await;
    for n in 0..6 {
        world.model.will_call(&[("client_tab_a", json!({ "n": n }))]);
    }
    let prompt = world.server.prompt(&world.session, "go");
    for n in 0..4 {
        assert_eq!(world.answer_next("on and on").await["input"], json!({ "n": n }));
    }
    let answer = prompt.await.unwrap();
    let message = "The turn was stopped after 4 steps; say something to go on";
    assert_eq!(answer.body["info"]["error"], json!({ "name": "UnknownError", "data": { "message": message } }));
    assert_eq!(world.model.shown().len(), 4);
    assert_eq!(world.server.counts().calls, 0);
}

#[tokio::test]
async fn the_same_call_over_and_over_is_refused_and_then_the_turn_is_stopped() {
    let mut world = World::start().await;
    for _ in 0..6 {
        world.model.will_call(&[("client_tab_a", json!({ "n": 1 }))]);
    }
    let prompt = world.server.prompt(&world.session, "go");
    for _ in 0..3 {
        world.answer_next("the same").await;
    }
    let answer = prompt.await.unwrap();
    let message = "The turn was stopped: the model called client_tab_a with the same input over and over";
    assert_eq!(answer.body["info"]["error"], json!({ "name": "UnknownError", "data": { "message": message } }));
    let refused = "This call was made several times in a row with the same input, and was not made again. Do something \
                   else, or answer with what you have.";
    assert_eq!(world.model.last_shown().results, [refused]);
    assert_eq!(world.model.shown().len(), 5);
    // The client was asked three times and no more.
    world.server.begin_call(json!({ "toolID": "client_tab_b", "requestID": "marker" })).await;
    world.stream.expect_call("marker").await;
}

#[tokio::test]
async fn the_same_call_with_something_in_between_is_no_repetition() {
    let mut world = World::start().await;
    for n in [1, 1, 1, 2, 1, 1, 1] {
        world.model.will_call(&[("client_tab_a", json!({ "n": n }))]);
    }
    // Twice in one step is once in a row.
    world.model.will(called(&[("client_tab_b", "{}".to_owned()), ("client_tab_b", "{}".to_owned())]));
    world.model.will_say("Done.");
    let prompt = world.server.prompt(&world.session, "go");
    for _ in 0..9 {
        world.answer_next("ok").await;
    }
    assert_eq!(prompt.await.unwrap().body["info"]["error"], Value::Null);
}

#[tokio::test]
async fn a_model_that_is_not_there_is_a_clear_error() {
    let world = World::start().await;
    let mut body = handback_testkit::session::text_prompt("go");
    body["model"] = json!({ "providerID": "demo", "modelID": "nothing" });
    let answer = Answer::to(world.server.saying(&world.session, &body)).await;
    let data = json!({ "message": "there is no model \"nothing\" here, only \"scripted\"", "statusCode": 404, "isRetryable": false });
    assert_eq!((answer.status, &answer.body["info"]["error"]), (200, &json!({ "name": "APIError", "data": data })));
}
