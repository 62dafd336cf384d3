//! A client's connection onto SSE or WebSocket: drives what the core gives for it.

pub mod sse;
pub mod ws;
