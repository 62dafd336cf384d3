//! The console: the web page for operators. Its files are part of the binary.
//!
//! `console/` of the repository has the sources, `console/` of this crate the built files. The files need no key, because nothing in them is secret, and
//! the page asks for the key that its requests carry.

use std::borrow::Cow;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::get;
use bytes::Bytes;
use rust_embed::{Embed, EmbeddedFile};

use crate::app::App;

#[derive(Embed)]
#[folder = "console"]
struct Files;

/// The page itself, which is at `/`.
const INDEX: &str = "index.html";

/// What the page may load: its own files, requests and streams to this server, and pictures that it is given.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data: blob:; connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'";

/// The compressed copies of a file, the smallest first: the name of the encoding, and the ending of the copy's name.
const ENCODINGS: [(&str, &str); 2] = [("br", ".br"), ("gzip", ".gz")];

/// A route for each file.
pub(crate) fn routes() -> Router<App> {
    Files::iter().filter(|name| !is_copy(name)).fold(Router::new(), |router, name| {
        let path = if name == INDEX { "/".to_owned() } else { format!("/{name}") };
        router.route(&path, get(async move |headers: HeaderMap| respond(&name, &headers)))
    })
}

/// Whether this is the path of a file.
pub(crate) fn is_at(path: &str) -> bool {
    path == "/"
        || path.strip_prefix('/').is_some_and(|name| name != INDEX && !is_copy(name) && Files::get(name).is_some())
}

/// Whether a file is a compressed copy, which has no path of its own.
fn is_copy(name: &str) -> bool {
    ENCODINGS.iter().any(|(_, ending)| name.ends_with(ending))
}

fn respond(name: &str, request: &HeaderMap) -> Response {
    let Some((file, encoding)) = best_copy(name, request) else {
        // This cannot happen, because every route belongs to a file.
        return respond_with(StatusCode::NOT_FOUND, Body::empty());
    };
    let tag = entity_tag(&file);
    let is_known = request.get_all(header::IF_NONE_MATCH).iter().any(|known| names_tag(known, &tag));
    let mut response = match file.data {
        _ if is_known => respond_with(StatusCode::NOT_MODIFIED, Body::empty()),
        Cow::Borrowed(bytes) => respond_with(StatusCode::OK, Body::from(Bytes::from_static(bytes))),
        Cow::Owned(bytes) => respond_with(StatusCode::OK, Body::from(bytes)),
    };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type(name)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache_control(name)));
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        headers.insert(header::ETAG, tag);
    }
    if let Some(encoding) = encoding {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
    }
    response
}

/// A response with the headers that all of them have.
fn respond_with(status: StatusCode, body: Body) -> Response {
    const HEADERS: [(HeaderName, &str); 4] = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::VARY, "accept-encoding"),
    ];
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().extend(HEADERS.map(|(name, value)| (name, HeaderValue::from_static(value))));
    response
}

/// The smallest copy of a file that the browser can read, and its encoding.
fn best_copy(name: &str, request: &HeaderMap) -> Option<(EmbeddedFile, Option<&'static str>)> {
    let compressed = ENCODINGS.iter().filter(|(encoding, _)| accepts(request, encoding));
    compressed
        .filter_map(|(encoding, ending)| Some((Files::get(&format!("{name}{ending}"))?, Some(*encoding))))
        .next()
        .or_else(|| Some((Files::get(name)?, None)))
}

/// Whether `Accept-Encoding` accepts the encoding.
fn accepts(request: &HeaderMap, encoding: &str) -> bool {
    let lists = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|item| {
        let (name, weight) = item.split_once(';').unwrap_or((item, "q=1"));
        let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case(encoding) && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// The entity tag of a file. Each compressed copy has its own.
fn entity_tag(file: &EmbeddedFile) -> String {
    let digest = file.metadata.sha256_hash();
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("\"{hex}\"")
}

/// Whether a list of `If-None-Match` has the tag, which proxies may have marked as weak.
fn names_tag(list: &HeaderValue, tag: &str) -> bool {
    let known = list.to_str().unwrap_or_default();
    known.split(',').map(str::trim).any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag)
}

/// How long a file may be cached. The names of files under `assets/` contain a hash of their content.
fn cache_control(name: &str) -> &'static str {
    if name.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, ending)| ending) {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests;
