//! The session API: what is asked for, and how answers and failures are read.

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use handback_client::Api;
use handback_wire::session::{CreateSession, PermissionResponse, Prompt, PromptPart, Reply, Status};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use crate::stub::next;

/// A server that writes down what it is asked, and answers each request in the same way.
struct Recorder {
    api: Api,
    requests: UnboundedReceiver<String>,
    _server: JoinSet<std::io::Result<()>>,
}

type Answer = (UnboundedSender<String>, StatusCode, String);

impl Recorder {
    async fn answering(status: u16, body: Value) -> Self {
        async fn answer(
            State((requests, status, answer)): State<Answer>,
            method: Method,
            uri: Uri,
            body: Bytes,
        ) -> Response {
            requests.send(format!("{method} {uri} {}", String::from_utf8_lossy(&body)).trim().to_owned()).unwrap();
            (status, answer).into_response()
        }
        let (sender, requests) = unbounded_channel();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let app =
            axum::Router::new().fallback(answer).with_state((sender, StatusCode::from_u16(status).unwrap(), body));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let api = Api::new(&format!("http://{}", listener.local_addr().unwrap()), None).unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, app).await });
        Self { api, requests, _server: server }
    }

    async fn request(&mut self) -> String {
        next(&mut self.requests).await
    }
}

fn session() -> Value {
    json!({"id": "ses_1", "slug": "ses_1", "projectID": "global", "directory": "", "title": "Hello", "version": "1",
           "clientID": "laptop", "time": {"created": 1, "updated": 2}})
}

fn message() -> Value {
    json!({"info": {"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "time": {"created": 1}, "agent": "default"},
           "parts": [{"id": "prt_1", "sessionID": "ses_1", "messageID": "msg_2", "type": "text", "text": "Hi"}]})
}

#[tokio::test]
async fn sessions_are_made_listed_read_and_deleted() {
    let mut one = Recorder::answering(200, session()).await;
    let create = CreateSession { client_id: Some("laptop".to_owned()), ..CreateSession::default() };
    assert_eq!(serde_json::to_value(one.api.create_session(&create).await.unwrap()).unwrap(), session());
    assert_eq!(one.request().await, r#"POST /session {"clientID":"laptop"}"#);
    one.api.start_session(create).await.unwrap();
    let started: Value = serde_json::from_str(one.request().await.strip_prefix("POST /session ").unwrap()).unwrap();
    assert!(started["id"].as_str().unwrap().starts_with("ses_"), "{started}");
    assert_eq!(one.api.session("ses_1").await.unwrap().title, "Hello");
    assert_eq!(one.request().await, "GET /session/ses_1");

    let mut many = Recorder::answering(200, json!([session()])).await;
    assert_eq!(many.api.sessions(None).await.unwrap().len(), 1);
    assert_eq!(many.request().await, "GET /session");
    assert_eq!(many.api.sessions(Some(1)).await.unwrap().len(), 1);
    assert_eq!(many.request().await, "GET /session?limit=1");

    let mut statuses = Recorder::answering(200, json!({"ses_1": {"type": "busy"}})).await;
    let status = statuses.api.session_status().await.unwrap();
    assert_eq!(status.into_iter().collect::<Vec<_>>(), [("ses_1".to_owned(), Status::Busy)]);
    assert_eq!(statuses.request().await, "GET /session/status");

    let mut gone = Recorder::answering(200, json!(true)).await;
    gone.api.delete_session("a/b").await.unwrap();
    assert_eq!(gone.request().await, "DELETE /session/a%2Fb");
}

#[tokio::test]
async fn something_is_said_and_the_answer_is_read() {
    let prompt = Prompt {
        parts: vec![PromptPart::Text { text: "Hello".to_owned() }],
        message_id: Some("msg_1".to_owned()),
        ..Prompt::default()
    };
    let body = r#"{"parts":[{"type":"text","text":"Hello"}],"messageID":"msg_1"}"#;
    let mut waiting = Recorder::answering(200, message()).await;
    let answer = waiting.api.prompt("ses_1", &prompt).await.unwrap();
    assert_eq!(answer.parts[0].text.as_deref(), Some("Hi"));
    assert_eq!(waiting.request().await, format!("POST /session/ses_1/message {body}"));

    let mut hasty = Recorder::answering(204, Value::Null).await;
    hasty.api.prompt_async("ses_1", &prompt).await.unwrap();
    assert_eq!(hasty.request().await, format!("POST /session/ses_1/prompt_async {body}"));

    let mut kept = Recorder::answering(200, json!([message()])).await;
    assert_eq!(kept.api.messages("ses_1", None).await.unwrap()[0].info.id, "msg_2");
    assert_eq!(kept.request().await, "GET /session/ses_1/message");
    assert_eq!(kept.api.messages("ses_1", Some(9)).await.unwrap().len(), 1);
    assert_eq!(kept.request().await, "GET /session/ses_1/message?limit=9");

    let mut stopped = Recorder::answering(200, json!(true)).await;
    stopped.api.abort("ses_1").await.unwrap();
    assert_eq!(stopped.request().await, "POST /session/ses_1/abort");
}

#[tokio::test]
async fn asks_are_listed_and_answered() {
    let tool = json!({"id": "client_laptop_read", "name": "client_laptop_read", "description": "Reads",
                      "parameters": {}, "runs": "client", "clientID": "laptop", "permission": "ask"});
    let mut tools = Recorder::answering(200, json!([tool])).await;
    assert_eq!(serde_json::to_value(tools.api.session_tools("ses_1").await.unwrap()).unwrap(), json!([tool]));
    assert_eq!(tools.request().await, "GET /session/ses_1/tools");

    let mut asks = Recorder::answering(200, json!([])).await;
    assert!(asks.api.permissions().await.unwrap().is_empty());
    assert_eq!(asks.request().await, "GET /permission");

    let mut answered = Recorder::answering(200, json!(true)).await;
    let input = Some(serde_json::from_str(r#"{"path":"b"}"#).unwrap());
    let answer = PermissionResponse { response: Reply::Once, input, message: None };
    answered.api.answer_permission("ses_1", "per_1", &answer).await.unwrap();
    let expected = r#"POST /session/ses_1/permissions/per_1 {"response":"once","input":{"path":"b"}}"#;
    assert_eq!(answered.request().await, expected);
}

#[tokio::test]
async fn a_failure_shows_the_message_that_its_body_has() {
    let body = json!({"name": "NotFoundError", "data": {"message": "there is no session ses_1"}});
    let missing = Recorder::answering(404, body).await;
    let error = missing.api.messages("ses_1", None).await.unwrap_err();
    assert_eq!((error.status(), error.to_string()), (Some(404), "there is no session ses_1".to_owned()));
    let wordless = Recorder::answering(400, json!({"name": "BadRequest", "data": {}})).await;
    assert_eq!(wordless.api.abort("ses_1").await.unwrap_err().to_string(), "BadRequest");
}
