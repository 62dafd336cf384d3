//! How many bytes sessions and clients take. The functions that write count them (see `migrations`).

use handback_core::id::ClientId;
use handback_core::store::StorageUsed;

use super::fault::Fault;
use super::lane::Lane;

/// What a client keeps, and what all keep. Changes that are not added up yet count.
const USED: &str = "
    SELECT client = '' AS is_all, sum(sessions)::BIGINT, sum(bytes)::BIGINT FROM (
        SELECT client, sessions, bytes FROM handback.usage WHERE client IN ('', $1)
        UNION ALL SELECT client, sessions, bytes FROM handback.usage_change WHERE client IN ('', $1)
    ) AS used GROUP BY client";

const ADD_UP: &str = "SELECT handback.add_up_usage()";

pub(super) const ALL: &[&str] = &[USED, ADD_UP];

pub(super) async fn used(lane: &Lane, client: Option<ClientId>) -> Result<StorageUsed, Fault> {
    let client = client.as_ref().map_or("", ClientId::as_str);
    let mut used = StorageUsed::default();
    for row in lane.query(USED, &[&client]).await? {
        let (is_all, sessions, bytes): (bool, i64, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let [sessions, bytes] = [sessions, bytes].map(|count| count.max(0).cast_unsigned());
        match is_all {
            true => used.bytes = bytes,
            false => (used.client_sessions, used.client_bytes) = (sessions, bytes),
        }
    }
    Ok(used)
}

/// Adds up the changes.
pub(super) async fn add_up(lane: &Lane) -> Result<(), Fault> {
    lane.query(ADD_UP, &[]).await.map(drop)
}
