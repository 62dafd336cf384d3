//! The routes of the session API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use handback_core::id::{PermissionId, SessionId};
use handback_core::sessions::{Prompted, SessionError};
use handback_core::store::{Most, Page, Session, SessionFilter, SessionPlace};
use handback_wire::error::ErrorCode;
use handback_wire::session as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::history::MessageStream;
use super::{decode, encode};
use crate::api::listing::{Cursor, LISTED, Listed, PageQuery, bad_cursor};
use crate::api::{Access, Answered, PathValue, Protocol, Query};
use crate::app::App;
use crate::auth::{ClientPrincipal, Principal};
use crate::body::{Json, Payload, parse_or_default};
use crate::problem::Problem;

/// About how many bytes of sessions are read at a time when all of them are read.
const LISTED_BYTES: usize = 1 << 20;

/// How long an answer waits until listeners have received the session's events.
const HEARD_WITHIN: Duration = Duration::from_millis(100);

/// The routes of this API.
pub fn routes() -> Protocol {
    let routes = OpenApiRouter::new()
        .routes(routes!(create, list))
        .routes(routes!(status))
        .routes(routes!(show, delete))
        .routes(routes!(children))
        .routes(routes!(todo))
        .routes(routes!(diff))
        .routes(routes!(prompt, messages))
        .routes(routes!(prompt_async))
        .routes(routes!(abort))
        .routes(routes!(tools))
        .routes(routes!(respond))
        .routes(routes!(reply))
        .routes(routes!(permissions));
    Protocol { routes, errors: encode::ERRORS }
}

/// Finds a session that the caller may use.
pub(in crate::api) async fn find(app: &App, principal: &Principal, id: &str) -> Result<Arc<Session>, Problem> {
    let id = SessionId::parse(id)?;
    let session = app.sessions().get(&id).await?;
    must_own(principal, &session)?;
    Ok(session)
}

/// Refuses a caller that may not use the session.
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
#[utoipa::path(post, path = "/session", tag = "sessions", request_body = Option<wire::CreateSession>,
    responses(
        (status = 200, body = wire::Session),
        (status = 400, description = "Bad body, unknown agent or model"),
        (status = 403, description = "A client token makes sessions of its own client only"),
        (status = 404, description = "There is no session `parentID`"),
        (status = 409, description = "A session of another client has that `id`"),
        (status = 507, description = "A quota is used up; delete sessions"),
    ))]
async fn create(Access(app, principal): Access, headers: HeaderMap, payload: Payload) -> Answered<wire::Session> {
    // The SDK sends no body when it has no options.
    let request: wire::CreateSession = payload.read(&app, parse_or_default).await?;
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
    let session = match new.id.take() {
        None => app.sessions().create(new).await?,
        Some(id) => app.sessions().create_once(id, new).await?,
    };
    Ok(Json(shown(&app, &session)))
}

/// List sessions, those used last first
///
/// A session that is used while somebody pages through them moves to the first page.
#[utoipa::path(get, path = "/session", tag = "sessions", params(PageQuery),
    responses((status = 200, body = Vec<wire::Session>, headers(("x-next-cursor" = String, description = "The `cursor` of the next page; absent on the last")))))]
async fn list(
    Access(app, principal): Access,
    Query(query): Query<PageQuery>,
) -> Result<Listed<Json<Vec<wire::Session>>>, Problem> {
    let after = query.cursor(|cursor| match cursor {
        Cursor::Sessions(place) => Some(place),
        _ => None,
    })?;
    let page = visible(&app, &principal, SessionFilter::default(), after.as_ref(), query.most()).await?;
    let last = page.items.last().filter(|_| page.has_more);
    let next = last.map(|last| Cursor::Sessions(SessionPlace::from(&**last)));
    Ok(Listed { page: Json(page.items.iter().map(|session| shown(&app, session)).collect()), next })
}

fn shown(app: &App, session: &Session) -> wire::Session {
    encode::session(session, app.sessions().model_of(session))
}

