use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use futures_util::StreamExt;
use handback_wire::agui::RunAgentInput;
use serde_json::{Value, json};

use super::super::super::run::tests::support::{Recorder, Workshop};
use super::super::super::{Conversation, Run, RunOptions, RunState, ToolRegistry};
use super::super::*;
use super::server::*;

fn agent(server: &Server) -> ThreadAgent {
    ThreadAgent::new(&server.url, "a room").unwrap()
}

/// The numbers of the steps that were told, and what was wrong in the end.
async fn steps(agent: &ThreadAgent) -> (Vec<String>, Option<AgentError>) {
    let mut input = RunAgentInput::new("t", "mine", Vec::new());
    input.parent_run_id = Some("before".to_owned());
    let mut events = match agent.run(input).await {
        Ok(events) => events,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut names = Vec::new();
    let reading = async {
        while let Some(incoming) = events.next().await {
            match incoming {
                Ok(Incoming::Event(event)) => match serde_json::to_value(event).unwrap()["stepName"].as_str() {
                    Some(name) => names.push(name.to_owned()),
                    None => names.push("end".to_owned()),
                },
                Ok(other) => panic!("{other:?}"),
                Err(error) => return Some(error),
            }
        }
        None
    };
    let error = tokio::time::timeout(Duration::from_secs(20), reading).await.expect("it ends in time");
    (names, error)
}

fn step(number: usize) -> String {
    format!("id: r1:{number}\ndata: {}\n\n", json!({"type": "STEP_STARTED", "stepName": number.to_string()}))
}

fn end(number: usize) -> String {
    format!("id: r1:{number}\n{}", finished("t", "r1"))
}

/// A server whose run `r1` is executed as `execute` says, the first time and every time after.
async fn serving(execute: impl Fn(usize) -> Response + Send + Sync + 'static) -> Server {
    Server::start(move |number, _| if number == 0 { answer(&json!({"run_id": "r1"})) } else { execute(number - 1) })
        .await
}

#[tokio::test]
async fn a_run_is_made_and_then_executed() {
    let server = serving(|_| events(&[&step(0), &end(1)])).await;
    let agent = agent(&server).bearer("secret").unwrap().header("x-tenant", "blue").unwrap();
    assert_eq!(steps(&agent).await, (vec!["0".to_owned(), "end".to_owned()], None));
    let asked = server.asked();
    let paths: Vec<&str> = asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(paths, ["/api/v1/rooms/a%20room/agui/t", "/api/v1/rooms/a%20room/agui/t/r1"]);
    assert_eq!(asked[0].body, json!({"parent_run_id": "before", "metadata": null}));
    // Soliplex takes no ids but its own.
    assert_eq!((&asked[1].body["threadId"], &asked[1].body["runId"]), (&json!("t"), &json!("r1")));
    for asked in &asked {
        let headers = ["authorization", "x-tenant"].map(|name| asked.header(name).unwrap());
        assert_eq!((headers, asked.header("last-event-id")), (["Bearer secret", "blue"], None));
    }
}

#[tokio::test]
async fn a_thread_is_made_where_there_is_none_and_its_first_run_is_used() {
    let workshop = Workshop::default();
    let server = Server::start(|number, _| match number {
        0 => answer(&json!({"room_id": "a room", "thread_id": "t9", "runs": {"r1": {"run_id": "r1", "events": []}}})),
        1 => {
            let call = json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "look", "delta": "{}"});
            events(&[&started("t9", "r1"), &format!("data: {call}\n\n"), &finished("t9", "r1")])
        }
        2 => answer(&json!({"run_id": "r2", "thread_id": "t9", "parent_run_id": "r1", "run_input": null})),
        _ => events(&[&started("t9", "r2"), &finished("t9", "r2")]),
    })
    .await;
    let tools = ToolRegistry::new().register(workshop.echo("look"));
    let mut run = Run::new(Arc::new(agent(&server)), tools, Conversation::default(), RunOptions::default());
    let recorder = Recorder::of(&run);
    assert_eq!(run.say("Hi").await, Ok(RunState::Completed));
    recorder.assert_no_flash(1);
    assert_eq!(run.handle().conversation().thread_id(), Some("t9"));
    let asked = server.asked();
    let paths: Vec<&str> =
        asked.iter().map(|asked| asked.path.trim_start_matches("/api/v1/rooms/a%20room/agui")).collect();
    assert_eq!(paths, ["", "/t9/r1", "/t9", "/t9/r2"]);
    assert_eq!((&asked[2].body["parent_run_id"], &asked[3].body["runId"]), (&json!("r1"), &json!("r2")));
}

#[tokio::test]
async fn a_thread_without_a_run_of_its_own_gets_one() {
    for thread in
        [json!({"thread_id": "t9"}), json!({"thread_id": "t9", "runs": {}}), json!({"thread_id": "t9", "runs": null})]
    {
        let server = Server::start(move |number, _| match number {
            0 => answer(&thread),
            1 => answer(&json!({"run_id": "r1"})),
            _ => events(&[&finished("t9", "r1")]),
        })
        .await;
        let input = RunAgentInput::new("", "mine", Vec::new());
        assert_eq!(agent(&server).run(input).await.unwrap().count().await, 1);
        assert_eq!(server.asked()[2].path, "/api/v1/rooms/a%20room/agui/t9/r1");
    }
}

