//! The stream of one run, on as many connections as it takes.

use std::time::Duration;

use futures_util::{StreamExt, stream};
use handback_wire::agui::Event;
use reqwest::RequestBuilder;
use serde::Deserialize;
use tokio::time::sleep;

use super::endpoint::{Endpoint, agent_error};
use super::{AgentError, EventStream, Incoming};
use crate::retry::Backoff;
use crate::sse::EventReader;

/// The shortest and the longest delay between the tries to take up a stream again.
pub(super) const DELAYS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));
/// How many tries may fail in a row; then the run is given up. Every event that arrives is a new beginning.
const MOST_TRIES: u32 = 5;
/// How much one run may send, in bytes; more ends it with an error. It is all kept in the conversation.
const LARGEST_RUN: usize = 256 * 1024 * 1024;

/// A run that is read.
pub(super) struct Reader {
    endpoint: Endpoint,
    request: RequestBuilder,
    /// The connection, when there is one.
    events: Option<EventReader>,
    /// How much has been read, in bytes.
    read: usize,
    is_over: bool,
    /// How a lost stream is taken up again, where it can be.
    resumption: Option<Resumption>,
}

impl Reader {
    /// Asks for a run.
    pub(super) async fn open(endpoint: Endpoint, request: RequestBuilder) -> Result<Self, AgentError> {
        let mut reader = Self { endpoint, request, events: None, read: 0, is_over: false, resumption: None };
        reader.connect().await?;
        Ok(reader)
    }

    /// A stream that is lost is taken up again, after delays that double from the first to the second.
    pub(super) fn resumed(self, delays: (Duration, Duration)) -> Self {
        let resumption = Resumption { cursor: None, failed: 0, backoff: Backoff::new(delays.0, delays.1) };
        Self { resumption: Some(resumption), ..self }
    }

    /// What comes in the run. What happens to the connection once the run is over is nobody's concern.
    pub(super) fn events(self) -> EventStream {
        let events = stream::unfold(Some(self), |reader| async move {
            let mut reader = reader?;
            match reader.next().await {
                Ok(incoming) => Some((Ok(incoming), Some(reader))),
                Err(_) if reader.is_over => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        events.boxed()
    }

    async fn next(&mut self) -> Result<Incoming, AgentError> {
        loop {
            let error = match self.advance().await {
                Ok(Some(incoming)) => return Ok(incoming),
                Ok(None) => continue,
                Err(error) => error,
            };
            self.events = None;
            let delay = self.resumption.as_mut().and_then(|resumption| resumption.delay_after(&error));
            let Some(delay) = delay.filter(|_| !self.is_over) else { return Err(error) };
            tracing::debug!(%error, ?delay, "the stream of a run is lost; it will be taken up again");
            sleep(delay).await;
        }
    }

    /// Asks for the stream, or for what comes after the frame that came last.
    async fn connect(&mut self) -> Result<(), AgentError> {
        let unexpected = || AgentError::Unexpected { reason: "a request that cannot be repeated".to_owned() };
        let mut request = self.request.try_clone().ok_or_else(unexpected)?;
        if let Some(cursor) = self.resumption.as_ref().and_then(|resumption| resumption.cursor.as_deref()) {
            request = request.header("last-event-id", cursor);
        }
        let Endpoint { http, silence } = &self.endpoint;
        let response = http.open(request, *silence).await.map_err(agent_error)?;
        self.events = Some(EventReader::new(response.bytes_stream(), *silence));
        Ok(())
    }

    /// Connects, or reads a frame; `None` if that says nothing new.
    async fn advance(&mut self) -> Result<Option<Incoming>, AgentError> {
        let Some(events) = &mut self.events else { return self.connect().await.map(|()| None) };
        let frame = events.next().await.map_err(|reason| AgentError::NetworkLost { reason })?;
        let Some(data) = frame.data.filter(|data| !data.is_empty()) else { return Ok(None) };
        self.read = self.read.saturating_add(data.len());
        if self.read > LARGEST_RUN {
            return Err(AgentError::Unexpected { reason: format!("a run of more than {LARGEST_RUN} bytes") });
        }
        if let Some(resumption) = &mut self.resumption
            && !resumption.is_news(frame.id)
        {
            return Ok(None);
        }
        let incoming = decode(&data);
        self.is_over |= matches!(&incoming, Incoming::Event(event) if event.body.is_terminal());
        Ok(Some(incoming))
    }
}

/// Reads an event.
fn decode(data: &str) -> Incoming {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(rename = "type")]
        kind: String,
    }
    match serde_json::from_str::<Event>(data) {
        Ok(event) => Incoming::Event(event),
        Err(error) => {
            let kind = serde_json::from_str::<Envelope>(data).map(|envelope| envelope.kind).unwrap_or_default();
            Incoming::Undecodable { kind, reason: error.to_string() }
        }
    }
}

/// How a lost stream is taken up again.
struct Resumption {
    /// The id of the frame that came last; without one, there is nowhere to begin.
    cursor: Option<String>,
    failed: u32,
    backoff: Backoff,
}

impl Resumption {
    /// Takes note of a frame; false if it was there before.
    fn is_news(&mut self, id: Option<String>) -> bool {
        if let Some(id) = id {
            let last = self.cursor.as_deref().and_then(numbered);
            // Numbers of different runs cannot be compared.
            if last.zip(numbered(&id)).is_some_and(|(last, this)| this.0 == last.0 && this.1 <= last.1) {
                return false;
            }
            self.cursor = Some(id);
        }
        self.failed = 0;
        self.backoff.reset();
        true
    }

    /// The delay before the next try; `None` if there is none: the server has refused it, or there were enough.
    fn delay_after(&mut self, error: &AgentError) -> Option<Duration> {
        let passes = match error {
            AgentError::NetworkLost { .. } => true,
            AgentError::Refused { status, .. } => *status >= 500,
            _ => false,
        };
        if !passes || self.cursor.is_none() || self.failed >= MOST_TRIES {
            return None;
        }
        self.failed += 1;
        Some(self.backoff.next(fastrand::f64()))
    }
}

/// The run and the number of a frame, `{run}:{n}`.
fn numbered(id: &str) -> Option<(&str, u64)> {
    let (run, number) = id.rsplit_once(':')?;
    Some((run, number.parse().ok()?))
}

#[cfg(test)]
mod tests;
