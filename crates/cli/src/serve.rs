//! `handback serve`.

use std::sync::Arc;

use clap::Args;
use handback_server::Server;
use handback_server::app::{Extensions, SetupError};
use handback_server::config::{Config, Loaded, Storage};
use handback_server::serve::StartError;
use handback_server::store::{DatabaseError, OpenError};
use prometheus_client::collector::Collector;

use crate::config::SettingsArgs;
use crate::log::Log;
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
    let log = Log::start(&loaded.config)?;
    // Each connection is an open file, and the usual soft limit is far below the hard one.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    // Signals are taken before anybody can know that the server is there.
    run_until_stopped(|shutdown| async move {
        let server = bind(loaded, log.metrics()).await?;
        print(&format!("handback listening on http://{}\n", server.local_addr()))?;
        server.run(shutdown.cancelled_owned()).await;
        Ok(())
    })
    .await
}

/// Binds the configured address. If the default data directory cannot be used, because another server uses it for example,
/// the server runs without keeping anything. A directory that the user named must be usable.
async fn bind(loaded: Loaded, metrics: Arc<dyn Collector>) -> Result<Server, StartError> {
    const NOTHING_KEPT: &str = "nothing outlives this server; name a directory with --data, or say --ephemeral";
    let Loaded { config, sources, .. } = loaded;
    if matches!(config.storage(), Storage::Memory) && !config.ephemeral {
        tracing::warn!("there is no home directory to keep data in: {NOTHING_KEPT}");
    }
    let extensions = || Extensions { metrics: vec![metrics.clone()], ..Extensions::default() };
    match Server::bind_with(config.clone(), extensions()).await {
        Err(StartError::Setup(SetupError::Database(DatabaseError::File(error))))
            if !sources.contains_key("data")
                && matches!(error, OpenError::InUse { .. } | OpenError::Unreachable { .. }) =>
        {
            tracing::warn!("{error}: {NOTHING_KEPT}");
            Server::bind_with(Config { ephemeral: true, ..config }, extensions()).await
        }
        bound => bound,
    }
}
