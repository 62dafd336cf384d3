//! A connection that is a stream of server-sent events; what the client says goes by requests of its own.

use std::time::Duration;

use handback_wire::client_tools::{ToolCancel, ToolRequest};
use reqwest::Response;
use reqwest::header::{DATE, HeaderValue};
use serde::de::DeserializeOwned;
use sse_stream::Sse;

use super::clock::ServerClock;
use super::connection::Event;
use crate::api::Api;
use crate::error::Error;
use crate::sse::EventReader;

/// A longer event id is passed over.
const MAX_ID_BYTES: usize = 256;

/// An open stream. Dropping it closes it.
pub(super) struct EventStream {
    events: EventReader,
    clock: ServerClock,
    api: Api,
    /// The id of the event that was given last; told once it is asked for the next one.
    seen: Option<String>,
}

impl EventStream {
    pub(super) fn new(response: Response, api: Api, silence: Duration) -> Self {
        let date = response.headers().get(DATE).and_then(|date| date.to_str().ok());
        let clock = ServerClock::new(date);
        Self { events: EventReader::new(response.bytes_stream(), silence), clock, api, seen: None }
    }

    pub(super) async fn next(&mut self) -> Result<Event, Error> {
        if let Some(id) = self.seen.take() {
            return Ok(seen(id));
        }
        loop {
            let event = self.events.next().await.map_err(|reason| self.api.interrupted(reason))?;
            self.seen = event.id.clone().filter(|id| can_be_told(id));
            let read = match read(&event) {
                Known::Request(request) => {
                    let deadline = self.clock.deadline(&request.deadline);
                    Some(Event::Request(request, deadline))
                }
                Known::Cancel(cancel) => Some(Event::Cancel(cancel)),
                Known::Other => self.seen.take().map(seen),
            };
            if let Some(event) = read {
                return Ok(event);
            }
        }
    }
}

/// An empty id takes the one before it back.
fn seen(id: String) -> Event {
    Event::Seen(Some(id).filter(|id| !id.is_empty()))
}

/// Whether a header can carry an id; with one that it cannot, or that no server takes, nothing could be opened again.
fn can_be_told(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES && HeaderValue::from_str(id).is_ok()
}

/// What the server sends to a client.
#[derive(Debug)]
enum Known {
    Request(ToolRequest),
    Cancel(ToolCancel),
    /// A keep-alive, or an event of a later version.
    Other,
}

/// Reads an event. The stream also has blocks without data, which are no events but may carry an id.
fn read(event: &Sse) -> Known {
    match (event.event.as_deref(), event.data.as_deref()) {
        (Some("tool-request"), Some(data)) => decode(data).map_or(Known::Other, Known::Request),
        (Some("tool-cancel"), Some(data)) => decode(data).map_or(Known::Other, Known::Cancel),
        _ => Known::Other,
    }
}

/// An event that cannot be read cannot be answered either; one bad event must not end the connection.
fn decode<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).inspect_err(|error| tracing::warn!(%error, "an event that cannot be read")).ok()
}

#[cfg(test)]
mod tests;
