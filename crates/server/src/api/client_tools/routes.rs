//! The routes of the client-tools API.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::extract::State;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use handback_core::calls::{Connection, Opening, Taken};
use handback_core::id::{ClientId, ConnectionName, EventId, RequestId, SessionId};
use handback_core::store::CallFilter;
use handback_wire::client_tools as wire;
use handback_wire::error::ErrorCode;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{decode, encode, socket};
use crate::api::listing::{Cursor, Listed, PageQuery};
use crate::api::{Access, Answered, Application, PathValue, Query};
use crate::app::App;
use crate::auth::Principal;
use crate::body::{Json, Payload};
use crate::problem::Problem;
use crate::transport::sse;

/// The longest time that a request waits for a call to end.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(register))
        .routes(routes!(unregister, unregister_by_post))
        .routes(routes!(execute))
        .routes(routes!(result))
        .routes(routes!(cancel))
        .routes(routes!(list_tools))
        .routes(routes!(list_tools_of))
        .routes(routes!(list_clients))
        .routes(routes!(list_calls))
        .routes(routes!(show_call))
        .routes(routes!(adopt))
        .routes(routes!(pending))
        .routes(routes!(web_socket))
        .routes(routes!(disconnect))
}

/// Register a client's tools
///
/// All of them are registered or none; the same id again replaces the tool.
#[utoipa::path(post, path = "/client-tools/register", tag = "client-tools", request_body = wire::RegisterRequest,
    responses(
        (status = 200, body = wire::Registered),
        (status = 400, description = "Bad body, bad id, or a schema that cannot be used; it names the tool"),
        (status = 403, description = "A session that is not the client's"),
        (status = 409, description = "Another client has a tool of that id; or the token is limited to a session, and its client has another tool of that id elsewhere"),
        (status = 413, description = "The body, a schema or the number of tools is too large"),
    ))]
async fn register(
    Access(app, principal): Access,
    Json(request): Json<wire::RegisterRequest>,
) -> Answered<wire::Registered> {
    let client = ClientId::parse(&request.client_id)?;
    principal.must_be_client(&client)?;
    let session = principal.session(request.session_id.as_deref().map(SessionId::parse).transpose()?)?;
    let specs = decode::tools(app.hub(), request.tools).await?;
    let placement = app.sessions().placement(&principal.actor(), &client, session).await?;
    let ids = app.hub().register(&client, &placement, specs)?.stored().await?;
    Ok(Json(wire::Registered { registered: ids.iter().map(ToString::to_string).collect() }))
}

/// Unregister a client's tools
///
/// By name or full id; all of the client's when `toolIDs` is absent. Calls under way go on.
#[utoipa::path(delete, path = "/client-tools/unregister", tag = "client-tools", request_body = wire::UnregisterRequest,
    responses((status = 200, body = wire::Unregistered)))]
async fn unregister(
    Access(app, principal): Access,
    Json(request): Json<wire::UnregisterRequest>,
) -> Answered<wire::Unregistered> {
    let client = ClientId::parse(&request.client_id)?;
    principal.must_be_client(&client)?;
    let session = principal.session(request.session_id.as_deref().map(SessionId::parse).transpose()?)?;
    let ids = app.hub().unregister(&client, session.as_ref(), request.tool_ids.as_deref()).stored().await?;
    Ok(Json(wire::Unregistered { success: true, unregistered: ids.iter().map(ToString::to_string).collect() }))
}

/// Unregister a client's tools, for those who cannot send a body with DELETE
#[utoipa::path(post, path = "/client-tools/unregister", tag = "client-tools", request_body = wire::UnregisterRequest,
    responses((status = 200, body = wire::Unregistered)))]
async fn unregister_by_post(access: Access, request: Json<wire::UnregisterRequest>) -> Answered<wire::Unregistered> {
    unregister(access, request).await
}

/// Run a tool
///
/// Waits for the result; a tool that fails is a result as well. With `wait: false` it answers 202 at once. With the `requestID`
/// of an earlier call, and its tool and input, it waits for the outcome of that one.
#[utoipa::path(post, path = "/client-tools/execute", tag = "client-tools", request_body = wire::ExecuteRequest,
    responses(
        (status = 200, description = "What the client answered", body = wire::ToolResult),
        (status = 202, description = "With `wait: false`: the call is on its way", body = wire::Accepted),
        (status = 400, description = "Bad body, or the input does not fit the tool's schema"),
        (status = 404, description = "There is no such tool"),
        (status = 409, description = "The requestID is one of a call with another tool or input (CONFLICT), or the call was cancelled (CANCELLED)"),
        (status = 410, description = "The requestID is one of a call whose outcome is no longer kept"),
        (status = 429, description = "Too many calls for this client; see Retry-After"),
        (status = 502, description = "The client went away"),
        (status = 503, description = "Overloaded or shutting down"),
        (status = 504, description = "The client did not answer in time"),
    ))]
