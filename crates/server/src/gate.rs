//! Checks every request before it is routed: where it comes from (`Host`, `Origin`), and who sends it.
//!
//! On loopback without keys everybody on the machine is trusted. So a web page from elsewhere must not control the server:
//! neither by sending requests (`Origin`, `Sec-Fetch-Site`) nor by pointing its own name here (`Host`).

use std::net::{IpAddr, SocketAddr};

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use handback_core::sessions::SessionError;
use handback_wire::error::ErrorCode;
use tower_service::Service;
use tracing::Instrument;

use crate::app::App;
use crate::auth::Principal;
use crate::config::Config;
use crate::console;
use crate::problem::{ErrorShapes, Problem};
use crate::trail::Trail;
use crate::transport::sse::IsStream;

/// Where requests may come from.
#[derive(Debug)]
pub struct Origins {
    loopback: bool,
    /// The hosts that nearly all requests name, which are compared first.
    usual: [String; 2],
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Origins {
    /// Those that the configuration allows, for a server that listens on that address.
    pub fn new(config: &Config, address: SocketAddr) -> Self {
        Self {
            loopback: address.ip().is_loopback(),
            usual: [format!("127.0.0.1:{}", address.port()), format!("localhost:{}", address.port())],
            hosts: config.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
            origins: config.cors.origins.iter().map(|origin| origin.to_ascii_lowercase()).collect(),
        }
    }

    /// Refuses a request that a web page from elsewhere may have sent.
    fn check(&self, uri: &Uri, headers: &HeaderMap, origin: &Origin) -> Result<(), Problem> {
        if !self.loopback {
            // Beyond loopback every request carries a key or token, which other pages do not have.
            return Ok(());
        }
        let mut hosts = headers.get_all(header::HOST).iter().map(HeaderValue::as_bytes);
        self.check_host(hosts.next().unwrap_or_default())?;
        // The request line may name a host too, and there may be several headers. Each must be allowed.
        let named = uri.authority().map(|authority| authority.as_str().as_bytes());
        hosts.chain(named).try_for_each(|host| self.check_host(host))?;
        let is_cross_site = |site: &HeaderValue| site.as_bytes().eq_ignore_ascii_case(b"cross-site");
        match origin {
            Origin::Allowed(_) => Ok(()),
            Origin::Foreign => Err(Problem::forbidden(
                "pages of this origin are not allowed; add it to `cors.origins` in the configuration",
            )),
            Origin::None if headers.get(SEC_FETCH_SITE).is_some_and(is_cross_site) => {
                Err(Problem::forbidden("requests from pages of other sites are not allowed"))
            }
            Origin::None => Ok(()),
        }
    }

    fn check_host(&self, authority: &[u8]) -> Result<(), Problem> {
        if self.usual.iter().any(|usual| usual.as_bytes() == authority) {
            return Ok(());
        }
        let authority = String::from_utf8_lossy(authority);
        let host = host_of(&authority);
        if host.as_ref().is_some_and(|host| is_loopback_host(host) || self.hosts.contains(host)) {
            return Ok(());
        }
        Err(Problem::forbidden(format!(
            "the host \"{}\" is not allowed; use 127.0.0.1 or localhost, or add it to `allowedHosts`",
            host.as_deref().unwrap_or(&authority).escape_default()
        )))
    }

    /// The origin of the page that sent the request.
    fn of(&self, headers: &HeaderMap) -> Origin {
        let Some(value) = headers.get(header::ORIGIN) else { return Origin::None };
        let origin = value.to_str().unwrap_or_default().to_ascii_lowercase();
        let on_loopback = || {
            origin.split_once("://").is_some_and(|(scheme, authority)| {
                matches!(scheme, "http" | "https") && host_of(authority).is_some_and(|host| is_loopback_host(&host))
            })
        };
        if self.origins.contains(&origin) || (self.loopback && on_loopback()) {
            Origin::Allowed(value.clone())
        } else {
            Origin::Foreign
        }
    }
}

/// The origin of the page that sent a request.
enum Origin {
    /// No page sent it, or a page of the same origin.
    None,
    /// Its pages may read the response.
    Allowed(HeaderValue),
    /// Any other origin.
    Foreign,
}

/// The headers of responses that pages may read, besides those that they always may.
const EXPOSED: HeaderValue = HeaderValue::from_static("date, retry-after, x-next-cursor, x-request-id");
const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const PRIVATE_NETWORK_ASKED: HeaderName = HeaderName::from_static("access-control-request-private-network");
const PRIVATE_NETWORK_ALLOWED: HeaderName = HeaderName::from_static("access-control-allow-private-network");

/// Routes a request if it is admitted, and responds. Writes its line in the log.
pub(crate) async fn handle(
    app: &App,
    mut router: axum::Router,
    errors: &ErrorShapes,
    mut request: Request,
) -> Response {
    let mut trail = Trail::begin(&request, app.hub().clock());
    let origin = app.origins().of(request.headers());
    let mut response = match admit(app, &mut request, &origin) {
        Err(problem) => problem.of(trail.id()).into_response_as(errors.at(trail.path())),
        Ok(Admitted::Preflight) => preflight(request.headers()),
        Ok(Admitted::Request) => {
            request.extensions().get().into_iter().for_each(|principal| trail.sent_by(principal));
            let Ok(mut response) = router.call(request).instrument(trail.span().clone()).await;
            if app.is_closing() && response.extensions().get::<IsStream>().is_some() {
                // The response would say that its connection closes, and some readers take the end of such a stream for the
                // end of what it tells, also when it is cut.
                response = Problem::from(SessionError::ShuttingDown).into_response();
            }
            match response.extensions().get::<Problem>().cloned() {
                Some(problem) => {
                    let mut reshaped = problem.of(trail.id()).into_response_as(errors.at(trail.path()));
                    // Only the router knows the methods of a path.
                    reshaped
                        .headers_mut()
                        .extend(response.headers().get(header::ALLOW).map(|allow| (header::ALLOW, allow.clone())));
                    reshaped
                }
                None => response,
            }
        }
    };
    if response.status().is_client_error() || response.status().is_server_error() {
        app.rejected(response.status());
    }
    if let Origin::Allowed(origin) = origin {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        headers.append(header::VARY, HeaderValue::from_static("origin"));
    }
    trail.answered(&mut response);
    response
}

/// Refuses a request on a connection for which there is no room.
pub(crate) fn refuse<B>(app: &App, errors: &ErrorShapes, request: &Request<B>) -> Response {
    let trail = Trail::begin(request, app.hub().clock());
    let problem = Problem::new(ErrorCode::Unavailable, "too many connections; try again later").of(trail.id());
    let mut response = problem.into_response_as(errors.at(trail.path()));
    trail.answered(&mut response);
    response
}

enum Admitted {
    /// A request to route.
    Request,
    /// The question of a browser whether its page may send a request.
    Preflight,
}

/// The paths that need no key, besides the console's.
pub(crate) const OPEN: [&str; 2] = ["/healthz", "/readyz"];

fn admit(app: &App, request: &mut Request, origin: &Origin) -> Result<Admitted, Problem> {
    app.origins().check(request.uri(), request.headers(), origin)?;
    let headers = request.headers();
    if request.method() == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD) {
        return Ok(Admitted::Preflight);
    }
    let path = request.uri().path();
    if app.auth().is_open() || OPEN.contains(&path) || console::is_at(path) {
        return Ok(Admitted::Request);
    }
    let shown = match headers.get(header::AUTHORIZATION) {
        Some(value) => Some(credential(value)?),
        None => access_token(request.uri()),
    };
    let principal = app.auth().authenticate(shown.as_deref())?;
    request.extensions_mut().insert(principal);
    Ok(Admitted::Request)
}

