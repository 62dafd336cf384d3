//! A model that says what the test tells it, when the test tells it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use futures_util::stream;
use handback_core::sessions::{Model, ModelEvent, ModelRequest, ModelStream};
use handback_core::store::{Message, PartBody, Role, StopReason, ToolPart, ToolState, TurnError};
use handback_server::app::Extensions;
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::timeout;

use crate::server::PATIENCE;

/// What the provider of the fake model is called.
pub const PROVIDER: &str = "fake";
/// The fake model, as configuration names it.
pub const MODEL: &str = "fake/one";

/// A piece of what a model says, or how it fails.
pub type Piece = Result<ModelEvent, TurnError>;

/// What a model was shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The model's name at its provider.
    pub model: String,
    /// Instructions.
    pub system: Option<String>,
    /// Every message, one line each.
    pub conversation: Vec<String>,
    /// What came of the calls of the last step, in the model's order.
    pub results: Vec<String>,
    /// The tools: `alias`, `id`, `name`, `description` and `schema` of each.
    pub tools: Vec<Value>,
}

impl Shown {
    /// The names that the tools are called by.
    pub fn aliases(&self) -> Vec<&str> {
        self.tools.iter().filter_map(|tool| tool["alias"].as_str()).collect()
    }
}

/// A model whose every step is either written down beforehand or spoken by the test, piece by piece.
#[derive(Clone)]
pub struct FakeModel(Arc<Inner>);

struct Inner {
    script: Mutex<VecDeque<Vec<Piece>>>,
    shown: Mutex<Vec<Shown>>,
    // Unbounded: a test has as many steps as it has, and none is left out.
    asks: UnboundedSender<Asked>,
    asked: tokio::sync::Mutex<UnboundedReceiver<Asked>>,
}

impl Default for FakeModel {
    fn default() -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        Self(Arc::new(Inner { script: Mutex::default(), shown: Mutex::default(), asks, asked: asked.into() }))
    }
}

impl FakeModel {
    /// What a server needs to have this model.
    pub fn extensions(&self) -> Extensions {
        Extensions { models: vec![(PROVIDER.to_owned(), Arc::new(self.clone()))], ..Extensions::default() }
    }

    /// The next step that nobody has written down yet is this.
    pub fn will(&self, pieces: Vec<Piece>) {
        self.0.script.lock().unwrap().push_back(pieces);
    }

    /// The next step is a text.
    pub fn will_say(&self, text: &str) {
        self.will(said(text));
    }

    /// The next step is these calls, each a tool and its arguments.
    pub fn will_call(&self, calls: &[(&str, Value)]) {
        let written: Vec<(&str, String)> = calls.iter().map(|(name, input)| (*name, input.to_string())).collect();
        self.will(called(&written));
    }

    /// Waits until the model is asked for a step that is not written down.
    pub async fn asked(&self) -> Asked {
        let asked = async { self.0.asked.lock().await.recv().await };
        timeout(PATIENCE, asked).await.expect("the model is asked in time").expect("the model is there")
    }

    /// All that the model was shown so far.
    pub fn shown(&self) -> Vec<Shown> {
        self.0.shown.lock().unwrap().clone()
    }

    /// What the model was shown last.
    pub fn last_shown(&self) -> Shown {
        self.shown().pop().expect("the model was asked")
    }
}

impl Model for FakeModel {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let shown = shown(&request);
        self.0.shown.lock().unwrap().push(shown.clone());
        if let Some(step) = self.0.script.lock().unwrap().pop_front() {
            return Box::pin(stream::iter(step));
        }
        let (speak, hear) = mpsc::unbounded_channel();
        _ = self.0.asks.send(Asked { shown, speak });
        Box::pin(stream::unfold(hear, async |mut hear| Some((hear.recv().await?, hear))))
    }
}

/// A step that the test speaks. Dropping it cuts the model's answer off.
pub struct Asked {
    /// What the model was shown.
    pub shown: Shown,
    speak: UnboundedSender<Piece>,
}

