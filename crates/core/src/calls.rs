//! Calls: how a call gets from its caller to one client and its result back.
//!
//! Read `delegate` first: it has the path of a call. The other files serve it.
//!
//! | file | what it has |
//! | --- | --- |
//! | `delegate` | the path of a call: it is made, offered, answered, timed out or cancelled |
//! | `journaling` | the end of a call is stored, then its waiters are answered |
//! | `approval` | calls that wait for the answer to an ask |
//! | `frontend` | calls that a frontend runs: claims and acks |
//! | `connection` | a client's connections: what to write next, closing on drop |
//! | `hub` | the handle to clients, tools and calls; listings, housekeeping, shutdown |
//! | `shards` | the call table in shards by client; finds the shard of a call |
//! | `table` | what a shard's lock guards: every transition of calls, tools and connections |
//! | `pending` | a call that has not ended; pure |
//! | `finished` | calls that have ended, remembered for late and repeated answers |
//! | `late` | answers to calls that are over |
//! | `open_call` | the caller's side of a call: it waits, joins, and leaves |
//! | `outbox` | what a connection still has to write, and what it wrote, for a replay |
//! | `metrics` | counts of calls |
//! | `trail` | the log lines of calls |

mod approval;
mod connection;
mod delegate;
mod finished;
mod frontend;
mod hub;
mod journaling;
mod late;
mod metrics;
mod open_call;
mod outbox;
mod pending;
mod shards;
mod table;
mod trail;

pub use self::approval::NotAnswered;
pub use self::connection::{Connection, Delivery, Opening, TooManyConnections};
pub(crate) use self::delegate::NOT_ALLOWED;
pub use self::delegate::{Actor, Callee, NewCall, NotTaken, Refusal, Taken};
pub(crate) use self::frontend::timeout_for;
pub use self::frontend::{Claim, DEFAULT_TIMEOUT, LARGEST_TIMEOUT, timeout_of};
pub use self::hub::{CallCursor, CallInfo, CallPlace, Counts, Hub, Registration};
pub use self::metrics::Metrics;
pub use self::open_call::OpenCall;
pub use self::table::ClientInfo;
pub(crate) use self::trail::{ServerCall, not_made};
