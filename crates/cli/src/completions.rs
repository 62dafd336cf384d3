//! `handback completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::command::Cli;
use crate::output::print;

/// Prints a script that completes `handback` commands in a shell.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  handback completions bash > ~/.local/share/bash-completion/completions/handback")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "handback", &mut script);
    Ok(print(&String::from_utf8(script)?)?)
}
