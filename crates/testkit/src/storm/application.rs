//! Makes the calls and takes their answers.

use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::Server;
use super::plan::{Manner, Outcome, Patience, Plan};
use crate::server::{Answer, http_client};

/// How long a call may go unanswered, however patient.
const LOST: Duration = Duration::from_secs(90);
/// The time between two tries, while the server or its tools are away.
const AGAIN: Duration = Duration::from_millis(20);

/// Whoever makes the calls.
#[derive(Clone)]
pub(super) struct Application {
    pub(super) server: Server,
    url: String,
    http: Client,
}

/// A call that was made.
pub(super) struct Made {
    pub(super) plan: Plan,
    /// How it ended, as its caller was told; or what went wrong.
    pub(super) outcome: Result<Outcome, String>,
    /// What a cancel was answered with, if there was one.
    pub(super) cancel: Option<u16>,
    /// How long its caller waited.
    pub(super) took: Duration,
}

impl Application {
    pub(super) fn new(url: &str, server: Server) -> Self {
        let http = http_client();
        Self { server, url: url.to_owned(), http }
    }

    /// Makes a call and waits for its outcome.
    pub(super) async fn make(&self, plan: Plan) -> Made {
        let began = Instant::now();
        let cancelling = async {
            match plan.patience {
                Patience::Cancels(after) => self.cancel(&plan.request, Duration::from_millis(after)).await,
                Patience::Patient | Patience::Short => None,
            }
        };
        let both = async { tokio::join!(self.outcome(&plan), cancelling) };
        let (outcome, cancel) =
            timeout(LOST, both).await.unwrap_or_else(|_| (Err("it was never answered".to_owned()), None));
        Made { plan, outcome, cancel, took: began.elapsed() }
    }

    async fn outcome(&self, plan: &Plan) -> Result<Outcome, String> {
        loop {
            let answer = match answer_to(self.post("/client-tools/execute", &plan.body())).await {
                Ok(answer) => answer,
                // If it was taken, the same call is joined.
                Err(_) if self.server == Server::Restarts => {
                    sleep(AGAIN).await;
                    continue;
                }
                Err(error) => return Err(error),
            };
            let text = || answer.error().to_owned();
            let status = match (answer.status, answer.code(), plan.manner) {
                (200, _, Manner::Waits) => return Ok(outcome(&answer.body)),
                (202, _, Manner::Asks) => return self.look(&plan.request).await,
                (504, "TIMEOUT", Manner::Waits) => "timeout",
                (409, "CANCELLED", Manner::Waits) => "cancelled",
                (404 | 503, ..) if self.server == Server::Restarts => {
                    sleep(AGAIN).await;
                    continue;
                }
                _ => return Err(format!("it was answered {answer:?}")),
            };
            return Ok(Outcome { status: status.to_owned(), text: text() });
        }
    }

    /// Cancels a call; gives what that was answered with, `None` if the call never was.
    async fn cancel(&self, request: &str, after: Duration) -> Option<u16> {
        sleep(after).await;
        let body = json!({ "requestID": request, "reason": "enough" });
        let patience = async {
            loop {
                match answer_to(self.post("/client-tools/cancel", &body)).await {
                    // The request that makes the call is still on its way.
                    Ok(Answer { status: 404, .. }) => sleep(AGAIN).await,
                    Ok(answer) => return Some(answer.status),
                    Err(_) if self.server == Server::Restarts => sleep(AGAIN).await,
                    Err(_) => return None,
                }
            }
        };
        timeout(LOST, patience).await.unwrap_or_default()
    }

    /// How the server says that a call ended, once it has.
    pub(super) async fn look(&self, request: &str) -> Result<Outcome, String> {
        let path = format!("/client-tools/calls/{request}?wait=60000");
        loop {
            match answer_to(self.http.get(format!("{}{path}", self.url))).await {
                Ok(answer) if answer.status == 200 && answer.body["state"] == "done" => {
                    return Ok(outcome(&answer.body["outcome"]));
                }
                Ok(Answer { status: 200 | 503, .. }) | Err(_) if self.server == Server::Restarts => sleep(AGAIN).await,
                other => return Err(format!("asked for the call, the server says {other:?}")),
            }
        }
    }

    pub(super) async fn get(&self, path: &str) -> Value {
        let answer = answer_to(self.http.get(format!("{}{path}", self.url))).await;
        answer.map_or_else(Value::String, |answer| answer.body)
    }

    /// Opens the stream of events.
    pub(super) fn events(&self) -> RequestBuilder {
        self.http.get(format!("{}/event", self.url))
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.http.post(format!("{}{path}", self.url)).json(body)
    }
}

/// An outcome or a result, as it is on the wire.
fn outcome(said: &Value) -> Outcome {
    let text = if said["status"] == "success" { &said["output"] } else { &said["error"] };
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Outcome { status: string(&said["status"]), text: string(text) }
}

/// Sends a request and reads all of the answer.
async fn answer_to(request: RequestBuilder) -> Result<Answer, String> {
    let read = async {
        let response = request.send().await?;
        Ok((response.status().as_u16(), response.text().await?))
    };
    let (status, text) = read.await.map_err(|error: reqwest::Error| format!("no answer: {error:?}"))?;
    Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or(Value::String(text)) })
}
