//! Threads and runs, as Soliplex serves them: a room is an agent, a thread is a session of it, and a run is made first
//! and executed later, once. It goes on when its reader leaves, and whoever comes back gets what it missed.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, stream};
use handback_core::id::{RunId, SessionId};
use handback_core::message::Session;
use handback_core::sessions::{NewSession, SessionError};
use handback_core::store::{Most, SessionFilter};
use handback_core::thread_run::{RunUsage, ThreadRun};
use handback_core::threads::{NotStarted, RunFollower, Teller};
use handback_wire::agui::{Body, Event, RunAgentInput};
use handback_wire::threads as wire;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::oneshot;
use tokio::time::Sleep;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::begin;
use super::decode::{self, Input};
use super::routes::LONGEST_SILENCE;
use super::run::{Reader, Run};
use crate::api::client_tools::encode::json;
use crate::api::session::{client_header, connection, must_own, named, visible};
use crate::api::{Answer, PathValue};
use crate::app::App;
use crate::auth::Principal;
use crate::body::{Payload, parse, parse_or_default};
use crate::problem::Problem;
use crate::transport::sse::{self, Next};

/// Threads of one listing.
const LISTED: usize = 1_000;

/// The routes of threads and runs.
pub(super) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(rooms))
        .routes(routes!(list, create))
        .routes(routes!(show, create_run, delete))
        .routes(routes!(show_run, execute))
}

/// List the rooms, which are the agents that the caller may name
#[utoipa::path(get, path = "/api/v1/rooms", tag = "threads",
    responses((status = 200, description = "By id", body = BTreeMap<String, wire::Room>)))]
async fn rooms(State(app): State<App>, principal: Principal) -> Answer<wire::Rooms> {
    let room = |name: &str| wire::Room {
        id: name.to_owned(),
        name: name.to_owned(),
        description: String::new(),
        welcome_message: String::new(),
        suggestions: Vec::new(),
    };
    let agents = &app.sessions().setup().agents;
    let open = agents.names().filter(|name| principal.must_be_allowed(agents, Some(name), None).is_ok());
    Answer(open.map(|name| (name.to_owned(), room(name))).collect())
}

/// List the threads of a room, those used last first
#[utoipa::path(get, path = "/api/v1/rooms/{room}/agui", tag = "threads",
    params(("room" = String, Path, description = "The room")),
    responses((status = 200, body = wire::Threads), (status = 404, description = "No such room")))]
async fn list(
    State(app): State<App>,
    principal: Principal,
    PathValue(room): PathValue,
) -> Result<Answer<wire::Threads>, Problem> {
    must_be_room(&app, &principal, &room)?;
    let of_agent = SessionFilter { agent: Some(room.as_str().into()), ..SessionFilter::default() };
    let sessions = visible(&app, &principal, of_agent, None, Most::items(LISTED)).await?.items;
    Ok(Answer(wire::Threads { threads: sessions.iter().map(|session| thread(session, &room, None)).collect() }))
}

/// Make a thread, with a first run
#[utoipa::path(post, path = "/api/v1/rooms/{room}/agui", tag = "threads", request_body = Option<wire::NewThread>,
    params(("room" = String, Path, description = "The room")),
    responses((status = 200, body = wire::Thread), (status = 404, description = "No such room")))]
async fn create(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    PathValue(room): PathValue,
    payload: Payload,
) -> Result<Answer<wire::Thread>, Problem> {
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
    // The only one that a token is good for may be there already.
    must_be_in(&principal, &session, &room)?;
    app.sessions().must_have_storage_for(&session).await?;
    let first = app.threads().create(&session.id, None, None).await?;
    let mut shown = self::run(&first, None);
    shown.run_input = to_raw_value(&empty_input(&session.id, &first.id)).ok();
    shown.events = Some(Vec::new());
    Ok(Answer(thread(&session, &room, Some(BTreeMap::from([(first.id.to_string(), shown)])))))
}

/// Show a thread with its runs
#[utoipa::path(get, path = "/api/v1/rooms/{room}/agui/{thread}", tag = "threads",
    params(("room" = String, Path, description = "The room"), ("thread" = String, Path, description = "The thread")),
    responses((status = 200, body = wire::Thread), (status = 404, description = "No such thread"), (status = 400, description = "A thread of another room")))]
