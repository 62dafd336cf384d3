//! The Rust SDK of Handback: call tools that run on clients, and be such a client.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`api`] | typed requests to the server's HTTP API |
//! | [`events`] | all that happens on the server, as it happens |
//! | [`attach`] | a connection that offers tools, runs their calls and comes back when it is lost |
//! | [`tool`] | a tool: what the server is told about it, and the code that runs it |
//! | [`error`] | what can go wrong between the SDK and the server |
//!
//! ```no_run
//! use handback_client::{Api, Attach, CancellationToken, Success, Tool};
//!
//! # async fn example() -> Result<(), handback_client::Error> {
//! let api = Api::new("http://127.0.0.1:4096", None)?;
//! let greet = Tool::new("greet", |call| async move {
//!     Ok(Success { output: format!("you sent {}", call.request.input), ..Success::default() })
//! });
//! Attach::new(api, "laptop").tool(greet).run(CancellationToken::new()).await
//! # }
//! ```

pub mod api;
pub mod attach;
mod backoff;
pub mod client;
pub mod error;
pub mod events;
pub mod local;
mod patience;
mod reconnect;
pub mod session;
mod sse;
pub mod tool;
pub mod tools;

pub use api::{Api, CallFilter};
pub use attach::{Attach, Status};
pub use client::{Client, ClientOptions, StartSession};
pub use error::Error;
pub use events::{Events, Notice};
pub use handback_wire::client_tools::{Effect, Success, ToolResult};
pub use local::{Handback, LocalOptions};
pub use session::{Ask, SessionHandle, Turn, TurnEvent};
pub use tokio_util::sync::CancellationToken;
pub use tool::{Handler, Invocation, Tool};
pub use tools::{ClientTools, Options, State};
