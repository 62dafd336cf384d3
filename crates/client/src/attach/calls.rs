//! The calls that this process runs: one task each, from its arrival to the delivery of its result.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use handback_wire::client_tools::{ResultRequest, ToolCancel, ToolRequest, ToolResult};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use super::journal::{Admission, Journal};
use super::{Observer, Status};
use crate::api::Api;
use crate::backoff::Backoff;
use crate::error::Error;
use crate::tool::{Handler, Invocation};

/// How long a handler has to clean up once its call is over; then it is dropped.
const CLEANUP: Duration = Duration::from_secs(5);
/// How long all handlers and the delivery of their last words may take when this client stops.
const STOP: Duration = Duration::from_secs(8);
/// Delays between the tries to deliver a result.
const DELIVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
/// At most this long a server that asks for patience is left alone.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(30);

/// All calls of one client. Dropping it drops their handlers.
pub(super) struct Calls {
    shared: Arc<Shared>,
    tracker: TaskTracker,
    abandon: CancellationToken,
    _abandon_on_drop: DropGuard,
}

struct Shared {
    api: Api,
    /// By the tool's full id.
    handlers: HashMap<String, Handler>,
    journal: Mutex<Journal>,
    observer: Observer,
    /// Fires when this client stops: the parent of every call's cancellation.
    stop: CancellationToken,
}

impl Calls {
    pub(super) fn new(api: Api, handlers: HashMap<String, Handler>, observer: Observer) -> Self {
        let abandon = CancellationToken::new();
        let stop = CancellationToken::new();
        let shared = Shared { api, handlers, journal: Mutex::default(), observer, stop };
        Self {
            shared: Arc::new(shared),
            tracker: TaskTracker::new(),
            _abandon_on_drop: abandon.clone().drop_guard(),
            abandon,
        }
    }

    /// Runs a call that arrived, or answers it, or leaves it to its running handler. `None`: its deadline is past.
    pub(super) fn take(&self, request: ToolRequest, deadline: Option<Instant>) {
        let Some(deadline) = deadline else {
            let text = "the call reached the client after its deadline".to_owned();
            return self.answer(request.request_id, Arc::new(ToolResult::Error { error: text }), Instant::now());
        };
        let Some(handler) = self.shared.handlers.get(&request.tool).cloned() else {
            let text = format!("this client does not offer {}", request.tool);
            return self.answer(request.request_id, Arc::new(ToolResult::Error { error: text }), deadline);
        };
        let admission = self.shared.journal().admit(&request, &self.shared.stop);
        match admission {
            Admission::Run(cancellation) => {
                let shared = Arc::clone(&self.shared);
                self.spawn(async move { shared.run(handler, Invocation { request, deadline, cancellation }).await });
            }
            Admission::Running => tracing::debug!(request_id = request.request_id, "the call is running already"),
            Admission::Known(result) => self.answer(request.request_id, result, deadline),
            Admission::OutcomeUnknown => {
                let error = format!(
                    "the outcome is unknown: the call was given to this client before (attempt {}), which does not \
                     remember it; it may have taken effect, and was not run again",
                    request.attempt
                );
                let result = Arc::new(ToolResult::Error { error });
                self.shared.journal().finish(&request.request_id, Arc::clone(&result));
                self.answer(request.request_id, result, deadline);
            }
            Admission::Full => {
                let error = "this client runs too many calls already".to_owned();
                self.answer(request.request_id, Arc::new(ToolResult::Error { error }), deadline);
            }
        }
    }

    /// Tells a running handler that its call is over.
    pub(super) fn cancel(&self, cancel: ToolCancel) {
        let running = self.shared.journal().cancel(&cancel.request_id);
        if running {
            (self.shared.observer)(Status::Cancelled { request_id: cancel.request_id, reason: cancel.reason });
        }
    }

    /// Cancels every handler, lets them clean up, and delivers what they still say.
    pub(super) async fn stop(&self) {
        self.shared.stop.cancel();
        self.tracker.close();
        if timeout(STOP, self.tracker.wait()).await.is_err() {
            self.abandon.cancel();
            self.tracker.wait().await;
        }
    }

