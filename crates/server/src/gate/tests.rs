use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use handback_core::clock::Clock;

use super::*;
use crate::app::Extensions;
use crate::transport::sse::{self, FrameSource, Next};

/// A stream that never has anything to say.
struct Silent;

impl FrameSource for Silent {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Next> {
        Poll::Pending
    }
}

#[tokio::test]
async fn no_stream_begins_on_a_connection_that_is_about_to_close() {
    let address = SocketAddr::from(([127, 0, 0, 1], 4096));
    let config = Config { ephemeral: true, ..Config::default() };
    let app = App::new(config, address, Clock::counting(), Extensions::default()).await.unwrap();
    let stream = || async { sse::response(Silent, "", Duration::from_secs(30), None) };
    let router = Router::new().route("/stream", get(stream)).route("/whole", get(|| async { "all of it" }));
    let status = async |path: &'static str| {
        let request = Request::builder().uri(path).header(header::HOST, "127.0.0.1:4096").body(Body::empty()).unwrap();
        let response = handle(&app, router.clone(), &ErrorShapes::default(), request).await;
        (response.status(), response.headers().contains_key(header::RETRY_AFTER))
    };
    assert_eq!(status("/stream").await, (StatusCode::OK, false));
    app.close();
    assert_eq!(status("/stream").await, (StatusCode::SERVICE_UNAVAILABLE, true));
    assert_eq!(status("/whole").await, (StatusCode::OK, false));
}

#[test]
fn hosts_are_read_as_browsers_write_them() {
    for (authority, host) in [
        ("127.0.0.1:4096", Some("127.0.0.1")),
        ("LOCALHOST", Some("localhost")),
        ("[::1]:80", Some("::1")),
        ("user@evil.example:1", None),
        ("evil.example@127.0.0.1", None),
        ("localhost:1@evil.example", None),
        ("", Some("")),
    ] {
        assert_eq!(host_of(authority).as_deref(), host, "{authority}");
    }
}

#[test]
fn who_names_a_user_is_not_on_loopback() {
    let origins = Origins::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 4096)));
    let is_admitted = |host: &str, origin: &str| {
        let header = |text: &str| HeaderValue::from_str(text).unwrap();
        let headers = HeaderMap::from_iter([(header::HOST, header(host)), (header::ORIGIN, header(origin))]);
        origins.check(&Uri::from_static("/"), &headers, &origins.of(&headers)).is_ok()
    };
    assert!(is_admitted("127.0.0.1:4096", "http://127.0.0.1:3000"));
    for user in ["http://evil.example@127.0.0.1", "http://localhost:1@evil.example", "http://a@b.localhost"] {
        assert!(!is_admitted("127.0.0.1:4096", user), "{user}");
    }
    for user in ["evil.example@127.0.0.1:4096", "localhost:1@evil.example", "a@b.localhost"] {
        assert!(!is_admitted(user, "http://127.0.0.1:3000"), "{user}");
    }
}

#[test]
fn loopback_is_recognised_and_what_only_looks_like_it_is_not() {
    for host in ["localhost", "localhost.", "app.localhost", "127.0.0.1", "127.1.2.3", "::1"] {
        assert!(is_loopback_host(host), "{host}");
    }
    for host in ["", "localhost.evil.example", "127.0.0.1.evil.example", "notlocalhost", "0.0.0.0", "10.0.0.1", "evil"]
    {
        assert!(!is_loopback_host(host), "{host}");
    }
}
