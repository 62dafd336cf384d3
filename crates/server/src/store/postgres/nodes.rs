//! The processes that share the database, and their leases. The database's clock counts.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use handback_core::clock::Time;
use handback_core::cluster::{LEASE, Load, NodeInfo};
use handback_core::id::NodeId;
use tokio_postgres::Row;

use super::fault::Fault;
use super::lane::Lane;

/// Those that are long gone are forgotten on this occasion.
const JOIN: &str = "
    WITH gone AS (DELETE FROM handback.node WHERE lease_until < clock_timestamp() - INTERVAL '1 hour')
    INSERT INTO handback.node (name, joined, lease_until)
    VALUES ($1, clock_timestamp(), clock_timestamp() + $2 * INTERVAL '1 second') RETURNING id";

const JOIN_AGAIN: &str = "
    INSERT INTO handback.node (id, name, joined, lease_until)
    VALUES ($1, $2, clock_timestamp(), clock_timestamp() + $3 * INTERVAL '1 second')
    ON CONFLICT (id) DO UPDATE SET joined = excluded.joined, lease_until = excluded.lease_until, sessions = 0, clients = 0,
        calls = 0
    RETURNING id";

/// Gives the time in microseconds since 1970.
const RENEW: &str = "
    UPDATE handback.node SET lease_until = clock_timestamp() + $2 * INTERVAL '1 second', sessions = $3, clients = $4, calls = $5
    WHERE id = $1 AND lease_until > clock_timestamp()
    RETURNING (extract(epoch FROM clock_timestamp()) * 1000000)::BIGINT";

const LEAVE: &str = "DELETE FROM handback.node WHERE id = $1";

const LIST: &str = "
    SELECT id, name, (extract(epoch FROM joined) * 1000)::BIGINT,
        (greatest(extract(epoch FROM lease_until - clock_timestamp()), 0) * 1000)::BIGINT, sessions, clients, calls
    FROM handback.node ORDER BY id";

pub(super) const ALL: &[&str] = &[JOIN, JOIN_AGAIN, RENEW, LEAVE, LIST];

pub(super) async fn join(lane: &Lane, name: String, again: Option<NodeId>) -> Result<NodeId, Fault> {
    let lease = LEASE.as_secs_f64();
    let row = match again {
        None => lane.row(JOIN, &[&name, &lease]).await?,
        Some(node) => lane.row(JOIN_AGAIN, &[&node.number(), &name, &lease]).await?,
    };
    Ok(NodeId::new(row.try_get(0)?))
}

pub(super) async fn renew(lane: &Lane, node: NodeId, load: Load) -> Result<Option<SystemTime>, Fault> {
    let Load { sessions, clients, calls } = load;
    let [sessions, clients, calls] = [sessions, clients, calls].map(u64::cast_signed);
    let rows = lane.query(RENEW, &[&node.number(), &LEASE.as_secs_f64(), &sessions, &clients, &calls]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let now: i64 = row.try_get(0)?;
    Ok(Some(UNIX_EPOCH + Duration::from_micros(now.max(0).cast_unsigned())))
}

pub(super) async fn leave(lane: &Lane, node: NodeId) -> Result<(), Fault> {
    lane.query(LEAVE, &[&node.number()]).await.map(drop)
}

pub(super) async fn list(lane: &Lane) -> Result<Vec<NodeInfo>, Fault> {
    let count = |row: &Row, column: usize| Ok::<_, Fault>(row.try_get::<_, i64>(column)?.max(0).cast_unsigned());
    let read = |row: &Row| {
        Ok(NodeInfo {
            id: NodeId::new(row.try_get(0)?),
            name: row.try_get::<_, &str>(1)?.into(),
            since: Time(count(row, 2)?),
            lease: Duration::from_millis(count(row, 3)?),
            load: Load { sessions: count(row, 4)?, clients: count(row, 5)?, calls: count(row, 6)? },
        })
    };
    lane.query(LIST, &[]).await?.iter().map(read).collect()
}
