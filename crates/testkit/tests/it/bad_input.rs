//! Input that is wrong in every way: each gets an error of the API, soon, and changes nothing.

mod bodies;
mod parts;
mod schemas;
mod sizes;

use std::time::Duration;

use handback_testkit::{Answer, TestServer};
use serde_json::{Value, json};

/// How long any answer may take.
const SOON: Duration = Duration::from_secs(2);

/// What the server knows, without what time alone changes.
async fn state(server: &TestServer) -> Value {
    let mut calls = server.get("/client-tools/calls").await.body;
    for call in calls.as_array_mut().unwrap() {
        call["times"].take();
    }
    let tools = server.get("/client-tools/tools").await.body;
    let clients = server.get("/client-tools/clients").await.body;
    json!({ "tools": tools, "clients": clients, "calls": calls })
}

/// What is wrong with an answer that should have been a refusal; `None` if nothing is.
fn complaint(answer: &Answer) -> Option<String> {
    let text = answer.body.to_string();
    if !(400..500).contains(&answer.status) {
        return Some(format!("status {}: {text:.200}", answer.status));
    }
    if answer.code().is_empty() || answer.error().is_empty() {
        return Some(format!("no error and code: {text:.200}"));
    }
    let leaks = ["panicked", "backtrace", ".rs:", "/src/", ".cargo"];
    let leak = leaks.iter().find(|leak| text.contains(**leak))?;
    Some(format!("it shows our inside ({leak}): {text:.400}"))
}

/// Sends a request, and says what is wrong with what comes back if it should be refused.
async fn not_refused(request: reqwest::RequestBuilder) -> Option<String> {
    match tokio::time::timeout(SOON, Answer::to(request)).await {
        Err(_) => Some(format!("no answer within {SOON:?}")),
        Ok(answer) => complaint(&answer),
    }
}
