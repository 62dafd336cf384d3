//! The binary, started by the Rust SDK.

use handback_client::{Api, Error, Handback, LocalOptions, StartSession, Tool, schemars};

fn options(arguments: &[&str]) -> LocalOptions {
    let binary = Some(env!("CARGO_BIN_EXE_handback").into());
    let arguments = arguments.iter().map(Into::into).collect();
    LocalOptions::with(|options| {
        options.binary = binary;
        options.arguments = arguments;
    })
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting {
    name: String,
}

/// What the first page of the SDK's documentation shows.
#[tokio::test]
async fn a_model_calls_a_tool_from_nothing() {
    let handback = Handback::start_with(options(&[])).await.unwrap();
    let greet = |greeting: Greeting, _call| async move { Ok(format!("Hello, {}!", greeting.name)) };
    handback.client().tools().register(Tool::typed("greet", "Greets somebody", greet)).await.unwrap();
    let session = handback.client().start_session(StartSession::default()).await.unwrap();
    let answer = session.prompt("Please greet \"Ada\"").await.unwrap();
    assert_eq!(answer.text(), "The tool `greet` answered: Hello, Ada!");
    let url = handback.url().to_owned();
    handback.close().await;
    let gone = Api::new(&url, None).unwrap().clients().await;
    assert!(matches!(gone, Err(Error::Unreachable { .. })), "{gone:?}");
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let Err(failed) = Handback::start_with(options(&["--log", "no=such=filter"])).await else { panic!("it started") };
    let failed = failed.to_string();
    assert!(failed.contains("\"no=such=filter\" is not a filter"), "{failed}");
}
