//! Configuration: defaults, then a file, then `HANDBACK_*` variables, then flags; later wins, key by key.
//!
//! - this file: every key, what it means, its default and its range. A new key is a field here and nothing more.
//! - `load`: finds the file, merges the layers and remembers where each value came from
//! - `value`: how values are read that need a check or must not be shown
//! - `spelling`: which name was meant
//! - `error`: [`ConfigError`] and [`Source`]

mod error;
mod load;
mod spelling;
#[cfg(test)]
mod tests;
mod value;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use error::{ConfigError, Source};
pub use load::{Flag, Inputs, Loaded, Row, load};
pub use value::Secret;
use value::{Millis, Whole};

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1 << 20;

/// Everything that can be configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Config {
    /// The address to listen on; port 0 takes a free one. Beyond loopback it needs `auth.keys`.
    #[serde(deserialize_with = "value::address")]
    pub listen: SocketAddr,
    /// Client tools: their clocks.
    pub client_tools: ClientTools,
    /// Who may use the server.
    pub auth: Auth,
    /// Which web pages may use the server.
    pub cors: Cors,
    /// Host names that are accepted in `Host`, besides loopback.
    #[serde(deserialize_with = "value::host_names")]
    pub allowed_hosts: Vec<String>,
    /// What to log, as a tracing filter: `info`, `handback_server=debug,warn`.
    pub log: String,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// All bounds.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 4096)),
            client_tools: ClientTools::default(),
            auth: Auth::default(),
            cors: Cors::default(),
            allowed_hosts: Vec::new(),
            log: "info".to_owned(),
            log_format: LogFormat::default(),
            limits: Limits::default(),
        }
    }
}

/// `auth`: who may use the server. Without keys, whoever is on the machine is trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Auth {
    /// The application keys, each as its SHA-256, which is written in 64 hex digits.
    #[serde(deserialize_with = "value::key_hashes")]
    pub keys: Vec<Secret<[u8; 32]>>,
    /// The secret that client tokens are signed with (HS256), at least 32 bytes.
    #[serde(deserialize_with = "value::token_secret")]
    pub token_secret: Option<Secret<String>>,
    /// The Ed25519 public key that client tokens are checked with (EdDSA), in PEM.
    #[serde(deserialize_with = "value::public_key")]
    pub public_key: Option<String>,
}

/// `cors`: which web pages may use the server, besides those on loopback.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Cors {
    /// Their origins as browsers send them, such as `https://app.example.com`.
    #[serde(deserialize_with = "value::origins")]
    pub origins: Vec<String>,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One readable line for each event.
    #[default]
    Text,
    /// One JSON object for each event.
    Json,
}

/// A table of numbers, each with its meaning, its default and its range in one place. Times are in milliseconds.
macro_rules! numbers {
    ($(#[$about:meta])* $table:ident {
        $($(#[$meaning:meta])* $key:ident: $type:ty = $default:expr, $range:literal;)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $table {
            $($(#[$meaning])* #[serde(with = $range)] pub $key: $type,)*
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($key: $default,)* }
            }
        }
    };
}

numbers! {
    /// `clientTools`: the clocks of client tools.
    ClientTools {
        /// How long a call may take when neither the call nor its tool says.
        default_timeout: Duration = Duration::from_secs(30), "Millis::<1, DAY>";
        /// The time between two pings on a stream.
        keepalive_interval: Duration = Duration::from_secs(30), "Millis::<1, DAY>";
    }
}

numbers! {
    /// `limits`: all bounds.
    Limits {
        /// Calls that models may ask of one client in a minute; 0: no limit.
        calls_per_minute: u32 = 100, "Whole::<0, 1_000_000_000>";
        /// Calls that `execute` may make to one client in a minute; 0: no limit.
        execute_per_minute: u32 = 0, "Whole::<0, 1_000_000_000>";
        /// Tools of one client.
        tools_per_client: usize = 128, "Whole::<1, 100_000>";
        /// Bytes of a tool's schema.
        schema_bytes: usize = 64 << 10, "Whole::<1, { 64 * MIB }>";
        /// Nesting of a tool's schema. The JSON parser stops at 128.
        schema_depth: usize = 32, "Whole::<1, 128>";
        /// Bytes of a request's body, or of a WebSocket message.
        body_bytes: usize = 4 << 20, "Whole::<1, { 1024 * MIB }>";
        /// Calls under way of one client.
        calls_per_client: usize = 1024, "Whole::<1, 1_000_000>";
        /// Open connections.
        connections: usize = 10_240, "Whole::<1, 10_000_000>";
        /// Clients that are known at a time.
        clients: usize = 100_000, "Whole::<1, 10_000_000>";
        /// Open connections of one client.
        connections_per_client: usize = 64, "Whole::<1, 100_000>";
        /// Nesting of a call's input. The JSON parser stops at 128.
        input_depth: usize = 128, "Whole::<1, 128>";
        /// The largest timeout that a tool or a call may ask for; more is cut to it.
        largest_timeout: Duration = Duration::from_hours(24), "Millis::<1, { 30 * DAY }>";
        /// The largest grace that a connection may ask for; more is cut to it. 0: no grace.
        largest_grace: Duration = Duration::from_mins(5), "Millis::<0, DAY>";
        /// How long the tools of a client that never connects are kept.
        unconnected_tools: Duration = Duration::from_mins(5), "Millis::<1, DAY>";
        /// Finished calls that are remembered.
        remembered_calls: usize = 100_000, "Whole::<1, 10_000_000>";
        /// How long a finished call is remembered.
        remembered_for: Duration = Duration::from_mins(10), "Millis::<1, DAY>";
        /// Frames that are kept for a client that returns with a `Last-Event-ID`.
        replay: usize = 256, "Whole::<1, 65_536>";
        /// Events that may wait for a subscriber of `/event`; with more it is disconnected.
        event_buffer: usize = 1024, "Whole::<1, 1_000_000>";
        /// How long the head of a request may take.
        header_timeout: Duration = Duration::from_secs(30), "Millis::<1, HOUR>";
        /// How long the body of a request may take.
        body_timeout: Duration = Duration::from_secs(30), "Millis::<1, HOUR>";
        /// How long the reader of a stream may take nothing; then it is disconnected.
        stall_timeout: Duration = Duration::from_secs(10), "Millis::<1, HOUR>";
        /// How long sent bytes may stay unacknowledged; then the socket is closed.
        user_timeout: Duration = Duration::from_secs(20), "Millis::<1, HOUR>";
        /// How long calls under way may go on at shutdown; 0: not at all.
        drain_timeout: Duration = Duration::from_secs(10), "Millis::<0, HOUR>";
        /// Bytes of the calls that are stored.
        stored_bytes: usize = 64 << 20, "Whole::<1, { 65_536 * MIB }>";
        /// Calls that are stored.
        stored_calls: usize = 10_000, "Whole::<1, 10_000_000>";
    }
}
