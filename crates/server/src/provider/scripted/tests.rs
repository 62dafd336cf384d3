//! The model through its one door: a conversation and tools in, events out.

mod answers;
mod any;
mod lines;
mod prompts;

use std::sync::Arc;

use futures_util::{FutureExt, StreamExt};
use handback_core::clock::Time;
use handback_core::id::{CallId, MessageId, PartId, SessionId};
use handback_core::sessions::{Model, ModelEvent, ModelRequest};
use handback_core::store::{
    AssistantMessage, Attachment, Message, ModelRef, Part, PartBody, Role, Span, StopReason, ToolPart, ToolResult,
    ToolState, TurnError, Usage, UserMessage,
};
use handback_core::tools::ModelTool;
use serde_json::value::RawValue;

use super::{MODEL, Scripted};

/// A tool to offer.
#[derive(Debug, Clone)]
struct Offered {
    id: String,
    alias: String,
    name: String,
    description: String,
    schema: Box<RawValue>,
}

/// A tool of the client "laptop".
fn tool(name: &str, description: &str, schema: &str) -> Offered {
    let id = format!("client_laptop_{name}");
    Offered {
        alias: id.replace(['.', ':', '@'], "_"),
        id,
        name: name.to_owned(),
        description: description.to_owned(),
        schema: raw(schema),
    }
}

/// A tool of the client "laptop" with such properties, of which those with a `!` are required.
fn tool_with(name: &str, description: &str, properties: &[(&str, &str)]) -> Offered {
    let plain = |name: &str| format!("{:?}", name.trim_end_matches('!'));
    let required: Vec<String> =
        properties.iter().filter(|(name, _)| name.ends_with('!')).map(|(name, _)| plain(name)).collect();
    let properties: Vec<String> = properties.iter().map(|(name, schema)| format!("{}:{schema}", plain(name))).collect();
    let schema =
        format!(r#"{{"type":"object","properties":{{{}}},"required":[{}]}}"#, properties.join(","), required.join(","));
    tool(name, description, &schema)
}

/// The server's own tool, which is always there.
fn list_tools() -> Offered {
    Offered {
        id: "list_tools".to_owned(),
        alias: "list_tools".to_owned(),
        name: "list_tools".to_owned(),
        description: "Discover the tools that can be called in this session: names, descriptions, parameters"
            .to_owned(),
        schema: raw(r#"{"type":"object","properties":{"query":{"type":"string"}}}"#),
    }
}

fn raw(json: &str) -> Box<RawValue> {
    RawValue::from_string(json.to_owned()).unwrap()
}

fn message(role: Role, bodies: Vec<PartBody>) -> Arc<Message> {
    let part = |body| Arc::new(Part { id: PartId::parse("part").unwrap(), body });
    Arc::new(Message {
        id: MessageId::parse("message").unwrap(),
        session: SessionId::parse("session").unwrap(),
        created: Time(0),
        role,
        parts: bodies.into_iter().map(part).collect(),
    })
}

fn model() -> ModelRef {
    ModelRef::parse("demo/scripted").unwrap()
}

fn user_with(bodies: Vec<PartBody>) -> Arc<Message> {
    let user = UserMessage::new("default", model());
    message(Role::User(user), bodies)
}

fn user(text: &str) -> Arc<Message> {
    user_with(vec![said(text)])
}

fn assistant(bodies: Vec<PartBody>) -> Arc<Message> {
    let assistant = AssistantMessage {
        parent: MessageId::parse("message").unwrap(),
        agent: "default".into(),
        model: model(),
        completed: None,
        finish: None,
        usage: Usage::default(),
        error: None,
        kept: None,
    };
    message(Role::Assistant(assistant), bodies)
}

fn said(text: &str) -> PartBody {
    PartBody::Text { text: text.to_owned(), span: Span { start: Time(0), end: Some(Time(0)) } }
}

fn file(filename: Option<&str>, mime: &str) -> Attachment {
    Attachment { mime: mime.to_owned(), filename: filename.map(str::to_owned), url: "data:,".to_owned() }
}

fn called(alias: &str, state: ToolState) -> PartBody {
    PartBody::Tool(ToolPart {
        call: CallId::parse("call").unwrap(),
        provider_call: "scripted_1_1".to_owned(),
        alias: alias.into(),
        tool: alias.into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state,
    })
}

fn done(alias: &str, result: ToolResult) -> PartBody {
    called(alias, ToolState::Done { input: raw("{}"), start: Time(0), end: Time(0), result })
}

fn completed(alias: &str, output: &str, attachments: Vec<Attachment>) -> PartBody {
    let (title, output) = ("A title".to_owned(), output.to_owned());
    done(alias, ToolResult::Completed { title, output, metadata: None, attachments })
}

fn failed(alias: &str, error: &str) -> PartBody {
    done(alias, ToolResult::Failed(error.to_owned()))
}

fn model_tools(tools: &[Offered]) -> Vec<ModelTool<'_>> {
    let borrowed = tools.iter().map(|Offered { alias, id, name, description, schema }| ModelTool {
        alias,
        id,
        name,
        description,
        schema,
    });
    borrowed.collect()
}

/// All that the model of this name streams.
fn events_of(model: &str, messages: &[Arc<Message>], tools: &[Offered]) -> Vec<Result<ModelEvent, TurnError>> {
    let tools = model_tools(tools);
    let request = ModelRequest {
        model,
        session: &SessionId::parse("session").unwrap(),
        system: None,
        earlier: &[],
        messages,
        tools: &tools,
        most_output: 100_000,
    };
    // It never waits: all of it is there at once.
    Scripted.stream(request).collect::<Vec<_>>().now_or_never().unwrap()
}

/// All that it streams.
fn events(messages: &[Arc<Message>], tools: &[Offered]) -> Vec<ModelEvent> {
    events_of(MODEL, messages, tools).into_iter().map(Result::unwrap).collect()
}

/// What a stream says when it is put together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Said {
    text: String,
    /// Ids, names and arguments.
    calls: Vec<(String, String, String)>,
}

