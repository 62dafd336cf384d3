//! Calls, clients, tools, sessions: how a call gets from a model to one client and back.
//!
//! The line through the house is [`delegate`]: read that file first. Everything else serves it.
//!
//! | module | responsibility |
//! | --- | --- |
//! | [`sessions`] | making, prompting, stopping and forgetting sessions |
//! | `run` | the run engine: one turn, from a prompt until the model has nothing more to do |
//! | [`delegate`] | the line: a call is made, offered, answered, timed out, cancelled |
//! | [`frontend`] | calls that a frontend runs: claims and acks |
//! | [`permission`] | a call that waits until somebody allows it |
//! | [`connection`] | a client's connections: who holds which offer, taking over, coming back |
//! | [`hub`] | the handle that everything is reached by; listings, grace, shutting down |
//! | `shards` | the call table in shards, one for each part of the clients; where a call is |
//! | `table` | what a shard's lock guards: every transition of calls, tools and connections |
//! | `registry` | who offers which tool, in which sessions |
//! | `outbox` | what a connection still has to be told, and what it was told already |
//! | [`call`] | a call, its stages, its outcome; pure |
//! | `finished` | calls that are over, remembered for late and repeated answers |
//! | [`message`] | a session, its messages and their parts |
//! | [`thread_run`] | a run of a thread |
//! | [`model`] | the seam to models |
//! | [`toolbox`] | what a model is offered, the server's own tools, hooks |
//! | [`agent`] | what a model is told to be, and what it may do |
//! | [`policy`] | which tools may be called: patterns over their ids; pure |
//! | [`tool`], [`schema`] | a tool and its compiled JSON Schema |
//! | [`store`] | what is kept: calls, sessions, messages, runs; and its memory implementation |
//! | [`event`] | what happened, and how it gets to those who listen to a session, a client or everything |
//! | `sharded` | a map in parts, each with a lock of its own |
//! | [`metrics`] | what happened, counted |
//! | [`rate`] | how many calls a client may be asked for |
//! | [`aside`] | work that takes long, outside of the threads that serve |
//! | [`limits`] | every bound and default, in one struct |
//! | [`clock`] | wall time and new ids |
//! | [`id`] | names of things; parsing validates |

pub mod agent;
pub mod aside;
pub mod call;
pub mod clock;
pub mod connection;
pub mod delegate;
pub mod event;
mod finished;
pub mod frontend;
pub mod hub;
pub mod id;
pub mod json;
pub mod limits;
pub mod message;
pub mod metrics;
pub mod model;
mod outbox;
pub mod permission;
pub mod policy;
pub mod rate;
mod registry;
mod run;
pub mod schema;
pub mod sessions;
mod sharded;
mod shards;
pub mod store;
mod table;
pub mod thread_run;
pub mod tool;
pub mod toolbox;

pub use hub::Hub;
