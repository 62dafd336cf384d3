//! The events of the server.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use handback_wire::event::Event;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::sleep;

use crate::api::Api;
use crate::error::Error;
use crate::retry::{Backoff, Reconnect};
use crate::sse::EventReader;

/// The delays between the tries to connect: they double from the first to the second.
const DELAYS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));

/// A connection that is silent for this long counts as lost: the server sends something every 30 s.
const SILENCE: Duration = Duration::from_secs(90);

/// Events, and the state of their connection.
///
/// Every connection begins with [`Event::Connected`]; earlier events are not replayed. An error is the last item, and
/// means that a retry would not help.
pub type Events = BoxStream<'static, Result<Notice, Error>>;

/// A filter for events; `None` does not restrict.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct EventFilter {
    /// What happens in this session.
    pub session_id: Option<String>,
    /// What happens to this client: its tools, its calls, its sessions.
    pub client_id: Option<String>,
}

/// An item of the stream of events.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// Something happened.
    Event(Box<Event>),
    /// The connection is lost or could not be opened.
    Disconnected {
        /// Why.
        reason: String,
        /// The delay before the next try.
        retry_in: Duration,
    },
}

impl Api {
    /// All events of the server. The stream connects when it is first polled, and reconnects whenever the connection is
    /// lost. Events of unknown types are skipped.
    ///
    /// The server cuts off listeners that do not keep up: poll the stream, or drop it.
    pub fn events(&self) -> Events {
        self.events_of(EventFilter::default())
    }

    /// The events of a session, of a client, or of both, in the same way as [`Api::events`].
    pub fn events_of(&self, filter: EventFilter) -> Events {
        let listener = Listener {
            api: self.clone(),
            filter,
            reader: None,
            delay: Duration::ZERO,
            reconnect: Reconnect::new(Backoff::new(DELAYS), None),
        };
        stream::unfold(Some(listener), |listener| async move { Some(listener?.next().await) }).boxed()
    }
}

struct Listener {
    api: Api,
    filter: EventFilter,
    /// The open connection, if there is one.
    reader: Option<EventReader>,
    /// How long to wait before the next connection.
    delay: Duration,
    reconnect: Reconnect,
}

impl Listener {
    /// Returns the next item, and the listener for the items after it.
    async fn next(mut self) -> (Result<Notice, Error>, Option<Self>) {
        let error = match self.event().await {
            Ok(event) => return (Ok(Notice::Event(Box::new(event))), Some(self)),
            Err(error) => error,
        };
        let Some(retry_in) = self.reconnect.delay_after(&error) else { return (Err(error), None) };
        (self.reader, self.delay) = (None, retry_in);
        (Ok(Notice::Disconnected { reason: error.to_string(), retry_in }), Some(self))
    }

    /// Connects if there is no connection, and reads the next event.
    async fn event(&mut self) -> Result<Event, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                sleep(self.delay).await;
                let response = self.api.open_events(&self.filter).await?;
                none.insert(EventReader::new(response.bytes_stream(), SILENCE))
            }
        };
        loop {
            let block = reader.next().await.map_err(|reason| self.api.interrupted(reason))?;
            if let Some(event) = block.data.as_deref().and_then(decode) {
                if matches!(event, Event::Connected {}) {
                    self.reconnect.connected();
                }
                return Ok(event);
            }
        }
    }
}

/// Reads an event; `None` if its type is unknown, or it cannot be read.
pub(crate) fn decode(data: &str) -> Option<Event> {
    #[derive(Deserialize)]
    struct RawEvent<'a> {
        #[serde(rename = "type", borrow)]
        kind: &'a RawValue,
        #[serde(borrow)]
        properties: &'a RawValue,
    }
    let read = || {
        let RawEvent { kind, properties } = serde_json::from_str(data)?;
        // The type is put first, because properties with raw JSON can be read only when their type is known.
        serde_json::from_str(&format!("{{\"type\":{kind},\"properties\":{properties}}}"))
    };
    read().inspect_err(|error| tracing::debug!(%error, "an event that is skipped")).ok()
}

#[cfg(test)]
mod tests;
