//! The calls that this process runs: one task each, from its arrival to the delivery of its result.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use handback_wire::client_tools::{Effect, ResultRequest, ToolCancel, ToolRequest, ToolResult};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::clock::CLOCK_RESOLUTION;
use super::connection::{ClientRequest, Uplink};
use super::journal::Beginning;
use super::memory::Admission;
use super::{Shared, Status};
use crate::error::Error;
use crate::lock::lock;
use crate::retry::Backoff;
use crate::tool::{Handler, Invocation};

/// How long a handler may clean up once its call is over; then it is dropped.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// How long all handlers and deliveries may take when the client stops; then they are dropped.
const STOP_TIMEOUT: Duration = Duration::from_secs(8);
/// How long dropping them may take.
const DROP_TIMEOUT: Duration = Duration::from_secs(1);
/// The delays between the tries to deliver a result: they double from the first to the second.
const DELAYS: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How many results are sent at once, each on a connection of its own; the others wait.
const MAX_DELIVERIES: usize = 64;
/// How many calls run or wait for delivery; one more is left to expire. The server gives a client 1,024 at once.
const MAX_TASKS: usize = 4 * 1024;

/// The calls of a connected client. Dropping it drops their handlers.
pub(super) struct Calls {
    runner: Arc<Runner>,
    tasks: JoinSet<()>,
}

impl Calls {
    pub(super) fn new(shared: Arc<Shared>, uplink: watch::Receiver<Option<Uplink>>) -> Self {
        let (stop, deliveries) = (CancellationToken::new(), Semaphore::new(MAX_DELIVERIES));
        Self { runner: Arc::new(Runner { shared, uplink, stop, deliveries }), tasks: JoinSet::new() }
    }

    /// Takes a call that arrived. A new one is run, or answered with an error if its tool is not offered or its
    /// deadline is past (`None`). One that was run before is answered with its result.
    pub(super) fn take(&mut self, request: ToolRequest, deadline: Option<Instant>) {
        while self.tasks.try_join_next().is_some() {}
        let request_id = request.request_id.clone();
        if self.tasks.len() >= MAX_TASKS {
            return tracing::warn!(request_id, "too many calls; this one is left to expire");
        }
        let runner = Arc::clone(&self.runner);
        let until = deadline.unwrap_or_else(Instant::now);
        let admission = lock(&runner.shared.memory).admit(&request_id, &runner.stop);
        let known = match admission {
            Admission::New(cancellation) => {
                let running = RunningCall { shared: Arc::clone(&runner.shared), request_id };
                let handler = match (deadline, runner.shared.handler(&request.tool)) {
                    (None, _) => Err("the call reached the client after its deadline".to_owned()),
                    (_, None) => Err(format!("this client does not offer {}", request.tool)),
                    (Some(_), Some(handler)) => Ok(handler),
                };
                self.tasks.spawn(async move {
                    let _running = running;
                    match handler {
                        Ok(handler) => {
                            runner.begin(handler, Invocation { request, deadline: until, cancellation }).await
                        }
                        Err(reason) => runner.answer(&request, failure(reason), until).await,
                    }
                });
                return;
            }
            Admission::Running => return tracing::debug!(request_id, "the call is running already"),
            Admission::Done(result) => result.unwrap_or_else(result_not_kept),
            Admission::Full => failure("this client runs too many calls already".to_owned()),
        };
        self.tasks.spawn(async move { runner.deliver(&request, known, until).await });
    }

    /// Tells a running handler that its call is over.
    pub(super) fn cancel(&self, cancel: ToolCancel) {
        let was_running = lock(&self.runner.shared.memory).cancel(&cancel.request_id);
        if was_running {
            self.runner.shared.tell(Status::Cancelled { request_id: cancel.request_id, reason: cancel.reason });
        }
    }

