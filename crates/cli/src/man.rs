//! `handback man`.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};

use crate::command::Cli;

/// Writes the manual pages of all commands.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  handback man ~/.local/share/man/man1 && man handback-chat")]
pub(crate) struct ManArgs {
    /// The directory to write them to; it is made if it is not there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn run(args: ManArgs) -> anyhow::Result<()> {
    let written = std::fs::create_dir_all(&args.directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), &args.directory));
    written.with_context(|| format!("the manual pages cannot be written to {}", args.directory.display()))
}
