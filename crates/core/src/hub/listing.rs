//! The listing of calls: those under way first, then those that are over, a page at a time.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{CallInfo, Hub, call_info};
use crate::call::{CallHead, CallState};
use crate::id::RequestId;
use crate::store::{CallFilter, Most, Page, StoreError, weight};

/// Where a page of the listing ends. Calls end while somebody pages through it, and so move to the other half; whoever
/// goes on from here misses none of those that were there when the listing began, and sees none twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallCursor {
    /// The last call that was listed as under way, and the number of the newest that was over then.
    under_way: Option<(CallPlace, u64)>,
    /// The number of the last call that was listed as over; `None` while there may be more under way.
    over: Option<u64>,
}

/// Where a call stands among those under way: the newest first, by when they were made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct CallPlace {
    /// In nanoseconds since 1970.
    created: u64,
    request: RequestId,
}

impl From<&CallHead> for CallPlace {
    fn from(head: &CallHead) -> Self {
        let created = head.created.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self { created: u64::try_from(created).unwrap_or(u64::MAX), request: head.request.clone() }
    }
}

impl CallCursor {
    /// Whether a call of that number, which is over, was listed while it was under way.
    fn has_shown(&self, number: u64, head: &CallHead) -> bool {
        self.under_way.as_ref().is_some_and(|(last, newest)| number > *newest && CallPlace::from(head) >= *last)
    }
}

/// A call of a page, and its number if it is over.
type Entry = (CallInfo, Option<u64>);

impl Hub {
    /// Calls, newest first: those under way, then those that are over. Gives where to go on, if there are more.
    pub async fn calls(
        &self,
        filter: &CallFilter,
        state: Option<CallState>,
        cursor: Option<&CallCursor>,
        most: Most,
    ) -> Result<(Vec<CallInfo>, Option<CallCursor>), StoreError> {
        let mut entries = self.under_way(filter, state, cursor);
        if state.is_none_or(|state| state == CallState::Done) {
            self.add_finished(filter, cursor, most, &mut entries).await?;
        }
        let weighed = entries.into_iter().map(|entry| Ok::<_, StoreError>((weigh(&entry.0), entry)));
        let page = Page::fill(weighed, most)?;
        let next = match page.items.last() {
            Some((_, Some(over))) if page.has_more => {
                let under_way = cursor.and_then(|cursor| cursor.under_way.clone());
                Some(CallCursor { under_way, over: Some(*over) })
            }
            Some((last, None)) if page.has_more => {
                let newest = match cursor.and_then(|cursor| cursor.under_way.as_ref()) {
                    Some((_, newest)) => *newest,
                    None => self.newest_finished(filter).await?,
                };
                Some(CallCursor { under_way: Some((CallPlace::from(&*last.head), newest)), over: None })
            }
            _ => None,
        };
        Ok((page.items.into_iter().map(|(call, _)| call).collect(), next))
    }

    /// The calls under way that were not listed yet.
    fn under_way(&self, filter: &CallFilter, state: Option<CallState>, cursor: Option<&CallCursor>) -> Vec<Entry> {
        if cursor.is_some_and(|cursor| cursor.over.is_some()) {
            return Vec::new();
        }
        let last = cursor.and_then(|cursor| cursor.under_way.as_ref()).map(|(last, _)| last);
        let mut calls: Vec<(CallPlace, Entry)> = self.locked(|table| {
            let wanted = table.calls.values().filter(|call| filter.takes(&call.head));
            wanted
                .filter(|call| state.is_none_or(|state| state == call.state()))
                .map(|call| (CallPlace::from(&*call.head), call))
                .filter(|(place, _)| last.is_none_or(|last| place < last))
                .map(|(place, call)| (place, (call_info(call), None)))
                .collect()
        });
        calls.sort_by(|(one, _), (other, _)| other.cmp(one));
        calls.into_iter().map(|(_, entry)| entry).collect()
    }

    /// Adds calls that are over until there are more than fit on the page.
    async fn add_finished(
        &self,
        filter: &CallFilter,
        cursor: Option<&CallCursor>,
        most: Most,
        entries: &mut Vec<Entry>,
    ) -> Result<(), StoreError> {
        // One that was under way a moment ago may be over by now.
        let shown: HashSet<RequestId> = entries.iter().map(|(call, _)| call.head.request.clone()).collect();
        let mut bytes: usize = entries.iter().map(|(call, _)| weigh(call)).sum();
        let mut before = cursor.and_then(|cursor| cursor.over);
        while entries.len() <= most.items && bytes <= most.bytes {
            let rest = Most { items: (most.items - entries.len()).saturating_add(1), bytes: most.bytes - bytes };
            let page = self.0.store.list_finished(filter, before, rest).await?;
            for (number, call) in page.items {
                before = Some(number);
                let is_shown = shown.contains(&call.head.request)
                    || cursor.is_some_and(|cursor| cursor.has_shown(number, &call.head));
                if !is_shown {
                    bytes = bytes.saturating_add(weight::of_call(&call));
                    entries.push((CallInfo::from(call), Some(number)));
                }
            }
            if !page.has_more {
                break;
            }
        }
        Ok(())
    }

    /// The number of the newest call that is over.
    async fn newest_finished(&self, filter: &CallFilter) -> Result<u64, StoreError> {
        let newest = self.0.store.list_finished(filter, None, Most::items(1)).await?;
        Ok(newest.items.first().map_or(0, |(number, _)| *number))
    }
}

fn weigh(call: &CallInfo) -> usize {
    call.finished.as_ref().map_or_else(|| weight::of_head(&call.head), |call: &Arc<_>| weight::of_call(call))
}
