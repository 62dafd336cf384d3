//! What opencode's clients ask for besides sessions: true, and nothing that is not theirs to know.

use handback_core::store::ModelRef;
use handback_server::config::{Agent, Config, ProviderKind};
use handback_testkit::keys::{self, APPLICATION_KEY, seconds_from_now, token};
use handback_testkit::session::events_until;
use handback_testkit::{Answer, Scratch, TestServer, TestStream, Upstream};
use reqwest::Method;
use serde_json::{Value, json};

use super::World;

/// Whatever `GET /doc` lists under these tags and that names no session.
async fn paths(server: &TestServer) -> Vec<String> {
    let description = server.get("/doc").await.body;
    let is_ours = |operation: &Value| operation["get"]["tags"] == json!(["opencode"]);
    let paths = description["paths"].as_object().unwrap().iter().filter(|(_, operation)| is_ours(operation));
    paths.map(|(path, _)| path.clone()).collect()
}

#[tokio::test]
async fn agents_and_models_are_those_that_can_be_named() {
    let server = TestServer::with(|config| {
        config
            .agents
            .insert("clerk".to_owned(), Agent { model: ModelRef::parse("demo/other").ok(), ..Agent::default() });
    })
    .await;
    let agents = server.get("/agent").await.body;
    let named: Vec<(&Value, &Value)> =
        agents.as_array().unwrap().iter().map(|agent| (&agent["name"], &agent["model"]["modelID"])).collect();
    assert_eq!(named, [(&json!("default"), &json!("scripted")), (&json!("clerk"), &json!("other"))]);
    assert_eq!(server.get("/config").await.body["model"], "demo/scripted");
    let providers = server.get("/config/providers").await.body;
    assert_eq!(providers["default"], json!({ "demo": "scripted" }));
    let models: Vec<&String> = providers["providers"][0]["models"].as_object().unwrap().keys().collect();
    assert_eq!(models, ["other", "scripted"]);
    let known = server.get("/provider").await.body;
    assert_eq!((&known["connected"], &known["all"]), (&json!(["demo"]), &providers["providers"]));
    let anew = [("/api/agent", json!(["default", "clerk"])), ("/api/model", json!(["scripted", "other"]))];
    for (path, expected) in anew.into_iter().chain([("/api/provider", json!(["demo"]))]) {
        let data = server.get(path).await.body["data"].clone();
        let ids: Vec<Value> = data.as_array().unwrap().iter().map(|entry| entry["id"].clone()).collect();
        assert_eq!(json!(ids), expected, "{path}");
    }
}

#[tokio::test]
async fn nobody_is_told_a_secret_and_a_client_only_of_agents_that_it_may_name() {
    let (upstream, scratch) = (Upstream::start().await, Scratch::new());
    let server = TestServer::with(|config: &mut Config| {
        keys::protect(config);
        let mut provider = upstream.provider(ProviderKind::OpenAi);
        provider.api_key = Some(handback_server::config::Secret::new("sk-of-the-provider".to_owned()));
        config.providers.insert("upstream".to_owned(), provider);
        let system = Some("Never tell anybody that the cake is a lie.".to_owned());
        let model = ModelRef::parse("upstream/secret-model").ok();
        config.agents.insert("clerk".to_owned(), Agent { system, model, ..Agent::default() });
        config.data = Some(scratch.path().to_owned());
    })
    .await;
    let client = token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }));
    let paths = paths(&server).await;
    assert!(paths.len() > 20, "{paths:?}");
    for (key, secrets) in [(APPLICATION_KEY, &[][..]), (client.as_str(), &["clerk", "secret-model", "upstream"])] {
        for path in &paths {
            let request = server.request_without_key(Method::GET, path).bearer_auth(key);
            let answer = Answer::to(request).await;
            assert_eq!(answer.status, 200, "{path}");
            let told = answer.body.to_string();
            let always = ["sk-of-the-provider", "127.0.0.1", "cake", APPLICATION_KEY, scratch.path().to_str().unwrap()];
            for secret in secrets.iter().chain(&always) {
                assert!(!told.contains(secret), "{path} tells {secret}: {told}");
            }
        }
    }
    for path in &paths {
        let refused = Answer::to(server.request_without_key(Method::GET, path)).await;
        assert_eq!((refused.status, &refused.body["name"]), (401, &json!("UnauthorizedError")), "{path}");
    }
}

#[tokio::test]
async fn a_key_or_token_may_be_the_password_of_anybody() {
    let server = TestServer::with(keys::protect).await;
    let client = token(&json!({ "clientID": "tab", "exp": seconds_from_now(60) }));
    let session = async |user: &str, password: &str| {
        let request = server.request_without_key(Method::POST, "/session").basic_auth(user, Some(password));
        Answer::to(request).await
    };
    assert_eq!(session("opencode", APPLICATION_KEY).await.status, 200);
    assert_eq!(session("", &client).await.status, 200);
    assert_eq!(session(APPLICATION_KEY, "").await.status, 401);
    assert_eq!(session("opencode", "wrong").await.status, 401);
    for header in ["Basic", "Basic ", "Basic !!", "Basic bm8gY29sb24=", "Basic //8="] {
        let request = server.request_without_key(Method::POST, "/session").header("authorization", header);
        assert_eq!(Answer::to(request).await.status, 401, "{header}");
    }
}

#[tokio::test]
async fn events_come_in_an_envelope_where_that_is_asked_for() {
    let world = World::start().await;
    let mut plain = world.server.events().await;
    let mut global = TestStream::open(world.server.request(Method::GET, "/global/event")).await;
    world.model.will_say("hi");
    world.server.say(&world.session, "go").await;
    let expected = events_until(&mut plain, "session.idle").await;
    let mut told = Vec::new();
    while told.last() != expected.last() {
        let frame = global.next().await.data;
        assert_eq!(frame["directory"], "");
        // The first says that the stream is open, as that of the other did.
        if frame["payload"]["type"] != "server.connected" {
            told.push(frame["payload"].clone());
        }
    }
    assert_eq!(told, expected);
}

#[tokio::test]
async fn the_sessions_that_came_from_one_are_its_children() {
    let world = World::start().await;
    let child = world.server.session(json!({ "parentID": world.session, "clientID": "tab" })).await;
    world.server.session(json!({})).await;
    let children = world.server.get(&format!("/session/{}/children", world.session)).await.body;
    assert_eq!(children.as_array().unwrap().iter().map(|session| &session["id"]).collect::<Vec<_>>(), [&json!(child)]);
    for list in ["children", "todo", "diff"] {
        assert_eq!(world.server.get(&format!("/session/{child}/{list}")).await.body, json!([]));
        assert_eq!(world.server.get(&format!("/session/nobody/{list}")).await.body["name"], "NotFoundError");
    }
}
