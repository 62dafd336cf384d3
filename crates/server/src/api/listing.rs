//! Listings: `limit`, an opaque `cursor`, and the header that says where the next page begins.

use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use handback_core::calls::CallCursor;
use handback_core::id::MessageId;
use handback_core::store::{Most, SessionPlace};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::client_tools::encode::json;
use crate::problem::Problem;

/// How many entries a page has at most, and when nobody says.
pub(super) const LISTED: usize = 1_000;
/// About how many bytes a page holds on to; entries beyond it are left for the next one.
const LISTED_BYTES: usize = 8 << 20;

const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

/// Which page of a listing is wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct PageQuery {
    /// At most so many; 1,000 at most.
    pub(super) limit: Option<usize>,
    /// Where the page begins: what `x-next-cursor` of the one before it says.
    cursor: Option<String>,
}

impl PageQuery {
    /// How much goes on the page.
    pub(super) fn most(&self) -> Most {
        Most { items: self.limit.unwrap_or(LISTED).min(LISTED), bytes: LISTED_BYTES }
    }

    /// Where the page begins. `pick` knows the cursors of the listing.
    pub(super) fn cursor<T>(&self, pick: impl FnOnce(Cursor) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(text) = &self.cursor else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let cursor = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        cursor.and_then(pick).map(Some).ok_or_else(bad_cursor)
    }
}

/// A cursor that this listing did not give, or whose place in it is gone.
pub(super) fn bad_cursor() -> Problem {
    Problem::invalid("`cursor` is not one that this listing gave; leave it out to begin at its start")
}

/// Where the next page of a listing begins. Each listing has cursors of its own: one of another is a bad one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Cursor {
    /// After the last call.
    #[serde(rename = "c")]
    Calls(CallCursor),
    /// After the last session.
    #[serde(rename = "s")]
    Sessions(SessionPlace),
    /// Before the oldest message.
    #[serde(rename = "m")]
    Messages(MessageId),
}

/// An answer that is a page of a listing.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) page: T,
    /// `None` if it is the last one.
    pub(super) next: Option<Cursor>,
}

impl<T: IntoResponse> IntoResponse for Listed<T> {
    fn into_response(self) -> Response {
        let mut response = self.page.into_response();
        let next = self.next.and_then(|next| HeaderValue::try_from(URL_SAFE_NO_PAD.encode(json(&next))).ok());
        if let Some(next) = next {
            response.headers_mut().insert(NEXT_CURSOR, next);
        }
        response
    }
}
