//! Keys, tokens and secrets appear in no log, no error and no `Debug`.

use std::fmt::Write as _;

use handback_testkit::keys::{APPLICATION_KEY, Issuer, TOKEN_SECRET, hash, seconds_from_now, token};
use handback_testkit::{RawSocket, TestServer};
use serde_json::json;
use tracing_subscriber::EnvFilter;

use crate::log::Log;

/// What a browser or a client sends: bare, so that no library of the test's own logs anything of it.
fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

#[tokio::test]
async fn no_secret_appears_in_what_is_logged_or_answered() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new("trace"))
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    // This thread runs the server as well.
    let guard = tracing::subscriber::set_default(subscriber);

    let issuer = Issuer::new();
    let server = TestServer::protected(|config| config.auth.public_key = Some(issuer.public_key())).await;
    let client = token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }));
    let expired = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-60) }));
    let foreign = issuer.token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }));
    let short = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-4) }));
    let wrong = "wrong-key-that-somebody-tried-5a5a".to_owned();
    let mut said = String::new();

    for shown in [APPLICATION_KEY, &client, &expired, &foreign, &wrong] {
        let header = format!("Authorization: Bearer {shown}\r\n");
        let basic = format!("Authorization: Basic {shown}\r\n");
        let register =
            json!({ "clientID": "tab", "tools": [{ "id": "t", "parameters": { "type": "x" } }] }).to_string();
        let requests = [
            request("GET", "/client-tools/tools", &header, ""),
            request("GET", "/client-tools/tools", &basic, ""),
            request("GET", "/client-tools/tools/other", &header, ""),
            request("GET", &format!("/client-tools/tools?access_token={shown}"), "", ""),
            request("GET", &format!("/nothing?access_token={shown}"), &header, ""),
            request("GET", &format!("/client-tools/pending/a%20b?access_token={shown}"), "", ""),
            request("GET", &format!("/client-tools/pending/other?access_token={shown}&grace=x"), "", ""),
            request("GET", &format!("/client-tools/ws/tab?access_token={shown}"), "", ""),
            request("GET", "/client-tools/tools", &format!("{header}Origin: https://evil.example\r\n"), ""),
            request("POST", "/client-tools/register", &header, &register),
            request("POST", "/client-tools/register", &header, "nonsense"),
            request("POST", "/client-tools/execute", &header, "{\"toolID\":\"nobody\"}"),
        ];
        for bare in requests {
            let (head, answer) = RawSocket::exchange(server.address, bare).await;
            assert!(head.status >= 200);
            writeln!(said, "{head:?} {answer:?}").unwrap();
        }
    }
    // Streams, one of which ends with its token, and a token that is made (and answered, as it should be).
    let mut stream = RawSocket::open(server.address).await;
    stream.get(&format!("/client-tools/pending/tab?access_token={client}")).await;
    let mut ending = RawSocket::open(server.address).await;
    ending.get(&format!("/event?access_token={short}")).await;
    ending.until("\r\n0\r\n\r\n").await;
    let body = json!({ "clientID": "tab" }).to_string();
    let mint = request("POST", "/auth/client-token", &format!("Authorization: Bearer {APPLICATION_KEY}\r\n"), &body);
    let (_, minted) = RawSocket::exchange(server.address, mint).await;
    let minted = minted.body["token"].as_str().unwrap().to_owned();
    write!(said, "{:?}", server.app.config()).unwrap();
    server.stop().await;
    drop(guard);

    let logged = log.text();
    assert!(logged.contains("shutting down"), "the log was not collected: {logged:?}");
    let hashed: String = hash(APPLICATION_KEY).iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let secrets = [APPLICATION_KEY, TOKEN_SECRET, &client, &expired, &foreign, &short, &wrong, &minted, &hashed];
    for secret in secrets {
        // The end of a token is its signature, the part that must not be known.
        let ending = &secret[secret.len().saturating_sub(20)..];
        for (place, text) in [("the log", &logged), ("an answer or the configuration", &said)] {
            assert!(!text.contains(ending), "{place} shows {secret:?}");
        }
    }
}
