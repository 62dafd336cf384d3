//! Approximate sizes in bytes, for stores and queues that are bounded in bytes.

use std::sync::Arc;

use crate::store::call::{Attachment, CallHead, Cancellation, FinishedCall, Outcome};
use crate::store::message::{Kept, Message, Part, PartBody, Role, ToolResult, ToolState};
use crate::store::run::ThreadRun;
use crate::store::session::Session;
use crate::store::user_message::{PageTool, TurnNeeds};

/// The size of an open call.
pub fn of_head(head: &CallHead) -> usize {
    512 + head.input.get().len()
}

/// The size of a finished call.
pub fn of_call(call: &FinishedCall) -> usize {
    of_head(&call.head) + of_outcome(&call.outcome) + call.late.as_ref().map_or(0, of_outcome)
}

/// The size of an outcome.
pub fn of_outcome(outcome: &Outcome) -> usize {
    match outcome {
        Outcome::Success(success) => {
            success.title.len()
                + success.output.len()
                + success.metadata.as_ref().map_or(0, |metadata| metadata.get().len())
                + success.attachments.iter().flatten().map(of_file).sum::<usize>()
        }
        Outcome::Acknowledged(ack) => {
            ack.output.as_ref().map_or(0, |output| output.get().len()) + ack.error_text.as_ref().map_or(0, String::len)
        }
        Outcome::Error(text) | Outcome::Denied(text) | Outcome::Cancelled(Cancellation::Requested(text)) => text.len(),
        Outcome::Timeout(_) | Outcome::Cancelled(_) | Outcome::Disconnected => 0,
    }
}

/// The size of a session without its messages and runs.
pub fn of_session(session: &Session) -> usize {
    let approved = session.approved.iter().map(|tool| 64 + tool.len()).sum::<usize>();
    1_024 + session.title.len() + session.metadata.as_ref().map_or(0, |metadata| metadata.get().len()) + approved
}

/// The size of a message.
pub fn of_message(message: &Message) -> usize {
    let said = match &message.role {
        Role::User(said) => {
            let TurnNeeds { system, instructions, switches, page_tools, results, .. } = &said.needs;
            let texts = system.iter().chain(instructions).chain(switches.keys()).map(|text| 64 + text.len());
            let results = results.iter().map(|(_, result)| 64 + of_result(result));
            texts.chain(page_tools.iter().map(of_page_tool)).chain(results).sum()
        }
        Role::Assistant(said) => said.error.as_ref().map_or(0, |error| error.message().len()) + of_kept(&said.kept),
    };
    512 + said + message.parts.iter().map(|part| of_part(part)).sum::<usize>()
}

/// The size of a run without its events.
pub fn of_run(run: &ThreadRun) -> usize {
    let input = run.input.as_ref().map_or(0, |input| input.get().len());
    512 + run.label.as_ref().map_or(0, String::len) + input
}

/// The size of a run's events.
pub fn of_events(events: &[Arc<str>]) -> usize {
    events.iter().map(|event| 32 + event.len()).sum()
}

/// The size of a part.
pub fn of_part(part: &Part) -> usize {
    match &part.body {
        PartBody::Text { text, .. } => 128 + text.len(),
        PartBody::Reasoning { text, kept, .. } => 128 + text.len() + of_kept(kept),
        PartBody::File(file) => 128 + of_file(file),
        PartBody::Tool(tool) => {
            let names = tool.provider_call.len() + tool.alias.len();
            let result = match &tool.state {
                ToolState::Done { result, .. } => of_result(result),
                ToolState::Pending { .. } | ToolState::Running { .. } | ToolState::Yielded { .. } => 0,
            };
            512 + names + tool.arguments().len() + result + of_kept(&tool.kept)
        }
        PartBody::StepStart | PartBody::StepFinish { .. } => 128,
    }
}

fn of_page_tool(tool: &PageTool) -> usize {
    256 + tool.description.len() + tool.parameters.as_ref().map_or(0, |parameters| parameters.get().len())
}

fn of_result(result: &ToolResult) -> usize {
    match result {
        ToolResult::Completed { title, output, metadata, attachments } => {
            title.len()
                + output.len()
                + metadata.as_ref().map_or(0, |metadata| metadata.get().len())
                + attachments.iter().map(of_file).sum::<usize>()
        }
        ToolResult::Given { output, error } => output.get().len() + error.as_ref().map_or(0, String::len),
        ToolResult::Failed(error) | ToolResult::Denied { reason: error, .. } => error.len(),
    }
}

fn of_kept(kept: &Option<Kept>) -> usize {
    kept.as_ref().map_or(0, Kept::len)
}

fn of_file(file: &Attachment) -> usize {
    128 + file.mime.len() + file.filename.as_ref().map_or(0, String::len) + file.url.len()
}