    fn answer(&self, request_id: String, result: Arc<ToolResult>, deadline: Instant) {
        let shared = Arc::clone(&self.shared);
        self.spawn(async move { shared.deliver(request_id, result, deadline).await });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let abandon = self.abandon.clone();
        self.tracker.spawn(async move { abandon.run_until_cancelled(task).await });
    }
}

impl Shared {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, handler: Handler, invocation: Invocation) {
        let Invocation { request, deadline, cancellation } = invocation.clone();
        (self.observer)(Status::Started {
            request_id: request.request_id.clone(),
            tool: request.tool,
            attempt: request.attempt,
        });
        let began = Instant::now();
        let mut handling = pin!(AssertUnwindSafe(async move { handler(invocation).await }).catch_unwind());
        let ended = tokio::select! {
            ended = &mut handling => Some(ended),
            () = cancellation.cancelled() => None,
            () = sleep_until(deadline) => {
                cancellation.cancel();
                let reason = "the call expired".to_owned();
                (self.observer)(Status::Cancelled { request_id: request.request_id.clone(), reason });
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
            Some(Ok(Err(error))) => ToolResult::Error { error },
            Some(Err(_panic)) => ToolResult::Error { error: "the tool panicked".to_owned() },
            None => ToolResult::Error { error: "the tool was cancelled before it was done".to_owned() },
        });
        self.journal().finish(&request.request_id, Arc::clone(&result));
        // Nobody waits for the result of a call that the server has ended. When this client stops, somebody does.
        if !over || self.stop.is_cancelled() {
            let error = match &*result {
                ToolResult::Success(_) => None,
                ToolResult::Error { error } => Some(error.clone()),
            };
            let request_id = request.request_id.clone();
            (self.observer)(Status::Finished { request_id, elapsed: began.elapsed(), error });
            self.deliver(request.request_id, result, deadline).await;
        }
    }

    /// Sends a result until the server has taken or refused it, at most until the call's deadline.
    async fn deliver(&self, request_id: String, result: Arc<ToolResult>, deadline: Instant) {
        let error = match self.send(&request_id, &result, deadline).await {
            // Only a result that the server cannot take can be mended: its caller gets to know why.
            Err(error) if matches!(error.status(), Some(400 | 413)) && matches!(*result, ToolResult::Success(_)) => {
                let text = format!("the tool ran, but its result was not accepted: {error}");
                let result = Arc::new(ToolResult::Error { error: text });
                self.journal().finish(&request_id, Arc::clone(&result));
                self.send(&request_id, &result, deadline).await.err().or(Some(error))
            }
            Err(error) => Some(error),
            Ok(()) => None,
        };
        if let Some(error) = error {
            tracing::warn!(request_id, %error, "a result was not accepted");
            (self.observer)(Status::Undelivered { request_id, reason: error.to_string() });
        }
    }

    async fn send(&self, request_id: &str, result: &ToolResult, deadline: Instant) -> Result<(), Error> {
        let request = ResultRequest { request_id: request_id.to_owned(), result: result.clone() };
        let mut backoff = Backoff::new(DELIVERY.0, DELIVERY.1);
        loop {
            // One try is made in any case: whether the call has expired is the server's to say.
            let limit = deadline.max(Instant::now() + CLEANUP);
            let error = match timeout_at(limit, self.api.result(&request)).await {
                Ok(Ok(_done)) => return Ok(()),
                Ok(Err(error)) => error,
                Err(_elapsed) => return Err(self.api.interrupted("no answer came in time".to_owned())),
            };
            let patience = error.retry_after().unwrap_or_default().min(LONGEST_RETRY_AFTER);
            let delay = backoff.next(fastrand::f64()).max(patience);
            if !error.is_transient() || self.stop.is_cancelled() || Instant::now() + delay >= deadline {
                return Err(error);
            }
            tracing::debug!(request_id, %error, ?delay, "the result will be sent again");
            tokio::select! {
                () = sleep(delay) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}
