//! Every row of the table of endpoints: what it takes, what it gives, all fields.

use handback_testkit::server::until;
use handback_testkit::session::text_prompt;
use handback_testkit::tidy::{Tidier, tidy};
use handback_testkit::{Answer, RawSocket};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::errors::must_fail;
use super::{World, schema_of_a};

/// The ids of a list of sessions.
fn ids(list: &Answer) -> Vec<&str> {
    assert_eq!(list.status, 200, "{list:?}");
    list.body.as_array().unwrap().iter().map(|session| session["id"].as_str().unwrap()).collect()
}

/// Waits until a later time is written on what is done next.
async fn a_moment() {
    let now = Instant::now();
    until("a moment is over", async || now.elapsed().as_millis() > 1).await;
}

#[tokio::test]
async fn a_session_has_what_it_was_made_with() {
    let world = World::start().await;
    let parent = world.server.session(json!({})).await;
    let body = json!({
        "title": "A title", "parentID": parent, "clientID": "tab", "agent": "default",
        "model": { "providerID": "fake", "modelID": "two/three" }, "metadata": { "color": "blue", "deep": [1, { "a": null }] },
    });
    let made = world.server.post("/session", body).await;
    let mut tidier = Tidier::default();
    tidier.tidy(&json!(parent));
    let expected = json!({
        "id": "ses_2", "slug": "ses_2", "projectID": "global", "directory": "", "parentID": "ses_1", "clientID": "tab",
        "title": "A title", "version": env!("CARGO_PKG_VERSION"), "agent": "default",
        "model": { "providerID": "fake", "id": "two/three" },
        "metadata": { "color": "blue", "deep": [1, { "a": null }] },
        "time": { "created": "time", "updated": "time" },
    });
    assert_eq!((made.status, tidier.tidy(&made.body)), (200, expected));
    let id = made.body["id"].as_str().unwrap();
    assert!(id.starts_with("ses_") && id > parent.as_str(), "ids sort by time: {parent} {id}");
    world.server.get(&format!("/session/{id}")).await.must_be(200, &made.body);
}

#[tokio::test]
async fn a_session_that_is_made_again_with_its_id_is_the_same() {
    let world = World::start().await;
    let server = &world.server;
    let before = server.get("/session").await;
    let body = json!({ "id": "mine", "clientID": "tab", "title": "A title" });
    let (made, again) = tokio::join!(server.post("/session", body.clone()), server.post("/session", body.clone()));
    assert_eq!((made.status, &made.body["id"], &made.body["title"]), (200, &json!("mine"), &json!("A title")));
    again.must_be(200, &made.body);
    for other in [json!({ "id": "mine" }), json!({ "id": "mine", "clientID": "other" })] {
        let refused = server.post("/session", other).await;
        assert_eq!((refused.status, &refused.body["name"]), (409, &json!("ConflictError")), "{refused:?}");
    }
    for id in ["", "two\nlines", &"x".repeat(257)] {
        assert_eq!(server.post("/session", json!({ "id": id })).await.status, 400, "{id}");
    }
    assert_eq!(ids(&server.get("/session").await), [&["mine"], &ids(&before)[..]].concat());
}

#[tokio::test]
async fn a_session_may_be_made_with_nothing_at_all() {
    let world = World::start().await;
    let expected = json!({
        "id": "ses_1", "slug": "ses_1", "projectID": "global", "directory": "", "title": "New session",
        "version": env!("CARGO_PKG_VERSION"), "model": { "providerID": "fake", "id": "one" }, "time": { "created": "time", "updated": "time" },
    });
    let requests = [
        world.server.request(Method::POST, "/session"),
        world.server.request(Method::POST, "/session").body("{}"),
        world.server.request(Method::POST, "/session").body(" \n"),
        world.server.request(Method::POST, "/session").body("{\"title\":\" \",\"unknown\":[1]}"),
        world.server.request(Method::POST, "/session").body("{\"title\":null,\"metadata\":null,\"parentID\":null}"),
        // What the SDK sends along with everything.
        world.server.request(Method::POST, "/session?directory=%2Fhome").header("x-opencode-directory", "%2Fhome"),
    ];
    for request in requests {
        let answer = Answer::to(request).await;
        assert_eq!((answer.status, tidy(&answer.body)), (200, expected.clone()));
    }
}

