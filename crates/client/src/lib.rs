#![doc = include_str!("../README.md")]
//!
//! ## Modules
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`local`] | a local server, started as a process |
//! | [`client`] | a client: its tools, and the sessions in which a model may call them |
//! | [`session`] | a session to talk in, over connections that may be lost |
//! | `execution` | a call of an application, over connections that may be lost |
//! | [`api`] | typed requests to the server's HTTP API |
//! | [`events`] | the events of the server |
//! | [`tools`] | the tools of a client: a connection that offers them, runs their calls, and reconnects |
//! | [`tool`] | a tool: its definition for the server, and its code |
//! | [`error`] | errors between the SDK and the server |
//! | [`agui`] | a front end of AG-UI: runs of any agent that speaks it, with tools that run here |
//! | `http`, `sse`, `retry`, `lock` | requests, streams of events, retries, and locks |

pub mod agui;
pub mod api;
pub mod client;
pub mod error;
pub mod events;
mod execution;
#[doc(hidden)]
pub mod fuzzing;
mod http;
pub mod local;
mod lock;
mod options;
mod retry;
pub mod session;
mod sse;
pub mod tool;
pub mod tools;

pub use api::{Api, CallFilter};
pub use client::{Client, ClientOptions, StartSession};
pub use error::Error;
pub use events::{EventFilter, Events, Notice};
pub use execution::ExecuteOptions;
pub use handback_wire::client_tools::{Effect, Success, ToolResult};
pub use local::{Handback, LocalOptions};
pub use schemars;
pub use session::{Ask, Conversation, SessionEvent, SessionHandle, Turn, TurnEvent};
pub use tokio_util::sync::CancellationToken;
pub use tool::{Handler, Invocation, Tool, ToolError};
pub use tools::{ClientTools, Journal, Options, State, Status, Transport};
