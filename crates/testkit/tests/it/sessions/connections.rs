//! The calls of a turn go to the connection that its prompt came from, however it is named.

use handback_testkit::agui::Page;
use handback_testkit::chat::saying;
use handback_testkit::session::text_prompt;
use handback_testkit::{Answer, FakeModel, Scratch, TestServer, TestStream};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

const HEADER: &str = "x-handback-connection";

/// Two tabs of one page. The second is the newer, which is given calls that prefer none.
struct Tabs {
    server: TestServer,
    model: FakeModel,
    session: String,
    tabs: [TestStream; 2],
}

impl Tabs {
    async fn open(scratch: Option<&Scratch>) -> Self {
        let model = FakeModel::default();
        let server =
            TestServer::with_model(&model, |config| config.data = scratch.map(|scratch| scratch.path().to_owned()))
                .await;
        server.register("tab", &["t"]).await;
        let one = server.stream("tab?connection=one&grace=60000").await;
        let two = server.stream("tab?connection=two&grace=60000").await;
        let session = server.session_of("tab").await;
        Self { server, model, session, tabs: [one, two] }
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.server.request(Method::POST, path).json(body)
    }

    /// Prompts in every way that there is, with the connection in the body or in the header.
    fn prompts(&self, number: usize, body: Option<&str>, header: Option<&str>) -> Vec<(&'static str, RequestBuilder)> {
        let mut prompt = text_prompt("go");
        let mut chat = saying(&format!("chat{number}"), "u1", "go");
        chat["clientID"] = "tab".into();
        let mut page = Page::new(&format!("thread{number}"));
        page.say("u1", "go");
        page.more = json!({ "forwardedProps": { "clientID": "tab" } });
        if let Some(connection) = body {
            prompt["connection"] = connection.into();
            chat["connection"] = connection.into();
            page.more["forwardedProps"]["connection"] = connection.into();
        }
        let requests = [
            ("message", self.post(&format!("/session/{}/message", self.session), &prompt)),
            ("prompt_async", self.post(&format!("/session/{}/prompt_async", self.session), &prompt)),
            ("chat", self.post("/api/chat", &chat)),
            ("agui", self.post("/agui", &page.input())),
        ];
        let with_header = |request: RequestBuilder| match header {
            Some(connection) => request.header(HEADER, connection),
            None => request,
        };
        requests.into_iter().map(|(what, request)| (what, with_header(request))).collect()
    }
}

#[tokio::test]
async fn calls_go_where_the_prompt_came_from_whichever_api_it_came_by() {
    let mut world = Tabs::open(None).await;
    let cases = [
        (Some("one"), None, 0),
        (Some("two"), None, 1),
        (None, Some("one"), 0),
        // The body counts over the header, and what nobody has or could have is none.
        (Some("one"), Some("two"), 0),
        (Some("nobody"), None, 1),
        (Some("no name!"), None, 1),
        (None, None, 1),
    ];
    for (number, (body, header, expected)) in cases.into_iter().enumerate() {
        for (what, request) in world.prompts(number, body, header) {
            world.model.will_call(&[("client_tab_t", json!({}))]);
            world.model.will_say("Done.");
            let Tabs { server, tabs, .. } = &mut world;
            let running = async {
                let call = tabs[expected].next_call().await;
                assert_eq!(call["tool"], "client_tab_t", "{what} {body:?} {header:?}");
                server.answer(call["requestID"].as_str().unwrap(), "done").await;
                call
            };
            let sending = async { request.send().await.unwrap().text().await.unwrap() };
            let (_, call) = tokio::join!(sending, running);
            world.server.until_idle(call["sessionID"].as_str().unwrap()).await;
        }
    }
}

#[tokio::test]
async fn a_prompt_that_waits_keeps_its_connection_and_another_takes_over_when_that_is_gone() {
    let scratch = Scratch::new();
    let world = Tabs::open(Some(&scratch)).await;
    let Tabs { server, model, session, tabs: [one, mut two] } = world;
    let prompt = |connection: &str| json!({ "connection": connection, "parts": text_prompt("go")["parts"] });
    let path = format!("/session/{session}/prompt_async");
    for _ in 0..2 {
        assert_eq!(Answer::to(server.request(Method::POST, &path).json(&prompt("one"))).await.status, 204);
    }
    model.asked().await.answer("First.");
    let goodbye = json!({ "clientID": "tab", "connection": "one" });
    let asked = model.asked().await;
    assert_eq!(server.post("/client-tools/disconnect", goodbye).await.status, 200);
    asked.call(&[("client_tab_t", json!({}))]);
    let call = two.next_call().await;
    model.will_say("Done.");
    server.answer(call["requestID"].as_str().unwrap(), "done").await;
    server.until_idle(&session).await;
    drop(one);
}
