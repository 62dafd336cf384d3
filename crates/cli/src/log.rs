//! The server's log, on standard error. A thread writes it, so that nobody waits for a slow terminal or a full pipe.

use std::fmt;
use std::io::{self, BufWriter};
use std::sync::Arc;

use handback_server::config::{Config, LogFormat};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use tracing_appender::non_blocking::{ErrorCounter, NonBlockingBuilder, WorkerGuard};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::UsageError;

/// How many lines may wait to be written. Later ones are dropped and counted. A line has some hundred bytes.
const MOST_WAITING: usize = 16_384;
/// How many bytes are written at once while lines come faster than they are written.
const AT_ONCE: usize = 64 * 1024;

/// The log while it is written. Dropping it writes the lines that wait, for up to a second.
pub(crate) struct Log {
    dropped: ErrorCounter,
    _writer: WorkerGuard,
}

impl Log {
    /// Starts the log of this process.
    pub(crate) fn start(config: &Config) -> anyhow::Result<Self> {
        let filter: Targets = config
            .log
            .parse()
            .map_err(|error| UsageError(format!("log: \"{}\" is not a filter: {error}", config.log)))?;
        let (lines, writer) = NonBlockingBuilder::default()
            .buffered_lines_limit(MOST_WAITING)
            .thread_name("handback-log")
            .finish(BufWriter::with_capacity(AT_ONCE, io::stderr()));
        let dropped = lines.error_counter();
        // The filter alone decides what is logged.
        let log = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE).with_writer(lines).with_ansi(false);
        let started = match config.log_format {
            LogFormat::Text => log.finish().with(filter).try_init(),
            LogFormat::Json => log.json().flatten_event(true).with_current_span(false).finish().with(filter).try_init(),
        };
        started.map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))?;
        Ok(Self { dropped, _writer: writer })
    }

    /// The metrics of the log.
    pub(crate) fn metrics(&self) -> Arc<dyn Collector> {
        Arc::new(Dropped(self.dropped.clone()))
    }
}

/// How many lines were dropped.
struct Dropped(ErrorCounter);

impl fmt::Debug for Dropped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Dropped")
    }
}

impl Collector for Dropped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = ConstCounter::new(self.0.dropped_lines() as u64);
        let help = "Lines of the log that were dropped because it could not be written fast enough";
        dropped.encode(encoder.encode_descriptor("log_lines_dropped", help, None, dropped.metric_type())?)
    }
}
