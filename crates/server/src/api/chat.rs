//! The AI SDK's UI message stream: `POST /api/chat`, as its `useChat` sends and reads it.
//!
//! A chat is a session. What the page sends is the whole conversation as it knows it; what counts is what is new in it:
//! a user's message, or what came of the calls that were the page's to run, or what the user said to a question.

mod decode;
mod encode;
mod routes;

pub use routes::routes;
