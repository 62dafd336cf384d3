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
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::Api;
use crate::error::{Error, Refusal};
use crate::retry::{PATIENCE, retry_until, with_retries};
use crate::tools::LONGEST_CALL;

/// How long the server is asked to wait for the outcome. The first wait is short, because its answer has the deadline.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a lost server is tried after the deadline of the call: it may have the outcome.
const AFTER_DEADLINE: Duration = Duration::from_secs(5);
/// How long a cancel may take, with the answer how the call has ended. Then the call is left to its deadline.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

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
    /// Cancels the call, which then ends as any call that somebody cancels. If the server does not answer within 5 s,
    /// that is [`Error::GivenUp`], and the call may go on until its deadline.
    pub cancellation: CancellationToken,
}

/// A call to be made.
pub(crate) struct Execution {
    api: Api,
    request: ExecuteRequest,
    request_id: String,
    /// How long the caller lets the call take.
    timeout: Option<Duration>,
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
        Self { api, request, request_id, timeout, cancelled: cancellation.child_token() }
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
        let cancel_is_overdue = async {
            self.cancelled.cancelled().await;
            sleep(CANCEL_TIMEOUT).await;
        };
        tokio::select! {
            ended = self.make_and_follow() => ended,
            () = cancel_is_overdue => {
                let reason = "the server has not said whether the call is cancelled".to_owned();
                Err(Error::GivenUp { reason, after: CANCEL_TIMEOUT })
            }
        }
    }

    /// Makes the call and returns its outcome; when it is cancelled meanwhile, the outcome that it has then.
    async fn make_and_follow(&self) -> Result<ToolResult, Error> {
        let made = self.make().await;
        if !self.cancelled.is_cancelled() {
            made?;
            tokio::select! {
                // The server says at the first answer how long the call may take. Until then it may be the longest time.
                ended = self.follow(self.timeout.unwrap_or(LONGEST_CALL)) => return ended,
                () = self.cancelled.cancelled() => {}
            }
        }
        self.cancel().await
    }

    /// Makes the call. When the call is cancelled, a request that is under way is waited for, because a cancel that
    /// overtakes it would cancel nothing.
    async fn make(&self) -> Result<(), Error> {
        let under_way = Mutex::new(());
        let submit = async || {
            let _under_way = under_way.lock().await;
            self.api.submit(&self.request).await
        };
        let cancelled_between_tries = async {
            self.cancelled.cancelled().await;
            under_way.lock().await
        };
        let until = after_deadline(Instant::now(), self.timeout.unwrap_or(PATIENCE));
        tokio::select! {
            biased;
            made = retry_until(self.limits(until, PATIENCE), submit) => made.map(drop),
            _idle = cancelled_between_tries => Err(self.cancelled_before_it_was_made()),
        }
    }

    /// Waits for the outcome of a call that takes `time`, unless the server says otherwise.
    async fn follow(&self, mut time: Duration) -> Result<ToolResult, Error> {
        let (began, mut wait, mut proxy_patience) = (Instant::now(), FIRST_WAIT, PATIENCE);
        loop {
            let limits = self.limits(after_deadline(began, time), proxy_patience);
            let call = retry_until(limits, || self.api.call(&self.request_id, Some(wait))).await?;
            time = time_of(&call).unwrap_or(time);
            match call.outcome {
                Some(outcome) => return self.result(outcome, call.may_have_run),
                // This request reaches the server, so what answers in its place from now on is there for a while only.
                None => (wait, proxy_patience) = (LONGEST_WAIT, LONGEST_CALL),
            }
        }
    }

    /// Until when a request is repeated that failed: `until`, if the server is lost. If something on the way answers in
    /// the server's place, no longer than `proxy_patience` from the first of such answers in a row, because it may be a gateway
    /// that never passes the request on.
    fn limits(&self, until: Instant, proxy_patience: Duration) -> impl FnMut(&Error) -> Option<Instant> {
        let mut first_proxy_answer = None;
        move |error| {
            if is_lost(error) {
                first_proxy_answer = None;
                return Some(until);
            }
            let is_of_a_proxy = error.is_of_a_proxy() && self.api.was_there();
            is_of_a_proxy.then(|| until.min(*first_proxy_answer.get_or_insert_with(Instant::now) + proxy_patience))
        }
    }

    /// Cancels the call, and returns the outcome that it has then.
    async fn cancel(&self) -> Result<ToolResult, Error> {
        let request = CancelRequest { request_id: self.request_id.clone(), reason: None };
        match with_retries(|| self.api.cancel(&request)).await.map_err(|error| (error.status(), error)) {
            // The second is a call that was over already.
            Ok(_) | Err((Some(410), _)) => self.follow(CANCEL_TIMEOUT).await,
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
        let body = ErrorBody { error: reason.clone(), code, details: to_raw_value(&details).ok(), request: None };
        let status = code.status();
        let refusal =
            Refusal { status, code: Some(code), message: reason, body: Some(body), retry_after: None, is_ours: true };
        Error::Refused(Box::new(refusal))
    }
}

/// How long a call may take, from when it was made to its deadline.
fn time_of(call: &Call) -> Option<Duration> {
    let deadline = humantime::parse_rfc3339(call.deadline.as_deref()?).ok()?;
    deadline.duration_since(humantime::parse_rfc3339(&call.created).ok()?).ok()
}

/// Until when a lost server is tried for a call that takes this time.
fn after_deadline(began: Instant, time: Duration) -> Instant {
    // The server cuts a time that no clock can hold to the longest one.
    began.checked_add(time.saturating_add(AFTER_DEADLINE)).unwrap_or(began + LONGEST_CALL)
}

/// Whether the server is away for a while. As no request waits for a tool, 502 and 504 are answers of a proxy whose server
/// is away.
fn is_lost(error: &Error) -> bool {
    match error.status() {
        Some(status) => matches!(status, 502..=504),
        None => error.is_transient(),
    }
}
