//! From the wire to the core.

use axum::http::HeaderMap;
use handback_core::Hub;
use handback_core::clock::Time;
use handback_core::id::{ClientId, ConnectionName, MessageId, SessionId};
use handback_core::schema::{depth, one_line};
use handback_core::sessions::{NewSession, Prompt};
use handback_core::store::{Answer, Attachment, ModelRef, PartBody, Reply, Span, TurnNeeds};
use handback_wire::session as wire;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::api::must_fit;
use crate::problem::Problem;

/// Most bytes of a session's title, a file's name and media type, and an agent's name.
const NAME_BYTES: usize = 1 << 10;
/// Most bytes of a session's metadata, which is sent with every change of the session.
const METADATA_BYTES: usize = 64 << 10;
/// Most tools that a prompt may switch on or off. Each name or pattern is matched against each tool.
const SWITCHES: usize = 256;
/// The header that names the client of a session or prompt, because newer SDKs drop fields that they do not know.
const CLIENT_HEADER: &str = "x-handback-client";
/// The header that names the connection that a prompt comes from.
const CONNECTION_HEADER: &str = "x-handback-connection";

/// Decodes a new session; `deepest` bounds the nesting of its metadata.
pub(super) fn session(
    request: wire::CreateSession,
    headers: &HeaderMap,
    deepest: usize,
) -> Result<NewSession, Problem> {
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(rename = "clientID")]
        client_id: Option<String>,
    }
    let metadata = match request.metadata {
        Some(metadata) if metadata.get().len() > METADATA_BYTES => {
            return Err(Problem::invalid(format!("`metadata` has more than {METADATA_BYTES} bytes")));
        }
        Some(metadata) if depth(metadata.get()) > deepest => {
            return Err(Problem::invalid(format!("`metadata` is nested more than {deepest} deep")));
        }
        Some(metadata) => Some((parse_object::<Metadata>("metadata", &metadata)?.client_id, metadata)),
        None => None,
    };
    if request.id.as_deref() == Some("") {
        return Err(Problem::invalid("`id` is empty; choose one or leave it out"));
    }
    let said = [request.client_id, header(headers)?, metadata.as_ref().and_then(|(client, _)| client.clone())];
    Ok(NewSession {
        id: request.id.as_deref().map(SessionId::parse).transpose()?,
        client: client(said)?,
        title: named("title", request.title)?.filter(|title| !title.trim().is_empty()),
        parent: request.parent_id.as_deref().map(SessionId::parse).transpose()?,
        agent: named("agent", request.agent)?.map(Into::into),
        model: request.model.map(model).transpose()?,
        metadata: metadata.map(|(_, metadata)| one_line(metadata)),
        has_frontend: false,
    })
}

/// Checks the length of a name.
pub(in crate::api) fn named(what: &str, name: Option<String>) -> Result<Option<String>, Problem> {
    match name {
        Some(name) if name.len() > NAME_BYTES => {
            Err(Problem::invalid(format!("`{what}` has more than {NAME_BYTES} bytes")))
        }
        name => Ok(name),
    }
}

pub(super) fn prompt(hub: &Hub, request: wire::Prompt, headers: &HeaderMap) -> Result<Prompt, Problem> {
    must_fit(hub, request.parts.len())?;
    let now = hub.clock().time();
    let parts = request.parts.into_iter().map(|said| part(said, now)).collect::<Result<Vec<PartBody>, _>>()?;
    let says_something = parts.iter().any(|part| match part {
        PartBody::Text { text, .. } => !text.trim().is_empty(),
        _ => true,
    });
    if !says_something {
        return Err(Problem::invalid("`parts`: there must be a text or a file"));
    }
    let message = request.message_id.as_deref().map(MessageId::parse).transpose()?;
    if message.as_ref().is_some_and(|message| message.as_str().is_empty()) {
        return Err(Problem::invalid("`messageID` must not be empty; leave it out to have one made"));
    }
    let tools = request.tools.unwrap_or_default();
    if tools.len() > SWITCHES {
        return Err(Problem::invalid(format!("`tools` has {} entries; at most {SWITCHES} are allowed", tools.len())));
    }
    Ok(Prompt {
        message,
        parts,
        agent: named("agent", request.agent)?.map(Into::into),
        wants_reply: request.no_reply != Some(true),
        needs: TurnNeeds {
            client: client([request.client_id, header(headers)?, None])?,
            connection: connection(request.connection.as_deref(), headers),
            model: request.model.map(model).transpose()?,
            system: request.system,
            switches: tools,
            ..TurnNeeds::default()
        },
    })
}

fn part(part: wire::PromptPart, now: Time) -> Result<PartBody, Problem> {
    Ok(match part {
        wire::PromptPart::Text { text } => PartBody::Text { text, span: Span { start: now, end: Some(now) } },
        wire::PromptPart::File { mime, filename, url } => {
            let mime = named("mime", Some(mime))?.unwrap_or_default();
            PartBody::File(Attachment { mime, filename: named("filename", filename)?, url })
        }
    })
}

fn model(model: wire::Model) -> Result<ModelRef, Problem> {
    match (model.model_id, model.id) {
        (Some(one), Some(other)) if one != other => {
            Err(Problem::invalid("`model`: `modelID` and `id` differ; give one of them"))
        }
        (Some(name), _) | (None, Some(name)) => Ok(ModelRef::new(&model.provider_id, &name)?),
        (None, None) => Err(Problem::invalid("`model`: `modelID` is missing")),
    }
}

fn header(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(value) = headers.get(CLIENT_HEADER) else { return Ok(None) };
    match value.to_str() {
        Ok(client) => Ok(Some(client.to_owned())),
        Err(_) => Err(Problem::invalid(format!("the header {CLIENT_HEADER} is not a clientID"))),
    }
}

/// The client in the body or in the header.
pub(in crate::api) fn client_header(headers: &HeaderMap, said: Option<ClientId>) -> Result<Option<ClientId>, Problem> {
    client([said.map(|client| client.to_string()), header(headers)?, None])
}

/// The connection in the body, or else in the header. An invalid name counts as none.
pub(in crate::api) fn connection(said: Option<&str>, headers: &HeaderMap) -> Option<ConnectionName> {
    let said = said.or_else(|| headers.get(CONNECTION_HEADER)?.to_str().ok())?;
    ConnectionName::parse(said).ok()
}

/// The client, which several sources may name if they agree.
fn client(said: [Option<String>; 3]) -> Result<Option<ClientId>, Problem> {
    let mut said = said.into_iter().flatten();
    let Some(client) = said.next() else { return Ok(None) };
    if said.any(|other| other != client) {
        return Err(Problem::invalid("the body, its metadata and the header name different clients"));
    }
    Ok(Some(ClientId::parse(&client)?))
}

pub(super) fn answer(reply: wire::Reply, input: Option<Box<RawValue>>, message: Option<String>) -> Answer {
    let reply = match reply {
        wire::Reply::Once => Reply::Once,
        wire::Reply::Always => Reply::Always,
        wire::Reply::Reject => Reply::Reject,
    };
    Answer { reply, input, message }
}

fn parse_object<T: for<'de> Deserialize<'de>>(what: &str, value: &RawValue) -> Result<T, Problem> {
    if !value.get().starts_with('{') {
        return Err(Problem::invalid(format!("`{what}` must be an object")));
    }
    serde_json::from_str(value.get()).map_err(|error| Problem::invalid(format!("`{what}`: {error}")))
}
