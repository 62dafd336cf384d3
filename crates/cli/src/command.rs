//! The commands, and what runs each of them.

use clap::{Parser, Subcommand};

use crate::{
    approvals, attach, backup, bench, call, calls, cancel, chaos, chat, check, clients, completions, config, doctor,
    events, key, man, serve, sessions, token, tools,
};

/// Tools that run on the client: a server hands calls to browsers, editors and laptops, and takes the results back.
#[derive(Debug, Parser)]
#[command(name = "handback", version, after_help = "Without a command, `handback serve` is run, with these options.")]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) serve: serve::ServeArgs,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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

/// Runs a command to its end.
pub(crate) async fn run(command: Command) -> anyhow::Result<()> {
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
