//! From the core to the wire.

use handback_wire::error::ErrorCode;
use handback_wire::frontend_tools::Acknowledged;

use crate::problem::{ErrorShape, Problem, json_body};

/// The error shape `{ok: false, reason, error}`.
pub(super) const ERRORS: ErrorShape =
    ErrorShape { roots: &["/api/tools", "/ai/tools"], schema: "Acknowledged", body: error_body };

fn error_body(problem: &Problem) -> Vec<u8> {
    let reason = match problem.code {
        ErrorCode::NotFound => "unknown",
        ErrorCode::Unauthorized => "unauthorized",
        ErrorCode::Forbidden => "forbidden",
        ErrorCode::RateLimited => "rate-limited",
        code if code.status() >= 500 => "unavailable",
        _ => "invalid",
    };
    let error = Some(problem.message.clone());
    json_body(&Acknowledged {
        ok: false,
        ignored: None,
        reason: Some(reason.to_owned()),
        error,
        request: problem.request(),
    })
}
