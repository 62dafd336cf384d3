//! `handback approvals`, `handback approve` and `handback deny`.

use anyhow::anyhow;
use clap::Args;
use handback_wire::session::{Permission, PermissionResponse, Reply};

use crate::connection::QueryArgs;
use crate::output::{Table, excerpt, json_line, one_line, print, timestamp};

/// How much of a call is shown that was answered.
const SHOWN_CHARACTERS: usize = 200;

/// Lists the calls that wait until somebody allows them, the oldest first, or shows all of one.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  handback approvals\n  handback approvals per_1f0c…\n  handback approvals --json\n\n\
                        `handback approve ID` and `handback deny ID` answer one of them."
)]
pub(crate) struct ApprovalsArgs {
    /// Only this one, with its whole input.
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn list(args: ApprovalsArgs) -> anyhow::Result<()> {
    let asks = args.query.server.api()?.permissions().await;
    if let Some(id) = &args.id {
        let ask = find(args.query.checked(asks)?, id)?;
        return args.query.show(Ok(ask), |ask| print(&describe(&ask)?));
    }
    args.query.show(asks, |asks| {
        let rows = asks.into_iter().map(|ask| {
            let since = timestamp(ask.time.created);
            [ask.id, ask.tool, ask.session_id, since, ask.input.get().to_owned()]
        });
        Table::new(["APPROVAL", "TOOL", "SESSION", "SINCE", "INPUT"], "nothing waits to be allowed", rows).print()
    })
}

/// Approves a waiting call.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback approve per_1f0c…\n  handback approve per_1f0c… --always\n\n\
                        `handback approvals ID` shows the whole input first.")]
pub(crate) struct ApproveArgs {
    /// The approval, as `handback approvals` lists it.
    #[arg(value_name = "ID")]
    id: String,
    /// Allow all later calls of the tool in this session, too.
    #[arg(long)]
    always: bool,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn approve(args: ApproveArgs) -> anyhow::Result<()> {
    let response = if args.always { Reply::Always } else { Reply::Once };
    answer(&args.query, &args.id, "allowed", PermissionResponse { response, input: None, message: None }).await
}

/// Denies a waiting call. The model sees the denial.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  handback deny per_1f0c… --reason \"not on a Friday\"\n\n\
                        `handback approvals ID` shows the whole input first.")]
pub(crate) struct DenyArgs {
    /// The approval, as `handback approvals` lists it.
    #[arg(value_name = "ID")]
    id: String,
    /// Why, for the model.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn deny(args: DenyArgs) -> anyhow::Result<()> {
    let denial = PermissionResponse { response: Reply::Reject, input: None, message: args.reason };
    answer(&args.query, &args.id, "denied", denial).await
}

/// Answers an ask, and prints what was answered.
async fn answer(query: &QueryArgs, id: &str, done: &str, answer: PermissionResponse) -> anyhow::Result<()> {
    let api = query.server.api()?;
    let ask = find(query.checked(api.permissions().await)?, id)?;
    let answered = match api.answer_permission(&ask.session_id, id, &answer).await {
        // Somebody else was faster.
        Err(error) if error.status() == Some(404) => return Err(is_gone(id)),
        answered => answered.map(|()| ask),
    };
    query.show(answered, |Permission { tool, input, .. }| {
        print(&format!("{done}: {}\n", excerpt(&format!("{tool} {input}"), SHOWN_CHARACTERS)))
    })
}

fn find(asks: Vec<Permission>, id: &str) -> anyhow::Result<Permission> {
    asks.into_iter().find(|ask| ask.id == id).ok_or_else(|| is_gone(id))
}

fn is_gone(id: &str) -> anyhow::Error {
    anyhow!(
        "nothing waits to be allowed under the id {id}: it was answered, its time is over, or its call has ended; \
         `handback approvals` lists what waits"
    )
}

/// All that a person needs to know who answers an ask.
fn describe(ask: &Permission) -> serde_json::Result<String> {
    let since = timestamp(ask.time.created);
    // JSON escapes line ends in strings; those between its values become spaces.
    let input = json_line(&ask.input)?;
    let lines = [
        ("approval", ask.id.as_str()),
        ("tool", &ask.tool),
        ("client", &ask.client_id),
        ("session", &ask.session_id),
        ("message", &ask.message_id),
        ("call", &ask.call_id),
        ("since", &since),
        ("input", &input),
    ];
    Ok(lines.into_iter().map(|(name, value)| format!("{name:<10}{}\n", one_line(value))).collect())
}
