//! From the wire to the core.

use std::collections::HashSet;
use std::sync::Arc;

use handback_core::Hub;
use handback_core::call::Attachment;
use handback_core::clock::Time;
use handback_core::id::{CallId, ClientId, MessageId, PermissionId, SessionId};
use handback_core::message::{
    AssistantMessage, Message, ModelRef, Part, PartBody, Role, Session, Span, StopReason, ToolPart, ToolResult,
    ToolState, Usage, UserMessage,
};
use handback_core::permission::{Answer, Reply};
use handback_core::schema::{depth, one_line};
use handback_core::tool::ToolSpec;
use handback_wire::chat as wire;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::api::must_fit;
use crate::api::page::{self, PageTool};
use crate::app::App;
use crate::body::{Payload, parse};
use crate::problem::Problem;

/// Messages of a conversation that a page may send along.
const MESSAGES: usize = 10_000;

/// What a page wants.
pub(super) struct Chat {
    pub(super) session: SessionId,
    pub(super) client: Option<ClientId>,
    pub(super) model: Option<ModelRef>,
    pub(super) agent: Option<String>,
    /// The client's connection that it comes from.
    pub(super) connection: Option<String>,
    pub(super) page_tools: Vec<Arc<ToolSpec>>,
    pub(super) yields_asks: bool,
    /// The conversation before what is new.
    pub(super) history: History,
    pub(super) new: New,
}

/// An earlier conversation, as far as one looks at it each time.
pub(super) struct History {
    messages: Arc<[Box<RawValue>]>,
    /// Its first message.
    pub(super) first: Option<MessageId>,
    /// Whether a user has said anything.
    pub(super) has_user: bool,
}

/// What is new in a conversation.
pub(super) enum New {
    /// The user says something.
    Prompt {
        message: Option<MessageId>,
        parts: Vec<PartBody>,
        /// Whether what was answered to it before is to be forgotten.
        anew: bool,
    },
    /// The page says what came of calls, or what the user said to questions.
    GoOn {
        /// The assistant's message that goes on.
        message: wire::UiMessage,
        results: Vec<(CallId, ToolResult)>,
        answers: Vec<(PermissionId, Answer)>,
    },
}

/// Takes a request apart; an error says what is wrong with it.
pub(super) async fn chat(app: &App, payload: &Payload) -> Result<Chat, Problem> {
    let hub = app.hub().clone();
    let (chat, tools) = payload.read(app, move |text| taken_apart(&hub, text)).await?;
    Ok(Chat { page_tools: page_tools(app.hub(), tools).await?, ..chat })
}

/// All but the tools.
fn taken_apart(hub: &Hub, text: &str) -> Result<(Chat, Vec<wire::PageTool>), Problem> {
    let request: wire::ChatRequest = parse(text)?;
    if request.id.is_empty() {
        return Err(Problem::invalid("`id` is missing: it names the chat"));
    }
    let mut messages = request.messages;
    if messages.len() > MESSAGES {
        return Err(Problem::invalid(format!(
            "`messages` has {} entries; at most {MESSAGES} are allowed",
            messages.len()
        )));
    }
    let is_regenerated = match request.trigger.as_deref() {
        None | Some("submit-message") => false,
        Some("regenerate-message") => true,
        Some(_) => return Err(Problem::invalid("`trigger` must be submit-message or regenerate-message")),
    };
    let Some(last) = messages.pop() else {
        return Err(Problem::invalid("`messages` is empty: the last one is what is to be answered"));
    };
    let last = message(hub, &last, messages.len())?;
    let new = match last.role.as_str() {
        "user" => prompt(last, hub.clock().time(), is_regenerated || request.message_id.is_some())?,
        "assistant" => go_on(last)?,
        _ => return Err(Problem::invalid("the last of `messages` must be the user's or the assistant's")),
    };
    let chat = Chat {
        session: SessionId::parse(&request.id)?,
        client: request.client_id.as_deref().map(ClientId::parse).transpose()?,
        model: request.model.as_deref().map(ModelRef::parse).transpose()?,
        agent: request.agent,
        connection: request.connection,
        page_tools: Vec::new(),
        yields_asks: request.approvals == Some(wire::Approvals::Yield),
        history: history(messages)?,
        new,
    };
    Ok((chat, request.tools.unwrap_or_default()))
}

