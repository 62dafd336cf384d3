//! Calls, clients, tools and sessions: how a call gets from a model to one client, and its result back.
//!
//! The crate has five rooms. Each is a folder with a front door, which says what the room is for and exports what
//! others may use. A room may only use rooms below it.
//!
//! | room | holds |
//! | --- | --- |
//! | [`sessions`] | conversations, turns, plans for the requests of pages, runs of threads |
//! | [`calls`] | the path of a call (`calls/delegate.rs`: read that first), shards, connections, approvals |
//! | [`tools`] | who offers which tool, what may be called, what a model is offered |
//! | [`events`] | events and their way to listeners; the feed of a turn |
//! | [`store`] | stored values, the traits of stores, and the store in memory |
//!
//! Below them is the ground, which every room may use: [`id`] (validated names), [`clock`] (wall time and new ids),
//! [`limits`] (every bound and default), [`schema`] (JSON Schemas, compiled and checked), [`json`], [`aside`] (a thread
//! pool for long work) and `sharded` (a map in parts).

pub mod aside;
pub mod calls;
pub mod clock;
pub mod events;
pub mod id;
pub mod json;
pub mod limits;
pub mod schema;
pub mod sessions;
mod sharded;
pub mod store;
pub mod tools;

pub use calls::Hub;
