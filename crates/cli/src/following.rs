//! Follows the events of the server until the user stops it.

use futures_util::StreamExt;
use handback_client::{Api, EventFilter, Events, Notice};
use handback_wire::event::Event;

use crate::output::remark;
use crate::signals::Signals;

/// The events that a command follows.
pub(crate) struct Following {
    events: Events,
    signals: Signals,
    /// The server's URL, for remarks.
    url: String,
}

impl Following {
    /// Follows the events of a filter from now on.
    pub(crate) fn new(api: &Api, filter: EventFilter) -> anyhow::Result<Self> {
        Ok(Self { events: api.events_of(filter), signals: Signals::new()?, url: api.url().to_owned() })
    }

    /// Does `work`; returns `None` when the user stops the command.
    pub(crate) async fn unless_stopped<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        self.signals.unless_stopped(work).await
    }

    /// The next event; `None` when the user stops the command. Each connection begins with [`Event::Connected`], and
    /// remarks tell when it is open and when it is lost. Safe to drop while it waits.
    pub(crate) async fn next(&mut self) -> anyhow::Result<Option<Event>> {
        loop {
            let notice = self.signals.unless_stopped(self.events.next()).await.flatten();
            match notice.transpose()? {
                Some(Notice::Event(event)) => {
                    if matches!(*event, Event::Connected {}) {
                        remark(&format!("listening to {}", self.url));
                    }
                    return Ok(Some(*event));
                }
                Some(Notice::Disconnected { reason, .. }) => remark(&format!("{reason}; connecting again")),
                Some(_) => {}
                None => return Ok(None),
            }
        }
    }
}
