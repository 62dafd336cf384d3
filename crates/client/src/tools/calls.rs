//! The calls that this process runs: one task each, from its arrival to the delivery of its result.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use handback_wire::client_tools::{Effect, ResultRequest, ToolCancel, ToolRequest, ToolResult};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::connection::Speaker;
use super::journal::Beginning;
use super::memory::Admission;
use super::{Shared, Status};
use crate::error::Error;
use crate::retry::Backoff;
use crate::tool::{Handler, Invocation};

/// How long a handler has to clean up once its call is over; then it is dropped.
const CLEANUP: Duration = Duration::from_secs(5);
/// How long all handlers and the delivery of their last words may take when this client stops.
const STOP: Duration = Duration::from_secs(8);
/// How long they may then take to be dropped.
const ABANDON: Duration = Duration::from_secs(1);
/// Delays between the tries to deliver a result.
const DELIVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// How many results are sent at once, each on a connection of its own; the others wait.
const MAX_DELIVERIES: usize = 64;
/// How many calls run or wait for their delivery; one more is left to expire. The server gives a client 1,024 at once.
const MAX_TASKS: usize = 4 * 1024;

/// The calls of a connected client. Dropping it drops their handlers.
pub(super) struct Calls {
    desk: Arc<Desk>,
    tasks: JoinSet<()>,
}

/// What every call needs.
struct Desk {
    shared: Arc<Shared>,
    /// Where results go, when there is a connection.
    speaker: watch::Receiver<Option<Speaker>>,
    /// Fires when this client stops: the parent of every call's cancellation.
    stop: CancellationToken,
    deliveries: Semaphore,
}

impl Calls {
    pub(super) fn new(shared: Arc<Shared>, speaker: watch::Receiver<Option<Speaker>>) -> Self {
        let (stop, deliveries) = (CancellationToken::new(), Semaphore::new(MAX_DELIVERIES));
        Self { desk: Arc::new(Desk { shared, speaker, stop, deliveries }), tasks: JoinSet::new() }
    }

    /// Runs a call that arrived, or answers it, or leaves it to its running handler. `None`: its deadline is past.
    pub(super) fn take(&mut self, request: ToolRequest, deadline: Option<Instant>) {
        while self.tasks.try_join_next().is_some() {}
        if self.tasks.len() >= MAX_TASKS {
            return tracing::warn!(request_id = request.request_id, "too many calls; this one is left to expire");
        }
        let admission = self.desk.shared.memory().admit(&request.request_id, &self.desk.stop);
        let until = deadline.unwrap_or_else(Instant::now);
        match admission {
            Admission::New(cancellation) => self.start(request, deadline, cancellation),
            Admission::Running => tracing::debug!(request_id = request.request_id, "the call is running already"),
            Admission::Done(result) => {
                self.answer(request.request_id, result.unwrap_or_else(result_not_kept), until);
            }
            Admission::Full => {
                let error = "this client runs too many calls already".to_owned();
                self.answer(request.request_id, failure(error), until);
            }
        }
    }

    /// Runs a call that was not known here, or says why it cannot be. One that is known has an outcome of its own,
    /// though its tool may be gone by now.
    fn start(&mut self, request: ToolRequest, deadline: Option<Instant>, cancellation: CancellationToken) {
        let running = RunningCall { shared: Arc::clone(&self.desk.shared), request_id: request.request_id.clone() };
        let handler = match (deadline, self.desk.shared.handler(&request.tool)) {
            (None, _) => Err("the call reached the client after its deadline".to_owned()),
            (_, None) => Err(format!("this client does not offer {}", request.tool)),
            (Some(deadline), Some(handler)) => Ok((handler, deadline)),
        };
        let desk = Arc::clone(&self.desk);
        self.tasks.spawn(async move {
            let _running = running;
            match handler {
                Ok((handler, deadline)) => desk.begin(handler, Invocation { request, deadline, cancellation }).await,
                Err(reason) => {
                    desk.answer(&request.request_id, failure(reason), deadline.unwrap_or_else(Instant::now)).await;
                }
            }
        });
    }

    /// Tells a running handler that its call is over.
    pub(super) fn cancel(&self, cancel: ToolCancel) {
        let running = self.desk.shared.memory().cancel(&cancel.request_id);
        if running {
            self.desk.shared.tell(Status::Cancelled { request_id: cancel.request_id, reason: cancel.reason });
        }
    }

    /// Cancels every handler, lets them clean up, and delivers what they still say.
    pub(super) async fn stop(&mut self) {
        self.desk.stop.cancel();
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if timeout(STOP, ended).await.is_err() {
            // One that blocks its thread cannot be ended, and is not waited for.
            let _ = timeout(ABANDON, self.tasks.shutdown()).await;
        }
    }

    fn answer(&mut self, request_id: String, result: Arc<ToolResult>, deadline: Instant) {
        let desk = Arc::clone(&self.desk);
        self.tasks.spawn(async move { desk.deliver(request_id, result, deadline).await });
    }
}

/// A call that counts as running, for as long as its task is there.
struct RunningCall {
    shared: Arc<Shared>,
    request_id: String,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let given_up = "the outcome is unknown: the client stopped while it ran the call";
        self.shared.memory().give_up(&self.request_id, failure(given_up.to_owned()));
    }
}

