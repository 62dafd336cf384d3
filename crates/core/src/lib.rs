//! Calls, clients, tools, sessions: how a call gets from a model to one client and back.
//!
//! Five rooms, each a folder with a front door that says what it is for and exports what others may use. Arrows point
//! down only: a room knows those below it.
//!
//! | room | holds |
//! | --- | --- |
//! | [`sessions`] | conversations, turns, the plan that is made of what a page sends, runs of threads |
//! | [`calls`] | the line that a call takes (`calls/delegate.rs`: read that first), shards, connections, approvals |
//! | [`tools`] | who offers which tool, what may be called, what a model is offered |
//! | [`events`] | what happened, and how it gets to those who listen; the feed of a turn |
//! | [`store`] | what is kept, the traits of what keeps it, and the implementation in memory |
//!
//! Below them is the ground, which every room may use: [`id`] (names of things; parsing validates), [`clock`] (wall time
//! and new ids), [`limits`] (every bound and default), [`schema`] (JSON Schemas, compiled and checked), [`json`],
//! [`aside`] (work that takes long, outside of the threads that serve) and `sharded` (a map in parts).

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
