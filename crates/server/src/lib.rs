//! The Handback server as a library.
//!
//! A request comes in at [`serve`], passes the [`gate`] (where it comes from, who sends it), and is routed by [`app`]
//! to a protocol under [`api`], which decodes it, calls the core, and encodes the result.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`serve`] | sockets: accept, limits, stalls, shutdown |
//! | [`gate`] | checks of every request: `Host`, `Origin`, keys and tokens, CORS |
//! | [`app`] | puts everything together: the only place that names concrete stores and models |
//! | [`api`] | a folder for each protocol: routes, decode, encode |
//! | [`transport`] | the connections of clients: SSE and WebSocket |
//! | [`provider`] | the models that a session can talk to |
//! | [`frontend_tools`] | the tools that frontends run: built in, configured, added |
//! | [`store`] | sessions and the journal of calls in a SQLite file |
//! | [`auth`] | application keys and client tokens |
//! | [`config`] | settings and where each came from |
//! | `console` | the web page for operators |
//! | [`problem`] | maps errors to status and body, for every protocol |
//! | [`body`] | request bodies, bounded in size and time |

pub mod api;
pub mod app;
pub mod auth;
pub mod body;
pub mod config;
mod console;
pub mod frontend_tools;
pub mod gate;
pub mod problem;
pub mod provider;
pub mod serve;
pub mod store;
pub mod transport;

pub use app::App;
/// The core (clients, tools and calls), for programs that embed the server.
pub use handback_core as core;
pub use serve::Server;
