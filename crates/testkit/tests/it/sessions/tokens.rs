//! With keys, a client token uses its client's own sessions and no others.

use handback_core::tools::Permission;
use handback_testkit::keys::{self, seconds_from_now, token};
use handback_testkit::session::{permit, text_prompt};
use handback_testkit::{Answer, FakeModel, RawSocket, TestServer, TestStream};
use reqwest::Method;
use serde_json::{Value, json};

use super::errors::must_fail;

/// A server with keys, a session of `tab`, another of `tab`, one of `other` and one of nobody.
struct Protected {
    server: TestServer,
    model: FakeModel,
    own: String,
    second: String,
    foreign: String,
    free: String,
}

impl Protected {
    async fn start() -> Self {
        Self::with(Permission::Allow).await
    }

    async fn with(permission: Permission) -> Self {
        let model = FakeModel::default();
        let server = TestServer::with_model(&model, |config| {
            keys::protect(config);
            permit(config, permission);
        })
        .await;
        let own = server.session_of("tab").await;
        let second = server.session_of("tab").await;
        let foreign = server.session_of("other").await;
        let free = server.session(json!({})).await;
        Self { server, model, own, second, foreign, free }
    }

    /// Sends a request with a token.
    async fn send(&self, token: &str, method: Method, path: &str, body: Option<&Value>) -> Answer {
        let mut request = self.server.request_without_key(method, path).bearer_auth(token);
        if let Some(body) = body {
            request = request.json(body);
        }
        Answer::to(request).await
    }

    async fn post(&self, token: &str, path: &str, body: Value) -> Answer {
        self.send(token, Method::POST, path, Some(&body)).await
    }

    async fn get(&self, token: &str, path: &str) -> Answer {
        self.send(token, Method::GET, path, None).await
    }

    async fn events(&self, token: &str) -> TestStream {
        let mut events =
            TestStream::open(self.server.request_without_key(Method::GET, "/event").bearer_auth(token)).await;
        assert_eq!(events.next().await.data["type"], "server.connected");
        events
    }
}

fn token_of(client: &str) -> String {
    token(&json!({ "clientID": client, "exp": seconds_from_now(60) }))
}

fn token_for(client: &str, session: &str) -> String {
    token(&json!({ "clientID": client, "sessionID": session, "exp": seconds_from_now(60) }))
}

/// Every endpoint of a session, with a body that it would take.
fn endpoints(session: &str) -> Vec<(Method, String, Option<Value>)> {
    let path = |rest: &str| format!("/session/{session}{rest}");
    vec![
        (Method::GET, path(""), None),
        (Method::GET, path("/message"), None),
        (Method::POST, path("/message"), Some(text_prompt("hello"))),
        (Method::POST, path("/prompt_async"), Some(text_prompt("hello"))),
        (Method::POST, path("/abort"), None),
        (Method::GET, path("/tools"), None),
        (Method::POST, path("/permissions/per_x"), Some(json!({ "response": "once" }))),
        (Method::DELETE, path(""), None),
    ]
}

fn ids(list: &Answer) -> Vec<&str> {
    assert_eq!(list.status, 200, "{list:?}");
    let mut ids: Vec<&str> =
        list.body.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect();
    ids.sort_unstable();
    ids
}

#[tokio::test]
async fn without_a_token_or_with_a_bad_one_it_is_401_in_the_shape_of_this_api() {
    let world = Protected::start().await;
    let expired = token(&json!({ "clientID": "tab", "exp": seconds_from_now(-60) }));
    let mut all = endpoints(&world.own);
    all.extend([
        (Method::GET, "/session".to_owned(), None),
        (Method::POST, "/session".to_owned(), Some(json!({}))),
        (Method::GET, "/session/status".to_owned(), None),
        (Method::GET, "/permission".to_owned(), None),
        (Method::POST, "/permission/per_x/reply".to_owned(), Some(json!({ "reply": "once" }))),
        (Method::GET, "/session/nothing/at/all".to_owned(), None),
        (Method::GET, format!("/session?access_token={}", token_of("tab")), None),
    ]);
    for (method, path, body) in all {
        for shown in [None, Some(expired.as_str()), Some("wrong")] {
            let mut request = world.server.request_without_key(method.clone(), &path);
            if let Some(shown) = shown {
                request = request.bearer_auth(shown);
            }
            if let Some(body) = &body {
                request = request.json(body);
            }
            must_fail(&Answer::to(request).await, 401);
        }
    }
    let request = "GET /session HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let (head, _) = RawSocket::exchange(world.server.address, request).await;
    assert_eq!((head.header("content-type"), head.header("www-authenticate")), ("application/json", "Bearer"));
    assert_eq!(ids(&world.server.get("/session").await).len(), 4);
}

