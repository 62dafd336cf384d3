//! Requests over HTTP: what the API and the agents of AG-UI have in common.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use handback_wire::error::ErrorBody;
use handback_wire::session::TurnError;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
};
use reqwest::redirect::Policy;
use reqwest::{Body, Client, Method, RequestBuilder, Response, Url};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use crate::error::{Error, Refusal};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How large one event or message may be. A larger one ends the connection: the server sends inputs of at most 4 MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
/// How much is read of a refusal, and for how long; what has come by then will do.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take that does not wait for a tool.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// How many bytes a second the slowest line carries; on a slower one large messages do not get through.
const SLOWEST_LINE: usize = 32 * 1024;

/// How long it may take to send a message of this size and to get its answer.
pub(crate) fn answer_timeout(bytes: usize) -> Duration {
    ANSWER_TIMEOUT + sending_time(bytes)
}

/// How long the slowest line takes for a message of this size.
pub(crate) fn sending_time(bytes: usize) -> Duration {
    Duration::from_secs((bytes / SLOWEST_LINE) as u64)
}

/// A server, and what is sent with every request to it. Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client,
    base: Url,
    headers: HeaderMap,
    /// What the server is called where it does not say itself what went wrong.
    pub(crate) name: String,
}

impl Http {
    /// The server at this URL; it is not spoken to yet.
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidUrl { url: url.to_owned(), reason };
        let base = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("it must start with http:// or https://".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            // Not quoted: errors are shown and logged.
            let reason = "credentials belong into the token, not into the URL".to_owned();
            return Err(Error::InvalidUrl { url: base.host_str().unwrap_or_default().to_owned(), reason });
        }
        let client = client(&base).map_err(invalid)?;
        Ok(Self { client, base, headers: HeaderMap::new(), name: "the server".to_owned() })
    }

    /// Sends a header with every request; `None` if there can be no such header.
    pub(crate) fn header(&mut self, name: &str, value: &str) -> Option<()> {
        let mut value = HeaderValue::try_from(value).ok()?;
        value.set_sensitive(true);
        self.headers.insert(HeaderName::try_from(name).ok()?, value);
        Some(())
    }

    /// Sends a token with every request.
    pub(crate) fn bearer(&mut self, token: &str) -> Result<(), Error> {
        self.header(AUTHORIZATION.as_str(), &format!("Bearer {token}")).ok_or(Error::InvalidToken)
    }

    /// The URL of the server.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The same, for people.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The URL of something below that of the server.
    pub(crate) fn endpoint(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.set_query(None);
        url.set_fragment(None);
        // Only a URL without a host has no path to extend, and `new` refuses those.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url).headers(self.headers.clone())
    }

    /// Limits the time that a request may take to what its size needs.
    pub(crate) fn timed(&self, request: RequestBuilder) -> Result<RequestBuilder, Error> {
        let request = request.build().map_err(|error| self.failed(&error))?;
        let size = request.body().and_then(Body::as_bytes).map_or(0, <[u8]>::len);
        Ok(RequestBuilder::from_parts(self.client.clone(), request).timeout(answer_timeout(size)))
    }

    /// Reads all of the answer, which has at most `largest` bytes.
    pub(crate) async fn read<T: DeserializeOwned>(&self, request: RequestBuilder, largest: usize) -> Result<T, Error> {
        let mut response = self.send(request.header(ACCEPT, "application/json")).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > largest {
                return Err(self.unexpected(format!("it is larger than {largest} bytes")));
            }
        }
        serde_json::from_slice(&body).map_err(|error| self.unexpected(error.to_string()))
    }

    /// Opens a stream of events; `within` is how long the head of the answer may take.
    pub(crate) async fn open(&self, request: RequestBuilder, within: Duration) -> Result<Response, Error> {
        let response = self.head(request.header(ACCEPT, "text/event-stream"), within).await?;
        let response = self.accepted(response).await?;
        let is_stream = |kind: &String| kind.trim_start().to_ascii_lowercase().starts_with("text/event-stream");
        if let Some(kind) = header(&response, CONTENT_TYPE).filter(|kind| !is_stream(kind)) {
            return Err(self.unexpected(format!("\"{kind}\" is not an event stream")));
        }
        let encoding = header(&response, CONTENT_ENCODING);
        if let Some(encoding) = encoding.filter(|encoding| !encoding.trim().eq_ignore_ascii_case("identity")) {
            return Err(self.unexpected(format!("it is encoded as \"{encoding}\", though it was asked for as it is")));
        }
        Ok(response)
    }

    /// The head of an answer whose body may take for ever. The request's own timeout would end the body as well.
    pub(crate) async fn head(&self, request: RequestBuilder, within: Duration) -> Result<Response, Error> {
        timeout(within, request.send())
            .await
            .map_err(|_elapsed| self.interrupted("no answer came in time".to_owned()))?
            .map_err(|error| self.failed(&error))
    }

    /// Sends a request, and gives the answer if it is a success.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        self.accepted(response).await
    }

    /// The response if it is a success, otherwise what the server says about the failure.
    pub(crate) async fn accepted(&self, mut response: Response) -> Result<Response, Error> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = header(&response, RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
        let location = header(&response, LOCATION).filter(|_| status.is_redirection());
        let bytes = read_briefly(&mut response).await;
        let body: Option<ErrorBody> = serde_json::from_slice(&bytes).ok();
        let message = said(&bytes).unwrap_or_else(|| match location {
            Some(location) => format!("{} redirects to {location}: ask there", self.name),
            None => format!("{} answered {status}", self.name),
        });
        Err(Error::Refused(Box::new(Refusal {
            status: status.as_u16(),
            code: body.as_ref().map(|body| body.code),
            message,
            body,
            retry_after: retry_after.map(Duration::from_secs),
        })))
    }

    pub(crate) fn failed(&self, error: &reqwest::Error) -> Error {
        let url = self.url().to_owned();
        let reason = if error.is_timeout() { "no answer came in time".to_owned() } else { root_cause(error) };
        if error.is_connect() { Error::Unreachable { url, reason } } else { Error::Interrupted { url, reason } }
    }

    /// The error for a connection that broke while it was read.
    pub(crate) fn interrupted(&self, reason: String) -> Error {
        Error::Interrupted { url: self.url().to_owned(), reason }
    }

    pub(crate) fn unexpected(&self, reason: String) -> Error {
        Error::Unexpected { url: self.url().to_owned(), reason }
    }
}

