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

impl Mode {
    pub(super) fn of_terminal() -> Self {
        Self {
            #[cfg(unix)]
            found: tcgetattr(std::io::stdin()).ok(),
        }
    }

    /// Puts it back.
    pub(super) fn restore(&self) {
        #[cfg(unix)]
        self.set(|_| {});
    }

    /// Puts it back, but does not show what is typed.
    pub(super) fn hide_typed(&self) {
        #[cfg(unix)]
        self.set(|mode| mode.local_modes.remove(LocalModes::ECHO));
    }

    #[cfg(unix)]
    fn set(&self, change: impl FnOnce(&mut Termios)) {
        if let Some(mut mode) = self.found.clone() {
            change(&mut mode);
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &mode);
        }
    }
}

/// Forgets what was typed and nobody has read.
pub(super) fn forget_typed() {
    #[cfg(unix)]
    let _ = tcflush(std::io::stdin(), QueueSelector::IFlush);
}
