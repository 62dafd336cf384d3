//! From the wire to the core.

use handback_core::id::RequestId;
use handback_core::limits::Limits;
use handback_core::schema::{depth, one_line};
use handback_core::store::{Ack, AckStatus};
use handback_wire::frontend_tools as wire;

use crate::problem::Problem;

/// Most bytes of a claimant's name.
const CLAIMANT_BYTES: usize = 256;

/// The id of the call that a request is about.
pub(super) fn call(id: &str) -> Result<RequestId, Problem> {
    if id.is_empty() {
        return Err(Problem::invalid("`toolCallId` is missing: it says which call is meant"));
    }
    Ok(RequestId::parse(id)?)
}

/// Decodes a frontend's report about a call.
pub(super) fn ack(ack: &wire::Ack, limits: &Limits) -> Result<Ack, Problem> {
    let status = match ack.status.as_str() {
        "success" => AckStatus::Success,
        "failed" => AckStatus::Failed,
        "timeout" => AckStatus::Timeout,
        "" => return Err(Problem::invalid("`status` is missing: success, failed or timeout")),
        _ => return Err(Problem::invalid("`status` must be success, failed or timeout")),
    };
    if let Some(time) = &ack.requested_at
        && !is_time(time)
    {
        return Err(Problem::invalid("`requestedAt` must be a time as in 2026-02-01T12:34:56.789Z (RFC 3339)"));
    }
    let deepest = limits.input_depth;
    if ack.output.as_ref().is_some_and(|output| depth(output.get()) > deepest) {
        return Err(Problem::invalid(format!("`output` is nested more than {deepest} deep")));
    }
    Ok(match status {
        // A timeout has neither output nor error, whatever the frontend sent with it.
        AckStatus::Timeout => Ack::timeout(),
        status => Ack {
            status,
            output: ack.output.clone().map(one_line),
            error_text: ack.error_text.clone(),
            requested_at: ack.requested_at.clone(),
        },
    })
}

/// Checks the name of a claimant.
pub(super) fn claimant(name: &str) -> Result<&str, Problem> {
    if (1..=CLAIMANT_BYTES).contains(&name.len()) {
        Ok(name)
    } else {
        Err(Problem::invalid(format!("`claimant` must be a name of 1 to {CLAIMANT_BYTES} bytes")))
    }
}

/// Whether a text is an RFC 3339 time, in UTC or with an offset. The offset is checked here.
fn is_time(text: &str) -> bool {
    let local = text.len().checked_sub(6).and_then(|place| text.split_at_checked(place));
    let utc = match local.map(|(local, offset)| (local, offset.as_bytes())) {
        Some((local, &[b'+' | b'-', h1 @ b'0'..=b'2', h2 @ b'0'..=b'9', b':', b'0'..=b'5', b'0'..=b'9'])) => {
            if (h1, h2) > (b'2', b'3') {
                return false;
            }
            format!("{local}Z")
        }
        _ => text.to_owned(),
    };
    humantime::parse_rfc3339(&utc.to_ascii_uppercase()).is_ok()
}

#[cfg(test)]
mod tests;
