//! Client tokens: how they are made, which are refused, and what ends with them.

use handback_testkit::keys::{
    self, Issuer, TOKEN_SECRET, hmac_signature, seconds_from_now, seconds_until, signing_input, token, with_signature,
};
use handback_testkit::server::until;
use handback_testkit::stream::End;
use handback_testkit::{Answer, TestServer, TestSocket, TestStream};
use reqwest::Method;
use ring::hmac::{HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use serde_json::{Value, json};

/// The status that a request with this token gets.
async fn status(server: &TestServer, token: &str) -> u16 {
    let request = server.request_without_key(Method::GET, "/client-tools/tools/tab").bearer_auth(token);
    Answer::to(request).await.status
}

fn good_claims() -> Value {
    json!({ "clientID": "tab", "exp": seconds_from_now(60) })
}

#[tokio::test]
async fn a_made_token_lets_its_client_in_and_says_when_it_ends() {
    let server = TestServer::protected(|_| {}).await;
    let answer = server.post("/auth/client-token", json!({ "clientID": "tab", "ttl": 120 })).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.as_object().unwrap().keys().collect::<Vec<_>>(), ["expiresAt", "token"]);
    let left = seconds_until(answer.body["expiresAt"].as_str().unwrap());
    assert!((110.0..=120.0).contains(&left), "{left}");
    assert_eq!(status(&server, answer.body["token"].as_str().unwrap()).await, 200);
    let session = server.token(json!({ "clientID": "tab", "sessionID": "s1" })).await;
    assert_eq!(status(&server, &session).await, 200);
    let other = server.token(json!({ "clientID": "other" })).await;
    assert_eq!(status(&server, &other).await, 403);
}

#[tokio::test]
async fn a_token_request_that_makes_no_sense_is_400() {
    let server = TestServer::protected(|_| {}).await;
    let bad = [
        json!({}),
        json!({ "clientID": "" }),
        json!({ "clientID": "a b" }),
        json!({ "clientID": "tab", "ttl": 0 }),
        json!({ "clientID": "tab", "ttl": -1 }),
        json!({ "clientID": "tab", "ttl": "soon" }),
        json!({ "clientID": "tab", "ttl": u64::MAX }),
        json!({ "clientID": "tab", "sessionID": "x".repeat(300) }),
    ];
    for body in bad {
        server.post("/auth/client-token", body).await.must_fail(400, "INVALID_REQUEST");
    }
}

#[tokio::test]
async fn tokens_under_another_algorithm_or_another_secret_are_refused() {
    let server = TestServer::protected(|_| {}).await;
    assert_eq!(status(&server, &token(&good_claims())).await, 200);

    let signed = |algorithm: &str, signature: &dyn Fn(&str) -> Vec<u8>| {
        let signing = signing_input(&json!({ "alg": algorithm, "typ": "JWT" }), &good_claims());
        with_signature(&signing, &signature(&signing))
    };
    let hs256 = |text: &str| hmac_signature(HMAC_SHA256, TOKEN_SECRET, text);
    let good = token(&good_claims());
    let (head, _) = good.rsplit_once('.').unwrap();
    let other_claims =
        signing_input(&json!({ "alg": "HS256", "typ": "JWT" }), &json!({ "clientID": "tab", "exp": 9e9 }));
    let bad = [
        ("none", signed("none", &|_| Vec::new())),
        ("none, signed", signed("none", &hs256)),
        ("None", signed("None", &|_| Vec::new())),
        ("no algorithm", with_signature(&signing_input(&json!({}), &good_claims()), &hs256("x"))),
        ("HS512", signed("HS512", &|text| hmac_signature(HMAC_SHA512, TOKEN_SECRET, text))),
        ("HS384", signed("HS384", &|text| hmac_signature(HMAC_SHA384, TOKEN_SECRET, text))),
        ("HS512 in name only", signed("HS512", &hs256)),
        ("RS256", signed("RS256", &hs256)),
        ("EdDSA", signed("EdDSA", &hs256)),
        ("EdDSA by a stranger", Issuer::new().token(&good_claims())),
        ("another secret", signed("HS256", &|text| hmac_signature(HMAC_SHA256, "another secret", text))),
        ("an empty secret", signed("HS256", &|text| hmac_signature(HMAC_SHA256, "", text))),
        ("no signature", format!("{head}.")),
        ("a signature cut short", good[..good.len() - 4].to_owned()),
        ("only two parts", head.to_owned()),
        ("other claims under an old signature", format!("{other_claims}.{}", good.rsplit_once('.').unwrap().1)),
        ("not a token", "a.b.c".to_owned()),
    ];
    for (what, token) in bad {
        assert_eq!(status(&server, &token).await, 401, "{what}");
    }
}

