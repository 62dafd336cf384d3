//! What this process knows of the calls it was given, by `requestID`.
//!
//! A call that comes again (after a lost connection, from a restarted server, repeated by the network) is not run a
//! second time: it is running, or its result is known, or at least that it was run.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use handback_wire::client_tools::ToolResult;
use tokio_util::sync::CancellationToken;

/// How many calls run at once; one more is answered with an error. The server's own limit for a client is the same.
const MAX_RUNNING: usize = 1024;
/// How many results are remembered; of the oldest it is only remembered that it was there.
const MAX_RESULTS: usize = 1024;
/// How many bytes of results are remembered; the oldest is forgotten first, the newest is always kept.
const MAX_RESULT_BYTES: usize = 64 * 1024 * 1024;
/// How many calls are remembered at all; the oldest is forgotten first.
const MAX_CALLS: usize = 64 * 1024;

/// What to do with a call that arrived.
#[derive(Debug)]
pub(super) enum Admission {
    /// Nothing is known of it, and it counts as running from now on; the token fires when it is cancelled.
    New(CancellationToken),
    /// It is running; its result will be sent when it is there.
    Running,
    /// It was run; this is its result, if that is still known.
    Done(Option<Arc<ToolResult>>),
    /// Too many calls run.
    Full,
}

#[derive(Debug)]
enum Entry {
    Running(CancellationToken),
    Done(Option<Arc<ToolResult>>),
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    entries: HashMap<String, Entry>,
    running: usize,
    /// Ids of the done entries, the oldest first,
    done: VecDeque<String>,
    /// of which so many, the oldest, have no result any more.
    without_result: usize,
    result_bytes: usize,
}

impl Memory {
    /// Takes note of a call that arrived and says what to do with it; `stop` is the parent of its cancellation.
    pub(super) fn admit(&mut self, request_id: &str, stop: &CancellationToken) -> Admission {
        match self.entries.get(request_id) {
            Some(Entry::Running(_)) => return Admission::Running,
            Some(Entry::Done(result)) => return Admission::Done(result.clone()),
            None => {}
        }
        if self.running >= MAX_RUNNING {
            return Admission::Full;
        }
        let cancellation = stop.child_token();
        self.entries.insert(request_id.to_owned(), Entry::Running(cancellation.clone()));
        self.running += 1;
        Admission::New(cancellation)
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
        let bytes = size(&result);
        match self.entries.get_mut(request_id) {
            // Forgotten already, and not worth to be remembered again.
            Some(Entry::Done(None)) => return,
            Some(Entry::Done(Some(earlier))) => {
                self.result_bytes -= size(earlier);
                *earlier = result;
            }
            Some(running) => {
                *running = Entry::Done(Some(result));
                self.running -= 1;
                self.done.push_back(request_id.to_owned());
            }
            None => {
                self.entries.insert(request_id.to_owned(), Entry::Done(Some(result)));
                self.done.push_back(request_id.to_owned());
            }
        }
        self.result_bytes += bytes;
        self.forget();
    }

    /// Remembers of a call that runs no more, and has not ended, that nobody knows how it would have.
    pub(super) fn give_up(&mut self, request_id: &str, unknown: Arc<ToolResult>) {
        if let Some(Entry::Running(_)) = self.entries.get(request_id) {
            self.finish(request_id, unknown);
        }
    }

    fn forget(&mut self) {
        while let results = self.done.len() - self.without_result
            && (results > MAX_RESULTS || (self.result_bytes > MAX_RESULT_BYTES && results > 1))
        {
            let oldest = &self.done[self.without_result];
            if let Some(entry) = self.entries.get_mut(oldest)
                && let Entry::Done(Some(result)) = std::mem::replace(entry, Entry::Done(None))
            {
                self.result_bytes -= size(&result);
            }
            self.without_result += 1;
        }
        while self.done.len() > MAX_CALLS {
            let Some(oldest) = self.done.pop_front() else { return };
            self.entries.remove(&oldest);
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
