//! Stops commands that run until they are stopped.

use std::io::{self, IsTerminal};
use std::pin::pin;

use handback_client::CancellationToken;
#[cfg(unix)]
use tokio::signal::unix::{Signal as Interrupt, Signal as Terminate, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Interrupt, CtrlClose as Terminate, ctrl_c, ctrl_close};

use crate::exit::Interrupted;
use crate::output::remark;

/// Runs `work` until it ends by itself. The first Ctrl-C or SIGTERM cancels the token that `work` gets; the second one
/// drops `work`.
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
    // Without a terminal nobody can press Ctrl-C again, and the hint would only disturb the log.
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
    /// Ctrl-C: stop the current work.
    Interrupt,
    /// SIGTERM, or a closed console: leave.
    Terminate,
}

/// The signals that stop this process. As long as this value exists, they do not end the process by themselves.
#[derive(Debug)]
pub(crate) struct Signals {
    interrupt: Interrupt,
    terminate: Terminate,
}

impl Signals {
    #[cfg(unix)]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    #[cfg(windows)]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { interrupt: ctrl_c()?, terminate: ctrl_close()? })
    }

    /// Does `work`; returns `None` if a signal comes before it is done.
    pub(crate) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = work => Some(done),
            _ = self.next() => None,
        }
    }

    /// Waits for the next signal. Safe to drop while it waits.
    pub(crate) async fn next(&mut self) -> Stop {
        tokio::select! {
            _ = self.interrupt.recv() => Stop::Interrupt,
            _ = self.terminate.recv() => Stop::Terminate,
        }
    }
}