    /// Cancels every handler, lets them clean up, and delivers their results.
    pub(super) async fn stop(&mut self) {
        self.runner.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(STOP_TIMEOUT, ended).await.is_err() {
            // A handler that blocks its thread cannot be dropped.
            let _ = timeout(DROP_TIMEOUT, self.tasks.shutdown()).await;
        }
    }
}

/// A call that counts as running while its task exists.
struct RunningCall {
    shared: Arc<Shared>,
    request_id: String,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let given_up = "the outcome is unknown: the client stopped while it ran the call";
        lock(&self.shared.memory).give_up(&self.request_id, failure(given_up.to_owned()));
    }
}

/// Runs calls and delivers their results.
struct Runner {
    shared: Arc<Shared>,
    /// The way to send results, when there is one.
    uplink: watch::Receiver<Option<Uplink>>,
    /// Fires when the client stops: the parent of every call's cancellation.
    stop: CancellationToken,
    deliveries: Semaphore,
}

impl Runner {
    /// Runs a call that is new to this process, unless the journal knows it.
    async fn begin(&self, handler: Handler, invocation: Invocation) {
        let request = &invocation.request;
        let remaining = invocation.deadline.saturating_duration_since(Instant::now());
        let begun = self.shared.options.journal.begin(&self.shared.client_id, request, remaining).await;
        let known = match begun {
            Beginning::Done(Some(result)) => Some(result),
            // A call without effects can be run twice.
            _ if request.effect != Effect::Write => None,
            Beginning::First { has_forgotten: false } => None,
            Beginning::NotKept | Beginning::First { .. } if request.attempt == 1 => None,
            Beginning::NotKept | Beginning::First { .. } | Beginning::Begun => Some(outcome_unknown(request)),
            Beginning::Done(None) => Some(result_not_kept()),
            Beginning::Failed(error) => {
                Some(failure(format!("the tool was not run: its client cannot write its journal of calls ({error})")))
            }
        };
        match known {
            Some(result) => self.answer(request, result, invocation.deadline).await,
            None if !invocation.cancellation.is_cancelled() => self.run(handler, invocation).await,
            None => {
                let result = failure("the call was cancelled before the tool was run".to_owned());
                self.record(request, &result).await;
                if self.stop.is_cancelled() {
                    self.deliver(request, result, invocation.deadline).await;
                }
            }
        }
    }

    /// Answers a call without running it.
    async fn answer(&self, request: &ToolRequest, result: Arc<ToolResult>, deadline: Instant) {
        lock(&self.shared.memory).record(&request.request_id, Arc::clone(&result));
        self.deliver(request, result, deadline).await;
    }

    async fn run(&self, handler: Handler, invocation: Invocation) {
        let Invocation { request, deadline, cancellation } = invocation.clone();
        let (request_id, tool) = (request.request_id.clone(), request.tool.clone());
        self.shared.tell(Status::Started { request_id: request_id.clone(), tool, attempt: request.attempt });
        let began = Instant::now();
        let mut handling = pin!(AssertUnwindSafe(async move { handler(invocation).await }).catch_unwind());
        let ended = tokio::select! {
            ended = &mut handling => Some(ended),
            () = cancellation.cancelled() => None,
            () = sleep_until(deadline) => {
                cancellation.cancel();
                let reason = "the call expired".to_owned();
                self.shared.tell(Status::Cancelled { request_id: request_id.clone(), reason });
                None
            }
        };
        // The token says whether the call is over: a handler that heeds it may end before the select sees it.
        let is_over = cancellation.is_cancelled();
        let ended = match ended {
            Some(ended) => Some(ended),
            None => timeout(CLEANUP_TIMEOUT, handling).await.ok(),
        };
        let has_ended = ended.is_some();
        let result = match ended {
            Some(Ok(Ok(success))) => Ok(success),
            Some(Ok(Err(error))) => Err(error.message().to_owned()),
            Some(Err(_panic)) => Err("the tool panicked".to_owned()),
            None => Err("the tool was cancelled before it was done".to_owned()),
        };
        let error = result.as_ref().err().cloned();
        let result = Arc::new(result.map_or_else(|error| ToolResult::Error { error }, ToolResult::Success));
        self.record(&request, &result).await;
        // Nobody waits for the result of a call that the server has ended. If this client stops, somebody still waits.
        if !is_over || self.stop.is_cancelled() {
            self.shared.tell(Status::Finished { request_id, elapsed: began.elapsed(), error });
            self.deliver(&request, result, deadline).await;
        } else if has_ended && Instant::now() + CLOCK_RESOLUTION >= deadline {
            // The server refuses the result of a call that has expired, and keeps it for people to see.
            let refused = self.send(&request_id, &result, Instant::now()).await;
            tracing::debug!(request_id, ?refused, "a result came too late");
        }
    }

