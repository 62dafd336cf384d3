//! Both providers against an upstream whose every byte the tests write.

mod again;
mod failures;
mod fake;
mod quirks;
mod refusals;
mod requests;
mod splits;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use handback_core::clock::{Clock, Time};
use handback_core::id::SessionId;
use handback_core::sessions::{Model, ModelEvent, ModelRequest, ModelStream};
use handback_core::store::{
    AssistantMessage, Message, ModelRef, Part, PartBody, Role, Span, StopReason, TurnError, Usage, UserMessage,
};
use handback_core::tools::ModelTool;
use serde_json::value::RawValue;

use super::{Anthropic, OpenAi, RequestBounds, Settings};
use crate::config::Secret;
use fake::Fake;

const KEY: &str = "sk-test-0123456789";
const MODEL: &str = "some-model";
const TIME: Time = Time(1_767_225_600_000);
const SPAN: Span = Span { start: TIME, end: Some(TIME) };

/// The two wires.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wire {
    OpenAi,
    Anthropic,
}

const BOTH: [Wire; 2] = [Wire::OpenAi, Wire::Anthropic];

impl Wire {
    /// The name that the provider has in these tests.
    fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
        }
    }

    fn model(self, settings: Settings) -> Box<dyn Model> {
        match self {
            Self::OpenAi => Box::new(OpenAi::new(settings).unwrap()),
            Self::Anthropic => Box::new(Anthropic::new(settings).unwrap()),
        }
    }

    /// A small answer, frame by frame.
    fn frames(self) -> Vec<String> {
        let frames: &[&str] = match self {
            Self::OpenAi => &[
                r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"Hel"}}]}"#,
                r#"data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}"#,
                r#"data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#,
                "data: [DONE]",
            ],
            Self::Anthropic => &[
                r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}"#,
                r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}"#,
                r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
                r#"data: {"type":"message_stop"}"#,
            ],
        };
        frames.iter().map(|frame| format!("{frame}\n\n")).collect()
    }

    /// The small answer as one text.
    fn stream(self) -> String {
        self.frames().concat()
    }
}

/// What the small answer says.
fn hello() -> Vec<Result<ModelEvent, TurnError>> {
    vec![Ok(ModelEvent::Text("Hello".to_owned())), Ok(ModelEvent::Stop(StopReason::Stop))]
}

fn settings(wire: Wire, fake: &Fake) -> Settings {
    let bounds = RequestBounds {
        tries: 3,
        backoff: Duration::from_millis(2),
        first_byte: Duration::from_secs(10),
        stall: Duration::from_secs(10),
        ..RequestBounds::default()
    };
    Settings { api_key: Some(Secret::new(KEY.to_owned())), bounds, ..Settings::new(wire.name(), &fake.url) }
}

/// A question that is as short as can be.
fn ask(model: &dyn Model) -> ModelStream {
    let messages = [user(vec![text("hi")])];
    stream(model, &messages, &[])
}

fn stream(model: &dyn Model, messages: &[Arc<Message>], tools: &[ModelTool<'_>]) -> ModelStream {
    let session = SessionId::parse("ses_1").unwrap();
    let request = ModelRequest {
        model: MODEL,
        session: &session,
        system: Some("Be short."),
        earlier: &[],
        messages,
        tools,
        most_output: 40,
    };
    model.stream(request)
}

/// All of a stream, with pieces of the same kind put together. It has to come to an end.
async fn collect(stream: ModelStream) -> Vec<Result<ModelEvent, TurnError>> {
    let whole = stream.collect::<Vec<_>>();
    let events = tokio::time::timeout(Duration::from_secs(60), whole).await.expect("the stream ends");
    let mut joined: Vec<Result<ModelEvent, TurnError>> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(Ok(ModelEvent::Text(all))), Ok(ModelEvent::Text(more))) => all.push_str(&more),
            (Some(Ok(ModelEvent::Reasoning(all))), Ok(ModelEvent::Reasoning(more))) => all.push_str(&more),
            (
                Some(Ok(ModelEvent::Arguments { index, delta })),
                Ok(ModelEvent::Arguments { index: other, delta: more }),
            ) if *index == other => delta.push_str(&more),
            (_, event) => joined.push(event),
        }
    }
    joined
}

/// The error that a stream consists of.
async fn failure(stream: ModelStream) -> TurnError {
    match collect(stream).await.as_slice() {
        [Err(error)] => error.clone(),
        other => panic!("not just an error: {other:?}"),
    }
}

fn provider_error(message: &str, status: Option<u16>, retryable: bool) -> TurnError {
    TurnError::Provider { message: message.to_owned(), status, retryable }
}

fn message(role: Role, bodies: Vec<PartBody>) -> Arc<Message> {
    let clock = Clock::counting();
    let parts = bodies.into_iter().map(|body| Arc::new(Part { id: clock.part_id(), body })).collect();
    let session = SessionId::parse("ses_1").unwrap();
    Arc::new(Message { id: clock.message_id(), session, created: TIME, role, parts })
}

fn user(bodies: Vec<PartBody>) -> Arc<Message> {
    let model = ModelRef::new("openai", MODEL).unwrap();
    let about = UserMessage::new("default", model);
    message(Role::User(about), bodies)
}

fn assistant(provider: &str, error: Option<TurnError>, bodies: Vec<PartBody>) -> Arc<Message> {
    let about = AssistantMessage {
        parent: Clock::counting().message_id(),
        agent: "default".into(),
        model: ModelRef::new(provider, MODEL).unwrap(),
        completed: Some(TIME),
        finish: None,
        usage: Usage::default(),
        error,
        kept: None,
    };
    message(Role::Assistant(about), bodies)
}

fn text(text: &str) -> PartBody {
    PartBody::Text { text: text.to_owned(), span: SPAN }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}
