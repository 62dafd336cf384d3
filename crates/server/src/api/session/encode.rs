//! From the core to the wire.

use handback_core::clock::Time;
use handback_core::events::{Field, SessionEvent, TurnEvent};
use handback_core::id::{MessageId, SessionId};
use handback_core::schema::empty_object;
use handback_core::sessions::Agent;
use handback_core::store::{
    Ask, Attachment, Message, ModelRef, Part, PartBody, Reply, Role, Session, Span, ToolPart, ToolResult, ToolState,
    TurnError, Usage,
};
use handback_core::tools::{Offered, Permission, Place};
use handback_wire::error::ErrorCode;
use handback_wire::event as events;
use handback_wire::session as wire;
use serde_json::value::RawValue;

use crate::problem::{ErrorShape, Problem, json_body};

/// Converts a session; `model` is the model that answers in it.
pub(crate) fn session(session: &Session, model: &ModelRef) -> wire::Session {
    wire::Session {
        id: session.id.to_string(),
        slug: session.id.to_string(),
        project_id: "global".to_owned(),
        directory: String::new(),
        parent_id: session.parent.as_ref().map(ToString::to_string),
        client_id: session.client.as_ref().map(ToString::to_string),
        title: session.title.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        agent: session.agent.as_ref().map(ToString::to_string),
        model: Some(wire::Model { model_id: None, id: Some(model.model.to_string()), ..named(model) }),
        metadata: session.metadata.clone(),
        time: wire::SessionTime { created: session.created.0, updated: session.updated.0 },
    }
}

fn named(model: &ModelRef) -> wire::Model {
    wire::Model { provider_id: model.provider.to_string(), model_id: Some(model.model.to_string()), id: None }
}

pub(super) fn message_with_parts(message: &Message) -> wire::MessageWithParts {
    let part = match message.role {
        Role::User(_) => user_part,
        Role::Assistant(_) => part,
    };
    let parts =
        message.parts.iter().filter(|part| part.is_shown()).map(|known| part(&message.session, &message.id, known));
    wire::MessageWithParts { info: info(message), parts: parts.collect() }
}

fn info(message: &Message) -> wire::Message {
    let common = wire::Message {
        id: message.id.to_string(),
        session_id: message.session.to_string(),
        time: wire::MessageTime { created: message.created.0, completed: None },
        ..wire::Message::default()
    };
    match &message.role {
        Role::User(said) => wire::Message {
            role: "user".to_owned(),
            agent: said.agent.to_string(),
            model: Some(named(&said.model)),
            system: said.needs.system.clone(),
            tools: (!said.needs.switches.is_empty()).then(|| said.needs.switches.clone()),
            ..common
        },
        Role::Assistant(said) => wire::Message {
            role: "assistant".to_owned(),
            time: wire::MessageTime { completed: said.completed.map(|Time(time)| time), ..common.time },
            agent: said.agent.to_string(),
            parent_id: Some(said.parent.to_string()),
            model_id: Some(said.model.model.to_string()),
            provider_id: Some(said.model.provider.to_string()),
            mode: Some(said.agent.to_string()),
            path: Some(wire::MessagePath::default()),
            cost: Some(0.0),
            tokens: Some(tokens(said.usage)),
            finish: said.completed.and(said.finish).map(|reason| reason.as_str().to_owned()),
            error: said.error.as_ref().map(turn_error),
            ..common
        },
    }
}

fn tokens(usage: Usage) -> wire::Tokens {
    wire::Tokens {
        input: usage.input,
        output: usage.output,
        reasoning: usage.reasoning.unwrap_or_default(),
        cache: wire::CacheTokens {
            read: usage.cache_read.unwrap_or_default(),
            write: usage.cache_write.unwrap_or_default(),
        },
    }
}

/// The error shape `{name, data: {message}}`, with the error names of opencode's SDK.
pub(in crate::api) const ERRORS: ErrorShape = ErrorShape { roots: &[], schema: "TurnError", body: error_body };

fn error_body(problem: &Problem) -> Vec<u8> {
    let name = match problem.code {
        ErrorCode::NotFound => "NotFoundError",
        ErrorCode::Unauthorized => "UnauthorizedError",
        ErrorCode::Forbidden => "ForbiddenError",
        ErrorCode::Conflict | ErrorCode::Cancelled => "ConflictError",
        code if code.status() >= 500 => "UnknownError",
        _ => "BadRequest",
    };
    let (message, reason, request) = (problem.message.clone(), problem.reason.map(str::to_owned), problem.request());
    let data = wire::TurnErrorData { message, reason, request, ..wire::TurnErrorData::default() };
    json_body(&wire::TurnError { name: name.to_owned(), data })
}