    /// Records a result, before it is delivered.
    async fn record(&self, request: &ToolRequest, result: &Arc<ToolResult>) {
        self.shared.options.journal.record(&self.shared.client_id, request, result).await;
        lock(&self.shared.memory).record(&request.request_id, Arc::clone(result));
    }

    /// Sends a result until the server has taken or refused it, at most until the call's deadline.
    async fn deliver(&self, request: &ToolRequest, result: Arc<ToolResult>, deadline: Instant) {
        let request_id = request.request_id.clone();
        let mut sent = self.send(&request_id, &result, deadline).await;
        // If the server does not accept the result, the caller gets the reason instead.
        if let Err(error) = &sent
            && matches!(error.status(), Some(400 | 413))
        {
            let result = failure(format!("the tool ran, but its result was not accepted: {error}"));
            self.record(request, &result).await;
            sent = self.send(&request_id, &result, deadline).await.and(sent);
        }
        if let Err(error) = sent {
            tracing::warn!(request_id, %error, "a result was not accepted");
            self.shared.tell(Status::Undelivered { request_id, reason: error.to_string() });
        }
    }

    async fn send(&self, request_id: &str, result: &ToolResult, deadline: Instant) -> Result<(), Error> {
        let request = ResultRequest { request_id: request_id.to_owned(), result: result.clone() };
        let request = ClientRequest::Result(request);
        let mut backoff = Backoff::new(DELAYS);
        loop {
            // There is at least one try: only the server knows whether the call has expired.
            let limit = deadline.max(Instant::now() + CLEANUP_TIMEOUT);
            let error = match timeout_at(limit, self.send_once(&request)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_elapsed) => return Err(self.shared.api.interrupted("no answer came in time".to_owned())),
            };
            let delay = backoff.before(deadline, &error);
            let Some(delay) = delay.filter(|_| error.may_pass() && !self.stop.is_cancelled()) else {
                return Err(error);
            };
            tracing::debug!(request_id, %error, ?delay, "the result will be sent again");
            let _ = timeout(delay, self.stop.cancelled()).await;
        }
    }

    /// Sends a result on the open connection, or on the next one.
    async fn send_once(&self, request: &ClientRequest) -> Result<(), Error> {
        let _permit = self.deliveries.acquire().await;
        let mut uplink = self.uplink.clone();
        // The wait fails only if the client is gone, and this task with it.
        let open = uplink.wait_for(Option::is_some).await.ok().and_then(|uplink| uplink.clone());
        match open {
            Some(uplink) => uplink.send(request).await,
            None => Err(self.shared.disconnected()),
        }
    }
}

fn failure(error: String) -> Arc<ToolResult> {
    Arc::new(ToolResult::Error { error })
}

fn outcome_unknown(request: &ToolRequest) -> Arc<ToolResult> {
    failure(format!(
        "the outcome is unknown: the call was given to this client before (attempt {} now) and may have taken effect; \
         it was not run again",
        request.attempt
    ))
}

fn result_not_kept() -> Arc<ToolResult> {
    failure("the outcome is unknown: the call was run, but its result is not kept; it was not run again".to_owned())
}
