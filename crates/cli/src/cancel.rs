//! `handback cancel`.

use clap::Args;
use handback_wire::client_tools::CancelRequest;

use crate::connection::QueryArgs;
use crate::output::print;

/// Cancels a call that is under way, and notifies its client and its caller.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  handback cancel 1f0c… --reason \"no longer needed\"")]
pub(crate) struct CancelArgs {
    /// The call.
    #[arg(value_name = "REQUEST_ID")]
    request_id: String,
    /// Why.
    #[arg(long)]
    reason: Option<String>,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: CancelArgs) -> anyhow::Result<()> {
    let request = CancelRequest { request_id: args.request_id, reason: args.reason };
    let cancelled = args.query.server.api()?.cancel(&request).await;
    args.query.show(cancelled, |_| print("cancelled\n"))
}