/// Connections to a server.
///
/// # Errors
/// Why there can be none.
fn client(server: &Url) -> Result<Client, String> {
    let tls = handback_tls::client_config().map_err(|error| root_cause(&error))?;
    let mut builder = Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("handback/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        // A call may take hours, so nothing but the socket itself says that the peer is gone.
        .tcp_keepalive(Duration::from_secs(30))
        // A WebSocket is an upgraded request, which later versions do not have.
        .http1_only()
        // The credentials are for nobody else, and a followed redirect would turn a POST into a GET.
        .redirect(Policy::none());
    if is_loopback(server) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| root_cause(&error))
}

/// A proxy of the environment is for the network, not for this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

pub(crate) fn header(response: &Response, name: HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// What has come of a body that says why a request was refused, after a while.
async fn read_briefly(response: &mut Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < MAX_REFUSAL_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            bytes.extend_from_slice(&chunk);
        }
    };
    let _ = timeout(REFUSAL_TIMEOUT, reading).await;
    bytes
}

/// What a body says went wrong, in one of the ways in which servers say it.
fn said(body: &[u8]) -> Option<String> {
    if let Ok(error) = serde_json::from_slice::<TurnError>(body) {
        return Some(error.reason().to_owned());
    }
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

/// What happened first: the outer errors only say that a request failed.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    match cause.downcast_ref::<io::Error>() {
        Some(error) if error.kind() == io::ErrorKind::UnexpectedEof => "the server cut it".to_owned(),
        _ => cause.to_string(),
    }
}
