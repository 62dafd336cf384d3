//! `handback sessions`.

use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use handback_wire::session::Session;

use crate::connection::QueryArgs;
use crate::output::Table;

/// Lists the conversations that the server keeps, those used last first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback sessions\n  handback sessions --limit 5 --json\n\n\
                        `handback chat --session ID` goes on with one of them.")]
pub(crate) struct SessionsArgs {
    /// At most so many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000), default_value_t = 50)]
    limit: u16,
    #[command(flatten)]
    query: QueryArgs,
}

pub(crate) async fn run(args: SessionsArgs) -> anyhow::Result<()> {
    let sessions = args.query.server.api()?.sessions(Some(args.limit.into())).await;
    args.query.show(sessions, |sessions| table(sessions).print())
}

/// The last millisecond that can be shown: that of the year 9999. A server may send any number.
const LATEST: u64 = 253_402_300_799_999;

/// Sessions as a table.
pub(crate) fn table(sessions: Vec<Session>) -> Table {
    let rows = sessions.into_iter().map(|session| {
        let updated = UNIX_EPOCH + Duration::from_millis(session.time.updated.min(LATEST));
        let updated = humantime::format_rfc3339_seconds(updated).to_string();
        [session.id, session.client_id.unwrap_or_default(), updated, session.title]
    });
    Table::new(["SESSION", "CLIENT", "UPDATED", "TITLE"], "no sessions", rows)
}

#[cfg(test)]
mod tests;
