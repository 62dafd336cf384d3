//! The stream of calls to a client, as server-sent events.

mod cancels;
mod closing;
mod delivery;
mod frames;
mod grace;