#[tokio::test]
async fn a_lost_stream_is_taken_up_again_where_it_was() {
    let server = serving(|time| match time {
        0 => cut_after(&[&step(0), &step(1)]),
        // Some of it is told again.
        1 => cut_after(&[&step(1), &step(2)]),
        2 => failure(503, &json!({"detail": "restarting"})),
        3 => events(&[&step(3)]),
        _ => events(&[&end(4)]),
    })
    .await;
    let expected = ["0", "1", "2", "3", "end"].map(str::to_owned).to_vec();
    assert_eq!(steps(&agent(&server)).await, (expected, None));
    let asked = server.asked();
    let cursors: Vec<Option<&str>> = asked[1..].iter().map(|asked| asked.header("last-event-id")).collect();
    assert_eq!(cursors, [None, Some("r1:1"), Some("r1:2"), Some("r1:2"), Some("r1:3")]);
    // The same request each time.
    let bodies: Vec<&Value> = asked[1..].iter().map(|asked| &asked.body).collect();
    assert!(bodies.iter().all(|body| *body == bodies[0]));
}

/// What has a number that was there before is new all the same when it belongs to something else.
#[tokio::test]
async fn only_numbers_of_the_same_run_are_compared() {
    let other = step(0).replace("id: r1:0", "id: r2:0").replace("\"0\"", "\"other\"");
    let server = serving(move |time| match time {
        0 => cut_after(&[&step(0), &step(1), &other]),
        _ => events(&[&other, &end(2)]),
    })
    .await;
    assert_eq!(steps(&agent(&server)).await, (["0", "1", "other", "end"].map(str::to_owned).to_vec(), None));
    assert_eq!(server.asked()[2].header("last-event-id"), Some("r2:0"));
}

#[tokio::test]
async fn it_is_tried_five_times_in_a_row_and_every_event_is_a_new_beginning() {
    let server = serving(|time| match time {
        0..5 => cut_after(&[&step(0)]),
        5 => cut_after(&[&step(0), &step(1)]),
        _ => cut_after(&[&step(1)]),
    })
    .await;
    let (told, error) = steps(&agent(&server)).await;
    assert_eq!(told, ["0", "1"]);
    assert_eq!(error, Some(AgentError::NetworkLost { reason: "the server cut it".to_owned() }));
    // Made, executed, five tries of which the last brought something, and five more.
    assert_eq!(server.asked().len(), 1 + 1 + 5 + 5);
}

#[tokio::test]
async fn what_the_server_refuses_is_not_tried_again() {
    for status in [400, 401, 404, 429] {
        let server = serving(move |time| match time {
            0 => cut_after(&[&step(0)]),
            _ => failure(status, &json!({"detail": "no"})),
        })
        .await;
        let (told, error) = steps(&agent(&server)).await;
        assert_eq!((told, server.asked().len()), (vec!["0".to_owned()], 3), "{status}");
        assert!(error.is_some_and(|error| !matches!(error, AgentError::NetworkLost { .. })), "{status}");
    }
}

#[tokio::test]
async fn an_answer_without_end_is_not_read_for_ever() {
    let server = Server::start(|_, _| {
        let mebibyte = axum::body::Bytes::from(vec![b' '; 1024 * 1024]);
        let endless = futures_util::stream::repeat(mebibyte).map(Ok::<_, std::io::Error>);
        axum::response::IntoResponse::into_response(axum::body::Body::from_stream(endless))
    })
    .await;
    let reason = "it is larger than 67108864 bytes".to_owned();
    assert_eq!(steps(&agent(&server)).await, (Vec::new(), Some(AgentError::Unexpected { reason })));
}

/// However it is cut into connections.
#[tokio::test]
async fn a_run_without_end_is_not_read_for_ever() {
    let server = serving(|time| {
        let mebibytes = "x".repeat(7 * 1024 * 1024);
        let frame = move |number: usize| format!("id: r1:{}\ndata: {mebibytes}\n\n", time * 10 + number);
        let frames = futures_util::stream::iter((0..10).map(move |number| Ok::<_, std::io::Error>(frame(number))));
        sse(axum::body::Body::from_stream(frames))
    })
    .await;
    let mut events = agent(&server).run(RunAgentInput::new("t", "mine", Vec::new())).await.unwrap();
    let mut last = None;
    let reading = async {
        while let Some(incoming) = events.next().await {
            last = incoming.err();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), reading).await.expect("it ends in time");
    let reason = "a run of more than 268435456 bytes".to_owned();
    assert_eq!((last, server.asked().len()), (Some(AgentError::Unexpected { reason }), 1 + 4));
}

#[tokio::test]
async fn a_stream_that_never_said_where_it_was_is_lost() {
    for nothing in [vec![], vec![started("t", "r1")]] {
        let server = serving(move |_| cut_after(&nothing.iter().map(String::as_str).collect::<Vec<_>>())).await;
        let (_, error) = steps(&agent(&server)).await;
        assert!(matches!(error, Some(AgentError::NetworkLost { .. })), "{error:?}");
        assert_eq!(server.asked().len(), 2);
    }
}

#[tokio::test]
async fn a_run_that_cannot_be_made_is_not_executed() {
    let server = Server::start(|_, _| failure(404, &json!({"detail": "no such room"}))).await;
    let refused = AgentError::Refused { status: 404, message: "no such room".to_owned() };
    assert_eq!((steps(&agent(&server)).await, server.asked().len()), ((Vec::new(), Some(refused)), 1));
    let strange = Server::start(|_, _| answer(&json!({"something": "else"}))).await;
    assert!(matches!(steps(&agent(&strange)).await.1, Some(AgentError::Unexpected { .. })));
    // It would not be in the place of a run.
    for id in ["", ".", ".."] {
        let strange = Server::start(move |_, _| answer(&json!({"run_id": id}))).await;
        let reason = format!("\"{id}\" is no id");
        let refused = (Vec::new(), Some(AgentError::Unexpected { reason }));
        assert_eq!((steps(&agent(&strange)).await, strange.asked().len()), (refused, 1));
    }
}
