#![doc = include_str!("../README.md")]

pub mod aside;
pub mod bus;
pub mod calls;
pub mod clock;
pub mod cluster;
pub mod events;
pub mod id;
pub mod json;
pub mod limits;
mod metrics;
pub mod schema;
pub mod sessions;
mod sharded;
pub mod store;
pub mod text;
pub mod tools;
mod until;

pub use calls::Hub;
