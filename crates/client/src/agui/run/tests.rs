//! Runs against an agent that serves what the test says. What is seen of every run is recorded.

mod cancelling;
mod dropping;
mod failing;
mod interrupting;
mod looping;
pub(in crate::agui) mod support;
