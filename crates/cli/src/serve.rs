//! `handback serve`.

use std::io;

use clap::Args;
use handback_server::Server;
use handback_server::config::{Config, LogFormat};
use tracing_subscriber::EnvFilter;

use crate::config::SettingsArgs;
use crate::failure::Usage;
use crate::output::print;
use crate::signals::run_until_stopped;

/// Runs the server until it is stopped with Ctrl-C or SIGTERM; calls under way may finish first.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  handback serve\n  handback serve --listen 127.0.0.1:8080 --log debug")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    /// Threads that serve connections [default: half of the cores, at least one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

impl ServeArgs {
    /// Calls are short and meet in one table: a thread for every core would spend more time on the others than on calls.
    pub(crate) fn workers(&self) -> usize {
        let half = || std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        self.workers.map_or_else(half, usize::from)
    }
}

pub(crate) async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let config = args.settings.load()?.config;
    start_log(&config)?;
    if config.data.is_none() && !config.ephemeral {
        let problem = "there is no home directory to keep data in: name a directory with --data, or keep nothing with \
                       --ephemeral";
        return Err(Usage(problem.to_owned()).into());
    }
    // Each connection is an open file, and the usual soft limit is far below the hard one.
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
    let server = Server::bind(config).await?;
    print(&format!("handback listening on http://{}\n", server.local_addr()))?;
    run_until_stopped(|shutdown| async move {
        server.run(shutdown.cancelled_owned()).await;
        Ok(())
    })
    .await
}

fn start_log(config: &Config) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&config.log)
        .map_err(|error| Usage(format!("log: \"{}\" is not a filter: {error}", config.log)))?;
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).with_ansi(false);
    let started = match config.log_format {
        LogFormat::Text => log.try_init(),
        LogFormat::Json => log.json().try_init(),
    };
    started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}