#[tokio::test]
async fn what_a_session_is_made_with_must_be_there() {
    let world = World::start().await;
    let before = world.server.get("/session").await;
    let cases = [
        (json!({ "agent": "nobody" }), 400, "there is no agent \"nobody\"; there is default"),
        (
            json!({ "model": { "providerID": "nowhere", "modelID": "x" } }),
            400,
            "the provider of the model nowhere/x is not configured; there is demo, fake",
        ),
        (
            json!({ "model": { "providerID": "fake", "modelID": "x", "id": "y" } }),
            400,
            "`model`: `modelID` and `id` differ; give one of them",
        ),
        (json!({ "parentID": "ses_nobody" }), 404, "there is no session ses_nobody"),
    ];
    for (body, status, message) in cases {
        assert_eq!(must_fail(&world.server.post("/session", body).await, status), message);
    }
    assert_eq!(world.server.get("/session").await, before);
}

#[tokio::test]
async fn sessions_are_listed_with_those_used_last_first() {
    let world = World::start().await;
    let mut made = vec![world.session.clone()];
    for _ in 0..3 {
        a_moment().await;
        made.push(world.server.session_of("tab").await);
    }
    let newest_first: Vec<&str> = made.iter().rev().map(String::as_str).collect();
    assert_eq!(ids(&world.server.get("/session").await), newest_first);
    a_moment().await;
    world.model.will_say("Hello.");
    world.server.say(&made[1], "hi").await;
    world.server.until_idle(&made[1]).await;
    assert_eq!(ids(&world.server.get("/session").await), [&made[1], &made[3], &made[2], &made[0]]);
    assert_eq!(ids(&world.server.get("/session?limit=2").await), [&made[1], &made[3]]);
    assert_eq!(ids(&world.server.get("/session?limit=100000").await).len(), 4);
    assert_eq!(ids(&world.server.get("/session?directory=&other=x").await).len(), 4);
    for limit in ["", "-1", "x", "1.5", "99999999999999999999999"] {
        must_fail(&world.server.get(&format!("/session?limit={limit}")).await, 400);
    }
    // A listed session is the session.
    let listed = world.server.get("/session?limit=1").await.body[0].clone();
    world.server.get(&format!("/session/{}", made[1])).await.must_be(200, &listed);
}

#[tokio::test]
async fn a_session_that_was_deleted_is_gone_with_its_messages_and_calls() {
    let mut world = World::start().await;
    world.model.will_call(&[("client_tab_b", json!({}))]);
    world.model.will_say("Done.");
    let prompt = world.server.prompt(&world.session, "go");
    let call = world.answer_next("ok").await;
    prompt.await.unwrap();
    let path = format!("/session/{}", world.session);
    world.server.delete(&path, json!({})).await.must_be(200, &json!(true));
    let gone = [
        world.server.get(&path).await,
        world.server.delete(&path, json!({})).await,
        world.server.get(&format!("{path}/message")).await,
        world.server.get(&format!("{path}/tools")).await,
        world.server.post(&format!("{path}/message"), text_prompt("hello?")).await,
        world.server.post(&format!("{path}/prompt_async"), text_prompt("hello?")).await,
        world.server.post(&format!("{path}/abort"), json!({})).await,
        world.server.post(&format!("{path}/permissions/per_x"), json!({ "response": "once" })).await,
    ];
    for answer in gone {
        assert_eq!(must_fail(&answer, 404), format!("there is no session {}", world.session));
    }
    assert_eq!(ids(&world.server.get("/session").await), Vec::<&str>::new());
    world.server.get(&format!("/client-tools/calls/{}", super::id(&call))).await.must_fail(404, "NOT_FOUND");
    // The client and its tools are as they were.
    assert_eq!(world.server.counts().tools, 2);
}

#[tokio::test]
async fn the_status_of_all_sessions_is_told_by_id() {
    let world = World::start().await;
    let idle = world.server.session_of("tab").await;
    let prompt = world.server.prompt(&world.session, "go");
    let asked = world.model.asked().await;
    let status = world.server.get("/session/status").await;
    status.must_be(200, &json!({ &idle: { "type": "idle" }, &world.session: { "type": "busy" } }));
    asked.answer("Done.");
    prompt.await.unwrap();
    world.server.until_idle(&world.session).await;
}

#[tokio::test]
async fn messages_are_listed_in_order_and_the_newest_on_demand() {
    let world = World::start().await;
    let path = format!("/session/{}/message", world.session);
    world.server.get(&path).await.must_be(200, &json!([]));
    for text in ["one", "two"] {
        world.model.will_say(&format!("{text} indeed"));
        world.server.say(&world.session, text).await;
    }
    let all = ["user | one", "assistant | one indeed | <stop>", "user | two", "assistant | two indeed | <stop>"];
    assert_eq!(world.history().await, all);
    let messages = world.server.messages(&world.session).await;
    for (limit, skipped) in [(0, 4), (1, 3), (3, 1), (4, 0), (50, 0)] {
        let some = world.server.get(&format!("{path}?limit={limit}")).await;
        some.must_be(200, &json!(messages[skipped..]));
    }
    let created: Vec<&str> = messages.iter().map(|message| message["info"]["id"].as_str().unwrap()).collect();
    assert!(created.is_sorted(), "{created:?}");
}

