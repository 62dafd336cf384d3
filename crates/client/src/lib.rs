//! The Rust SDK of Handback: call tools that run on clients, and be such a client.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`local`] | a server of one's own, started as a process |
//! | [`client`] | a client: its tools, and the sessions in which a model may call them |
//! | [`session`] | a session to talk in, over connections that may be lost |
//! | [`api`] | typed requests to the server's HTTP API |
//! | [`events`] | all that happens on the server, as it happens |
//! | [`tools`] | the tools of a client: a connection that offers them, runs their calls and comes back when it is lost |
//! | [`tool`] | a tool: what the server is told about it, and the code that runs it |
//! | [`error`] | what can go wrong between the SDK and the server |
//! | [`agui`] | a front end of AG-UI: runs of any agent that speaks it, with tools that run here |
//!
//! From nothing to a tool that a model calls:
//!
//! ```no_run
//! use handback_client::{Handback, StartSession, Tool, schemars};
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greeting { name: String }
//! #[tokio::main]
//! async fn main() -> Result<(), handback_client::Error> {
//!     let handback = Handback::start().await?;
//!     let greet = |greeting: Greeting, _call| async move { Ok(format!("Hello, {}!", greeting.name)) };
//!     handback.client().tools().register(Tool::typed("greet", "Greets somebody", greet)).await?;
//!     let session = handback.client().start_session(StartSession::default()).await?;
//!     println!("{}", session.prompt("Please greet Ada").await?.text());
//!     Ok(())
//! }
//! ```
//!
//! A server that is there already takes a [`Client`], and tools without sessions take [`ClientTools`] alone:
//!
//! ```no_run
//! # use handback_client::{Client, ClientOptions, Effect, Tool};
//! # async fn example(read: Tool) -> Result<(), handback_client::Error> {
//! let options = ClientOptions { client_id: Some("laptop".to_owned()), ..ClientOptions::default() };
//! let client = Client::new("http://127.0.0.1:4096", options)?;
//! client.tools().register(read.effect(Effect::Read)).await?;
//! client.tools().connect(None).await
//! # }
//! ```

pub mod agui;
pub mod api;
pub mod client;
pub mod error;
pub mod events;
mod http;
pub mod local;
mod retry;
pub mod session;
mod sse;
pub mod tool;
pub mod tools;

pub use api::{Api, CallFilter};
pub use client::{Client, ClientOptions, StartSession};
pub use error::Error;
pub use events::{Events, Notice};
pub use handback_wire::client_tools::{Effect, Success, ToolResult};
pub use local::{Handback, LocalOptions};
pub use schemars;
pub use session::{Ask, SessionHandle, Turn, TurnEvent};
pub use tokio_util::sync::CancellationToken;
pub use tool::{Handler, Invocation, Tool, ToolError};
pub use tools::{ClientTools, Journal, Options, State, Status, Transport};
