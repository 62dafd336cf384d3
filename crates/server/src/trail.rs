//! The id of each request, and its line in the log.
//!
//! The id comes with the request (`x-request-id`) or is made here. The response, the body of an error and all lines that the
//! request leads to have it. A line has the path, but never the query, which may have a token.

use axum::extract::Request;
use axum::http::{HeaderName, HeaderValue, Method, Uri};
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
    uri: Uri,
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
        Self {
            // Not the target of the lines: a filter that drops those keeps the id in the others.
            span: tracing::info_span!(target: "handback::trail", "http", request = id.as_str()),
            id,
            method: request.method().clone(),
            uri: request.uri().clone(),
            client: None,
            began: Instant::now(),
            is_over: false,
        }
    }

    /// The span of everything that the request leads to.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    /// The request's path.
    pub(crate) fn path(&self) -> &str {
        self.uri.path()
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
        // What a line has is looked up only if it is written.
        macro_rules! line {
            ($target:literal) => {
                tracing::info!(
                    target: $target,
                    method = self.method.as_str(),
                    path = &self.path()[..self.path().floor_char_boundary(MOST_PATH)],
                    client = self.client.as_ref().map(ClientId::as_str),
                    status,
                    ms = milliseconds(self.began.elapsed()),
                    "{}",
                    if status.is_some() { "answered" } else { "gone" }
                )
            };
        }
        self.span.in_scope(|| match PROBES.contains(&self.path()) {
            false => line!("handback::request"),
            true => line!("handback::probe"),
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