#[tokio::test]
async fn a_session_made_with_a_token_is_its_clients() {
    let world = Protected::start().await;
    let token = token_of("tab");
    for body in [json!({}), json!({ "clientID": "tab" }), json!({ "metadata": { "clientID": "tab" } })] {
        let made = world.post(&token, "/session", body).await;
        assert_eq!((made.status, &made.body["clientID"]), (200, &json!("tab")));
    }
    let bare = world.send(&token, Method::POST, "/session", None).await;
    assert_eq!(bare.body["clientID"], "tab");
    for body in [
        json!({ "clientID": "other" }),
        json!({ "metadata": { "clientID": "other" } }),
        json!({ "parentID": world.foreign }),
        json!({ "parentID": world.free }),
    ] {
        must_fail(&world.post(&token, "/session", body).await, 403);
    }
    let child = world.post(&token, "/session", json!({ "parentID": world.own })).await;
    assert_eq!((child.status, &child.body["parentID"]), (200, &json!(world.own)));
    // The application's key makes sessions for anybody.
    assert_eq!(world.server.post("/session", json!({ "clientID": "third" })).await.body["clientID"], "third");
}

#[tokio::test]
async fn a_token_sees_and_uses_its_own_sessions_alone() {
    let world = Protected::start().await;
    let token = token_of("tab");
    assert_eq!(ids(&world.get(&token, "/session").await), [&world.own, &world.second]);
    let status = world.get(&token, "/session/status").await;
    let idle = json!({ "type": "idle" });
    status.must_be(200, &json!({ &world.own: idle, &world.second: idle }));
    for foreign in [&world.foreign, &world.free] {
        for (method, path, body) in endpoints(foreign) {
            let answer = world.send(&token, method, &path, body.as_ref()).await;
            assert_eq!(must_fail(&answer, 403), "the session is not one of client tab");
        }
    }
    assert_eq!(world.server.history(&world.foreign).await, Vec::<String>::new());
    // All of it works in its own.
    world.model.will_say("Hello.");
    let answer = world.post(&token, &format!("/session/{}/message", world.own), text_prompt("hi")).await;
    assert_eq!((answer.status, &answer.body["parts"][1]["text"]), (200, &json!("Hello.")));
    world.model.will_say("Hello again.");
    for (method, path, body) in endpoints(&world.own) {
        let expected = match path.rsplit('/').next().unwrap() {
            "prompt_async" => 204,
            "per_x" => 404,
            _ => 200,
        };
        if path.ends_with("/message") && method == Method::POST {
            world.model.will_say("And again.");
        }
        let answer = world.send(&token, method, &path, body.as_ref()).await;
        assert_eq!(answer.status, expected, "{path}: {answer:?}");
    }
}

