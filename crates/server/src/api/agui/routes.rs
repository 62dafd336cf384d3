//! The routes of runs.

use std::time::Duration;

use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use handback_core::events::TurnEvent;
use handback_core::sessions::{Manners, NotPlanned, Playback};
use handback_core::store::TurnError;
use handback_wire::agui::{Body, Event, RunAgentInput};
use handback_wire::error::ErrorCode;
use serde_json::Value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::decode::{self, Input};
use super::encode::{Encoder, RunHead};
use super::{capabilities, proto};
use crate::api::client_tools::encode::json;
use crate::api::conversation::{self, Face};
use crate::api::session::{client_header, connection};
use crate::api::{Access, Answered, PathValue};
use crate::app::App;
use crate::auth::Principal;
use crate::body::{Json, Payload};
use crate::config::OnDisconnect;
use crate::problem::Problem;

/// The longest time that a stream is silent.
pub(in crate::api) const LONGEST_SILENCE: Duration = Duration::from_secs(15);

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(default_capabilities, run)).routes(routes!(agent_capabilities, run_agent))
}

/// Run the default agent, or that of the thread
///
/// What AG-UI's `HttpAgent` sends; the answer is the run's events. Closing the connection stops the run, unless
/// `agui.onDisconnect` says otherwise.
#[utoipa::path(post, path = "/agui", tag = "ag-ui", request_body = RunAgentInput<serde_json::Value>,
    responses(
        (status = 200, description = "The events of the run", content((String = "text/event-stream"), (Vec<u8> = "application/vnd.ag-ui.event+proto"))),
        (status = 400, description = "Bad input, or nothing in it to answer; a tool of the front end has the name of another"),
        (status = 403, description = "Another client's thread"),
        (status = 409, description = "Too many prompts wait, or the conversation has gone on"),
    ))]
async fn run(Access(app, principal): Access, headers: HeaderMap, payload: Payload) -> Result<Response, Problem> {
    start(&app, &principal, &headers, None, &payload).await
}

/// Run an agent
#[utoipa::path(post, path = "/agui/{agent}", tag = "ag-ui", request_body = RunAgentInput<serde_json::Value>,
    responses((status = 200, description = "The events of the run", content((String = "text/event-stream"), (Vec<u8> = "application/vnd.ag-ui.event+proto")))))]
async fn run_agent(
    Access(app, principal): Access,
    headers: HeaderMap,
    PathValue(agent): PathValue,
    payload: Payload,
) -> Result<Response, Problem> {
    start(&app, &principal, &headers, Some(&agent), &payload).await
}

async fn start(
    app: &App,
    principal: &Principal,
    headers: &HeaderMap,
    agent: Option<&str>,
    payload: &Payload,
) -> Result<Response, Problem> {
    let mut input = decode::input(app, payload).await?;
    if let Some(agent) = agent
        && let Err(unknown) = app.sessions().agent(Some(agent))
    {
        principal.must_be_allowed(&app.sessions().setup().agents, Some(agent), None)?;
        return Err(Problem::not_found(unknown.to_string()));
    }
    input.page.request.agent = agent.map(Into::into);
    let format = Format::wanted(headers, input.head.speaks_1_0);
    let stops_turns = app.config().agui.on_disconnect == OnDisconnect::Cancel;
    let (head, playback) =
        begin(app, principal, headers, input, Face { makes_sessions: true, ..face(stops_turns) }).await?;
    let writer = RunWriter { encoder: Encoder::new(head), format };
    let silence = app.config().client_tools.keepalive_interval.min(LONGEST_SILENCE);
    // Protobuf has no comments to keep a connection alive, so only events are sent.
    let silence = if matches!(format, Format::Text) { silence } else { Duration::MAX };
    let playback = playback.telling_stop();
    let mut response = conversation::response(app, principal, playback.into_stream(), writer, silence);
    if let Format::Proto { .. } = format {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(proto::MEDIA_TYPE));
    }
    Ok(response)
}

/// The behaviour that AG-UI wants from sessions.
pub(in crate::api) fn face(stops_turns: bool) -> Face {
    let manners =
        Manners { answers_anew: true, answers_all_asks: true, retries: true, settles_calls: true, stops_turns };
    Face { manners, yields_asks: true, has_frontend: false, makes_sessions: false }
}

