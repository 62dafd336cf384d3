//! Request bodies, bounded in size and time, and JSON with errors that say where.

use std::task::Poll;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use bytes::Bytes;
use handback_core::json::mend;
use handback_core::text::shortened;
use handback_wire::error::ErrorCode;
use http_body::Body as _;
use http_body_util::{BodyExt, Collected, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;

/// A body of up to so many times the allowed size is still read before it is refused.
const READ_OFF: usize = 8;
/// How long reading such a body may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long its next piece may take. A client that waits for the response before it sends more gets it.
const BETWEEN_PIECES: Duration = Duration::from_millis(200);

/// How many characters an error about JSON has, which may quote the body. The rest is cut.
const MOST_SHOWN: usize = 500;

/// The JSON body of a request, whatever its content type says; or of an answer.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned + Send + 'static> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    fn from_request(request: Request, app: &App) -> impl Future<Output = Result<Self, Problem>> + Send {
        let payload = Payload::from_request(request, app);
        async move { payload.await?.read(app, parse).await.map(Self) }
    }
}

/// A body, unread. Cloning it is cheap.
#[derive(Debug, Clone)]
pub struct Payload(Bytes);

impl Payload {
    /// The body as text.
    pub fn text(&self) -> Result<&str, Problem> {
        std::str::from_utf8(&self.0).map_err(|error| {
            Problem::invalid(format!("the body is not UTF-8: a bad byte at offset {}", error.valid_up_to()))
        })
    }

    /// Reads the body; a large one on a thread where nobody else waits.
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

    fn from_request(request: Request, app: &App) -> impl Future<Output = Result<Self, Problem>> + Send {
        // The future has only the body, because the futures of handlers are allocated for each request.
        let (body, limits) = (request.into_body(), &app.config().limits);
        async move {
            // The declared length, if there is one.
            let length = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
            if length > limits.body_bytes {
                if length <= limits.body_bytes.saturating_mul(READ_OFF) {
                    Box::pin(read_off(body, length)).await;
                }
                return Err(too_large(limits.body_bytes));
            }
            let body = read(body, limits.body_bytes);
            tokio::pin!(body);
            // Most bodies come with their head and need no timer.
            if let Poll::Ready(bytes) = futures_util::poll!(body.as_mut()) {
                return bytes.map(Self);
            }
            // Boxed, because a timer is large.
            match Box::pin(tokio::time::timeout(limits.body_timeout, body)).await {
                Ok(bytes) => bytes.map(Self),
                Err(_) => Err(Problem::invalid("the body did not arrive in time")),
            }
        }
    }
}

/// Reads a body that is refused, because a client that still writes when the connection closes never sees the response. If
/// the client sends far too much, or is slow, the connection is closed on it.
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
    // A timeout is no error, because the response is the same.
    _ = tokio::time::timeout(PATIENCE, reading).await;
}

async fn read(body: Body, most: usize) -> Result<Bytes, Problem> {
    let collected = Limited::new(body, most).collect().await;
    // A body of one piece, as small ones are, is not copied.
    collected.map(Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => too_large(most),
        false => Problem::invalid(format!("the body could not be read: {error}")),
    })
}

fn too_large(most: usize) -> Problem {
    Problem::new(ErrorCode::TooLarge, format!("the body has more than {most} bytes"))
}

/// Reads JSON; an error says which field is wrong.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    // An object is expected, and serde would also take a list of its values.
    if text.trim_start().starts_with('[') {
        return Err(Problem::invalid("a JSON object is expected, not a list"));
    }
    serde_json::from_str(text).map_err(|error| {
        if text.trim().is_empty() {
            return Problem::invalid("the body is empty; a JSON object is expected");
        }
        if !error.is_data() {
            return invalid(&format!("the body is not JSON: {error}"));
        }
        // The second, slower parse finds the path.
        let located: Result<T, _> = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
        match located.err().map(|error| error.path().to_string()) {
            Some(path) if path != "." => invalid(&format!("`{path}`: {error}")),
            _ => invalid(&error.to_string()),
        }
    })
}

/// Reads JSON that may be missing.
pub fn parse_or_default<T: DeserializeOwned + Default>(text: &str) -> Result<T, Problem> {
    if text.trim().is_empty() { Ok(T::default()) } else { parse(text) }
}

fn invalid(message: &str) -> Problem {
    Problem::invalid(shortened(message, MOST_SHOWN))
}

#[cfg(test)]
mod tests;
