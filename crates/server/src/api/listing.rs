//! Listings: `limit`, an opaque `cursor`, and the header with the cursor of the next page.

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

/// The default and the maximum of entries on a page.
pub(super) const LISTED: usize = 1_000;
/// About how many bytes a page holds; further entries go to the next page.
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
    /// The bounds of the page.
    pub(super) fn most(&self) -> Most {
        Most { items: self.limit.unwrap_or(LISTED).min(LISTED), bytes: LISTED_BYTES }
    }

    /// The place where the page begins. `pick` accepts only cursors of this listing.
    pub(super) fn cursor<T>(&self, pick: impl FnOnce(Cursor) -> Option<T>) -> Result<Option<T>, Problem> {
        let Some(text) = &self.cursor else { return Ok(None) };
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let cursor = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        cursor.and_then(pick).map(Some).ok_or_else(bad_cursor)
    }
}

/// The problem of a cursor that is not from this listing, or whose place is gone.
pub(super) fn bad_cursor() -> Problem {
    Problem::invalid("`cursor` is not one that this listing gave; leave it out to begin at its start")
}

/// The place where the next page of a listing begins. A cursor of another listing is refused.
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

/// A page of a listing, with the cursor of the next one.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub(super) page: T,
    /// `None` on the last page.
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
