//! Local commands as the tools of a front end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handback_client::agui::{ClientTool, ToolCall, ToolContext, ToolRegistry};
use handback_client::{Effect, Invocation, Tool};
use handback_wire::client_tools::ToolRequest;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

/// The tools of a thread. `times` records the duration of each call, and `running` tracks the commands that run.
pub(super) fn registry(tools: &[Tool], times: &Times, running: &TaskTracker) -> ToolRegistry {
    tools.iter().fold(ToolRegistry::new(), |registry, tool| {
        let (handler, times, running) = (Arc::clone(&tool.handler), times.clone(), running.clone());
        let executor = move |call: ToolCall, context: ToolContext| {
            let (handler, times, running) = (Arc::clone(&handler), times.clone(), running.clone());
            async move {
                times.table().insert(call.id.clone(), None);
                let begun = Instant::now();
                // The guard cancels the command when this future is dropped.
                let cancellation = context.cancellation.child_token();
                let _stop = cancellation.clone().drop_guard();
                let deadline = context.deadline;
                let invocation = Invocation::new(request(&call, context)?, deadline, cancellation);
                // The command has its own task, so that it has time to stop after its run was stopped.
                let ended = running.spawn(handler(invocation)).await?;
                times.table().insert(call.id, Some(begun.elapsed()));
                Ok(ended?.output)
            }
        };
        registry.register(ClientTool::new(&tool.definition.id, &tool.definition.description, executor))
    })
}

fn request(call: &ToolCall, context: ToolContext) -> Result<ToolRequest, serde_json::Error> {
    let arguments = if call.arguments.trim().is_empty() { "{}" } else { &call.arguments };
    Ok(ToolRequest {
        kind: "client-tool-request".to_owned(),
        request_id: call.id.clone(),
        session_id: context.thread_id.unwrap_or_default(),
        message_id: String::new(),
        call_id: call.id.clone(),
        tool: call.name.clone(),
        input: RawValue::from_string(arguments.to_owned())?,
        deadline: String::new(),
        effect: Effect::default(),
        attempt: 1,
        execution_mode: None,
    })
}

/// The calls of a thread that ran here, with the duration of each one that has ended.
#[derive(Debug, Clone, Default)]
pub(super) struct Times(Arc<Mutex<HashMap<String, Option<Duration>>>>);

impl Times {
    /// The table. It is never left half changed, so a panic of another holder does not matter.
    pub(super) fn table(&self) -> MutexGuard<'_, HashMap<String, Option<Duration>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
