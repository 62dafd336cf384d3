//! `handback calls`.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use handback_client::{CallFilter, Error, EventFilter};
use handback_wire::client_tools::{Call, CallState, Outcome, Success};
use handback_wire::event::Event;
use tokio::time::{Instant, sleep_until};

use crate::connection::{QueryArgs, api_word, word};
use crate::following::Following;
use crate::output::{Table, plain, print, print_json};

/// The least time between two readings of the list of calls that is watched.
const BETWEEN_READINGS: Duration = Duration::from_millis(250);
/// The time until the next reading while a call is open, or after the server could not answer. Offers have no event.
const UNTIL_NEXT_READING: Duration = Duration::from_secs(1);

const HEADINGS: [&str; 7] = ["REQUEST", "TOOL", "STATE", "ATTEMPT", "OUTCOME", "TOOK", "CREATED"];

/// Lists the calls that the server knows, or shows one of them.
///
/// Those under way come first, then those that are over, the newest of each first. With --watch the order is the other way
/// round, and a line follows within a second or two when a call is made or changed; with --json as well, each line is a call.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  handback calls --client laptop --state offered\n  handback calls --watch --limit 5\n  \
                        handback calls 1f0c… --wait 60000"
)]
pub(crate) struct CallsArgs {
    /// Only this call, with its input and outcome.
    #[arg(value_name = "REQUEST_ID", conflicts_with_all = ["client", "session", "state", "limit", "watch"])]
    request_id: Option<String>,
    /// How long to wait for the outcome of that call; the server allows 60000.
    #[arg(long, value_name = "MS", requires = "request_id")]
    wait: Option<u64>,
    /// Only calls to this client.
    #[arg(long, value_name = "ID")]
    client: Option<String>,
    /// Only calls of this session.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only calls in this state.
    #[arg(long, value_parser = api_word::<CallState>(&["awaiting_approval", "queued", "offered", "done"]))]
    state: Option<CallState>,
    /// At most so many [default: as many as the server lists, 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: Option<u16>,
    /// Go on with new and changed calls as they happen, until this is stopped with Ctrl-C.
    #[arg(long)]
    watch: bool,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: CallsArgs) -> anyhow::Result<()> {
    let api = args.query.server.api()?;
    if let Some(request_id) = &args.request_id {
        let call = api.call(request_id, args.wait.map(Duration::from_millis)).await;
        return args.query.show(call, |call| print(&describe(&call)));
    }
    let filter = CallFilter::with(|filter| {
        filter.client_id = args.client;
        filter.session_id = args.session;
        filter.state = args.state;
        filter.limit = args.limit.map(usize::from);
    });
    if args.watch {
        return watch(&args.query, filter).await;
    }
    args.query.show(api.calls(&filter).await, |calls| table(&calls).print())
}

/// Prints the calls, and each again when it has changed.
///
/// An event only tells that something has changed, and the list tells what. So nothing is missed while the connection is
/// lost, unless more calls than the server lists have changed.
async fn watch(query: &QueryArgs, mut filter: CallFilter) -> anyhow::Result<()> {
    let api = query.server.api()?;
    let events = EventFilter::with(|events| {
        events.client_id.clone_from(&filter.client_id);
        events.session_id.clone_from(&filter.session_id);
    });
    // Changes are looked for in all calls, also if only some of them are printed.
    let (most, state) = (filter.limit.take().unwrap_or(usize::MAX), filter.state.take());
    let is_wanted = |call: &Call| state.is_none_or(|state| state == call.state);
    let calls = query.checked(api.calls(&filter).await)?;
    let mut known = stages(&calls);
    let mut shown: Vec<Call> = calls.into_iter().filter(is_wanted).take(most).collect();
    shown.reverse();
    let columns = table(&shown);
    match query.json {
        true => shown.iter().try_for_each(print_json)?,
        false if shown.is_empty() => columns.print_row(HEADINGS.map(str::to_owned))?,
        false => columns.print()?,
    }
    let mut following = Following::new(&api, events)?;
    let mut could_not_read = false;
    loop {
        let reads_again = could_not_read || known.values().any(|stage| stage.state != CallState::Done);
        let by = reads_again.then(|| Instant::now() + UNTIL_NEXT_READING);
        if !changed(&mut following, by).await? {
            return Ok(());
        }
        let Some(calls) = following.unless_stopped(api.calls(&filter)).await else { return Ok(()) };
        could_not_read = calls.as_ref().is_err_and(Error::is_transient);
        if could_not_read {
            continue;
        }
        let calls = calls?;
        let before = std::mem::replace(&mut known, stages(&calls));
        let is_new = |call: &Call| is_wanted(call) && before.get(&call.request_id) != known.get(&call.request_id);
        for call in calls.into_iter().rev().filter(is_new) {
            match query.json {
                true => print_json(&call)?,
                false => columns.print_row(row(call))?,
            }
        }
    }
}

