//! A connection that is a stream of server-sent events.

use std::time::Duration;

use handback_wire::client_tools::ToolRequest;
use reqwest::Response;
use reqwest::header::{DATE, HeaderValue};
use serde::de::DeserializeOwned;
use sse_stream::Sse;

use super::clock::ServerClock;
use super::connection::ConnectionEvent;
use crate::api::Api;
use crate::error::Error;
use crate::http::header;
use crate::sse::EventReader;

/// The size limit of an event id; a longer one is ignored.
const MAX_ID_BYTES: usize = 256;

/// The stream of a client's calls.
pub(super) struct CallStream {
    reader: EventReader,
    clock: ServerClock,
    api: Api,
}

impl CallStream {
    pub(super) fn new(response: Response, api: Api, silence: Duration) -> Self {
        let clock = ServerClock::new(header(&response, DATE).as_deref());
        Self { reader: EventReader::new(response.bytes_stream(), silence), clock, api }
    }

    /// The next event. Blocks without one may still move the cursor.
    pub(super) async fn next(&mut self, cursor: &mut Option<String>) -> Result<ConnectionEvent, Error> {
        loop {
            let block = self.reader.next().await.map_err(|reason| self.api.interrupted(reason))?;
            if let Some(event) = read(block, &self.clock, cursor) {
                return Ok(event);
            }
        }
    }
}

/// Reads all events of a body; returns each event, and the cursor at the end.
pub(crate) async fn events_of(mut reader: EventReader) -> Vec<String> {
    let (clock, mut cursor, mut events) = (ServerClock::new(None), None, Vec::new());
    while let Ok(block) = reader.next().await {
        events.extend(read(block, &clock, &mut cursor).map(|event| format!("{event:?}")));
    }
    events.extend(cursor);
    events
}

fn read(block: Sse, clock: &ServerClock, cursor: &mut Option<String>) -> Option<ConnectionEvent> {
    // An empty id resets the cursor. An id that no header can carry is ignored: no connection could resume from it.
    if let Some(id) = block.id.filter(|id| id.len() <= MAX_ID_BYTES && HeaderValue::from_str(id).is_ok()) {
        *cursor = Some(id).filter(|id| !id.is_empty());
    }
    match (block.event.as_deref()?, block.data.as_deref()?) {
        ("tool-request", data) => decode(data).map(|request: ToolRequest| {
            let deadline = clock.deadline(&request.deadline);
            ConnectionEvent::Request(request, deadline)
        }),
        ("tool-cancel", data) => decode(data).map(ConnectionEvent::Cancel),
        // A keep-alive, or an event of a later version.
        _ => None,
    }
}

/// Decodes an event. One that cannot be read is skipped: it must not end the connection.
fn decode<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).inspect_err(|error| tracing::warn!(%error, "an event that cannot be read")).ok()
}

#[cfg(test)]
mod tests;
