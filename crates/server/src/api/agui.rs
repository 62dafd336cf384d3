//! AG-UI: `POST /agui` and `POST /agui/{agent}` take the input of a run and stream its events. Stored runs are in
//! [`rooms`](super::rooms).
//!
//! A thread is a session. A front end sends the whole conversation that it knows. Only what follows the last answer is
//! new: messages of the user, results of calls that the front end ran, or answers to interrupts. A run streams one
//! turn, or the rest of one.

mod capabilities;
pub(super) mod decode;
pub(super) mod encode;
mod proto;
pub(super) mod routes;
#[cfg(test)]
mod samples;
mod snapshot;

pub(crate) use proto::MEDIA_TYPE as PROTOBUF;
pub use routes::routes;
