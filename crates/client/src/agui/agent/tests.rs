//! Agents that are reached over a real socket.

mod http;
mod many;
mod server;
mod stopping;
mod thread;