async fn execute(
    State(app): State<App>,
    _: Application,
    Json(request): Json<wire::ExecuteRequest>,
) -> Result<Response, Problem> {
    let wait = request.wait.unwrap_or(true);
    let tool = request.tool_id.clone();
    let new = decode::call(request)?;
    let (request, session) = (new.request.clone(), new.session.clone());
    // A call whose id nobody else knows ends when this request is dropped. Another one is made all the same: others may have
    // joined it, or nobody is to wait for it.
    let opened = match wait && request.is_none() {
        true => app.hub().open(new).await,
        false => app.hub().open_to_end(new, !wait).await,
    };
    let call = opened.inspect_err(|refusal| refusal.log(request.as_ref(), &tool, &session))?;
    if !wait {
        let accepted = wire::Accepted { request_id: call.head().request.to_string() };
        return Ok((StatusCode::ACCEPTED, Json(accepted)).into_response());
    }
    let finished = call.outcome().await?;
    match (encode::result(&finished.outcome), Problem::of_call(&finished)) {
        (Some(result), _) => Ok(Json(result).into_response()),
        (None, problem) => Err(problem.unwrap_or_else(|| Problem::invalid("the call has no result"))),
    }
}

/// Answer a call
///
/// The result is nested under `result` or beside the `requestID`. The same result again is fine.
#[utoipa::path(post, path = "/client-tools/result", tag = "client-tools", request_body = wire::ResultRequest,
    responses(
        (status = 200, body = wire::Done),
        (status = 400, description = "No requestID, a status that is neither, an output that is no string"),
        (status = 403, description = "Another client's call"),
        (status = 404, description = "Unknown request ID"),
        (status = 409, description = "Another result was taken"),
        (status = 410, description = "The call had expired, was cancelled or ended as disconnected"),
    ))]
async fn result(Access(app, principal): Access, payload: Payload) -> Answered<wire::Done> {
    let hub = app.hub().clone();
    let (request, outcome) = payload.read(&app, move |text| decode::result(text, &hub)).await?;
    let taken = app.hub().complete(&request, &principal.actor(), outcome).await?;
    let ignored = (taken == Taken::Again).then_some(true);
    Ok(Json(wire::Done { success: true, ignored }))
}

/// Cancel a call
///
/// Whoever waits for it gets a cancelled outcome, and the client is told.
#[utoipa::path(post, path = "/client-tools/cancel", tag = "client-tools", request_body = wire::CancelRequest,
    responses(
        (status = 200, body = wire::Done),
        (status = 404, description = "Unknown request ID"),
        (status = 410, description = "The call is over"),
    ))]
async fn cancel(Access(app, principal): Access, Json(cancel): Json<wire::CancelRequest>) -> Answered<wire::Done> {
    let request = RequestId::parse(&cancel.request_id)?;
    let reason = cancel.reason.unwrap_or_else(|| "Cancelled".to_owned());
    app.hub().cancel(&request, &principal.actor(), reason).await?;
    Ok(Json(wire::Done { success: true, ignored: None }))
}

/// List all tools by their full id
#[utoipa::path(get, path = "/client-tools/tools", tag = "client-tools",
    responses((status = 200, body = BTreeMap<String, wire::Tool>)))]
async fn list_tools(Access(app, principal): Access) -> Json<BTreeMap<String, wire::Tool>> {
    let tools = match &principal {
        Principal::Application => app.hub().tools(),
        Principal::Client(own) => app.hub().tools_of(&own.client, own.session.as_ref()),
    };
    Json(tools.iter().map(|tool| (tool.id.to_string(), encode::tool(tool))).collect())
}

/// List a client's tools in order of registration
#[utoipa::path(get, path = "/client-tools/tools/{clientID}", tag = "client-tools",
    responses((status = 200, body = Vec<wire::Tool>)))]
async fn list_tools_of(Access(app, principal): Access, PathValue(client): PathValue) -> Answered<Vec<wire::Tool>> {
    let client = ClientId::parse(&client)?;
    principal.must_be_client(&client)?;
    let tools = app.hub().tools_of(&client, principal.session(None)?.as_ref());
    Ok(Json(tools.iter().map(|tool| encode::tool(tool)).collect()))
}

