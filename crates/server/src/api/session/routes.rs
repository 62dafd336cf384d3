//! The endpoints.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use handback_core::id::{PermissionId, SessionId};
use handback_core::message::Session;
use handback_core::sessions::{Prompted, SessionError};
use handback_core::store::SessionFilter;
use handback_wire::session as wire;
use serde::Deserialize;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{decode, encode};
use crate::api::{Answer, PathValue, Query};
use crate::app::App;
use crate::auth::{ClientPrincipal, Principal};
use crate::body::{Json, Payload, parse};
use crate::problem::Problem;

/// How many sessions a listing has at most.
const LISTED_SESSIONS: usize = 1_000;

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(status))
        .routes(routes!(show, delete))
        .routes(routes!(prompt, messages))
        .routes(routes!(prompt_async))
        .routes(routes!(abort))
        .routes(routes!(tools))
        .routes(routes!(respond))
        .routes(routes!(reply))
        .routes(routes!(permissions))
}

/// A session that the caller may use.
async fn find(app: &App, principal: &Principal, id: &str) -> Result<Arc<Session>, Problem> {
    let id = SessionId::parse(id)?;
    let session = app.sessions().get(&id).await?;
    must_own(principal, &session)?;
    Ok(session)
}

/// Only whoever may use a session may do this.
pub(in crate::api) fn must_own(principal: &Principal, session: &Session) -> Result<(), Problem> {
    let Principal::Client(own) = principal else { return Ok(()) };
    principal.session(Some(session.id.clone()))?;
    if session.client.as_ref() == Some(&own.client) {
        Ok(())
    } else {
        Err(Problem::forbidden(format!("the session is not one of client {}", own.client)))
    }
}

/// Make a session
#[utoipa::path(post, path = "/session", tag = "sessions", request_body = wire::CreateSession,
    responses(
        (status = 200, body = wire::Session),
        (status = 400, description = "Bad body, unknown agent or model", body = wire::TurnError),
        (status = 403, description = "A client token makes sessions of its own client only", body = wire::TurnError),
    ))]
async fn create(
    State(app): State<App>,
    principal: Principal,
    headers: HeaderMap,
    payload: Payload,
) -> Result<Answer<wire::Session>, Problem> {
    let text = payload.text()?;
    // The SDK sends no body when there is nothing to say.
    let request = if text.trim().is_empty() { wire::CreateSession::default() } else { parse(text)? };
    let mut new = decode::session(request, &headers, app.hub().limits().input_depth)?;
    if let Principal::Client(own) = &principal {
        principal.must_be_client(new.client.get_or_insert_with(|| own.client.clone()))?;
        if let Some(only) = &own.session {
            return Err(Problem::forbidden(format!("the token is good for session {only} only")));
        }
        principal.must_be_allowed(&app.sessions().setup().agents, new.agent.as_deref(), None)?;
        if let Some(parent) = &new.parent {
            find(&app, &principal, parent.as_str()).await?;
        }
    }
    Ok(Answer(encode::session(&*app.sessions().create(new).await?)))
}

/// Which sessions to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ListQuery {
    /// At most so many; 1,000 when absent.
    limit: Option<usize>,
}

/// Which messages to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct MessagesQuery {
    /// At most so many, the newest; all when absent.
    limit: Option<usize>,
}

/// List sessions, those used last first
#[utoipa::path(get, path = "/session", tag = "sessions", params(ListQuery),
    responses((status = 200, body = Vec<wire::Session>), (status = 400, description = "Bad query", body = wire::TurnError)))]
async fn list(
    State(app): State<App>,
    principal: Principal,
    Query(query): Query<ListQuery>,
) -> Result<Answer<Vec<wire::Session>>, Problem> {
    let most = query.limit.unwrap_or(LISTED_SESSIONS).min(LISTED_SESSIONS);
    let sessions = visible(&app, &principal, most).await?;
    Ok(Answer(sessions.iter().map(|session| encode::session(session)).collect()))
}

/// The sessions that the caller may use, at most so many.
async fn visible(app: &App, principal: &Principal, most: usize) -> Result<Vec<Arc<Session>>, Problem> {
    let client = match principal {
        Principal::Application => None,
        Principal::Client(ClientPrincipal { session: Some(only), .. }) => {
            // Looked up, not listed: many others of the client may be newer.
            let only = match app.sessions().get(only).await {
                Ok(session) => Some(session),
                Err(SessionError::Unknown(_)) => None,
                Err(error) => return Err(error.into()),
            };
            return Ok(only.into_iter().filter(|session| must_own(principal, session).is_ok()).take(most).collect());
        }
        Principal::Client(own) => Some(own.client.clone()),
    };
    Ok(app.sessions().list(&SessionFilter { client, agent: None }, most).await?)
}

