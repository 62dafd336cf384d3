//! The server's log, on standard error. Nobody waits for it.

mod lines;

use std::fmt;
use std::io;
use std::sync::Arc;

use anyhow::Context;
use handback_server::config::{Config, LogFormat};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::UsageError;
use lines::{Lines, Writer};

/// The log while it is written. Dropping it writes the lines that wait, for up to a second.
pub(crate) struct Log {
    lines: Lines,
    _writer: Writer,
}

impl Log {
    /// Starts the log of this process.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let filter: Targets = config
            .log
            .parse()
            .map_err(|error| UsageError(format!("log: \"{}\" is not a filter: {error}", config.log)))?;
        let lines = Lines::default();
        let writer = lines.write_to(io::stderr()).context("cannot start the thread that writes the log")?;
        // The filter alone decides what is logged.
        let log =
            tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(lines.clone()).with_ansi(false);
        let started = match config.log_format {
            LogFormat::Text => log.finish().with(filter).try_init(),
            LogFormat::Json => log.json().flatten_event(true).with_current_span(false).finish().with(filter).try_init(),
        };
        started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))?;
        Ok(Self { lines, _writer: writer })
    }

    /// The metrics of the log.
    pub(crate) fn metrics(&self) -> Arc<dyn Collector> {
        Arc::new(Dropped(self.lines.clone()))
    }
}

/// How many lines were dropped.
#[derive(Debug)]
struct Dropped(Lines);

impl Collector for Dropped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = ConstCounter::new(self.0.dropped());
        let help = "Lines of the log that were dropped because it could not be written fast enough";
        dropped.encode(encoder.encode_descriptor("log_lines_dropped", help, None, dropped.metric_type())?)
    }
}
