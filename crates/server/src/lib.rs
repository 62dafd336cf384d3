//! The Handback server as a library.
//!
//! A request comes in at [`serve`], passes the [`gate`] (where it comes from, who sends it), and is routed by [`app`]
//! to a protocol under [`api`], which decodes it, calls the core, and encodes what comes back.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`serve`] | sockets: accept, limits, stalls, shutting down |
//! | [`gate`] | what every request passes: `Host`, `Origin`, keys and tokens, CORS |
//! | [`app`] | puts it together: the only place that names concrete stores and models |
//! | [`api`] | one folder a protocol: routes, decode, encode |
//! | [`transport`] | a client's connection onto SSE or WebSocket |
//! | [`provider`] | the models that a session can talk to |
//! | [`frontend_tools`] | the tools that frontends run: what is built in, configured, added |
//! | [`store`] | sessions and the journal of calls in a SQLite file |
//! | [`auth`] | application keys and client tokens |
//! | [`config`] | settings and where each came from |
//! | `console` | the page for whoever runs the server |
//! | [`problem`] | errors to status and body, for all of it |
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
/// Clients, tools and calls, for programs that embed the server.
pub use handback_core as core;
pub use serve::Server;