impl Said {
    fn text(text: &str) -> Self {
        Self { text: text.to_owned(), calls: Vec::new() }
    }

    /// One call in answer to the first message, by the alias of the client's tool.
    fn call(name: &str, arguments: &str) -> Self {
        Self::calls(&[(&format!("client_laptop_{name}"), arguments)])
    }

    fn calls(calls: &[(&str, &str)]) -> Self {
        let call = |(index, (name, arguments)): (usize, &(&str, &str))| {
            (format!("scripted_1_{}", index + 1), (*name).to_owned(), (*arguments).to_owned())
        };
        Self { text: String::new(), calls: calls.iter().enumerate().map(call).collect() }
    }
}

/// Puts a stream together, and checks that it is one: calls begin, go on and end, usage comes, a stop ends it.
fn put_together(events: Vec<ModelEvent>) -> Said {
    let mut said = Said::default();
    let mut ended = Vec::new();
    let mut events = events.into_iter().peekable();
    while let Some(event) = events.next_if(|event| !matches!(event, ModelEvent::Usage(_))) {
        match event {
            ModelEvent::Text(text) => {
                assert!(!text.is_empty());
                said.text.push_str(&text);
            }
            ModelEvent::CallStarted { index, id, name } => {
                assert_eq!((index, ended.len()), (said.calls.len(), said.calls.len()));
                said.calls.push((id, name, String::new()));
            }
            ModelEvent::Arguments { index, delta } => {
                assert_eq!(index + 1, said.calls.len());
                assert!(!delta.is_empty());
                said.calls[index].2.push_str(&delta);
            }
            ModelEvent::CallEnded { index, kept: None } => ended.push(index),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ended, (0..said.calls.len()).collect::<Vec<_>>());
    let reason = if said.calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
    let end: Vec<_> = events.collect();
    let [ModelEvent::Usage(usage), stop] = &end[..] else { panic!("{end:?}") };
    assert_eq!(*stop, ModelEvent::Stop(reason));
    let written =
        said.text.len() + said.calls.iter().map(|(_, name, arguments)| name.len() + arguments.len()).sum::<usize>();
    assert_eq!(*usage, Usage { input: usage.input, output: written.div_ceil(4) as u64, ..Usage::default() });
    said
}

/// What it says to a conversation.
fn answer(messages: &[Arc<Message>], tools: &[Offered]) -> Said {
    put_together(events(messages, tools))
}

/// What it says to somebody who says this and nothing else.
fn answer_to(text: &str, tools: &[Offered]) -> Said {
    answer(&[user(text)], tools)
}
