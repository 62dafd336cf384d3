//! Threads and runs as Soliplex serves them: what is made, shown, listed and deleted.

mod executing;
mod following;
mod restarting;

use handback_server::config::Agent;
use handback_testkit::agui::{Page, refused};
use handback_testkit::server::PATIENCE;
use handback_testkit::tidy::Tidier;
use handback_testkit::{AguiStream, Answer, Scratch, TestServer};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::World;

/// Where the threads of the default room are.
const THREADS: &str = "/api/v1/rooms/default/agui";

/// A thread with its first run.
struct Thread {
    page: Page,
    run: String,
}

impl Thread {
    async fn make(server: &TestServer) -> Self {
        let made = server.post(THREADS, json!({})).await;
        assert_eq!(made.status, 200, "{made:?}");
        let thread = made.body["thread_id"].as_str().unwrap();
        let run = made.body["runs"].as_object().unwrap().keys().next().unwrap().clone();
        let mut page = Page::new(thread);
        page.say("u1", "hi");
        Self { page, run }
    }

    fn path(&self) -> String {
        format!("{THREADS}/{}", self.page.thread)
    }

    fn path_of_run(&self) -> String {
        format!("{}/{}", self.path(), self.run)
    }

    /// Makes another run, and executes that from now on.
    async fn next_run(&mut self, server: &TestServer) {
        let made = server.post(&self.path(), json!({})).await;
        assert_eq!(made.status, 200, "{made:?}");
        self.run = made.body["run_id"].as_str().unwrap().to_owned();
    }

    fn input(&mut self) -> Value {
        self.page.more = json!({ "runId": self.run });
        self.page.input()
    }

    fn starting(&self, server: &TestServer) -> RequestBuilder {
        server.request(Method::POST, &self.path_of_run())
    }

    /// Executes the run.
    async fn execute(&mut self, server: &TestServer) -> AguiStream {
        let input = self.input();
        AguiStream::open(self.starting(server), &input).await
    }

    /// Executes the run, and takes all that it tells.
    async fn run(&mut self, server: &TestServer) -> AguiStream {
        let mut stream = self.execute(server).await;
        self.page.read(&mut stream).await;
        stream
    }

    /// Comes back to the run, having seen its events up to this one.
    async fn come_back(&self, server: &TestServer, last: usize) -> AguiStream {
        let request = self.starting(server).header("last-event-id", format!("{}:{last}", self.run));
        AguiStream::read(request.json(&json!({}))).await
    }

    /// The run as it is shown.
    async fn shown(&self, server: &TestServer) -> Value {
        let shown = server.get(&self.path_of_run()).await;
        assert_eq!(shown.status, 200, "{shown:?}");
        shown.body
    }
}

/// Checks that it is an error as Soliplex tells it; gives its words.
#[track_caller]
fn detail(answer: &Answer, status: u16) -> String {
    let detail = answer.body["detail"].as_str().unwrap_or_default().to_owned();
    assert_eq!((answer.status, &answer.body), (status, &json!({ "detail": detail })));
    assert!(!detail.is_empty());
    detail
}

fn with_rooms(config: &mut handback_server::config::Config) {
    config.agents.insert("cook".to_owned(), Agent { system: Some("You cook.".to_owned()), ..Agent::default() });
}

#[tokio::test]
async fn rooms_are_the_agents() {
    let world = World::with(with_rooms).await;
    let room = |id: &str| json!({ "id": id, "name": id, "description": "", "welcome_message": "", "suggestions": [] });
    let rooms = json!({ "cook": room("cook"), "default": room("default") });
    world.server.get("/api/v1/rooms").await.must_be(200, &rooms);
}

#[tokio::test]
async fn a_thread_is_made_with_a_first_run() {
    let world = World::with(with_rooms).await;
    let metadata = json!({ "name": "Dinner", "description": "What to eat" });
    let made = world.server.post("/api/v1/rooms/cook/agui", json!({ "metadata": metadata })).await;
    let run_input = json!({
        "threadId": "ses_1", "runId": "run_1", "state": {}, "messages": [], "tools": [], "context": [], "forwardedProps": {},
    });
    let run = json!({
        "run_id": "run_1", "thread_id": "ses_1", "parent_run_id": null, "created": "time", "finished": null,
        "run_input": run_input, "events": [], "metadata": null, "usage": null,
    });
    let mut thread = json!({
        "room_id": "cook", "thread_id": "ses_1", "created": "time", "metadata": metadata, "runs": { "run_1": run },
    });
    let mut tidier = Tidier::default();
    assert_eq!((made.status, tidier.tidy(&made.body)), (200, thread.clone()));
    let created = made.body["created"].as_str().unwrap();
    assert!(handback_testkit::keys::seconds_until(created).abs() < 30.0, "{created}");
    // As it is shown: without events, and the run has no input yet.
    let id = made.body["thread_id"].as_str().unwrap();
    thread["runs"]["run_1"]["run_input"] = json!(null);
    thread["runs"]["run_1"]["events"] = json!(null);
    let shown = world.server.get(&format!("/api/v1/rooms/cook/agui/{id}")).await;
    assert_eq!((shown.status, tidier.tidy(&shown.body)), (200, thread.clone()));
    // And in the list: without runs.
    thread["runs"] = json!(null);
    let listed = world.server.get("/api/v1/rooms/cook/agui").await;
    assert_eq!((listed.status, tidier.tidy(&listed.body)), (200, json!({ "threads": [thread] })));
    world.server.get(THREADS).await.must_be(200, &json!({ "threads": [] }));
    assert_eq!(world.server.get(&format!("/session/{id}")).await.body["title"], "Dinner");
}

