//! Typed requests to the server's HTTP API.

mod sessions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use handback_wire::client_tools::{
    Accepted, Call, CallState, CancelRequest, Client, DisconnectRequest, Done, ExecuteRequest, RegisterRequest,
    Registered, ResultRequest, Tool, ToolResult, UnregisterRequest, Unregistered,
};
use handback_wire::status::ServerStatus;
use reqwest::header::{CONNECTION, DATE, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use reqwest::{Method, RequestBuilder, Response, StatusCode, Upgraded};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::error::Error;
use crate::http::{ANSWER_TIMEOUT, Http, header};

/// The size limit of an answer; a larger one is an error. All messages of a session are one answer.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// A server, and the credentials to speak to it. Clones share their connections.
///
/// Every request may fail with [`Error::Unreachable`], [`Error::Interrupted`], [`Error::Refused`] and
/// [`Error::Unexpected`].
#[derive(Debug, Clone)]
pub struct Api {
    http: Arc<Http>,
    /// Whether a Handback server has answered.
    was_there: Arc<AtomicBool>,
}

/// A filter for calls; `None` does not restrict.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CallFilter {
    /// Calls to this client.
    pub client_id: Option<String>,
    /// Calls that belong to this session.
    pub session_id: Option<String>,
    /// Calls in this state.
    pub state: Option<CallState>,
    /// At most so many, and at most as many as the server lists (1,000): those under way first, then the newest.
    pub limit: Option<usize>,
}

/// How a client opens its stream of calls.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamRequest<'a> {
    pub(crate) client_id: &'a str,
    pub(crate) connection: &'a str,
    pub(crate) grace: Duration,
    pub(crate) last_event_id: Option<&'a str>,
}

