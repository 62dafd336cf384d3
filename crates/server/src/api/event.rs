//! `GET /event`: all that happens, as server-sent events.

mod data_url;

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use handback_core::call::CallHead;
use handback_core::event::{Event, SessionEvent};
use handback_core::id::{ClientId, RequestId, SessionId, ToolId};
use handback_core::message::{PartBody, ToolPart};
use handback_core::sessions::Sessions;
use handback_wire::event as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use self::data_url::without_data_urls;
use super::client_tools::encode::{json, request};
use super::session::encode as session;
use crate::app::App;
use crate::auth::Principal;
use crate::transport::sse::{self, Next};

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(events)).routes(routes!(global_events))
}

/// All that happens, as server-sent events
///
/// A subscriber that cannot keep up is disconnected.
#[utoipa::path(get, path = "/event", tag = "events",
    responses((status = 200, description = "Server-sent events, each an `Event`; `server.connected` is the first", body = String, content_type = "text/event-stream")))]
async fn events(State(app): State<App>, principal: Principal) -> Response {
    follow(app, principal, Wrapping::None)
}

/// The same, each event in an envelope, as opencode's terminal reads them
#[utoipa::path(get, path = "/global/event", tag = "events",
    responses((status = 200, description = "Server-sent events, each `{directory, payload}` with an `Event` as its payload", body = String, content_type = "text/event-stream")))]
async fn global_events(State(app): State<App>, principal: Principal) -> Response {
    follow(app, principal, Wrapping::Directory)
}

/// How an event is wrapped.
#[derive(Debug, Clone, Copy)]
enum Wrapping {
    /// Not at all.
    None,
    /// As `{directory, payload}`, for opencode's terminal.
    Directory,
}

fn follow(app: App, principal: Principal, wrapping: Wrapping) -> Response {
    let lifetime = principal.lifetime(app.hub().clock().now());
    let interval = app.config().client_tools.keepalive_interval;
    let source = Listener {
        frames: wrapping.frame(&wire::Event::Connected {}, ""),
        wrapping,
        // Fused: whoever has missed something is asked once more while what came before is written out.
        events: Box::pin(
            stream::unfold(app.hub().subscribe(), async |mut events| Some((events.next().await?, events))).fuse(),
        ),
        closing: Box::pin(app.closing().clone().cancelled_owned()),
        sessions: app.sessions().clone(),
        principal,
    };
    sse::response(source, sse::KEEP_ALIVE, interval, lifetime)
}

struct Listener {
    /// What is to be written next.
    frames: Bytes,
    wrapping: Wrapping,
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    sessions: Sessions,
    principal: Principal,
}

impl sse::Source for Listener {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if !self.frames.is_empty() {
            return Poll::Ready(Next::Frame(std::mem::take(&mut self.frames)));
        }
        loop {
            let event = match self.events.as_mut().poll_next(context) {
                Poll::Ready(Some(event)) => event,
                Poll::Ready(None) => return Poll::Ready(Next::Cut),
                // Only when all that happened before is told.
                Poll::Pending => {
                    ready!(self.closing.as_mut().poll(context));
                    return Poll::Ready(Next::Cut);
                }
            };
            if may_see(&self.principal, &event) {
                let frames = self.wrapping.frames(&self.sessions, &event);
                if !frames.is_empty() {
                    return Poll::Ready(Next::Frame(frames));
                }
            }
        }
    }
}

fn may_see(principal: &Principal, event: &Event) -> bool {
    match principal {
        Principal::Application => true,
        Principal::Client(own) => {
            event.client() == Some(&own.client) && own.session.as_ref().is_none_or(|only| event.concerns(only))
        }
    }
}

impl Wrapping {
    /// An event as a frame, on one line, with a link in place of each data URL: events go to many, files should not.
    fn frame(self, event: &wire::Event, link: &str) -> Bytes {
        let mut json = without_data_urls(json(event), link);
        if json.contains(['\n', '\r']) {
            // Raw JSON of others may be on several lines; in JSON a line break is nothing but white space.
            json = json.replace(['\n', '\r'], " ");
        }
        Bytes::from(match self {
            Self::None => format!("data: {json}\n\n"),
            Self::Directory => format!("data: {{\"directory\":\"\",\"payload\":{json}}}\n\n"),
        })
    }

    /// What an event is on the wire: most often one frame; some are none to this API, some are told twice.
    fn frames(self, sessions: &Sessions, event: &Event) -> Bytes {
        match event {
            Event::Requested(head) => {
                let request = request(head, 1);
                self.frame(
                    &wire::Event::Request { client_id: head.client().to_string(), request },
                    &call_link(&head.request),
                )
            }
            Event::Executing(head) => self.frame(&wire::Event::Executing(reference(head)), ""),
            Event::Finished(call) => {
                let (call, failure, link) =
                    (reference(&call.head), call.outcome.failure(), call_link(&call.head.request));
                match failure {
                    None => self.frame(&wire::Event::Completed { call, success: true }, &link),
                    Some(error) => self.frame(&wire::Event::Failed { call, error }, &link),
                }
            }
            Event::Registered(client, _, tools) => self.frame(&wire::Event::Registered(changed(client, tools)), ""),
            Event::Unregistered(client, _, tools) => self.frame(&wire::Event::Unregistered(changed(client, tools)), ""),
            Event::Asked(ask) => {
                let link = call_link(&ask.call.request);
                session::asked(ask).iter().flat_map(|event| self.frame(event, &link)).collect()
            }
            Event::Answered(ask, reply) => self.frame(&session::answered(ask, *reply), ""),
            Event::Session(of, event) => {
                let link = session_link(&of.id, event);
                session::event(of, sessions.model_of(of), event)
                    .iter()
                    .flat_map(|event| self.frame(event, &link))
                    .collect()
            }
        }
    }
}

fn call_link(request: &RequestId) -> String {
    format!("/client-tools/calls/{request}")
}

/// Where a file is that an event would carry: at the call that brought it, or among the messages.
fn session_link(session: &SessionId, event: &SessionEvent) -> String {
    match event {
        SessionEvent::Part { part, .. } => match &part.body {
            PartBody::Tool(ToolPart { request: Some(request), .. }) => call_link(request),
            _ => format!("/session/{session}/message"),
        },
        SessionEvent::Message(_)
        | SessionEvent::UserPart { .. }
        | SessionEvent::PartRemoved { .. }
        | SessionEvent::Delta { .. } => format!("/session/{session}/message"),
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
