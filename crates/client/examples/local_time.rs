//! Lets a model ask for the time on this machine.
//!
//! ```sh
//! cargo run --example local_time
//! handback chat --client clock "What is the local time?"
//! ```

use handback_client::schemars::{self, JsonSchema};
use handback_client::{Api, CancellationToken, ClientTools, Effect, Options, Tool};
use jiff::Zoned;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Input {
    /// An IANA time zone such as "Europe/Vienna"; that of this machine if absent.
    time_zone: Option<String>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let url = std::env::var("HANDBACK_URL").unwrap_or_else(|_| "http://127.0.0.1:4096".to_owned());

    let local_time = Tool::typed("local_time", "Tells the local date and time", |input: Input, _call| async move {
        let now = match input.time_zone {
            Some(zone) => Zoned::now().in_tz(&zone)?,
            None => Zoned::now(),
        };
        Ok(now.strftime("%A, %Y-%m-%d %H:%M:%S %:z (%Q)").to_string())
    });

    let tools = ClientTools::new(Api::new(&url, None)?, "clock", Options::default());
    tools.register(local_time.effect(Effect::Read)).await?;
    println!("offering local_time at {url}; Ctrl-C ends it");
    tokio::select! {
        ended = tools.run(None, CancellationToken::new()) => ended?,
        pressed = tokio::signal::ctrl_c() => pressed?,
    }
    tools.disconnect().await;
    Ok(())
}
