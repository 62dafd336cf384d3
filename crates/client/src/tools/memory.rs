//! The calls that this process knows, by `requestID`.
//!
//! A call may come again: after a lost connection, from a restarted server, or repeated by the network. The memory
//! makes sure that it is not run a second time.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use handback_wire::client_tools::ToolResult;
use tokio_util::sync::CancellationToken;

/// How many calls run at once; one more is answered with an error. The server's own limit for a client is the same.
const MAX_RUNNING: usize = 1024;
/// How many results are remembered. For older calls, the memory only knows that they were run.
const MAX_RESULTS: usize = 1024;
/// How many bytes of results are remembered; the oldest are forgotten first, the newest is always kept.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;
/// How many calls are remembered at all; the oldest is forgotten first.
const MAX_CALLS: usize = 64 * 1024;

/// What to do with a call that arrived.
#[derive(Debug)]
pub(super) enum Admission {
    /// The call is new, and counts as running from now on; the token fires when it is cancelled.
    New(CancellationToken),
    /// The call is running, and its result will be sent.
    Running,
    /// The call ran, with this result if it is still known.
    Done(Option<Arc<ToolResult>>),
    /// Too many calls run.
    Full,
}

#[derive(Debug)]
enum KnownCall {
    Running(CancellationToken),
    Done(Option<Arc<ToolResult>>),
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    calls: HashMap<String, KnownCall>,
    /// The ids of the calls that are done, the oldest first.
    done: VecDeque<String>,
    /// How many of the `done` calls, from the oldest on, no longer have a result.
    without_result: usize,
    result_bytes: usize,
}

impl Memory {
    /// Decides what to do with a call that arrived; `stop` is the parent of its cancellation.
    pub(super) fn admit(&mut self, request_id: &str, stop: &CancellationToken) -> Admission {
        match self.calls.get(request_id) {
            Some(KnownCall::Running(_)) => return Admission::Running,
            Some(KnownCall::Done(result)) => return Admission::Done(result.clone()),
            None => {}
        }
        if self.calls.len() - self.done.len() >= MAX_RUNNING {
            return Admission::Full;
        }
        let cancellation = stop.child_token();
        self.calls.insert(request_id.to_owned(), KnownCall::Running(cancellation.clone()));
        Admission::New(cancellation)
    }

    /// Fires the cancellation of a running call; false when no such call runs.
    pub(super) fn cancel(&self, request_id: &str) -> bool {
        match self.calls.get(request_id) {
            Some(KnownCall::Running(cancellation)) => {
                cancellation.cancel();
                true
            }
            Some(KnownCall::Done(_)) | None => false,
        }
    }

    /// Records the result of a call, which replaces an earlier one that the server did not accept.
    pub(super) fn record(&mut self, request_id: &str, result: Arc<ToolResult>) {
        let bytes = size(&result);
        match self.calls.get_mut(request_id) {
            // The call is too old to remember a result.
            Some(KnownCall::Done(None)) => return,
            Some(KnownCall::Done(Some(earlier))) => {
                self.result_bytes -= size(earlier);
                *earlier = result;
            }
            Some(KnownCall::Running(_)) | None => {
                self.calls.insert(request_id.to_owned(), KnownCall::Done(Some(result)));
                self.done.push_back(request_id.to_owned());
            }
        }
        self.result_bytes += bytes;
        self.forget();
    }

    /// Records the result `unknown` for a call that stopped running without one.
    pub(super) fn give_up(&mut self, request_id: &str, unknown: Arc<ToolResult>) {
        if let Some(KnownCall::Running(_)) = self.calls.get(request_id) {
            self.record(request_id, unknown);
        }
    }

    fn forget(&mut self) {
        while let results = self.done.len() - self.without_result
            && (results > MAX_RESULTS || (self.result_bytes > MAX_RESULT_BYTES && results > 1))
        {
            let oldest = &self.done[self.without_result];
            if let Some(KnownCall::Done(result)) = self.calls.get_mut(oldest)
                && let Some(result) = result.take()
            {
                self.result_bytes -= size(&result);
            }
            self.without_result += 1;
        }
        while self.done.len() > MAX_CALLS {
            let Some(oldest) = self.done.pop_front() else { return };
            self.calls.remove(&oldest);
            self.without_result -= 1;
        }
    }
}

/// About how much memory a result takes.
fn size(result: &ToolResult) -> usize {
    match result {
        ToolResult::Error { error } => error.len(),
        ToolResult::Success(success) => {
            let metadata = success.metadata.as_ref().map_or(0, |metadata| metadata.get().len());
            let attachments: usize = success.attachments.iter().flatten().map(|file| file.url.len()).sum();
            success.title.len() + success.output.len() + metadata + attachments
        }
    }
}

#[cfg(test)]
mod tests;
