//! The client-tools WebSocket.

mod closing;
mod delivery;
mod messages;
