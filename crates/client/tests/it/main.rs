//! The SDK against a server that misbehaves as the tests want it.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod api;
mod events;
mod execute;
#[cfg(unix)]
mod local;
mod sessions;
mod stub;
mod tools;
mod turns;