impl Asked {
    /// Says a piece.
    pub fn say(&self, event: ModelEvent) {
        // A turn that was stopped does not listen any more.
        _ = self.speak.send(Ok(event));
    }

    /// Says a text, and is done.
    pub fn answer(self, text: &str) {
        said(text).into_iter().for_each(|piece| _ = self.speak.send(piece));
    }

    /// Wants calls, each a tool and its arguments.
    pub fn call(self, calls: &[(&str, Value)]) {
        let written: Vec<(&str, String)> = calls.iter().map(|(name, input)| (*name, input.to_string())).collect();
        called(&written).into_iter().for_each(|piece| _ = self.speak.send(piece));
    }

    /// Fails.
    pub fn fail(self, error: TurnError) {
        _ = self.speak.send(Err(error));
    }

    /// Waits until nobody listens to the model any more.
    pub async fn dropped(&self) {
        timeout(PATIENCE, self.speak.closed()).await.expect("the model's stream is dropped in time");
    }
}

/// A step that is a text.
pub fn said(text: &str) -> Vec<Piece> {
    vec![Ok(ModelEvent::Text(text.to_owned())), Ok(ModelEvent::Stop(StopReason::Stop))]
}

/// A step that is calls, each a tool and its arguments as written; these come in two pieces.
pub fn called(calls: &[(&str, String)]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let (id, name) = (format!("provider_{index}"), (*name).to_owned());
        pieces.push(Ok(ModelEvent::CallStarted { index, id, name }));
        let (first, rest) = arguments.split_at(arguments.floor_char_boundary(arguments.len() / 2));
        for delta in [first, rest] {
            pieces.push(Ok(ModelEvent::Arguments { index, delta: delta.to_owned() }));
        }
        pieces.push(Ok(ModelEvent::CallEnded { index, kept: None }));
    }
    pieces.push(Ok(ModelEvent::Stop(StopReason::ToolCalls)));
    pieces
}

fn shown(request: &ModelRequest<'_>) -> Shown {
    let results = request.messages.last().into_iter().flat_map(|message| &message.parts);
    let results = results.filter_map(|part| match &part.body {
        PartBody::Tool(tool) => Some(tool.result_for_model(request.most_output).0),
        _ => None,
    });
    let tools = request.tools.iter().map(|tool| {
        let schema: Value = serde_json::from_str(tool.schema.get()).expect("a schema is JSON");
        let description = tool.description;
        json!({ "alias": tool.alias, "id": tool.id, "name": tool.name, "description": description, "schema": schema })
    });
    Shown {
        model: request.model.to_owned(),
        system: request.system.map(str::to_owned),
        conversation: request.earlier.iter().chain(request.messages).map(|message| line(message)).collect(),
        results: results.collect(),
        tools: tools.collect(),
    }
}

/// A message in one line.
fn line(message: &Message) -> String {
    let who = match &message.role {
        Role::User(_) => "user",
        Role::Assistant(_) => "assistant",
    };
    let parts = message.parts.iter().filter_map(|part| match &part.body {
        PartBody::Text { text, .. } => Some(text.clone()),
        PartBody::Reasoning { text, .. } => Some(format!("({text})")),
        PartBody::File(file) => Some(format!("[{}]", file.mime)),
        PartBody::Tool(tool) => Some(call_line(tool)),
        PartBody::StepStart | PartBody::StepFinish { .. } => None,
    });
    [who.to_owned()].into_iter().chain(parts).collect::<Vec<_>>().join(" | ")
}

fn call_line(tool: &ToolPart) -> String {
    let (result, failed) = tool.result_for_model(usize::MAX);
    let sign = match (&tool.state, failed) {
        (ToolState::Done { .. }, false) => "→",
        _ => "✗",
    };
    let files: Vec<String> = tool.attachments().iter().map(|file| format!(" [{}]", file.mime)).collect();
    format!("{} {} {sign} {result}{}", tool.alias, tool.arguments(), files.concat())
}