fn turn_error(error: &TurnError) -> wire::TurnError {
    let data = wire::TurnErrorData { message: error.message().to_owned(), ..wire::TurnErrorData::default() };
    let (name, data) = match error {
        TurnError::Aborted(_) | TurnError::Stopped(_) => ("MessageAbortedError", data),
        TurnError::Refused { .. } | TurnError::Other(_) => ("UnknownError", data),
        TurnError::Auth { provider, .. } => {
            ("ProviderAuthError", wire::TurnErrorData { provider_id: Some(provider.to_string()), ..data })
        }
        TurnError::Provider { status, retryable, .. } => {
            ("APIError", wire::TurnErrorData { status_code: *status, is_retryable: Some(*retryable), ..data })
        }
    };
    wire::TurnError { name: name.to_owned(), data }
}

fn part(session: &SessionId, message: &MessageId, part: &Part) -> wire::Part {
    let common = wire::Part {
        id: part.id.to_string(),
        session_id: session.to_string(),
        message_id: message.to_string(),
        ..wire::Part::default()
    };
    match &part.body {
        PartBody::Text { text, span } => {
            wire::Part { kind: "text".to_owned(), text: Some(text.clone()), time: Some(times(*span)), ..common }
        }
        PartBody::Reasoning { text, span, .. } => {
            wire::Part { kind: "reasoning".to_owned(), text: Some(text.clone()), time: Some(times(*span)), ..common }
        }
        PartBody::File(file) => attachment(common, file),
        PartBody::Tool(tool) => wire::Part {
            kind: "tool".to_owned(),
            call_id: Some(tool.call.to_string()),
            tool: Some(tool.tool.to_string()),
            state: Some(tool_state(&common, tool)),
            ..common
        },
        PartBody::StepStart => wire::Part { kind: "step-start".to_owned(), ..common },
        PartBody::StepFinish { reason, usage } => wire::Part {
            kind: "step-finish".to_owned(),
            reason: Some(reason.as_str().to_owned()),
            cost: Some(0.0),
            tokens: Some(tokens(*usage)),
            ..common
        },
    }
}

/// Converts a part of a user's message. It has no time, because clients take a text with an end for an answer.
fn user_part(session: &SessionId, message: &MessageId, said: &Part) -> wire::Part {
    wire::Part { time: None, ..part(session, message, said) }
}

fn times(span: Span) -> wire::Span {
    wire::Span { start: span.start.0, end: span.end.map(|Time(end)| end) }
}

fn attachment(common: wire::Part, file: &Attachment) -> wire::Part {
    wire::Part {
        kind: "file".to_owned(),
        mime: Some(file.mime.clone()),
        filename: file.filename.clone(),
        url: Some(file.url.clone()),
        ..common
    }
}

fn tool_state(common: &wire::Part, tool: &ToolPart) -> wire::ToolState {
    let state = |status: &str, input: &RawValue| wire::ToolState {
        status: status.to_owned(),
        input: Some(input.to_owned()),
        ..wire::ToolState::default()
    };
    let span = |start: Time, end: Option<Time>| Some(times(Span { start, end }));
    match &tool.state {
        ToolState::Pending { raw } => wire::ToolState { raw: Some(raw.clone()), ..state("pending", &empty_object()) },
        ToolState::Running { input, start } | ToolState::Yielded { input, start } => {
            wire::ToolState { time: span(*start, None), ..state("running", input) }
        }
        ToolState::Done { input, start, end, result: ToolResult::Given { output, error: None } } => wire::ToolState {
            title: Some(String::new()),
            output: Some(text_of(output)),
            metadata: Some(empty_object()),
            time: span(*start, Some(*end)),
            ..state("completed", input)
        },
        ToolState::Done {
            input,
            start,
            end,
            result:
                ToolResult::Failed(error)
                | ToolResult::Denied { reason: error, .. }
                | ToolResult::Given { error: Some(error), .. },
        } => wire::ToolState { error: Some(error.clone()), time: span(*start, Some(*end)), ..state("error", input) },
        ToolState::Done { input, start, end, result } => {
            let ToolResult::Completed { title, output, metadata, attachments } = result else {
                return state("error", input);
            };
            let file = |(number, file): (usize, &Attachment)| {
                let id = format!("{}_{number}", common.id);
                attachment(wire::Part { id, ..common.clone() }, file)
            };
            let files: Vec<wire::Part> = attachments.iter().enumerate().map(file).collect();
            wire::ToolState {
                title: Some(title.clone()),
                output: Some(output.clone()),
                metadata: Some(metadata.clone().unwrap_or_else(empty_object)),
                time: span(*start, Some(*end)),
                attachments: (!files.is_empty()).then_some(files),
                ..state("completed", input)
            }
        }
    }
}

/// The value of a JSON string; other JSON unchanged.
fn text_of(json: &RawValue) -> String {
    serde_json::from_str(json.get()).unwrap_or_else(|_| json.get().to_owned())
}

