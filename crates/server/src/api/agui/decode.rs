//! From the wire to the core: finds what is new in the input of a run.

use std::collections::{HashMap, HashSet};

use handback_core::id::{CallId, ClientId, ConnectionName, MessageId, PermissionId, SessionId};
use handback_core::schema::{MOST_VALUES, values};
use handback_core::sessions::{Earlier, PageRequest, Said};
use handback_core::store::{Answer, Attachment, ModelRef, PartBody, Reply, Span, ToolResult, TurnNeeds};
use handback_core::{Hub, json};
use handback_wire::agui::{Content, Context, Message, Part, Resume, ResumeStatus, RunAgentInput, Source, speaks_1_0};
use handback_wire::error::ErrorCode;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::encode::RunHead;
use crate::api::conversation::{self, EarlierMessages, PageInput, read};
use crate::api::must_fit;
use crate::app::App;
use crate::body::{self, Payload};
use crate::problem::Problem;

/// Most answers to interrupts in one request; a step has no more calls than this.
const ANSWERS: usize = 4_096;
const LONGEST_RUN_ID: usize = 256;

/// The decoded input of a run.
pub(in crate::api) struct Input {
    pub(in crate::api) head: RunHead,
    pub(in crate::api) page: PageInput,
    /// The first answer to an interrupt that is invalid: the interrupt's id, and the reason.
    pub(super) bad_answer: Option<(String, String)>,
}

/// The members that are read of every message.
#[derive(Deserialize)]
struct MessageHead {
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    role: String,
}

/// The members of `forwardedProps` that are meant for this server.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Forwarded {
    #[serde(rename = "clientID", alias = "client_id")]
    client_id: Option<String>,
    model: Option<String>,
    /// A name. Other values are the application's own and are ignored.
    connection: Option<Value>,
}

/// Decodes the input of a run; an error says what is wrong with it.
pub(in crate::api) async fn input(app: &App, payload: &Payload) -> Result<Input, Problem> {
    let own_app = app.clone();
    let (mut input, tools) = payload.read(app, move |text| decode_without_tools(&own_app, text)).await?;
    let tools = tools.into_iter().map(|tool| (tool.name, tool.description, tool.parameters));
    input.page.request.needs.page_tools = conversation::page_tools(app.hub(), tools).await?;
    Ok(input)
}

/// Decodes the head of a stored run from its input, to send its events again.
pub(in crate::api) async fn head(app: &App, input: Box<RawValue>) -> Result<RunHead, Problem> {
    let (bytes, own_app) = (input.get().len(), app.clone());
    let head = app.hub().aside().run_for(bytes, move || {
        let (decoded, _) = decode_without_tools(&own_app, input.get())?;
        let sent = parse(input.get())?.messages;
        let messages = sent.iter().enumerate().map(|(place, json)| message(json, place)).collect::<Result<_, _>>()?;
        Ok(RunHead { messages, ..decoded.head })
    });
    head.await.unwrap_or_else(|| Err(Problem::interrupted()))
}

