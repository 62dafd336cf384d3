//! What is asked again in other words, because something in the request was refused.

use std::sync::Arc;

use handback_core::sessions::{Model, ModelStream};
use handback_core::store::{Kept, Message, PartBody, Role};
use serde_json::json;

use super::fake::{Fake, Request};
use super::requests::{PNG, file};
use super::{BOTH, SPAN, Wire, ask, assistant, collect, failure, hello, provider_error, settings, stream, text, user};

#[tokio::test]
async fn usage_is_not_asked_for_again_where_that_was_refused() {
    let refusals = [
        ("400 Bad Request", r#"{"error":{"message":"Unrecognized request argument supplied: stream_options"}}"#),
        ("422 Unprocessable Entity", r#"{"message":{"detail":[{"loc":["body","stream_options","include_usage"]}]}}"#),
    ];
    for (status, refusal) in refusals {
        let fake = Fake::start().await;
        let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
        let (events, (mut refused, taken)) = tokio::join!(collect(ask(&*model)), async {
            (fake.refuse(status, "", refusal).await, fake.stream(Wire::OpenAi.stream()).await)
        });
        assert_eq!(events, hello());
        let member = refused.body.as_object_mut().unwrap().remove("stream_options");
        assert_eq!(member, Some(json!({"include_usage": true})));
        assert_eq!(taken.body, refused.body);
        let (events, next) = tokio::join!(collect(ask(&*model)), fake.stream(Wire::OpenAi.stream()));
        assert_eq!(events, hello());
        assert_eq!(next.body, taken.body);
    }
}

/// A question with an image.
fn show(model: &dyn Model) -> ModelStream {
    let picture = PartBody::File(file("image/png", Some("a.png"), PNG));
    let messages = [user(vec![text("What is it?"), picture])];
    stream(model, &messages, &[])
}

fn shows_image(request: &Request) -> bool {
    let body = request.body.to_string();
    assert_ne!(body.contains("iVBORw0KGgo="), body.contains("[attachment: a.png, image/png]"));
    body.contains("iVBORw0KGgo=")
}

#[tokio::test]
async fn images_that_are_refused_are_named_from_then_on() {
    for status in ["400 Bad Request", "404 Not Found", "415 Unsupported Media Type", "422 Unprocessable Entity"] {
        for wire in BOTH {
            let fake = Fake::start().await;
            let model = wire.model(settings(wire, &fake));
            let (events, requests) = tokio::join!(collect(show(&*model)), async {
                [fake.refuse(status, "", "no images").await, fake.stream(wire.stream()).await]
            });
            assert_eq!(events, hello());
            assert_eq!(requests.each_ref().map(shows_image), [true, false]);
            let (events, request) = tokio::join!(collect(show(&*model)), fake.stream(wire.stream()));
            assert_eq!(events, hello());
            assert!(!shows_image(&request));
            fake.is_left_alone().await;
        }
    }
}

/// A conversation with an answer that the provider wants its thought back with.
fn thoughtful(wire: Wire, said: Vec<PartBody>) -> Vec<Arc<Message>> {
    let kept = match wire {
        Wire::OpenAi => json!({"spellings": ["reasoning_content"]}),
        Wire::Anthropic => json!({"data": "Hm."}),
    };
    let kept = Some(Kept::new(&kept).unwrap());
    let thought = PartBody::Reasoning { text: "Hm.".to_owned(), kept: kept.clone(), span: SPAN };
    let mut answer = Message::clone(&assistant(wire.name(), None, vec![thought, text("Well.")]));
    if let (Wire::OpenAi, Role::Assistant(author)) = (wire, &mut answer.role) {
        author.kept = kept;
    }
    vec![user(vec![text("a")]), Arc::new(answer), user(said)]
}

fn go_on(wire: Wire, model: &dyn Model) -> ModelStream {
    stream(model, &thoughtful(wire, vec![text("b")]), &[])
}

fn shows_thought(request: &Request) -> bool {
    request.body.to_string().contains("Hm.")
}

#[tokio::test]
async fn what_the_provider_said_itself_is_left_out_where_it_is_refused() {
    let refusals = [
        r#"{"error":{"message":"'messages.1' : property 'reasoning_content' is unsupported"}}"#,
        r#"{"detail":[{"msg":"Extra inputs are not permitted"}]}"#,
    ];
    for refusal in refusals {
        for wire in BOTH {
            let fake = Fake::start().await;
            let model = wire.model(settings(wire, &fake));
            let (events, requests) = tokio::join!(collect(go_on(wire, &*model)), async {
                [fake.refuse("400 Bad Request", "", refusal).await, fake.stream(wire.stream()).await]
            });
            assert_eq!(events, hello());
            assert_eq!(requests.each_ref().map(shows_thought), [true, false]);
            // It may have been this conversation only.
            let (events, request) = tokio::join!(collect(go_on(wire, &*model)), fake.stream(wire.stream()));
            assert_eq!(events, hello());
            assert!(shows_thought(&request));
            fake.is_left_alone().await;
        }
    }
}

#[tokio::test]
async fn what_is_told_of_a_refusal_is_what_the_whole_request_was_answered_with() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (error, requests) = tokio::join!(failure(go_on(wire, &*model)), async {
            let wanted = "the reasoning must be passed back";
            [fake.refuse("400 Bad Request", "", "too long").await, fake.refuse("400 Bad Request", "", wanted).await]
        });
        let message = format!("{}/some-model answered 400 Bad Request: too long", wire.name());
        assert_eq!(error, provider_error(&message, Some(400), false));
        assert_eq!(requests.each_ref().map(shows_thought), [true, false]);
        fake.is_left_alone().await;
    }
}

