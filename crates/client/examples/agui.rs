//! A front end of AG-UI in a terminal: two threads at once, with a tool that runs here.
//!
//! ```sh
//! cargo run --example agui -- http://127.0.0.1:4096/agui
//! ```

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use handback_client::agui::{
    ClientTool, Conversation, HttpAgent, Item, Run, RunKey, RunOptions, RunRegistry, RunRequest, ToolRegistry, View,
};
use handback_client::schemars::{self, JsonSchema};
use serde::Deserialize;
use tokio::sync::watch;

#[derive(Deserialize, JsonSchema)]
struct Greeting {
    /// Who is greeted.
    name: String,
}

/// What is said of a call, from one status to the next.
const STEPS: [&str; 5] = ["receiving", "ready", "running", "done", "failed"];

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let url = std::env::args().nth(1).context("usage: agui URL")?;
    let greet = |greeting: Greeting, _context| async move {
        // It takes its time, for it to be seen.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Ok(format!("Hello, {}!", greeting.name))
    };
    let tools = ToolRegistry::new().register(ClientTool::typed("greet", "Greets somebody", greet));
    let agent = Arc::new(HttpAgent::new(&url)?);

    let runs = RunRegistry::new();
    let start = |name: &'static str| {
        let run = Run::new(agent.clone(), tools.clone(), Conversation::default(), RunOptions::default());
        let views = run.watch();
        let request = RunRequest::Say(format!("Please greet {name}"));
        runs.start(RunKey::new(&url, "default", name), run, request).map(|_handle| show(name, views))
    };
    tokio::join!(start("Ada")?, start("Grace")?);
    Ok(())
}

/// Prints how far the calls of a run are, and how it ends.
async fn show(name: &str, mut views: watch::Receiver<View>) {
    let mut told: HashMap<String, &str> = HashMap::new();
    loop {
        let view = views.borrow_and_update().clone();
        for call in view.conversation.tool_calls() {
            let step = STEPS[call.status as usize];
            if told.insert(call.id.clone(), step) != Some(step) {
                println!("{name}: {} {step}", call.name);
            }
        }
        // There is nothing more to see when the run is gone.
        if views.changed().await.is_err() {
            let last = view.conversation.items().last();
            let text = if let Some(Item::Text(text)) = last { text.text.as_str() } else { "" };
            return println!("{name}: {:?} {text}", view.state);
        }
    }
}
