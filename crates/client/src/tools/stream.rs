//! A connection that is a stream of server-sent events; what the client says goes by requests of its own.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use handback_wire::client_tools::ToolRequest;
use reqwest::Response;
use reqwest::header::{DATE, HeaderValue};
use serde::de::DeserializeOwned;
use sse_stream::Sse;

use super::clock::ServerClock;
use super::incoming::{Incoming, IncomingStream};
use crate::api::Api;
use crate::sse::EventReader;

/// A longer event id is passed over.
const MAX_ID_BYTES: usize = 256;

/// What comes on a stream that was opened.
pub(super) fn incoming(response: Response, api: Api, silence: Duration) -> IncomingStream {
    let clock = ServerClock::new(response.headers().get(DATE).and_then(|date| date.to_str().ok()));
    let reader = EventReader::new(response.bytes_stream(), silence);
    let blocks = stream::unfold(reader, |mut reader| async move { Some((reader.next().await, reader)) });
    let read = move |block: Result<Sse, String>| {
        stream::iter(match block {
            Ok(block) => read(block, &clock).map(Ok).collect(),
            Err(reason) => vec![Err(api.interrupted(reason))],
        })
    };
    blocks.flat_map(read).boxed()
}

/// Reads a block: the event in it, if it is one, and then its id. Blocks without data are no events but may carry an id.
fn read(block: Sse, clock: &ServerClock) -> impl Iterator<Item = Incoming> {
    let event = match (block.event.as_deref(), block.data.as_deref()) {
        (Some("tool-request"), Some(data)) => decode(data).map(|request: ToolRequest| {
            let deadline = clock.deadline(&request.deadline);
            Incoming::Request(request, deadline)
        }),
        (Some("tool-cancel"), Some(data)) => decode(data).map(Incoming::Cancel),
        // A keep-alive, or an event of a later version.
        _ => None,
    };
    // An empty id takes the one before it back.
    let seen = block.id.filter(|id| can_be_sent(id)).map(|id| Incoming::Seen(Some(id).filter(|id| !id.is_empty())));
    event.into_iter().chain(seen)
}

/// Whether a header can carry an id; with one that it cannot, or that no server takes, nothing could be opened again.
fn can_be_sent(id: &str) -> bool {
    id.len() <= MAX_ID_BYTES && HeaderValue::from_str(id).is_ok()
}

/// An event that cannot be read cannot be answered either; one bad event must not end the connection.
fn decode<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).inspect_err(|error| tracing::warn!(%error, "an event that cannot be read")).ok()
}

#[cfg(test)]
mod tests;
