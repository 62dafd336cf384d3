//! `GET /event`: events as server-sent events. Each event is encoded once for all its readers.

mod data_url;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::response::Response;
use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use handback_core::events::{Emitted, Event, SessionEvent, Topic, TurnEvent};
use handback_core::id::{ClientId, RequestId, SessionId, ToolId};
use handback_core::sessions::Sessions;
use handback_core::store::{CallHead, PartBody, ToolPart};
use handback_wire::event as wire;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::data_url::without_data_urls;
use super::client_tools::encode::{json, request};
use super::session::{encode as session, find};
use super::{Access, PathValue, Query};
use crate::app::App;
use crate::auth::Principal;
use crate::problem::Problem;
use crate::transport::sse::{self, Next};

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(events)).routes(routes!(session_events))
}

/// What to listen to.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase")]
#[into_params(parameter_in = Query)]
struct EventQuery {
    /// Only what happens in this session.
    #[serde(rename = "sessionID")]
    #[param(value_type = Option<String>)]
    session: Option<SessionId>,
    /// Only what happens to this client: its tools, its calls, its sessions.
    #[serde(rename = "clientID")]
    #[param(value_type = Option<String>)]
    client: Option<ClientId>,
}

/// What happens, as server-sent events
///
/// Everything, or what happens in a session, to a client, or both. A subscriber that cannot keep up is disconnected.
#[utoipa::path(get, path = "/event", tag = "events", params(EventQuery),
    responses(
        (status = 200, description = "Server-sent events, each an `Event`; `server.connected` is the first", body = String, content_type = "text/event-stream"),
        (status = 403, description = "The session or the client is another's"),
    ))]
async fn events(Access(app, principal): Access, Query(query): Query<EventQuery>) -> Result<Response, Problem> {
    if let Some(client) = &query.client {
        principal.must_be_client(client)?;
    }
    if let Some(id) = principal.session(query.session.clone())?.filter(|_| query.session.is_some()) {
        // A session that the application keeps itself has no owner here: a client sees only its own events of it.
        let session = app.sessions().find(&id).await?;
        if let Some(owner) = session.as_ref().and_then(|session| session.client.as_ref()) {
            principal.must_be_client(owner)?;
        }
    }
    Ok(follow(app, principal, query, Wrapping::None))
}

/// What happens in a session, as server-sent events
///
/// The same as `GET /event?sessionID=…` of a session that is there.
#[utoipa::path(get, path = "/session/{sessionID}/event", tag = "events",
    responses(
        (status = 200, description = "Server-sent events, each an `Event`; `server.connected` is the first", body = String, content_type = "text/event-stream"),
        (status = 403, description = "Another client's session"),
    ))]
async fn session_events(Access(app, principal): Access, PathValue(id): PathValue) -> Result<Response, Problem> {
    let session = find(&app, &principal, &id).await?;
    let query = EventQuery { session: Some(session.id.clone()), client: None };
    Ok(follow(app, principal, query, Wrapping::None))
}

/// The same, each event in an envelope, as opencode's terminal reads them
#[utoipa::path(get, path = "/global/event", tag = "events",
    responses((status = 200, description = "Server-sent events, each `{directory, payload}` with an `Event` as its payload", body = String, content_type = "text/event-stream")))]
pub(super) async fn global_events(Access(app, principal): Access) -> Response {
    follow(app, principal, EventQuery { session: None, client: None }, Wrapping::Directory)
}

#[derive(Debug, Clone, Copy)]
enum Wrapping {
    /// Events are sent as they are.
    None,
    /// Events are sent as `{directory, payload}`, for opencode's terminal.
    Directory,
}

