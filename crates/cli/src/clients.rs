//! `handback clients`.

use clap::Args;

use crate::connection::QueryArgs;
use crate::output::Table;

/// Lists the clients that the server knows.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  handback clients --url http://127.0.0.1:4096")]
pub(crate) struct ClientsArgs {
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: ClientsArgs) -> anyhow::Result<()> {
    let clients = args.query.server.api()?.clients().await;
    args.query.show(clients, |clients| {
        let rows = clients.into_iter().map(|client| {
            let [connections, tools, calls] = [client.connections, client.tools, client.calls].map(|n| n.to_string());
            [client.id, connections, tools, calls, client.since]
        });
        Table::new(["CLIENT", "CONNECTIONS", "TOOLS", "CALLS", "SINCE"], "no clients", rows).print()
    })
}
