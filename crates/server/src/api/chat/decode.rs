//! From the wire to the core.

use std::collections::HashSet;

use handback_core::Hub;
use handback_core::clock::Time;
use handback_core::id::{CallId, ClientId, ConnectionName, MessageId, PermissionId, SessionId};
use handback_core::schema::{depth, one_line};
use handback_core::sessions::{Earlier, PageRequest, Said};
use handback_core::store::{Answer, Attachment, ModelRef, PartBody, Reply, Span, ToolResult, TurnNeeds};
use handback_wire::chat as wire;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::api::conversation::{self, EarlierMessages, PageInput, read};
use crate::api::must_fit;
use crate::app::App;
use crate::body::{Payload, parse};
use crate::problem::Problem;

/// The decoded request of a page.
pub(super) struct Chat {
    pub(super) page: PageInput,
    /// Whether the stream ends when only asks are open.
    pub(super) yields_asks: bool,
    /// The page's id of the message that continues.
    pub(super) message: Option<String>,
}

/// Decodes a request; an error says what is wrong with it.
pub(super) async fn chat(app: &App, payload: &Payload) -> Result<Chat, Problem> {
    let own_app = app.clone();
    let (mut chat, tools) = payload.read(app, move |text| decode_without_tools(&own_app, text)).await?;
    let tools = tools.into_iter().map(|tool| (tool.name, tool.description.unwrap_or_default(), tool.parameters));
    chat.page.request.needs.page_tools = conversation::page_tools(app.hub(), tools).await?;
    Ok(chat)
}

/// Decodes everything but the tools.
fn decode_without_tools(app: &App, text: &str) -> Result<(Chat, Vec<wire::PageTool>), Problem> {
    let request: wire::ChatRequest = parse(text)?;
    if request.id.is_empty() {
        return Err(Problem::invalid("`id` is missing: it names the chat"));
    }
    let mut messages = request.messages;
    conversation::must_be_few(&messages)?;
    let is_regenerated = match request.trigger.as_deref() {
        None | Some("submit-message") => false,
        Some("regenerate-message") => true,
        Some(_) => return Err(Problem::invalid("`trigger` must be submit-message or regenerate-message")),
    };
    let Some(last) = messages.pop() else {
        return Err(Problem::invalid("`messages` is empty: the last one is what is to be answered"));
    };
    let last = message(app.hub(), &last, messages.len())?;
    let needs = TurnNeeds {
        client: request.client_id.as_deref().map(ClientId::parse).transpose()?,
        connection: request.connection.as_deref().and_then(|name| ConnectionName::parse(name).ok()),
        model: request.model.as_deref().map(ModelRef::parse).transpose()?,
        ..TurnNeeds::default()
    };
    let mut page = PageRequest {
        agent: request.agent.map(Into::into),
        replaces: is_regenerated || request.message_id.is_some(),
        has_new_results: true,
        shown: Some(HashSet::default()),
        needs,
        ..PageRequest::default()
    };
    let name = Some(last.id.clone()).filter(|id| !id.is_empty());
    let continued = match last.role.as_str() {
        "user" => {
            page.said.push(prompt(last, app.hub().clock().time())?);
            None
        }
        "assistant" => {
            read_continuation(&mut page, &last)?;
            Some(last)
        }
        _ => return Err(Problem::invalid("the last of `messages` must be the user's or the assistant's")),
    };
    let is_continued = continued.is_some();
    let (session, history) = (SessionId::parse(&request.id)?, history(messages, continued)?);
    let page = PageInput { session, history, request: page };
    let yields_asks = request.approvals == Some(wire::Approvals::Yield);
    let chat = Chat { page, yields_asks, message: name.filter(|_| is_continued) };
    Ok((chat, request.tools.unwrap_or_default()))
}