/// Reads the message at a place, if it has not too many parts, nor calls whose input or output is nested too deep.
fn message(hub: &Hub, json: &RawValue, place: usize) -> Result<wire::UiMessage, Problem> {
    let message: wire::UiMessage = read(json, place)?;
    // Each step of an answer is a message of its own in the session.
    let steps = message.parts.split(|part| part.kind == "step-start" && message.role != "user");
    must_fit(hub, steps.map(<[_]>::len).max().unwrap_or_default())?;
    let deepest = hub.limits().input_depth;
    let is_deep = |json: &RawValue| depth(json.get()) > deepest;
    if message
        .parts
        .iter()
        .any(|part| part.input.as_deref().is_some_and(is_deep) || part.output.as_deref().is_some_and(is_deep))
    {
        return Err(Problem::invalid(format!("the input or output of a call is nested more than {deepest} deep")));
    }
    Ok(message)
}

fn read<T: for<'de> Deserialize<'de>>(json: &RawValue, place: usize) -> Result<T, Problem> {
    // serde would take a list of an object's values as well.
    if !json.get().starts_with('{') {
        return Err(Problem::invalid(format!("`messages[{place}]` must be an object")));
    }
    serde_json::from_str(json.get()).map_err(|error| Problem::invalid(format!("`messages[{place}]`: {error}")))
}

fn history(messages: Vec<Box<RawValue>>) -> Result<History, Problem> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        id: String,
        #[serde(default)]
        role: String,
    }
    let (mut first, mut has_user) = (None, false);
    for (place, message) in messages.iter().enumerate() {
        let Head { id, role } = read(message, place)?;
        let id = MessageId::parse(&id)?;
        first.get_or_insert(id);
        has_user |= role == "user";
    }
    Ok(History { messages: messages.into(), first, has_user })
}

fn prompt(message: wire::UiMessage, now: Time, anew: bool) -> Result<New, Problem> {
    let parts: Vec<PartBody> = message.parts.into_iter().filter_map(|part| said(part, now)).collect();
    let says_something = parts.iter().any(|part| match part {
        PartBody::Text { text, .. } => !text.trim().is_empty(),
        _ => true,
    });
    if !says_something {
        return Err(Problem::invalid("the user's message says nothing: it needs a text or a file among its `parts`"));
    }
    let message = Some(message.id).filter(|id| !id.is_empty()).map(|id| MessageId::parse(&id)).transpose()?;
    Ok(New::Prompt { message, parts, anew })
}

/// What a user says; what is neither text nor file is the page's own.
fn said(part: wire::UiPart, now: Time) -> Option<PartBody> {
    match part.kind.as_str() {
        "text" => Some(PartBody::Text { text: part.text?, span: Span { start: now, end: Some(now) } }),
        "file" => {
            let mime = part.media_type.unwrap_or_else(|| "application/octet-stream".to_owned());
            Some(PartBody::File(Attachment { mime, filename: part.filename, url: part.url? }))
        }
        _ => None,
    }
}

fn go_on(message: wire::UiMessage) -> Result<New, Problem> {
    let (mut results, mut answers) = (Vec::new(), Vec::new());
    for part in &message.parts {
        let Some(call) = part.tool_call_id.as_deref() else { continue };
        if let Some(result) = result(part) {
            results.push((CallId::parse(call)?, result));
        }
        if let Some(wire::UiApproval { id, approved: Some(approved), reason }) = &part.approval {
            let reply = if *approved { Reply::Once } else { Reply::Reject };
            answers.push((PermissionId::parse(id)?, Answer { reply, input: None, message: reason.clone() }));
        }
    }
    Ok(New::GoOn { message, results, answers })
}

/// What a page says came of a call, if it says so.
fn result(part: &wire::UiPart) -> Option<ToolResult> {
    match part.state.as_deref()? {
        "output-available" => {
            let output = part.output.clone().map_or_else(null, one_line);
            Some(ToolResult::Given { output, error: None })
        }
        "output-error" => {
            let error = part.error_text.clone().unwrap_or_else(|| "The page failed and does not say why".to_owned());
            Some(ToolResult::Failed(error))
        }
        _ => None,
    }
}

