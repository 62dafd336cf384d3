//! The journal of calls in the database.

use std::sync::Arc;
use std::time::Duration;

use handback_core::id::{RequestId, SessionId};
use handback_core::store::{CallFilter, CallHead, CallPage, FinishedCall, JournaledCall, Most, Outcome, Page, weight};
use serde_json::value::RawValue;
use tokio_postgres::Row;

use super::Bounds;
use super::fault::Fault;
use super::lane::{Lane, Values};
use super::rows::{integer, json, name, optional_json};
use crate::store::forms::{Ending, EndingRef, HeadForm, LateForm, LateRef, StateForm};

/// An open call is replaced. A call that is over is left as it is, and one whose outcome is no longer kept is not begun.
const BEGIN: &str = "
    WITH gone AS (
        SELECT 1 FROM handback.forgotten_call WHERE request = $1 AND since >= now() - INTERVAL '1 day'
    ), begun AS (
        INSERT INTO handback.call (request, size, session, client, head, input, offered, state)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8 WHERE NOT EXISTS (SELECT FROM gone)
        ON CONFLICT (request) DO UPDATE SET size = excluded.size, session = excluded.session, client = excluded.client,
            head = excluded.head, input = excluded.input, offered = excluded.offered, state = excluded.state
        WHERE call.ended IS NULL
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM begun), EXISTS (SELECT FROM gone)";

// Whether a call with an id is open is asked in a way that PostgreSQL cannot take for a question to the index of open calls:
// with old statistics, it would look through all of them.
macro_rules! is_open {
    () => {
        "coalesce(ended, 0) = 0"
    };
}

const CHANGE: &str = concat!(
    "UPDATE handback.call SET size = $2, head = $3, input = $4, offered = $5, state = $6 WHERE request = $1 AND ",
    is_open!()
);

/// Undoes a beginning.
const WITHDRAW: &str = concat!("DELETE FROM handback.call WHERE request = $1 AND ", is_open!());

/// Ends an open call. If its beginning could not be written, that is written too. A call that is over is left as it is.
const FINISH: &str = concat!(
    "
    WITH finished AS (
        UPDATE handback.call SET ended = nextval('handback.call_end'), ended_at = now(), size = $2, ending = $9
        WHERE request = $1 AND ",
    is_open!(),
    " RETURNING 1
    ), gone AS (
        SELECT 1 FROM handback.forgotten_call WHERE request = $1 AND since >= now() - INTERVAL '1 day'
    ), written AS (
        INSERT INTO handback.call (request, size, session, client, head, input, offered, state, ending, ended, ended_at)
        SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, nextval('handback.call_end'), now()
        WHERE NOT EXISTS (SELECT FROM finished) AND NOT EXISTS (SELECT FROM gone)
        ON CONFLICT (request) DO NOTHING
        RETURNING 1
    )
    SELECT EXISTS (SELECT FROM finished) OR EXISTS (SELECT FROM written), EXISTS (SELECT FROM gone)"
);

macro_rules! columns {
    () => {
        "request, session, client, head, input, ending, ended, late, state"
    };
}

const KEEP_LATE: &str = "
    WITH kept AS (
        UPDATE handback.call SET late = $2, size = size + $3
        WHERE request = $1 AND ended IS NOT NULL AND late IS NULL
        RETURNING ended
    ), counted AS (
        UPDATE handback.kept_calls SET bytes = bytes + $3 FROM kept WHERE kept.ended <= counted_to
    )
    SELECT EXISTS (SELECT FROM kept)";

const FINISHED: &str = concat!("SELECT ", columns!(), " FROM handback.call WHERE ended IS NOT NULL AND request = $1");

// Calls that ended before a number, the newest first, each with its bytes. Without the last one they have about so many bytes.
// Each list has an index.
macro_rules! list {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            columns!(),
            ", size FROM (
                SELECT *, coalesce(sum(size) OVER before, 0) AS before FROM (
                    SELECT ",
            columns!(),
            ", size FROM handback.call WHERE ended IS NOT NULL AND ended < $2",
            $condition,
            "       ORDER BY ended DESC LIMIT $1
                ) AS page
                WINDOW before AS (ORDER BY ended DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING)
            ) AS weighed WHERE before <= $3::BIGINT ORDER BY ended DESC"
        )
    };
}

