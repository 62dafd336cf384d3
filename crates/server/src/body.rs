//! Request bodies, bounded in size and time, and JSON with errors that say where.

use axum::body::Body;
use axum::extract::{FromRequest, Request};
use axum::http::header;
use bytes::Bytes;
use handback_wire::error::ErrorCode;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::app::App;
use crate::problem::Problem;

/// A JSON body, whatever its content type says.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<App> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let Text(text) = Text::from_request(request, app).await?;
        parse(&text).map(Self)
    }
}

/// A body of UTF-8 text.
#[derive(Debug)]
pub struct Text(pub String);

impl FromRequest<App> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let limits = &app.config().limits;
        let declared =
            request.headers().get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        if declared.is_some_and(|length: usize| length > limits.body_bytes) {
            return Err(too_large(limits.body_bytes));
        }
        let body = read(request.into_body(), limits.body_bytes);
        let Ok(bytes) = tokio::time::timeout(limits.body_timeout, body).await else {
            return Err(Problem::invalid("the body did not arrive in time"));
        };
        match String::from_utf8(bytes?.into()) {
            Ok(text) => Ok(Self(text)),
            Err(error) => Err(Problem::invalid(format!(
                "the body is not UTF-8: a bad byte at offset {}",
                error.utf8_error().valid_up_to()
            ))),
        }
    }
}

async fn read(body: Body, most: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(too_large(most)),
        Err(error) => Err(Problem::invalid(format!("the body could not be read: {error}"))),
    }
}

fn too_large(most: usize) -> Problem {
    Problem::new(ErrorCode::TooLarge, format!("the body has more than {most} bytes"))
}

/// Reads JSON; an error says which field is wrong.
pub fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Problem> {
    serde_json::from_str(text).map_err(|error| {
        if text.trim().is_empty() {
            return Problem::invalid("the body is empty; a JSON object is expected");
        }
        if !error.is_data() {
            return Problem::invalid(format!("the body is not JSON: {error}"));
        }
        // Read once more, slowly, to learn the path.
        let located: Result<T, _> = serde_path_to_error::deserialize(&mut serde_json::Deserializer::from_str(text));
        match located.err().map(|error| error.path().to_string()) {
            Some(path) if path != "." => Problem::invalid(format!("`{path}`: {error}")),
            _ => Problem::invalid(error.to_string()),
        }
    })
}
