//! Each protocol has a folder. Its `routes.rs` reads requests and calls the core; only its `decode.rs` and `encode.rs`
//! map between wire and core.

pub mod agui;
pub mod auth;
pub mod chat;
pub mod client_tools;
mod conversation;
pub(crate) mod document;
pub mod event;
pub mod frontend_tools;
mod listing;
pub mod opencode;
pub mod operations;
pub mod rooms;
pub mod session;
#[cfg(test)]
pub(crate) mod tests;

use axum::body::Body;
use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use handback_core::Hub;
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa_axum::router::OpenApiRouter;

use crate::app::App;
use crate::auth::Principal;
use crate::body::Json;
use crate::problem::{ErrorShape, Problem};

/// A protocol: its routes, and the shape of its errors.
pub struct Protocol {
    pub(crate) routes: OpenApiRouter<App>,
    pub(crate) errors: ErrorShape,
}

impl From<OpenApiRouter<App>> for Protocol {
    fn from(routes: OpenApiRouter<App>) -> Self {
        Self { routes, errors: ErrorShape::COMMON }
    }
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(client_tools::encode::json(&self.0)));
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response
    }
}

/// A JSON answer, or the problem in place of it.
pub(crate) type Answered<T> = Result<Json<T>, Problem>;

/// The server and the sender of the request.
pub(crate) struct Access(pub(crate) App, pub(crate) Principal);

impl FromRequestParts<App> for Access {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Ok(Self(app.clone(), Principal::from_request_parts(parts, app).await?))
    }
}

/// An extractor that rejects every sender but the application.
#[derive(Debug)]
pub struct Application;

impl FromRequestParts<App> for Application {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        Principal::from_request_parts(parts, app).await?.must_be_application()?;
        Ok(Self)
    }
}

/// Refuses a message with too many parts, because each part becomes an event for every listener.
fn must_fit(hub: &Hub, parts: usize) -> Result<(), Problem> {
    let most = hub.limits().parts_per_message;
    match parts > most {
        true => Err(Problem::invalid(format!("a message has {parts} parts; at most {most} are allowed"))),
        false => Ok(()),
    }
}

/// The decoded parameter of a path, or a tuple of several.
#[derive(Debug)]
pub struct PathValue<T = String>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<App> for PathValue<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match Path::from_request_parts(parts, app).await {
            Ok(Path(value)) => Ok(Self(value)),
            Err(rejection) => Err(Problem::invalid(rejection.body_text())),
        }
    }
}

/// The query of a request.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<App> for Query<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Problem> {
        let parsed = serde_urlencoded::from_str(parts.uri.query().unwrap_or_default());
        parsed.map(Self).map_err(|error| Problem::invalid(format!("the query cannot be used: {error}")))
    }
}