#[tokio::test]
async fn what_the_model_is_offered_is_listed_with_where_it_runs() {
    let world = World::start().await;
    let path = format!("/session/{}/tools", world.session);
    let tools = world.server.get(&path).await;
    let built_in = "Lists the tools that are available in this session, with what they do and where they run.";
    let any = json!({ "type": "object" });
    let expected = json!([
        {
            "id": "list_tools", "name": "list_tools", "description": built_in, "parameters": any, "runs": "server",
            "permission": "allow",
        },
        {
            "id": "client_tab_a", "name": "client_tab_a", "description": "Counts", "parameters": schema_of_a(),
            "runs": "client", "clientID": "tab", "permission": "allow",
        },
        {
            "id": "client_tab_b", "name": "client_tab_b", "description": "", "parameters": any, "runs": "client",
            "clientID": "tab", "permission": "allow",
        },
    ]);
    tools.must_be(200, &expected);
    // The model is offered exactly these.
    world.model.will_say("Hello.");
    world.server.say(&world.session, "hi").await;
    let shown = world.model.last_shown();
    for (shown, listed) in shown.tools.iter().zip(expected.as_array().unwrap()) {
        let same = ["alias", "id", "description", "schema"].map(|key| shown[key].clone());
        assert_eq!(same, ["name", "id", "description", "parameters"].map(|key| listed[key].clone()));
    }
    assert_eq!(shown.tools.len(), 3);
}

#[tokio::test]
async fn prompt_async_is_204_at_once_and_the_answer_comes_later() {
    let world = World::start().await;
    let request = world.server.request(Method::POST, &format!("/session/{}/prompt_async", world.session));
    let response = request.json(&text_prompt("go")).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 204);
    assert_eq!(response.bytes().await.unwrap().len(), 0);
    // It is kept when that is answered.
    assert_eq!(world.history().await[0], "user | go");
    world.model.asked().await.answer("Done.");
    world.server.until_idle(&world.session).await;
    assert_eq!(world.history().await, ["user | go", "assistant | Done. | <stop>"]);
}

#[tokio::test]
async fn an_abort_of_nothing_is_fine() {
    let world = World::start().await;
    for _ in 0..2 {
        world.server.abort(&world.session).await;
    }
    let bare = Answer::to(world.server.request(Method::POST, &format!("/session/{}/abort", world.session))).await;
    bare.must_be(200, &json!(true));
    assert_eq!(world.history().await, Vec::<String>::new());
}

#[tokio::test]
async fn answers_are_json_with_a_length() {
    let world = World::start().await;
    for path in ["/session", "/session/status", "/permission", &format!("/session/{}", world.session)] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let (head, _) = RawSocket::exchange(world.server.address, request).await;
        assert_eq!((head.status, head.header("content-type")), (200, "application/json"), "{path}");
        assert!(head.header("content-length").parse::<usize>().is_ok(), "{path}");
    }
}

#[tokio::test]
async fn the_parent_of_a_session_may_go_and_its_child_stays() {
    let world = World::start().await;
    let child = world.server.session(json!({ "clientID": "tab", "parentID": world.session })).await;
    world.server.delete(&format!("/session/{}", world.session), json!({})).await.must_be(200, &json!(true));
    assert_eq!(world.server.get(&format!("/session/{child}")).await.body["parentID"], json!(world.session));
}

#[tokio::test]
async fn every_endpoint_of_a_session_that_is_not_there_is_404() {
    let world = World::start().await;
    let prompt = text_prompt("x");
    let once = json!({ "response": "once" });
    let reply = json!({ "reply": "once" });
    let requests: [(Method, &str, Option<&Value>); 9] = [
        (Method::GET, "/session/ses_nobody", None),
        (Method::DELETE, "/session/ses_nobody", None),
        (Method::GET, "/session/ses_nobody/message", None),
        (Method::POST, "/session/ses_nobody/message", Some(&prompt)),
        (Method::POST, "/session/ses_nobody/prompt_async", Some(&prompt)),
        (Method::POST, "/session/ses_nobody/abort", None),
        (Method::GET, "/session/ses_nobody/tools", None),
        (Method::POST, "/session/ses_nobody/permissions/per_nobody", Some(&once)),
        (Method::POST, "/permission/per_nobody/reply", Some(&reply)),
    ];
    for (method, path, body) in requests {
        let mut request = world.server.request(method, path);
        if let Some(body) = body {
            request = request.json(body);
        }
        must_fail(&Answer::to(request).await, 404);
    }
}
