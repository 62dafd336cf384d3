//! Pages of listings, each bounded by count and by bytes.

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::id::SessionId;
use crate::store::session::Session;

/// The bounds of a page. The first entry is read whatever its size, so that a reader always gets on. Each further entry
/// that would exceed either bound is left for the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// How many entries a page has at most.
    pub items: usize,
    /// About how many bytes the entries hold at most.
    pub bytes: usize,
}

impl Most {
    /// A bound on the number of entries, but not on their size.
    pub fn items(items: usize) -> Self {
        Self { items, bytes: usize::MAX }
    }
}

/// A page of a listing.
#[derive(Debug)]
pub struct Page<T> {
    /// The entries, in the order of the listing.
    pub items: Vec<T>,
    /// Whether there are more entries after these.
    pub has_more: bool,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), has_more: false }
    }
}

impl<T> Page<T> {
    /// Takes entries, each with its approximate size in bytes, until the page is full.
    pub fn fill<E>(entries: impl IntoIterator<Item = Result<(usize, T), E>>, most: Most) -> Result<Self, E> {
        let (mut page, mut bytes) = (Self::default(), 0usize);
        for entry in entries {
            let (weight, item) = entry?;
            bytes = bytes.saturating_add(weight);
            if page.items.len() >= most.items || (bytes > most.bytes && !page.items.is_empty()) {
                page.has_more = true;
                break;
            }
            page.items.push(item);
        }
        Ok(page)
    }
}

/// The place of a session in the listing of sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionPlace {
    /// When the session was updated.
    pub updated: Time,
    /// The session's id, which orders sessions with the same time.
    pub id: SessionId,
}

impl From<&Session> for SessionPlace {
    fn from(session: &Session) -> Self {
        Self { updated: session.updated, id: session.id.clone() }
    }
}
