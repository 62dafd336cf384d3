//! AG-UI: `POST /agui` and `POST /agui/{agent}` take a run's input and stream its events. Runs that are kept are in
//! [`rooms`](super::rooms).
//!
//! A thread is a session. What a front end sends is the whole conversation as it knows it; what counts is what comes
//! after the last answer: what the user says, what came of the calls that were the front end's to run, or what was
//! said to interrupts. A run tells one turn, or what is left of it.

mod capabilities;
pub(super) mod decode;
pub(super) mod encode;
mod proto;
pub(super) mod routes;

pub(crate) use proto::MEDIA_TYPE as PROTOBUF;
pub use routes::routes;