fn follow(app: App, principal: Principal, query: EventQuery, wrapping: Wrapping) -> Response {
    let lifetime = principal.lifetime(app.hub().clock().now());
    let interval = app.config().client_tools.keepalive_interval;
    let topic = match (&query, &principal) {
        (EventQuery { session: Some(session), .. }, _) => Topic::Session(session.clone()),
        (EventQuery { client: Some(client), .. }, _) => Topic::Client(client.clone()),
        (_, Principal::Client(own)) => Topic::Client(own.client.clone()),
        (_, Principal::Application) => Topic::Everything,
    };
    let source = Listener {
        frames: wrapping.wrapped(&frame(&wire::Event::Connected {}, "")),
        wrapping,
        // The stream is fused because it is polled again after its end, while earlier frames are still written.
        events: Box::pin(
            stream::unfold(app.hub().subscribe(topic), async |mut events| Some((events.next().await?, events))).fuse(),
        ),
        closing: Box::pin(app.closing().clone().cancelled_owned()),
        sessions: app.sessions().clone(),
        client: query.client,
        principal,
        coming: None,
        mark: None,
    };
    sse::response(source, sse::KEEP_ALIVE, interval, lifetime)
}

struct Listener {
    /// Frames to write next.
    frames: Bytes,
    wrapping: Wrapping,
    events: Pin<Box<dyn Stream<Item = Arc<Emitted>> + Send>>,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    sessions: Sessions,
    /// The only client whose events the listener wants.
    client: Option<ClientId>,
    principal: Principal,
    /// A mark that becomes `mark` when the connection has taken the events before it.
    coming: Option<Arc<Emitted>>,
    /// A mark that is held until the connection has written the events before it.
    mark: Option<Arc<Emitted>>,
}

impl sse::FrameSource for Listener {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        self.mark = self.coming.take();
        if self.mark.is_some() {
            // `Pending` makes the connection flush what it has.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut piece = FrameBatch { first: std::mem::take(&mut self.frames), joined: BytesMut::new() };
        while piece.len() < PIECE {
            match self.events.as_mut().poll_next(context) {
                Poll::Ready(Some(emitted)) => {
                    if let Event::Session(_, SessionEvent::Mark(_)) = emitted.event {
                        self.coming = Some(emitted);
                        break;
                    }
                    if self.wants(&emitted.event) {
                        piece.add(self.wrapping.wrapped(emitted.encoded(|event| frames(&self.sessions, event))));
                    }
                }
                _ if piece.len() > 0 => break,
                Poll::Ready(None) => return Poll::Ready(Next::Cut),
                // The stream closes only after all earlier events are sent.
                Poll::Pending => {
                    ready!(self.closing.as_mut().poll(context));
                    return Poll::Ready(Next::Cut);
                }
            }
        }
        if piece.len() == 0 { self.poll_frame(context) } else { Poll::Ready(Next::Frame(piece.into_bytes())) }
    }
}

/// About how many bytes the connection gets at once.
const PIECE: usize = 16 << 10;

/// Frames that go to the connection together, because the connection's work per frame costs more than joining them.
struct FrameBatch {
    /// The only frames so far. They are shared with other readers until a second batch is joined.
    first: Bytes,
    joined: BytesMut,
}

impl FrameBatch {
    fn len(&self) -> usize {
        self.first.len() + self.joined.len()
    }

    fn add(&mut self, frames: Bytes) {
        if self.len() == 0 {
            self.first = frames;
        } else {
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
            self.joined.extend_from_slice(&frames);
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.first.is_empty() { self.joined.freeze() } else { self.first }
    }
}

impl Listener {
    /// Whether the listener may see the event and asked for it.
    fn wants(&self, event: &Event) -> bool {
        let may_see = match &self.principal {
            Principal::Application => true,
            Principal::Client(own) => {
                event.client() == Some(&own.client) && own.session.as_ref().is_none_or(|only| event.concerns(only))
            }
        };
        may_see && self.client.as_ref().is_none_or(|only| event.client() == Some(only))
    }
}

/// The beginning and the end of every frame.
const DATA: &[u8] = b"data: ";
const END: &[u8] = b"\n\n";

impl Wrapping {
    /// Wraps frames; each frame is on one line.
    fn wrapped(self, frames: &Bytes) -> Bytes {
        match self {
            Self::None => frames.clone(),
            Self::Directory => {
                let mut wrapped = BytesMut::new();
                let lines = frames.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(DATA));
                for payload in lines {
                    for piece in [DATA, b"{\"directory\":\"\",\"payload\":", payload, b"}", END] {
                        wrapped.extend_from_slice(piece);
                    }
                }
                wrapped.freeze()
            }
        }
    }
}

