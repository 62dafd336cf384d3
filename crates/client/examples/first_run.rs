//! A front end of AG-UI with a tool of its own: what docs/agui.md shows. It needs a server: `handback serve`.
#![cfg_attr(any(), rustfmt::skip)]

use std::sync::Arc;
use handback_client::agui::{ClientTool, Conversation, HttpAgent, Item, Run, RunOptions, ToolRegistry};
use handback_client::schemars;
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Greeting { name: String }
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("HANDBACK_URL").unwrap_or("http://127.0.0.1:4096".to_owned());
    let greet = |greeting: Greeting, _context| async move { Ok(format!("Hello, {}!", greeting.name)) };
    let tools = ToolRegistry::new().register(ClientTool::typed("greet", "Greets somebody", greet));
    let agent = Arc::new(HttpAgent::new(&format!("{url}/agui"))?);
    let mut run = Run::new(agent, tools, Conversation::default(), RunOptions::default());
    run.say("Please greet Ada").await?;
    if let Some(Item::Text(answer)) = run.watch().borrow().conversation.items().last() { println!("{}", answer.text); }
    Ok(())
}
