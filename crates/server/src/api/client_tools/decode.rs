//! From the wire to the core.

use std::time::Duration;

use handback_core::Hub;
use handback_core::calls::{Callee, NewCall};
use handback_core::id::{CallId, MessageId, RequestId, SessionId, ToolName};
use handback_core::schema::{SchemaError, depth, empty_object, one_line};
use handback_core::store::{Attachment, CallState, Effect, Origin, Outcome, Success, ToolSpec};
use handback_core::tools::Permission;
use handback_wire::client_tools as wire;
use handback_wire::error::ErrorCode;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::parse;
use crate::problem::Problem;

/// Decodes the tools of a registration and compiles their schemas. An error names the tool.
pub(super) async fn tools(hub: &Hub, tools: Vec<wire::Tool>) -> Result<Vec<ToolSpec>, Problem> {
    let most = hub.limits().tools_per_client;
    if tools.len() > most {
        return Err(Problem::new(ErrorCode::TooLarge, format!("{} tools; at most {most} are allowed", tools.len())));
    }
    let mut specs = Vec::with_capacity(tools.len());
    for tool in tools {
        specs.push(spec(hub, tool).await?);
    }
    Ok(specs)
}

async fn spec(hub: &Hub, tool: wire::Tool) -> Result<ToolSpec, Problem> {
    let name = ToolName::parse(&tool.id)?;
    let schema = hub.schemas().compile(tool.parameters.as_deref(), hub.limits()).await.map_err(|error| {
        let code = match error {
            SchemaError::TooLarge { .. } => ErrorCode::TooLarge,
            _ => ErrorCode::InvalidRequest,
        };
        Problem::new(code, format!("the `parameters` of tool \"{name}\" cannot be used: {error}"))
    })?;
    let timeout = tool.timeout.map(milliseconds).transpose();
    Ok(ToolSpec {
        timeout: timeout.map_err(|reason| Problem::invalid(format!("the `timeout` of tool \"{name}\" {reason}")))?,
        name,
        description: tool.description,
        schema,
        effect: effect(tool.effect.unwrap_or_default()),
        version: tool.version,
    })
}

fn effect(effect: wire::Effect) -> Effect {
    match effect {
        wire::Effect::Read => Effect::Read,
        wire::Effect::Idempotent => Effect::Idempotent,
        wire::Effect::Write => Effect::Write,
    }
}

/// Converts a positive number of milliseconds. The limits handle a time that is too long.
fn milliseconds(milliseconds: f64) -> Result<Duration, &'static str> {
    // A year is above every limit and still safe for the arithmetic.
    const LONG: f64 = 365.0 * 24.0 * 60.0 * 60.0 * 1000.0;
    if milliseconds > 0.0 {
        Ok(Duration::from_secs_f64(milliseconds.min(LONG) / 1000.0))
    } else {
        Err("must be a number of milliseconds above 0")
    }
}

/// Decodes a call that the application makes.
pub(super) fn call(request: wire::ExecuteRequest) -> Result<NewCall, Problem> {
    let timeout = request.timeout.map(milliseconds).transpose();
    Ok(NewCall {
        callee: Callee::Registered { tool: request.tool_id, client: None },
        request: request.request_id.as_deref().map(RequestId::parse).transpose()?,
        session: SessionId::parse(request.session_id.as_deref().unwrap_or_default())?,
        message: MessageId::parse(request.message_id.as_deref().unwrap_or_default())?,
        call: CallId::parse(request.call_id.as_deref().unwrap_or_default())?,
        input: request.input.unwrap_or_else(empty_object),
        timeout: timeout.map_err(|reason| Problem::invalid(format!("`timeout` {reason}")))?,
        origin: Origin::Application,
        permission: Permission::Allow,
        connection: None,
    })
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(rename = "requestID")]
    request_id: Option<String>,
    result: Option<ResultBody>,
}

#[derive(Deserialize)]
struct ResultBody {
    status: Option<String>,
    title: Option<String>,
    output: Option<String>,
    metadata: Option<Box<RawValue>>,
    attachments: Option<Vec<wire::Attachment>>,
    error: Option<String>,
}

/// Decodes a client's answer. The result is nested or beside the `requestID`; a nested one wins.
pub(super) fn result(text: &str, hub: &Hub) -> Result<(RequestId, Outcome), Problem> {
    let envelope: Envelope = parse(text)?;
    let request = envelope.request_id.ok_or_else(|| Problem::invalid("`requestID` is missing"))?;
    let request = RequestId::parse(&request)?;
    let answer = match envelope.result {
        Some(answer) => answer,
        None => parse(text)?,
    };
    Ok((request, outcome(answer, hub)?))
}

fn outcome(answer: ResultBody, hub: &Hub) -> Result<Outcome, Problem> {
    match answer.status.as_deref() {
        Some("success") => {}
        Some("error") => {
            let error = answer.error.unwrap_or_else(|| "The client gave no reason".to_owned());
            return Ok(Outcome::Error(error));
        }
        Some(_) => return Err(Problem::invalid("`status` must be \"success\" or \"error\"")),
        None => return Err(Problem::invalid("`status` is missing; it must be \"success\" or \"error\"")),
    }
    if let Some(metadata) = &answer.metadata {
        if !metadata.get().starts_with('{') {
            return Err(Problem::invalid("`metadata` must be a JSON object"));
        }
        let deepest = hub.limits().input_depth;
        if depth(metadata.get()) > deepest {
            return Err(Problem::invalid(format!("`metadata` is nested more than {deepest} deep")));
        }
    }
    Ok(Outcome::Success(Success {
        title: answer.title.unwrap_or_default(),
        output: answer.output.unwrap_or_default(),
        metadata: answer.metadata.map(one_line),
        attachments: answer.attachments.map(|files| files.into_iter().map(attachment).collect()),
    }))
}

fn attachment(file: wire::Attachment) -> Attachment {
    Attachment { mime: file.mime, filename: file.filename, url: file.url }
}

pub(super) fn state(state: wire::CallState) -> CallState {
    match state {
        wire::CallState::AwaitingApproval => CallState::AwaitingApproval,
        wire::CallState::Queued => CallState::Queued,
        wire::CallState::Offered => CallState::Offered,
        wire::CallState::Done => CallState::Done,
    }
}