/// Writes an event as a frame on one line. Links replace data URLs, because files should not go to many readers.
fn frame(event: &wire::Event, link: &str) -> Bytes {
    let mut json = without_data_urls(json(event), link);
    if json.contains(['\n', '\r']) {
        // Raw JSON of clients can span lines; in JSON a line break is only white space.
        json = json.replace(['\n', '\r'], " ");
    }
    [DATA, json.as_bytes(), END].concat().into()
}

/// Encodes an event, usually as one frame. Some events are not part of this API, and some become two frames.
fn frames(sessions: &Sessions, event: &Event) -> Bytes {
    match event {
        Event::Requested(head) => {
            let request = request(head, 1);
            frame(&wire::Event::Request { client_id: head.client().to_string(), request }, &call_link(&head.request))
        }
        Event::Executing(head) => frame(&wire::Event::Executing(reference(head)), ""),
        Event::Finished(call) => {
            let (may_have_run, failure) = (call.may_have_run_without_result(), call.outcome.failure());
            let (call, link) = (reference(&call.head), call_link(&call.head.request));
            match failure {
                None => frame(&wire::Event::Completed { call, success: true }, &link),
                Some(error) => frame(&wire::Event::Failed { call, error, may_have_run }, &link),
            }
        }
        Event::Late(late) => {
            let (request_id, call) = (late.head.request.to_string(), reference(&late.head));
            let error = late.outcome.failure().unwrap_or_default();
            let may_have_run = late.may_have_run_without_result();
            frame(&wire::Event::Late { request_id, call, error, may_have_run }, &call_link(&late.head.request))
        }
        Event::Registered(client, _, tools) => frame(&wire::Event::Registered(changed(client, tools)), ""),
        Event::Unregistered(client, _, tools) => frame(&wire::Event::Unregistered(changed(client, tools)), ""),
        Event::Asked(ask) => several(&session::asked(ask), &call_link(&ask.call.request)),
        Event::Answered(ask, reply) => frame(&session::answered(ask, *reply), ""),
        Event::Session(of, event) => {
            several(&session::event(of, sessions.model_of(of), event), &session_link(&of.id, event))
        }
    }
}

fn several(events: &[wire::Event], link: &str) -> Bytes {
    match events {
        [one] => frame(one, link),
        events => events.iter().flat_map(|event| frame(event, link)).collect(),
    }
}

fn call_link(request: &RequestId) -> String {
    format!("/client-tools/calls/{request}")
}

/// The link to the file that an event would carry: to the call that returned it, or to the messages.
fn session_link(session: &SessionId, event: &SessionEvent) -> String {
    match event {
        SessionEvent::Turn(TurnEvent::Part { part, .. }) | SessionEvent::Snapshot { part, .. } => match &part.body {
            PartBody::Tool(ToolPart { request: Some(request), .. }) => call_link(request),
            _ => format!("/session/{session}/message"),
        },
        SessionEvent::Said(_) | SessionEvent::Turn(_) => format!("/session/{session}/message"),
        _ => format!("/session/{session}"),
    }
}

fn changed(client: &ClientId, tools: &[ToolId]) -> wire::ToolsChanged {
    wire::ToolsChanged { client_id: client.to_string(), tool_ids: tools.iter().map(ToString::to_string).collect() }
}

fn reference(head: &CallHead) -> wire::CallRef {
    wire::CallRef {
        session_id: head.session.to_string(),
        message_id: head.message.to_string(),
        call_id: head.call.to_string(),
        tool: head.tool.id.to_string(),
        client_id: head.client().to_string(),
    }
}
