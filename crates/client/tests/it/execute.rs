//! Calls of the application, and what is done about answers that do not come.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use handback_client::{Client, ClientOptions, Error, ExecuteOptions, ToolResult};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use crate::stub::{end, next};

const TOOL: &str = "client_laptop_tool";

/// What a request is answered with.
enum Reply {
    Json(u16, Value),
    /// 503, with the time in seconds that the server asks for.
    Unavailable(u32),
    /// The connection breaks in the middle of the answer.
    Cut,
    /// A success, once the test says so.
    Held(oneshot::Receiver<()>),
    Never,
}

#[derive(Clone)]
struct Shared {
    requests: UnboundedSender<(Instant, String)>,
    replies: Arc<Mutex<VecDeque<Reply>>>,
}

/// A server that answers requests with what the test wrote down, in order, and none after that.
struct Script {
    client: Client,
    requests: UnboundedReceiver<(Instant, String)>,
    server: JoinSet<io::Result<()>>,
}

impl Script {
    async fn start(replies: impl Into<VecDeque<Reply>>) -> Self {
        let (sender, requests) = unbounded_channel();
        let shared = Shared { requests: sender, replies: Arc::new(Mutex::new(replies.into())) };
        let app = axum::Router::new().fallback(reply).with_state(shared);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await });
        Self { client: Client::new(&url, ClientOptions::default()).unwrap(), requests, server }
    }

    /// Makes a call in the background.
    fn execute(&self, options: ExecuteOptions) -> JoinHandle<Result<ToolResult, Error>> {
        let client = self.client.clone();
        TaskTracker::new().spawn(async move { client.execute(TOOL, json!({"a": 1}), options).await })
    }

    async fn request(&mut self) -> String {
        next(&mut self.requests).await.1
    }

    /// What was asked for and not seen by the test yet.
    fn unseen_requests(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.requests.try_recv().ok()).map(|(_, request)| request).collect()
    }
}

async fn reply(State(shared): State<Shared>, method: Method, uri: Uri, body: Bytes) -> Response {
    let request = format!("{method} {uri} {}", String::from_utf8_lossy(&body)).trim().to_owned();
    shared.requests.send((Instant::now(), request)).unwrap();
    let reply = shared.replies.lock().unwrap().pop_front();
    match reply {
        Some(Reply::Json(status, body)) => (StatusCode::from_u16(status).unwrap(), body.to_string()).into_response(),
        Some(Reply::Unavailable(seconds)) => {
            (StatusCode::SERVICE_UNAVAILABLE, [(header::RETRY_AFTER, seconds.to_string())]).into_response()
        }
        Some(Reply::Cut) => Body::from_stream(stream::iter([Err::<Bytes, _>(io::Error::other("cut"))])).into_response(),
        Some(Reply::Held(released)) => {
            released.await.unwrap();
            json!({"requestID": "mine"}).to_string().into_response()
        }
        Some(Reply::Never) | None => std::future::pending().await,
    }
}

fn mine() -> ExecuteOptions {
    ExecuteOptions::with(|options| options.request_id = Some("mine".to_owned()))
}

fn accepted() -> Reply {
    Reply::Json(202, json!({"requestID": "mine"}))
}

/// A call that may take an hour, with this in addition.
fn call(more: Value) -> Reply {
    let mut call = json!({
        "requestID": "mine", "sessionID": "", "messageID": "", "callID": "", "tool": TOOL, "clientID": "laptop",
        "effect": "write", "state": "offered", "attempt": 1, "created": "2026-11-15T12:00:00.5Z",
        "deadline": "2026-11-15T13:00:00.5Z", "times": {"approval": 0, "queue": 0, "execute": 0},
    });
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    Reply::Json(200, call)
}

fn done() -> Reply {
    call(json!({"state": "done", "outcome": {"status": "success", "title": "", "output": "at last"}}))
}

/// The answer of something else in the server's place.
fn page(status: u16) -> Reply {
    Reply::Json(status, json!("Welcome!"))
}