/// Say which sessions are busy
#[utoipa::path(get, path = "/session/status", tag = "sessions",
    responses((status = 200, description = "By session", body = BTreeMap<String, wire::Status>)))]
async fn status(
    State(app): State<App>,
    principal: Principal,
) -> Result<Answer<BTreeMap<String, wire::Status>>, Problem> {
    let sessions = visible(&app, &principal, LISTED_SESSIONS).await?;
    let status = |id: &SessionId| if app.sessions().is_busy(id) { wire::Status::Busy } else { wire::Status::Idle };
    Ok(Answer(sessions.iter().map(|session| (session.id.to_string(), status(&session.id))).collect()))
}

/// Show a session
#[utoipa::path(get, path = "/session/{sessionID}", tag = "sessions",
    params(("sessionID" = String, Path, description = "The session")),
    responses((status = 200, body = wire::Session), (status = 404, description = "No such session", body = wire::TurnError)))]
async fn show(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
) -> Result<Answer<wire::Session>, Problem> {
    Ok(Answer(encode::session(&*find(&app, &principal, &id).await?)))
}

/// Delete a session
///
/// With its messages and calls; what is under way is stopped.
#[utoipa::path(delete, path = "/session/{sessionID}", tag = "sessions",
    params(("sessionID" = String, Path, description = "The session")),
    responses((status = 200, body = bool), (status = 404, description = "No such session", body = wire::TurnError)))]
async fn delete(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
) -> Result<Answer<bool>, Problem> {
    let session = find(&app, &principal, &id).await?;
    match app.sessions().delete(&session).await? {
        true => Ok(Answer(true)),
        false => Err(SessionError::Unknown(session.id.clone()).into()),
    }
}

/// Say something, and wait for the answer
///
/// A turn that ends early is answered 200 as well, with `info.error`. Closing the connection does not stop the turn.
#[utoipa::path(post, path = "/session/{sessionID}/message", tag = "sessions", request_body = wire::Prompt,
    params(("sessionID" = String, Path, description = "The session")),
    responses(
        (status = 200, description = "The last message of the turn", body = wire::MessageWithParts),
        (status = 400, description = "Bad body, unknown agent or model", body = wire::TurnError),
        (status = 403, description = "Another client's session", body = wire::TurnError),
        (status = 404, description = "No such session", body = wire::TurnError),
        (status = 409, description = "Too many prompts wait, or the messageID is in use", body = wire::TurnError),
    ))]
async fn prompt(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
    headers: HeaderMap,
    Json(request): Json<wire::Prompt>,
) -> Result<Answer<wire::MessageWithParts>, Problem> {
    let Prompted { user, answer, .. } = begin(&app, &principal, &id, &headers, request).await?;
    let message = match answer {
        Some(answer) => answer.await.map_err(|_| Problem::not_found("the session was deleted before it answered"))?,
        None => user,
    };
    Ok(Answer(encode::message_with_parts(&message)))
}

/// Say something; the answer comes as events
#[utoipa::path(post, path = "/session/{sessionID}/prompt_async", tag = "sessions", request_body = wire::Prompt,
    params(("sessionID" = String, Path, description = "The session")),
    responses(
        (status = 204, description = "Its turn will come"),
        (status = 400, description = "Bad body, unknown agent or model", body = wire::TurnError),
        (status = 403, description = "Another client's session", body = wire::TurnError),
        (status = 404, description = "No such session", body = wire::TurnError),
        (status = 409, description = "Too many prompts wait, or the messageID is in use", body = wire::TurnError),
    ))]
async fn prompt_async(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
    headers: HeaderMap,
    Json(request): Json<wire::Prompt>,
) -> Result<StatusCode, Problem> {
    begin(&app, &principal, &id, &headers, request).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn begin(
    app: &App,
    principal: &Principal,
    id: &str,
    headers: &HeaderMap,
    request: wire::Prompt,
) -> Result<Prompted, Problem> {
    let session = find(app, principal, id).await?;
    let prompt = decode::prompt(app.hub(), request, headers)?;
    if let Some(client) = &prompt.client {
        principal.must_be_client(client)?;
    }
    principal.must_be_allowed(&app.sessions().setup().agents, prompt.agent.as_deref(), Some(&session))?;
    Ok(app.sessions().prompt(&session, prompt).await?)
}

/// List the messages of a session
#[utoipa::path(get, path = "/session/{sessionID}/message", tag = "sessions",
    params(("sessionID" = String, Path, description = "The session"), MessagesQuery),
    responses((status = 200, body = Vec<wire::MessageWithParts>), (status = 404, description = "No such session", body = wire::TurnError)))]
