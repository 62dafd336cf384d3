//! The calls of a run that this front end makes.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::agui::conversation::ToolCall;
use crate::agui::registry::{ToolContext, ToolRegistry};

/// How long a tool may take at most, whatever is said: thirty years are for ever, and a deadline can be told.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// Which run calls, and how long it waits.
pub(super) struct Actor<'a> {
    pub(super) tools: &'a ToolRegistry,
    pub(super) thread_id: Option<String>,
    pub(super) run_id: Option<String>,
    pub(super) timeout: Duration,
    /// Fires when the run is cancelled.
    pub(super) cancellation: &'a CancellationToken,
}

impl Actor<'_> {
    /// Runs one call: its id, and what came of it. Whatever happens in the tool stays in it.
    pub(super) async fn execute(&self, call: ToolCall) -> (String, Result<String, String>) {
        let timeout = self.tools.lookup(&call.name).ok().and_then(|tool| tool.own_timeout()).unwrap_or(self.timeout);
        let cancellation = self.cancellation.child_token();
        // Fires when the call is dropped, whether its time is up or the run is gone.
        let guard = cancellation.clone().drop_guard();
        let id = call.id.clone();
        let context = ToolContext {
            cancellation,
            call_id: id.clone(),
            thread_id: self.thread_id.clone(),
            run_id: self.run_id.clone(),
            deadline: Instant::now() + timeout.min(LONGEST),
        };
        let deadline = context.deadline;
        let Ok(ended) = timeout_at(deadline, self.tools.execute(call, context)).await else {
            return (id, Err(format!("the tool did not finish within {}", humantime::format_duration(timeout))));
        };
        guard.disarm();
        (id, ended.map_err(|error| error.message().to_owned()))
    }
}
