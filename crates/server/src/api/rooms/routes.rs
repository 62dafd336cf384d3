//! The routes of rooms, threads and runs.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures_util::{FutureExt, stream};
use handback_core::events::{Feed, TurnEvent};
use handback_core::id::{RunId, SessionId};
use handback_core::sessions::NewSession;
use handback_core::store::{Most, Session, SessionFilter, ThreadRun};
use handback_wire::agui::{Event, RunAgentInput};
use handback_wire::threads as wire;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;
use tracing::Instrument;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::encode::{self, Numbered};
use crate::api::agui::decode;
use crate::api::agui::encode::{Encoder, RunHead};
use crate::api::agui::routes::{self as agui, LONGEST_SILENCE};
use crate::api::listing::LISTED;
use crate::api::session::{client_header, must_own, named, visible};
use crate::api::{Access, Answered, PathValue, Protocol, conversation};
use crate::app::App;
use crate::auth::Principal;
use crate::body::{Json, Payload, parse, parse_or_default};
use crate::problem::Problem;

/// The routes of this API.
pub fn routes() -> Protocol {
    let routes = OpenApiRouter::new()
        .routes(routes!(rooms))
        .routes(routes!(list, create))
        .routes(routes!(show, create_run, delete))
        .routes(routes!(show_run, execute));
    Protocol { routes, errors: encode::ERRORS }
}

/// List the rooms, which are the agents that the caller may name
#[utoipa::path(get, path = "/api/v1/rooms", tag = "threads",
    responses((status = 200, description = "By id", body = BTreeMap<String, wire::Room>)))]
async fn rooms(Access(app, principal): Access) -> Json<wire::Rooms> {
    let room = |name: &str| wire::Room {
        id: name.to_owned(),
        name: name.to_owned(),
        description: String::new(),
        welcome_message: String::new(),
        suggestions: Vec::new(),
    };
    let agents = &app.sessions().setup().agents;
    let open = agents.names().filter(|name| principal.must_be_allowed(agents, Some(name), None).is_ok());
    Json(open.map(|name| (name.to_owned(), room(name))).collect())
}

/// List the threads of a room, those used last first
#[utoipa::path(get, path = "/api/v1/rooms/{room}/agui", tag = "threads",
    responses((status = 200, body = wire::Threads)))]
async fn list(Access(app, principal): Access, PathValue(room): PathValue) -> Answered<wire::Threads> {
    must_be_room(&app, &principal, &room)?;
    let of_agent = SessionFilter { agent: Some(room.as_str().into()), ..SessionFilter::default() };
    let sessions = visible(&app, &principal, of_agent, None, Most::items(LISTED)).await?.items;
    Ok(Json(wire::Threads { threads: sessions.iter().map(|session| encode::thread(session, &room, None)).collect() }))
}

/// Make a thread, with a first run
#[utoipa::path(post, path = "/api/v1/rooms/{room}/agui", tag = "threads", request_body = Option<wire::NewThread>,
    responses((status = 200, body = wire::Thread)))]
async fn create(
    Access(app, principal): Access,
    headers: HeaderMap,
    PathValue(room): PathValue,
    payload: Payload,
) -> Answered<wire::Thread> {
    must_be_room(&app, &principal, &room)?;
    let wire::NewThread { metadata } = payload.read(&app, parse_or_default).await?;
    let wire::ThreadMetadata { name, description } = metadata.clone().unwrap_or_default();
    let title = named("metadata.name", name)?.filter(|name| !name.trim().is_empty());
    named("metadata.description", description)?;
    let mut client = client_header(&headers, None)?;
    if let Principal::Client(own) = &principal {
        principal.must_be_client(client.get_or_insert_with(|| own.client.clone()))?;
    }
    let new = NewSession {
        id: principal.session(None)?,
        client,
        title,
        agent: Some(room.as_str().into()),
        metadata: metadata.as_ref().and_then(|metadata| to_raw_value(metadata).ok()),
        ..NewSession::default()
    };
    let session = match new.id.clone() {
        Some(only) => app.sessions().get_or_create(only, new).await?,
        None => app.sessions().create(new).await?,
    };
    // A token for one session always gets that session, which may exist already.
    must_be_in(&principal, &session, &room)?;
    app.sessions().must_have_storage_for(&session).await?;
    let first = app.runs().create(&session.id, None, None).await?;
    let mut shown = encode::run(&first, None);
    shown.run_input = to_raw_value(&empty_input(&session.id, &first.id)).ok();
    shown.events = Some(Vec::new());
    Ok(Json(encode::thread(&session, &room, Some(BTreeMap::from([(first.id.to_string(), shown)])))))
}

/// Show a thread with its runs
#[utoipa::path(get, path = "/api/v1/rooms/{room}/agui/{thread}", tag = "threads",
    responses((status = 200, body = wire::Thread), (status = 400, description = "A thread of another room")))]