/// What is refused is left out, whichever it is, and images are not blamed for thoughts.
#[tokio::test]
async fn images_and_thoughts_are_told_apart() {
    let cases = [
        ("no image_url", &[(true, true), (false, true)][..], false),
        ("no reasoning_content", &[(true, true), (true, false)], true),
        ("no", &[(true, true), (false, true), (false, false)], true),
    ];
    for (refusal, expected, images_are_shown_again) in cases {
        let fake = Fake::start().await;
        let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
        let picture = PartBody::File(file("image/png", Some("a.png"), PNG));
        let ask = || stream(&*model, &thoughtful(Wire::OpenAi, vec![picture.clone()]), &[]);
        let (events, shown) = tokio::join!(collect(ask()), async {
            let mut shown = Vec::new();
            for _ in 1..expected.len() {
                shown.push(fake.refuse("400 Bad Request", "", refusal).await);
            }
            shown.push(fake.stream(Wire::OpenAi.stream()).await);
            shown.iter().map(|request| (shows_image(request), shows_thought(request))).collect::<Vec<_>>()
        });
        assert_eq!((events, &shown[..]), (hello(), expected), "{refusal}");
        let (_, request) = tokio::join!(collect(ask()), fake.stream(Wire::OpenAi.stream()));
        assert_eq!(shows_image(&request), images_are_shown_again, "{refusal}");
    }
}

#[tokio::test]
async fn a_refusal_that_is_not_about_images_is_told_and_not_remembered() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        for _ in 0..2 {
            let (error, requests) = tokio::join!(failure(show(&*model)), async {
                [fake.refuse("400 Bad Request", "", "no").await, fake.refuse("400 Bad Request", "", "never").await]
            });
            let message = format!("{}/some-model answered 400 Bad Request: never", wire.name());
            assert_eq!(error, provider_error(&message, Some(400), false));
            assert_eq!(requests.each_ref().map(shows_image), [true, false]);
        }
        // Without an image there is nothing to leave out.
        let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("400 Bad Request", "", "no"));
        let message = format!("{}/some-model answered 400 Bad Request: no", wire.name());
        assert_eq!(error, provider_error(&message, Some(400), false));
        fake.is_left_alone().await;
    }
}