async fn messages(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
    Query(query): Query<MessagesQuery>,
) -> Result<Answer<Vec<wire::MessageWithParts>>, Problem> {
    let session = find(&app, &principal, &id).await?;
    let messages = app.sessions().messages(&session.id).await?;
    // The newest of them, in their order.
    let passed_over = messages.len().saturating_sub(query.limit.unwrap_or(usize::MAX));
    let shown = messages.iter().skip(passed_over);
    Ok(Answer(shown.map(|message| encode::message_with_parts(message)).collect()))
}

/// Stop the turn that is under way
///
/// Its open calls are cancelled, and their clients told.
#[utoipa::path(post, path = "/session/{sessionID}/abort", tag = "sessions",
    params(("sessionID" = String, Path, description = "The session")),
    responses((status = 200, body = bool), (status = 404, description = "No such session", body = wire::TurnError)))]
async fn abort(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
) -> Result<Answer<bool>, Problem> {
    let session = find(&app, &principal, &id).await?;
    app.sessions().abort(&session.id).await;
    Ok(Answer(true))
}

/// List what the model is offered in a session, and where each tool runs
#[utoipa::path(get, path = "/session/{sessionID}/tools", tag = "sessions",
    params(("sessionID" = String, Path, description = "The session")),
    responses((status = 200, body = Vec<wire::OfferedTool>), (status = 404, description = "No such session", body = wire::TurnError)))]
async fn tools(
    State(app): State<App>,
    principal: Principal,
    PathValue(id): PathValue,
) -> Result<Answer<Vec<wire::OfferedTool>>, Problem> {
    let session = find(&app, &principal, &id).await?;
    let agent = app.sessions().agent(session.agent.as_deref())?;
    let offered = app.sessions().offered(&session, session.client.as_ref(), &BTreeMap::new(), &[]);
    Ok(Answer(offered.iter().map(|tool| encode::offered(tool, agent, &session)).collect()))
}

/// Answer an ask
#[utoipa::path(post, path = "/session/{sessionID}/permissions/{permissionID}", tag = "sessions",
    request_body = wire::PermissionResponse,
    params(("sessionID" = String, Path, description = "The session"), ("permissionID" = String, Path, description = "The ask")),
    responses(
        (status = 200, body = bool),
        (status = 400, description = "Bad body, or an input that the tool does not take; the ask stays open", body = wire::TurnError),
        (status = 404, description = "No such ask, or it was answered", body = wire::TurnError),
    ))]
async fn respond(
    State(app): State<App>,
    principal: Principal,
    PathValue((session, permission)): PathValue<(String, String)>,
    Json(request): Json<wire::PermissionResponse>,
) -> Result<Answer<bool>, Problem> {
    let session = find(&app, &principal, &session).await?;
    let permission = PermissionId::parse(&permission)?;
    if app.hub().ask(&permission).is_none_or(|ask| ask.call.session != session.id) {
        return Err(Problem::not_found(format!("there is no open permission request {permission} in this session")));
    }
    let answer = decode::answer(request.response, request.input, request.message);
    app.sessions().answer(&permission, &principal.caller(), answer).await?;
    Ok(Answer(true))
}

/// Answer an ask, wherever it came from
#[utoipa::path(post, path = "/permission/{permissionID}/reply", tag = "sessions", request_body = wire::PermissionReply,
    params(("permissionID" = String, Path, description = "The ask")),
    responses(
        (status = 200, body = bool),
        (status = 400, description = "Bad body, or an input that the tool does not take; the ask stays open", body = wire::TurnError),
        (status = 404, description = "No such ask, or it was answered", body = wire::TurnError),
    ))]
async fn reply(
    State(app): State<App>,
    principal: Principal,
    PathValue(permission): PathValue,
    Json(request): Json<wire::PermissionReply>,
) -> Result<Answer<bool>, Problem> {
    let permission = PermissionId::parse(&permission)?;
    if let Some(ask) = app.hub().ask(&permission) {
        // Whoever answers must be one who may use the session.
        find(&app, &principal, ask.call.session.as_str()).await?;
    }
    let answer = decode::answer(request.reply, request.input, request.message);
    app.sessions().answer(&permission, &principal.caller(), answer).await?;
    Ok(Answer(true))
}

/// List the asks that are open, the oldest first
#[utoipa::path(get, path = "/permission", tag = "sessions", responses((status = 200, body = Vec<wire::Permission>)))]
async fn permissions(State(app): State<App>, principal: Principal) -> Answer<Vec<wire::Permission>> {
    let caller = principal.caller();
    let asks = app.hub().asks(None);
    let visible = asks.iter().filter(|ask| caller.may_touch(ask.call.client(), &ask.call.session));
    Answer(visible.map(|ask| encode::permission(ask)).collect())
}
