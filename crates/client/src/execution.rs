//! Calls of an application: a call is made once, and its outcome arrives even if connections are lost.
//!
//! The call is made without waiting and then followed, so that a lost connection cancels nothing. It has an id of its
//! own: if it is made again, the server takes it for the same call.

use std::panic::resume_unwind;
use std::time::Duration;

use handback_wire::client_tools::{Call, CancelRequest, ExecuteRequest, Outcome, ToolResult};
use handback_wire::error::{ErrorBody, ErrorCode};
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::error::{Error, Refusal};
use crate::retry::{PATIENCE, retry_until, with_retries};

/// How long the server is asked to wait for the outcome. The first wait is short, because its answer has the deadline.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a lost server is tried after the deadline of the call: it may have the outcome.
const AFTER_DEADLINE: Duration = Duration::from_secs(5);

/// The options of a call.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExecuteOptions {
    /// The call's id; by default, a random one. If a call with this id, tool and input was made before, that call is
    /// followed.
    pub request_id: Option<String>,
    /// The session that the call belongs to.
    pub session_id: Option<String>,
    /// The message that the call belongs to.
    pub message_id: Option<String>,
    /// The caller's own id of the call.
    pub call_id: Option<String>,
    /// How long the call may take; the tool or the server has a default.
    pub timeout: Option<Duration>,
    /// Cancels the call, which then ends as any call that somebody cancels.
    pub cancellation: CancellationToken,
}

/// A call to be made.
pub(crate) struct Execution {
    api: Api,
    request: ExecuteRequest,
    request_id: String,
    /// How long a lost server is tried before it has taken the call.
    patience: Duration,
    cancelled: CancellationToken,
}

impl Execution {
    pub(crate) fn new(api: Api, tool: &str, input: Box<RawValue>, options: ExecuteOptions) -> Self {
        let ExecuteOptions { request_id, session_id, message_id, call_id, timeout, cancellation } = options;
        let request_id = request_id.unwrap_or_else(|| format!("call_{:032x}", fastrand::u128(..)));
        let request = ExecuteRequest {
            tool_id: tool.to_owned(),
            request_id: Some(request_id.clone()),
            session_id,
            message_id,
            call_id,
            input: Some(input),
            timeout: timeout.map(|timeout| timeout.as_secs_f64() * 1000.0),
            wait: None,
        };
        let patience = timeout.unwrap_or(PATIENCE).saturating_add(AFTER_DEADLINE);
        Self { api, request, request_id, patience, cancelled: cancellation.child_token() }
    }

    /// Runs in a task that outlives this future: if the future is dropped, the task cancels the call.
    pub(crate) async fn run_in(self, tasks: &TaskTracker) -> Result<ToolResult, Error> {
        let (api, _cancel_on_drop) = (self.api.clone(), self.cancelled.clone().drop_guard());
        match tasks.spawn(self.run()).await {
            Ok(ended) => ended,
            Err(failed) => match failed.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_aborted) => Err(api.interrupted("the runtime of this process ends".to_owned())),
            },
        }
    }

    async fn run(self) -> Result<ToolResult, Error> {
        if self.cancelled.is_cancelled() {
            return Err(self.cancelled_before_it_was_made());
        }
        let made = self.make().await;
        if !self.cancelled.is_cancelled() {
            made?;
            tokio::select! {
                ended = self.follow() => return ended,
                () = self.cancelled.cancelled() => {}
            }
        }
        self.cancel().await
    }

    /// Makes the call. A request that is under way is not dropped when the call is cancelled, because a cancel that
    /// overtakes it would cancel nothing.
    async fn make(&self) -> Result<(), Error> {
        let submit = async || {
            if self.cancelled.is_cancelled() {
                return Err(self.cancelled_before_it_was_made());
            }
            self.api.submit(&self.request).await
        };
        retry_until(later(Instant::now(), self.patience), is_lost, submit).await.map(drop)
    }

    /// Waits for the outcome.
    async fn follow(&self) -> Result<ToolResult, Error> {
        let (began, mut wait, mut deadline) = (Instant::now(), FIRST_WAIT, None);
        loop {
            // A call has no deadline while it waits for approval.
            let until = deadline.map_or(Instant::now() + wait + PATIENCE, |deadline| later(deadline, AFTER_DEADLINE));
            let call = retry_until(until, is_lost, || self.api.call(&self.request_id, Some(wait))).await?;
            deadline = time(&call).map(|time| later(began, time));
            match call.outcome {
                Some(outcome) => return self.result(outcome, call.may_have_run),
                None => wait = LONGEST_WAIT,
            }
        }
    }

    /// Cancels the call, and returns the outcome that it has then.
    async fn cancel(&self) -> Result<ToolResult, Error> {
        let request = CancelRequest { request_id: self.request_id.clone(), reason: None };
        match with_retries(|| self.api.cancel(&request)).await.map_err(|error| (error.status(), error)) {
            // The second is a call that was over already.
            Ok(_) | Err((Some(410), _)) => self.follow().await,
            Err((Some(404), _)) => Err(self.cancelled_before_it_was_made()),
            Err((_, error)) => Err(error),
        }
    }

    /// The answer that the server gives a caller that waits.
    fn result(&self, outcome: Outcome, may_have_run: Option<bool>) -> Result<ToolResult, Error> {
        let (code, reason) = match outcome {
            Outcome::Success(success) => return Ok(ToolResult::Success(success)),
            Outcome::Error { error } => return Ok(ToolResult::Error { error }),
            Outcome::Timeout { error } => (ErrorCode::Timeout, error),
            Outcome::Cancelled { error } => (ErrorCode::Cancelled, error),
            Outcome::Denied { error } => (ErrorCode::Forbidden, error),
            Outcome::Disconnected { error } => (ErrorCode::ClientDisconnected, error),
        };
        Err(self.failure(code, reason, may_have_run))
    }

    fn cancelled_before_it_was_made(&self) -> Error {
        self.failure(ErrorCode::Cancelled, "Cancelled".to_owned(), None)
    }

    fn failure(&self, code: ErrorCode, reason: String, may_have_run: Option<bool>) -> Error {
        let mut details = json!({ "requestID": self.request_id });
        if let Some(may_have_run) = may_have_run {
            details["mayHaveRun"] = may_have_run.into();
        }
        let body = ErrorBody { error: reason.clone(), code, details: to_raw_value(&details).ok() };
        let status = code.status();
        let refusal = Refusal { status, code: Some(code), message: reason, body: Some(body), retry_after: None };
        Error::Refused(Box::new(refusal))
    }
}

/// How long a call may take, from when it was made to its deadline.
fn time(call: &Call) -> Option<Duration> {
    let deadline = humantime::parse_rfc3339(call.deadline.as_deref()?).ok()?;
    deadline.duration_since(humantime::parse_rfc3339(&call.created).ok()?).ok()
}

/// A later time; the same one if there is no such time.
fn later(time: Instant, by: Duration) -> Instant {
    time.checked_add(by).unwrap_or(time)
}

/// Whether the server is away for a while. As no request waits for a tool, 502 and 504 are answers of a proxy whose server
/// is away.
fn is_lost(error: &Error) -> bool {
    match error.status() {
        Some(status) => matches!(status, 502..=504),
        None => error.is_transient(),
    }
}