/// A page of the sessions that match a filter and that the caller may use.
pub(in crate::api) async fn visible(
    app: &App,
    principal: &Principal,
    mut filter: SessionFilter,
    after: Option<&SessionPlace>,
    most: Most,
) -> Result<Page<Arc<Session>>, Problem> {
    match principal {
        Principal::Application => {}
        Principal::Client(ClientPrincipal { session: Some(only), .. }) => {
            // The session is looked up, because in a listing many newer ones of the client may come first.
            let only = app.sessions().find(only).await?;
            let own = only.into_iter().filter(|session| must_own(principal, session).is_ok());
            let rest = own
                .filter(|session| filter.takes(session))
                .filter(|session| after.is_none_or(|after| SessionPlace::from(&**session) < *after));
            return Ok(Page { items: rest.take(most.items).collect(), has_more: false });
        }
        Principal::Client(own) => filter.client = Some(own.client.clone()),
    }
    Ok(app.sessions().list(&filter, after, most).await?)
}

/// Say which sessions are busy
#[utoipa::path(get, path = "/session/status", tag = "sessions",
    responses((status = 200, description = "By session", body = BTreeMap<String, wire::Status>)))]
async fn status(Access(app, principal): Access) -> Answered<BTreeMap<String, wire::Status>> {
    let status = |session: &Arc<Session>| {
        let is_busy = app.sessions().is_busy(&session.id);
        (session.id.to_string(), if is_busy { wire::Status::Busy } else { wire::Status::Idle })
    };
    Ok(Json(recently_used(&app, &principal, &SessionFilter::default()).await?.iter().map(status).collect()))
}

/// The newest sessions that match a filter and that the caller may use, up to the bound of a list.
async fn recently_used(app: &App, principal: &Principal, filter: &SessionFilter) -> Result<Vec<Arc<Session>>, Problem> {
    let mut found: Vec<Arc<Session>> = Vec::new();
    loop {
        let (after, most) = (found.last().map(|last| SessionPlace::from(&**last)), LISTED - found.len());
        let most = Most { items: most, bytes: LISTED_BYTES };
        let page = visible(app, principal, filter.clone(), after.as_ref(), most).await?;
        found.extend(page.items);
        if !page.has_more || found.len() >= LISTED {
            return Ok(found);
        }
    }
}

/// Show a session
#[utoipa::path(get, path = "/session/{sessionID}", tag = "sessions",
    responses((status = 200, body = wire::Session)))]
async fn show(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<wire::Session> {
    Ok(Json(shown(&app, &*find(&app, &principal, &id).await?)))
}

/// List the sessions that came from one
#[utoipa::path(get, path = "/session/{sessionID}/children", tag = "sessions",
    responses((status = 200, body = Vec<wire::Session>)))]
async fn children(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<Vec<wire::Session>> {
    let parent = find(&app, &principal, &id).await?;
    let children = SessionFilter { parent: Some(parent.id.clone()), ..SessionFilter::default() };
    let found = recently_used(&app, &principal, &children).await?;
    Ok(Json(found.iter().map(|session| shown(&app, session)).collect()))
}

/// Tasks of a session: there are none
#[utoipa::path(get, path = "/session/{sessionID}/todo", tag = "sessions",
    responses((status = 200, body = Vec<Object>)))]
async fn todo(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<[(); 0]> {
    find(&app, &principal, &id).await?;
    Ok(Json([]))
}

/// Files that a session has changed: there are none
#[utoipa::path(get, path = "/session/{sessionID}/diff", tag = "sessions",
    responses((status = 200, body = Vec<Object>)))]
async fn diff(access: Access, id: PathValue) -> Answered<[(); 0]> {
    todo(access, id).await
}

/// Delete a session
///
/// With its messages and calls; what is under way is stopped.
#[utoipa::path(delete, path = "/session/{sessionID}", tag = "sessions",
    responses((status = 200, body = bool, content_type = "application/json")))]
