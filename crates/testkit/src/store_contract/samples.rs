//! What the tests keep, and how they compare it: whole values, and raw JSON to the byte.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handback_core::clock::Time;
use handback_core::id::{CallId, ClientId, MessageId, PartId, PermissionId, RequestId, RunId, SessionId, ToolName};
use handback_core::store::{
    Ack, AckStatus, AssistantMessage, Attachment, CallHead, Cancellation, Effect, Executor, FinishedCall,
    JournaledCall, Kept, Message, ModelRef, OpenTurn, Origin, Outcome, Page, Part, PartBody, Phases, Role, Session,
    Span, StopReason, Success, ThreadRun, Tool, ToolPart, ToolResult, ToolState, TurnError, Usage, UserMessage,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Texts that are easily kept wrong.
pub const TEXTS: [&str; 6] =
    ["", " plain ", "it's \"quoted\" \\ and; -- so on", "line\r\nbreak\ttab\0nul", "žluťoučký 🦀 \u{202e}", "%_?1$1{}"];

/// Raw JSON.
pub fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Objects that only survive if nobody parses and prints them.
pub fn objects() -> Vec<Box<RawValue>> {
    let deep = format!("{}{}", r#"{"a":["#.repeat(50_000), "]}".repeat(50_000));
    let texts = [
        "{}",
        "{ \"b\" : 1,\t\"a\":2 , \"b\":3 }",
        r#"{"n":[1e400,-0,1.50,12345678901234567890123456789],"s":"\ud800\u0041\/é🦀"}"#,
        "{\"lines\":\n[\r\n]}",
        &deep,
    ];
    texts.into_iter().map(raw).collect()
}

/// A session's id.
pub fn session_id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

/// A client's id.
pub fn client_id(text: &str) -> ClientId {
    ClientId::parse(text).unwrap()
}

/// A call's id.
pub fn request_id(text: &str) -> RequestId {
    RequestId::parse(text).unwrap()
}

/// A run's id.
pub fn run_id(text: &str) -> RunId {
    RunId::parse(text).unwrap()
}

/// A call of a session to a client.
pub fn head(request: &str, client: &str, session: &str) -> CallHead {
    let created = UNIX_EPOCH + Duration::new(1_767_225_600, 123_456_789);
    CallHead {
        request: request_id(request),
        session: session_id(session),
        message: MessageId::parse("msg_1").unwrap(),
        call: CallId::parse("cal_1").unwrap(),
        tool: Arc::new(Tool::remembered(
            client_id(client),
            Executor::Client,
            ToolName::parse("open_file").unwrap(),
            Effect::Write,
        )),
        origin: Origin::Model,
        connection: None,
        input: raw(r#"{"path":"/tmp/x"}"#),
        timeout: Duration::from_millis(30_000),
        created,
        deadline: created + Duration::from_secs(30),
        expires: Instant::now(),
    }
}

/// A call for the journal, of which nobody has seen anything.
pub fn begun(head: &Arc<CallHead>) -> JournaledCall {
    JournaledCall::new(head.clone())
}

/// A call that ended well.
pub fn finished(head: CallHead) -> Arc<FinishedCall> {
    ended(head, Outcome::Success(Success { output: "done".into(), ..Success::default() }))
}

/// A call that ended.
pub fn ended(head: CallHead, outcome: Outcome) -> Arc<FinishedCall> {
    let phases = Phases {
        approval: Duration::from_nanos(1),
        queue: Duration::from_micros(20),
        execute: Duration::new(3, 999_999_999),
    };
    let ask = matches!(outcome, Outcome::Denied(_)).then(|| PermissionId::parse("per_1").unwrap());
    Arc::new(FinishedCall {
        head: Arc::new(head),
        attempt: 2,
        may_have_run: true,
        ask,
        phases,
        outcome,
        claimant: None,
        late: None,
    })
}

/// The ways in which a frontend's call can end.
pub fn acks() -> Vec<Outcome> {
    let failed = TEXTS.map(|text| {
        let output = Some(serde_json::value::to_raw_value(text).unwrap());
        let (error_text, requested_at) = (Some(text.to_owned()), Some("2026-01-01T00:00:00Z".to_owned()));
        Ack { status: AckStatus::Failed, output, error_text, requested_at }
    });
    let done = objects().into_iter().map(|object| Ack {
        status: AckStatus::Success,
        output: Some(object),
        error_text: None,
        requested_at: None,
    });
    let null = Ack { status: AckStatus::Success, output: Some(raw("null")), error_text: None, requested_at: None };
    failed.into_iter().chain(done).chain([null, Ack::timeout()]).map(Outcome::Acknowledged).collect()
}

/// Every way in which a client's call can end. A file of the first version has these; they stay as they are.
pub fn outcomes() -> Vec<Outcome> {
    let file = |filename: Option<&str>| Attachment {
        mime: "image/png".into(),
        filename: filename.map(str::to_owned),
        url: "data:image/png;base64,AAAA".into(),
    };
    let mut outcomes = vec![
        Outcome::Success(Success::default()),
        Outcome::Success(Success { attachments: Some(Vec::new()), ..Success::default() }),
        Outcome::Success(Success { attachments: Some(vec![file(None), file(Some("ä"))]), ..Success::default() }),
        Outcome::Timeout(Duration::ZERO),
        Outcome::Timeout(Duration::new(u64::MAX, 999_999_999)),
        Outcome::Cancelled(Cancellation::CallerGone),
        Outcome::Cancelled(Cancellation::ShuttingDown),
        Outcome::Disconnected,
    ];
    for text in TEXTS.map(str::to_owned) {
        let success = Success { title: text.clone(), output: text.clone(), ..Success::default() };
        outcomes.push(Outcome::Success(success));
        outcomes.push(Outcome::Error(text.clone()));
        outcomes.push(Outcome::Denied(text.clone()));
        outcomes.push(Outcome::Cancelled(Cancellation::Requested(text)));
    }
    let with_metadata = |object| Outcome::Success(Success { metadata: Some(object), ..Success::default() });
    outcomes.extend(objects().into_iter().map(with_metadata));
    outcomes.push(Outcome::Cancelled(Cancellation::TurnStopped));
    outcomes
}

/// A session with nothing to it.
pub fn session(id: &str) -> Session {
    Session {
        id: session_id(id),
        client: None,
        title: String::new(),
        parent: None,
        agent: None,
        model: None,
        metadata: None,
        has_frontend: false,
        approved: BTreeSet::new(),
        created: Time(1),
        updated: Time(2),
    }
}

/// A model.
pub fn model() -> ModelRef {
    ModelRef::new("openrouter", "anthropic/some model").unwrap()
}

/// A user's message that a turn answers, with one part.
pub fn user(session: &str, id: &str) -> Message {
    let turn = Some(OpenTurn::new(Time(7), None));
    message(session, id, Role::User(UserMessage { turn, ..UserMessage::new("default", model()) }))
}

/// An assistant's message that answers another and is not complete, with one part.
pub fn assistant(session: &str, id: &str, parent: &str) -> Message {
    let role = Role::Assistant(AssistantMessage {
        parent: MessageId::parse(parent).unwrap(),
        agent: "default".into(),
        model: model(),
        completed: None,
        finish: None,
        usage: Usage::default(),
        error: None,
        kept: None,
    });
    message(session, id, role)
}

fn message(session: &str, id: &str, role: Role) -> Message {
    let parts = vec![text_part("prt_1", id)];
    Message { id: MessageId::parse(id).unwrap(), session: session_id(session), created: Time(3), role, parts }
}

/// A part with a text.
pub fn text_part(id: &str, text: &str) -> Arc<Part> {
    part(id, PartBody::Text { text: text.into(), span: Span { start: Time(4), end: Some(Time(5)) } })
}

/// A part.
pub fn part(id: &str, body: PartBody) -> Arc<Part> {
    Arc::new(Part { id: PartId::parse(id).unwrap(), body })
}

/// What a provider wants back.
pub fn wanted_back(value: Value) -> Kept {
    Kept::new(&value).unwrap()
}

/// Parts with what only their provider reads.
pub fn parts_of_providers() -> Vec<Arc<Part>> {
    let span = Span { start: Time(0), end: None };
    let thought =
        PartBody::Reasoning { text: String::new(), kept: Some(wanted_back(json!({ "data": "opaque" }))), span };
    let kept = Some(wanted_back(json!({ "members": { "a": 1.5 } })));
    let call = PartBody::Tool(ToolPart { kept, ..tool(ToolState::Pending { raw: String::new() }) });
    vec![part("prt_1", thought), part("prt_2", call)]
}

/// Every kind of part.
pub fn parts() -> Vec<Arc<Part>> {
    let span = Span { start: Time(0), end: None };
    let usage = Usage { input: 1, output: 2, reasoning: Some(3), cache_read: Some(4), cache_write: Some(u64::MAX) };
    let mut bodies = vec![
        PartBody::StepStart,
        PartBody::Reasoning { text: "so".into(), kept: None, span },
        PartBody::File(Attachment { mime: String::new(), filename: None, url: String::new() }),
        PartBody::Tool(tool(ToolState::Pending { raw: r#"{"half": "#.into() })),
    ];
    for text in TEXTS.map(str::to_owned) {
        bodies.push(PartBody::Text { text: text.clone(), span });
        bodies.push(PartBody::Reasoning { text: text.clone(), kept: Some(wanted_back(text.as_str().into())), span });
        bodies.push(PartBody::File(Attachment { mime: text.clone(), filename: Some(text.clone()), url: text.clone() }));
        bodies.push(PartBody::Tool(tool(done(ToolResult::Failed(text)))));
    }
    for object in objects() {
        bodies.push(PartBody::Tool(tool(ToolState::Running { input: object.clone(), start: Time(6) })));
        bodies.push(PartBody::Tool(tool(done(ToolResult::Completed {
            title: "title".into(),
            output: "output".into(),
            metadata: Some(object),
            attachments: vec![Attachment { mime: "a/b".into(), filename: None, url: "https://example.test/".into() }],
        }))));
    }
    for reason in
        [StopReason::Stop, StopReason::ToolCalls, StopReason::Length, StopReason::ContentFilter, StopReason::Other]
    {
        bodies.push(PartBody::StepFinish { reason, usage });
    }
    bodies.into_iter().enumerate().map(|(number, body)| part(&format!("prt_{number}"), body)).collect()
}

/// The calls of frontends and pages.
pub fn frontend_parts() -> Vec<Arc<Part>> {
    let calls = objects().into_iter().flat_map(|object| {
        let given =
            |error: Option<&str>| done(ToolResult::Given { output: object.clone(), error: error.map(str::to_owned) });
        [ToolState::Yielded { input: object.clone(), start: Time(6) }, given(None), given(Some("no"))]
    });
    let bodies = calls.map(|state| PartBody::Tool(tool(state)));
    bodies.enumerate().map(|(number, body)| part(&format!("prt_{number}"), body)).collect()
}

fn tool(state: ToolState) -> ToolPart {
    ToolPart {
        call: CallId::parse("cal_1").unwrap(),
        provider_call: "call_é\"1".into(),
        alias: "open_file_0a1b2c3d".into(),
        tool: "client_desk_open_file".into(),
        request: Some(request_id("r1")),
        is_cut: false,
        is_half_said: false,
        kept: None,
        state,
    }
}

fn done(result: ToolResult) -> ToolState {
    ToolState::Done { input: raw("{ }"), start: Time(7), end: Time(8), result }
}

/// Every way in which a turn can end early.
pub fn turn_errors() -> Vec<TurnError> {
    vec![
        TurnError::Aborted("by the user".into()),
        TurnError::Auth { provider: "local".into(), message: "no \"key\"".into() },
        TurnError::Provider { message: "busy".into(), status: Some(529), retryable: true },
        TurnError::Provider { message: String::new(), status: None, retryable: false },
        TurnError::Other("🦀".into()),
    ]
}

/// A run that was made and not started.
pub fn run(session: &str, id: &str) -> ThreadRun {
    ThreadRun {
        id: run_id(id),
        session: session_id(session),
        parent: None,
        created: Time(9),
        started: None,
        finished: None,
        label: None,
        input: None,
        usage: None,
    }
}

/// Events that a run has told.
pub fn events(texts: &[&str]) -> Vec<Arc<str>> {
    texts.iter().map(|text| Arc::from(*text)).collect()
}

/// The calls of a page, without their numbers.
pub fn calls_of(page: Page<(u64, Arc<FinishedCall>)>) -> Vec<Arc<FinishedCall>> {
    page.items.into_iter().map(|(_, call)| call).collect()
}

/// All that a store must keep of a finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenCall {
    ids: [String; 4],
    tool: (String, String, String),
    effect: Effect,
    input: String,
    timeout: Duration,
    created: SystemTime,
    deadline: SystemTime,
    attempt: (u32, bool, Option<String>),
    from: (Origin, Option<String>),
    phases: Phases,
    outcome: String,
}

/// A finished call, to be compared.
pub fn seen_call(call: &FinishedCall) -> SeenCall {
    let head = &call.head;
    let tool = &head.tool;
    SeenCall {
        ids: [head.request.to_string(), head.session.to_string(), head.message.to_string(), head.call.to_string()],
        tool: (tool.id.to_string(), tool.client.to_string(), tool.spec.name.to_string()),
        effect: tool.spec.effect,
        input: head.input.get().to_owned(),
        timeout: head.timeout,
        created: head.created,
        deadline: head.deadline,
        attempt: (call.attempt, call.may_have_run, call.ask.as_ref().map(ToString::to_string)),
        from: (head.origin, head.connection.as_ref().map(ToString::to_string)),
        phases: call.phases,
        outcome: format!("{:?} {:?} {:?}", call.outcome, call.claimant, call.late),
    }
}

/// Finished calls, to be compared.
pub fn seen_calls(calls: &[Arc<FinishedCall>]) -> Vec<SeenCall> {
    calls.iter().map(|call| seen_call(call)).collect()
}

/// A session, to be compared: every field, and raw JSON as it is.
pub fn seen_session(session: &Session) -> String {
    serde_json::to_string(session).unwrap()
}

/// Sessions, to be compared.
pub fn seen_sessions(sessions: &[Arc<Session>]) -> Vec<String> {
    sessions.iter().map(|session| seen_session(session)).collect()
}

/// A message, to be compared: every field and part, and raw JSON as it is.
pub fn seen_message(message: &Message) -> String {
    serde_json::to_string(message).unwrap()
}

/// Messages, to be compared.
pub fn seen_messages(messages: &[Arc<Message>]) -> Vec<String> {
    messages.iter().map(|message| seen_message(message)).collect()
}

/// A run, to be compared: every field, and raw JSON as it is.
pub fn seen_run(run: &ThreadRun) -> String {
    serde_json::to_string(run).unwrap()
}

/// Runs, to be compared.
pub fn seen_runs(runs: &[Arc<ThreadRun>]) -> Vec<String> {
    runs.iter().map(|run| seen_run(run)).collect()
}

/// Events, to be compared.
pub fn texts(events: &[Arc<str>]) -> Vec<String> {
    events.iter().map(|event| event.to_string()).collect()
}
