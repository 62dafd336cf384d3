//! The `handback` command: the server, and the commands that use a server from a shell.
//!
//! Each command is a file with its arguments and a `run`. `connection` holds what the client commands share, `output`
//! prints, `exit` reports errors and picks the exit code, and `signals` stops commands that run until they are stopped.

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

use clap::{Parser, Subcommand};

/// Tools that run on the client: a server hands calls to browsers, editors and laptops, and takes the results back.
#[derive(Debug, Parser)]
#[command(name = "handback", version, after_help = "Without a command, `handback serve` is run, with these options.")]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(flatten)]
    serve: serve::ServeArgs,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    Chat(chat::ChatArgs),
    Clients(clients::ClientsArgs),
    Tools(tools::ToolsArgs),
    Call(call::CallArgs),
    Calls(calls::CallsArgs),
    Cancel(cancel::CancelArgs),
    Approvals(approvals::ApprovalsArgs),
    Approve(approvals::ApproveArgs),
    Deny(approvals::DenyArgs),
    Events(events::EventsArgs),
    Attach(attach::AttachArgs),
    Sessions(sessions::SessionsArgs),
    Token(token::TokenArgs),
    Key(key::KeyArgs),
    Config(config::ConfigArgs),
    Doctor(doctor::DoctorArgs),
    Backup(backup::BackupArgs),
    Check(check::CheckArgs),
    Chaos(chaos::ChaosArgs),
    Bench(bench::BenchArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

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

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve::run(args).await,
        Command::Chat(args) => chat::run(args).await,
        Command::Clients(args) => clients::run(args).await,
        Command::Tools(args) => tools::run(args).await,
        Command::Call(args) => call::run(args).await,
        Command::Calls(args) => calls::run(args).await,
        Command::Cancel(args) => cancel::run(args).await,
        Command::Approvals(args) => approvals::list(args).await,
        Command::Approve(args) => approvals::approve(args).await,
        Command::Deny(args) => approvals::deny(args).await,
        Command::Events(args) => events::run(args).await,
        Command::Attach(args) => attach::run(args).await,
        Command::Sessions(args) => sessions::run(args).await,
        Command::Token(args) => token::run(args),
        Command::Key(args) => key::run(args),
        Command::Config(args) => config::run(args),
        Command::Doctor(args) => doctor::run(args).await,
        Command::Backup(args) => backup::run(args),
        Command::Check(args) => check::run(args),
        Command::Chaos(args) => chaos::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(args),
    }
}
