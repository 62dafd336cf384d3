//! `handback backup`.

use std::path::PathBuf;

use clap::Args;
use handback_server::store::back_up;

use crate::config::SettingsArgs;
use crate::output::remark;

/// Copies the database to a new file, while a server uses it or not. The copy has everything as it was at one moment.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  handback backup /backups/handback-$(date +%F).db\n\nTo go back to it: stop the server, \
                        and put the copy in place of handback.db, without handback.db-wal and handback.db-shm."
)]
pub(crate) struct BackupArgs {
    /// The file to make. An existing one is not overwritten.
    #[arg(value_name = "FILE")]
    to: PathBuf,
    /// The directory of the database [default: the server's].
    #[arg(long, value_name = "DIR")]
    data: Option<String>,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: BackupArgs) -> anyhow::Result<()> {
    let to = args.to.display();
    let database = SettingsArgs::database(args.data, args.config, |name| {
        format!(
            "everything is in {name}, which PostgreSQL copies with its own tool: pg_dump --format=custom --file={to} URL; \
             pg_restore goes back to the copy"
        )
    })?;
    back_up(&database, &args.to)?;
    remark(&format!("{} is a copy of {}", args.to.display(), database.display()));
    Ok(())
}
