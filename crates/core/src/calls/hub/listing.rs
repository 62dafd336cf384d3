//! The listing of calls: those under way first, then those that are over, a page at a time.

use std::collections::HashSet;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::{CallInfo, Hub, call_info};
use crate::calls::table::Table;
use crate::id::RequestId;
use crate::store::{CallFilter, CallHead, CallState, Most, Page, StoreError, weight};

/// Where a page of the listing ends. Calls end while somebody pages through it. One that was under way when the listing
/// began keeps its place among those; so nothing is missed, and nothing comes twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum CallCursor {
    /// Among those that were under way when the listing began.
    UnderWay {
        /// The last one that was listed.
        last: CallPlace,
        /// The number of the newest call that was over then: what has a greater one was under way.
        newest: u64,
    },
    /// Among those that were over: the number of the last one that was listed.
    Over(u64),
}

/// Where a call stands among those under way: the newest first, by when they were made.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CallPlace {
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

/// How many calls are looked at first for some that ended meanwhile.
const FIRST: usize = 16;

/// A call of a page, and its number if it is listed among those that are over.
type ListedCall = (CallInfo, Option<u64>);

impl Hub {
    /// Calls, newest first: those under way, then those that are over. Gives where to go on, if there are more.
    pub async fn calls(
        &self,
        filter: &CallFilter,
        state: Option<CallState>,
        cursor: Option<&CallCursor>,
        most: Most,
    ) -> Result<(Vec<CallInfo>, Option<CallCursor>), StoreError> {
        let wants_over = state.is_none_or(|state| state == CallState::Done);
        // The newest that is over when the listing begins; before anything is listed, so that nothing is listed twice.
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

    /// The calls under way that come after a place.
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

    /// Adds the calls that were under way when the listing began, come after a place in it if there is one, and are over
    /// by now.
    async fn add_ended(
        &self,
        filter: &CallFilter,
        after: Option<&CallPlace>,
        newest: u64,
        most: Most,
        entries: &mut Vec<ListedCall>,
    ) -> Result<(), StoreError> {
        let known = requests(entries);
        // Most often there are none.
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

    /// Adds calls that are over until there are more than fit on the page.
    async fn add_finished(
        &self,
        filter: &CallFilter,
        mut before: u64,
        most: Most,
        entries: &mut Vec<ListedCall>,
    ) -> Result<(), StoreError> {
        // One that was under way a moment ago may be over by now.
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

    /// The number of the newest call that is over.
    async fn newest_finished(&self, filter: &CallFilter) -> Result<u64, StoreError> {
        let newest = self.0.store.list_finished(filter, None, Most::items(1)).await?;
        Ok(newest.items.first().map_or(0, |(number, _)| *number))
    }
}

/// Puts entries in order, and drops those that do not fit on the page: the next one finds them again.
fn trim(entries: &mut Vec<ListedCall>, most: Most) {
    sort(entries);
    let (mut fitting, mut bytes) = (0, 0_usize);
    // And one more, so that it shows that there are.
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
