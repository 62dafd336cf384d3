//! `handback check`.

use std::path::PathBuf;

use clap::Args;
use handback_server::store::{Checked, check};

use crate::config::SettingsArgs;
use crate::output::{plain, print};

/// Reads everything in the database, while a server uses it or not, and says what is wrong with it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  handback check --data /backups/yesterday\n\nThe exit code is 0 if everything can be \
                        read, 1 if not, and 2 if no database is named."
)]
pub(crate) struct CheckArgs {
    /// The directory of the database [default: the server's].
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: CheckArgs) -> anyhow::Result<()> {
    let database = SettingsArgs::database(args.data, args.config, |name| {
        format!(
            "everything is in {name}, which PostgreSQL checks with its own tools: pg_amcheck --schema=handback URL looks at \
             tables and indexes, and pg_dump --file=/dev/null URL reads every row"
        )
    })?;
    let Checked { sessions, messages, runs, calls, clients, wrong, .. } = check(&database)?;
    for line in &wrong {
        print(&format!("{}\n", plain(line)))?;
    }
    print(&format!(
        "can be read: sessions {sessions}, messages {messages}, runs {runs}, calls {calls}, clients {clients}\n"
    ))?;
    match wrong.len() {
        0 => Ok(()),
        1 => anyhow::bail!("{} is damaged", database.display()),
        count => anyhow::bail!("{} is damaged in {count} places", database.display()),
    }
}