#[tokio::test]
async fn a_token_speaks_for_its_client_and_for_no_other() {
    let world = Protected::start().await;
    let token = token_of("tab");
    let mut body = text_prompt("hello");
    body["clientID"] = "other".into();
    let path = format!("/session/{}/message", world.own);
    must_fail(&world.post(&token, &path, body).await, 403);
    let request = world.server.request_without_key(Method::POST, &path).bearer_auth(&token);
    let request = request.header("x-handback-client", "other").json(&text_prompt("hello"));
    must_fail(&Answer::to(request).await, 403);
    // It brings its tools into its own sessions only.
    for (session, status) in [(&world.own, 200), (&world.foreign, 403)] {
        let tools = json!({ "clientID": "tab", "sessionID": session, "tools": [{ "id": "t" }] });
        assert_eq!(world.post(&token, "/client-tools/register", tools).await.status, status);
    }
    assert_eq!(world.server.history(&world.own).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_token_of_one_session_is_good_for_that_alone() {
    let world = Protected::start().await;
    let token = token_for("tab", &world.own);
    let refused = world.post(&token, "/session", json!({})).await;
    assert_eq!(must_fail(&refused, 403), format!("the token is good for session {} only", world.own));
    for session in [&world.second, &world.foreign, &world.free] {
        for (method, path, body) in endpoints(session) {
            must_fail(&world.send(&token, method, &path, body.as_ref()).await, 403);
        }
    }
    assert_eq!(ids(&world.get(&token, "/session").await), [&world.own]);
    // However few are wanted, and however many others are newer.
    assert_eq!(ids(&world.get(&token, "/session?limit=1").await), [&world.own]);
    world.get(&token, "/session/status").await.must_be(200, &json!({ &world.own: { "type": "idle" } }));
    world.model.will_say("Hello.");
    let answer = world.post(&token, &format!("/session/{}/message", world.own), text_prompt("hi")).await;
    assert_eq!(answer.status, 200);
    // A token of another client for this session is good for nothing here.
    let stranger = token_for("other", &world.own);
    for (method, path, body) in endpoints(&world.own) {
        must_fail(&world.send(&stranger, method, &path, body.as_ref()).await, 403);
    }
    assert_eq!(ids(&world.get(&stranger, "/session").await), Vec::<&str>::new());
}

#[tokio::test]
async fn a_token_sees_and_answers_the_asks_of_its_own_calls() {
    let world = Protected::with(Permission::Ask).await;
    let mut streams = Vec::new();
    let mut asks = Vec::new();
    for (client, session) in [("tab", &world.own), ("tab", &world.second), ("other", &world.foreign)] {
        world.server.register(client, &["t"]).await;
        streams.push(world.server.stream(client).await);
        let alias = format!("client_{client}_t");
        world.model.will_call(&[(&alias, json!({}))]);
        world.server.prompt_async(session, "go").await;
        asks = world.server.until_asked(asks.len() + 1).await;
    }
    let seen = async |token: &str| {
        let list = world.get(token, "/permission").await;
        assert_eq!(list.status, 200);
        list.body.as_array().unwrap().clone()
    };
    let (tab, one, other) = (token_of("tab"), token_for("tab", &world.own), token_of("other"));
    assert_eq!(seen(&tab).await, asks[..2]);
    assert_eq!(seen(&one).await, asks[..1]);
    assert_eq!(seen(&other).await, asks[2..]);
    let reply = |ask: &Value| format!("/permission/{}/reply", ask["id"].as_str().unwrap());
    let respond =
        |session: &str, ask: &Value| format!("/session/{session}/permissions/{}", ask["id"].as_str().unwrap());
    let cases = [
        (&tab, &asks[2], &world.foreign),
        (&one, &asks[1], &world.second),
        (&one, &asks[2], &world.foreign),
        (&other, &asks[0], &world.own),
    ];
    for (token, ask, session) in cases {
        must_fail(&world.post(token, &reply(ask), json!({ "reply": "once" })).await, 403);
        let answer = world.post(token, &respond(session, ask), json!({ "response": "once" })).await;
        must_fail(&answer, 403);
    }
    // A foreign ask cannot be reached through a session of one's own either.
    let through = world.post(&tab, &respond(&world.own, &asks[2]), json!({ "response": "once" })).await;
    must_fail(&through, 404);
    assert_eq!(world.server.asks().await, asks);
    world.post(&one, &reply(&asks[0]), json!({ "reply": "once" })).await.must_be(200, &json!(true));
    world
        .post(&tab, &respond(&world.second, &asks[1]), json!({ "response": "reject" }))
        .await
        .must_be(200, &json!(true));
    world.post(&other, &reply(&asks[2]), json!({ "reply": "reject" })).await.must_be(200, &json!(true));
    assert_eq!(world.server.asks().await, Vec::<Value>::new());
}

#[tokio::test]
async fn events_of_sessions_go_to_their_own_client_and_session_alone() {
    let world = Protected::start().await;
    let mut streams = [
        world.events(&token_of("tab")).await,
        world.events(&token_for("tab", &world.own)).await,
        world.events(&token_of("other")).await,
        world.events(keys::APPLICATION_KEY).await,
    ];
    for session in [&world.own, &world.second, &world.foreign, &world.free] {
        world.model.will_say("Hello.");
        world.server.say(session, "hi").await;
        world.server.until_idle(session).await;
    }
    for client in ["tab", "other"] {
        world.server.register(client, &["last"]).await;
    }
    let expected: [Vec<&String>; 4] = [
        vec![&world.own, &world.second],
        vec![&world.own],
        vec![&world.foreign],
        vec![&world.own, &world.second, &world.foreign, &world.free],
    ];
    for (events, expected) in streams.iter_mut().zip(expected) {
        let mut idle = Vec::new();
        loop {
            let event = events.next().await.data;
            match event["type"].as_str().unwrap() {
                "client-tool.registered" => break,
                kind => {
                    let session = event["properties"]["sessionID"].as_str().unwrap().to_owned();
                    assert!(expected.contains(&&session), "{event}");
                    if kind == "session.idle" {
                        idle.push(session);
                    }
                }
            }
        }
        assert_eq!(idle.iter().collect::<Vec<_>>(), expected);
    }
}

#[tokio::test]
async fn a_session_that_is_deleted_is_told_to_its_client_and_to_no_other() {
    let world = Protected::start().await;
    let mut own = world.events(&token_of("tab")).await;
    let mut other = world.events(&token_of("other")).await;
    let deleted = world.send(&token_of("tab"), Method::DELETE, &format!("/session/{}", world.own), None).await;
    deleted.must_be(200, &json!(true));
    let event = own.next().await.data;
    assert_eq!((&event["type"], &event["properties"]["sessionID"]), (&json!("session.deleted"), &json!(world.own)));
    world.server.register("other", &["marker"]).await;
    assert_eq!(other.next().await.data["type"], "client-tool.registered");
}

#[tokio::test]
async fn a_client_token_listens_to_its_own_sessions_alone() {
    let world = Protected::start().await;
    let own = token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }));
    let limited = token(&json!({ "clientID": "tab", "sessionID": world.own, "exp": seconds_from_now(60) }));
    let cases = [
        (&own, format!("/session/{}/event", world.own), 200),
        (&own, format!("/session/{}/event", world.second), 200),
        (&own, format!("/session/{}/event", world.foreign), 403),
        (&own, format!("/session/{}/event", world.free), 403),
        (&own, "/session/nowhere/event".to_owned(), 404),
        (&own, format!("/event?sessionID={}", world.own), 200),
        (&own, format!("/event?sessionID={}", world.foreign), 403),
        (&own, "/event?sessionID=elsewhere".to_owned(), 200),
        (&own, "/event?clientID=tab".to_owned(), 200),
        (&own, "/event?clientID=other".to_owned(), 403),
        (&own, format!("/event?clientID=other&sessionID={}", world.own), 403),
        (&own, "/event?clientID=%20".to_owned(), 400),
        (&limited, format!("/session/{}/event", world.own), 200),
        (&limited, format!("/session/{}/event", world.second), 403),
        (&limited, format!("/event?sessionID={}", world.own), 200),
        (&limited, format!("/event?sessionID={}", world.second), 403),
        (&limited, "/event?sessionID=elsewhere".to_owned(), 403),
    ];
    for (shown, path, expected) in cases {
        // As EventSource has to say it.
        let separator = if path.contains('?') { '&' } else { '?' };
        let by_query = format!("{path}{separator}access_token={shown}");
        for request in [
            world.server.request_without_key(Method::GET, &path).bearer_auth(shown),
            world.server.request_without_key(Method::GET, &by_query),
        ] {
            let answer = request.send().await.unwrap();
            assert_eq!(answer.status().as_u16(), expected, "{path}");
        }
    }
    // Nowhere else is a token taken from the query.
    let elsewhere = [format!("/session/{}", world.own), "/session/event".to_owned()];
    for path in elsewhere {
        let request = world.server.request_without_key(Method::GET, &format!("{path}?access_token={own}"));
        assert_eq!(request.send().await.unwrap().status().as_u16(), 401, "{path}");
    }
}
