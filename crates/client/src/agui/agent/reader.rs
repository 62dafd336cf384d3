//! The stream of one run, which may span several connections.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use handback_wire::agui::Event;
use reqwest::RequestBuilder;
use serde::Deserialize;
use tokio::time::sleep;

use super::{AgentError, EventStream, Incoming};
use crate::error::Error;
use crate::http::Http;
use crate::retry::{Backoff, Reconnect};
use crate::sse::EventReader;

/// The delays between the tries to resume a stream: they double from the first to the second. Tests do not wait.
const DELAYS: (Duration, Duration) = if cfg!(test) {
    (Duration::from_millis(1), Duration::from_millis(2))
} else {
    (Duration::from_millis(500), Duration::from_secs(8))
};
/// How many tries to resume may fail in a row before the run fails. Every new event resets the count.
const MAX_TRIES: u32 = 5;
/// How many bytes one run may send; more is an error. The conversation keeps all of them.
const MAX_RUN_BYTES: usize = 256 * 1024 * 1024;

/// Reads the events of a run.
pub(super) struct Reader {
    http: Http,
    silence: Duration,
    request: RequestBuilder,
    /// The open connection, if there is one.
    connection: Option<EventReader>,
    bytes_read: usize,
    /// Whether the event that ends the run was read.
    is_over: bool,
    /// How a lost stream is resumed; `None` if the server cannot resume streams.
    resumption: Option<Resumption>,
}

impl Reader {
    /// Sends the request for a run, and returns the events that answer it. Once the run is over, a lost connection is
    /// not an error.
    pub(super) async fn open(
        http: Http,
        silence: Duration,
        request: RequestBuilder,
        resumption: Option<Resumption>,
    ) -> Result<EventStream, AgentError> {
        let mut reader = Self { http, silence, request, connection: None, bytes_read: 0, is_over: false, resumption };
        reader.connect().await?;
        let events = stream::unfold(Some(reader), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(incoming) => Some((Ok(incoming), Some(reader))),
                Err(_) if reader.is_over => None,
                Err(error) => Some((Err(error.into()), None)),
            }
        });
        Ok(events.boxed())
    }

    async fn next(&mut self) -> Result<Incoming, Error> {
        loop {
            let error = match self.advance().await {
                Ok(Some(incoming)) => return Ok(incoming),
                Ok(None) => continue,
                Err(error) => error,
            };
            self.connection = None;
            let delay = self.resumption.as_mut().and_then(|resumption| resumption.delay_after(&error));
            let Some(delay) = delay.filter(|_| !self.is_over) else { return Err(error) };
            tracing::debug!(%error, ?delay, "the stream of a run is lost; it will be resumed");
            sleep(delay).await;
        }
    }

    /// Opens the stream, from the cursor if there is one.
    async fn connect(&mut self) -> Result<(), Error> {
        let not_repeatable = || self.http.unexpected("a request that cannot be repeated".to_owned());
        let mut request = self.request.try_clone().ok_or_else(not_repeatable)?;
        if let Some(cursor) = self.resumption.as_ref().and_then(|resumption| resumption.cursor.as_deref()) {
            request = request.header("last-event-id", cursor);
        }
        let response = self.http.open(request, self.silence).await?;
        self.connection = Some(EventReader::new(response.bytes_stream(), self.silence));
        Ok(())
    }

    /// Connects or reads one frame; `None` if there is no new event.
    async fn advance(&mut self) -> Result<Option<Incoming>, Error> {
        let Some(connection) = &mut self.connection else { return self.connect().await.map(|()| None) };
        let frame = connection.next().await.map_err(|reason| self.http.interrupted(reason))?;
        let Some(data) = frame.data.filter(|data| !data.is_empty()) else { return Ok(None) };
        self.bytes_read = self.bytes_read.saturating_add(data.len());
        if self.bytes_read > MAX_RUN_BYTES {
            return Err(self.http.unexpected(format!("a run of more than {MAX_RUN_BYTES} bytes")));
        }
        if self.resumption.as_mut().is_some_and(|resumption| !resumption.is_new(frame.id)) {
            return Ok(None);
        }
        let incoming = decode(&data);
        self.is_over |= matches!(&incoming, Incoming::Event(event) if event.body.is_terminal());
        Ok(Some(incoming))
    }
}

pub(crate) fn decode(data: &str) -> Incoming {
    #[derive(Deserialize)]
    struct EventType {
        #[serde(rename = "type")]
        kind: String,
    }
    serde_json::from_str::<Event>(data).map_or_else(
        |error| {
            let kind = serde_json::from_str::<EventType>(data).map(|event| event.kind).unwrap_or_default();
            Incoming::Undecodable { kind, reason: error.to_string() }
        },
        Incoming::Event,
    )
}

/// How a lost stream is resumed.
pub(super) struct Resumption {
    /// The id of the latest frame. A stream that is lost before it has one cannot be resumed.
    cursor: Option<String>,
    reconnect: Reconnect,
}

impl Resumption {
    pub(super) fn new() -> Self {
        Self { cursor: None, reconnect: Reconnect::new(Backoff::new(DELAYS), Some(MAX_TRIES)) }
    }

    /// Moves the cursor to a frame; false if the frame was read before.
    fn is_new(&mut self, id: Option<String>) -> bool {
        if let Some(id) = id {
            let last = self.cursor.as_deref().and_then(run_and_number);
            // The numbers of different runs cannot be compared.
            if last.zip(run_and_number(&id)).is_some_and(|(last, this)| this.0 == last.0 && this.1 <= last.1) {
                return false;
            }
            self.cursor = Some(id);
        }
        self.reconnect.connected();
        true
    }

    /// The delay before the next try; `None` if there is no cursor, the server refuses, or too many tries failed.
    fn delay_after(&mut self, error: &Error) -> Option<Duration> {
        let is_lost = matches!(error, Error::Unreachable { .. } | Error::Interrupted { .. });
        let can_retry = is_lost || error.status().is_some_and(|status| status >= 500);
        self.cursor.as_ref().filter(|_| can_retry)?;
        self.reconnect.delay_after(error)
    }
}

/// The run and the number of a frame whose id is `{run}:{number}`.
fn run_and_number(id: &str) -> Option<(&str, u64)> {
    let (run, number) = id.rsplit_once(':')?;
    Some((run, number.parse().ok()?))
}

#[cfg(test)]
mod tests;
