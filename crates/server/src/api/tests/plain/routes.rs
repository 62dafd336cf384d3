//! The one route.

use axum::response::Response;
use handback_core::sessions::Manners;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::decode;
use super::encode::Encoder;
use crate::api::Access;
use crate::api::conversation::{self, Face};
use crate::app::App;
use crate::body::Payload;
use crate::problem::Problem;

/// The routes of this API.
pub(crate) fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(talk))
}

/// Say something, go on, or answer
#[utoipa::path(post, path = "/plain", responses((status = 200)))]
async fn talk(Access(app, principal): Access, payload: Payload) -> Result<Response, Problem> {
    let page = decode::input(&app, &payload).await?;
    let face = Face { manners: Manners::default(), yields_asks: true, has_frontend: false, makes_sessions: true };
    let playback = conversation::converse(&app, &principal, page, face).await??;
    let silence = app.config().client_tools.keepalive_interval;
    Ok(conversation::response(&app, &principal, playback.into_stream(), Encoder::default(), silence))
}
