//! A server on loopback: which hosts, pages and sites may use it.

use handback_testkit::keys::APPLICATION_KEY;
use handback_testkit::{Answer, RawSocket, TestServer};
use reqwest::{Method, Response};

/// Sends a bare GET with these headers; gives the status.
async fn status(server: &TestServer, line: &str, headers: &str) -> u16 {
    let request = format!("GET {line} HTTP/1.1\r\n{headers}Connection: close\r\n\r\n");
    RawSocket::exchange(server.address, request).await.0.status
}

#[tokio::test]
async fn a_host_that_is_not_loopback_is_403() {
    let server = TestServer::start().await;
    let port = server.address.port();
    let good = [
        format!("127.0.0.1:{port}"),
        format!("localhost:{port}"),
        "localhost".to_owned(),
        "LOCALHOST:1".to_owned(),
        "localhost.".to_owned(),
        "app.localhost:4096".to_owned(),
        "127.8.9.1".to_owned(),
        "[::1]:80".to_owned(),
    ];
    for host in good {
        assert_eq!(status(&server, "/client-tools/tools", &format!("Host: {host}\r\n")).await, 200, "{host}");
    }
    let bad = [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evillocalhost",
        "evil.example#localhost",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "",
        "user@evil.example",
        "localhost@evil.example",
    ];
    for host in bad {
        let got = status(&server, "/client-tools/tools", &format!("Host: {host}\r\n")).await;
        assert!([403, 400].contains(&got), "{host}: {got}");
    }
    for path in ["/healthz", "/event", "/client-tools/pending/tab", "/nothing"] {
        assert_eq!(status(&server, path, "Host: evil.example\r\n").await, 403, "{path}");
    }
}

#[tokio::test]
async fn the_host_of_an_absolute_request_line_counts_more_than_the_header() {
    let server = TestServer::start().await;
    let tools = "/client-tools/tools";
    let good = format!("http://localhost{tools}");
    assert_eq!(status(&server, &good, "Host: localhost\r\n").await, 200);
    let bad = format!("http://evil.example{tools}");
    assert_eq!(status(&server, &bad, "Host: localhost\r\n").await, 403);
    assert_eq!(status(&server, &bad, "Host: evil.example\r\n").await, 403);
}

#[tokio::test]
async fn a_request_without_a_host_is_refused() {
    let server = TestServer::start().await;
    assert!(status(&server, "/client-tools/tools", "").await >= 400);
    let old = RawSocket::exchange(server.address, "GET /client-tools/tools HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.0.status, 403);
}

#[tokio::test]
async fn a_request_with_two_hosts_is_refused_whichever_comes_first() {
    let server = TestServer::start().await;
    for hosts in ["Host: evil.example\r\nHost: localhost\r\n", "Host: localhost\r\nHost: evil.example\r\n"] {
        let got = status(&server, "/client-tools/tools", hosts).await;
        assert!([400, 403].contains(&got), "{hosts:?}: {got}");
    }
}

#[tokio::test]
async fn a_page_that_is_neither_on_loopback_nor_configured_is_403() {
    let server = TestServer::with(|config| config.cors.origins = vec!["https://app.example.com".to_owned()]).await;
    let bad = [
        "https://evil.example",
        "null",
        "file://",
        "http://localhost.evil.example",
        "http://127.0.0.1.evil.example",
        "https://app.example.com.evil.example",
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://evil.example:80#http://localhost",
        "chrome-extension://abcdef",
        "",
        "localhost",
    ];
    for origin in bad {
        for method in [Method::GET, Method::POST, Method::OPTIONS] {
            let request = server.request(method.clone(), "/client-tools/tools").header("origin", origin);
            let response = request.send().await.unwrap();
            assert_eq!(response.status().as_u16(), 403, "{method} {origin:?}");
            assert_eq!(response.headers().get("access-control-allow-origin"), None, "{origin:?}");
        }
    }
    for origin in ["https://app.example.com", "HTTPS://APP.example.com"] {
        let response =
            server.request(Method::GET, "/client-tools/tools").header("origin", origin).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "{origin}");
        assert_eq!(response.headers()["access-control-allow-origin"], origin);
    }
}

#[tokio::test]
async fn a_request_that_another_site_makes_without_an_origin_is_403() {
    let server = TestServer::start().await;
    let site = async |site: &str| {
        let request = server.request(Method::GET, "/client-tools/pending/tab").header("sec-fetch-site", site);
        request.send().await.unwrap().status().as_u16()
    };
    for refused in ["cross-site", "Cross-Site"] {
        assert_eq!(site(refused).await, 403, "{refused}");
    }
    for taken in ["same-origin", "same-site", "none"] {
        assert_eq!(site(taken).await, 200, "{taken}");
    }
    let request = server.request(Method::GET, "/client-tools/tools").header("sec-fetch-site", "cross-site");
    Answer::to(request).await.must_fail(403, "FORBIDDEN");
}

/// The headers by which a browser decides.
fn cors(response: &Response) -> Vec<(String, String)> {
    let headers = response.headers().iter();
    let mut cors: Vec<(String, String)> = headers
        .filter(|(name, _)| name.as_str().starts_with("access-control-") || name.as_str() == "vary")
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_ascii_lowercase()))
        .collect();
    cors.sort();
    cors
}

