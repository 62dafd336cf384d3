//! Local commands as the tools of a front end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_client::agui::{ClientTool, ToolCall, ToolContext, ToolRegistry};
use handback_client::{Effect, Handler, Invocation, ToolError};
use handback_wire::client_tools::ToolRequest;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use crate::chat::tools::LocalTool;

/// How long commands may take to be gone at the end: what a command gets to stop by itself, and a little more.
const STOP: Duration = Duration::from_secs(3);

/// The tools of a thread: the times of their calls are noted, and the tracker knows the commands that run.
pub(super) fn registry(tools: &[LocalTool], times: &Times, running: &TaskTracker) -> ToolRegistry {
    tools.iter().fold(ToolRegistry::new(), |registry, tool| {
        let tool = tool.tool();
        let (handler, times, running) = (tool.handler, times.clone(), running.clone());
        let executor = move |call: ToolCall, context: ToolContext| {
            execute(Arc::clone(&handler), times.clone(), running.clone(), call, context)
        };
        registry.register(ClientTool::new(tool.definition.id, tool.definition.description, executor))
    })
}

/// Waits until no command runs any more. Those whose runs are over have been told to stop.
pub(super) async fn wait(running: &TaskTracker) {
    running.close();
    // Those that stay are killed when this process ends.
    let _ = timeout(STOP, running.wait()).await;
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
    times.table().insert(id.clone(), None);
    let begun = Instant::now();
    // Fires when nobody waits any more, also where this is dropped in the middle.
    let cancellation = context.cancellation.child_token();
    let _stop = cancellation.clone().drop_guard();
    let (deadline, request) = (context.deadline, request(call, context)?);
    let ended = running.spawn(handler(Invocation::new(request, deadline, cancellation))).await?;
    times.table().insert(id, Some(begun.elapsed()));
    Ok(ended?.output)
}

fn request(call: ToolCall, context: ToolContext) -> Result<ToolRequest, serde_json::Error> {
    let arguments = if call.arguments.trim().is_empty() { "{}".to_owned() } else { call.arguments };
    Ok(ToolRequest {
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
    })
}

/// Which calls of a thread were run here, and how long each took that has ended by itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Times(Arc<Mutex<HashMap<String, Option<Duration>>>>);

impl Times {
    /// Guards plain data that is never left half changed, so that a panic elsewhere does not matter.
    pub(super) fn table(&self) -> MutexGuard<'_, HashMap<String, Option<Duration>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