/// Decodes everything but the tools.
fn decode_without_tools(app: &App, text: &str) -> Result<(Input, Vec<handback_wire::agui::Tool>), Problem> {
    let (hub, input) = (app.hub(), parse(text)?);
    if input.thread_id.is_empty() {
        return Err(Problem::invalid("`threadId` is empty: it names the conversation"));
    }
    if input.run_id.is_empty() || input.run_id.len() > LONGEST_RUN_ID {
        return Err(Problem::invalid(format!("`runId` must have 1 to {LONGEST_RUN_ID} bytes")));
    }
    let (resume, tools) = (input.resume.unwrap_or_default(), input.tools);
    if resume.len() > ANSWERS {
        return Err(Problem::invalid(format!("`resume` has {} entries; at most {ANSWERS} are allowed", resume.len())));
    }
    let heads = heads(&input.messages)?;
    let known = heads.iter().rposition(|head| head.role == "assistant").map_or(0, |place| place + 1);
    let speaks = |head: &&MessageHead| matches!(head.role.as_str(), "user" | "assistant");
    let first = heads.iter().take(known).find(speaks).and_then(|head| head.id.as_deref());
    let first = first.filter(|id| !id.is_empty()).map(MessageId::parse).transpose()?;
    // Some front ends put a result right after its call, even if the answer goes on after the call.
    let turn = heads.iter().take(known).rposition(|head| head.role == "user").map_or(0, |place| place + 1);
    let has_new_results = heads.iter().skip(known).any(|head| head.role == "tool");
    let (mut results, mut said, mut instructions) = (Vec::new(), Vec::new(), Vec::new());
    for (place, (json, head)) in input.messages.iter().zip(&heads).enumerate() {
        let is_read = match head.role.as_str() {
            "system" | "developer" => true,
            "user" => place >= known,
            "tool" => place >= turn,
            _ => false,
        };
        if is_read {
            match message(json, place)? {
                Message::System { content, .. } | Message::Developer { content, .. } => instructions.push(content),
                Message::User { id, content, .. } => said.extend(self::said(hub, &id, content)?),
                Message::Tool { tool_call_id, content, error, .. } => {
                    results.push((CallId::parse(&tool_call_id)?, result(content, error)));
                }
                _ => return Err(misshapen(place, &head.role)),
            }
        }
    }
    instructions
        .extend(input.context.into_iter().map(|Context { description, value }| format!("{description}: {value}")));
    let forwarded = forwarded(input.forwarded_props)?;
    let (mut answers, mut bad_answer) = (Vec::new(), None);
    for resume in &resume {
        match answer(resume) {
            Ok(answer) => answers.push(answer),
            Err(reason) => _ = bad_answer.get_or_insert_with(|| (resume.interrupt_id.clone(), reason)),
        }
    }
    let has_hooks = !app.sessions().setup().hooks.is_empty();
    let ended: HashSet<CallId> = results.iter().map(|(call, _)| call.clone()).collect();
    let said = once(said);
    let head = RunHead {
        thread: input.thread_id.clone(),
        run: input.run_id,
        parent: input.parent_run_id,
        speaks_1_0: speaks_1_0(input.protocol_version.as_deref()),
        state: input.state.filter(|state| !state.as_object().is_some_and(serde_json::Map::is_empty)),
        withheld: tools.iter().filter(|_| has_hooks).map(|tool| tool.name.clone()).collect(),
        brought: ended.clone(),
        approval_timeout: hub.limits().clocks.approval_timeout,
        messages: Vec::new(),
    };
    let needs = TurnNeeds {
        client: forwarded.client_id.as_deref().map(ClientId::parse).transpose()?,
        connection: forwarded.connection.as_ref().and_then(|name| ConnectionName::parse(name.as_str()?).ok()),
        model: forwarded.model.as_deref().map(ModelRef::parse).transpose()?,
        instructions,
        ..TurnNeeds::default()
    };
    let (session, history) =
        (SessionId::parse(&input.thread_id)?, history(input.messages, known, first, said.is_empty()));
    let request = PageRequest { said, results, has_new_results, ended, answers, needs, ..PageRequest::default() };
    let page = PageInput { session, history, request };
    Ok((Input { head, page, bad_answer }, tools))
}

/// The conversation before what is new. It does not include the user's new message, which is still to be answered;
/// `is_all` means that there is none.
fn history(messages: Vec<Box<RawValue>>, known: usize, first: Option<MessageId>, is_all: bool) -> EarlierMessages {
    let bytes = conversation::bytes(&messages);
    let read = move |app: &App| {
        let read = messages.iter().enumerate().map(|(place, json)| message(json, place));
        let mut said: Vec<Message> = read.collect::<Result<_, _>>()?;
        let new = said.split_off(if is_all { said.len() } else { known });
        said.extend(new.into_iter().filter(|message| matches!(message, Message::Tool { .. })));
        earlier(app, said)
    };
    EarlierMessages { first, is_empty: known == 0, bytes, read: Box::new(read) }
}

