//! The client-tools API: clients register tools, connect, and answer calls; the application makes calls.

mod decode;
pub(crate) mod encode;
mod routes;
mod socket;

pub use routes::routes;
pub(crate) use socket::answer_messages;
