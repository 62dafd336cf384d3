use handback_client::{Api, CallFilter, Error};
use handback_wire::error::ErrorCode;
use tokio::net::TcpListener;

use crate::stub::Stub;

#[tokio::test]
async fn a_refusal_has_the_servers_code_message_and_status() {
    let stub = Stub::start().await;
    stub.refuse("clients", &[400]);
    let api = Api::new(&stub.url, None).unwrap();
    let error = api.clients().await.unwrap_err();
    assert_eq!(
        (error.status(), error.code(), error.to_string()),
        (Some(400), Some(ErrorCode::InvalidRequest), "not now".to_owned())
    );
    assert_eq!(api.clients().await.unwrap(), []);
}

#[tokio::test]
async fn a_failure_that_is_not_handbacks_says_where_it_came_from() {
    let stub = Stub::start().await;
    let api = Api::new(&stub.url, None).unwrap();
    let error = api.calls(&CallFilter::default()).await.unwrap_err();
    assert_eq!((error.status(), error.code()), (Some(404), None));
    assert_eq!(error.to_string(), format!("the server at {} answered 404 Not Found", stub.url));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let error = Api::new(&url, None).unwrap().clients().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains(url.trim_end_matches('/')), "{error}");
}

#[test]
fn a_url_or_token_that_cannot_be_used_is_refused_at_once() {
    let refused = |url: &str| Api::new(url, None).unwrap_err().to_string();
    assert!(refused("127.0.0.1:4096").contains("is not the URL of a server"));
    assert!(refused("ftp://example.com").contains("must start with http:// or https://"));
    assert_eq!(
        refused("https://me:secret@example.com"),
        "\"example.com\" is not the URL of a server: credentials belong into the token, not into the URL"
    );
    assert!(matches!(Api::new("http://127.0.0.1", Some("a\nb")), Err(Error::InvalidToken)));
}