impl Desk {
    /// Runs a call that this process has not run, unless the journal speaks against it.
    async fn begin(&self, handler: Handler, invocation: Invocation) {
        let request = &invocation.request;
        let remaining = invocation.deadline.saturating_duration_since(Instant::now());
        let begun = self.shared.options.journal.begin(&self.shared.client_id, &request.request_id, remaining).await;
        let known = match begun {
            Beginning::Done(Some(result)) => Some(result),
            // What can be run twice is simply run again.
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
            Some(result) => self.answer(&request.request_id, result, invocation.deadline).await,
            None if !invocation.cancellation.is_cancelled() => self.run(handler, invocation).await,
            None => {
                let result = failure("the call was cancelled before the tool was run".to_owned());
                self.finish(&request.request_id, &result).await;
                if self.stop.is_cancelled() {
                    self.deliver(request.request_id.clone(), result, invocation.deadline).await;
                }
            }
        }
    }

    /// Answers a call that is not run.
    async fn answer(&self, request_id: &str, result: Arc<ToolResult>, deadline: Instant) {
        self.shared.memory().finish(request_id, Arc::clone(&result));
        self.deliver(request_id.to_owned(), result, deadline).await;
    }

    async fn run(&self, handler: Handler, invocation: Invocation) {
        let Invocation { request, deadline, cancellation } = invocation.clone();
        let request_id = request.request_id;
        let attempt = request.attempt;
        self.shared.tell(Status::Started { request_id: request_id.clone(), tool: request.tool, attempt });
        let began = Instant::now();
        let mut handling = pin!(AssertUnwindSafe(async move { handler(invocation).await }).catch_unwind());
        let ended = tokio::select! {
            ended = &mut handling => Some(ended),
            () = cancellation.cancelled() => None,
            () = sleep_until(deadline) => {
                cancellation.cancel();
                self.shared.tell(Status::Cancelled { request_id: request_id.clone(), reason: "the call expired".to_owned() });
                None
            }
        };
        // Not whether `ended` is there: a handler that heeds its cancellation may be the first to be seen.
        let over = cancellation.is_cancelled();
        let ended = match ended {
            Some(ended) => Some(ended),
            None => timeout(CLEANUP, handling).await.ok(),
        };
        let result = Arc::new(match ended {
            Some(Ok(Ok(success))) => ToolResult::Success(success),
            Some(Ok(Err(error))) => ToolResult::Error { error: error.message().to_owned() },
            Some(Err(_panic)) => ToolResult::Error { error: "the tool panicked".to_owned() },
            None => ToolResult::Error { error: "the tool was cancelled before it was done".to_owned() },
        });
        self.finish(&request_id, &result).await;
        // Nobody waits for the result of a call that the server has ended. When this client stops, somebody does.
        if !over || self.stop.is_cancelled() {
            let error = match &*result {
                ToolResult::Success(_) => None,
                ToolResult::Error { error } => Some(error.clone()),
            };
            self.shared.tell(Status::Finished { request_id: request_id.clone(), elapsed: began.elapsed(), error });
            self.deliver(request_id, result, deadline).await;
        }
    }

    /// Takes note of a result, before anybody is told of it.
    async fn finish(&self, request_id: &str, result: &Arc<ToolResult>) {
        self.shared.options.journal.finish(&self.shared.client_id, request_id, result).await;
        self.shared.memory().finish(request_id, Arc::clone(result));
    }

    /// Sends a result until the server has taken or refused it, at most until the call's deadline.
    async fn deliver(&self, request_id: String, result: Arc<ToolResult>, deadline: Instant) {
        let error = match self.send(&request_id, &result, deadline).await {
            // Only a result that the server cannot take can be mended: its caller gets to know why.
            Err(error) if matches!(error.status(), Some(400 | 413)) => {
                let result = failure(format!("the tool ran, but its result was not accepted: {error}"));
                self.finish(&request_id, &result).await;
                self.send(&request_id, &result, deadline).await.err().or(Some(error))
            }
            Err(error) => Some(error),
            Ok(()) => None,
        };
        if let Some(error) = error {
            tracing::warn!(request_id, %error, "a result was not accepted");
            self.shared.tell(Status::Undelivered { request_id, reason: error.to_string() });
        }
    }

    async fn send(&self, request_id: &str, result: &ToolResult, deadline: Instant) -> Result<(), Error> {
        let request = ResultRequest { request_id: request_id.to_owned(), result: result.clone() };
        let mut backoff = Backoff::new(DELIVERY.0, DELIVERY.1);
        loop {
            // One try is made in any case: whether the call has expired is the server's to say.
            let limit = deadline.max(Instant::now() + CLEANUP);
            let error = match timeout_at(limit, self.send_once(&request)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_elapsed) => return Err(self.shared.api.interrupted("no answer came in time".to_owned())),
            };
            let delay = backoff.after(&error);
            if is_final(&error) || self.stop.is_cancelled() || Instant::now() + delay >= deadline {
                return Err(error);
            }
            tracing::debug!(request_id, %error, ?delay, "the result will be sent again");
            tokio::select! {
                () = sleep(delay) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    /// Sends a result by the connection that is open, or the next one.
    async fn send_once(&self, request: &ResultRequest) -> Result<(), Error> {
        let _permit = self.deliveries.acquire().await;
        let mut speaker = self.speaker.clone();
        // There is none any more only when the client is gone altogether, and this task with it.
        let open = speaker.wait_for(Option::is_some).await.ok().and_then(|speaker| speaker.clone());
        match open {
            Some(speaker) => speaker.result(request).await,
            None => Err(self.shared.disconnected()),
        }
    }
}

/// Whether the server has spoken: whatever else stands on the way says things that pass.
fn is_final(error: &Error) -> bool {
    match error.status() {
        Some(400 | 401 | 403 | 413) => true,
        Some(_) => error.code().is_some() && !error.is_transient(),
        None => !error.is_transient() && !matches!(error, Error::Unexpected { .. }),
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
