//! The AI SDK's UI message stream: `POST /api/chat`, as its `useChat` sends and reads it.
//!
//! A chat is a session. A page sends the whole conversation that it knows, and only what is new in it counts: a user's
//! message, results of calls that the page ran, or the user's answers to asks.

mod decode;
mod encode;
mod routes;

pub use routes::routes;
