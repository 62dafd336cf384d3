//! `handback calls`.

use std::time::Duration;

use clap::Args;
use handback_client::CallFilter;
use handback_wire::client_tools::{Call, CallState, Outcome, Success};

use crate::connection::{QueryArgs, api_word, word};
use crate::output::{Table, plain, print};

/// Lists the calls that the server knows, or shows one of them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  handback calls --client laptop --state offered\n  handback calls 1f0c… --wait 60000"
)]
pub(crate) struct CallsArgs {
    /// Only this call, with its input and outcome.
    #[arg(value_name = "REQUEST_ID", conflicts_with_all = ["client", "session", "state"])]
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
    });
    args.query.show(api.calls(&filter).await, |calls| {
        let rows = calls.into_iter().map(|call| {
            let outcome = call.outcome.as_ref().map(|outcome| parts(outcome).0).unwrap_or_default().to_owned();
            let state = word(&call.state);
            let took = took(&call);
            [call.request_id, call.tool, state, call.attempt.to_string(), outcome, took, call.created]
        });
        Table::new(["REQUEST", "TOOL", "STATE", "ATTEMPT", "OUTCOME", "TOOK", "CREATED"], "no calls", rows).print()
    })
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
