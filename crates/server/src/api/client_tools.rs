//! The client-tools API: register tools, connect, run calls, answer them.

mod decode;
pub(crate) mod encode;
mod routes;
mod socket;

pub use routes::routes;
