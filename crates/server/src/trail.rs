//! The id of each request, and its line in the log.
//!
//! The id comes with the request (`x-request-id`) or is made here. The response, the body of an error and all lines that the
//! request leads to have it. A line has the path, but never the query, which may have a token.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method};
use axum::response::Response;
use handback_core::clock::{Clock, milliseconds};
use handback_core::id::{ClientId, HttpRequestId};
use tokio::time::Instant;
use tracing::Span;

use crate::auth::Principal;

/// The header of a request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The paths that health checks and scrapers ask for all the time. Their lines have a target of their own.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];
/// How many bytes of a path are logged.
const MOST_PATH: usize = 256;

/// A request that is being answered. It is logged when the response begins, or when this is dropped because the sender left.
pub(crate) struct Trail {
    id: HttpRequestId,
    span: Span,
    method: Method,
    path: String,
    /// The client that sends it, if it has a token.
    client: Option<ClientId>,
    began: Instant,
    is_over: bool,
}

impl Trail {
    /// Takes the request's id, or makes one.
    pub(crate) fn begin<B>(request: &Request<B>, clock: &Clock) -> Self {
        let id = request.headers().get(REQUEST_ID).and_then(|id| HttpRequestId::parse(id.to_str().ok()?).ok());
        let id = id.unwrap_or_else(|| clock.http_request_id());
        let path = request.uri().path();
        Self {
            // Not the target of the lines: a filter that drops those keeps the id in the others.
            span: tracing::info_span!(target: "handback::trail", "http", request = id.as_str()),
            id,
            method: request.method().clone(),
            path: path[..path.floor_char_boundary(MOST_PATH)].to_owned(),
            client: None,
            began: Instant::now(),
            is_over: false,
        }
    }

    /// The span of everything that the request leads to.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The request's id.
    pub(crate) fn id(&self) -> &HttpRequestId {
        &self.id
    }

    /// Takes note of who sends the request.
    pub(crate) fn sent_by(&mut self, principal: &Principal) {
        if let Principal::Client(sender) = principal {
            self.client = Some(sender.client.clone());
        }
    }

    /// The response begins.
    pub(crate) fn answered(mut self, response: &mut Response) {
        self.is_over = true;
        if let Ok(id) = HeaderValue::from_str(self.id.as_str()) {
            response.headers_mut().insert(REQUEST_ID, id);
        }
        self.log(Some(response.status().as_u16()));
    }

    /// Writes the line. Without a status, nobody was answered.
    fn log(&self, status: Option<u16>) {
        let (method, path, ms) = (self.method.as_str(), self.path.as_str(), milliseconds(self.began.elapsed()));
        let (client, said) =
            (self.client.as_ref().map(ClientId::as_str), if status.is_some() { "answered" } else { "gone" });
        self.span.in_scope(|| match PROBES.contains(&path) {
            false => tracing::info!(target: "handback::request", method, path, client, status, ms, "{said}"),
            true => tracing::info!(target: "handback::probe", method, path, client, status, ms, "{said}"),
        });
    }
}

impl Drop for Trail {
    fn drop(&mut self) {
        if !self.is_over {
            self.log(None);
        }
    }
}