impl Api {
    /// The server at `base_url`; `token` is an application key or a client token, sent as `Authorization: Bearer`.
    ///
    /// # Errors
    /// [`Error::InvalidUrl`] and [`Error::InvalidToken`]. This connects to nothing yet.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Self, Error> {
        let mut http = Http::new(base_url)?;
        http.name = format!("the server at {}", http.url());
        if let Some(token) = token {
            http.bearer(token)?;
        }
        Ok(Self { http: Arc::new(http), was_there: Arc::default() })
    }

    /// The server's base URL.
    pub fn url(&self) -> &str {
        self.http.url()
    }

    /// Whether a Handback server has answered before. Only then another answer can be that of a proxy whose server is
    /// away; otherwise, something else may listen there.
    pub(crate) fn was_there(&self) -> bool {
        self.was_there.load(Ordering::Relaxed)
    }

    /// How the server is: its version, what there is, and how near its bounds are. For the application alone.
    pub async fn status(&self) -> Result<ServerStatus, Error> {
        self.get(&["status"], &[]).await
    }

    /// Whether the server takes new calls; no key is needed to ask. If it does not, this is [`Error::Refused`] with status
    /// 503 and the reason.
    pub async fn ready(&self) -> Result<(), Error> {
        let request = self.request(Method::GET, &["readyz"]).timeout(ANSWER_TIMEOUT);
        self.noted(self.http.send(request).await).map(drop)
    }

    /// Registers tools of a client. A tool replaces an earlier one of the same name.
    pub async fn register(&self, request: &RegisterRequest) -> Result<Registered, Error> {
        self.write(Method::POST, &["client-tools", "register"], request).await
    }

    /// Unregisters tools of a client; calls under way continue.
    pub async fn unregister(&self, request: &UnregisterRequest) -> Result<Unregistered, Error> {
        self.write(Method::DELETE, &["client-tools", "unregister"], request).await
    }

    /// Closes a connection that will not return, without a grace period.
    pub async fn disconnect(&self, request: &DisconnectRequest) -> Result<Done, Error> {
        self.write(Method::POST, &["client-tools", "disconnect"], request).await
    }

    /// Calls a tool and waits for its result, however long that takes. The failure of a tool is a result; a call that
    /// ends without one (timeout, cancelled, disconnected) is [`Error::Refused`]. The server cancels the call when the
    /// connection is lost: see [`Client::execute`](crate::Client::execute).
    pub async fn execute(&self, request: &ExecuteRequest) -> Result<ToolResult, Error> {
        let request = ExecuteRequest { wait: None, ..request.clone() };
        self.read(self.request(Method::POST, &["client-tools", "execute"]).json(&request)).await
    }

    /// Calls a tool without waiting: [`Api::call`] returns the outcome.
    pub async fn submit(&self, request: &ExecuteRequest) -> Result<Accepted, Error> {
        let request = ExecuteRequest { wait: Some(false), ..request.clone() };
        self.write(Method::POST, &["client-tools", "execute"], &request).await
    }

    /// A call, with its outcome once it is done. Waits up to `wait` (60 s at most) for the outcome.
    pub async fn call(&self, request_id: &str, wait: Option<Duration>) -> Result<Call, Error> {
        let query = [("wait", wait.map(|wait| wait.as_millis().to_string()))];
        let longest = ANSWER_TIMEOUT.saturating_add(wait.unwrap_or_default());
        self.read(self.query(&["client-tools", "calls", request_id], &query).timeout(longest)).await
    }

    /// The calls that the server knows: those under way, then those that are over, the newest of each first.
    pub async fn calls(&self, filter: &CallFilter) -> Result<Vec<Call>, Error> {
        let state = filter.state.and_then(|state| serde_json::to_value(state).ok());
        let query = [
            ("clientID", filter.client_id.clone()),
            ("sessionID", filter.session_id.clone()),
            ("state", state.and_then(|state| state.as_str().map(str::to_owned))),
            ("limit", filter.limit.map(|limit| limit.to_string())),
        ];
        self.get(&["client-tools", "calls"], &query).await
    }

    /// Cancels a call; its client and its caller are notified.
    pub async fn cancel(&self, request: &CancelRequest) -> Result<Done, Error> {
        self.write(Method::POST, &["client-tools", "cancel"], request).await
    }

    /// Answers a call.
    pub async fn result(&self, request: &ResultRequest) -> Result<Done, Error> {
        self.write(Method::POST, &["client-tools", "result"], request).await
    }

    /// The clients that the server knows.
    pub async fn clients(&self) -> Result<Vec<Client>, Error> {
        self.get(&["client-tools", "clients"], &[]).await
    }

    /// The tools of one client, in order of registration.
    pub async fn tools(&self, client_id: &str) -> Result<Vec<Tool>, Error> {
        self.get(&["client-tools", "tools", client_id], &[]).await
    }

    /// The tools of all clients by full id.
    pub async fn all_tools(&self) -> Result<BTreeMap<String, Tool>, Error> {
        self.get(&["client-tools", "tools"], &[]).await
    }

    /// Opens the stream of a client's calls.
    pub(crate) async fn open_stream(&self, stream: StreamRequest<'_>) -> Result<Response, Error> {
        let mut request = self.stream("pending", stream);
        if let Some(id) = stream.last_event_id {
            request = request.header("last-event-id", id);
        }
        self.noted(self.http.open(request, ANSWER_TIMEOUT).await)
    }

    /// Opens the WebSocket of a client, and also returns the `Date` of the server's answer.
    pub(crate) async fn open_socket(&self, stream: StreamRequest<'_>) -> Result<(Upgraded, Option<String>), Error> {
        self.noted(self.upgrade(stream).await)
    }

    /// A WebSocket is an upgraded request, so that it uses the same TLS, proxy and credentials as all others.
    async fn upgrade(&self, stream: StreamRequest<'_>) -> Result<(Upgraded, Option<String>), Error> {
        let key = generate_key();
        let request = self
            .stream("ws", stream)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key);
        let response = self.http.head(request, ANSWER_TIMEOUT).await?;
        let status = response.status();
        if status != StatusCode::SWITCHING_PROTOCOLS {
            self.http.accepted(response).await?;
            return Err(self.http.unexpected(format!("{status} in place of a WebSocket")));
        }
        if header(&response, SEC_WEBSOCKET_ACCEPT) != Some(derive_accept_key(key.as_bytes())) {
            return Err(self.http.unexpected("the WebSocket's key is not confirmed".to_owned()));
        }
        let date = header(&response, DATE);
        Ok((response.upgrade().await.map_err(|error| self.http.failed(&error))?, date))
    }

    /// The error for a connection that broke.
    pub(crate) fn interrupted(&self, reason: String) -> Error {
        self.http.interrupted(reason)
    }

    fn stream(&self, kind: &str, stream: StreamRequest<'_>) -> RequestBuilder {
        let (grace, connection) = (stream.grace.as_millis().to_string(), stream.connection.to_owned());
        let query = [("grace", Some(grace)), ("connection", Some(connection))];
        self.query(&["client-tools", kind, stream.client_id], &query)
    }

    async fn get<T: DeserializeOwned>(&self, path: &[&str], query: &[(&str, Option<String>)]) -> Result<T, Error> {
        self.read(self.query(path, query).timeout(ANSWER_TIMEOUT)).await
    }

    fn query(&self, path: &[&str], query: &[(&str, Option<String>)]) -> RequestBuilder {
        let mut url = self.http.endpoint(path);
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self.http.request(Method::GET, url)
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<T, Error> {
        self.read(self.http.timed(self.request(method, path).json(body))?).await
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        self.http.request(method, self.http.endpoint(path))
    }

    async fn read<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Error> {
        self.noted(self.http.read(request, MAX_ANSWER_BYTES).await)
    }

    /// Notes that a Handback server is there, if this answer shows it.
    fn noted<T>(&self, answer: Result<T, Error>) -> Result<T, Error> {
        if answer.as_ref().err().is_none_or(Error::is_of_the_server) {
            self.was_there.store(true, Ordering::Relaxed);
        }
        answer
    }
}
