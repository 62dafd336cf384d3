//! The `handback` command: the server, and the commands that use a server from a shell.
//!
//! Each command is a file with its arguments and a `run`, and `command` lists them. `connection` holds what the client
//! commands share, `following` follows events, `output` prints, `exit` reports errors and picks the exit code, and `signals`
//! stops commands that run until they are stopped.

mod approvals;
mod attach;
mod backup;
mod bench;
mod call;
mod calls;
mod cancel;
mod chaos;
mod chat;
mod check;
mod clients;
mod command;
mod completions;
mod config;
mod connection;
mod doctor;
mod events;
mod exit;
mod following;
mod key;
mod log;
mod man;
mod output;
mod serve;
mod sessions;
mod signals;
mod token;
mod tools;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use self::command::{Cli, Command, run};

fn main() -> ExitCode {
    let Cli { serve, command } = Cli::parse();
    let command = command.unwrap_or(Command::Serve(serve));
    let workers = if let Command::Serve(serve) = &command { serve.workers() } else { 1 };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return exit::report(&error.into()),
    };
    let ended = runtime.block_on(run(command));
    // This drops the tasks that still run, and with them the processes that they started.
    runtime.shutdown_timeout(Duration::from_secs(1));
    ended.map_or_else(|error| exit::report(&error), |()| ExitCode::SUCCESS)
}