#[tokio::test]
async fn a_token_needs_a_good_client_and_an_end() {
    let server = TestServer::protected(|_| {}).await;
    let bad = [
        json!({ "clientID": "tab" }),
        json!({ "exp": seconds_from_now(60) }),
        json!({ "clientID": "a b", "exp": seconds_from_now(60) }),
        json!({ "clientID": "", "exp": seconds_from_now(60) }),
        json!({ "clientID": 5, "exp": seconds_from_now(60) }),
        json!({ "clientID": "tab", "exp": "never" }),
        json!({ "clientID": "tab", "exp": null }),
        json!({ "clientID": "tab", "exp": -1 }),
        json!({ "clientID": "tab", "exp": seconds_from_now(60), "sessionID": 5 }),
        json!({ "clientid": "tab", "exp": seconds_from_now(60) }),
    ];
    for claims in bad {
        assert_eq!(status(&server, &token(&claims)).await, 401, "{claims}");
    }
    // Times that no clock can show, and a token that is not good yet.
    for exp in [1u64 << 63, (1 << 63) - 1, u64::MAX, 1 << 62, 253_402_300_800] {
        let claims = json!({ "clientID": "tab", "exp": exp });
        assert_eq!(status(&server, &token(&claims)).await, 401, "{claims}");
    }
    let last = token(&json!({ "clientID": "tab", "exp": 253_402_300_799u64 }));
    let stream = server.request_without_key(Method::GET, "/client-tools/pending/tab").bearer_auth(&last);
    drop(TestStream::open(stream).await);
    for (seconds, expected) in [(60, 401), (4, 200), (-60, 200)] {
        let claims = json!({ "clientID": "tab", "exp": seconds_from_now(90), "nbf": seconds_from_now(seconds) });
        assert_eq!(status(&server, &token(&claims)).await, expected, "{claims}");
    }
    let more = json!({ "clientID": "tab", "exp": seconds_from_now(60), "aud": "x", "iss": "y", "sub": "z" });
    assert_eq!(status(&server, &token(&more)).await, 200);
}

#[tokio::test]
async fn clocks_may_be_five_seconds_apart_and_no_more() {
    let server = TestServer::protected(|_| {}).await;
    for (seconds, expected) in [(-1, 200), (-3, 200), (-7, 401), (-60, 401)] {
        let token = token(&json!({ "clientID": "tab", "exp": seconds_from_now(seconds) }));
        assert_eq!(status(&server, &token).await, expected, "{seconds} s");
    }
}

#[tokio::test]
async fn tokens_signed_elsewhere_are_checked_with_the_public_key_alone() {
    let issuer = Issuer::new();
    let server = TestServer::protected(|config| {
        config.auth.token_secret = None;
        config.auth.public_key = Some(issuer.public_key());
    })
    .await;
    assert_eq!(status(&server, &issuer.token(&good_claims())).await, 200);
    assert_eq!(status(&server, &issuer.token(&json!({ "clientID": "tab", "exp": seconds_from_now(-10) }))).await, 401);
    assert_eq!(status(&server, &issuer.token(&json!({ "clientID": "other", "exp": seconds_from_now(60) }))).await, 403);
    assert_eq!(status(&server, &Issuer::new().token(&good_claims())).await, 401);
    assert_eq!(status(&server, &token(&good_claims())).await, 401);
    // The public key is public: it must not be taken for a shared secret.
    for secret in [issuer.public_key(), format!("{}\n", issuer.public_key())] {
        let signing = signing_input(&json!({ "alg": "HS256" }), &good_claims());
        let forged = with_signature(&signing, &hmac_signature(HMAC_SHA256, &secret, &signing));
        assert_eq!(status(&server, &forged).await, 401);
    }
    // It can check tokens, not make them.
    server.post("/auth/client-token", json!({ "clientID": "tab" })).await.must_fail(503, "UNAVAILABLE");
}

