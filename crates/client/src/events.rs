//! What happens on the server, as it happens.

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

/// A connection that is silent for this long is dead: the server says something every 30 s.
const SILENCE: Duration = Duration::from_secs(90);

/// Events, and what became of the connection that they come on.
///
/// Every connection begins with [`Event::Connected`]; what happened before it is not told again. An error is one that no
/// retry mends, and the last item.
pub type Events = BoxStream<'static, Result<Notice, Error>>;

/// What the stream of events tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Notice {
    /// Something happened.
    Event(Box<Event>),
    /// The connection is lost or could not be opened.
    Disconnected {
        /// Why.
        reason: String,
        /// When the next try comes.
        retry_in: Duration,
    },
}

impl Api {
    /// All that happens, as it happens: connects when it is first polled, and again whenever the connection is lost.
    /// Events of a type that is not known here are passed over.
    ///
    /// The server cuts off listeners that do not keep up: poll it, or drop it.
    pub fn events(&self) -> Events {
        self.listen(None)
    }

    /// The same, but only what happens in one session.
    pub fn session_events(&self, session: &str) -> Events {
        self.listen(Some(session.to_owned()))
    }

    fn listen(&self, session: Option<String>) -> Events {
        let listener = Listener {
            api: self.clone(),
            session,
            reader: None,
            delay: Duration::ZERO,
            reconnect: Reconnect::new(Backoff::new(DELAYS.0, DELAYS.1), None),
        };
        stream::unfold(Some(listener), |listener| async move { Some(listener?.next().await) }).boxed()
    }
}

struct Listener {
    api: Api,
    /// The only session that it listens to.
    session: Option<String>,
    /// The connection, when there is one.
    reader: Option<EventReader>,
    /// How long to wait before there is another.
    delay: Duration,
    reconnect: Reconnect,
}

impl Listener {
    /// What is told next, and who tells what comes after it.
    async fn next(mut self) -> (Result<Notice, Error>, Option<Self>) {
        let error = match self.event().await {
            Ok(event) => return (Ok(Notice::Event(Box::new(event))), Some(self)),
            Err(error) => error,
        };
        let Some(retry_in) = self.reconnect.delay_after(&error) else { return (Err(error), None) };
        (self.reader, self.delay) = (None, retry_in);
        (Ok(Notice::Disconnected { reason: error.to_string(), retry_in }), Some(self))
    }

    /// Connects if there is no connection, and reads until something happens.
    async fn event(&mut self) -> Result<Event, Error> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                sleep(self.delay).await;
                let response = self.api.open_events(self.session.as_deref()).await?;
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

/// Reads an event; `None` if it is of a type that is not known here, or not what it should be.
fn decode(data: &str) -> Option<Event> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(rename = "type", borrow)]
        kind: &'a RawValue,
        #[serde(borrow)]
        properties: &'a RawValue,
    }
    let read = || {
        let Envelope { kind, properties } = serde_json::from_str(data)?;
        // The type first: the properties hold raw JSON, which can be read only once it is known what they are.
        serde_json::from_str(&format!("{{\"type\":{kind},\"properties\":{properties}}}"))
    };
    read().inspect_err(|error| tracing::debug!(%error, "an event that is passed over")).ok()
}

#[cfg(test)]
mod tests;