/// Converts earlier messages, with the results of their calls.
fn earlier(app: &App, said: Vec<Message>) -> Result<Vec<Earlier>, Problem> {
    let mut results = HashMap::new();
    for message in &said {
        if let Message::Tool { tool_call_id, content, error, .. } = message {
            // If a call has two results, the first counts.
            results.entry(tool_call_id.clone()).or_insert_with(|| result(content.clone(), error.clone()));
        }
    }
    let mut earlier = Vec::new();
    for message in said {
        match message {
            Message::User { id, content, .. } => {
                earlier.extend(self::said(app.hub(), &id, content)?.map(Earlier::User));
            }
            Message::Assistant { id, content, tool_calls, .. } => {
                let now = app.hub().clock().time();
                let span = Span { start: now, end: Some(now) };
                let text = content.filter(|text| !text.is_empty()).map(|text| PartBody::Text { text, span });
                let mut parts: Vec<PartBody> = text.into_iter().collect();
                for handback_wire::agui::ToolCall { id, function, .. } in tool_calls.unwrap_or_default() {
                    let call = Some(id.as_str()).filter(|id| !id.is_empty()).map(CallId::parse).transpose()?;
                    let input = json::read(function.arguments).ok();
                    parts.push(app.sessions().earlier_call(call, &function.name, input, results.remove(&id)));
                }
                must_fit(app.hub(), parts.len())?;
                let message = Some(id.as_str()).filter(|id| !id.is_empty()).map(MessageId::parse).transpose()?;
                earlier.push(Earlier::Step(Said { message, parts }));
            }
            _ => {}
        }
    }
    Ok(earlier)
}

/// Parses the input. All of it but the messages is parsed at once, so the number of its values is bounded.
fn parse(text: &str) -> Result<RunAgentInput<Box<RawValue>>, Problem> {
    #[derive(Deserialize)]
    struct Messages<'a> {
        #[serde(borrow)]
        messages: &'a RawValue,
    }
    let all = values(text);
    if all > MOST_VALUES {
        // Missing `messages` are reported below.
        let messages = serde_json::from_str(text).map_or(0, |Messages { messages }| values(messages.get()));
        must_be_few(all.saturating_sub(messages), "what comes with the `messages`, such as `state`,")?;
    }
    body::parse(text)
}

fn must_be_few(values: usize, what: &str) -> Result<(), Problem> {
    if values <= MOST_VALUES {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::TooLarge, format!("{what} must not have more than {MOST_VALUES} JSON values")))
}

fn heads(messages: &[Box<RawValue>]) -> Result<Vec<MessageHead>, Problem> {
    conversation::must_be_few(messages)?;
    messages.iter().enumerate().map(|(place, json)| read(json, place)).collect()
}

/// Parses the message at an index; an unknown or malformed one becomes [`Message::Other`].
fn message(json: &RawValue, place: usize) -> Result<Message, Problem> {
    must_be_few(values(json.get()), &format!("`messages[{place}]`"))?;
    read(json, place)
}

fn misshapen(place: usize, role: &str) -> Problem {
    let needed = match role {
        "tool" => "`id`, `toolCallId` and `content`",
        _ => "`id` and `content`",
    };
    Problem::invalid(format!(
        "`messages[{place}]` is not as a message of role {role} should be: it needs {needed}, with at most 4096 parts, and \
         what is optional in it must be of its type"
    ))
}

/// The content of a user's message, or `None` if it is empty.
fn said(hub: &Hub, id: &str, content: Content) -> Result<Option<Said>, Problem> {
    let now = hub.clock().time();
    let text = |text: String| PartBody::Text { text, span: Span { start: now, end: Some(now) } };
    let parts: Vec<PartBody> = match content {
        Content::Text(said) => vec![text(said)],
        Content::Parts(parts) => {
            let part = |part| match part {
                Part::Text { text: said, .. } => Some(text(said)),
                other => attachment(other).map(PartBody::File),
            };
            parts.into_iter().filter_map(part).collect()
        }
    };
    must_fit(hub, parts.len())?;
    if !conversation::says_something(&parts) {
        return Ok(None);
    }
    let message = Some(id).filter(|id| !id.is_empty()).map(MessageId::parse).transpose()?;
    Ok(Some(Said { message, parts }))
}

