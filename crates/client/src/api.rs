//! Typed requests to the server's HTTP API.

mod sessions;

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

use handback_wire::client_tools::{
    Accepted, Call, CallState, CancelRequest, Client, DisconnectRequest, Done, ExecuteRequest, RegisterRequest,
    Registered, ResultRequest, Tool, ToolResult, UnregisterRequest, Unregistered,
};
use handback_wire::error::ErrorBody;
use handback_wire::session::TurnError;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONNECTION, CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER,
    SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use reqwest::redirect::Policy;
use reqwest::{Body, Method, RequestBuilder, Response, StatusCode, Upgraded, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::error::{Error, Refusal};

/// How long a connection may take to open.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How large one event or message may be. A larger one ends the connection: the server sends inputs of at most 4 MiB.
pub(crate) const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
/// How large an answer may be; a larger one is an error. All messages of a long session are one answer.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;
/// How much is read of a refusal, and for how long; what has come by then will do.
const MAX_REFUSAL_BYTES: usize = 64 * 1024;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long an answer may take that does not wait for a tool.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
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

/// A server, and the credentials to speak to it. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Api {
    http: reqwest::Client,
    base: Url,
}

/// Which calls to list; what is absent does not restrict.
#[derive(Debug, Clone, Default)]
pub struct CallFilter {
    /// Calls to this client.
    pub client_id: Option<String>,
    /// Calls that belong to this session.
    pub session_id: Option<String>,
    /// Calls that stand there.
    pub state: Option<CallState>,
}

/// What a client says when it opens its stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamRequest<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) connection: &'a str,
    pub(crate) grace: Duration,
    pub(crate) last_event_id: Option<&'a str>,
}

impl StreamRequest<'_> {
    fn query(&self) -> [(&'static str, Option<String>); 2] {
        [("grace", Some(self.grace.as_millis().to_string())), ("connection", Some(self.connection.to_owned()))]
    }
}

