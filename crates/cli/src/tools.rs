//! `handback tools`.

use std::io;

use clap::Args;
use handback_wire::client_tools::Tool;

use crate::connection::{QueryArgs, word};
use crate::output::Table;

/// Lists the tools that clients have registered.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback tools\n  handback tools laptop --json")]
pub(crate) struct ToolsArgs {
    /// Only the tools of this client.
    client: Option<String>,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: ToolsArgs) -> anyhow::Result<()> {
    let api = args.query.server.api()?;
    match &args.client {
        Some(client) => args.query.show(api.tools(client).await, print_table),
        None => args.query.show(api.all_tools().await, |tools| print_table(tools.into_values())),
    }
}

fn print_table(tools: impl IntoIterator<Item = Tool>) -> io::Result<()> {
    let rows = tools.into_iter().map(|tool| {
        let timeout = tool.timeout.map(|timeout| format!("{timeout} ms")).unwrap_or_default();
        [tool.id, word(&tool.effect.unwrap_or_default()), timeout, tool.version.unwrap_or_default(), tool.description]
    });
    Table::new(["TOOL", "EFFECT", "TIMEOUT", "VERSION", "DESCRIPTION"], "no tools", rows).print()
}
