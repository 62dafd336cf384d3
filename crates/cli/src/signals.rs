//! Stopping what runs until it is stopped.

use std::io::{self, IsTerminal};
use std::pin::pin;

use handback_client::CancellationToken;

use crate::failure::Interrupted;
use crate::output::remark;

/// Runs `work` until it ends by itself. Ctrl-C or SIGTERM fires the token that it was given; a second one drops it.
pub(crate) async fn run_until_stopped<F, T>(work: impl FnOnce(CancellationToken) -> F) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<T>>,
{
    let mut signals = Signals::new()?;
    let shutdown = CancellationToken::new();
    let mut work = pin!(work(shutdown.clone()));
    tokio::select! {
        ended = &mut work => return ended,
        () = signals.next() => {}
    }
    // Without a terminal nobody presses Ctrl-C again, and the log stays what it is.
    if io::stderr().is_terminal() {
        remark("stopping; once more to stop at once");
    }
    shutdown.cancel();
    tokio::select! {
        ended = &mut work => ended,
        () = signals.next() => Err(Interrupted.into()),
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // Without Ctrl-C there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