fn null() -> Box<RawValue> {
    to_raw_value(&()).unwrap_or_default()
}

async fn page_tools(hub: &Hub, tools: Vec<wire::PageTool>) -> Result<Vec<Arc<ToolSpec>>, Problem> {
    let tool = |wire::PageTool { name, description, parameters }| {
        let description = description.unwrap_or_default();
        PageTool { name, description, parameters }
    };
    page::tools(hub, tools.into_iter().map(tool).collect()).await
}

impl History {
    /// All of it; an error says which message is wrong.
    pub(super) async fn read(&self, hub: &Hub) -> Result<Vec<wire::UiMessage>, Problem> {
        let reader = hub.clone();
        page::read_all(hub, &self.messages, move |json, place| message(&reader, json, place)).await
    }
}

/// An earlier conversation, which only the page knows of, as messages of a session.
pub(super) fn earlier(hub: &Hub, session: &Session, model: &ModelRef, page: Vec<wire::UiMessage>) -> Vec<Message> {
    let (clock, mut messages) = (hub.clock(), Vec::<Message>::new());
    let now = clock.time();
    let agent = session.agent.clone().unwrap_or_else(|| "default".into());
    let part = |body| Arc::new(Part { id: clock.part_id(), body });
    let id = |id: &str| match MessageId::parse(id) {
        Ok(id) if !id.as_str().is_empty() => id,
        _ => clock.message_id(),
    };
    let mut asked = None;
    for message in page {
        if message.role == "user" {
            let user = id(&message.id);
            asked = Some(user.clone());
            messages.push(Message {
                id: user,
                session: session.id.clone(),
                created: now,
                role: Role::User(UserMessage {
                    agent: agent.clone(),
                    model: model.clone(),
                    system: None,
                    tools: Default::default(),
                    wants_reply: true,
                    connection: None,
                }),
                parts: message.parts.into_iter().filter_map(|part| said(part, now)).map(part).collect(),
            });
        } else if let (Some(parent), "assistant") = (&asked, message.role.as_str()) {
            let mut first = Some(id(&message.id));
            for step in message.parts.split(|part| part.kind == "step-start").filter(|step| !step.is_empty()) {
                let parts: Vec<PartBody> = step.iter().filter_map(|said| answered(hub, said, now)).collect();
                messages.push(Message {
                    id: first.take().unwrap_or_else(|| clock.message_id()),
                    session: session.id.clone(),
                    created: now,
                    role: Role::Assistant(AssistantMessage {
                        parent: parent.clone(),
                        agent: agent.clone(),
                        model: model.clone(),
                        completed: Some(now),
                        finish: Some(StopReason::Other),
                        usage: Usage::default(),
                        error: None,
                        kept: None,
                    }),
                    parts: parts.into_iter().map(part).collect(),
                });
            }
        }
    }
    let answered: HashSet<MessageId> = messages.iter().filter_map(|message| message.answers().cloned()).collect();
    for message in &mut messages {
        if let Role::User(said) = &mut message.role {
            // What was not answered then is not to be answered now.
            said.wants_reply = answered.contains(&message.id);
        }
    }
    messages
}

/// What an assistant said, in an earlier conversation.
fn answered(hub: &Hub, part: &wire::UiPart, now: Time) -> Option<PartBody> {
    let span = Span { start: now, end: Some(now) };
    if part.kind == "text" {
        return Some(PartBody::Text { text: part.text.clone()?, span });
    }
    let name = part.kind.strip_prefix("tool-").or(part.tool_name.as_deref())?;
    let call = part.tool_call_id.as_deref().and_then(|id| CallId::parse(id).ok());
    let call = call.filter(|id| !id.as_str().is_empty()).unwrap_or_else(|| hub.clock().call_id());
    let result =
        result(part).unwrap_or_else(|| ToolResult::Failed("It is not known what came of this call".to_owned()));
    let input = part.input.clone().filter(|input| input.get().starts_with('{'));
    let input = input.map_or_else(|| to_raw_value(&serde_json::Map::new()).unwrap_or_default(), one_line);
    Some(PartBody::Tool(ToolPart {
        provider_call: call.to_string(),
        call,
        alias: name.into(),
        tool: name.into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state: ToolState::Done { input, start: now, end: now, result },
    }))
}
