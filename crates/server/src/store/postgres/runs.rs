//! Runs of sessions, and their events, in the database.

use std::sync::Arc;

use handback_core::id::{RunId, SessionId};
use handback_core::store::ThreadRun;

use super::fault::Fault;
use super::lane::{Lane, Values};
use super::rows::{integer, json};

const SAVE: &str = "SELECT handback.save_run($1, $2, $3, $4)";

macro_rules! of_session {
    ($rest:literal) => {
        concat!(
            "SELECT id, content FROM handback.run
            WHERE session = (SELECT session.number FROM handback.session WHERE session.id = $1) ",
            $rest
        )
    };
}

const FIND: &str = of_session!("AND id = $2");
const LIST: &str = of_session!("ORDER BY number");
const UNFINISHED: &str = "SELECT id, content FROM handback.run WHERE unfinished ORDER BY number";

const APPEND: &str = "SELECT handback.append_run_events($1, $2, $3, $4)";

/// How PostgreSQL says that events are missing.
const GAP: &str = "HB001";

const EVENTS: &str = "
    SELECT event FROM handback.run_event WHERE number >= $3 AND run = (
        SELECT run.number FROM handback.run JOIN handback.session ON session.number = run.session
        WHERE session.id = $1 AND run.id = $2
    ) ORDER BY number";

pub(super) const ALL: &[&str] = &[SAVE, FIND, LIST, UNFINISHED, APPEND, EVENTS];

pub(super) async fn save(lane: &Lane, run: Arc<ThreadRun>) -> Result<(), Fault> {
    let content = serde_json::to_string(&*run)?;
    lane.query(SAVE, &[&run.session.as_str(), &run.id.as_str(), &run.is_unfinished(), &content]).await.map(drop)
}

pub(super) async fn find(lane: &Lane, session: SessionId, run: RunId) -> Result<Option<Arc<ThreadRun>>, Fault> {
    Ok(query(lane, FIND, &[&session.as_str(), &run.as_str()], Arc::new).await?.pop())
}

pub(super) async fn list(lane: &Lane, session: SessionId) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    query(lane, LIST, &[&session.as_str()], |run| Arc::new(run.without_input())).await
}

pub(super) async fn unfinished(lane: &Lane) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    query(lane, UNFINISHED, &[], Arc::new).await
}

async fn query(
    lane: &Lane,
    sql: &'static str,
    values: Values<'_>,
    wanted: fn(ThreadRun) -> Arc<ThreadRun>,
) -> Result<Vec<Arc<ThreadRun>>, Fault> {
    lane.query(sql, values).await?.iter().map(|row| json(row, 1, "run").map(wanted)).collect()
}

pub(super) async fn append_events(
    lane: &Lane,
    session: SessionId,
    run: RunId,
    first: usize,
    events: Vec<Arc<str>>,
) -> Result<(), Fault> {
    let texts: Vec<&str> = events.iter().map(|event| &**event).collect();
    let appended = lane.query(APPEND, &[&session.as_str(), &run.as_str(), &integer(first), &texts]).await;
    appended.map(drop).map_err(|fault| match &fault {
        Fault::Postgres(error) if error.code().is_some_and(|code| code.code() == GAP) => {
            Fault::Gap { run, first, stored: fault.to_string() }
        }
        _ => fault,
    })
}

pub(super) async fn events(lane: &Lane, session: SessionId, run: RunId, from: usize) -> Result<Vec<Arc<str>>, Fault> {
    let rows = lane.query(EVENTS, &[&session.as_str(), &run.as_str(), &integer(from)]).await?;
    rows.iter().map(|row| Ok(row.try_get::<_, &str>(0)?.into())).collect()
}
