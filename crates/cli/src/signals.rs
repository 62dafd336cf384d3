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
        _ = signals.next() => {}
    }
    // Without a terminal nobody presses Ctrl-C again, and the log stays what it is.
    if io::stderr().is_terminal() {
        remark("stopping; once more to stop at once");
    }
    shutdown.cancel();
    tokio::select! {
        ended = &mut work => ended,
        _ = signals.next() => Err(Interrupted("stopped at once").into()),
    }
}

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ctrl-C: stop what is being done.
    Interrupt,
    /// SIGTERM: leave.
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is only Ctrl-C"))]
    Terminate,
}

/// The signals to this process. While there is one of these, they do not end it by themselves.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The next one. Safe to drop while it waits.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
        }
    }
}

#[cfg(not(unix))]
#[derive(Debug)]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Stop {
        // Without Ctrl-C there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        Stop::Interrupt
    }
}
