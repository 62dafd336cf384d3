//! The routes of acks and claims.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use handback_core::calls::{Claim, NotTaken, Taken};
use handback_wire::frontend_tools as wire;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{decode, encode};
use crate::api::{Access, Protocol};
use crate::body::Json;
use crate::problem::Problem;

/// The routes of this API.
pub fn routes() -> Protocol {
    let routes =
        OpenApiRouter::new().routes(routes!(acknowledge)).routes(routes!(acknowledge_too)).routes(routes!(claim));
    Protocol { routes, errors: encode::ERRORS }
}

/// Say how a call went
#[utoipa::path(post, path = "/api/tools/ack", tag = "frontend tools", request_body = wire::Ack,
    responses(
        (status = 200, description = "It counts; `ignored` if the same was said before", body = wire::Acknowledged),
        (status = 400, description = "`invalid`", body = wire::Acknowledged),
        (status = 404, description = "`unknown`", body = wire::Acknowledged),
        (status = 409, description = "`conflict`, `claimed` or `awaiting-approval`", body = wire::Acknowledged),
        (status = 410, description = "`expired`: it had timed out or was cancelled", body = wire::Acknowledged),
    ))]
async fn acknowledge(Access(app, principal): Access, Json(request): Json<wire::Ack>) -> Result<Response, Problem> {
    let (call, ack) = (decode::call(&request.tool_call_id)?, decode::ack(&request, app.hub().limits())?);
    let claimant = request.claimant.as_deref().map(decode::claimant).transpose()?;
    match app.hub().acknowledge(&call, &principal.actor(), claimant, ack).await {
        Ok(Taken::First) => Ok(taken(None)),
        Ok(Taken::Again) => Ok(taken(Some(true))),
        Err(reason) => not_taken(reason),
    }
}

/// Say how a call went
#[utoipa::path(post, path = "/ai/tools/ack", tag = "frontend tools", request_body = wire::Ack,
    responses(
        (status = 200, description = "As `/api/tools/ack`", body = wire::Acknowledged),
        (status = 404, description = "`unknown`", body = wire::Acknowledged),
        (status = 409, description = "`conflict`, `claimed` or `awaiting-approval`", body = wire::Acknowledged),
        (status = 410, description = "`expired`: it had timed out or was cancelled", body = wire::Acknowledged),
    ))]
async fn acknowledge_too(access: Access, request: Json<wire::Ack>) -> Result<Response, Problem> {
    acknowledge(access, request).await
}

/// Claim a call, so that no other frontend runs it
///
/// A claim lasts until its claimant's ack, its release, or the call's deadline.
#[utoipa::path(post, path = "/api/tools/claim", tag = "frontend tools", request_body = wire::Claim,
    responses(
        (status = 200, description = "It is this claimant's", body = wire::Acknowledged),
        (status = 400, description = "`invalid`", body = wire::Acknowledged),
        (status = 404, description = "`unknown`", body = wire::Acknowledged),
        (status = 409, description = "`claimed` by another, or `awaiting-approval`", body = wire::Acknowledged),
        (status = 410, description = "`expired`: the call is over", body = wire::Acknowledged),
    ))]
async fn claim(Access(app, principal): Access, Json(request): Json<wire::Claim>) -> Result<Response, Problem> {
    let (call, claimant) = (decode::call(&request.tool_call_id)?, decode::claimant(&request.claimant)?);
    let claim = if request.release == Some(true) { Claim::Release } else { Claim::Take };
    match app.hub().claim(&call, &principal.actor(), claimant, claim).await {
        Ok(()) => Ok(taken(None)),
        Err(reason) => not_taken(reason),
    }
}

fn taken(ignored: Option<bool>) -> Response {
    Json(wire::Acknowledged { ok: true, ignored, ..wire::Acknowledged::default() }).into_response()
}

/// Answers with the reason in one word. Reasons that are not about the call are ordinary problems.
fn not_taken(reason: NotTaken) -> Result<Response, Problem> {
    let (status, reason) = match reason {
        NotTaken::Unknown => (StatusCode::NOT_FOUND, "unknown"),
        NotTaken::Conflict => (StatusCode::CONFLICT, "conflict"),
        NotTaken::Claimed => (StatusCode::CONFLICT, "claimed"),
        NotTaken::NotAllowedYet => (StatusCode::CONFLICT, "awaiting-approval"),
        NotTaken::Over => (StatusCode::GONE, "expired"),
        other @ (NotTaken::Forbidden | NotTaken::Store(_)) => return Err(other.into()),
    };
    let (reason, answer) = (Some(reason.to_owned()), wire::Acknowledged::default());
    let answer = Json(wire::Acknowledged { reason, ..answer });
    Ok((status, answer).into_response())
}
