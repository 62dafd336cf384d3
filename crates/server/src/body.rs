//! Request bodies, bounded in size and time, and JSON with errors that say where.

use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::{Bytes, BytesMut};
use handback_core::json::mend;
use handback_wire::error::ErrorCode;
use http_body::Body as _;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;

/// A body that is so many times what is allowed is still read before it is refused.
const READ_OFF: usize = 8;
/// How long that may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long its next piece may: whoever waits for the answer before it sends gets it.
const BETWEEN_PIECES: Duration = Duration::from_millis(200);

/// Characters of an error about JSON, which quotes what was sent; the rest is cut.
const MOST_TOLD: usize = 500;

/// A JSON body, whatever its content type says.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let payload = Payload::from_request(request, app).await?;
        payload.read(app, parse).await.map(Self)
    }
}

/// A body as it came. A cheap clone.
#[derive(Debug, Clone)]
pub struct Payload(Bytes);

impl Payload {
    /// The body as text.
    pub fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.0).map_err(|error| {
            Problem::invalid(format!("the body is not UTF-8: a bad byte at offset {}", error.valid_up_to()))
        })
    }

    /// Reads the body; a large one where nobody else waits.
    pub async fn read<T: Send + 'static>(
        &self,
        app: &App,
        read: impl FnOnce(&str) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let body = self.clone();
        let read = app.hub().aside().run_for(body.0.len(), move || read(&mend(body.text()?))).await;
        read.unwrap_or_else(|| Err(Problem::interrupted()))
    }
}

impl FromRequest<App> for Payload {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let limits = &app.config().limits;
        let declared =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if let Some(length) = declared.filter(|length: &usize| *length > limits.body_bytes) {
            if length <= limits.body_bytes.saturating_mul(READ_OFF) {
                read_off(request.into_body(), length).await;
            }
            return Err(too_large(limits.body_bytes));
        }
        let body = read(request.into_body(), limits.body_bytes);
        tokio::pin!(body);
        // Most bodies have come with their head, and need no timer.
        if let Poll::Ready(bytes) = futures_util::poll!(body.as_mut()) {
            return bytes.map(Self);
        }
        // Boxed: a timer is large, and would make the future of every handler so.
        match Box::pin(tokio::time::timeout(limits.body_timeout, body)).await {
            Ok(bytes) => bytes.map(Self),
            Err(_) => Err(Problem::invalid("the body did not arrive in time")),
        }
    }
}

/// Reads what is not wanted: a client that is still writing when the connection closes never sees the answer. Whoever
/// sends far more than is allowed, or takes its time, has the connection closed on it.
async fn read_off(mut body: Body, length: usize) {
    let reading = async {
        let mut left = length;
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(BETWEEN_PIECES, body.frame()).await {
            let read = frame.data_ref().map_or(0, Bytes::len);
            left = left.saturating_sub(read);
            if left == 0 {
                break;
            }
        }
    };
    // Out of patience is no error: the answer is the same.
    _ = tokio::time::timeout(PATIENCE, reading).await;
}

async fn read(mut body: Body, most: usize) -> Result<Bytes, Problem> {
    // A small body is one piece, and is passed on without a copy.
    let mut whole = Bytes::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::invalid(format!("the body could not be read: {error}")))?;
        // Trailers say nothing to us.
        let Ok(piece) = frame.into_data() else { continue };
        if whole.len() + piece.len() > most {
            return Err(too_large(most));
        }
        whole = if whole.is_empty() { piece } else { joined(whole, &piece) };
        if body.is_end_stream() {
            break;
        }
    }
    Ok(whole)
}

/// Appends a piece, in place but for the first time.
fn joined(whole: Bytes, piece: &[u8]) -> Bytes {
    let mut whole = BytesMut::from(whole);
    whole.extend_from_slice(piece);
    whole.freeze()
}

fn too_large(most: usize) -> Problem {
    Problem::new(ErrorCode::TooLarge, format!("the body has more than {most} bytes"))
}

/// Reads JSON; an error says which field is wrong.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    // What is read here is an object; serde would take a list of its values as well.
    if text.trim_start().starts_with('[') {
        return Err(Problem::invalid("a JSON object is expected, not a list"));
    }
    serde_json::from_str(text).map_err(|error| {
        if text.trim().is_empty() {
            return Problem::invalid("the body is empty; a JSON object is expected");
        }
        if !error.is_data() {
            return invalid(format!("the body is not JSON: {error}"));
        }
        // Read once more, slowly, to learn the path.
        let located: Result<T, _> = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
        match located.err().map(|error| error.path().to_string()) {
            Some(path) if path != "." => invalid(format!("`{path}`: {error}")),
            _ => invalid(error.to_string()),
        }
    })
}

/// Reads JSON that may be left out.
pub fn parse_or_default<T: DeserializeOwned + Default>(text: &str) -> Result<T, Problem> {
    if text.trim().is_empty() { Ok(T::default()) } else { parse(text) }
}

fn invalid(mut message: String) -> Problem {
    if let Some((end, _)) = message.char_indices().nth(MOST_TOLD) {
        message.truncate(end);
        message.push('…');
    }
    Problem::invalid(message)
}

#[cfg(test)]
mod tests;
