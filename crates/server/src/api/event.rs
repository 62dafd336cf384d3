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
use serde_json::Value;
use serde_json::value::to_raw_value;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::client_tools::encode::{json, request};
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
        first: Some(frame(&wire::Event::Connected {})),
        events: Box::pin(stream::unfold(app.hub().subscribe(), async |mut events| {
            Some((events.next().await?, events))
        })),
        closing: Box::pin(app.closing().clone().cancelled_owned()),
        principal,
    };
    sse::response(source, KEEP_ALIVE, interval, lifetime)
}

struct Listener {
    first: Option<Bytes>,
    events: Pin<Box<dyn Stream<Item = Event> + Send>>,
    closing: Pin<Box<dyn Future<Output = ()> + Send>>,
    principal: Principal,
}

impl sse::Source for Listener {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if let Some(first) = self.first.take() {
            return Poll::Ready(Next::Frame(first));
        }
        if self.closing.as_mut().poll(context).is_ready() {
            return Poll::Ready(Next::Cut);
        }
        loop {
            let Some(event) = ready!(self.events.as_mut().poll_next(context)) else { return Poll::Ready(Next::Cut) };
            if may_see(&self.principal, &event) {
                return Poll::Ready(Next::Frame(frame(&encode(&event))));
            }
        }
    }
}

fn may_see(principal: &Principal, event: &Event) -> bool {
    match principal {
        Principal::Application => true,
        Principal::Client(own) => {
            own.client == *event.client()
                && own.session.as_ref().is_none_or(|only| event.session().is_none_or(|session| session == only))
        }
    }
}

fn frame(event: &wire::Event) -> Bytes {
    Bytes::from(format!("data: {}\n\n", json(event)))
}

fn encode(event: &Event) -> wire::Event {
    match event {
        Event::Requested(head) => {
            wire::Event::Request { client_id: head.client().to_string(), request: without_data_urls(head) }
        }
        Event::Executing(head) => wire::Event::Executing(reference(head)),
        Event::Finished(call) => match call.outcome.failure() {
            None => wire::Event::Completed { call: reference(&call.head), success: true },
            Some(error) => wire::Event::Failed { call: reference(&call.head), error },
        },
        Event::Registered(client, tools) => wire::Event::Registered(changed(client, tools)),
        Event::Unregistered(client, tools) => wire::Event::Unregistered(changed(client, tools)),
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
    let text = request.input.get();
    // An escape could hide the scheme; then it is looked at closely as well.
    if (text.contains("data:") || text.contains("\\u"))
        && let Ok(mut input) = serde_json::from_str(text)
    {
        replace_data_urls(&mut input, &format!("/client-tools/calls/{}", head.request));
        if let Ok(input) = to_raw_value(&input) {
            request.input = input;
        }
    }
    request
}

fn replace_data_urls(value: &mut Value, link: &str) {
    match value {
        Value::String(text) if is_data_url(text) => *text = link.to_owned(),
        Value::Array(items) => items.iter_mut().for_each(|item| replace_data_urls(item, link)),
        Value::Object(fields) => fields.values_mut().for_each(|item| replace_data_urls(item, link)),
        _ => {}
    }
}

fn is_data_url(text: &str) -> bool {
    let text = text.trim_start();
    text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("data:")) && text.contains(',')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_urls_are_replaced_wherever_they_are() {
        let mut value = serde_json::json!({
            "image": "data:image/png;base64,AAAA", "deep": [{"file": "DATA:,x"}], "text": "the data: field", "n": 1,
        });
        replace_data_urls(&mut value, "/link");
        let expected =
            serde_json::json!({ "image": "/link", "deep": [{"file": "/link"}], "text": "the data: field", "n": 1 });
        assert_eq!(value, expected);
    }
}
