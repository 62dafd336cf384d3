//! Journals the end of a call. Whoever waits for the call is answered after that.

use std::borrow::Borrow;
use std::sync::Arc;

use tracing::{Instrument, Span};

use crate::calls::hub::Hub;
use crate::calls::table::Ending;
use crate::calls::trail;
use crate::id::RequestId;
use crate::store::{Ended, FinishedCall, IfFull, Origin, StoreError, StoreFuture};

impl Hub {
    /// Journals the end of a call, then answers its waiters and tells listeners. Ends are written in the order of the calls
    /// of this function, whenever the futures are polled. If the disk is full, this fails, but the end counts: it is
    /// journaled as soon as there is room. If the call had ended before, in another table, that end is told.
    pub(crate) fn journal(&self, ending: Ending) -> impl Future<Output = Result<Ended, StoreError>> + Send {
        journaled(Journaling::new(self, ending))
    }

    /// Journals the end of a call, and logs a failure of the journal.
    pub(crate) async fn journal_or_log(&self, ending: Ending) {
        let request = ending.call.head.request.clone();
        log_failure(&request, self.journal(ending).await);
    }

    /// Journals an end whose first write has failed, or is in progress. The journal stores it once.
    pub(crate) async fn journal_now(&self, call: &Arc<FinishedCall>) -> Result<Ended, StoreError> {
        let finished = self.0.store.finish(call, IfFull::Fails).await?;
        let counts = if let Ended::Before(before) = &finished { before } else { call };
        self.of_call(&call.head.request, |table| table.finished.journaled(counts));
        Ok(finished)
    }

    /// Journals the end of a call, for callers that cannot await. Listeners are told at once: nobody is acknowledged, and the
    /// call would end the same way in another process.
    pub(crate) fn journal_in_background(&self, ending: Ending) {
        self.of_client(ending.call.head.client(), |table| table.tell_end(&ending.call));
        let mut ended = Journaling::new(self.clone(), ending);
        ended.is_told = true;
        ended.go_on_in_background();
    }
}

/// A call that has just ended and is being journaled. Its waiters are answered when it is journaled, or cannot be. If this
/// is dropped before, because a connection broke, the write goes on without it.
struct Journaling<H: Borrow<Hub>> {
    hub: H,
    /// The end, until it is reported.
    ending: Option<Ending>,
    /// The write to the journal, until it has ended.
    writing: Option<StoreFuture<Ended>>,
    /// Whether that write waits for room.
    waits: bool,
    is_journaled: bool,
    /// Whether listeners were told.
    is_told: bool,
    /// Whether a task of its own has it, which is dropped only when the process ends.
    in_background: bool,
}

impl<H: Borrow<Hub>> Journaling<H> {
    fn new(hub: H, ending: Ending) -> Self {
        let writing = Some(hub.borrow().0.store.finish(&ending.call, IfFull::Fails));
        Self {
            hub,
            ending: Some(ending),
            writing,
            waits: false,
            is_journaled: false,
            is_told: false,
            in_background: false,
        }
    }

    /// Moves it to a task of its own.
    fn go_on_in_background(&mut self) {
        let (hub, ending, writing) = (self.hub.borrow().clone(), self.ending.take(), self.writing.take());
        let Some(request) = ending.as_ref().map(|ending| ending.call.head.request.clone()) else { return };
        let span = ending.as_ref().map_or_else(Span::none, |ending| ending.span.clone());
        let (waits, is_told) = (self.waits, self.is_told);
        let ended = Journaling { hub, ending, writing, waits, is_journaled: false, is_told, in_background: true };
        let journaling = async move { log_failure(&request, journaled(ended).await) };
        let hub = self.hub.borrow();
        hub.0.tasks.spawn_on(journaling.instrument(span), &hub.0.runtime);
    }

    /// Takes note of the result of the write. If it may succeed later, another one waits for that.
    fn written(&mut self, written: &Result<Ended, StoreError>) {
        (self.writing, self.is_journaled) = (None, written.is_ok());
        if let (Ok(Ended::Before(before)), Some(ending)) = (written, &mut self.ending) {
            ending.call = before.clone();
        }
        if let (Err(error), Some(ending)) = (written, &mut self.ending)
            && error.is_passing()
            && !self.waits
        {
            self.waits = true;
            if ending.call.head.origin == Origin::Application {
                // They can ask again. A turn has to wait.
                ending.waiters.dismiss();
            }
            self.writing = Some(self.hub.borrow().0.store.finish(&ending.call, IfFull::Waits));
        }
    }
}

/// Waits until the end is journaled. In the background it also waits for room.
async fn journaled<H: Borrow<Hub>>(mut ended: Journaling<H>) -> Result<Ended, StoreError> {
    loop {
        let written = match &mut ended.writing {
            Some(writing) => writing.await,
            None => Ok(Ended::First),
        };
        ended.written(&written);
        if ended.writing.is_none() || !ended.in_background {
            return written;
        }
    }
}

fn log_failure(request: &RequestId, journaled: Result<Ended, StoreError>) {
    if let Err(error) = journaled {
        tracing::error!(call = request.as_str(), %error, "the end of a call was not journaled");
    }
}

impl<H: Borrow<Hub>> Drop for Journaling<H> {
    fn drop(&mut self) {
        if self.writing.is_some() && !self.in_background {
            return self.go_on_in_background();
        }
        let Some(mut ending) = self.ending.take() else { return };
        let hub = self.hub.borrow();
        hub.of_client(ending.call.head.client(), |table| {
            table.metrics.finished(&ending.call, &table.common.tool_names);
            if self.is_journaled {
                table.finished.journaled(&ending.call);
            }
            if !self.is_told {
                table.tell_end(&ending.call);
            }
        });
        ending.span.in_scope(|| trail::ended(&ending.call));
        ending.waiters.tell(&ending.call);
        hub.changed_if_draining();
    }
}
