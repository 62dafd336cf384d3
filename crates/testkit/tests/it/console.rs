//! The console's files: what browsers are told about them, and who gets them.

use handback_testkit::keys::APPLICATION_KEY;
use handback_testkit::{Answer, TestServer};
use reqwest::header::{HeaderMap, HeaderName};
use reqwest::{Method, RequestBuilder};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; \
     connect-src 'self'; font-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'";

/// What a request was answered with.
struct Head {
    status: u16,
    headers: HeaderMap,
}

impl Head {
    /// A header, or "".
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

/// Sends a request without a key, such as `GET /`, with headers such as `Accept-Encoding: br`.
async fn ask(server: &TestServer, line: &str, headers: &[&str]) -> (Head, String) {
    let (method, path) = line.split_once(' ').unwrap();
    let request = server.request_without_key(method.parse().unwrap(), path);
    let with_header = |request: RequestBuilder, header: &&str| {
        let (name, value) = header.split_once(": ").unwrap();
        request.header(name.parse::<HeaderName>().unwrap(), value)
    };
    let response = headers.iter().fold(request, with_header).send().await.unwrap();
    let head = Head { status: response.status().as_u16(), headers: response.headers().clone() };
    (head, String::from_utf8_lossy(&response.bytes().await.unwrap()).into_owned())
}

/// What the page loads: paths of scripts and styles.
async fn assets(server: &TestServer) -> Vec<String> {
    let (_, page) = ask(server, "GET /", &[]).await;
    let paths = page.split('"').filter_map(|text| text.strip_prefix("./assets/"));
    let paths: Vec<String> = paths.map(|name| format!("/assets/{name}")).collect();
    assert_eq!(paths.len(), 2, "a script and a style: {page}");
    paths
}

#[tokio::test]
async fn the_page_is_at_the_root() {
    let server = TestServer::start().await;
    let (head, page) = ask(&server, "GET /", &[]).await;
    assert_eq!(head.status, 200);
    assert!(page.starts_with("<!doctype html>"), "{page}");
    let told = [
        ("content-type", "text/html; charset=utf-8"),
        ("cache-control", "no-cache"),
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("vary", "accept-encoding"),
        ("content-encoding", ""),
    ];
    assert_eq!(told.map(|(name, _)| (name, head.header(name))), told);
}

#[tokio::test]
async fn files_with_a_hash_in_their_name_are_kept_for_ever() {
    let server = TestServer::start().await;
    for path in assets(&server).await {
        let (head, _) = ask(&server, &format!("GET {path}"), &[]).await;
        assert_eq!((head.status, head.header("cache-control")), (200, "public, max-age=31536000, immutable"), "{path}");
        let kind = if path.ends_with(".js") { "text/javascript; charset=utf-8" } else { "text/css; charset=utf-8" };
        assert_eq!((head.header("content-type"), head.header("content-security-policy")), (kind, POLICY), "{path}");
    }
}

#[tokio::test]
async fn the_smallest_copy_that_can_be_read_is_sent() {
    let server = TestServer::start().await;
    for path in assets(&server).await {
        let mut sizes = Vec::new();
        for (accepted, encoding) in [("br, gzip", "br"), ("gzip, deflate", "gzip"), ("identity", ""), ("br;q=0", "")] {
            let accepted = format!("Accept-Encoding: {accepted}");
            let (head, _) = ask(&server, &format!("HEAD {path}"), &[&accepted]).await;
            assert_eq!((head.status, head.header("content-encoding")), (200, encoding), "{path}: {accepted}");
            sizes.push(head.header("content-length").parse::<usize>().unwrap());
        }
        assert!(sizes[0] < sizes[1] && sizes[1] < sizes[2] && sizes[2] == sizes[3], "{path}: {sizes:?}");
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let server = TestServer::start().await;
    let (plain, _) = ask(&server, "GET /", &[]).await;
    let (compressed, _) = ask(&server, "HEAD /", &["Accept-Encoding: br"]).await;
    let (tag, other) = (plain.header("etag"), compressed.header("etag"));
    assert_ne!(tag, other, "other bytes, another tag");
    for known in [tag.to_owned(), format!("W/{tag}"), format!("\"x\", {tag}")] {
        let (head, body) = ask(&server, "GET /", &[&format!("If-None-Match: {known}")]).await;
        assert_eq!((head.status, body.as_str(), head.header("etag")), (304, "", tag), "{known}");
        assert_eq!((head.header("cache-control"), head.header("vary")), ("no-cache", "accept-encoding"));
    }
    let (head, _) = ask(&server, "GET /", &[&format!("If-None-Match: {other}")]).await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn a_head_says_the_same_without_a_body() {
    let server = TestServer::start().await;
    let (get, page) = ask(&server, "GET /", &[]).await;
    let (head, nothing) = ask(&server, "HEAD /", &[]).await;
    assert_eq!((head.status, nothing.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), page.len().to_string());
    for name in ["etag", "content-type", "content-security-policy"] {
        assert_eq!(head.header(name), get.header(name));
    }
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_as_ever() {
    let server = TestServer::start().await;
    for path in
        ["/index.html", "/index.html.br", "/favicon.svg.gz", "/assets", "/assets/", "/assets/nothing.js", "/live"]
    {
        let answer = Answer::to(server.http.get(format!("{}{path}", server.url))).await;
        answer.must_fail(404, "NOT_FOUND");
    }
    let answer = Answer::to(server.http.request(Method::POST, format!("{}/", server.url))).await;
    answer.must_fail(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn the_files_need_no_key_and_nothing_else_is_opened() {
    let server = TestServer::protected(|_| {}).await;
    for path in ["/".to_owned(), "/favicon.svg".to_owned()].into_iter().chain(assets(&server).await) {
        for headers in [&[] as &[&str], &["Authorization: Bearer wrong"]] {
            assert_eq!(ask(&server, &format!("GET {path}"), headers).await.0.status, 200, "{path}");
        }
    }
    for path in ["/index.html", "/assets/nothing.js", "//", "/client-tools/clients", "/event", "/doc"] {
        assert_eq!(ask(&server, &format!("GET {path}"), &[]).await.0.status, 401, "{path}");
    }
    let key = format!("Authorization: Bearer {APPLICATION_KEY}");
    assert_eq!(ask(&server, "GET /doc", &[&key]).await.0.status, 200);
}

#[tokio::test]
async fn a_page_elsewhere_does_not_get_them() {
    let server = TestServer::start().await;
    for header in ["Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Host: evil.example"] {
        assert_eq!(ask(&server, "GET /", &[header]).await.0.status, 403, "{header}");
    }
}