/// List the clients
#[utoipa::path(get, path = "/client-tools/clients", tag = "client-tools",
    responses((status = 200, body = Vec<wire::Client>)))]
async fn list_clients(Access(app, principal): Access) -> Json<Vec<wire::Client>> {
    let clients = match &principal {
        Principal::Application => app.hub().clients(),
        Principal::Client(own) => app.hub().client(&own.client, own.session.as_ref()).into_iter().collect(),
    };
    Json(clients.iter().map(encode::client).collect())
}

/// Which calls to list.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct CallsQuery {
    /// Only this client's.
    #[serde(rename = "clientID")]
    client_id: Option<String>,
    /// Only this session's.
    #[serde(rename = "sessionID")]
    session_id: Option<String>,
    /// Only those in this state.
    state: Option<wire::CallState>,
}

/// List calls: those under way, then those that are over, the newest of each first
#[utoipa::path(get, path = "/client-tools/calls", tag = "client-tools", params(CallsQuery, PageQuery),
    responses((status = 200, body = Vec<wire::Call>, headers(("x-next-cursor" = String, description = "The `cursor` of the next page; absent on the last")))))]
async fn list_calls(
    Access(app, principal): Access,
    Query(query): Query<CallsQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Listed<Json<Vec<wire::Call>>>, Problem> {
    let mut client = query.client_id.as_deref().map(ClientId::parse).transpose()?;
    let session = principal.session(query.session_id.as_deref().map(SessionId::parse).transpose()?)?;
    if let Principal::Client(own) = &principal {
        principal.must_be_client(client.get_or_insert_with(|| own.client.clone()))?;
    }
    let cursor = page.cursor(|cursor| match cursor {
        Cursor::Calls(place) => Some(place),
        _ => None,
    })?;
    let (filter, state) = (CallFilter { client, session }, query.state.map(decode::state));
    let (calls, next) = app.hub().calls(&filter, state, cursor.as_ref(), page.most()).await?;
    Ok(Listed { page: Json(calls.iter().map(encode::call).collect()), next: next.map(Cursor::Calls) })
}

/// How long to wait for a call.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct WaitQuery {
    /// Wait so many milliseconds for the call to end, 60,000 at most.
    wait: Option<u64>,
}

/// Show a call, with its outcome once it is done
#[utoipa::path(get, path = "/client-tools/calls/{requestID}", tag = "client-tools",
    params(WaitQuery),
    responses((status = 200, body = wire::Call), (status = 404, description = "Unknown request ID")))]
async fn show_call(
    Access(app, principal): Access,
    PathValue(request): PathValue,
    Query(query): Query<WaitQuery>,
) -> Answered<wire::Call> {
    let request = RequestId::parse(&request)?;
    let now = app.hub().call(&request, Duration::ZERO).await?.ok_or_else(unknown_call)?;
    if !principal.actor().may_touch(now.head.client(), &now.head.session) {
        return Err(Problem::forbidden("this is not your call"));
    }
    let wait = Duration::from_millis(query.wait.unwrap_or(0)).min(LONGEST_WAIT);
    let call = if wait.is_zero() { now } else { app.hub().call(&request, wait).await?.ok_or_else(unknown_call)? };
    let input = Some(call.head.input.clone());
    let late_result = call.finished.as_ref().and_then(|finished| finished.late.as_ref()).map(encode::outcome);
    Ok(Json(wire::Call { input, late_result, ..encode::call(&call) }))
}

/// Put a result that came too late into its session
///
/// As quoted data of the tool, which the model sees in the next turn. No turn is started.
#[utoipa::path(post, path = "/client-tools/calls/{requestID}/adopt", tag = "client-tools",
    responses(
        (status = 200, body = wire::Done),
        (status = 404, description = "Unknown request ID, or the call has no late result"),
        (status = 409, description = "The call belongs to no session that is kept here"),
    ))]
async fn adopt(State(app): State<App>, _: Application, PathValue(request): PathValue) -> Answered<wire::Done> {
    let adopted = app.sessions().adopt(&RequestId::parse(&request)?).await?;
    Ok(Json(wire::Done { success: true, ignored: (adopted == Taken::Again).then_some(true) }))
}

fn unknown_call() -> Problem {
    Problem::not_found("Unknown request ID")
}

