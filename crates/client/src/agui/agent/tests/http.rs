use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::IntoResponse;
use futures_util::{StreamExt, stream};
use handback_wire::agui::RunAgentInput;
use serde_json::{Value, json};

use super::super::super::run::tests::support::{Recorder, Workshop};
use super::super::super::{Conversation, Item, Run, RunError, RunOptions, RunState, ToolRegistry};
use super::super::*;
use super::server::*;

fn input() -> RunAgentInput {
    RunAgentInput::new("t", "r", Vec::new())
}

/// All that comes, as JSON; what is wrong as a text.
async fn all(agent: &HttpAgent) -> Vec<Value> {
    let events = match agent.run(input()).await {
        Ok(events) => events,
        Err(error) => return vec![json!(error.to_string())],
    };
    let read = |incoming: Result<Incoming, AgentError>| match incoming {
        Ok(Incoming::Event(event)) => serde_json::to_value(event).unwrap(),
        Ok(Incoming::Undecodable { kind, reason: _ }) => json!({"unread": kind}),
        Err(error) => json!(error.to_string()),
    };
    tokio::time::timeout(Duration::from_secs(20), events.map(read).collect()).await.expect("it ends in time")
}

#[tokio::test]
async fn events_are_read_however_they_are_framed() {
    let run = [started("t", "r"), finished("t", "r")].concat();
    let expected = vec![
        json!({"type": "RUN_STARTED", "threadId": "t", "runId": "r"}),
        json!({"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}),
    ];
    let crlf = run.replace('\n', "\r\n");
    let comments =
        format!(": keep-alive\n\n{}", run.replace("\n\n", "\n\n: keep-alive\n\n:\n\nevent: x\n\nretry: 5\n\n"));
    let two_lines = run.replace("\",\"", "\",\ndata: \"");
    for text in [&run, &crlf, &comments, &two_lines] {
        for size in [1, 2, 7, text.len()] {
            let pieces: Vec<String> =
                text.as_bytes().chunks(size).map(|piece| String::from_utf8(piece.to_vec()).unwrap()).collect();
            let server =
                Server::start(move |_, _| events(&pieces.iter().map(String::as_str).collect::<Vec<_>>())).await;
            assert_eq!(all(&HttpAgent::new(&server.url).unwrap()).await, expected, "{size} of {text}");
        }
    }
}

#[tokio::test]
async fn a_request_is_one_of_ag_ui_and_has_what_the_application_wants() {
    let server = Server::start(|_, _| events(&[&finished("t", "r")])).await;
    let agent = HttpAgent::new(&format!("{}/agui/helper?x=1", server.url)).unwrap();
    let agent = agent.bearer("secret").unwrap().header("X-Tenant", "blue").unwrap();
    all(&agent).await;
    let asked = &server.asked()[0];
    assert_eq!((asked.path.as_str(), &asked.body), ("/agui/helper", &serde_json::to_value(input()).unwrap()));
    let headers = ["authorization", "x-tenant", "content-type", "accept"].map(|name| asked.header(name).unwrap());
    assert_eq!(headers, ["Bearer secret", "blue", "application/json", "text/event-stream"]);
    assert!(!format!("{agent:?}").contains("secret"));
}

#[tokio::test]
async fn a_thread_that_is_not_there_yet_gets_an_id() {
    let server = Server::start(|_, _| events(&[&finished("t", "r")])).await;
    let agent = HttpAgent::new(&server.url).unwrap();
    drop(agent.run(RunAgentInput { thread_id: String::new(), ..input() }).await);
    assert!(server.asked()[0].body["threadId"].as_str().unwrap().starts_with("thread_"));
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_at_once() {
    for (url, reason) in [
        ("nowhere", "\"nowhere\" cannot be asked: relative URL without a base"),
        ("ftp://x", "\"ftp://x\" cannot be asked: it must start with http:// or https://"),
        ("http://me:secret@x", "\"x\" cannot be asked: credentials belong into the token, not into the URL"),
    ] {
        assert_eq!(HttpAgent::new(url).unwrap_err().to_string(), reason);
        assert_eq!(ThreadAgent::new(url, "room").unwrap_err().to_string(), reason);
    }
    let agent = || HttpAgent::new("http://x").unwrap();
    assert!(matches!(agent().bearer("new\nline"), Err(AgentError::Invalid { .. })));
    assert!(matches!(agent().header("no name", "x"), Err(AgentError::Invalid { .. })));
}

#[tokio::test]
async fn refusals_are_told_apart_in_the_words_of_the_server() {
    for (status, body, expected) in [
        (
            401,
            json!({"error": "who are you", "code": "UNAUTHORIZED"}),
            AgentError::AuthExpired { status: 401, message: "who are you".to_owned() },
        ),
        (403, json!({"detail": "not you"}), AgentError::AuthExpired { status: 403, message: "not you".to_owned() }),
        (
            429,
            json!({"message": "slowly"}),
            AgentError::RateLimited { message: "slowly".to_owned(), retry_after: Some(Duration::from_secs(7)) },
        ),
        (
            400,
            json!({"detail": [{"loc": ["body"]}]}),
            AgentError::Refused { status: 400, message: r#"[{"loc":["body"]}]"#.to_owned() },
        ),
        (
            404,
            json!({"error": {"message": "no such agent"}}),
            AgentError::Refused { status: 404, message: "no such agent".to_owned() },
        ),
        (
            500,
            json!("oops"),
            AgentError::Refused { status: 500, message: "the server answered 500 Internal Server Error".to_owned() },
        ),
        (
            307,
            json!({}),
            AgentError::Refused { status: 307, message: "the server answered 307 Temporary Redirect".to_owned() },
        ),
    ] {
        let server =
            Server::start(move |_, _| ([(header::RETRY_AFTER, "7")], failure(status, &body)).into_response()).await;
        let refused = HttpAgent::new(&server.url).unwrap().run(input()).await.err();
        assert_eq!((refused, server.asked().len()), (Some(expected), 1));
    }
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_not_taken_for_one() {
    let server = Server::start(|_, _| answer(&json!({"hello": "world"}))).await;
    let reason = "\"application/json\" is not an event stream".to_owned();
    assert_eq!(HttpAgent::new(&server.url).unwrap().run(input()).await.err(), Some(AgentError::Unexpected { reason }));
}

#[tokio::test]
async fn a_stream_that_is_compressed_is_not_read_as_it_is() {
    let server =
        Server::start(|_, _| ([(header::CONTENT_ENCODING, "gzip")], events(&[&finished("t", "r")])).into_response())
            .await;
    let reason = "it is encoded as \"gzip\", though it was asked for as it is".to_owned();
    assert_eq!(HttpAgent::new(&server.url).unwrap().run(input()).await.err(), Some(AgentError::Unexpected { reason }));
    let plain = Server::start(|_, _| {
        ([(header::CONTENT_ENCODING, "Identity")], events(&[&finished("t", "r")])).into_response()
    })
    .await;
    assert_eq!(all(&HttpAgent::new(&plain.url).unwrap()).await.len(), 1);
    assert_eq!(plain.asked()[0].header("accept-encoding"), None);
}

/// Whoever is pointed to gets neither the token nor what was said.
#[tokio::test]
async fn a_redirect_is_told_and_not_followed() {
    let other = std::sync::Arc::new(Server::start(|_, _| events(&[&finished("t", "r")])).await);
    for status in [301, 302, 303, 307, 308] {
        let location = other.url.clone();
        let server = Server::start(move |_, _| {
            ([(header::LOCATION, location.clone())], failure(status, &json!({}))).into_response()
        })
        .await;
        let agent = HttpAgent::new(&server.url).unwrap().bearer("secret").unwrap();
        let message = format!("the server redirects to {}: ask there", other.url);
        assert_eq!(agent.run(input()).await.err(), Some(AgentError::Refused { status, message }));
    }
    assert_eq!(other.asked().len(), 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_lost_network() {
    let nobody = Server::start(|_, _| answer(&json!({}))).await.url.clone();
    let error = HttpAgent::new(&nobody).unwrap().run(input()).await.err();
    assert!(matches!(error, Some(AgentError::NetworkLost { .. })), "{error:?}");
}

#[tokio::test]
async fn a_stream_that_is_cut_or_ends_early_or_falls_silent_is_lost_and_not_asked_for_again() {
    let cut = Server::start(|_, _| cut_after(&[&started("t", "r")])).await;
    let ended = Server::start(|_, _| events(&[&started("t", "r")])).await;
    let silent = Server::start(|_, _| {
        let first = stream::iter([Ok::<_, std::io::Error>(started("t", "r"))]);
        sse(Body::from_stream(first.chain(stream::pending())))
    })
    .await;
    for (server, reason) in
        [(&cut, "the server cut it"), (&ended, "the server ended the stream"), (&silent, "the server is silent")]
    {
        let agent = HttpAgent::new(&server.url).unwrap().silence(Duration::from_millis(300));
        let told = all(&agent).await;
        assert_eq!(told[1..], [json!(format!("the connection to the agent was lost: {reason}"))]);
        assert_eq!((told.len(), server.asked().len()), (2, 1));
    }
}

#[tokio::test]
async fn what_happens_to_the_connection_after_the_end_is_not_told() {
    let server = Server::start(|_, _| cut_after(&[&started("t", "r"), &finished("t", "r")])).await;
    assert_eq!(all(&HttpAgent::new(&server.url).unwrap()).await.len(), 2);
}

#[tokio::test]
async fn events_that_cannot_be_read_are_told_by_their_kind() {
    let strange =
        "data: {\"type\":\"THINKING_START\"}\n\ndata: {\"type\":\"RUN_STARTED\"}\n\ndata: no JSON\n\ndata: [1]\n\n";
    let server = Server::start(move |_, _| events(&[strange, &finished("t", "r")])).await;
    let told = all(&HttpAgent::new(&server.url).unwrap()).await;
    let unread = ["THINKING_START", "RUN_STARTED", "", ""].map(|kind| json!({"unread": kind}));
    assert_eq!((&told[..4], told.len()), (&unread[..], 5));
}

#[tokio::test]
async fn a_run_with_a_tool_over_a_socket() {
    let workshop = Workshop::default();
    let server = Server::start(|number, asked| {
        let event = |event: Value| format!("data: {event}\n\n");
        let thread = asked.body["threadId"].as_str().unwrap();
        let (run, said) = if number == 0 {
            ("r1", json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "look", "delta": "{}"}))
        } else {
            (
                "r2",
                json!({"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "delta": asked.body["messages"][2]["content"]}),
            )
        };
        events(&[
            &started(thread, run),
            &event(json!({"type": "FROM_THE_FUTURE"})),
            &event(said),
            &finished(thread, run),
        ])
    })
    .await;
    let tools = ToolRegistry::new().register(workshop.echo("look"));
    let mut run = Run::new(
        std::sync::Arc::new(HttpAgent::new(&server.url).unwrap()),
        tools,
        Conversation::default(),
        RunOptions::default(),
    );
    let recorder = Recorder::of(&run);
    assert_eq!(run.say("Hi").await, Ok(RunState::Completed));
    recorder.assert_no_flash(1);
    let last = run.handle().conversation().items().last().cloned();
    assert!(matches!(last, Some(Item::Text(text)) if text.text == "echo {}"));
    let asked = server.asked();
    assert_eq!(
        (asked.len(), &asked[1].body["threadId"], &asked[1].body["parentRunId"]),
        (2, &asked[0].body["threadId"], &json!("r1"))
    );
}

#[tokio::test]
async fn credentials_that_expire_fail_the_run_and_new_ones_try_again() {
    let server = Server::start(|_, asked| match asked.header("authorization") {
        Some("Bearer new") => events(&[&finished("t", "r")]),
        _ => failure(401, &json!({"error": "expired"})),
    })
    .await;
    let run = |token: &str, conversation| {
        let agent = std::sync::Arc::new(HttpAgent::new(&server.url).unwrap().bearer(token).unwrap());
        Run::new(agent, ToolRegistry::new(), conversation, RunOptions::default())
    };
    let mut old = run("old", Conversation::default());
    let expired = AgentError::AuthExpired { status: 401, message: "expired".to_owned() };
    assert_eq!(old.say("Hi").await, Ok(RunState::Failed(RunError::Agent(expired))));
    assert_eq!(run("new", old.handle().conversation()).retry().await, Ok(RunState::Completed));
    assert_eq!(server.asked()[1].body["messages"], server.asked()[0].body["messages"]);
}
