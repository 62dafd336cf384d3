//! The Rust SDK of Handback: call tools that run on clients, and be such a client.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`api`] | typed requests to the server's HTTP API |
//! | [`events`] | all that happens on the server, as it happens |
//! | [`tools`] | the tools of a client: a connection that offers them, runs their calls and comes back when it is lost |
//! | [`tool`] | a tool: what the server is told about it, and the code that runs it |
//! | [`error`] | what can go wrong between the SDK and the server |
//!
//! ```no_run
//! use handback_client::{Api, ClientTools, Effect, Options, Tool};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Greeting { name: String }
//!
//! # async fn example() -> Result<(), handback_client::Error> {
//! let tools = ClientTools::new(Api::new("http://127.0.0.1:4096", None)?, "laptop", Options::default());
//! let greet = Tool::typed("greet", "Greets somebody", |greeting: Greeting, _call| async move {
//!     Ok(format!("Hello, {}!", greeting.name))
//! });
//! tools.register(greet.effect(Effect::Read)).await?;
//! tools.connect(None).await
//! # }
//! ```

pub mod api;
mod backoff;
pub mod error;
pub mod events;
mod reconnect;
mod sse;
pub mod tool;
pub mod tools;

pub use api::{Api, CallFilter};
pub use error::Error;
pub use events::{Events, Notice};
pub use handback_wire::client_tools::{Effect, Success, ToolResult};
pub use schemars;
pub use tokio_util::sync::CancellationToken;
pub use tool::{Handler, Invocation, Tool, ToolError};
pub use tools::{ClientTools, Journal, Options, State, Status, Transport};