async fn delete(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<bool> {
    let session = find(&app, &principal, &id).await?;
    match app.sessions().delete(&session).await? {
        true => Ok(Json(true)),
        false => Err(SessionError::Unknown(session.id.clone()).into()),
    }
}

/// Say something, and wait for the answer
///
/// A turn that ends early is answered 200 as well, with `info.error`. Closing the connection does not stop the turn.
#[utoipa::path(post, path = "/session/{sessionID}/message", tag = "sessions", request_body = wire::Prompt,
    responses(
        (status = 200, description = "The last message of the turn", body = wire::MessageWithParts),
        (status = 400, description = "Bad body, unknown agent or model"),
        (status = 403, description = "Another client's session"),
        (status = 409, description = "Too many prompts wait, or the messageID is in use"),
        (status = 507, description = "A quota is used up; delete sessions"),
    ))]
async fn prompt(
    Access(app, principal): Access,
    PathValue(id): PathValue,
    headers: HeaderMap,
    Json(request): Json<wire::Prompt>,
) -> Answered<wire::MessageWithParts> {
    let (session, Prompted { user, answer, .. }) = begin(&app, &principal, &id, &headers, request).await?;
    let message = match answer {
        Some(answer) => match answer.await {
            Ok(answer) => answer,
            Err(_) => return Err(unanswered(&app, &session).await),
        },
        None => user,
    };
    // Some clients leave when they have the answer, so the events go first.
    _ = tokio::time::timeout(HEARD_WITHIN, app.hub().heard(&session)).await;
    Ok(Json(encode::message_with_parts(&message)))
}

/// The reason why a prompt has no answer.
async fn unanswered(app: &App, session: &Session) -> Problem {
    if app.hub().is_leaving() {
        return SessionError::ShuttingDown.into();
    }
    match app.sessions().get(&session.id).await {
        Ok(_) => Problem::new(
            ErrorCode::Conflict,
            "the conversation was taken up from an earlier message before this was answered",
        ),
        Err(_) => Problem::not_found("the session was deleted before it answered"),
    }
}

/// Say something; the answer comes as events
#[utoipa::path(post, path = "/session/{sessionID}/prompt_async", tag = "sessions", request_body = wire::Prompt,
    responses(
        (status = 204, description = "Its turn will come"),
        (status = 400, description = "Bad body, unknown agent or model"),
        (status = 403, description = "Another client's session"),
        (status = 409, description = "Too many prompts wait, or the messageID is in use"),
        (status = 507, description = "A quota is used up; delete sessions"),
    ))]
async fn prompt_async(
    Access(app, principal): Access,
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
) -> Result<(Arc<Session>, Prompted), Problem> {
    let session = find(app, principal, id).await?;
    let prompt = decode::prompt(app.hub(), request, headers)?;
    if let Some(client) = &prompt.needs.client {
        principal.must_be_client(client)?;
    }
    principal.must_be_allowed(&app.sessions().setup().agents, prompt.agent.as_deref(), Some(&session))?;
    let prompted = app.sessions().prompt(&session, prompt).await?;
    Ok((session, prompted))
}

/// List the messages of a session
///
/// All of them; with `limit`, the newest, in order, and with `cursor` the newest before those of the page that gave it.
#[utoipa::path(get, path = "/session/{sessionID}/message", tag = "sessions",
    params(PageQuery),
    responses((status = 200, body = Vec<wire::MessageWithParts>, headers(("x-next-cursor" = String, description = "The `cursor` of the page with older ones; absent on the last")))))]
async fn messages(
    Access(app, principal): Access,
    PathValue(id): PathValue,
    Query(query): Query<PageQuery>,
) -> Result<Listed<Response>, Problem> {
    let session = find(&app, &principal, &id).await?;
    let before = query.cursor(|cursor| match cursor {
        Cursor::Messages(message) => Some(message),
        _ => None,
    })?;
    let mut history = MessageStream { app: app.clone(), session: session.id.clone(), after: None, left: usize::MAX };
    let mut next = None;
    if query.limit.is_some() || before.is_some() {
        let most = query.most().items;
        // One more id than is shown tells where the page begins and whether there are older messages.
        let ids = app.sessions().newest_messages(&session.id, before.as_ref(), most + 1).await?;
        let ids = ids.ok_or_else(bad_cursor)?;
        history.left = ids.len().min(most);
        history.after = ids.get(most).cloned();
        let oldest = most.checked_sub(1).and_then(|oldest| ids.get(oldest));
        next = oldest.filter(|_| ids.len() > most).cloned().map(Cursor::Messages);
    }
    Ok(Listed { page: history.into_response().await?, next })
}

