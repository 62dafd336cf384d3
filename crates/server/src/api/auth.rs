//! The route that mints client tokens.

use std::time::Duration;

use axum::extract::State;
use handback_core::id::{ClientId, SessionId};
use handback_wire::auth::{ClientToken, ClientTokenRequest};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::client_tools::encode::time;
use crate::api::{Answered, Application};
use crate::app::App;
use crate::auth::Grant;
use crate::body::Json;

/// The routes of this API.
pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(client_token))
}

/// Make a token for a client
#[utoipa::path(post, path = "/auth/client-token", tag = "auth", request_body = ClientTokenRequest,
    responses(
        (status = 200, body = ClientToken),
        (status = 400, description = "Bad id or ttl"),
        (status = 503, description = "No auth.tokenSecret is configured"),
    ))]
async fn client_token(
    State(app): State<App>,
    _: Application,
    Json(request): Json<ClientTokenRequest>,
) -> Answered<ClientToken> {
    let client = ClientId::parse(&request.client_id)?;
    let session = request.session_id.as_deref().map(SessionId::parse).transpose()?;
    let grant = Grant { client, session, agents: request.agents, ttl: request.ttl.map(Duration::from_secs) };
    let (token, expires) = app.auth().mint(grant, app.hub().clock().now())?;
    Ok(Json(ClientToken { token, expires_at: time(expires) }))
}
