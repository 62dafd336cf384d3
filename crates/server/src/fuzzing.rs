//! Doors for the fuzz targets of `handback-testkit`: what reads input from outside, and is private otherwise. They are no
//! part of the API.

use axum::body::Body;
use axum::http::{Request, Response};
use bytes::Bytes;
use handback_core::calls::Connection;
use handback_core::sessions::ModelEvent;

use crate::app::{App, Routes};
use crate::config::ProviderKind;
use crate::{api, gate, provider};

/// Answers a request as a connection would, without a socket.
pub async fn answer(app: &App, routes: &Routes, request: Request<Bytes>) -> Response<Body> {
    let router = routes.router.clone().with_state(app.clone());
    gate::handle(app, router, &routes.errors, request.map(Body::from)).await
}

/// Answers the messages of a client's WebSocket; `None` is a message that is not text.
pub async fn answer_messages(app: &App, connection: Connection, messages: Vec<Option<String>>) -> Vec<String> {
    api::client_tools::answer_messages(app, connection, messages).await
}

/// Reads a provider's answer that comes in these pieces. An error is in words.
pub async fn model_events(kind: ProviderKind, pieces: Vec<Bytes>) -> Vec<Result<ModelEvent, String>> {
    provider::events_of(kind, pieces).await
}