/// Parses the message at an index, and refuses too many parts or calls with input or output nested too deep.
fn message(hub: &Hub, json: &RawValue, place: usize) -> Result<wire::UiMessage, Problem> {
    let message: wire::UiMessage = read(json, place)?;
    // In the session each step of an answer is its own message.
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

/// The conversation before what is new, including the answer that continues.
fn history(messages: Vec<Box<RawValue>>, continued: Option<wire::UiMessage>) -> Result<EarlierMessages, Problem> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(default)]
        id: String,
    }
    let mut first = None;
    for (place, message) in messages.iter().enumerate() {
        let Head { id } = read(message, place)?;
        let id = MessageId::parse(&id)?;
        first.get_or_insert(id);
    }
    let (is_empty, bytes) = (messages.is_empty(), conversation::bytes(&messages));
    let read = move |app: &App| {
        let read = messages.iter().enumerate().map(|(place, json)| message(app.hub(), json, place));
        let messages: Vec<_> = read.collect::<Result<_, _>>()?;
        Ok(messages.into_iter().chain(continued).flat_map(|message| earlier(app, message)).collect())
    };
    Ok(EarlierMessages { first, is_empty, bytes, read: Box::new(read) })
}

fn prompt(message: wire::UiMessage, now: Time) -> Result<Said, Problem> {
    let parts: Vec<PartBody> = message.parts.into_iter().filter_map(|part| said(part, now)).collect();
    if !conversation::says_something(&parts) {
        return Err(Problem::invalid("the user's message says nothing: it needs a text or a file among its `parts`"));
    }
    let message = Some(message.id).filter(|id| !id.is_empty()).map(|id| MessageId::parse(&id)).transpose()?;
    Ok(Said { message, parts })
}

/// Decodes a part of a user's message. Parts other than text and files are the page's own.
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

/// Takes the results of calls and the answers to asks from an answer that continues.
fn read_continuation(page: &mut PageRequest, message: &wire::UiMessage) -> Result<(), Problem> {
    for part in &message.parts {
        let Some(call) = part.tool_call_id.as_deref() else { continue };
        let call = CallId::parse(call)?;
        if part.state.as_deref().is_some_and(|state| state.starts_with("output-")) {
            page.ended.insert(call.clone());
        }
        page.results.extend(result(part).map(|result| (call.clone(), result)));
        page.shown.get_or_insert_default().insert(call);
        if let Some(wire::UiApproval { id, approved: Some(approved), reason }) = &part.approval {
            let reply = if *approved { Reply::Once } else { Reply::Reject };
            page.answers.push((PermissionId::parse(id)?, Answer { reply, input: None, message: reason.clone() }));
        }
    }
    Ok(())
}

/// The result of a call in a part, if there is one.
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

/// Converts an earlier message; each step of an answer becomes its own message.
fn earlier(app: &App, message: wire::UiMessage) -> Vec<Earlier> {
    let now = app.hub().clock().time();
    let mut id = MessageId::parse(&message.id).ok();
    if message.role == "user" {
        let parts = message.parts.into_iter().filter_map(|part| said(part, now)).collect();
        return vec![Earlier::User(Said { message: id, parts })];
    }
    if message.role != "assistant" {
        return Vec::new();
    }
    let steps = message.parts.split(|part| part.kind == "step-start").filter(|step| !step.is_empty());
    let step = |step: &[wire::UiPart]| {
        let parts = step.iter().filter_map(|part| answered(app, part, now)).collect();
        Earlier::Step(Said { message: id.take(), parts })
    };
    steps.map(step).collect()
}

/// Converts a part of an earlier answer.
fn answered(app: &App, part: &wire::UiPart, now: Time) -> Option<PartBody> {
    if part.kind == "text" {
        return Some(PartBody::Text { text: part.text.clone()?, span: Span { start: now, end: Some(now) } });
    }
    let name = part.kind.strip_prefix("tool-").or(part.tool_name.as_deref())?;
    let call = part.tool_call_id.as_deref().and_then(|id| CallId::parse(id).ok());
    let call = call.filter(|id| !id.as_str().is_empty());
    Some(app.sessions().earlier_call(call, name, part.input.clone(), result(part)))
}