/// How far a call is.
#[derive(PartialEq)]
struct Stage {
    state: CallState,
    attempt: u32,
    outcome: &'static str,
}

/// How far each call is.
fn stages(calls: &[Call]) -> HashMap<String, Stage> {
    let stage = |call: &Call| Stage { state: call.state, attempt: call.attempt, outcome: outcome(call) };
    calls.iter().map(|call| (call.request_id.clone(), stage(call))).collect()
}

/// Waits until calls may have changed, and a moment longer for the changes that follow at once; at most until `by`. Returns
/// false when the user stops the command.
async fn changed(following: &mut Following, by: Option<Instant>) -> anyhow::Result<bool> {
    let mut read_at = by;
    loop {
        let event = tokio::select! {
            event = following.next() => event?,
            () = sleep_until(read_at.unwrap_or_else(Instant::now)), if read_at.is_some() => return Ok(true),
        };
        match event {
            None => return Ok(false),
            Some(
                Event::Connected {}
                | Event::Request { .. }
                | Event::Executing(_)
                | Event::Completed { .. }
                | Event::Failed { .. }
                | Event::PermissionAsked(_)
                | Event::PermissionReplied { .. },
            ) => {
                let soon = Instant::now() + BETWEEN_READINGS;
                read_at = Some(read_at.map_or(soon, |at| at.min(soon)));
            }
            Some(_) => {}
        }
    }
}

fn table(calls: &[Call]) -> Table {
    Table::new(HEADINGS, "no calls", calls.iter().cloned().map(row))
}

fn row(call: Call) -> [String; 7] {
    let (outcome, took) = (outcome(&call).to_owned(), took(&call));
    [call.request_id, call.tool, word(&call.state), call.attempt.to_string(), outcome, took, call.created]
}

/// The API's word for the outcome of a call; empty while it has none.
fn outcome(call: &Call) -> &'static str {
    call.outcome.as_ref().map(|outcome| parts(outcome).0).unwrap_or_default()
}

/// How long a call took. The server does not know it for calls that ended with a restart.
fn took(call: &Call) -> String {
    match call.times.approval + call.times.queue + call.times.execute {
        0.0 => "unknown".to_owned(),
        sum => format!("{sum:.0} ms"),
    }
}

fn describe(call: &Call) -> String {
    let times = call.times;
    let phases = format!(
        "{} (approval {:.0}, queue {:.0}, execute {:.0})",
        took(call),
        times.approval,
        times.queue,
        times.execute
    );
    let (attempt, state, effect) = (call.attempt.to_string(), word(&call.state), word(&call.effect));
    let mut lines = vec![
        ("request", call.request_id.as_str()),
        ("tool", &call.tool),
        ("client", &call.client_id),
        ("session", &call.session_id),
        ("message", &call.message_id),
        ("call", &call.call_id),
        ("effect", &effect),
        ("state", &state),
        ("attempt", &attempt),
        ("created", &call.created),
        ("deadline", call.deadline.as_deref().unwrap_or("not yet: it waits to be allowed")),
        ("took", &phases),
    ];
    lines.extend(call.input.as_ref().map(|input| ("input", input.get())));
    if let Some((status, text)) = call.outcome.as_ref().map(parts) {
        lines.extend([("outcome", status), ("", text)]);
    }
    if let Some(may_have_run) = call.may_have_run {
        lines.push(("ran", if may_have_run { "maybe: the call was sent, and no result came in time" } else { "no" }));
    }
    if let Some((status, text)) = call.late_result.as_ref().map(parts) {
        lines.extend([("late", status), ("", text)]);
    }
    let shown = lines.into_iter().filter(|(_, value)| !value.is_empty());
    shown.map(|(name, value)| format!("{name:<10}{}\n", plain(value.trim_end()))).collect()
}

/// The API's word for an outcome, and its text.
fn parts(outcome: &Outcome) -> (&'static str, &str) {
    match outcome {
        Outcome::Success(Success { output, .. }) => ("success", output),
        Outcome::Error { error } => ("error", error),
        Outcome::Timeout { error } => ("timeout", error),
        Outcome::Cancelled { error } => ("cancelled", error),
        Outcome::Denied { error } => ("denied", error),
        Outcome::Disconnected { error } => ("disconnected", error),
    }
}