pub(super) fn offered(tool: &Offered, agent: &Agent, session: &Session) -> wire::OfferedTool {
    let permission = || match agent.policy.decide(tool.named()) {
        Permission::Ask if session.approved.contains(tool.id()) => Permission::Allow,
        permission => permission,
    };
    let (runs, client, permission) = match &tool.place {
        Place::Client(client) => (wire::Runs::Client, Some(client.client.to_string()), permission()),
        Place::Frontend(_) | Place::Page(_) => (wire::Runs::Frontend, None, permission()),
        Place::Server(_) => (wire::Runs::Server, None, Permission::Allow),
    };
    wire::OfferedTool {
        id: tool.id().to_owned(),
        name: tool.alias.to_string(),
        description: tool.description().to_owned(),
        parameters: tool.schema().source().to_owned(),
        runs,
        client_id: client,
        permission: match permission {
            Permission::Allow => wire::Rule::Allow,
            Permission::Ask => wire::Rule::Ask,
            Permission::Deny => wire::Rule::Deny,
        },
    }
}

/// Converts an ask.
pub(crate) fn permission(ask: &Ask) -> wire::Permission {
    let (head, tool) = (&ask.call, ask.call.tool.id.to_string());
    wire::Permission {
        id: ask.id.to_string(),
        kind: "client_tool".to_owned(),
        permission: "client_tool".to_owned(),
        pattern: tool.clone(),
        patterns: vec![tool.clone()],
        always: vec![tool.clone()],
        session_id: head.session.to_string(),
        message_id: head.message.to_string(),
        call_id: head.call.to_string(),
        client_id: head.client().to_string(),
        title: format!("Run {} on {}", head.tool.spec.name, head.client()),
        input: head.input.clone(),
        metadata: wire::PermissionMetadata { tool: tool.clone(), input: head.input.clone() },
        time: wire::Asked { created: ask.created.0 },
        tool,
    }
}

fn reply(reply: Reply) -> wire::Reply {
    match reply {
        Reply::Once => wire::Reply::Once,
        Reply::Always => wire::Reply::Always,
        Reply::Reject => wire::Reply::Reject,
    }
}

/// Converts an ask to events, one for each generation of clients.
pub(crate) fn asked(ask: &Ask) -> [events::Event; 2] {
    let shown = permission(ask);
    [events::Event::PermissionUpdated(shown.clone()), events::Event::PermissionAsked(shown)]
}

pub(crate) fn answered(ask: &Ask, answer: Reply) -> events::Event {
    events::Event::PermissionReplied {
        session_id: ask.call.session.to_string(),
        permission_id: ask.id.to_string(),
        request_id: ask.id.to_string(),
        response: reply(answer),
        reply: reply(answer),
    }
}

/// Converts a session event, usually to one event.
pub(crate) fn event(of: &Session, model: &ModelRef, event: &SessionEvent) -> Vec<events::Event> {
    let session_id = of.id.to_string();
    let about = || events::SessionInfo { session_id: of.id.to_string(), info: session(of, model) };
    let status = |status| events::Event::SessionStatus { session_id: of.id.to_string(), status };
    match event {
        SessionEvent::Created => vec![events::Event::SessionCreated(about())],
        SessionEvent::Updated => vec![events::Event::SessionUpdated(about())],
        SessionEvent::Deleted => vec![events::Event::SessionDeleted(about())],
        SessionEvent::Busy => vec![status(wire::Status::Busy)],
        SessionEvent::Idle => vec![status(wire::Status::Idle), events::Event::SessionIdle { session_id }],
        SessionEvent::Failed(error) => vec![events::Event::SessionError { session_id, error: turn_error(error) }],
        SessionEvent::Said(message) => {
            let parts = message.parts.iter().map(|part| user_part(&of.id, &message.id, part));
            let parts =
                parts.map(|part| events::Event::PartUpdated { session_id: of.id.to_string(), part, delta: None });
            [events::Event::MessageUpdated { session_id, info: info(message) }].into_iter().chain(parts).collect()
        }
        SessionEvent::Turn(event) => turn_event(of, event).into_iter().collect(),
        SessionEvent::Snapshot { message, part, delta } => vec![events::Event::PartUpdated {
            session_id,
            part: self::part(&of.id, message, part),
            // Older clients print the delta, so it holds only text and no arguments.
            delta: Some(delta.to_string()).filter(|_| !part.is_call()),
        }],
        SessionEvent::Mark(_) => Vec::new(),
    }
}

/// Converts a turn event.
fn turn_event(of: &Session, event: &TurnEvent) -> Option<events::Event> {
    let session_id = of.id.to_string();
    Some(match event {
        TurnEvent::StepBegan(message) | TurnEvent::StepDone(message) => {
            events::Event::MessageUpdated { session_id, info: info(message) }
        }
        TurnEvent::Part { message, part } => {
            events::Event::PartUpdated { session_id, part: self::part(&of.id, message, part), delta: None }
        }
        TurnEvent::PartRemoved { message, part } => {
            events::Event::PartRemoved { session_id, message_id: message.to_string(), part_id: part.to_string() }
        }
        // The part itself shows arguments; this event is only for fields of a part.
        TurnEvent::Grew { field: Field::Arguments, .. } => return None,
        TurnEvent::Grew { message, part, delta, .. } => events::Event::PartDelta {
            session_id,
            message_id: message.to_string(),
            part_id: part.to_string(),
            field: "text".to_owned(),
            delta: delta.to_string(),
        },
        _ => return None,
    })
}