async fn show(
    State(app): State<App>,
    principal: Principal,
    PathValue((room, thread)): PathValue<(String, String)>,
) -> Result<Answer<wire::Thread>, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    let runs = app.threads().runs(&session.id).await?;
    // What each was started with has the whole conversation up to then; it is shown with the run.
    let shown = |run: &Arc<ThreadRun>| (run.id.to_string(), wire::Run { run_input: None, ..self::run(run, None) });
    let runs = runs.iter().map(shown).collect();
    Ok(Answer(self::thread(&session, &room, Some(runs))))
}

/// Make a run, which is executed later
#[utoipa::path(post, path = "/api/v1/rooms/{room}/agui/{thread}", tag = "threads", request_body = Option<wire::NewRun>,
    params(("room" = String, Path, description = "The room"), ("thread" = String, Path, description = "The thread")),
    responses((status = 200, body = wire::Run), (status = 404, description = "No such thread"), (status = 400, description = "No such parent")))]
async fn create_run(
    State(app): State<App>,
    principal: Principal,
    PathValue((room, thread)): PathValue<(String, String)>,
    payload: Payload,
) -> Result<Answer<wire::Run>, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    let wire::NewRun { parent_run_id, metadata } = payload.read(&app, parse_or_default).await?;
    let label = named("metadata.label", metadata.and_then(|metadata| metadata.label))?;
    let parent = parent_run_id.as_deref().map(RunId::parse).transpose()?;
    if let Some(parent) = &parent
        && app.threads().run(&session.id, parent).await?.is_none()
    {
        return Err(Problem::invalid(format!("there is no run {parent} in this thread to go on from")));
    }
    app.sessions().must_have_storage_for(&session).await?;
    let made = app.threads().create(&session.id, parent, label).await?;
    Ok(Answer(self::run(&made, Some(Vec::new()))))
}

/// Forget a thread with its runs
#[utoipa::path(delete, path = "/api/v1/rooms/{room}/agui/{thread}", tag = "threads",
    params(("room" = String, Path, description = "The room"), ("thread" = String, Path, description = "The thread")),
    responses((status = 204, description = "It is gone"), (status = 404, description = "No such thread")))]
async fn delete(
    State(app): State<App>,
    principal: Principal,
    PathValue((room, thread)): PathValue<(String, String)>,
) -> Result<StatusCode, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    app.sessions().delete(&session).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Show a run with what it was started with and what it has told
#[utoipa::path(get, path = "/api/v1/rooms/{room}/agui/{thread}/{run}", tag = "threads",
    params(("room" = String, Path, description = "The room"), ("thread" = String, Path, description = "The thread"), ("run" = String, Path, description = "The run")),
    responses((status = 200, body = wire::Run), (status = 404, description = "No such run")))]
async fn show_run(
    State(app): State<App>,
    principal: Principal,
    PathValue((room, thread, run)): PathValue<(String, String, String)>,
) -> Result<Answer<wire::Run>, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    let id = RunId::parse(&run)?;
    let run = app.threads().run(&session.id, &id).await?.ok_or_else(|| no_run(&id))?;
    let events = app.threads().events(&session.id, &id).await?;
    let events = events.iter().filter_map(|event| RawValue::from_string(event.to_string()).ok()).collect();
    Ok(Answer(self::run(&run, Some(events))))
}

/// Execute a run, or come back to it
///
/// A run is executed once, and goes on when its reader leaves. Whoever comes back says with `Last-Event-ID` what came
/// last, and gets what came after it; `{run}:` alone gets all of it, and executes a run that was never started.
#[utoipa::path(post, path = "/api/v1/rooms/{room}/agui/{thread}/{run}", tag = "threads", request_body = RunAgentInput<serde_json::Value>,
    params(("room" = String, Path, description = "The room"), ("thread" = String, Path, description = "The thread"), ("run" = String, Path, description = "The run"),
        ("Last-Event-ID" = Option<String>, Header, description = "`{run}:{n}`, the last event that was seen; `{run}:` if none was")),
    responses(
        (status = 200, description = "The events of the run", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Bad input, other ids than those of the path, or the run was started already"),
        (status = 404, description = "No such run"),
    ))]