fn cancelled() -> Reply {
    call(json!({"state": "done", "outcome": {"status": "cancelled", "error": "Cancelled"}, "mayHaveRun": true}))
}

/// The status, the code and the details of a refusal.
fn refusal(error: Error) -> Value {
    let Error::Refused(refusal) = error else { return json!(error.to_string()) };
    let body = serde_json::to_value(refusal.body).unwrap();
    json!([refusal.status, body["code"], body["details"]])
}

#[tokio::test]
async fn a_call_is_made_and_followed_again_over_503_a_proxy_without_a_server_and_cut_connections() {
    let bad_gateway = Reply::Json(502, json!("no server"));
    let open = || call(json!({}));
    let made = [Reply::Unavailable(1), Reply::Cut, accepted()];
    let followed = [bad_gateway, open(), Reply::Cut, open(), page(200), page(404), done()];
    let mut script = Script::start(Vec::from_iter(made.into_iter().chain(followed))).await;
    let options = ExecuteOptions::with(|options| {
        options.request_id = Some("mine".to_owned());
        options.session_id = Some("s".to_owned());
        options.message_id = Some("m".to_owned());
        options.call_id = Some("c".to_owned());
        options.timeout = Some(Duration::from_millis(5));
    });
    let Ok(ToolResult::Success(success)) = end(script.execute(options)).await else { panic!("it succeeds") };
    assert_eq!(success.output, "at last");
    let (first, second) = (next(&mut script.requests).await, next(&mut script.requests).await);
    assert!(second.0 - first.0 >= Duration::from_secs(1), "the server was not left alone for as long as it asked");
    let mut body = json!({"toolID": TOOL, "requestID": "mine", "sessionID": "s", "messageID": "m", "callID": "c"});
    body.as_object_mut()
        .unwrap()
        .extend(json!({"input": {"a": 1}, "timeout": 5.0, "wait": false}).as_object().unwrap().clone());
    for request in [first.1, second.1, script.request().await] {
        let sent = request.strip_prefix("POST /client-tools/execute ").unwrap();
        assert_eq!(serde_json::from_str::<Value>(sent).unwrap(), body);
    }
    let waits = [1_000, 1_000, 60_000, 60_000, 60_000, 60_000, 60_000];
    assert_eq!(script.unseen_requests(), waits.map(|wait| format!("GET /client-tools/calls/mine?wait={wait}")));
}

#[tokio::test]
async fn what_does_not_pass_by_itself_is_told_at_once() {
    let problem = |code: &str| json!({"error": "no", "code": code});
    let limited = Script::start([Reply::Json(429, problem("RATE_LIMITED"))]).await;
    assert_eq!(refusal(end(limited.execute(mine())).await.unwrap_err()), json!([429, "RATE_LIMITED", null]));
    let forgotten = Script::start([accepted(), Reply::Json(404, problem("NOT_FOUND"))]).await;
    assert_eq!(refusal(end(forgotten.execute(mine())).await.unwrap_err()), json!([404, "NOT_FOUND", null]));
    // No server was ever there.
    let elsewhere = Script::start([page(404)]).await;
    assert_eq!(refusal(end(elsewhere.execute(mine())).await.unwrap_err()), json!([404, null, null]));
}

