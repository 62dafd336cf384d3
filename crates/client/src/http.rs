//! HTTP requests of the API and of AG-UI agents.

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
/// How long an idle connection is kept. The server closes it after 10 s (`limits.headerTimeout`), and a request that is sent at that
/// moment is lost.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// The size limit of an event or a message; a larger one ends the connection. The server's inputs have at most 4 MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
/// How much of the body of a refusal is read, and for how long; the rest is ignored.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer that does not wait for a tool may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The bytes per second of the slowest network that is supported.
const MIN_SPEED: usize = 32 * 1024;

/// How long it may take to send a message of this size and to get its answer.
pub(crate) fn answer_timeout(bytes: usize) -> Duration {
    ANSWER_TIMEOUT + sending_time(bytes)
}

/// How long the slowest network takes to send a message of this size.
pub(crate) fn sending_time(bytes: usize) -> Duration {
    Duration::from_secs((bytes / MIN_SPEED) as u64)
}

/// A server, and the headers for every request to it. Clones share their connections.
#[derive(Debug, Clone)]
pub(crate) struct Http {
    client: Client,
    base: Url,
    headers: HeaderMap,
    /// The name of the server in error messages.
    pub(crate) name: String,
}

impl Http {
    /// The server at this URL. This connects to nothing yet.
    pub(crate) fn new(url: &str) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidUrl { url: url.to_owned(), reason };
        let base = Url::parse(url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("it must start with http:// or https://".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            // The error does not contain the URL, because errors are shown and logged.
            let reason = "credentials belong into the token, not into the URL".to_owned();
            return Err(Error::InvalidUrl { url: base.host_str().unwrap_or_default().to_owned(), reason });
        }
        let tls = handback_tls::client_config().map_err(|error| invalid(root_cause(&error)))?;
        let mut builder = Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("handback/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(IDLE_TIMEOUT)
            // A call may take hours, so only the socket itself can detect that the peer is gone.
            .tcp_keepalive(Duration::from_secs(30))
            // A WebSocket is an upgraded request, which later versions of HTTP lack.
            .http1_only()
            // A redirect would send the credentials to another server, and turn a POST into a GET.
            .redirect(Policy::none());
        if handback_tls::is_loopback(base.host_str().unwrap_or_default()) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| invalid(root_cause(&error)))?;
        Ok(Self { client, base, headers: HeaderMap::new(), name: "the server".to_owned() })
    }

    /// Sends a header with every request; `None` if the header is not valid.
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

    /// The URL of the server, as given.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The URL of the server, for messages.
    pub(crate) fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// The URL of a path below the server's URL.
    pub(crate) fn endpoint(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        url.set_query(None);
        url.set_fragment(None);
        // This fails only for a URL without a host, which `new` refuses.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    pub(crate) fn request(&self, method: Method, url: Url) -> RequestBuilder {
        self.client.request(method, url).headers(self.headers.clone())
    }

    /// Sets the timeout of a request by its size.
    pub(crate) fn timed(&self, request: RequestBuilder) -> Result<RequestBuilder, Error> {
        let request = request.build().map_err(|error| self.failed(&error))?;
        let size = request.body().and_then(Body::as_bytes).map_or(0, <[u8]>::len);
        Ok(RequestBuilder::from_parts(self.client.clone(), request).timeout(answer_timeout(size)))
    }

    /// Sends a request, and decodes its answer of at most `max_bytes`.
    pub(crate) async fn read<T>(&self, request: RequestBuilder, max_bytes: usize) -> Result<T, Error>
    where
        T: DeserializeOwned,
    {
        let mut response = self.send(request.header(ACCEPT, "application/json")).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > max_bytes {
                return Err(self.unexpected(format!("it is larger than {max_bytes} bytes")));
            }
        }
        serde_json::from_slice(&body).map_err(|error| self.unexpected(error.to_string()))
    }

    /// Opens a stream of events; the head of the answer must come `within` this time.
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

    /// Reads the head of an answer. Unlike the timeout of a request, `within` does not limit the body.
    pub(crate) async fn head(&self, request: RequestBuilder, within: Duration) -> Result<Response, Error> {
        timeout(within, request.send())
            .await
            .map_err(|_elapsed| self.interrupted("no answer came in time".to_owned()))?
            .map_err(|error| self.failed(&error))
    }

    /// Sends a request. An unsuccessful answer is an error.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        self.accepted(response).await
    }

    /// The response if it is a success; otherwise the server's error.
    pub(crate) async fn accepted(&self, mut response: Response) -> Result<Response, Error> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let retry_after = header(&response, RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok());
        let location = header(&response, LOCATION).filter(|_| status.is_redirection());
        let bytes = read_briefly(&mut response).await;
        let body: Option<ErrorBody> = serde_json::from_slice(&bytes).ok();
        let is_ours = body.is_some() || serde_json::from_slice::<TurnError>(&bytes).is_ok();
        let message = refusal_message(&bytes).unwrap_or_else(|| match location {
            Some(location) => format!("{} redirects to {location}: ask there", self.name),
            None => format!("{} answered {status}", self.name),
        });
        Err(Error::Refused(Box::new(Refusal {
            status: status.as_u16(),
            code: body.as_ref().map(|body| body.code),
            message,
            body,
            retry_after: retry_after.map(Duration::from_secs),
            is_ours,
        })))
    }

    pub(crate) fn failed(&self, error: &reqwest::Error) -> Error {
        let url = self.url().to_owned();
        let reason = if error.is_timeout() { "no answer came in time".to_owned() } else { root_cause(error) };
        if error.is_connect() { Error::Unreachable { url, reason } } else { Error::Interrupted { url, reason } }
    }

    /// The error for a connection that broke.
    pub(crate) fn interrupted(&self, reason: String) -> Error {
        Error::Interrupted { url: self.url().to_owned(), reason }
    }

    pub(crate) fn unexpected(&self, reason: String) -> Error {
        Error::Unexpected { url: self.url().to_owned(), reason }
    }
}

pub(crate) fn header(response: &Response, name: HeaderName) -> Option<String> {
    response.headers().get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

/// Reads the part of a refusal's body that arrives soon.
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

/// The message in the body of a refusal, in one of the formats that servers use.
fn refusal_message(body: &[u8]) -> Option<String> {
    if let Ok(error) = serde_json::from_slice::<TurnError>(body) {
        return Some(error.reason().to_owned());
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let words = ["detail", "error", "message"].into_iter().find_map(|name| body.get(name))?;
    match words {
        Value::Null => None,
        Value::String(words) => Some(words.clone()),
        Value::Object(inner) if inner.get("message").is_some_and(Value::is_string) => {
            refusal_message(words.to_string().as_bytes())
        }
        other => Some(other.to_string()),
    }
}

/// The reason why a request failed.
pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    handback_tls::root_cause(error).unwrap_or_else(|| "the server cut it".to_owned())
}
