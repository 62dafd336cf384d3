//! AG-UI: `POST /agui` and `POST /agui/{agent}` take a run's input and stream its events, and `/api/v1/rooms` has
//! threads and runs as Soliplex serves them.
//!
//! A thread is a session. What a front end sends is the whole conversation as it knows it; what counts is what comes
//! after the last answer: what the user says, what came of the calls that were the front end's to run, or what was
//! said to interrupts. A run tells one turn, or what is left of it:
//!
//! ```text
//! decode   the input: what is new in it                                  (decode.rs)
//! begin    a turn is begun, gone on with, or told again                  (begin.rs, go_on.rs, resume.rs, earlier.rs)
//! run      what the turn tells becomes events                            (run.rs, encode.rs)
//! out      POST /agui streams them; a run of a thread keeps them as well (routes.rs, threads.rs)
//! ```

mod begin;
mod capabilities;
mod cost;
mod decode;
mod earlier;
mod encode;
mod go_on;
mod interrupt;
mod proto;
mod resume;
mod routes;
mod run;
mod threads;

pub(crate) use proto::MEDIA_TYPE as PROTOBUF;
pub use routes::routes;
pub(crate) use threads::{interrupted, is_terminal};
