//! The routes of chats.

use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use handback_core::id::SessionId;
use handback_core::sessions::{Manners, NotPlanned, Playback};
use handback_core::store::{CallFilter, CallState, Most, Session};
use handback_wire::chat as wire;
use serde_json::json;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::decode;
use super::encode::{self, Encoder, Surroundings};
use crate::api::conversation::{self, Face};
use crate::api::session::{client_header, connection, must_own};
use crate::api::{Access, Answered, PathValue};
use crate::app::App;
use crate::auth::Principal;
use crate::body::{Json, Payload};
use crate::problem::Problem;

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(chat)).routes(routes!(show)).routes(routes!(resume)).routes(routes!(abort))
}

/// Say something in a chat, or go on with it
///
/// What the AI SDK's `useChat` sends; the answer is its UI message stream. Closing the connection does not stop the
/// turn: come back to it with `GET /api/chat/{id}/stream`.
#[utoipa::path(post, path = "/api/chat", tag = "chats", request_body = wire::ChatRequest,
    responses(
        (status = 200, description = "The UI message stream", body = String, content_type = "text/event-stream"),
        (status = 400, description = "Bad body, unknown agent or model, a tool of the page has the name of another"),
        (status = 403, description = "Another client's chat"),
        (status = 409, description = "Too many prompts wait, the message is being answered elsewhere, or the conversation has gone on"),
    ))]
async fn chat(Access(app, principal): Access, headers: HeaderMap, payload: Payload) -> Result<Response, Problem> {
    let mut chat = decode::chat(&app, &payload).await?;
    let needs = &mut chat.page.request.needs;
    needs.client = client_header(&headers, needs.client.take())?;
    needs.connection = needs.connection.take().or_else(|| connection(None, &headers));
    let face =
        Face { manners: Manners::default(), yields_asks: chat.yields_asks, has_frontend: true, makes_sessions: true };
    match conversation::converse(&app, &principal, chat.page, face).await? {
        Ok(playback) => Ok(stream(&app, &principal, playback, chat.message)),
        Err(NotPlanned::NothingNew) => Err(Problem::invalid(
            "there is nothing to answer: the last message is no user's, and its calls are not known in this chat",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Streams a turn; `message` is the page's id of the message that continues.
fn stream(app: &App, principal: &Principal, playback: Playback, message: Option<String>) -> Response {
    let frontend_tools = app.sessions().setup().frontend_tools.iter().map(|tool| tool.name.to_string());
    let encoder = Encoder::new(frontend_tools, message, playback.calls_over());
    let silence = app.config().client_tools.keepalive_interval;
    let mut response = conversation::response(app, principal, playback.into_stream(), encoder, silence);
    response.headers_mut().insert("x-vercel-ai-ui-message-stream", HeaderValue::from_static("v1"));
    response
}

/// Finds the session of a chat, if it exists and the caller may use it.
async fn find(app: &App, principal: &Principal, id: &str) -> Result<Option<Arc<Session>>, Problem> {
    let session = app.sessions().find(&SessionId::parse(id)?).await?;
    session.iter().try_for_each(|session| must_own(principal, session))?;
    Ok(session)
}

/// Show a chat with its messages, as a page has them
#[utoipa::path(get, path = "/api/chat/{id}", tag = "chats",
    responses((status = 200, body = wire::Chat), (status = 404, description = "No such chat")))]
async fn show(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<wire::Chat> {
    let session = find(&app, &principal, &id).await?.ok_or_else(|| unknown(&id))?;
    // The asks are read first: if one is answered meanwhile, its call has moved on when the messages are read.
    let asks = app.hub().asks(Some(&session.id));
    let of_session = CallFilter { client: None, session: Some(session.id.clone()) };
    let shown = app.hub().calls(&of_session, Some(CallState::Offered), None, Most::items(usize::MAX)).await?.0;
    let around = Surroundings {
        asks: asks.iter().map(|ask| (ask.call.call.clone(), ask.id.clone())).collect(),
        shown: shown.iter().map(|call| call.head.call.clone()).collect(),
        server_tools: app.sessions().setup().tools.iter().map(|tool| tool.spec().name()).collect(),
    };
    let messages = encode::messages(&app.sessions().messages(&session.id).await?, &around);
    Ok(Json(wire::Chat { id, messages }))
}

/// Come back to the turn that is under way, from its beginning
#[utoipa::path(get, path = "/api/chat/{id}/stream", tag = "chats",
    responses(
        (status = 200, description = "The UI message stream", body = String, content_type = "text/event-stream"),
        (status = 204, description = "No turn of a page is under way"),
        (status = 403, description = "Another client's chat"),
    ))]
async fn resume(Access(app, principal): Access, PathValue(id): PathValue) -> Result<Response, Problem> {
    let Some(session) = find(&app, &principal, &id).await? else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    Ok(match app.sessions().play_back(&session).await? {
        Some(playback) => stream(&app, &principal, playback, None),
        None => StatusCode::NO_CONTENT.into_response(),
    })
}

/// Stop the turn that is under way
#[utoipa::path(post, path = "/api/chat/{id}/abort", tag = "chats",
    responses((status = 200, description = "It is over"), (status = 404, description = "No such chat")))]
async fn abort(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<serde_json::Value> {
    let session = find(&app, &principal, &id).await?.ok_or_else(|| unknown(&id))?;
    app.sessions().abort(&session.id).await?;
    Ok(Json(json!({ "ok": true })))
}

fn unknown(id: &str) -> Problem {
    Problem::not_found(format!("there is no chat {id}"))
}
