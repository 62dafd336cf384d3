//! What agents that are reached by HTTP have in common.

use std::time::Duration;

use bytes::Bytes;
use handback_wire::agui::Event;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::{Client, Response, Url};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::timeout;

use super::{AgentError, Incoming};
use crate::api::{answer_timeout, http_client, read_briefly, root_cause};
use crate::sse::EventReader;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A stream that is silent for this long is dead, unless the application says otherwise. Not every server has
/// keep-alives.
const SILENCE: Duration = Duration::from_secs(300);
/// How large an answer about a thread or a run may be; a larger one is an error.
const LARGEST_ANSWER: usize = 64 * 1024 * 1024;

/// The way to a server: its connections are shared by all runs, and by all clones.
#[derive(Debug, Clone)]
pub(super) struct Link {
    http: Client,
    headers: HeaderMap,
    silence: Duration,
}

impl Link {
    pub(super) fn new(url: &str) -> Result<(Self, Url), AgentError> {
        let invalid = |reason: String| AgentError::Invalid { reason: format!("\"{url}\" cannot be asked: {reason}") };
        let parsed = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(invalid("it must start with http:// or https://".to_owned()));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            // Not quoted: errors are shown and logged.
            let reason = "credentials belong into the token, not into the URL".to_owned();
            return Err(AgentError::Invalid { reason });
        }
        let http = http_client(&parsed, HeaderMap::new()).map_err(invalid)?;
        Ok((Self { http, headers: HeaderMap::new(), silence: SILENCE }, parsed))
    }

    pub(super) fn header(&mut self, name: &str, value: &str) -> Result<(), AgentError> {
        let invalid = || AgentError::Invalid { reason: format!("the header \"{name}\" cannot be sent") };
        let name = HeaderName::try_from(name).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(())
    }

    pub(super) fn bearer(&mut self, token: &str) -> Result<(), AgentError> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}")).map_err(|_| AgentError::Invalid {
            reason: "the token has characters that a header cannot carry".to_owned(),
        })
    }

    pub(super) fn silence(&mut self, silence: Duration) {
        self.silence = silence;
    }

    /// Asks for something and reads all of the answer.
    pub(super) async fn ask<T: DeserializeOwned>(&self, url: Url, body: Bytes) -> Result<T, AgentError> {
        let within = answer_timeout(body.len());
        let asking = async {
            let accept = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]);
            let mut response = self.post(url, body, accept).await?;
            let mut answer = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| lost(root_cause(&error)))? {
                answer.extend_from_slice(&chunk);
                if answer.len() > LARGEST_ANSWER {
                    let reason = format!("it is larger than {LARGEST_ANSWER} bytes");
                    return Err(AgentError::Unexpected { reason });
                }
            }
            serde_json::from_slice(&answer).map_err(|error| AgentError::Unexpected { reason: error.to_string() })
        };
        timeout(within, asking).await.unwrap_or_else(|_elapsed| Err(lost("no answer came in time".to_owned())))
    }

    /// Asks for a stream of events, or for what comes after a frame of it.
    pub(super) async fn open(&self, url: Url, body: Bytes, after: Option<&str>) -> Result<Frames, AgentError> {
        let mut more = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("text/event-stream"))]);
        if let Some(after) = after {
            let unexpected =
                |_| AgentError::Unexpected { reason: "an id of a frame that a header cannot carry".to_owned() };
            more.insert(LAST_EVENT_ID, HeaderValue::try_from(after).map_err(unexpected)?);
        }
        let opening = timeout(self.silence, self.post(url, body, more));
        let response = opening.await.unwrap_or_else(|_elapsed| Err(lost("no answer came in time".to_owned())))?;
        let unexpected = |reason: String| Err(AgentError::Unexpected { reason });
        let kind = said_by(&response, &CONTENT_TYPE);
        if let Some(kind) = kind.filter(|kind| !kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream"))
        {
            return unexpected(format!("it is no stream of events but \"{kind}\""));
        }
        let encoding = said_by(&response, &CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| !encoding.trim().eq_ignore_ascii_case("identity")) {
            return unexpected(format!("it is encoded as \"{encoding}\", though it was asked for as it is"));
        }
        Ok(Frames { reader: EventReader::new(response.bytes_stream(), self.silence) })
    }

    async fn post(&self, url: Url, body: Bytes, more: HeaderMap) -> Result<Response, AgentError> {
        let request = self.http.post(url).headers(self.headers.clone()).headers(more).body(body);
        let request = request.header(CONTENT_TYPE, "application/json");
        let mut response = request.send().await.map_err(|error| lost(root_cause(&error)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let retry_after = said_by(&response, &RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
        let retry_after = retry_after.map(Duration::from_secs);
        // Not followed: the credentials are for nobody else, and a POST would become a GET.
        let location = said_by(&response, &LOCATION).filter(|_| status.is_redirection());
        let body = read_briefly(&mut response).await;
        let message = said(&body).unwrap_or_else(|| match location {
            Some(location) => format!("the server redirects to {location}: ask there"),
            None => format!("the server answered {status}"),
        });
        Err(match status.as_u16() {
            status @ (401 | 403) => AgentError::AuthExpired { status, message },
            429 => AgentError::RateLimited { message, retry_after },
            status => AgentError::Refused { status, message },
        })
    }
}

pub(super) fn json(value: &impl Serialize) -> Result<Bytes, AgentError> {
    let json = serde_json::to_vec(value).map_err(|error| AgentError::Invalid { reason: error.to_string() })?;
    Ok(json.into())
}

fn said_by(response: &Response, header: &HeaderName) -> Option<String> {
    response.headers().get(header).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn lost(reason: String) -> AgentError {
    AgentError::NetworkLost { reason }
}

/// What a body says went wrong, in one of the ways in which servers say it.
fn said(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let words = ["detail", "error", "message"].into_iter().find_map(|name| body.get(name))?;
    match words {
        Value::Null => None,
        Value::String(words) => Some(words.clone()),
        Value::Object(inner) if inner.get("message").is_some_and(Value::is_string) => {
            said(words.to_string().as_bytes())
        }
        other => Some(other.to_string()),
    }
}

/// One connection's frames.
pub(super) struct Frames {
    reader: EventReader,
}

/// What a frame says, and the id that it has.
pub(super) struct Frame {
    pub(super) id: Option<String>,
    /// In bytes.
    pub(super) size: usize,
    pub(super) incoming: Incoming,
}

impl Frames {
    /// The next frame that has data. Safe to drop while it waits.
    pub(super) async fn next(&mut self) -> Result<Frame, AgentError> {
        loop {
            let block = self.reader.next().await.map_err(lost)?;
            let Some(data) = block.data.filter(|data| !data.is_empty()) else { continue };
            return Ok(Frame { id: block.id, size: data.len(), incoming: decode(&data) });
        }
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
