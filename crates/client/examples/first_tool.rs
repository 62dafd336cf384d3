//! From nothing to a tool that a model calls, in twelve lines: what the README shows.
#![cfg_attr(any(), rustfmt::skip)]

use handback_client::{Handback, StartSession, Tool, schemars};
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting { name: String }
#[tokio::main]
async fn main() -> Result<(), handback_client::Error> {
    let handback = Handback::start().await?;
    let greet = |greeting: Greeting, _call| async move { Ok(format!("Hello, {}!", greeting.name)) };
    handback.client().tools().register(Tool::typed("greet", "Greets somebody", greet)).await?;
    let session = handback.client().start_session(StartSession::default()).await?;
    println!("{}", session.prompt("Please greet Ada").await?.text());
    Ok(())
}
