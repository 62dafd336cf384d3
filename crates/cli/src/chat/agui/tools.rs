//! Local commands as the tools of a front end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_client::agui::{ClientTool, ToolCall, ToolContext, ToolRegistry};
use handback_client::{CancellationToken, Effect, Handler, Invocation, ToolError};
use handback_wire::client_tools::ToolRequest;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::chat::attached::LocalTool;

/// How long commands may take to be gone at the end: what a command gets to stop by itself, and a little more.
const STOP: Duration = Duration::from_secs(3);

/// The commands that are offered, and those that run.
#[derive(Debug, Default)]
pub(super) struct Commands {
    tools: Vec<LocalTool>,
    running: TaskTracker,
}

impl Commands {
    pub(super) fn new(tools: Vec<LocalTool>) -> Self {
        Self { tools, running: TaskTracker::new() }
    }

    /// What the tools are called.
    pub(super) fn names(&self) -> Vec<String> {
        self.tools.iter().map(|tool| tool.tool().definition.id).collect()
    }

    /// The tools of a thread; the times of its calls are noted.
    pub(super) fn registry(&self, times: &Times) -> ToolRegistry {
        self.tools.iter().fold(ToolRegistry::new(), |registry, tool| {
            let tool = tool.tool();
            let (handler, times, running) = (tool.handler, times.clone(), self.running.clone());
            let executor = move |call: ToolCall, context: ToolContext| {
                execute(Arc::clone(&handler), times.clone(), running.clone(), call, context)
            };
            registry.register(ClientTool::new(tool.definition.id, tool.definition.description, executor))
        })
    }

    /// Waits until no command runs any more. Those whose runs are over have been told to stop.
    pub(super) async fn wait(&self) {
        self.running.close();
        // Those that stay are killed when this process ends.
        let _ = timeout(STOP, self.running.wait()).await;
    }
}

/// Runs a command for a call. It has a task of its own, since it outlives a run that is stopped: it is given time to stop.
async fn execute(
    handler: Handler,
    times: Times,
    running: TaskTracker,
    call: ToolCall,
    context: ToolContext,
) -> Result<String, ToolError> {
    let id = call.id.clone();
    times.begin(&id);
    let begun = Instant::now();
    // Fires when nobody waits any more, also where this is dropped in the middle.
    let cancellation = context.cancellation.child_token();
    let _stop = cancellation.clone().drop_guard();
    let handling = handler(invocation(call, context, cancellation)?);
    let ended = running.spawn(handling).await?;
    times.end(&id, begun.elapsed());
    Ok(ended?.output)
}

fn invocation(
    call: ToolCall,
    context: ToolContext,
    cancellation: CancellationToken,
) -> Result<Invocation, serde_json::Error> {
    let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
    let request = ToolRequest {
        kind: "client-tool-request".to_owned(),
        request_id: call.id.clone(),
        session_id: context.thread_id.unwrap_or_default(),
        message_id: String::new(),
        call_id: call.id,
        tool: call.name,
        input: RawValue::from_string(arguments)?,
        deadline: String::new(),
        effect: Effect::default(),
        attempt: 1,
        execution_mode: None,
    };
    Ok(Invocation { request, deadline: context.deadline, cancellation })
}

/// Which calls of a thread were run here, and how long each took. Whoever shows the end of a call takes its time.
#[derive(Debug, Clone, Default)]
pub(super) struct Times(Arc<Mutex<HashMap<String, Option<Duration>>>>);

impl Times {
    /// Whether a call was begun.
    pub(super) fn has_begun(&self, call: &str) -> bool {
        self.table().contains_key(call)
    }

    /// How long a call took that has ended by itself.
    pub(super) fn take(&self, call: &str) -> Option<Duration> {
        self.table().remove(call).flatten()
    }

    pub(super) fn begin(&self, call: &str) {
        self.table().insert(call.to_owned(), None);
    }

    pub(super) fn end(&self, call: &str, took: Duration) {
        self.table().insert(call.to_owned(), Some(took));
    }

    /// Guards plain data that is never left half changed, so that a panic elsewhere does not matter.
    fn table(&self) -> MutexGuard<'_, HashMap<String, Option<Duration>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