/// Stop the turn that is under way
///
/// Its open calls are cancelled, and their clients told.
#[utoipa::path(post, path = "/session/{sessionID}/abort", tag = "sessions",
    responses((status = 200, body = bool, content_type = "application/json")))]
async fn abort(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<bool> {
    let session = find(&app, &principal, &id).await?;
    app.sessions().abort(&session.id).await?;
    Ok(Json(true))
}

/// List what the model is offered in a session, and where each tool runs
#[utoipa::path(get, path = "/session/{sessionID}/tools", tag = "sessions",
    responses((status = 200, body = Vec<wire::OfferedTool>)))]
async fn tools(Access(app, principal): Access, PathValue(id): PathValue) -> Answered<Vec<wire::OfferedTool>> {
    let session = find(&app, &principal, &id).await?;
    let agent = app.sessions().agent(session.agent.as_deref())?;
    let offered = app.sessions().offered(&session, session.client.as_ref(), &BTreeMap::new(), &[]);
    Ok(Json(offered.iter().map(|tool| encode::offered(tool, agent, &session)).collect()))
}

/// Answer an ask
#[utoipa::path(post, path = "/session/{sessionID}/permissions/{permissionID}", tag = "sessions",
    request_body = wire::PermissionResponse,
    responses(
        (status = 200, body = bool, content_type = "application/json"),
        (status = 400, description = "Bad body, or an input that the tool does not take; the ask stays open"),
        (status = 404, description = "No such ask, or it was answered"),
    ))]
async fn respond(
    Access(app, principal): Access,
    PathValue((session, permission)): PathValue<(String, String)>,
    Json(request): Json<wire::PermissionResponse>,
) -> Answered<bool> {
    let session = find(&app, &principal, &session).await?;
    let permission = PermissionId::parse(&permission)?;
    if app.hub().ask(&permission).is_none_or(|ask| ask.call.session != session.id) {
        return Err(Problem::not_found(format!("there is no open permission request {permission} in this session")));
    }
    let answer = decode::answer(request.response, request.input, request.message);
    app.sessions().answer(&permission, &principal.actor(), answer).await?;
    Ok(Json(true))
}

/// Answer an ask, wherever it came from
#[utoipa::path(post, path = "/permission/{permissionID}/reply", tag = "sessions", request_body = wire::PermissionReply,
    responses(
        (status = 200, body = bool, content_type = "application/json"),
        (status = 400, description = "Bad body, or an input that the tool does not take; the ask stays open"),
        (status = 404, description = "No such ask, or it was answered"),
    ))]
async fn reply(
    Access(app, principal): Access,
    PathValue(permission): PathValue,
    Json(request): Json<wire::PermissionReply>,
) -> Answered<bool> {
    let permission = PermissionId::parse(&permission)?;
    if let Some(ask) = app.hub().ask(&permission) {
        // The caller must be allowed to use the session of the ask.
        find(&app, &principal, ask.call.session.as_str()).await?;
    }
    let answer = decode::answer(request.reply, request.input, request.message);
    app.sessions().answer(&permission, &principal.actor(), answer).await?;
    Ok(Json(true))
}

/// List the asks that are open, the oldest first
#[utoipa::path(get, path = "/permission", tag = "sessions", responses((status = 200, body = Vec<wire::Permission>)))]
async fn permissions(Access(app, principal): Access) -> Json<Vec<wire::Permission>> {
    let actor = principal.actor();
    let asks = app.hub().asks(None);
    let visible = asks.iter().filter(|ask| actor.may_touch(ask.call.client(), &ask.call.session));
    Json(visible.map(|ask| encode::permission(ask)).collect())
}
