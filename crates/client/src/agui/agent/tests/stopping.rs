//! Runs over a socket that are cancelled or dropped: whoever serves them sees them go, and is asked for nothing more.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::{StreamExt, stream};
use serde_json::json;
use tokio::time::timeout;

use super::super::super::run::tests::support::{Gate, Recorder, Workshop};
use super::super::super::{Agent, Conversation, HttpAgent, Run, RunOptions, RunState, ThreadAgent, ToolRegistry};
use super::server::*;

/// An answer that never comes to its end; `gone` fires when nobody waits for it any more.
fn endless(kind: &'static str, gone: &Gate) -> Response {
    let guard = gone.clone().drop_guard();
    let body = stream::iter([Ok::<_, std::io::Error>(" ")]).chain(stream::pending()).map(move |piece| {
        let _kept = &guard;
        piece
    });
    ([(header::CONTENT_TYPE, kind)], Body::from_stream(body)).into_response()
}

fn calling() -> Response {
    let call = json!({"type": "TOOL_CALL_CHUNK", "toolCallId": "c", "toolCallName": "look", "delta": "{}"});
    events(&[&started("t", "r1"), &format!("data: {call}\n\n"), &finished("t", "r1")])
}

/// How a run is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    Cancel,
    Drop,
}

/// Stops a run when its request with this number is being answered.
async fn stop_at(
    number: usize,
    stop: Stop,
    agent: impl Fn(&Server) -> Arc<dyn Agent>,
    answers: impl Fn(usize) -> Response + Send + Sync + 'static,
    kind: &'static str,
) {
    let (workshop, reached, gone) = (Workshop::default(), Gate::new(), Gate::new());
    let (arrived, left) = (reached.clone(), gone.clone());
    let server = Server::start(move |this, _| {
        if this < number {
            return answers(this);
        }
        arrived.cancel();
        endless(kind, &left)
    })
    .await;
    let tools = ToolRegistry::new().register(workshop.echo("look"));
    let mut run = Run::new(agent(&server), tools, Conversation::default(), RunOptions::default());
    let (handle, recorder) = (run.handle(), Recorder::of(&run));
    {
        let mut turn = Box::pin(run.say("Hi"));
        tokio::select! {
            ended = &mut turn => panic!("{ended:?}"),
            () = reached.cancelled() => {}
        }
        if stop == Stop::Cancel {
            assert!(handle.cancel());
            assert_eq!(turn.await, Ok(RunState::Cancelled));
        }
    }
    timeout(Duration::from_secs(20), gone.cancelled()).await.expect("the server sees it go");
    assert_eq!((server.asked().len(), handle.state().is_running()), (number + 1, stop == Stop::Drop));
    recorder.assert_no_flash(usize::from(stop == Stop::Cancel));
}

#[tokio::test]
async fn an_agent_behind_one_url_is_left_in_the_run_and_in_its_continuation() {
    for number in 0..2 {
        for stop in [Stop::Cancel, Stop::Drop] {
            let agent = |server: &Server| Arc::new(HttpAgent::new(&server.url).unwrap()) as Arc<dyn Agent>;
            stop_at(number, stop, agent, |_| calling(), "text/event-stream").await;
        }
    }
}

/// While the thread, the run or the continuation is made, and while either is executed.
#[tokio::test]
async fn an_agent_with_threads_is_left_at_every_request() {
    for number in 0..4 {
        for stop in [Stop::Cancel, Stop::Drop] {
            let agent = |server: &Server| Arc::new(ThreadAgent::new(&server.url, "room").unwrap()) as Arc<dyn Agent>;
            let answers = |number| match number {
                0 => answer(&json!({"thread_id": "t", "runs": {"r1": {}}})),
                1 => calling(),
                _ => answer(&json!({"run_id": "r2"})),
            };
            let kind = if number % 2 == 0 { "application/json" } else { "text/event-stream" };
            stop_at(number, stop, agent, answers, kind).await;
        }
    }
}
