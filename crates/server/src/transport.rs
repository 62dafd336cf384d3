//! The connections of clients: SSE and WebSocket.

pub mod sse;
pub mod ws;
