//! From the core to the wire.

use std::io::Write;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use handback_core::calls::{CallInfo, ClientInfo, Delivery};
use handback_core::store::{
    AckStatus, Attachment, CallHead, CallState, Effect, Executor, Outcome, Phases, Success, Tool,
};
use handback_wire::client_tools as wire;
use handback_wire::socket::ServerMessage;
use serde::Serialize;

use crate::transport::sse::Next;

/// The latest time that the wire can have, since 1970.
const LATEST: Duration = Duration::from_millis(253_402_300_799_999);

/// The keep-alive frame of the call stream.
pub(super) const PING: &str = "event: ping\ndata: \n\n";

/// Formats a time for the wire.
pub(crate) fn time(time: SystemTime) -> String {
    rfc3339(time).to_string()
}

/// RFC 3339 ends with the year 9999, and formatting a later time would panic. A damaged database may have one: it is shown
/// as the last millisecond of that year.
fn rfc3339(time: SystemTime) -> humantime::Rfc3339Timestamp {
    humantime::format_rfc3339_millis(time.min(SystemTime::UNIX_EPOCH + LATEST))
}

/// Serialises a value that cannot fail to serialise.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|error| {
        tracing::error!(%error, "a value could not be written as JSON");
        "null".to_owned()
    })
}

/// Writes a delivery to a connection as SSE.
pub(super) fn sse(delivery: Delivery) -> Next {
    let mut frame = Vec::new();
    let id = match delivery {
        Delivery::Request { head, attempt, id } => {
            frame.reserve(384 + head.input.get().len());
            frame.extend_from_slice(b"event: tool-request\ndata: ");
            write_request(&mut frame, &head, attempt);
            id
        }
        Delivery::Cancel { request, reason, id } => {
            let cancel = wire::ToolCancel { request_id: request.to_string(), reason: reason.to_string() };
            frame.extend_from_slice(b"event: tool-cancel\ndata: ");
            frame.extend_from_slice(json(&cancel).as_bytes());
            id
        }
        Delivery::Superseded => return Next::End,
        Delivery::GoingAway => return Next::Cut,
    };
    // Writing to memory cannot fail.
    _ = write!(frame, "\nid: {id}\n\n");
    Next::Frame(Bytes::from(frame))
}

/// Writes a call exactly as [`request`] and serde would, in a third of the time: it copies nothing on the way, and the
/// keys need no escaping.
fn write_request(out: &mut Vec<u8>, head: &CallHead, attempt: u32) {
    let strings = [
        ("{\"type\":", "client-tool-request"),
        (",\"requestID\":", head.request.as_str()),
        (",\"sessionID\":", head.session.as_str()),
        (",\"messageID\":", head.message.as_str()),
        (",\"callID\":", head.call.as_str()),
        (",\"tool\":", head.tool.id.as_str()),
    ];
    for (key, text) in strings {
        out.extend_from_slice(key.as_bytes());
        write_string(out, text);
    }
    out.extend_from_slice(b",\"input\":");
    out.extend_from_slice(head.input.get().as_bytes());
    let deadline = rfc3339(head.deadline);
    let effect = match head.tool.spec.effect {
        Effect::Read => "read",
        Effect::Idempotent => "idempotent",
        Effect::Write => "write",
    };
    _ = write!(out, ",\"deadline\":\"{deadline}\",\"effect\":\"{effect}\",\"attempt\":{attempt}}}");
}

/// Writes a JSON string.
fn write_string(out: &mut Vec<u8>, text: &str) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    } else {
        out.extend_from_slice(json(&text).as_bytes());
    }
}

/// A call as a WebSocket message.
pub(super) fn message(head: &CallHead, attempt: u32) -> ServerMessage {
    ServerMessage::Request { request: request(head, attempt) }
}

/// A call as its client receives it.
pub(crate) fn request(head: &CallHead, attempt: u32) -> wire::ToolRequest {
    wire::ToolRequest {
        kind: "client-tool-request".to_owned(),
        request_id: head.request.as_str().to_owned(),
        session_id: head.session.as_str().to_owned(),
        message_id: head.message.as_str().to_owned(),
        call_id: head.call.as_str().to_owned(),
        tool: head.tool.id.as_str().to_owned(),
        input: head.input.clone(),
        deadline: time(head.deadline),
        effect: effect(head.tool.spec.effect),
        attempt,
        execution_mode: execution_mode(head),
    }
}

