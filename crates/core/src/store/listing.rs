//! Listings are read in pages, each bounded by count and by bytes.

use serde::{Deserialize, Serialize};

use crate::clock::Time;
use crate::id::SessionId;
use crate::store::message::Session;

/// How much of a listing is read at a time. The first entry is read however large it is, so that a reader always gets
/// on; after it, an entry that would exceed either bound is left for the next page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Most {
    /// Entries.
    pub items: usize,
    /// About how many bytes they hold on to.
    pub bytes: usize,
}

impl Most {
    /// So many entries, however large.
    pub fn items(items: usize) -> Self {
        Self { items, bytes: usize::MAX }
    }
}

/// A part of a listing.
#[derive(Debug)]
pub struct Page<T> {
    /// The entries, in the order of the listing.
    pub items: Vec<T>,
    /// Whether there are more after them.
    pub has_more: bool,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self { items: Vec::new(), has_more: false }
    }
}

impl<T> Page<T> {
    /// Takes entries, each with about how many bytes it holds on to, until there are enough.
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

/// Where a session stands in the listing of sessions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SessionPlace {
    /// When it was updated.
    pub updated: Time,
    /// Which one of those it is.
    pub id: SessionId,
}

impl From<&Session> for SessionPlace {
    fn from(session: &Session) -> Self {
        Self { updated: session.updated, id: session.id.clone() }
    }
}
