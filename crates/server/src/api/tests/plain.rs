//! A made-up protocol, as an example: a new protocol needs a decoder, an encoder, its routes, and one line in `app.rs`. It
//! has no rules of its own about conversations.

mod decode;
mod encode;
mod routes;

pub(crate) use routes::routes;
