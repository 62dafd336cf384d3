//! Who may do what: keys, tokens, and where requests may come from.

mod agents;
mod limited;
mod loopback;
mod matrix;
mod own;
mod secrets;
mod tokens;