/// Begins a run. If its answers to interrupts are not accepted, the run fails with its first event.
pub(in crate::api) async fn begin(
    app: &App,
    principal: &Principal,
    headers: &HeaderMap,
    mut input: Input,
    face: Face,
) -> Result<(RunHead, Playback), Problem> {
    let needs = &mut input.page.request.needs;
    needs.client = client_header(headers, needs.client.take())?;
    needs.connection = needs.connection.take().or_else(|| connection(None, headers));
    let (head, session) = (input.head, input.page.session.clone());
    let (code, message) = match input.bad_answer {
        Some((id, reason)) => ("invalid_resume", format!("The answer to interrupt {id}: {reason}")),
        None => match conversation::converse(app, principal, input.page, face).await? {
            Ok(playback) => return Ok((head, playback)),
            Err(error) => refusal(error)?,
        },
    };
    let error = TurnError::Refused { code: code.into(), message };
    Ok((head, Playback::refused(app.sessions(), &session, error)))
}

/// How a refusal is reported: as a run that fails at once with this code and message, or as an HTTP error.
fn refusal(error: NotPlanned) -> Result<(&'static str, String), Problem> {
    Ok(match error {
        NotPlanned::AskOpen(id) => (
            "interrupts_open",
            format!(
                "The thread waits for an answer: `resume` has to answer all open interrupts, and does not answer {id}"
            ),
        ),
        NotPlanned::UnknownAsk(id) => ("unknown_interrupt", format!("There is no open interrupt {id} in this thread")),
        NotPlanned::AnsweredOtherwise(id) => {
            ("unknown_interrupt", format!("Interrupt {id} was answered otherwise, or its time is over"))
        }
        NotPlanned::NotYourAsk(id) => ("unknown_interrupt", format!("Interrupt {id} is not yours to answer")),
        NotPlanned::TwoAnswers(id) => ("invalid_resume", format!("The answer to interrupt {id}: there are two")),
        NotPlanned::InvalidInput(id, reason) => {
            ("invalid_resume", format!("The answer to interrupt {id}: `editedArgs` does not fit the tool: {reason}"))
        }
        NotPlanned::NothingNew => {
            return Err(Problem::invalid(
                "there is nothing to answer: after the last answer in `messages` there is neither a user's message nor what came of a \
             call that is known here, and `resume` is empty",
            ));
        }
        NotPlanned::Busy => {
            let problem = "there is nothing new in this run, and another of its thread is under way";
            return Err(Problem::new(ErrorCode::Conflict, problem));
        }
        error => return Err(error.into()),
    })
}

/// The format of the events.
#[derive(Debug, Clone, Copy)]
enum Format {
    /// Server-sent events.
    Text,
    /// Protobuf frames.
    Proto { speaks_1_0: bool },
}

impl Format {
    fn wanted(headers: &HeaderMap, speaks_1_0: bool) -> Self {
        let accepts: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        if proto::is_wanted(&accepts.join(",")) { Self::Proto { speaks_1_0 } } else { Self::Text }
    }
}

/// The description of capabilities in the OpenAPI document.
const CAPABILITIES: &str = "An `AgentCapabilities` of the protocol";

/// What a front end can expect of the default agent
#[utoipa::path(get, path = "/agui", tag = "ag-ui", responses((status = 200, description = CAPABILITIES, body = Object)))]
async fn default_capabilities(Access(app, principal): Access) -> Answered<Value> {
    principal.must_be_allowed(&app.sessions().setup().agents, None, None)?;
    Ok(Json(capabilities::of(&app, None)))
}

/// What a front end can expect of an agent
#[utoipa::path(get, path = "/agui/{agent}", tag = "ag-ui",
    responses((status = 200, description = CAPABILITIES, body = Object)))]
async fn agent_capabilities(Access(app, principal): Access, PathValue(agent): PathValue) -> Answered<Value> {
    principal.must_be_allowed(&app.sessions().setup().agents, Some(&agent), None)?;
    app.sessions().agent(Some(&agent)).map_err(|error| Problem::not_found(error.to_string()))?;
    Ok(Json(capabilities::of(&app, Some(&agent))))
}

/// Writes the events of a run in the wanted format.
struct RunWriter {
    encoder: Encoder,
    format: Format,
}

impl conversation::Encoder for RunWriter {
    fn event(&mut self, event: &TurnEvent) {
        self.encoder.event(event);
    }

    fn expired(&mut self) {
        self.encoder.expire("The token has expired; run again with a new one");
    }

    fn take(&mut self) -> Bytes {
        let events = self.encoder.take();
        match self.format {
            Format::Text => frames(events),
            Format::Proto { speaks_1_0 } => proto::frames(&events, speaks_1_0),
        }
    }
}

fn frames(events: Vec<Body>) -> Bytes {
    let mut frames = Vec::new();
    for event in events {
        frames.extend_from_slice(b"data: ");
        frames.extend_from_slice(json(&Event::from(event)).as_bytes());
        frames.extend_from_slice(b"\n\n");
    }
    frames.into()
}