const LIST: &str = list!("");
const LIST_OF_CLIENT: &str = list!(" AND client = $4");
const LIST_OF_SESSION: &str = list!(" AND session = $4");
const LIST_OF_BOTH: &str = list!(" AND client = $4 AND session = $5");

const OPEN: &str = "
    SELECT request, session, client, head, input, offered, state FROM handback.call WHERE ended IS NULL ORDER BY number";

const PRUNE: &str = "SELECT handback.prune_calls($1, $2, $3 * INTERVAL '1 second', $4)";

pub(super) const ALL: &[&str] = &[
    BEGIN,
    CHANGE,
    WITHDRAW,
    FINISH,
    KEEP_LATE,
    FINISHED,
    LIST,
    LIST_OF_CLIENT,
    LIST_OF_SESSION,
    LIST_OF_BOTH,
    OPEN,
    PRUNE,
];

/// How many calls, and how many ids, are deleted at a time.
const PRUNED_AT_ONCE: i32 = 1_000;

/// What became of a beginning or an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is written.
    First,
    /// A call with this id is over.
    Over,
    /// A call with this id is over, and how it ended is no longer kept.
    Gone,
}

/// The columns of a call that are JSON.
struct Texts {
    head: String,
    state: Option<String>,
}

fn texts(call: &JournaledCall) -> Result<Texts, Fault> {
    let state = StateForm::of(call).map(|state| serde_json::to_string(&state)).transpose()?;
    Ok(Texts { head: serde_json::to_string(&HeadForm::from(&*call.head))?, state })
}

pub(super) async fn begin(lane: &Lane, call: JournaledCall) -> Result<Written, Fault> {
    let Texts { head: text, state } = texts(&call)?;
    let head = &*call.head;
    let values: Values<'_> = &[
        &head.request.as_str(),
        &integer(weight::of_head(head)),
        &head.session.as_str(),
        &head.client().as_str(),
        &text,
        &head.input.get(),
        &i64::from(call.offered),
        &state,
    ];
    written(&lane.row(BEGIN, values).await?)
}

fn written(row: &Row) -> Result<Written, Fault> {
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (true, _) => Written::First,
        (false, true) => Written::Gone,
        (false, false) => Written::Over,
    })
}

/// Records that an open call has changed.
pub(super) async fn change(lane: &Lane, call: JournaledCall) -> Result<(), Fault> {
    let Texts { head: text, state } = texts(&call)?;
    let head = &*call.head;
    let values: Values<'_> = &[
        &head.request.as_str(),
        &integer(weight::of_head(head)),
        &text,
        &head.input.get(),
        &i64::from(call.offered),
        &state,
    ];
    lane.query(CHANGE, values).await.map(drop)
}

/// Undoes a beginning of which it is not known whether it was written.
pub(super) async fn withdraw(lane: &Lane, request: RequestId) -> Result<(), Fault> {
    lane.query(WITHDRAW, &[&request.as_str()]).await.map(drop)
}

pub(super) async fn finish(lane: &Lane, call: Arc<FinishedCall>) -> Result<Written, Fault> {
    let ending = serde_json::to_string(&EndingRef::from(&*call))?;
    let begun = JournaledCall { claimant: call.claimant.clone(), ..JournaledCall::new(call.head.clone()) };
    let Texts { head: text, state } = texts(&begun)?;
    let head = &*call.head;
    let values: Values<'_> = &[
        &head.request.as_str(),
        &integer(weight::of_call(&call)),
        &head.session.as_str(),
        &head.client().as_str(),
        &text,
        &head.input.get(),
        &0_i64,
        &state,
        &ending,
    ];
    written(&lane.row(FINISH, values).await?)
}