/// The mode is set only for calls that a frontend runs; this API expects all others to run on clients.
fn execution_mode(head: &CallHead) -> Option<wire::ExecutionMode> {
    (head.tool.executor == Executor::Frontend).then_some(wire::ExecutionMode::Frontend)
}

pub(super) fn tool(tool: &Tool) -> wire::Tool {
    let spec = &tool.spec;
    wire::Tool {
        id: tool.id.to_string(),
        description: spec.description.clone(),
        parameters: Some(spec.schema.source().to_owned()),
        timeout: spec.timeout.map(milliseconds),
        effect: Some(effect(spec.effect)),
        version: spec.version.clone(),
    }
}

fn effect(effect: Effect) -> wire::Effect {
    match effect {
        Effect::Read => wire::Effect::Read,
        Effect::Idempotent => wire::Effect::Idempotent,
        Effect::Write => wire::Effect::Write,
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub(super) fn client(client: &ClientInfo) -> wire::Client {
    wire::Client {
        id: client.id.to_string(),
        connections: client.connections,
        tools: client.tools,
        calls: client.calls,
        since: time(client.since),
    }
}

/// A call in a listing. Only the route for one call adds the input.
pub(super) fn call(call: &CallInfo) -> wire::Call {
    let head = &call.head;
    wire::Call {
        request_id: head.request.to_string(),
        session_id: head.session.to_string(),
        message_id: head.message.to_string(),
        call_id: head.call.to_string(),
        tool: head.tool.id.to_string(),
        client_id: head.client().to_string(),
        execution_mode: execution_mode(head),
        effect: effect(head.tool.spec.effect),
        state: state(call.state),
        attempt: call.attempt,
        created: time(head.created),
        deadline: (call.state != CallState::AwaitingApproval).then(|| time(head.deadline)),
        times: phases(call.phases),
        input: None,
        outcome: call.finished.as_ref().map(|finished| outcome(&finished.outcome)),
        may_have_run: call.finished.as_ref().and_then(|finished| finished.may_have_run_without_result()),
        late_result: None,
    }
}

fn state(state: CallState) -> wire::CallState {
    match state {
        CallState::AwaitingApproval => wire::CallState::AwaitingApproval,
        CallState::Queued => wire::CallState::Queued,
        CallState::Offered => wire::CallState::Offered,
        CallState::Done => wire::CallState::Done,
    }
}

fn phases(phases: Phases) -> wire::Phases {
    wire::Phases {
        approval: milliseconds(phases.approval),
        queue: milliseconds(phases.queue),
        execute: milliseconds(phases.execute),
    }
}

pub(super) fn outcome(outcome: &Outcome) -> wire::Outcome {
    let error = outcome.failure().unwrap_or_default();
    match outcome {
        Outcome::Success(given) => wire::Outcome::Success(success(given)),
        Outcome::Error(_) => wire::Outcome::Error { error },
        Outcome::Acknowledged(ack) => match ack.status {
            AckStatus::Success => {
                let output = ack.payload().get().to_owned();
                wire::Outcome::Success(wire::Success { output, ..wire::Success::default() })
            }
            AckStatus::Failed => wire::Outcome::Error { error },
            AckStatus::Timeout => wire::Outcome::Timeout { error },
        },
        Outcome::Timeout(_) => wire::Outcome::Timeout { error },
        Outcome::Cancelled(_) => wire::Outcome::Cancelled { error },
        Outcome::Denied(_) => wire::Outcome::Denied { error },
        Outcome::Disconnected => wire::Outcome::Disconnected { error },
    }
}

/// The result for the waiting caller, or `None` if the call ended without a result.
pub(super) fn result(outcome: &Outcome) -> Option<wire::ToolResult> {
    match outcome {
        Outcome::Success(given) => Some(wire::ToolResult::Success(success(given))),
        Outcome::Error(error) => Some(wire::ToolResult::Error { error: error.clone() }),
        _ => None,
    }
}

fn success(success: &Success) -> wire::Success {
    wire::Success {
        title: success.title.clone(),
        output: success.output.clone(),
        metadata: success.metadata.clone(),
        attachments: success.attachments.as_ref().map(|files| files.iter().map(attachment).collect()),
    }
}

fn attachment(file: &Attachment) -> wire::Attachment {
    wire::Attachment { mime: file.mime.clone(), filename: file.filename.clone(), url: file.url.clone() }
}

#[cfg(test)]
mod tests;
