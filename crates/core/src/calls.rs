//! Calls: how one gets from whoever makes it to one client and back.
//!
//! The line is `delegate`: read that file first. Everything else serves it.
//!
//! | file | what it has |
//! | --- | --- |
//! | `delegate` | the line: a call is made, offered, answered, timed out, cancelled |
//! | `approval` | a call that waits until somebody allows it |
//! | `frontend` | calls that a frontend runs: claims and acks |
//! | `connection` | a client's connections: who holds which offer, superseding, coming back |
//! | `hub` | the handle that everything is reached by; listings, grace, shutting down |
//! | `shards` | the call table in shards, one for each part of the clients; where a call is |
//! | `table` | what a shard's lock guards: every transition of calls, tools and connections |
//! | `pending` | a call under way; pure |
//! | `finished` | calls that are over, remembered for late and repeated answers |
//! | `outbox` | what a connection still has to be told, and what it was told already |
//! | `metrics` | calls, counted |

mod approval;
mod connection;
mod delegate;
mod finished;
mod frontend;
mod hub;
mod metrics;
mod outbox;
mod pending;
mod shards;
mod table;

pub use self::approval::NotAnswered;
pub use self::connection::{Connection, Delivery, Opening, TooManyConnections};
pub(crate) use self::delegate::NOT_ALLOWED;
pub use self::delegate::{Actor, Callee, NewCall, NotTaken, OpenCall, Origin, Refusal, Taken};
pub(crate) use self::frontend::timeout_for;
pub use self::frontend::{Claim, DEFAULT_TIMEOUT, LARGEST_TIMEOUT, timeout_of};
pub use self::hub::{CallCursor, CallInfo, CallPlace, Counts, Hub};
pub use self::metrics::Metrics;
pub use self::table::ClientInfo;