async fn execute(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    PathValue((room, thread, run)): PathValue<(String, String, String)>,
    payload: Payload,
) -> Result<Response, Problem> {
    let session = find(&app, &principal, &room, &thread).await?;
    let id = RunId::parse(&run)?;
    let stored = app.threads().run(&session.id, &id).await?.ok_or_else(|| no_run(&id))?;
    let from = match (seen(&headers, &id)?, stored.started) {
        (Some(Seen::Event(seen)), Some(_)) => seen.saturating_add(1),
        (Some(Seen::Event(_)), None) => return Err(Problem::invalid(format!("run {id} was not started yet"))),
        (Some(Seen::Nothing), Some(_)) => 0,
        (seen, _) => {
            let started = start(&app, &principal, &headers, &session, &id, &payload).await;
            // Whoever comes back to it does not mind that it was started just now.
            if seen.is_none() || app.threads().run(&session.id, &id).await?.is_none_or(|run| run.started.is_none()) {
                started?;
            }
            0
        }
    };
    let follower = app.threads().follow(&session.id, &id, from).await?;
    let events = stream::unfold(follower, async |mut follower: RunFollower| Some((follower.next().await?, follower)));
    let lifetime = principal.lifetime(app.hub().clock().now());
    let expires = lifetime.map(|lifetime| Box::pin(tokio::time::sleep(lifetime)));
    let frames = Frames { run: id, events: Box::pin(events), expires, is_over: false };
    let silence = app.config().client_tools.keepalive_interval.min(LONGEST_SILENCE);
    Ok(sse::response(frames, sse::KEEP_ALIVE, silence, None))
}

/// What a reader that comes back has seen of a run.
enum Seen {
    /// Not even the first event.
    Nothing,
    /// Up to this event.
    Event(usize),
}

/// What `Last-Event-ID` says was seen of a run: `{run}:{n}`, or `{run}:` for nothing. `None`: the reader comes for the
/// first time.
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

/// Starts a run on a task of its own: it is begun as a whole, and goes on, whether or not its reader leaves.
async fn start(
    app: &App,
    principal: &Principal,
    headers: &HeaderMap,
    session: &Arc<Session>,
    id: &RunId,
    payload: &Payload,
) -> Result<(), Problem> {
    let mut input = decode::input(app, payload).await?;
    for (name, said, meant) in
        [("threadId", input.thread.as_str(), session.id.as_str()), ("runId", input.run.as_str(), id.as_str())]
    {
        if said != meant {
            return Err(Problem::invalid(format!("`{name}` must be {meant}, as in the path")));
        }
    }
    input.client = client_header(headers, input.client)?;
    input.connection = input.connection.or_else(|| connection(None, headers));
    let raw: Box<RawValue> = payload.read(app, parse).await?;
    let (begun, is_begun) = oneshot::channel();
    let starting = execute_once(app.clone(), principal.clone(), session.id.clone(), id.clone(), raw, input, begun);
    app.tasks().spawn(starting);
    is_begun.await.unwrap_or_else(|_| Err(Problem::interrupted()))
}

async fn execute_once(
    app: App,
    principal: Principal,
    session: SessionId,
    id: RunId,
    raw: Box<RawValue>,
    mut input: Input,
    begun: oneshot::Sender<Result<(), Problem>>,
) {
    let teller = match app.threads().start(&session, &id, raw, &broken_off()).await {
        Ok(teller) => teller,
        Err(error) => {
            // Whoever started it may have left.
            _ = begun.send(Err(not_started(error)));
            return;
        }
    };
    input.parent = input.parent.or_else(|| teller.run().parent.as_ref().map(ToString::to_string));
    match begin::run(&app, &principal, begin::Thread::OfRoom, input, Reader::default()).await {
        Ok(run) => {
            _ = begun.send(Ok(()));
            drive(run, teller).await;
        }
        Err(problem) => {
            let withdrawn = teller.withdraw().await.map_err(Problem::from);
            _ = begun.send(withdrawn.and(Err(problem)));
        }
    }
}

/// Runs a run to its end; its events are kept and told.
async fn drive(mut run: Run, mut teller: Teller) {
    loop {
        let events = tokio::select! {
            biased;
            events = run.next() => events.unwrap_or_default(),
            () = teller.keep_up(), if teller.is_saving() => continue,
        };
        let events = events.into_iter().map(|event| json(&Event::from(event)).into()).collect();
        if run.is_over() {
            return teller.finish(events, usage(&run)).await;
        }
        teller.tell(events);
    }
}

fn usage(run: &Run) -> RunUsage {
    let cost = run.cost();
    RunUsage {
        input_tokens: cost.models.iter().map(|(_, used)| used.read()).fold(0, u64::saturating_add),
        output_tokens: cost.models.iter().map(|(_, used)| used.written()).fold(0, u64::saturating_add),
        requests: cost.requests,
        tool_calls: cost.calls,
    }
}