async fn show(
    Access(app, principal): Access,
    PathValue((room, thread)): PathValue<(String, String)>,
) -> Answered<wire::Thread> {
    let session = find(&app, &principal, &room, &thread).await?;
    let runs = app.runs().runs(&session.id).await?;
    // The input of a run contains the whole conversation until then, so only the route for one run shows it.
    let shown = |run: &Arc<ThreadRun>| (run.id.to_string(), wire::Run { run_input: None, ..encode::run(run, None) });
    let runs = runs.iter().map(shown).collect();
    Ok(Json(encode::thread(&session, &room, Some(runs))))
}

/// Make a run, which is executed later
#[utoipa::path(post, path = "/api/v1/rooms/{room}/agui/{thread}", tag = "threads", request_body = Option<wire::NewRun>,
    responses((status = 200, body = wire::Run), (status = 400, description = "No such parent")))]
async fn create_run(
    Access(app, principal): Access,
    PathValue((room, thread)): PathValue<(String, String)>,
    payload: Payload,
) -> Answered<wire::Run> {
    let session = find(&app, &principal, &room, &thread).await?;
    let wire::NewRun { parent_run_id, metadata } = payload.read(&app, parse_or_default).await?;
    let label = named("metadata.label", metadata.and_then(|metadata| metadata.label))?;
    let parent = parent_run_id.as_deref().map(RunId::parse).transpose()?;
    if let Some(parent) = &parent
        && app.runs().run(&session.id, parent).await?.is_none()
    {
        return Err(Problem::invalid(format!("there is no run {parent} in this thread to go on from")));
    }
    app.sessions().must_have_storage_for(&session).await?;
    let made = app.runs().create(&session.id, parent, label).await?;
    Ok(Json(encode::run(&made, Some(Vec::new()))))
}

/// Forget a thread with its runs
#[utoipa::path(delete, path = "/api/v1/rooms/{room}/agui/{thread}", tag = "threads",
    responses((status = 204, description = "It is gone")))]
async fn delete(
    Access(app, principal): Access,
    PathValue((room, thread)): PathValue<(String, String)>,
) -> Result<StatusCode, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    app.sessions().delete(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show a run with what it was started with and what it has told
#[utoipa::path(get, path = "/api/v1/rooms/{room}/agui/{thread}/{run}", tag = "threads",
    responses((status = 200, body = wire::Run)))]
async fn show_run(
    Access(app, principal): Access,
    PathValue((room, thread, run)): PathValue<(String, String, String)>,
) -> Answered<wire::Run> {
    let session = find(&app, &principal, &room, &thread).await?;
    let id = RunId::parse(&run)?;
    let (run, feed) = app.runs().run_with_feed(&session.id, &id).await?.ok_or_else(|| no_run(&id))?;
    let mut events = Vec::new();
    if run.started.is_some() {
        let (mut encoder, mut told) = (encoder(&app, &run, &feed).await?, feed.follow(0));
        while let Some(event) = told.next().now_or_never().flatten() {
            encoder.event(&event);
        }
        events = encoder.take();
    }
    let events = events.into_iter().filter_map(|event| to_raw_value(&Event::from(event)).ok()).collect();
    Ok(Json(encode::run(&run, Some(events))))
}

/// Execute a run, or come back to it
///
/// A run is executed once, and goes on when its reader leaves. Whoever comes back says with `Last-Event-ID` what came
/// last, and gets what came after it; `{run}:` alone gets all of it, and executes a run that was never started.
#[utoipa::path(post, path = "/api/v1/rooms/{room}/agui/{thread}/{run}", tag = "threads", request_body = RunAgentInput<serde_json::Value>,
    params(
        ("Last-Event-ID" = Option<String>, Header, description = "`{run}:{n}`, the last event that was seen; `{run}:` if none was")),
    responses(
        (status = 200, description = "The events of the run", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Bad input, other ids than those of the path, or the run was started already"),
    ))]
async fn execute(
    Access(app, principal): Access,
    headers: HeaderMap,
    PathValue((room, thread, run)): PathValue<(String, String, String)>,
    payload: Payload,
) -> Result<Response, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    let id = RunId::parse(&run)?;
    let stored = app.runs().run(&session.id, &id).await?.ok_or_else(|| no_run(&id))?;
    let from = match (seen(&headers, &id)?, stored.started) {
        (Some(Seen::Event(seen)), Some(_)) => seen.saturating_add(1),
        (Some(Seen::Event(_)), None) => return Err(Problem::invalid(format!("run {id} was not started yet"))),
        (Some(Seen::Nothing), Some(_)) => 0,
        (seen, _) => {
            let started = start(&app, &principal, &headers, &session, &id, &payload).await;
            // A reader that returns to a run does not mind if another request has just started it.
            if seen.is_none() || app.runs().run(&session.id, &id).await?.is_none_or(|run| run.started.is_none()) {
                started?;
            }
            0
        }
    };
    let (stored, feed) = app.runs().run_with_feed(&session.id, &id).await?.ok_or_else(|| no_run(&id))?;
    let encoder = encoder(&app, &stored, &feed).await?;
    let numbered = Numbered::new(id, encoder, from, feed.len());
    let events = stream::unfold(feed.follow(0), async |mut follower| Some((follower.next().await?, follower)));
    let silence = app.config().client_tools.keepalive_interval.min(LONGEST_SILENCE);
    Ok(conversation::response(&app, &principal, events, numbered, silence))
}

