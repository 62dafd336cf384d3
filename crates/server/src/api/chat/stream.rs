//! A turn on its way to a page: what was stored, what the turn tells, and its end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::http::HeaderValue;
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, stream};
use handback_core::event::SessionEvent;
use handback_core::id::PermissionId;
use handback_core::message::{Message, PartBody, ToolPart, ToolState};
use handback_core::sessions::{Feed, RunEvent};

use super::encode::{Encoder, Settled};
use crate::app::App;
use crate::auth::Principal;
use crate::transport::sse::{self, Next};

/// Streams a turn: first these messages, which are complete, then what the turn tells, if one is under way.
pub(super) fn response(
    app: &App,
    principal: &Principal,
    mut encoder: Encoder,
    stored: &[Arc<Message>],
    feed: Option<&Feed>,
) -> Response {
    stored.iter().for_each(|message| encoder.stored(message));
    let events: Pin<Box<dyn Stream<Item = RunEvent> + Send>> = match feed.map(Feed::follow) {
        Some(follower) => {
            Box::pin(stream::unfold(follower, async |mut follower| Some((follower.next().await?, follower))))
        }
        None => {
            stored.last().into_iter().for_each(|last| encoder.ended_with(last));
            Box::pin(stream::empty())
        }
    };
    let source = Turn { encoder, events, is_over: false };
    let lifetime = principal.lifetime(app.hub().clock().now());
    let mut response = sse::response(source, sse::KEEP_ALIVE, app.config().client_tools.keepalive_interval, lifetime);
    response.headers_mut().insert("x-vercel-ai-ui-message-stream", HeaderValue::from_static("v1"));
    response
}

/// What a turn has settled already: calls that are over, questions that are answered.
pub(super) fn settled(feed: &Feed) -> Settled {
    let mut settled = Settled::default();
    feed.look(|told| {
        for event in told {
            match event {
                RunEvent::Session(SessionEvent::Part { part, .. }) => {
                    if let PartBody::Tool(ToolPart { call, state: ToolState::Done { .. }, .. }) = &part.body {
                        settled.calls.insert(call.clone());
                    }
                }
                RunEvent::Answered(ask, _) => _ = settled.asks.insert(ask.id.clone()),
                RunEvent::Session(_) | RunEvent::Asked(_) | RunEvent::Settled(_) => {}
            }
        }
    });
    settled
}

/// Whether a turn has asked a question.
pub(super) fn has_asked(feed: &Feed, id: &PermissionId) -> bool {
    feed.look(|told| told.iter().any(|event| matches!(event, RunEvent::Asked(ask) if ask.id == *id)))
}

struct Turn {
    encoder: Encoder,
    events: Pin<Box<dyn Stream<Item = RunEvent> + Send>>,
    is_over: bool,
}

impl sse::Source for Turn {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        if self.is_over {
            return Poll::Ready(Next::End);
        }
        loop {
            let written = self.encoder.take();
            if !written.is_empty() {
                return Poll::Ready(Next::Frame(written));
            }
            match self.events.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => {
                    self.encoder.event(&event);
                    if !self.encoder.waits_for_user() {
                        continue;
                    }
                }
                Poll::Ready(None) => {}
            }
            self.is_over = true;
            let end: Bytes = self.encoder.end();
            return Poll::Ready(Next::Frame(end));
        }
    }
}
