//! `handback sessions`.

use clap::{Args, Subcommand};
use handback_wire::session::Session;

use crate::chat::{ShowArgs, show};
use crate::connection::QueryArgs;
use crate::output::{Table, timestamp};

/// Lists the conversations that the server keeps, those used last first, or shows one of them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback sessions\n  handback sessions --limit 5 --json\n  \
                        handback sessions show ses_1f0c… --follow\n\n\
                        `handback chat --session ID` goes on with one of them.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct SessionsArgs {
    #[command(subcommand)]
    command: Option<SessionsCommand>,
    /// At most so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), default_value_t = 50)]
    limit: u16,
    #[command(flatten)]
    query: QueryArgs,
}

#[derive(Debug, Subcommand)]
enum SessionsCommand {
    Show(ShowArgs),
}

pub(crate) async fn run(args: SessionsArgs) -> anyhow::Result<()> {
    if let Some(SessionsCommand::Show(args)) = args.command {
        return show(args).await;
    }
    let sessions = args.query.server.api()?.sessions(Some(args.limit.into())).await;
    args.query.show(sessions, |sessions| table(sessions).print())
}

/// Sessions as a table.
pub(crate) fn table(sessions: Vec<Session>) -> Table {
    let rows = sessions.into_iter().map(|session| {
        let updated = timestamp(session.time.updated);
        [session.id, session.client_id.unwrap_or_default(), updated, session.title]
    });
    Table::new(["SESSION", "CLIENT", "UPDATED", "TITLE"], "no sessions", rows)
}

#[cfg(test)]
mod tests;
