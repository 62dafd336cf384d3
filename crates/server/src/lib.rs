#![doc = include_str!("../README.md")]

pub mod api;
pub mod app;
pub mod auth;
pub mod body;
pub mod bus;
pub mod config;
mod console;
pub mod frontend_tools;
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
pub mod problem;
pub mod provider;
pub mod serve;
pub mod store;
mod trail;
pub mod transport;

pub use app::App;
/// The core (clients, tools and calls), for programs that embed the server.
pub use handback_core as core;
pub use serve::Server;
