//! The state that all parts of a run share: the server, the counted failures, and the progress bars.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use super::http::{Failure, Target};

/// One run of the bench.
pub(super) struct Run {
    pub(super) target: Arc<Target>,
    /// How many calls the clients hold; `None` if they answer their calls.
    pub(super) held: Option<AtomicU32>,
    pub(super) shows_progress: bool,
    /// How often each failure occurred, by its text.
    pub(super) errors: Mutex<BTreeMap<String, u64>>,
}

impl Run {
    pub(super) fn count(&self, during: &str, failure: &Failure) {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        *errors.entry(format!("{during}: {failure}")).or_default() += 1;
    }

    pub(super) fn take_errors(&self) -> BTreeMap<String, u64> {
        std::mem::take(&mut *self.errors.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A progress bar on standard error, which is erased when it is dropped. Without a terminal it is not shown.
    pub(super) fn progress(&self, prefix: &'static str, length: u64, what: &str) -> ProgressBar {
        let target = if self.shows_progress { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let style = ProgressStyle::with_template(&format!("{{prefix:>10}} [{{bar:30}}] {what}"));
        ProgressBar::with_draw_target(Some(length), target)
            .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
            .with_finish(ProgressFinish::AndClear)
            .with_prefix(prefix)
    }
}

/// All failures in one line.
pub(super) fn list(errors: &BTreeMap<String, u64>) -> String {
    let named: Vec<String> = errors.iter().map(|(kind, count)| format!("{kind} ({count}×)")).collect();
    named.join(", ")
}