/// The last words of a run that a restart has ended.
pub(crate) fn interrupted() -> String {
    last_words("interrupted", "The server was restarted before this run was over")
}

/// Whether a run is over with an event.
pub(crate) fn is_terminal(event: &str) -> bool {
    serde_json::from_str::<Event>(event).is_ok_and(|event| event.body.is_terminal())
}

/// The last words of a run that broke off.
fn broken_off() -> String {
    last_words("run_failed", "The run broke off on the server; see its log")
}

fn last_words(code: &str, message: &str) -> String {
    let (message, code) = (message.to_owned(), Some(code.to_owned()));
    json(&Event::from(Body::RunError { message, code, usage: None }))
}

fn not_started(error: NotStarted) -> Problem {
    match error {
        NotStarted::Unknown(_) => Problem::not_found(error.to_string()),
        NotStarted::Again(_) => Problem::invalid(error.to_string()),
        NotStarted::Store(error) => error.into(),
    }
}

fn no_run(id: &RunId) -> Problem {
    Problem::not_found(format!("there is no run {id} in this thread"))
}

/// Whether there is such a room, and the caller may name it.
fn must_be_room(app: &App, principal: &Principal, room: &str) -> Result<(), Problem> {
    principal.must_be_allowed(&app.sessions().setup().agents, Some(room), None)?;
    match app.sessions().agent(Some(room)) {
        Ok(_) => Ok(()),
        Err(_) => Err(Problem::not_found(format!("there is no room {room}"))),
    }
}

/// A thread of a room that the caller may use.
async fn find(app: &App, principal: &Principal, room: &str, thread: &str) -> Result<Arc<Session>, Problem> {
    let session = match app.sessions().get(&SessionId::parse(thread)?).await {
        Ok(session) => session,
        Err(SessionError::Unknown(_)) => {
            must_be_room(app, principal, room)?;
            return Err(Problem::not_found(format!("there is no thread {thread}")));
        }
        Err(error) => return Err(error.into()),
    };
    if must_own(principal, &session).is_err() || session.agent_name() != room {
        must_be_room(app, principal, room)?;
    }
    must_be_in(principal, &session, room)?;
    Ok(session)
}

/// Whether a thread is the caller's to use, and in that room.
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

fn thread(session: &Session, room: &str, runs: Option<BTreeMap<String, wire::Run>>) -> wire::Thread {
    let metadata = session.metadata.as_ref().and_then(|metadata| serde_json::from_str(metadata.get()).ok());
    wire::Thread {
        room_id: room.to_owned(),
        thread_id: session.id.to_string(),
        created: moment(session.created),
        metadata,
        runs,
    }
}

fn run(run: &ThreadRun, events: Option<Vec<Box<RawValue>>>) -> wire::Run {
    wire::Run {
        run_id: run.id.to_string(),
        thread_id: run.session.to_string(),
        parent_run_id: run.parent.as_ref().map(ToString::to_string),
        created: moment(run.created),
        finished: run.finished.map(moment),
        run_input: run.input.clone(),
        events,
        metadata: run.label.clone().map(|label| wire::RunMetadata { label: Some(label) }),
        usage: run.usage.map(|usage| wire::RunUsage {
            input_tokens: usage.input_tokens,
            output_tokens: usage.output_tokens,
            requests: usage.requests,
            tool_calls: usage.tool_calls,
        }),
    }
}

fn moment(time: handback_core::clock::Time) -> String {
    humantime::format_rfc3339_millis(time.into()).to_string()
}

/// A run's events as numbered frames.
struct Frames {
    run: RunId,
    events: Pin<Box<dyn Stream<Item = (usize, Arc<str>)> + Send>>,
    /// When the reader may not read any more. The run goes on.
    expires: Option<Pin<Box<Sleep>>>,
    is_over: bool,
}

impl sse::Source for Frames {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if self.is_over {
            return Poll::Ready(Next::End);
        }
        if self.expires.as_mut().is_some_and(|expires| expires.as_mut().poll(context).is_ready()) {
            self.is_over = true;
            // Without a number: it is this reader's end, not the run's.
            let end = last_words("token_expired", "The token has expired; come back with a new one");
            return Poll::Ready(Next::Frame(Bytes::from(format!("data: {end}\n\n"))));
        }
        self.events.as_mut().poll_next(context).map(|event| match event {
            Some((number, event)) => Next::Frame(Bytes::from(format!("id: {}:{number}\ndata: {event}\n\n", self.run))),
            None => Next::End,
        })
    }
}
