//! `handback serve`.

use std::io;

use clap::Args;
use handback_server::Server;
use handback_server::app::SetupError;
use handback_server::config::{Config, Loaded, LogFormat};
use handback_server::serve::StartError;
use handback_server::store::OpenError;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::SettingsArgs;
use crate::exit::UsageError;
use crate::output::print;
use crate::signals::run_until_stopped;

/// Runs the server until it is stopped with Ctrl-C or SIGTERM; calls under way may finish first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback serve\n  handback serve --listen 127.0.0.1:8080 --log debug")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Threads that serve connections [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

impl ServeArgs {
    pub(crate) fn workers(&self) -> usize {
        let cores = || std::thread::available_parallelism().map_or(1, |cores| cores.get());
        self.workers.map_or_else(cores, usize::from)
    }
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let loaded = args.settings.load()?;
    start_log(&loaded.config)?;
    // Each connection is an open file, and the usual soft limit is far below the hard one.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    // Signals are taken before anybody can know that the server is there.
    run_until_stopped(|shutdown| async move {
        let server = bind(loaded).await?;
        print(&format!("handback listening on http://{}\n", server.local_addr()))?;
        server.run(shutdown.cancelled_owned()).await;
        Ok(())
    })
    .await
}

/// Binds the configured address. If the default data directory cannot be used, because another server uses it for example,
/// the server runs without keeping anything. A directory that the user named must be usable.
async fn bind(loaded: Loaded) -> Result<Server, StartError> {
    const NOTHING_KEPT: &str = "nothing outlives this server; name a directory with --data, or say --ephemeral";
    let Loaded { config, sources, .. } = loaded;
    if config.data.is_none() && !config.ephemeral {
        tracing::warn!("there is no home directory to keep data in: {NOTHING_KEPT}");
    }
    match Server::bind(config.clone()).await {
        Err(StartError::Setup(SetupError::Database(error)))
            if !sources.contains_key("data")
                && matches!(error, OpenError::InUse { .. } | OpenError::Unreachable { .. }) =>
        {
            tracing::warn!("{error}: {NOTHING_KEPT}");
            Server::bind(Config { ephemeral: true, ..config }).await
        }
        bound => bound,
    }
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    let filter: Targets =
        config.log.parse().map_err(|error| UsageError(format!("log: \"{}\" is not a filter: {error}", config.log)))?;
    // The filter alone decides what is logged.
    let log = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(io::stderr).with_ansi(false);
    let started = match config.log_format {
        LogFormat::Text => log.finish().with(filter).try_init(),
        LogFormat::Json => log.json().finish().with(filter).try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}
