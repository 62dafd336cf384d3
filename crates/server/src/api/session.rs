//! The session API: the subset of opencode's HTTP API that its published SDK uses.

mod decode;
pub(crate) mod encode;
mod history;
mod routes;

pub(super) use decode::{client_header, connection, named};
pub use routes::routes;
pub(super) use routes::{find, must_own, visible};
