//! Sessions in the database.

use std::borrow::Cow;
use std::sync::Arc;

use handback_core::clock::Time;
use handback_core::id::{ClientId, SessionId};
use handback_core::store::{Most, Page, Session, SessionFilter, SessionPlace};
use tokio_postgres::Row;

use super::fault::Fault;
use super::lane::{Lane, Values};
use super::rows::{integer, json};

const SAVE: &str = "SELECT handback.save_session($1, $2, $3, $4, $5, $6)";

const FIND: &str = "SELECT id, content FROM handback.session WHERE id = $1";

// Sessions after a place, the last updated first, each with its bytes. Without the last one they have about so many bytes. Each
// list has an index.
macro_rules! list {
    ($condition:literal) => {
        concat!(
            "SELECT id, content, size FROM (
                SELECT *, coalesce(sum(size) OVER before, 0) AS before FROM (
                    SELECT id, updated, content, 1024::BIGINT + octet_length(content) AS size FROM handback.session WHERE (updated, id) < ($2, $3)",
            $condition,
            "       ORDER BY updated DESC, id DESC LIMIT $1
                ) AS page
                WINDOW before AS (ORDER BY updated DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)
            ) AS weighed WHERE before <= $4::BIGINT ORDER BY updated DESC, id DESC"
        )
    };
}

const LIST: &str = list!("");
const LIST_OF_CLIENT: &str = list!(" AND client = $5");
const LIST_OF_AGENT: &str = list!(" AND agent = $5");
const LIST_OF_BOTH: &str = list!(" AND client = $5 AND agent = $6");
// A session has few children, so this list needs no index for the rest.
const LIST_OF_PARENT: &str =
    list!(" AND parent = $5 AND ($6::TEXT IS NULL OR client = $6) AND ($7::TEXT IS NULL OR agent = $7)");

/// The session's messages, parts, runs and events are deleted with it.
const DELETE: &str = "SELECT handback.delete_session($1)";

pub(super) const ALL: &[&str] =
    &[SAVE, FIND, LIST, LIST_OF_CLIENT, LIST_OF_AGENT, LIST_OF_BOTH, LIST_OF_PARENT, DELETE];

pub(super) async fn save(lane: &Lane, session: Arc<Session>) -> Result<(), Fault> {
    let content = serde_json::to_string(&*session)?;
    let (client, parent) =
        (session.client.as_ref().map(ClientId::as_str), session.parent.as_ref().map(SessionId::as_str));
    let values: Values<'_> =
        &[&session.id.as_str(), &client, &column(session.agent_name()), &parent, &when(session.updated), &content];
    lane.query(SAVE, values).await.map(drop)
}

pub(super) async fn find(lane: &Lane, session: SessionId) -> Result<Option<Arc<Session>>, Fault> {
    let rows = lane.query(FIND, &[&session.as_str()]).await?;
    rows.first().map(|row| json(row, 1, "session").map(Arc::new)).transpose()
}

pub(super) async fn list(
    lane: &Lane,
    filter: SessionFilter,
    after: Option<SessionPlace>,
    most: Most,
) -> Result<Page<Arc<Session>>, Fault> {
    let (rows, bytes) = (integer(most.items.saturating_add(1)), integer(most.bytes));
    // The newest time that can be stored comes after all others, and needs no id.
    let (updated, id) = after.as_ref().map_or((i64::MAX, ""), |after| (when(after.updated), after.id.as_str()));
    let (client, agent) = (filter.client.as_ref().map(ClientId::as_str), filter.agent.as_deref().map(column));
    let rows = match (&filter.parent, client, agent) {
        (Some(parent), client, agent) => {
            lane.query(LIST_OF_PARENT, &[&rows, &updated, &id, &bytes, &parent.as_str(), &client, &agent]).await?
        }
        (None, None, None) => lane.query(LIST, &[&rows, &updated, &id, &bytes]).await?,
        (None, Some(client), None) => lane.query(LIST_OF_CLIENT, &[&rows, &updated, &id, &bytes, &client]).await?,
        (None, None, Some(agent)) => lane.query(LIST_OF_AGENT, &[&rows, &updated, &id, &bytes, &agent]).await?,
        (None, Some(client), Some(agent)) => {
            lane.query(LIST_OF_BOTH, &[&rows, &updated, &id, &bytes, &client, &agent]).await?
        }
    };
    Page::fill(rows.iter().map(read), most)
}

fn read(row: &Row) -> Result<(usize, Arc<Session>), Fault> {
    let size: i64 = row.try_get(2)?;
    Ok((size.cast_unsigned() as usize, Arc::new(json(row, 1, "session")?)))
}

/// A name as a column. PostgreSQL's texts have no NUL.
fn column(name: &str) -> Cow<'_, str> {
    match name.contains('\0') {
        true => name.replace('\0', "\u{fffd}").into(),
        false => name.into(),
    }
}

/// A time as the database's integer. No session is as new as the largest one.
fn when(time: Time) -> i64 {
    i64::try_from(time.0).unwrap_or(i64::MAX).min(i64::MAX - 1)
}

pub(super) async fn delete(lane: &Lane, session: SessionId) -> Result<bool, Fault> {
    Ok(lane.row(DELETE, &[&session.as_str()]).await?.try_get(0)?)
}
