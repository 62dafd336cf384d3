//! A call that the application follows ends as one that it waits for, to the last word.

use std::time::Duration;

use handback_client::{Api, Client, ClientOptions, Error, ExecuteOptions, ToolResult};
use handback_testkit::TestServer;
use handback_testkit::server::until;
use handback_wire::client_tools::ExecuteRequest;
use serde_json::{Value, json};

const TOOL: &str = "client_laptop_tool";

/// What a caller is told.
fn told(ended: Result<ToolResult, Error>) -> Value {
    match ended {
        Ok(result) => serde_json::to_value(result).unwrap(),
        Err(Error::Refused(mut refusal)) => {
            // A call that is followed was refused by no HTTP request.
            refusal.body.iter_mut().for_each(|body| body.request = None);
            json!([refusal.status, refusal.message, refusal.body])
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// The call as a request that waits.
async fn wait_for(api: &Api, tool: &str, id: &str, timeout: Option<Duration>) -> Value {
    let request = ExecuteRequest {
        tool_id: tool.to_owned(),
        request_id: Some(id.to_owned()),
        input: Some(serde_json::from_str("{}").unwrap()),
        timeout: timeout.map(|timeout| timeout.as_secs_f64() * 1_000.0),
        ..ExecuteRequest::default()
    };
    told(api.execute(&request).await)
}

async fn follow(client: &Client, tool: &str, id: &str, timeout: Option<Duration>) -> Value {
    let options = ExecuteOptions::with(|options| {
        options.request_id = Some(id.to_owned());
        options.timeout = timeout;
    });
    told(client.execute(tool, json!({}), options).await)
}

/// Makes a call in both ways while `happens` happens to each; gives what both callers are told, without the id.
async fn both(tool: &str, timeout: Option<Duration>, happens: impl AsyncFn(&TestServer, &str)) -> Value {
    let server = TestServer::start().await;
    let client = Client::new(&server.url, ClientOptions::default()).unwrap();
    let mut both = Vec::new();
    for id in ["waited", "followed"] {
        let _stream = server.stream("laptop?connection=main").await;
        server.register("laptop", &["tool"]).await;
        let executing = async {
            if id == "waited" {
                wait_for(client.api(), tool, id, timeout).await
            } else {
                follow(&client, tool, id, timeout).await
            }
        };
        let (told, ()) = tokio::join!(executing, happens(&server, id));
        both.push(told.to_string().replace(id, "ID"));
    }
    assert_eq!(both[0], both[1]);
    serde_json::from_str(&both[0]).unwrap()
}

/// Waits until the client has the call.
async fn offered(server: &TestServer, id: &str) {
    let path = format!("/client-tools/calls/{id}");
    until("it is offered", async || server.get(&path).await.body["state"] == "offered").await;
}

fn failure(status: u16, code: &str, error: &str, may_have_run: bool) -> Value {
    let details = json!({ "requestID": "ID", "mayHaveRun": may_have_run });
    json!([status, error, { "error": error, "code": code, "details": details }])
}

#[tokio::test]
async fn a_result_is_told_as_to_a_caller_that_waits() {
    let result = json!({
        "status": "success", "title": "A title", "output": "done", "metadata": { "a": 1 },
        "attachments": [{ "mime": "text/plain", "filename": "a.txt", "url": "data:,a" }],
    });
    for result in [result, json!({ "status": "error", "error": "the disk is full" })] {
        let told = both(TOOL, None, async |server, id| {
            offered(server, id).await;
            server.post("/client-tools/result", json!({ "requestID": id, "result": result })).await;
        });
        assert_eq!(told.await, result);
    }
}

#[tokio::test]
async fn a_cancel_is_told_as_to_a_caller_that_waits() {
    let told = both(TOOL, None, async |server, id| {
        offered(server, id).await;
        server.cancel(id, "changed my mind").await;
    });
    assert_eq!(told.await, failure(409, "CANCELLED", "changed my mind", true));
}

#[tokio::test]
async fn a_timeout_is_told_as_to_a_caller_that_waits() {
    let told = both(TOOL, Some(Duration::from_millis(300)), async |_, _| {}).await;
    assert_eq!(
        (&told[0], &told[2]["code"], &told[2]["details"]["mayHaveRun"]),
        (&json!(504), &json!("TIMEOUT"), &json!(true))
    );
}

#[tokio::test]
async fn a_client_that_leaves_is_told_as_to_a_caller_that_waits() {
    let told = both(TOOL, None, async |server, id| {
        offered(server, id).await;
        server.post("/client-tools/disconnect", json!({ "clientID": "laptop", "connection": "main" })).await;
    });
    assert_eq!(told.await, failure(502, "CLIENT_DISCONNECTED", "Client disconnected", true));
}

#[tokio::test]
async fn a_refusal_is_told_as_to_a_caller_that_waits() {
    let told = both("client_laptop_none", None, async |_, _| {}).await;
    assert_eq!((&told[0], &told[2]["code"]), (&json!(404), &json!("NOT_FOUND")));
}
