//! Hooks and tools of an embedding program.

use super::*;

struct Double;

impl Hook for Double {
    fn before<'a>(&'a self, call: HookedCall<'a>) -> BoxFuture<'a, Before> {
        let input: Value = serde_json::from_str(call.input.get()).unwrap();
        Box::pin(async move {
            match input["n"].as_i64() {
                Some(0) => Before::Refuse("zero is not done".to_owned()),
                Some(13) => panic!("unlucky"),
                Some(n) => Before::Change(to_raw_value(&json!({ "n": n * 2 })).unwrap()),
                None => Before::Go,
            }
        })
    }

    fn after<'a>(&'a self, _call: HookedCall<'a>, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move {
            match result {
                ToolResult::Failed(error) => ToolResult::Failed(format!("hooked: {error}")),
                done => done,
            }
        })
    }
}

struct Fragile(ServerToolSpec);

impl ServerTool for Fragile {
    fn spec(&self) -> &ServerToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Success, String>> {
        let input: Value = serde_json::from_str(invocation.input.get()).unwrap();
        Box::pin(async move {
            match input["mode"].as_str() {
                Some("panic") => panic!("oh"),
                Some("hang") => std::future::pending().await,
                Some("fail") => Err("it broke".to_owned()),
                _ => {
                    Ok(Success { output: format!("in {}", invocation.session.id.as_str().len()), ..Success::default() })
                }
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_change_and_refuse_and_a_panic_is_one_calls_failure() {
    let wanted = [
        ("client_tab_a", r#"{"n":21}"#),
        ("client_tab_a", r#"{"n":0}"#),
        ("client_tab_b", r#"{"n":13}"#),
        ("client_tab_b", r#"{"n":1.5}"#),
    ];
    let with = With { hooks: vec![Arc::new(Double)], ..With::default() };
    let world = World::with(vec![calls(&wanted), text("done")], with);
    let session = world.session().await;
    let mut connection = world.connect();
    let prompted = world.say(&session, "go").await.unwrap();
    let (request, _, input) = offered(&mut connection).await;
    assert_eq!(input, r#"{"n":42}"#);
    world.complete(&request, "ok").await;
    prompted.answer.unwrap().await.unwrap();
    let results = world.shown()[1]["results"].clone();
    assert_eq!(results[0], "ok");
    assert_eq!(results[1], "zero is not done");
    assert_eq!(results[2], "The tool failed inside the server; see its log");
    // What is not made has no end that a hook could change.
    assert_eq!(results[3], "Invalid input: at /n: 1.5 is not of type \"integer\"");
}

#[tokio::test(start_paused = true)]
async fn server_tools_run_here_and_are_bounded_and_isolated() {
    let spec = ServerToolSpec::new("fragile", "breaks", Arc::new(Schema::any_object())).unwrap();
    let tools: Vec<Arc<dyn ServerTool>> = vec![Arc::new(ListTools::default()), Arc::new(Fragile(spec))];
    let modes = ["panic", "hang", "fail", "work"].map(|mode| format!(r#"{{"mode":"{mode}"}}"#));
    let mut wanted: Vec<(&str, &str)> = modes.iter().map(|mode| ("fragile", mode.as_str())).collect();
    wanted.push(("list_tools", "{}"));
    let world = World::with(vec![calls(&wanted), text("done")], With { tools, ..With::default() });
    let session = world.session().await;
    world.answer(&session, "go").await;
    let results = world.shown()[1]["results"].clone();
    assert_eq!(results[0], "The tool failed inside the server; see its log");
    assert_eq!(results[1], "The tool timed out after 30000ms");
    assert_eq!(results[2], "it broke");
    assert_eq!(results[3], "in 23");
    let listed: Value = serde_json::from_str(results[4].as_str().unwrap()).unwrap();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["fragile", "client_tab_a", "client_tab_b"]);
}
