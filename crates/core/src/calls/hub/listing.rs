//! The listing of calls: open calls first, then finished ones, a page at a time.

use std::collections::HashSet;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{CallInfo, Hub, call_info};
use crate::calls::table::Table;
use crate::id::RequestId;
use crate::store::{CallFilter, CallHead, CallState, Most, Page, StoreError, weight};

/// The end of a page of the listing. Calls may end between two pages. A call that was open when the listing began keeps
/// its place among the open ones, so no call is missed or listed twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallCursor {
    /// Among the calls that were open when the listing began.
    UnderWay {
        /// The last call that was listed.
        last: CallPlace,
        /// The number of the newest call that was over when the listing began: calls with greater numbers were open.
        newest: u64,
    },
    /// Among the finished calls: the number of the last one that was listed.
    Over(u64),
}

/// The place of a call among the open ones, which are sorted by creation, newest first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallPlace {
    /// Nanoseconds since 1970.
    created: u64,
    request: RequestId,
}

impl From<&CallHead> for CallPlace {
    fn from(head: &CallHead) -> Self {
        let created = head.created.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self { created: u64::try_from(created).unwrap_or(u64::MAX), request: head.request.clone() }
    }
}

/// How many finished calls are read first in search of calls that ended since the listing began.
const FIRST: usize = 16;

/// A listed call, and its number if it is listed among the finished ones.
type ListedCall = (CallInfo, Option<u64>);

impl Hub {
    /// A page of calls, newest first: open ones, then finished ones. Returns the cursor if there are more.
    pub async fn calls(
        &self,
        filter: &CallFilter,
        state: Option<CallState>,
        cursor: Option<&CallCursor>,
        most: Most,
    ) -> Result<(Vec<CallInfo>, Option<CallCursor>), StoreError> {
        let wants_over = state.is_none_or(|state| state == CallState::Done);
        // Read the newest finished call before listing anything, so that no call is listed twice.
        let newest = match cursor {
            None => self.newest_finished(filter).await?,
            Some(CallCursor::UnderWay { newest, .. }) => *newest,
            Some(CallCursor::Over(last)) => last.saturating_sub(1),
        };
        let after = match cursor {
            Some(CallCursor::UnderWay { last, .. }) => Some(last),
            _ => None,
        };
        let mut entries = Vec::new();
        if !matches!(cursor, Some(CallCursor::Over(_))) {
            entries = self.under_way(filter, state, after);
            if wants_over {
                self.add_ended(filter, after, newest, most, &mut entries).await?;
            }
        }
        if wants_over {
            self.add_finished(filter, newest.saturating_add(1), most, &mut entries).await?;
        }
        let page = Page::fill(entries.into_iter().map(|entry| Ok::<_, StoreError>((weigh(&entry.0), entry))), most)?;
        let next = match page.items.last().filter(|_| page.has_more) {
            None => None,
            Some((_, Some(number))) => Some(CallCursor::Over(*number)),
            Some((last, None)) => Some(CallCursor::UnderWay { last: CallPlace::from(&*last.head), newest }),
        };
        Ok((page.items.into_iter().map(|(call, _)| call).collect(), next))
    }

    /// The open calls after a place.
    fn under_way(&self, filter: &CallFilter, state: Option<CallState>, after: Option<&CallPlace>) -> Vec<ListedCall> {
        let in_shard = |table: &mut Table| -> Vec<ListedCall> {
            let wanted = table.calls.values().filter(|call| filter.takes(&call.head));
            wanted
                .filter(|call| state.is_none_or(|state| state == call.state()))
                .filter(|call| after.is_none_or(|after| CallPlace::from(&*call.head) < *after))
                .map(|call| (call_info(call), None))
                .collect()
        };
        let mut entries: Vec<ListedCall> = match &filter.client {
            Some(client) => self.of_client(client, in_shard),
            None => self.everywhere(in_shard).flatten().collect(),
        };
        sort(&mut entries);
        entries
    }

    /// Adds the calls that were open when the listing began, come after the given place, and are over by now.
    async fn add_ended(
        &self,
        filter: &CallFilter,
        after: Option<&CallPlace>,
        newest: u64,
        most: Most,
        entries: &mut Vec<ListedCall>,
    ) -> Result<(), StoreError> {
        let known = requests(entries);
        // Usually there are none.
        let (mut before, mut at_once) = (None, Most { items: most.items.min(FIRST), ..most });
        'pages: loop {
            let page = self.0.store.list_finished(filter, before, at_once).await?;
            for (number, call) in page.items {
                if number <= newest {
                    break 'pages;
                }
                before = Some(number);
                if after.is_none_or(|after| CallPlace::from(&*call.head) < *after)
                    && !known.contains(&call.head.request)
                {
                    entries.push((CallInfo::from(call), None));
                }
            }
            if !page.has_more || most.items == 0 {
                break;
            }
            at_once = most;
            trim(entries, most);
        }
        trim(entries, most);
        Ok(())
    }

    /// Adds finished calls until there are more than fit on the page.
    async fn add_finished(
        &self,
        filter: &CallFilter,
        mut before: u64,
        most: Most,
        entries: &mut Vec<ListedCall>,
    ) -> Result<(), StoreError> {
        // A call that was open a moment ago may be over by now.
        let known = requests(entries);
        let mut bytes: usize = entries.iter().map(|(call, _)| weigh(call)).sum();
        while entries.len() <= most.items && bytes <= most.bytes {
            let rest = Most { items: (most.items - entries.len()).saturating_add(1), bytes: most.bytes - bytes };
            let page = self.0.store.list_finished(filter, Some(before), rest).await?;
            for (number, call) in page.items {
                before = number;
                if !known.contains(&call.head.request) {
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

    async fn newest_finished(&self, filter: &CallFilter) -> Result<u64, StoreError> {
        let newest = self.0.store.list_finished(filter, None, Most::items(1)).await?;
        Ok(newest.items.first().map_or(0, |(number, _)| *number))
    }
}

/// Sorts entries and drops those that do not fit on the page. The next page finds them again.
fn trim(entries: &mut Vec<ListedCall>, most: Most) {
    sort(entries);
    let (mut fitting, mut bytes) = (0, 0_usize);
    // One more entry than fits shows that there is a next page.
    while fitting <= most.items && bytes <= most.bytes && fitting < entries.len() {
        bytes = bytes.saturating_add(weigh(&entries[fitting].0));
        fitting += 1;
    }
    entries.truncate(fitting);
}

fn sort(entries: &mut [ListedCall]) {
    entries.sort_by_cached_key(|(call, _)| std::cmp::Reverse(CallPlace::from(&*call.head)));
}

fn requests(entries: &[ListedCall]) -> HashSet<RequestId> {
    entries.iter().map(|(call, _)| call.head.request.clone()).collect()
}

fn weigh(call: &CallInfo) -> usize {
    match &call.finished {
        Some(finished) => weight::of_call(finished),
        None => weight::of_head(&call.head),
    }
}
