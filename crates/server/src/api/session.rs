//! The session API: the subset of opencode's HTTP API that its published SDK uses.

mod decode;
pub(crate) mod encode;
mod routes;

pub use routes::routes;
