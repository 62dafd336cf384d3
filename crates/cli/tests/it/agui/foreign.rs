//! A server that is not ours, and speaks AG-UI as it was first: no protocol version, no outcomes, and no patience with what it
//! does not know.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::{Value, json};

/// What an input may have.
const KNOWN: [&str; 7] = ["threadId", "runId", "state", "messages", "tools", "context", "forwardedProps"];

/// What was asked, and was not refused: the token, and the input.
type Asked = Vec<(Option<String>, Value)>;

/// A server in a thread of its own. It ends with the test.
pub(super) struct Foreign {
    pub(super) url: String,
    asked: Arc<Mutex<Asked>>,
}

impl Foreign {
    /// Answers each input with what `answer` makes of it and of its number, from 1: the events between start and end.
    pub(super) fn start(answer: impl Fn(&Value, usize) -> Vec<Value> + Send + Sync + 'static) -> Self {
        let asked: Arc<Mutex<Asked>> = Arc::default();
        let (answer, noted) = (Arc::new(answer), Arc::clone(&asked));
        let handler = move |headers: HeaderMap, Json(input): Json<Value>| async move {
            if let Some(unknown) = input.as_object().unwrap().keys().find(|key| !KNOWN.contains(&key.as_str())) {
                return (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({"detail": format!("unknown {unknown}")})))
                    .into_response();
            }
            let token = headers.get("authorization").map(|token| token.to_str().unwrap().to_owned());
            let number = {
                let mut noted = noted.lock().unwrap();
                noted.push((token, input.clone()));
                noted.len()
            };
            let (thread, run) = (&input["threadId"], &input["runId"]);
            let mut events = vec![json!({"type": "RUN_STARTED", "threadId": thread, "runId": run})];
            events.extend(answer(&input, number));
            for event in &mut events {
                if event["type"] == "RUN_FINISHED" {
                    *event = json!({"type": "RUN_FINISHED", "threadId": thread, "runId": run});
                }
            }
            let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
            ([("content-type", "text/event-stream")], body).into_response()
        };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}/awp", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, axum::Router::new().route("/awp", post(handler))).await.unwrap();
            });
        });
        Self { url, asked }
    }

    pub(super) fn asked(&self) -> Asked {
        self.asked.lock().unwrap().clone()
    }
}

/// Says something.
pub(super) fn answered(text: &str) -> Vec<Value> {
    let mut events = cut_off(text);
    events.extend([json!({"type": "TEXT_MESSAGE_END", "messageId": "m"}), json!({"type": "RUN_FINISHED"})]);
    events
}

/// Says something, and is gone.
pub(super) fn cut_off(text: &str) -> Vec<Value> {
    vec![
        json!({"type": "TEXT_MESSAGE_START", "messageId": "m", "role": "assistant"}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": text}),
    ]
}

/// Calls a tool, the arguments in pieces.
pub(super) fn called(tool: &str, arguments: &[&str]) -> Vec<Value> {
    let mut events = vec![json!({"type": "TOOL_CALL_START", "toolCallId": "call_1", "toolCallName": tool})];
    events.extend(
        arguments.iter().map(|delta| json!({"type": "TOOL_CALL_ARGS", "toolCallId": "call_1", "delta": delta})),
    );
    events.extend([json!({"type": "TOOL_CALL_END", "toolCallId": "call_1"}), json!({"type": "RUN_FINISHED"})]);
    events
}

/// Fails.
pub(super) fn failed(message: &str) -> Vec<Value> {
    vec![json!({"type": "RUN_ERROR", "message": message})]
}
