//! The server through its public API: real sockets, real clients.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failure here is a failed test")]

mod access;
mod agui;
mod bad_input;
mod bus;
mod chat;
mod console;
mod corpora;
mod crowds;
mod endpoints;
mod events;
mod examples;
mod faults;
mod frontend;
mod house;
mod listings;
mod log;
mod postgres;
mod publishing;
mod quotas;
mod restarts;
mod schema;
mod sdk;
mod sessions;
mod shutdown;
mod slow;
mod soak;
mod sockets;
mod status;
mod store;
mod storm;
mod streams;
mod stress;
mod survival;
mod weaknesses;
mod world;
