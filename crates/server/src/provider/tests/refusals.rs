//! What a provider says when it refuses, and how that is told.

use handback_core::store::TurnError;

use super::fake::Fake;
use super::{BOTH, KEY, Wire, ask, collect, failure, hello, provider_error, settings};
use crate::config::Secret;
use crate::provider::{OpenAi, Settings};

#[tokio::test]
async fn what_is_no_event_stream_is_refused_with_what_it_says() {
    let cases = [
        ("text/html", "<html><title>Log in</title></html>", "text/html in place of an event stream: Log in"),
        ("text/html; charset=utf-8", "<html></html>", "text/html; charset=utf-8 in place of an event stream"),
        (
            "application/json",
            r#"{"error":{"message":"no streams"}}"#,
            "application/json in place of an event stream: no streams",
        ),
    ];
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        for (kind, body, what) in cases {
            let headers = format!("Content-Type: {kind}\r\n");
            let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("200 OK", &headers, body));
            let message = format!("{}/some-model answered with {what}", wire.name());
            assert_eq!(error, provider_error(&message, None, false));
        }
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn a_stream_without_a_content_type_is_taken() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (events, _) = tokio::join!(collect(ask(&*model)), fake.refuse("200 OK", "", wire.stream()));
        assert_eq!(events, hello());
    }
}

#[tokio::test]
async fn a_refusal_is_told_in_the_providers_words() {
    let long = format!(r#"{{"error":{{"message":"{}"}}}}"#, "é".repeat(600));
    let cut = format!(": {}…", "é".repeat(500 - "answered 400 Bad Request: ".len()));
    let cases = [
        (
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: wrong"}}"#,
            ": max_tokens: wrong",
        ),
        (r#"{"error":"model 'x' not found"}"#, ": model 'x' not found"),
        (r#"{"object":"error","message":"too long","code":400}"#, ": too long"),
        (r#"{"detail":[{"loc":["body","tools"],"msg":"bad"}]}"#, r#": [{"loc":["body","tools"],"msg":"bad"}]"#),
        (r#"[{"error":{"code":400,"message":"in a list"}}]"#, ": in a list"),
        ("plain\n  text", ": plain text"),
        ("<!doctype html><html><head><title>400 Bad Request</title>", ": 400 Bad Request"),
        ("<html>", ""),
        ("", ""),
        (&long, &cut),
    ];
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        for (body, words) in cases {
            let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("400 Bad Request", "", body));
            let message = format!("{}/some-model answered 400 Bad Request{words}", wire.name());
            assert_eq!(error, provider_error(&message, Some(400), false));
        }
        fake.is_left_alone().await;
    }
}

#[tokio::test]
async fn a_missing_endpoint_is_told_with_its_address() {
    for (wire, path) in [(Wire::OpenAi, "/chat/completions"), (Wire::Anthropic, "/messages")] {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("404 Not Found", "", "404 page not found"));
        let message =
            format!("{}/some-model answered 404 Not Found at {}{path}: 404 page not found", wire.name(), fake.url);
        assert_eq!(error, provider_error(&message, Some(404), false));
    }
}

#[tokio::test]
async fn a_refused_key_is_told_with_what_to_do_and_never_shown() {
    for (status, body) in [
        ("401 Unauthorized", format!(r#"{{"error":{{"message":"Incorrect API key: {KEY}."}}}}"#)),
        ("403 Forbidden", format!("Incorrect API key: {KEY}.")),
    ] {
        for wire in BOTH {
            let (name, variable) = (wire.name(), wire.name().to_uppercase());
            let fake = Fake::start().await;
            let model = wire.model(settings(wire, &fake));
            let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse(status, "", &body));
            let message = format!(
                "{name}/some-model answered {status}: Incorrect API key: [redacted]. (check its key: \
                 providers.{name}.apiKey or apiKeyEnv, or {variable}_API_KEY in the environment)"
            );
            assert_eq!(error, TurnError::Auth { provider: name.into(), message });
            fake.is_left_alone().await;
        }
    }
}

#[tokio::test]
async fn a_key_at_the_edge_of_what_is_told_is_not_shown_in_part() {
    let fake = Fake::start().await;
    let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
    let before = "x".repeat(495 - "answered 400 Bad Request: ".len());
    let body = format!("{before}{KEY}");
    let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("400 Bad Request", "", &body));
    let message = format!("openai/some-model answered 400 Bad Request: {before}[reda…");
    assert_eq!(error, provider_error(&message, Some(400), false));
}

#[tokio::test]
async fn a_key_in_the_content_type_is_not_shown() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let headers = format!("Content-Type: x/{KEY}\r\n");
        let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("200 OK", &headers, ""));
        let message = format!("{}/some-model answered with x/[redacted] in place of an event stream", wire.name());
        assert_eq!(error, provider_error(&message, None, false));
    }
}

