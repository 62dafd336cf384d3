//! `handback token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use handback_server::auth::{Auth, Grant};
use handback_server::core::clock::Clock;
use handback_server::core::id::{ClientId, SessionId};

use crate::config::SettingsArgs;
use crate::exit::UsageError;
use crate::output::print;

/// Makes a token for one client, signed with the configured auth.tokenSecret; no server needs to run.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  HANDBACK_TOKEN=$(handback token --client laptop --ttl 86400) \\\n    \
                        handback attach --client laptop --tool uptime -- uptime")]
pub(crate) struct TokenArgs {
    /// The client that the token speaks for.
    #[arg(long, value_name = "ID")]
    client: String,
    /// The only session that the token is good for; without it, all of the client's.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Agents that the token may name besides those that are open to all clients, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    agents: Vec<String>,
    /// How long the token is good for [default: 3600].
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<u64>,
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

pub(crate) fn run(args: TokenArgs) -> anyhow::Result<()> {
    let client = ClientId::parse(&args.client).map_err(|error| UsageError(format!("--client: {error}")))?;
    let session = args.session.as_deref().map(SessionId::parse).transpose();
    let session = session.map_err(|error| UsageError(format!("--session: {error}")))?;
    let auth = Auth::new(&SettingsArgs::from_file(args.config).load()?.config.auth)?;
    let grant = Grant { client, session, agents: args.agents, ttl: args.ttl.map(Duration::from_secs) };
    let minted = auth.mint(grant, Clock::system().now());
    let (token, _expires) = minted.map_err(|problem| UsageError(problem.message))?;
    Ok(print(&format!("{token}\n"))?)
}