/// Of several messages with the same id, keeps the last.
fn once(mut said: Vec<Said>) -> Vec<Said> {
    let mut names = HashSet::new();
    said.reverse();
    said.retain(|said| said.message.as_ref().is_none_or(|name| names.insert(name.clone())));
    said.reverse();
    said
}

/// The file in a part, or `None` if the server cannot read it.
fn attachment(part: Part) -> Option<Attachment> {
    let any = || "application/octet-stream".to_owned();
    let inline =
        |mime: String, data: String| Attachment { url: format!("data:{mime};base64,{data}"), mime, filename: None };
    match part {
        Part::Image { source, .. }
        | Part::Audio { source, .. }
        | Part::Video { source, .. }
        | Part::Document { source, .. } => match source {
            Source::Data { value, mime_type } => Some(inline(mime_type, value)),
            Source::Url { value, mime_type } => {
                Some(Attachment { mime: mime_type.unwrap_or_else(any), filename: None, url: value })
            }
            // Only the provider that holds the file can read it.
            Source::File { .. } => None,
        },
        Part::Binary { mime_type, url, data, filename, .. } => match (data, url) {
            (Some(data), _) => Some(Attachment { filename, ..inline(mime_type, data) }),
            (None, Some(url)) => Some(Attachment { mime: mime_type, filename, url }),
            (None, None) => None,
        },
        Part::Text { .. } | Part::Other(_) => None,
    }
}

/// The result of a call, from its tool message.
fn result(content: Content, error: Option<String>) -> ToolResult {
    let output = content.text();
    if let Some(error) = error.filter(|error| !error.trim().is_empty()) {
        let says_more = !output.trim().is_empty() && !output.contains(&error);
        return ToolResult::Failed(if says_more {
            format!("{error}\n{output}")
        } else if output.trim().is_empty() {
            error
        } else {
            output
        });
    }
    let attachments = match content {
        Content::Text(_) => Vec::new(),
        Content::Parts(parts) => parts.into_iter().filter_map(attachment).collect(),
    };
    ToolResult::Completed { title: String::new(), output, metadata: None, attachments }
}

fn forwarded(props: Option<Value>) -> Result<Forwarded, Problem> {
    match props {
        Some(props @ Value::Object(_)) => {
            serde_json::from_value(props).map_err(|error| Problem::invalid(format!("`forwardedProps`: {error}")))
        }
        // The properties belong to the application, and need not be meant for this server.
        _ => Ok(Forwarded::default()),
    }
}

/// Decodes an answer to an interrupt; an error says what is wrong with it.
fn answer(resume: &Resume) -> Result<(PermissionId, Answer), String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Payload {
        approved: bool,
        #[serde(default, alias = "edited_args")]
        edited_args: Option<Value>,
        #[serde(default)]
        reason: Option<String>,
        #[serde(default)]
        always: Option<bool>,
    }
    let id = PermissionId::parse(&resume.interrupt_id).map_err(|error| error.to_string())?;
    if resume.status == ResumeStatus::Cancelled {
        let message = Some("The user cancelled this call".to_owned());
        return Ok((id, Answer { reply: Reply::Reject, input: None, message }));
    }
    let payload = match &resume.payload {
        Some(Value::Bool(approved)) => Payload { approved: *approved, edited_args: None, reason: None, always: None },
        // serde would also accept a list of the object's values.
        Some(payload @ Value::Object(_)) => Payload::deserialize(payload).map_err(|error| error.to_string())?,
        Some(_) => return Err("the `payload` must be an object, such as {\"approved\": true}".to_owned()),
        None => return Err("the `payload` is missing: {\"approved\": true} or {\"approved\": false}".to_owned()),
    };
    let reply = match (payload.approved, payload.always) {
        (true, Some(true)) => Reply::Always,
        (true, _) => Reply::Once,
        (false, _) => Reply::Reject,
    };
    let edited = payload.edited_args.filter(|_| payload.approved);
    let input = edited.map(|edited| to_raw_value(&edited)).transpose().map_err(|error| error.to_string())?;
    Ok((id, Answer { reply, input, message: payload.reason }))
}