#[tokio::test]
async fn what_an_unreadable_event_quotes_is_bounded_and_without_the_key() {
    for (wire, begin) in [(Wire::OpenAi, r#"{"choices":"#), (Wire::Anthropic, r#"{"type":"message_start","message":"#)]
    {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let data = format!(r#"{begin}"authorization: Bearer {KEY} {}"}}"#, "A".repeat(300_000));
        let (error, _) = tokio::join!(failure(ask(&*model)), fake.stream(format!("data: {data}\n\n")));
        let told = r#"sent an event that cannot be read: invalid type: string "authorization: Bearer [redacted] "#;
        let message = format!("{}/some-model {told}{}…", wire.name(), "A".repeat(500 - told.len()));
        assert_eq!(error, provider_error(&message, None, false));
    }
}

#[tokio::test]
async fn control_characters_are_not_told_and_hide_no_key() {
    let fake = Fake::start().await;
    let model = Wire::OpenAi.model(settings(Wire::OpenAi, &fake));
    let (begin, end) = KEY.split_at(5);
    let body = format!("\u{1b}[31mbad key\u{7}: {begin}\u{9b}{end}\r\nbye");
    let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("400 Bad Request", "", &body));
    let message = "openai/some-model answered 400 Bad Request: [31mbad key: [redacted] bye";
    assert_eq!(error, provider_error(message, Some(400), false));
}

#[tokio::test]
async fn a_missing_key_is_named() {
    for (wire, key) in BOTH.into_iter().zip([None, Some(" \n")]) {
        let fake = Fake::start().await;
        let api_key = key.map(|key| Secret::new(key.to_owned()));
        let model = wire.model(Settings { api_key, ..Settings::new("local", &fake.url) });
        let (error, request) = tokio::join!(failure(ask(&*model)), fake.refuse("401 Unauthorized", "", ""));
        let message = "local/some-model answered 401 Unauthorized (no key is set for it: set providers.local.apiKey or \
                       apiKeyEnv)";
        assert_eq!(error, TurnError::Auth { provider: "local".into(), message: message.to_owned() });
        assert_eq!((request.header("authorization"), request.header("x-api-key")), (None, None));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    for wire in BOTH {
        let (fake, other) = (Fake::start().await, Fake::start().await);
        let model = wire.model(settings(wire, &fake));
        let headers = format!("Location: {}/elsewhere\r\n", other.url);
        let (error, _) = tokio::join!(failure(ask(&*model)), fake.refuse("307 Temporary Redirect", &headers, ""));
        let message = format!(
            "{}/some-model answered 307 and redirects; set baseURL to where its API is: {}/elsewhere",
            wire.name(),
            other.url
        );
        assert_eq!(error, provider_error(&message, Some(307), false));
        other.is_left_alone().await;
        fake.is_left_alone().await;
    }
}

#[test]
fn settings_that_cannot_work_are_refused_without_showing_secrets() {
    let refusal = |base_url: &str, key: &str| {
        let api_key = Some(Secret::new(key.to_owned()));
        let settings = Settings { api_key, ..Settings::new("mine", base_url) };
        OpenAi::new(settings).err().map(|error| error.to_string())
    };
    assert_eq!(refusal("https://example.com/v1", KEY), None);
    let cases = [
        ("example.com/v1", KEY, "providers.mine.baseURL: relative URL without a base"),
        ("ftp://example.com", KEY, "providers.mine.baseURL: it must start with http:// or https://"),
        (
            "http://me:secret@example.com",
            KEY,
            "providers.mine.baseURL: credentials belong into apiKey, not into the URL",
        ),
        (
            "http://example.com",
            "a\nb",
            "providers.mine.apiKey: the key has characters that cannot be sent, such as a line break",
        ),
    ];
    for (base_url, key, message) in cases {
        assert_eq!(refusal(base_url, key).as_deref(), Some(message));
    }
}