#[tokio::test]
async fn a_secret_and_a_public_key_may_be_used_side_by_side() {
    let issuer = Issuer::new();
    let server = TestServer::protected(|config| config.auth.public_key = Some(issuer.public_key())).await;
    assert_eq!(status(&server, &issuer.token(&good_claims())).await, 200);
    assert_eq!(status(&server, &token(&good_claims())).await, 200);
    assert_eq!(status(&server, keys::APPLICATION_KEY).await, 200);
}

#[tokio::test]
async fn a_stream_ends_when_its_token_does() {
    let server = TestServer::protected(|_| {}).await;
    server.register("tab", &["t"]).await;
    // It has ended, but for the leeway.
    let short = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-4) }));
    let open =
        async |path: &str| TestStream::open(server.request_without_key(Method::GET, path).bearer_auth(&short)).await;
    let (mut calls, mut events) = (open("/client-tools/pending/tab").await, open("/event").await);
    let mut lasting = server.stream("tab?connection=lasting").await;
    let (ended, told) = tokio::join!(calls.end(), events.end());
    assert_eq!(ended.0, []);
    assert_eq!(told.0.len(), 1, "server.connected: {told:?}");
    server.until("the connection is gone", |counts| counts.connections == 1).await;
    until("the token is refused", async || status(&server, &short).await == 401).await;
    let request = server.begin_call(json!({ "toolID": "client_tab_t" })).await;
    lasting.expect_call(&request).await;
}

#[tokio::test]
async fn a_token_in_the_query_is_taken_by_the_streams_and_by_nothing_else() {
    let server = TestServer::protected(|_| {}).await;
    let good = token(&good_claims());
    for path in ["/client-tools/pending/tab", "/event"] {
        for query in [format!("access_token={good}"), format!("x=1&access_token={good}&grace=5")] {
            let mut stream =
                TestStream::open(server.request_without_key(Method::GET, &format!("{path}?{query}"))).await;
            drop(stream.headers.drain());
        }
        let bad = Answer::to(server.request_without_key(Method::GET, &format!("{path}?access_token=wrong"))).await;
        bad.must_fail(401, "UNAUTHORIZED");
    }
    let url = format!("{}?access_token={good}", server.socket_url("tab"));
    let mut socket = TestSocket::open(&url, None).await;
    assert_eq!(socket.ask(json!({ "type": "ping" })).await, json!({ "type": "pong" }));
    let foreign = format!("{}?access_token={good}", server.socket_url("other"));
    assert_eq!(TestSocket::try_open(&foreign, None).await.err().unwrap().0, 403);

    let others = [
        "/client-tools/tools",
        "/client-tools/tools/tab",
        "/client-tools/clients",
        "/client-tools/calls",
        "/client-tools/calls/r",
        "/metrics",
        "/doc",
        "/events",
        "/event/",
        "/client-tools/pending",
    ];
    for path in others {
        for shown in [&good, keys::APPLICATION_KEY] {
            let request = server.request_without_key(Method::GET, &format!("{path}?access_token={shown}"));
            assert_eq!(Answer::to(request).await.status, 401, "{path}");
        }
    }
    let post = server.request_without_key(Method::POST, &format!("/client-tools/register?access_token={good}"));
    Answer::to(post.json(&json!({ "clientID": "tab", "tools": [] }))).await.must_fail(401, "UNAUTHORIZED");
}

#[tokio::test]
async fn a_stream_that_ends_with_its_token_may_be_taken_up_with_a_new_one() {
    let server = TestServer::protected(|_| {}).await;
    let ids = server.register("tab", &["t"]).await;
    let short = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-4) }));
    let path = "/client-tools/pending/tab?grace=60000";
    let mut stream = TestStream::open(server.request_without_key(Method::GET, path).bearer_auth(short)).await;
    let request = server.begin_call(json!({ "toolID": ids[0] })).await;
    let seen = stream.expect_call(&request).await;
    let (_, end) = stream.end().await;
    assert!(matches!(end, End::Clean | End::Cut));
    let fresh = server.request_without_key(Method::GET, path).bearer_auth(token(&good_claims()));
    let _stream = TestStream::open(fresh.header("last-event-id", seen.id)).await;
    let call = server.call(&request).await;
    assert_eq!((&call["state"], &call["attempt"]), (&json!("offered"), &json!(1)));
}
