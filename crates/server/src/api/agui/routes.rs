//! The routes of runs.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, stream};
use handback_wire::agui::{AgentCapabilities, Body, Event, RunAgentInput};
use tokio::time::Instant;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::decode;
use super::run::Reader;
use super::{begin, capabilities, proto, threads};
use crate::api::client_tools::encode::json;
use crate::api::session::{client_header, connection};
use crate::api::{Answer, PathValue};
use crate::app::App;
use crate::auth::Principal;
use crate::body::Payload;
use crate::config::OnDisconnect;
use crate::problem::Problem;
use crate::transport::sse::{self, Next};

/// At most this long a stream is silent.
pub(super) const LONGEST_SILENCE: Duration = Duration::from_secs(15);

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(default_capabilities, run))
        .routes(routes!(agent_capabilities, run_agent))
        .merge(threads::routes())
}

/// Run the default agent, or that of the thread
///
/// What AG-UI's `HttpAgent` sends; the answer is the run's events. Closing the connection stops the run, unless
/// `agui.onDisconnect` says otherwise.
#[utoipa::path(post, path = "/agui", tag = "ag-ui", request_body = RunAgentInput<serde_json::Value>,
    responses(
        (status = 200, description = "The events of the run", content((String = "text/event-stream"), (Vec<u8> = "application/vnd.ag-ui.event+proto"))),
        (status = 400, description = "Bad input, or nothing in it to answer; a tool of the front end has the name of another", body = handback_wire::error::ErrorBody),
        (status = 403, description = "Another client's thread", body = handback_wire::error::ErrorBody),
        (status = 409, description = "Too many prompts wait, or the conversation has gone on", body = handback_wire::error::ErrorBody),
    ))]
async fn run(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Response, Problem> {
    start(&app, &principal, &headers, None, &payload).await
}

/// Run an agent
#[utoipa::path(post, path = "/agui/{agent}", tag = "ag-ui", request_body = RunAgentInput<serde_json::Value>,
    params(("agent" = String, Path, description = "The agent")),
    responses(
        (status = 200, description = "The events of the run", content((String = "text/event-stream"), (Vec<u8> = "application/vnd.ag-ui.event+proto"))),
        (status = 404, description = "No such agent", body = handback_wire::error::ErrorBody),
    ))]
async fn run_agent(
    State(app): State<App>,
    principal: Principal,
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
    let format = Format::wanted(headers, input.speaks_1_0);
    input.client = client_header(headers, input.client)?;
    input.connection = input.connection.or_else(|| connection(None, headers));
    let lifetime = principal.lifetime(app.hub().clock().now());
    let reader = Reader {
        expires: lifetime.map(|lifetime| Instant::now() + lifetime),
        stops_turns: app.config().agui.on_disconnect == OnDisconnect::Cancel,
    };
    let (begun, agent) = (app.clone(), agent.map(str::to_owned));
    let principal = principal.clone();
    let beginning = async move { begin::run(&begun, &principal, begin::Thread::Of(agent), input, reader).await };
    let run = app.begin_apart(beginning).await.unwrap_or_else(|_| Err(Problem::interrupted()))?;
    let events = stream::unfold(run, async |mut run| Some((run.next().await?, run)));
    let silence = app.config().client_tools.keepalive_interval.min(LONGEST_SILENCE);
    let frames = Frames { events: Box::pin(events), format };
    Ok(match format {
        Format::Text => sse::response(frames, sse::KEEP_ALIVE, silence, None),
        Format::Proto { .. } => {
            // There are no comments in it: nothing but events is ever sent.
            let mut response = sse::response(frames, "", Duration::MAX, None);
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(proto::MEDIA_TYPE));
            response
        }
    })
}

/// How events are written.
#[derive(Debug, Clone, Copy)]
enum Format {
    /// As server-sent events.
    Text,
    /// As protobuf.
    Proto { speaks_1_0: bool },
}

impl Format {
    fn wanted(headers: &HeaderMap, speaks_1_0: bool) -> Self {
        let accepts: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        if proto::is_wanted(&accepts.join(",")) { Self::Proto { speaks_1_0 } } else { Self::Text }
    }
}

/// What a front end can expect of the default agent
#[utoipa::path(get, path = "/agui", tag = "ag-ui", responses((status = 200, body = AgentCapabilities)))]
async fn default_capabilities(
    State(app): State<App>,
    principal: Principal,
) -> Result<Answer<AgentCapabilities>, Problem> {
    principal.must_be_allowed(&app.sessions().setup().agents, None, None)?;
    Ok(Answer(capabilities::of(&app, None)))
}

/// What a front end can expect of an agent
#[utoipa::path(get, path = "/agui/{agent}", tag = "ag-ui",
    params(("agent" = String, Path, description = "The agent")),
    responses((status = 200, body = AgentCapabilities), (status = 404, description = "No such agent", body = handback_wire::error::ErrorBody)))]
async fn agent_capabilities(
    State(app): State<App>,
    principal: Principal,
    PathValue(agent): PathValue,
) -> Result<Answer<AgentCapabilities>, Problem> {
    principal.must_be_allowed(&app.sessions().setup().agents, Some(&agent), None)?;
    app.sessions().agent(Some(&agent)).map_err(|error| Problem::not_found(error.to_string()))?;
    Ok(Answer(capabilities::of(&app, Some(&agent))))
}

/// A run's events as frames.
struct Frames {
    events: Pin<Box<dyn Stream<Item = Vec<Body>> + Send>>,
    format: Format,
}

impl sse::Source for Frames {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        loop {
            let Some(events) = ready!(self.events.as_mut().poll_next(context)) else { return Poll::Ready(Next::End) };
            let frames = match self.format {
                Format::Text => frames(events),
                Format::Proto { speaks_1_0 } => proto::frames(events, speaks_1_0),
            };
            // All of them may have been left out.
            if !frames.is_empty() {
                return Poll::Ready(Next::Frame(frames));
            }
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
