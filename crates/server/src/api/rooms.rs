//! Threads and runs in the form of Soliplex: a room is an agent, a thread is one of its sessions, and a run of AG-UI is
//! created first and executed later, once. A run continues without its reader, and a returning reader gets the rest.

mod encode;
mod routes;

pub use routes::routes;