#[tokio::test]
async fn a_call_is_made_again_when_a_proxy_answers_for_a_server_that_was_there() {
    let pages = [404, 405, 200].map(page);
    let replies = [Reply::Json(200, json!([]))].into_iter().chain(pages).chain([accepted(), done()]);
    let script = Script::start(Vec::from_iter(replies)).await;
    script.client.api().clients().await.unwrap();
    assert!(matches!(end(script.execute(mine())).await, Ok(ToolResult::Success(_))));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_never_passes_a_request_on_is_given_up_after_a_minute() {
    for first in
        [Reply::Json(200, json!([])), Reply::Json(401, json!({"error": "no", "code": "UNAUTHORIZED"})), accepted()]
    {
        let is_made = matches!(first, Reply::Json(202, _));
        let script = Script::start(Vec::from_iter([first].into_iter().chain((0..100).map(|_| page(405))))).await;
        if !is_made {
            // Only this request gets through.
            script.client.api().clients().await.ok();
        }
        let options = ExecuteOptions::with(|options| options.timeout = Some(Duration::from_secs(3600)));
        let began = Instant::now();
        let Err(Error::GivenUp { reason, .. }) = script.execute(options).await.unwrap() else {
            panic!("it is given up")
        };
        assert!(reason.ends_with("answered 405 Method Not Allowed"), "{reason}");
        assert!((60..=65).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn once_the_server_has_told_of_a_call_a_proxy_is_waited_out_until_the_deadline() {
    let two_minutes_and_more = (0..60).map(|_| page(404));
    let replies = [accepted(), call(json!({}))].into_iter().chain(two_minutes_and_more).chain([done()]);
    let (began, script) = (Instant::now(), Script::start(Vec::from_iter(replies)).await);
    assert!(matches!(script.execute(mine()).await.unwrap(), Ok(ToolResult::Success(_))));
    assert!(began.elapsed() > Duration::from_secs(120), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_call_without_an_id_has_one_of_its_own() {
    let mut script = Script::start([accepted(), done(), accepted(), done()]).await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        end(script.execute(ExecuteOptions::default())).await.unwrap();
        let request = script.request().await;
        let body: Value = serde_json::from_str(request.strip_prefix("POST /client-tools/execute ").unwrap()).unwrap();
        let id = body["requestID"].as_str().unwrap().to_owned();
        assert_eq!(script.request().await, format!("GET /client-tools/calls/{id}?wait=1000"));
        assert_eq!((id.len(), id.starts_with("call_")), (37, true), "{id}");
        ids.push(id);
    }
    assert_ne!(ids[0], ids[1]);
}

const CANCEL: &str = r#"POST /client-tools/cancel {"requestID":"mine"}"#;

#[tokio::test]
async fn a_call_whose_future_is_dropped_is_cancelled_however_often_that_is_lost() {
    let lost = [accepted(), call(json!({})), Reply::Never, Reply::Cut, Reply::Unavailable(0), page(404)];
    let mut script = Script::start(lost).await;
    let executing = script.execute(mine());
    for _ in 0..3 {
        script.request().await;
    }
    executing.abort();
    for _ in 0..4 {
        assert_eq!(script.request().await, CANCEL);
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_is_being_made_is_cancelled_after_that() {
    let (make, made) = oneshot::channel();
    let success = Reply::Json(200, json!({"success": true}));
    let mut script = Script::start([Reply::Held(made), Reply::Json(200, json!([])), success, cancelled()]).await;
    let options = mine();
    let cancellation = options.cancellation.clone();
    let executing = script.execute(options);
    script.request().await;
    cancellation.cancel();
    // A cancel that did not wait would be there before this.
    script.client.api().clients().await.unwrap();
    assert_eq!(script.request().await, "GET /client-tools/clients");
    make.send(()).unwrap();
    assert_eq!(script.request().await, CANCEL);
    let details = json!({"requestID": "mine", "mayHaveRun": true});
    assert_eq!(refusal(end(executing).await.unwrap_err()), json!([409, "CANCELLED", details]));
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_is_not_made() {
    let mut script = Script::start([]).await;
    let options = mine();
    options.cancellation.cancel();
    let refused = refusal(end(script.execute(options)).await.unwrap_err());
    assert_eq!(refused, json!([409, "CANCELLED", {"requestID": "mine"}]));
    assert_eq!(script.unseen_requests(), [""; 0]);
}

#[tokio::test]
async fn a_result_that_comes_before_the_cancel_counts() {
    let over = Reply::Json(410, json!({"error": "the call is over", "code": "GONE"}));
    let mut script = Script::start([accepted(), Reply::Never, over, done()]).await;
    let options = mine();
    let cancellation = options.cancellation.clone();
    let executing = script.execute(options);
    for _ in 0..2 {
        script.request().await;
    }
    cancellation.cancel();
    assert!(matches!(end(executing).await, Ok(ToolResult::Success(_))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up_shortly_after_the_deadline() {
    let mut script = Script::start([accepted(), call(json!({})), Reply::Cut]).await;
    let (began, executing) = (Instant::now(), script.execute(mine()));
    for _ in 0..3 {
        script.request().await;
    }
    script.server.shutdown().await;
    let Err(Error::GivenUp { .. }) = executing.await.unwrap() else { panic!("it is given up") };
    let deadline = Duration::from_secs(3600);
    let range = deadline + Duration::from_secs(5)..deadline + Duration::from_secs(15);
    assert!(range.contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_goes_away_before_it_has_told_the_deadline_is_waited_for_as_long_as_the_call_may_take() {
    let mut script = Script::start([accepted(), Reply::Never]).await;
    let timeout = Duration::from_secs(600);
    let options = ExecuteOptions::with(|options| options.timeout = Some(timeout));
    let (began, executing) = (Instant::now(), script.execute(options));
    for _ in 0..2 {
        script.request().await;
    }
    script.server.shutdown().await;
    let Err(Error::GivenUp { .. }) = executing.await.unwrap() else { panic!("it is given up") };
    let range = timeout + Duration::from_secs(5)..timeout + Duration::from_secs(15);
    assert!(range.contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_call_whose_time_nobody_said_is_waited_for() {
    let an_hour_away = (0..60).map(|_| Reply::Unavailable(60));
    // A proxy that begins to answer in the server's place, before that hour or after it, has a minute for it.
    let replies = [accepted(), page(404)].into_iter().chain(an_hour_away).chain([page(404), done()]);
    let script = Script::start(Vec::from_iter(replies)).await;
    assert!(matches!(script.execute(mine()).await.unwrap(), Ok(ToolResult::Success(_))));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_the_server_does_not_answer_is_given_up_after_5_seconds() {
    let cancelled = || Reply::Json(200, json!({"success": true}));
    let lost: [(Vec<Reply>, usize); 5] = [
        (vec![Reply::Never], 1),
        (vec![accepted(), Reply::Never], 2),
        (vec![accepted(), Reply::Never, Reply::Unavailable(60)], 2),
        (vec![accepted(), Reply::Never, cancelled(), Reply::Never], 2),
        (vec![accepted(), Reply::Never, cancelled(), Reply::Unavailable(60)], 2),
    ];
    for (replies, before) in lost {
        let mut script = Script::start(replies).await;
        let options = mine();
        let (cancellation, executing) = (options.cancellation.clone(), script.execute(options));
        for _ in 0..before {
            script.request().await;
        }
        let began = Instant::now();
        cancellation.cancel();
        let Err(Error::GivenUp { after, .. }) = executing.await.unwrap() else { panic!("it is given up") };
        assert_eq!((after.as_secs(), began.elapsed().as_secs()), (5, 5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_while_the_server_asks_for_time_is_cancelled_at_once() {
    let success = Reply::Json(200, json!({"success": true}));
    let mut script = Script::start([Reply::Unavailable(60), success, cancelled()]).await;
    let options = mine();
    let (cancellation, executing) = (options.cancellation.clone(), script.execute(options));
    script.request().await;
    let began = Instant::now();
    cancellation.cancel();
    assert_eq!(script.request().await, CANCEL);
    assert_eq!(refusal(executing.await.unwrap().unwrap_err())[1], "CANCELLED");
    assert_eq!(began.elapsed().as_secs(), 0);
}

#[tokio::test]
async fn an_input_that_is_not_json_is_refused_here() {
    let script = Script::start([]).await;
    let input = std::collections::BTreeMap::from([((1, 2), 3)]);
    let refused = script.client.execute(TOOL, input, mine()).await;
    assert!(matches!(refused, Err(Error::InvalidInput { .. })), "{refused:?}");
}