/// The key or token in a header. It may also be the password of a user with any name, as opencode's clients send it.
fn credential(value: &HeaderValue) -> Result<String, Problem> {
    let shown = value.to_str().ok().and_then(|value| value.split_once(' '));
    let shown = shown.and_then(|(scheme, shown)| match scheme.to_ascii_lowercase().as_str() {
        "bearer" => Some(shown.trim().to_owned()),
        "basic" => {
            let user = String::from_utf8(STANDARD.decode(shown.trim()).ok()?).ok()?;
            user.split_once(':').map(|(_, password)| password.to_owned())
        }
        _ => None,
    });
    let message = "the Authorization header must be `Bearer …`, or `Basic …` with the key as the password";
    shown.ok_or_else(|| Problem::new(ErrorCode::Unauthorized, message))
}

/// The token in the query. Only streams allow it, because browsers send no headers with EventSource and WebSocket.
fn access_token(uri: &Uri) -> Option<String> {
    let path: Vec<&str> = uri.path().split('/').skip(1).collect();
    if !matches!(path[..], ["event"] | ["session", _, "event"] | ["client-tools", "pending" | "ws", _]) {
        return None;
    }
    let query: Vec<(String, String)> = serde_urlencoded::from_str(uri.query()?).ok()?;
    query.into_iter().find(|(key, _)| key == "access_token").map(|(_, value)| value)
}

fn preflight(asked: &HeaderMap) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    headers.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("600"));
    if let Some(wanted) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
    }
    if asked.contains_key(PRIVATE_NETWORK_ASKED) {
        headers.insert(PRIVATE_NETWORK_ALLOWED, HeaderValue::from_static("true"));
    }
    response
}

/// Who sends the request.
impl FromRequestParts<App> for Principal {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        match parts.extensions.get::<Self>() {
            Some(principal) => Ok(principal.clone()),
            None if app.auth().is_open() => Ok(Self::Application),
            None => Err(Problem::new(ErrorCode::Unauthorized, "send an application key or a client token")),
        }
    }
}

/// The host of `host[:port]`, in lower case and without the brackets of IPv6. With a user (`@`) there is none: browsers
/// send no user in these headers, and it would be ambiguous which side is the host.
fn host_of(authority: &str) -> Option<String> {
    if authority.contains('@') {
        return None;
    }
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(host, _)| host),
        None => authority.split_once(':').map_or(authority, |(host, _)| host),
    };
    Some(host.to_ascii_lowercase())
}

fn is_loopback_host(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host == "localhost" || host.ends_with(".localhost") || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests;