/// Creates the encoder that sends a run again from its beginning.
async fn encoder(app: &App, run: &ThreadRun, feed: &Feed) -> Result<Encoder, Problem> {
    let mut head = match &run.input {
        Some(input) => decode::head(app, input.clone()).await?,
        None => RunHead::new(&run.session, &run.id),
    };
    head.parent = head.parent.or_else(|| run.parent.as_ref().map(ToString::to_string));
    let is_recorded = matches!(feed.milestones().first(), Some((0, TurnEvent::Recorded(_))));
    Ok(if is_recorded { Encoder::begun(head) } else { Encoder::new(head) })
}

/// The position of a returning reader in a run.
enum Seen {
    /// The reader has not seen any event.
    Nothing,
    /// The reader has seen this event and those before it.
    Event(usize),
}

/// Parses `Last-Event-ID`: `{run}:{n}`, or `{run}:` if nothing was seen. `None`: the reader has not been here before.
fn seen(headers: &HeaderMap, id: &RunId) -> Result<Option<Seen>, Problem> {
    let Some(last) = headers.get("last-event-id") else { return Ok(None) };
    let last = last.to_str().ok().and_then(|last| last.rsplit_once(':')).filter(|(of, _)| *of == id.as_str());
    let seen = last.and_then(|(_, number)| match number {
        "" => Some(Seen::Nothing),
        number => number.parse().ok().map(Seen::Event),
    });
    let problem = || Problem::invalid(format!("`Last-Event-ID` must be {id}:<number>, or {id}: for all of it"));
    seen.map(Some).ok_or_else(problem)
}

/// Starts a run on its own task, so that it begins completely and goes on even if its reader leaves.
async fn start(
    app: &App,
    principal: &Principal,
    headers: &HeaderMap,
    session: &Arc<Session>,
    id: &RunId,
    payload: &Payload,
) -> Result<(), Problem> {
    let mut input = decode::input(app, payload).await?;
    input.page.request.needs.run = Some(id.clone());
    for (name, said, meant) in [
        ("threadId", input.page.session.as_str(), session.id.as_str()),
        ("runId", input.head.run.as_str(), id.as_str()),
    ] {
        if said != meant {
            return Err(Problem::invalid(format!("`{name}` must be {meant}, as in the path")));
        }
    }
    let raw: Box<RawValue> = payload.read(app, parse).await?;
    let (begun, is_begun) = oneshot::channel();
    let (app_, principal, headers, session, id) =
        (app.clone(), principal.clone(), headers.clone(), session.id.clone(), id.clone());
    let running = async move {
        let app = app_;
        let recorder = match app.runs().start(&session, &id, raw).await {
            Ok(recorder) => recorder,
            // The reader may have left, so a failed send is ignored.
            Err(error) => {
                _ = begun.send(Err(error.into()));
                return;
            }
        };
        match agui::begin(&app, &principal, &headers, input, agui::face(false)).await {
            Ok((_, playback)) => {
                _ = begun.send(Ok(()));
                recorder.record(playback).await;
            }
            Err(problem) => {
                let withdrawn = recorder.withdraw().await.map_err(Problem::from);
                _ = begun.send(withdrawn.and(Err(problem)));
            }
        }
    };
    app.tasks().spawn(running.in_current_span());
    is_begun.await.unwrap_or_else(|_| Err(Problem::interrupted()))
}

fn no_run(id: &RunId) -> Problem {
    Problem::not_found(format!("there is no run {id} in this thread"))
}

/// Checks that the room exists and that the caller may name it.
fn must_be_room(app: &App, principal: &Principal, room: &str) -> Result<(), Problem> {
    principal.must_be_allowed(&app.sessions().setup().agents, Some(room), None)?;
    match app.sessions().agent(Some(room)) {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::not_found(format!("there is no room {room}"))),
    }
}

/// Finds a thread that the caller may use, and checks that it is in the room.
async fn find(app: &App, principal: &Principal, room: &str, thread: &str) -> Result<Arc<Session>, Problem> {
    let Some(session) = app.sessions().find(&SessionId::parse(thread)?).await? else {
        must_be_room(app, principal, room)?;
        return Err(Problem::not_found(format!("there is no thread {thread}")));
    };
    if must_own(principal, &session).is_err() || session.agent_name() != room {
        must_be_room(app, principal, room)?;
    }
    must_be_in(principal, &session, room)?;
    Ok(session)
}

/// Checks that the caller may use the thread and that it is in the room.
fn must_be_in(principal: &Principal, session: &Session, room: &str) -> Result<(), Problem> {
    must_own(principal, session)?;
    if session.agent_name() != room {
        return Err(Problem::invalid(format!("thread {} is not in room {room}", session.id)));
    }
    Ok(())
}

fn empty_input(thread: &SessionId, run: &RunId) -> RunAgentInput {
    RunAgentInput {
        protocol_version: None,
        state: Some(serde_json::Map::new().into()),
        forwarded_props: Some(serde_json::Map::new().into()),
        ..RunAgentInput::new(thread.as_str(), run.as_str(), Vec::new())
    }
}