pub(super) async fn keep_late(lane: &Lane, request: RequestId, late: Outcome) -> Result<bool, Fault> {
    let late = serde_json::to_string(&LateRef(&late))?;
    Ok(lane.row(KEEP_LATE, &[&request.as_str(), &late, &integer(late.len())]).await?.try_get(0)?)
}

pub(super) async fn finished(lane: &Lane, request: RequestId) -> Result<Option<Arc<FinishedCall>>, Fault> {
    let rows = lane.query(FINISHED, &[&request.as_str()]).await?;
    Ok(rows.first().map(read).transpose()?.map(Arc::new))
}

pub(super) async fn list(lane: &Lane, filter: CallFilter, before: Option<u64>, most: Most) -> Result<CallPage, Fault> {
    let (rows, bytes) = (integer(most.items.saturating_add(1)), integer(most.bytes));
    let before = before.map_or(i64::MAX, |before| i64::try_from(before).unwrap_or(i64::MAX));
    let rows = match (&filter.client, &filter.session) {
        (None, None) => lane.query(LIST, &[&rows, &before, &bytes]).await?,
        (Some(client), None) => lane.query(LIST_OF_CLIENT, &[&rows, &before, &bytes, &client.as_str()]).await?,
        (None, Some(session)) => lane.query(LIST_OF_SESSION, &[&rows, &before, &bytes, &session.as_str()]).await?,
        (Some(client), Some(session)) => {
            lane.query(LIST_OF_BOTH, &[&rows, &before, &bytes, &client.as_str(), &session.as_str()]).await?
        }
    };
    let read = |row: &Row| {
        let (number, size): (i64, i64) = (row.try_get(6)?, row.try_get(9)?);
        Ok::<_, Fault>((size.cast_unsigned() as usize, (number.cast_unsigned(), Arc::new(read(row)?))))
    };
    Page::fill(rows.iter().map(read), most)
}

/// The calls that are not over.
pub(super) async fn open(lane: &Lane) -> Result<Vec<JournaledCall>, Fault> {
    let read = |row: &Row| {
        let StateForm { ask, claimant, denied } = optional_json(row, 6, "call")?.unwrap_or_default();
        let offered: i64 = row.try_get(5)?;
        let offered = u32::try_from(offered).unwrap_or(u32::MAX);
        Ok(JournaledCall { head: Arc::new(read_head(row)?), offered, ask, claimant, denied })
    };
    lane.query(OPEN, &[]).await?.iter().map(read).collect()
}

/// Deletes the oldest finished calls while they exceed the bounds, some at a time. Returns whether there may be more.
pub(super) async fn prune(lane: &Lane, bounds: &Bounds) -> Result<bool, Fault> {
    let bytes = i64::try_from(bounds.call_bytes).unwrap_or(i64::MAX);
    let age = bounds.call_age.min(Duration::from_hours(24 * 365 * 100)).as_secs_f64();
    Ok(lane.row(PRUNE, &[&integer(bounds.calls), &bytes, &age, &PRUNED_AT_ONCE]).await?.try_get(0)?)
}

fn read(row: &Row) -> Result<FinishedCall, Fault> {
    let Ending { attempt, may_have_run, ask, phases, outcome } = json(row, 5, "call")?;
    let late = optional_json::<LateForm>(row, 7, "call")?.map(|LateForm(late)| late);
    let StateForm { claimant, .. } = optional_json(row, 8, "call")?.unwrap_or_default();
    Ok(FinishedCall { head: Arc::new(read_head(row)?), attempt, may_have_run, ask, phases, outcome, claimant, late })
}

fn read_head(row: &Row) -> Result<CallHead, Fault> {
    let head: HeadForm = json(row, 3, "call")?;
    let (request, session) = (name(row, 0, "call", RequestId::parse)?, name(row, 1, "call", SessionId::parse)?);
    let input: Box<RawValue> = json(row, 4, "call")?;
    let head = head.into_head(request.clone(), session, row.try_get(2)?, input);
    head.map_err(|error| Fault::Row { table: "call", id: request.to_string(), cause: error.to_string() })
}
