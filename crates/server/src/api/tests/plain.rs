//! A protocol that is made up: it shows what a new one takes, which is a decoder, an encoder, its routes, and one line in
//! `app.rs`. It has no rules of its own about conversations.

mod decode;
mod encode;
mod routes;

pub(crate) use routes::routes;
