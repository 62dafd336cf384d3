//! `GET /event`: all that happens, as server-sent events.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, stream};
use handback_core::call::CallHead;
use handback_core::event::Event;
use handback_core::id::{ClientId, ToolId};
use handback_wire::client_tools::ToolRequest;
use handback_wire::event as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::client_tools::encode::{json, request};
use super::session::encode as session;
use crate::app::App;
use crate::auth::Principal;
use crate::transport::sse::{self, Next};

/// A comment, which readers pass over.
const KEEP_ALIVE: &str = ": keep-alive\n\n";

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(events))
}

/// All that happens, as server-sent events
///
/// A subscriber that cannot keep up is disconnected.
#[utoipa::path(get, path = "/event", tag = "events",
    responses((status = 200, description = "`server.connected` first", body = wire::Event, content_type = "text/event-stream")))]
async fn events(State(app): State<App>, principal: Principal) -> Response {
    let lifetime =
        principal.expires().map(|expires| expires.duration_since(app.hub().clock().now()).unwrap_or_default());
    let interval = app.config().client_tools.keepalive_interval;
    let source = Listener {
        frames: frame(&wire::Event::Connected {}),
        events: Box::pin(stream::unfold(app.hub().subscribe(), async |mut events| {
            Some((events.next().await?, events))
        })),
        closing: Box::pin(app.closing().clone().cancelled_owned()),
        principal,
    };
    sse::response(source, KEEP_ALIVE, interval, lifetime)
}

struct Listener {
    /// What is to be written next.
    frames: Bytes,
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    principal: Principal,
}

impl sse::Source for Listener {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if !self.frames.is_empty() {
            return Poll::Ready(Next::Frame(std::mem::take(&mut self.frames)));
        }
        if self.closing.as_mut().poll(context).is_ready() {
            return Poll::Ready(Next::Cut);
        }
        loop {
            let Some(event) = ready!(self.events.as_mut().poll_next(context)) else { return Poll::Ready(Next::Cut) };
            let frames = if may_see(&self.principal, &event) { frames(&event) } else { Bytes::new() };
            if !frames.is_empty() {
                return Poll::Ready(Next::Frame(frames));
            }
        }
    }
}

fn may_see(principal: &Principal, event: &Event) -> bool {
    match principal {
        Principal::Application => true,
        Principal::Client(own) => {
            event.client() == Some(&own.client)
                && own.session.as_ref().is_none_or(|only| event.session().is_none_or(|session| session == only))
        }
    }
}

fn frame(event: &wire::Event) -> Bytes {
    Bytes::from(format!("data: {}\n\n", json(event)))
}

/// What an event is on the wire: most often one frame; some are none to this API, some are told twice.
fn frames(event: &Event) -> Bytes {
    match event {
        Event::Requested(head) => {
            frame(&wire::Event::Request { client_id: head.client().to_string(), request: without_data_urls(head) })
        }
        Event::Executing(head) => frame(&wire::Event::Executing(reference(head))),
        Event::Finished(call) => frame(&match call.outcome.failure() {
            None => wire::Event::Completed { call: reference(&call.head), success: true },
            Some(error) => wire::Event::Failed { call: reference(&call.head), error },
        }),
        Event::Registered(client, tools) => frame(&wire::Event::Registered(changed(client, tools))),
        Event::Unregistered(client, tools) => frame(&wire::Event::Unregistered(changed(client, tools))),
        Event::Asked(ask) => session::asked(ask).iter().flat_map(frame).collect(),
        Event::Answered(ask, reply) => frame(&session::answered(ask, *reply)),
        Event::Session(of, event) => session::event(of, event).iter().flat_map(frame).collect(),
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

/// The call with a link to itself in place of each data URL: events go to many, files should not.
fn without_data_urls(head: &CallHead) -> ToolRequest {
    let mut request = request(head, 1);
    request.input =
        session::without_data_urls(&request.input, &format!("/client-tools/calls/{}", head.request)).into_owned();
    request
}