impl Api {
    /// The server at `base_url`; `token` is an application key or a client token, sent as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] and [`Error::InvalidToken`]; the server is not spoken to yet.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Self, Error> {
        let invalid = |reason: String| Error::InvalidUrl { url: base_url.to_owned(), reason };
        let mut base = Url::parse(base_url).map_err(|error| invalid(error.to_string()))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(invalid("it must start with http:// or https://".to_owned()));
        }
        if !base.username().is_empty() || base.password().is_some() {
            // Not quoted: the URL is part of every error's text.
            let reason = "credentials belong into the token, not into the URL".to_owned();
            return Err(Error::InvalidUrl { url: base.host_str().unwrap_or_default().to_owned(), reason });
        }
        base.set_query(None);
        base.set_fragment(None);
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            let mut value = HeaderValue::try_from(format!("Bearer {token}")).map_err(|_| Error::InvalidToken)?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let http = http_client(&base, headers).map_err(invalid)?;
        Ok(Self { http, base })
    }

    /// The server's base URL.
    pub fn url(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    /// Registers tools of a client; the same tool again replaces the earlier one.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn register(&self, request: &RegisterRequest) -> Result<Registered, Error> {
        self.write(Method::POST, &["client-tools", "register"], request).await
    }

    /// Takes tools of a client back; its calls under way go on.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn unregister(&self, request: &UnregisterRequest) -> Result<Unregistered, Error> {
        self.write(Method::DELETE, &["client-tools", "unregister"], request).await
    }

    /// Closes a connection that will not return: no grace is kept for it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn disconnect(&self, request: &DisconnectRequest) -> Result<Done, Error> {
        self.write(Method::POST, &["client-tools", "disconnect"], request).await
    }

    /// Calls a tool and waits for its result, as long as that takes. A tool that fails is a result.
    ///
    /// # Errors
    /// See [`Error`]; a call that ends without a result (timeout, cancelled, disconnected) is [`Error::Refused`].
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ToolResult, Error> {
        let request = ExecuteRequest { wait: None, ..request.clone() };
        self.send(self.http.post(self.endpoint(&["client-tools", "execute"])).json(&request)).await
    }

    /// Calls a tool and does not wait: the outcome is at [`Api::call`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn submit(&self, request: &ExecuteRequest) -> Result<Accepted, Error> {
        self.write(Method::POST, &["client-tools", "execute"], &ExecuteRequest { wait: Some(false), ..request.clone() })
            .await
    }

    /// A call, with its outcome once it is done; waits up to `wait` (60 s at most) for that.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn call(&self, request_id: &str, wait: Option<Duration>) -> Result<Call, Error> {
        let query = [("wait", wait.map(|wait| wait.as_millis().to_string()))];
        let longest = ANSWER_TIMEOUT.saturating_add(wait.unwrap_or_default());
        self.send(self.get(&["client-tools", "calls", request_id], &query).timeout(longest)).await
    }

    /// The calls that the server knows.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn calls(&self, filter: &CallFilter) -> Result<Vec<Call>, Error> {
        let query = [
            ("clientID", filter.client_id.clone()),
            ("sessionID", filter.session_id.clone()),
            ("state", filter.state.map(|state| state_name(state).to_owned())),
        ];
        self.send(self.get(&["client-tools", "calls"], &query).timeout(ANSWER_TIMEOUT)).await
    }

    /// Cancels a call; its client and its caller are told.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn cancel(&self, request: &CancelRequest) -> Result<Done, Error> {
        self.write(Method::POST, &["client-tools", "cancel"], request).await
    }

    /// Answers a call.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn result(&self, request: &ResultRequest) -> Result<Done, Error> {
        self.write(Method::POST, &["client-tools", "result"], request).await
    }

    /// The clients that the server knows.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn clients(&self) -> Result<Vec<Client>, Error> {
        self.send(self.get(&["client-tools", "clients"], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// The tools of one client, in order of registration.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn tools(&self, client_id: &str) -> Result<Vec<Tool>, Error> {
        self.send(self.get(&["client-tools", "tools", client_id], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// The tools of all clients by full id.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn all_tools(&self) -> Result<BTreeMap<String, Tool>, Error> {
        self.send(self.get(&["client-tools", "tools"], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// Opens the stream of a client's calls.
    pub(crate) async fn open_stream(&self, stream: StreamRequest<'_>) -> Result<Response, Error> {
        let mut request = self.get(&["client-tools", "pending", stream.client_id], &stream.query());
        if let Some(id) = stream.last_event_id {
            request = request.header(HeaderName::from_static("last-event-id"), id);
        }
        self.open(request).await
    }

    /// Opens the WebSocket of a client; gives the `Date` of the server's answer too. It is an ordinary request that is
    /// upgraded, so that it goes the way of all others: with the same TLS, the same proxy, the same credentials.
    pub(crate) async fn open_socket(&self, stream: StreamRequest<'_>) -> Result<(Upgraded, Option<String>), Error> {
        let key = generate_key();
        let request = self
            .get(&["client-tools", "ws", stream.client_id], &stream.query())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = self.answer_to(request).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            self.accepted(response).await?;
            return Err(self.unexpected(format!("{status} in place of a WebSocket")));
        }
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        if header(SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes())) {
            return Err(self.unexpected("the WebSocket's key is not confirmed".to_owned()));
        }
        let date = header(DATE);
        Ok((response.upgrade().await.map_err(|error| self.failed(&error))?, date))
    }

    /// Opens a stream of events.
    async fn open(&self, request: RequestBuilder) -> Result<Response, Error> {
        let response = self.answer_to(request.header(ACCEPT, "text/event-stream")).await?;
        let response = self.accepted(response).await?;
        let kind = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !kind.starts_with("text/event-stream") {
            return Err(self.unexpected(format!("\"{kind}\" is not an event stream")));
        }
        Ok(response)
    }

    /// The head of an answer whose body may take for ever. The request's own timeout would end the body as well.
    async fn answer_to(&self, request: RequestBuilder) -> Result<Response, Error> {
        timeout(ANSWER_TIMEOUT, request.send())
            .await
            .map_err(|_| self.interrupted("no answer came in time".to_owned()))?
            .map_err(|error| self.failed(&error))
    }

    /// The error for a connection that broke while it was read.
    pub(crate) fn interrupted(&self, reason: String) -> Error {
        Error::Interrupted { url: self.url().to_owned(), reason }
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.send(self.timed(self.http.request(method, self.endpoint(path)).json(body))?).await
    }

    /// A request that may take as long as its size needs.
    fn timed(&self, request: RequestBuilder) -> Result<RequestBuilder, Error> {
        let request = request.build().map_err(|error| self.failed(&error))?;
        let size = request.body().and_then(Body::as_bytes).map_or(0, <[u8]>::len);
        Ok(RequestBuilder::from_parts(self.http.clone(), request).timeout(answer_timeout(size)))
    }

    fn get(&self, path: &[&str], query: &[(&str, Option<String>)]) -> RequestBuilder {
        let mut url = self.endpoint(path);
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self.http.get(url)
    }

    fn endpoint(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Only a URL without a host has no path to extend, and `new` refuses those.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        let mut response = self.accepted(response).await?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.failed(&error))? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ANSWER_BYTES {
                return Err(self.unexpected(format!("it is larger than {MAX_ANSWER_BYTES} bytes")));
            }
        }
        serde_json::from_slice(&body).map_err(|error| self.unexpected(error.to_string()))
    }

    /// The response if it is a success, otherwise what the server says about the failure.
    async fn accepted(&self, mut response: Response) -> Result<Response, Error> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let header =
            |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let retry_after = header(RETRY_AFTER).and_then(|seconds| seconds.trim().parse().ok()).map(Duration::from_secs);
        let location = header(LOCATION);
        let bytes = read_briefly(&mut response).await;
        let body: Option<ErrorBody> = serde_json::from_slice(&bytes).ok();
        let named: Option<TurnError> = serde_json::from_slice(&bytes).ok();
        let message = match (&body, named, location) {
            (Some(body), ..) => body.error.clone(),
            (None, Some(named), _) => named.reason().to_owned(),
            (None, None, Some(location)) => format!("the server at {} redirects to {location}", self.url()),
            (None, None, None) => format!("the server at {} answered {status}", self.url()),
        };
        let code = body.as_ref().map(|body| body.code);
        Err(Error::Refused(Box::new(Refusal { status: status.as_u16(), code, message, body, retry_after })))
    }

    fn failed(&self, error: &reqwest::Error) -> Error {
        let url = self.url().to_owned();
        let reason = if error.is_timeout() { "no answer came in time".to_owned() } else { root_cause(error) };
        if error.is_connect() { Error::Unreachable { url, reason } } else { Error::Interrupted { url, reason } }
    }

    fn unexpected(&self, reason: String) -> Error {
        Error::Unexpected { url: self.url().to_owned(), reason }
    }
}

/// Connections to a server; `headers` go with every request.
///
/// # Errors
/// Why there can be none.
pub(crate) fn http_client(server: &Url, headers: HeaderMap) -> Result<reqwest::Client, String> {
    let tls = handback_tls::client_config().map_err(|error| root_cause(&error))?;
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .user_agent(concat!("handback/", env!("CARGO_PKG_VERSION")))
        .default_headers(headers)
        .connect_timeout(CONNECT_TIMEOUT)
        // A call may take hours, so nothing but the socket itself says that the peer is gone.
        .tcp_keepalive(Duration::from_secs(30))
        // A WebSocket is an upgraded request, which later versions do not have.
        .http1_only()
        // A followed redirect would turn a POST into a GET.
        .redirect(Policy::none());
    if is_loopback(server) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(|error| root_cause(&error))
}

/// What has come of a body that says why a request was refused, after a while.
pub(crate) async fn read_briefly(response: &mut Response) -> Vec<u8> {
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

/// A proxy of the environment is for the network, not for this machine.
fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
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

fn state_name(state: CallState) -> &'static str {
    match state {
        CallState::AwaitingApproval => "awaiting_approval",
        CallState::Queued => "queued",
        CallState::Offered => "offered",
        CallState::Done => "done",
    }
}
