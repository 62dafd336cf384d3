//! What this process knows of the calls it was given, by `requestID`.
//!
//! The journal decides whether a call is run: a call that comes again (after a lost connection, from a restarted
//! server) is not run a second time unless its tool may be.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use handback_wire::client_tools::{Effect, ToolRequest, ToolResult};
use tokio_util::sync::CancellationToken;

/// How many calls run at once; one more is answered with an error. The server's own limit for a client is the same.
const MAX_RUNNING: usize = 1024;
/// How many results are remembered; the oldest is forgotten first.
const MAX_RESULTS: usize = 1024;
/// How many bytes of results are remembered; the oldest is forgotten first, the newest is always kept.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;

/// What to do with a call that arrived.
#[derive(Debug)]
pub(super) enum Admission {
    /// Run it; the token fires when it is cancelled.
    Run(CancellationToken),
    /// It is running already; its result will be sent when it is there.
    Running,
    /// It ran before; this is its result.
    Known(Arc<ToolResult>),
    /// It may have run before in another process, and must not run twice.
    OutcomeUnknown,
    /// Too many calls run.
    Full,
}

#[derive(Debug)]
enum Entry {
    Running(CancellationToken),
    Done(Arc<ToolResult>),
}

#[derive(Debug, Default)]
pub(super) struct Journal {
    entries: HashMap<String, Entry>,
    running: usize,
    /// Ids of the done entries, the oldest first.
    done: VecDeque<String>,
    done_bytes: usize,
}

impl Journal {
    /// Takes note of a call that arrived and says what to do with it; `stop` is the parent of its cancellation.
    pub(super) fn admit(&mut self, request: &ToolRequest, stop: &CancellationToken) -> Admission {
        match self.entries.get(&request.request_id) {
            Some(Entry::Running(_)) => return Admission::Running,
            Some(Entry::Done(result)) => return Admission::Known(Arc::clone(result)),
            None => {}
        }
        if request.effect == Effect::Write && request.attempt > 1 {
            return Admission::OutcomeUnknown;
        }
        if self.running >= MAX_RUNNING {
            return Admission::Full;
        }
        let cancellation = stop.child_token();
        self.entries.insert(request.request_id.clone(), Entry::Running(cancellation.clone()));
        self.running += 1;
        Admission::Run(cancellation)
    }

    /// Fires the cancellation of a running call; false when no such call runs.
    pub(super) fn cancel(&self, request_id: &str) -> bool {
        match self.entries.get(request_id) {
            Some(Entry::Running(cancellation)) => {
                cancellation.cancel();
                true
            }
            Some(Entry::Done(_)) | None => false,
        }
    }

    /// Remembers the result of a call, in place of an earlier one that the server did not take.
    pub(super) fn finish(&mut self, request_id: &str, result: Arc<ToolResult>) {
        self.done_bytes += size(&result);
        self.done.push_back(request_id.to_owned());
        match self.entries.insert(request_id.to_owned(), Entry::Done(result)) {
            Some(Entry::Running(_)) => self.running -= 1,
            Some(Entry::Done(earlier)) => {
                self.done_bytes -= size(&earlier);
                if let Some(index) = self.done.iter().position(|id| id == request_id) {
                    self.done.remove(index);
                }
            }
            None => {}
        }
        self.forget();
    }

    fn forget(&mut self) {
        while self.done.len() > MAX_RESULTS || (self.done_bytes > MAX_RESULT_BYTES && self.done.len() > 1) {
            let Some(oldest) = self.done.pop_front() else { return };
            if let Some(Entry::Done(result)) = self.entries.remove(&oldest) {
                self.done_bytes -= size(&result);
            }
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
