//! How the terminal treats what is typed.

#[cfg(unix)]
use rustix::termios::{LocalModes, OptionalActions, QueueSelector, Termios, tcflush, tcgetattr, tcsetattr};

/// How the terminal treated what is typed when this was made. There is nothing to remember without a terminal, and nothing
/// is done where it has gone meanwhile.
#[derive(Debug)]
pub(super) struct Mode {
    #[cfg(unix)]
    found: Option<Termios>,
}

#[cfg(unix)]
impl Mode {
    pub(super) fn of_terminal() -> Self {
        Self { found: tcgetattr(std::io::stdin()).ok() }
    }

    /// Puts it back.
    pub(super) fn restore(&self) {
        self.set(|mode| mode);
    }

    /// Puts it back, but does not show what is typed.
    pub(super) fn hide_typed(&self) {
        self.set(|mut mode| {
            mode.local_modes.remove(LocalModes::ECHO);
            mode
        });
    }

    fn set(&self, change: impl FnOnce(Termios) -> Termios) {
        if let Some(found) = &self.found {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &change(found.clone()));
        }
    }
}

/// Forgets what was typed and nobody has read.
#[cfg(unix)]
pub(super) fn forget_typed() {
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}

#[cfg(not(unix))]
impl Mode {
    pub(super) fn of_terminal() -> Self {
        Self {}
    }

    pub(super) fn restore(&self) {}

    pub(super) fn hide_typed(&self) {}
}

#[cfg(not(unix))]
pub(super) fn forget_typed() {}