/// What a connection may ask for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct ConnectionQuery {
    /// How long the client's tools and calls stay when its last connection closes, in milliseconds; 5 minutes at most.
    #[serde(default, deserialize_with = "unless_empty")]
    grace: Option<u64>,
    /// A name for this connection; an older one of that name is closed.
    #[serde(default, deserialize_with = "unless_empty")]
    connection: Option<String>,
}

/// Reads a parameter of a stream. An empty parameter counts as absent, because some clients build URLs that way.
fn unless_empty<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(deserializer: D) -> Result<Option<T>, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(D::Error::custom),
    }
}

fn connect(
    app: &App,
    principal: &Principal,
    client: &str,
    query: Query<ConnectionQuery>,
    last_seen: Option<EventId>,
) -> Result<Connection, Problem> {
    let client = ClientId::parse(client)?;
    principal.must_be_client(&client)?;
    let Query(ConnectionQuery { grace, connection }) = query;
    let opening = Opening {
        client,
        name: connection.as_deref().map(ConnectionName::parse).transpose()?,
        grace: Duration::from_millis(grace.unwrap_or(0)),
        session: principal.session(None)?,
        last_seen,
    };
    Ok(app.hub().connect(opening)?)
}

/// Say goodbye: close a connection that will not return
///
/// No grace is kept for it. If it was the client's last, its tools are unregistered and its calls end, before this
/// answers; if the token is limited to a session, those of that session. A connection that is not there is gone already, so the same again is fine.
#[utoipa::path(post, path = "/client-tools/disconnect", tag = "client-tools", request_body = wire::DisconnectRequest,
    responses((status = 200, body = wire::Done)))]
async fn disconnect(
    Access(app, principal): Access,
    Json(request): Json<wire::DisconnectRequest>,
) -> Answered<wire::Done> {
    let client = ClientId::parse(&request.client_id)?;
    principal.must_be_client(&client)?;
    let name = ConnectionName::parse(&request.connection)?;
    app.hub().say_goodbye(&client, &name, principal.session(None)?.as_ref());
    Ok(Json(wire::Done { success: true, ignored: None }))
}

struct Calls(Connection);

impl sse::FrameSource for Calls {
    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<sse::Next> {
        self.0.poll_next(context).map(encode::sse)
    }
}

/// The stream of calls to a client, as server-sent events
///
/// `event: tool-request`, `event: tool-cancel`, and `event: ping` as a keep-alive.
#[utoipa::path(get, path = "/client-tools/pending/{clientID}", tag = "client-tools",
    params(ConnectionQuery),
    responses((status = 200, description = "Server-sent events: `tool-request` with a `ToolRequest`, `tool-cancel` with the id of a call", body = String, content_type = "text/event-stream")))]
async fn pending(
    State(app): State<App>,
    method: Method,
    principal: Principal,
    PathValue(client): PathValue,
    query: Query<ConnectionQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    if method == Method::HEAD {
        // A HEAD request would connect the client and disconnect it at once, which would remove its tools.
        let problem = Problem::new(ErrorCode::MethodNotAllowed, "this stream takes GET only");
        return Ok(([(header::ALLOW, "GET")], problem).into_response());
    }
    let last_seen = headers.get("last-event-id").and_then(|id| EventId::parse(id.to_str().ok()?));
    let connection = connect(&app, &principal, &client, query, last_seen)?;
    let interval = app.config().client_tools.keepalive_interval;
    Ok(sse::response(Calls(connection), encode::PING, interval, principal.lifetime(app.hub().clock().now())))
}

/// The stream of calls to a client and of its answers, as a WebSocket
#[utoipa::path(get, path = "/client-tools/ws/{clientID}", tag = "client-tools",
    params(ConnectionQuery),
    responses(
        (status = 101, description = "Text frames, one JSON object each"),
        (status = 426, description = "Not an upgrade to WebSocket"),
    ))]
async fn web_socket(
    Access(app, principal): Access,
    PathValue(client): PathValue,
    query: Query<ConnectionQuery>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let client = ClientId::parse(&client)?;
    principal.must_be_client(&client)?;
    let upgrade = upgrade.map_err(|rejection| {
        Problem::new(ErrorCode::UpgradeRequired, format!("this path speaks WebSocket: {}", rejection.body_text()))
    })?;
    // The client connects before the upgrade is answered, so a call that is made right after the answer is not missed.
    let connection = connect(&app, &principal, client.as_str(), query, None)?;
    let lifetime = principal.lifetime(app.hub().clock().now());
    Ok(socket::upgrade(app, principal, connection, upgrade, lifetime))
}
