//! Doors for the fuzz targets of `handback-testkit`: what reads input from a server, and is private otherwise. They are
//! no part of the API.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;

use crate::agui::Incoming;
use crate::api::Api;
use crate::session::TurnEvent;
use crate::sse::EventReader;
use crate::{agui, events, session, tools};

/// Reads a client's calls from a body that comes in these pieces; returns each event, and the cursor at the end.
pub async fn call_events(pieces: Vec<Bytes>) -> Vec<String> {
    tools::stream_events(reader(pieces)).await
}

/// Reads the messages of a WebSocket; returns each event.
pub async fn message_events(api: &Api, messages: &[&str]) -> Vec<String> {
    tools::message_events(api, messages)
}

/// Reads the events of a run of AG-UI from a body that comes in these pieces.
pub async fn run_events(pieces: Vec<Bytes>) -> Vec<Incoming> {
    let mut reader = reader(pieces);
    let mut events = Vec::new();
    while let Ok(block) = reader.next().await {
        events.extend(block.data.filter(|data| !data.is_empty()).map(|data| agui::decode(&data)));
    }
    events
}

/// Reads the events of a server from a body that comes in these pieces, and returns what they add to the turn that
/// answers the message `question`.
pub async fn turn_events(question: &str, pieces: Vec<Bytes>) -> Vec<TurnEvent> {
    let mut reader = reader(pieces);
    let mut heard = Vec::new();
    while let Ok(block) = reader.next().await {
        heard.extend(block.data.as_deref().and_then(events::decode));
    }
    session::hear(question, &heard)
}

fn reader(pieces: Vec<Bytes>) -> EventReader {
    EventReader::new(stream::iter(pieces.into_iter().map(Ok)), Duration::from_secs(30))
}
