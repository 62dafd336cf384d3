//! The JSON that Handback and its clients exchange, with one module for each protocol.
//!
//! Types are tolerant when read (unknown keys are ignored, optional fields may be missing or null) and strict when
//! written (optional fields are left out, never null). They do not depend on the server.
//!
//! | module | protocol |
//! | --- | --- |
//! | [`client_tools`] | the client-tools API: bodies of the endpoints, SSE data, listings |
//! | [`session`] | the session API: sessions, messages, parts, permissions |
//! | [`chat`] | the AI SDK's UI message stream |
//! | [`agui`] | AG-UI 1.0: runs and their events |
//! | [`threads`] | threads and runs of AG-UI, in the form of Soliplex |
//! | [`frontend_tools`] | acks and claims of calls that a frontend runs |
//! | [`socket`] | the messages of the client-tools WebSocket |
//! | [`event`] | the events of `GET /event` |
//! | [`auth`] | minting client tokens |
//! | [`error`] | the error body and its codes |
//! | `object` | reads objects strictly as objects |

pub mod agui;
pub mod auth;
pub mod chat;
pub mod client_tools;
pub mod error;
pub mod event;
pub mod frontend_tools;
mod object;
pub mod session;
pub mod socket;
pub mod threads;