#[tokio::test]
async fn a_thread_needs_no_metadata_and_no_body() {
    let server = TestServer::start().await;
    for body in ["", "{}", r#"{"metadata":null}"#, r#"{"metadata":{}}"#, r#"{"unknown":1}"#] {
        let made = Answer::to(server.request(Method::POST, THREADS).body(body)).await;
        assert_eq!(made.status, 200, "{body}: {made:?}");
        assert_eq!(made.body["runs"].as_object().unwrap().len(), 1);
    }
    for body in ["[]", "x", r#"{"metadata":1}"#, r#"{"metadata":{"name":1}}"#] {
        detail(&refused(server.request(Method::POST, THREADS).body(body)).await, 400);
    }
    assert_eq!(server.get(THREADS).await.body["threads"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn a_run_is_made_for_every_execution_and_says_what_it_goes_on_from() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    let first = thread.run.clone();
    let body = json!({ "parent_run_id": first, "metadata": { "label": "again" } });
    let made = world.server.post(&thread.path(), body).await;
    let expected = json!({
        "run_id": "run_2", "thread_id": "ses_1", "parent_run_id": "run_1", "created": "time", "finished": null,
        "run_input": null, "events": [], "metadata": { "label": "again" }, "usage": null,
    });
    let mut tidier = Tidier::default();
    tidier.tidy(&json!([thread.page.thread, first]));
    assert_eq!((made.status, tidier.tidy(&made.body)), (200, expected));
    thread.run = made.body["run_id"].as_str().unwrap().to_owned();
    world.model.will_say("Hello.");
    let stream = thread.run(&world.server).await;
    assert_eq!(stream.seen()[0]["parentRunId"], first);
    let runs = world.server.get(&thread.path()).await.body["runs"].clone();
    assert_eq!(runs.as_object().unwrap().len(), 2);
    assert_eq!(runs[&thread.run]["parent_run_id"], first);
    // One that is not there cannot be gone on from, nor that of another thread.
    let other = Thread::make(&world.server).await;
    for parent in ["nobody", &other.run, ""] {
        detail(&world.server.post(&thread.path(), json!({ "parent_run_id": parent })).await, 400);
    }
    for body in ["[]", "x", r#"{"metadata":1}"#] {
        detail(&refused(world.server.request(Method::POST, &thread.path()).body(body)).await, 400);
    }
    assert_eq!(world.server.get(&thread.path()).await.body["runs"].as_object().unwrap().len(), 2);
}

#[tokio::test]
async fn what_is_not_there_is_404_and_what_is_elsewhere_is_400() {
    let world = World::with(with_rooms).await;
    let thread = Thread::make(&world.server).await;
    let (id, run) = (&thread.page.thread, &thread.run);
    let missing = [
        (Method::GET, "/api/v1/rooms/nobody/agui".to_owned()),
        (Method::POST, "/api/v1/rooms/nobody/agui".to_owned()),
        (Method::GET, format!("/api/v1/rooms/nobody/agui/{id}")),
        (Method::POST, format!("/api/v1/rooms/nobody/agui/{id}")),
        (Method::DELETE, format!("/api/v1/rooms/nobody/agui/{id}")),
        (Method::GET, format!("{THREADS}/nobody")),
        (Method::POST, format!("{THREADS}/nobody")),
        (Method::DELETE, format!("{THREADS}/nobody")),
        (Method::GET, format!("{THREADS}/nobody/{run}")),
        (Method::POST, format!("{THREADS}/nobody/{run}")),
        (Method::GET, format!("{THREADS}/{id}/nobody")),
    ];
    for (method, path) in missing {
        let answer = refused(world.server.request(method.clone(), &path).json(&json!({}))).await;
        assert_eq!(answer.status, 404, "{method} {path}: {answer:?}");
        detail(&answer, 404);
    }
    // A run that is not there, with an input as it should be.
    let mut nobody = Thread { page: thread.page.clone(), run: "nobody".to_owned() };
    let input = nobody.input();
    detail(&refused(nobody.starting(&world.server).json(&input)).await, 404);
    let replay = nobody.starting(&world.server).header("last-event-id", "nobody:0");
    detail(&refused(replay.json(&input)).await, 404);
    let elsewhere = format!("/api/v1/rooms/cook/agui/{id}");
    for (method, path) in [
        (Method::GET, elsewhere.clone()),
        (Method::POST, elsewhere.clone()),
        (Method::DELETE, elsewhere.clone()),
        (Method::GET, format!("{elsewhere}/{run}")),
        (Method::POST, format!("{elsewhere}/{run}")),
    ] {
        detail(&refused(world.server.request(method, &path).json(&json!({}))).await, 400);
    }
    assert_eq!(world.server.get(THREADS).await.body["threads"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_thread_that_is_deleted_is_gone_with_its_runs() {
    let world = World::start().await;
    let mut thread = Thread::make(&world.server).await;
    world.model.will_say("Hello.");
    thread.run(&world.server).await;
    world.server.delete(&thread.path(), json!({})).await.must_be(204, &json!(""));
    let paths = [thread.path(), thread.path_of_run()];
    for path in &paths {
        detail(&world.server.get(path).await, 404);
    }
    detail(&world.server.delete(&paths[0], json!({})).await, 404);
    let input = thread.input();
    detail(&refused(thread.starting(&world.server).json(&input)).await, 404);
    world.server.get(THREADS).await.must_be(200, &json!({ "threads": [] }));
    assert_eq!(world.server.get("/session").await.body, json!([]));
}

#[tokio::test]
async fn a_thread_that_is_deleted_while_its_run_is_started_does_not_come_back() {
    let scratch = Scratch::new();
    let world = World::with(|config| {
        with_rooms(config);
        config.data = Some(scratch.path().to_owned());
    })
    .await;
    let threads = "/api/v1/rooms/cook/agui";
    // Nobody says when the one meets the other: they are begun at many distances from each other.
    for distance in 0..60 {
        let made = world.server.post(threads, json!({})).await.body;
        let id = made["thread_id"].as_str().unwrap();
        let run = made["runs"].as_object().unwrap().keys().next().unwrap();
        let mut page = Page::new(id);
        page.say("u1", "hi");
        page.more = json!({ "runId": run });
        let path = format!("{threads}/{id}");
        let starting = world.server.request(Method::POST, &format!("{path}/{run}")).json(&page.input());
        let start = async { starting.send().await.unwrap().text().await.unwrap() };
        let delete = async {
            for _ in 0..distance {
                tokio::task::yield_now().await;
            }
            world.server.delete(&path, json!({})).await.status
        };
        let both = async { tokio::join!(start, delete) };
        let (told, deleted) = tokio::time::timeout(PATIENCE, both).await.expect("the run ends with its thread");
        assert_eq!(deleted, 204);
        assert!(!told.contains("RUN_FINISHED"), "{told}");
        assert_eq!(world.server.get(&format!("/session/{id}")).await.status, 404, "{told}");
        detail(&world.server.get(&path).await, 404);
    }
    // It was never answered by anybody but the cook.
    assert!(world.model.shown().iter().all(|shown| shown.system.as_deref() == Some("You cook.")));
}

#[tokio::test]
async fn the_thread_that_was_used_last_is_listed_first() {
    let world = World::start().await;
    let mut threads = Vec::new();
    for _ in 0..3 {
        threads.push(Thread::make(&world.server).await);
    }
    world.model.will_say("Hello.");
    threads[1].run(&world.server).await;
    let listed = world.server.get(THREADS).await.body;
    let ids: Vec<&str> =
        listed["threads"].as_array().unwrap().iter().filter_map(|one| one["thread_id"].as_str()).collect();
    assert_eq!(ids[0], threads[1].page.thread);
    assert_eq!(ids.len(), 3);
}

/// The threads of a room, as they are listed.
async fn listed(server: &TestServer, room: &str) -> Vec<Value> {
    let listed = server.get(&format!("/api/v1/rooms/{room}/agui")).await.body;
    listed["threads"].as_array().unwrap().iter().map(|one| one["thread_id"].clone()).collect()
}

#[tokio::test]
async fn threads_of_any_face_are_in_their_rooms() {
    let world = World::with(with_rooms).await;
    let mut page = Page::new("mine");
    page.say("u1", "hi");
    world.model.will_say("Hello.");
    AguiStream::open(world.server.request(Method::POST, "/agui/cook"), &page.input()).await.last().await;
    page.thread = "other".to_owned();
    world.model.will_say("Hello.");
    page.run(&world.server).await;
    assert_eq!(listed(&world.server, "cook").await, ["mine"]);
    assert_eq!(listed(&world.server, "default").await, ["other"]);
    let shown = world.server.get("/api/v1/rooms/cook/agui/mine").await.body;
    assert_eq!((&shown["runs"], &shown["metadata"]), (&json!({}), &json!(null)));
    // And runs can be made in them.
    let session = world.server.session(json!({})).await;
    let mut thread = Thread { page: Page::new(&session), run: String::new() };
    thread.page.say("u1", "hi");
    thread.next_run(&world.server).await;
    world.model.will_say("Hello.");
    assert_eq!(thread.run(&world.server).await.last().await["type"], "RUN_FINISHED");
}

#[tokio::test]
async fn what_is_found_in_a_room_is_listed_in_it() {
    let server = TestServer::start().await;
    let session = server.session(json!({})).await;
    assert_eq!(server.get(&format!("{THREADS}/{session}")).await.status, 200);
    assert_eq!(listed(&server, "default").await, [session]);
}