#[tokio::test]
async fn pages_on_other_loopback_ports_may_read_answers_errors_and_streams() {
    let server = TestServer::start().await;
    for origin in ["http://localhost:5173", "http://127.0.0.1:3000", "https://localhost", "http://[::1]:8080"] {
        for (path, status) in [("/client-tools/tools", 200), ("/nothing", 404), ("/event", 200)] {
            let response = server.request(Method::GET, path).header("origin", origin).send().await.unwrap();
            assert_eq!(response.status().as_u16(), status, "{origin} {path}");
            let cors = cors(&response);
            assert!(cors.contains(&("access-control-allow-origin".to_owned(), origin.to_owned())), "{cors:?}");
            assert!(cors.contains(&("vary".to_owned(), "origin".to_owned())), "{cors:?}");
            assert!(!cors.iter().any(|(name, _)| name == "access-control-allow-credentials"), "{cors:?}");
        }
    }
    let response = server.request(Method::GET, "/client-tools/tools").send().await.unwrap();
    assert_eq!(response.headers().get("access-control-allow-origin"), None);
}

#[tokio::test]
async fn a_preflight_is_answered_without_a_key_and_allows_what_is_needed() {
    let server = TestServer::protected(|_| {}).await;
    let request = server.request_without_key(Method::OPTIONS, "/client-tools/unregister");
    let response = request
        .header("origin", "http://localhost:5173")
        .header("access-control-request-method", "DELETE")
        .header("access-control-request-headers", "authorization, content-type, last-event-id")
        .header("access-control-request-private-network", "true")
        .send()
        .await
        .unwrap();
    assert_eq!(response.status().as_u16(), 204);
    let headers = response.headers();
    assert_eq!(headers["access-control-allow-origin"], "http://localhost:5173");
    let methods = headers["access-control-allow-methods"].to_str().unwrap();
    assert!(["GET", "POST", "DELETE"].iter().all(|method| methods.contains(method)), "{methods}");
    let allowed = headers["access-control-allow-headers"].to_str().unwrap().to_ascii_lowercase();
    assert!(["authorization", "content-type", "last-event-id"].iter().all(|name| allowed.contains(name)), "{allowed}");
    assert_eq!(headers["access-control-allow-private-network"], "true");
    assert_eq!(response.text().await.unwrap(), "");
}

#[tokio::test]
async fn a_preflight_of_a_foreign_page_is_403() {
    let server = TestServer::start().await;
    let request = server.request(Method::OPTIONS, "/client-tools/register");
    let request = request.header("origin", "https://evil.example").header("access-control-request-method", "POST");
    let response = request.send().await.unwrap();
    assert_eq!(response.status().as_u16(), 403);
    assert_eq!(cors(&response), []);
}

#[tokio::test]
async fn configured_hosts_are_taken_besides_loopback() {
    let server = TestServer::with(|config| config.allowed_hosts = vec!["tools.example.com".to_owned()]).await;
    for (host, expected) in [
        ("tools.example.com", 200),
        ("TOOLS.example.com:443", 200),
        ("localhost", 200),
        ("example.com", 403),
        ("x.tools.example.com", 403),
    ] {
        let got = status(&server, "/client-tools/tools", &format!("Host: {host}\r\n")).await;
        assert_eq!(got, expected, "{host}");
    }
}

#[tokio::test]
async fn a_foreign_page_cannot_open_a_socket() {
    let server = TestServer::start().await;
    let upgrade = |origin: &str| {
        format!(
            "GET /client-tools/ws/tab HTTP/1.1\r\nHost: localhost\r\nOrigin: {origin}\r\nConnection: upgrade\r\n\
             Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
    };
    for (origin, expected) in [("https://evil.example", 403), ("null", 403), ("http://localhost:5173", 101)] {
        let mut socket = RawSocket::open(server.address).await;
        socket.send(upgrade(origin)).await.unwrap();
        assert_eq!(socket.head().await.status, expected, "{origin}");
    }
}

#[tokio::test]
async fn on_loopback_a_good_key_does_not_make_up_for_a_bad_host_or_page() {
    let server = TestServer::protected(|_| {}).await;
    let key = format!("Authorization: Bearer {APPLICATION_KEY}\r\n");
    assert_eq!(status(&server, "/client-tools/tools", &format!("Host: localhost\r\n{key}")).await, 200);
    assert_eq!(status(&server, "/client-tools/tools", &format!("Host: evil.example\r\n{key}")).await, 403);
    let page = format!("Host: localhost\r\nOrigin: https://evil.example\r\n{key}");
    assert_eq!(status(&server, "/client-tools/tools", &page).await, 403);
}

#[tokio::test]
async fn beyond_loopback_the_key_decides_and_only_configured_pages_may_read() {
    let server = TestServer::protected(|config| {
        config.listen = "0.0.0.0:0".parse().unwrap();
        config.cors.origins = vec!["https://app.example.com".to_owned()];
    })
    .await;
    let get = async |origin: &str, key: &str| {
        let request = server.request_without_key(Method::GET, "/client-tools/tools").bearer_auth(key);
        let response = request.header("host", "tools.example.com").header("origin", origin).send().await.unwrap();
        let allowed =
            response.headers().get("access-control-allow-origin").map(|origin| origin.to_str().unwrap().to_owned());
        (response.status().as_u16(), allowed)
    };
    let configured = "https://app.example.com";
    assert_eq!(get(configured, APPLICATION_KEY).await, (200, Some(configured.to_owned())));
    assert_eq!(get(configured, "wrong").await, (401, Some(configured.to_owned())));
    assert_eq!(get("http://localhost:5173", APPLICATION_KEY).await.1, None);
    assert_eq!(get("https://evil.example", "wrong").await, (401, None));
}
