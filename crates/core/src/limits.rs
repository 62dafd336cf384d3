//! Every bound and default, in one struct. Each bound says what happens when it is reached.

use std::time::Duration;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1 << 20;

/// A table of numbers, each with its meaning, its default and its range in one place. Times are in milliseconds.
macro_rules! numbers {
    ($(#[$about:meta])* $table:ident $(with $part:ident: $part_type:ident)? {
        $($(#[$meaning:meta])* $key:ident: $type:ty = $default:expr, $range:literal;)*
    }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
        pub struct $table {
            $($(#[$meaning])* #[serde(with = $range)] pub $key: $type,)*
            $(
                /// Times, which are configured apart from the bounds.
                #[serde(skip)]
                pub $part: $part_type,
            )?
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($key: $default,)* $($part: $part_type::default(),)? }
            }
        }
    };
}

numbers! {
    /// The clocks of calls and streams.
    Clocks {
        /// How long a call may take when neither the call nor its tool says.
        default_timeout: Duration = Duration::from_secs(30), "Millis::<1, DAY>";
        /// The time between two pings on a stream.
        keepalive_interval: Duration = Duration::from_secs(30), "Millis::<1, DAY>";
        /// How long a call waits for its ask; then it is denied.
        approval_timeout: Duration = Duration::from_mins(5), "Millis::<1, { 30 * DAY }>";
    }
}

numbers! {
    /// All bounds.
    Limits with clocks: Clocks {
        /// Calls that models may make to one client in a minute; more are refused. 0: no limit.
        calls_per_minute: u32 = 100, "Whole::<0, 1_000_000_000>";
        /// Calls that the application may make to one client in a minute; more are refused. 0: no limit.
        execute_per_minute: u32 = 0, "Whole::<0, 1_000_000_000>";
        /// Tools of one client; a registration that would exceed it is refused.
        tools_per_client: usize = 128, "Whole::<1, 100_000>";
        /// Sessions that one tool is specifically registered for; a registration that would exceed it is refused.
        sessions_per_tool: usize = 10_000, "Whole::<1, 10_000_000>";
        /// Size of a tool's schema; a larger one is refused.
        schema_bytes: usize = 64 << 10, "Whole::<1, { 64 * MIB }>";
        /// Depth of a tool's schema; a deeper one is refused.
        schema_depth: usize = 32, "Whole::<1, 128>";
        /// Bytes of a request's body, or of a WebSocket message.
        body_bytes: usize = 4 << 20, "Whole::<1, { 1024 * MIB }>";
        /// Open calls of one client; more are refused.
        calls_per_client: usize = 1024, "Whole::<1, 1_000_000>";
        /// Open connections.
        connections: usize = 10_240, "Whole::<1, 10_000_000>";
        /// Open connections of one peer address without a whole request head so far; one more closes the oldest.
        new_connections_per_peer: usize = 1024, "Whole::<1, 10_000_000>";
        /// Clients known at a time; more are refused.
        clients: usize = 100_000, "Whole::<1, 10_000_000>";
        /// Connections of one client; more are refused.
        connections_per_client: usize = 64, "Whole::<1, 100_000>";
        /// How long a turn's calls wait for the lost connection that its prompt came from; then they go to another.
        preferred_connection: Duration = Duration::from_secs(10), "Millis::<0, DAY>";
        /// Depth of a call's input and of a result's metadata; deeper ones are refused.
        input_depth: usize = 128, "Whole::<1, 128>";
        /// The longest a call may take; more is clamped.
        largest_timeout: Duration = Duration::from_hours(24), "Millis::<1, { 30 * DAY }>";
        /// The longest grace that a connection may ask for; more is clamped.
        largest_grace: Duration = Duration::from_mins(5), "Millis::<0, DAY>";
        /// How long the tools of a client that does not connect are kept; then they are unregistered.
        unconnected_tools: Duration = Duration::from_mins(5), "Millis::<1, DAY>";
        /// Finished calls that are remembered for late and repeated answers; then the oldest are forgotten. There are
        /// up to twice as many if one client has most of them, because it does not take the others' share.
        remembered_calls: usize = 100_000, "Whole::<1, 10_000_000>";
        /// How long a finished call is remembered.
        remembered_for: Duration = Duration::from_mins(10), "Millis::<1, DAY>";
        /// Frames per connection that can be replayed; a client further behind is offered its calls anew.
        replay: usize = 256, "Whole::<1, 65_536>";
        /// Events that a listener may be behind; then it is disconnected.
        event_buffer: usize = 8192, "Whole::<1, 1_000_000>";
        /// The approximate size of all events that wait for listeners. Above it, topics with many waiting events drop
        /// the oldest, and listeners that have not read those are disconnected.
        event_bytes: usize = 64 << 20, "Whole::<1, { 65_536 * MIB }>";
        /// The approximate size of the histories in memory of sessions that are not in use.
        history_bytes: usize = 256 << 20, "Whole::<1, { 65_536 * MIB }>";
        /// How long the head of a request may take.
        header_timeout: Duration = Duration::from_secs(10), "Millis::<1, HOUR>";
        /// How long the body of a request may take.
        body_timeout: Duration = Duration::from_secs(30), "Millis::<1, HOUR>";
        /// How long a stream's reader may read nothing; then it is disconnected.
        stall_timeout: Duration = Duration::from_secs(10), "Millis::<1, HOUR>";
        /// How long sent bytes may stay unacknowledged; then the socket is closed.
        user_timeout: Duration = Duration::from_secs(20), "Millis::<1, HOUR>";
        /// How long open calls may go on at shutdown; 0: not at all.
        drain_timeout: Duration = Duration::from_secs(10), "Millis::<0, HOUR>";
        /// Bytes of finished calls in memory, without a database; then the oldest are dropped.
        stored_bytes: usize = 64 << 20, "Whole::<1, { 65_536 * MIB }>";
        /// Finished calls in memory, without a database; then the oldest are dropped.
        stored_calls: usize = 10_000, "Whole::<1, 10_000_000>";
        /// Finished calls on disk; then the oldest are deleted.
        calls_on_disk: usize = 1_000_000, "Whole::<1, 1_000_000_000>";
        /// Bytes of finished calls on disk; then the oldest are deleted.
        call_bytes_on_disk: u64 = 4 << 30, "Whole::<1, { 1 << 50 }>";
        /// How long a finished call is kept on disk.
        calls_kept_for: Duration = Duration::from_hours(7 * 24), "Millis::<1, { 3650 * DAY }>";
        /// Sessions in memory; then the least recently used are forgotten.
        stored_sessions: usize = 100_000, "Whole::<1, 10_000_000>";
        /// Bytes of messages in memory; then the least recently used sessions are forgotten.
        stored_message_bytes: usize = 1 << 30, "Whole::<1, { 65_536 * MIB }>";
        /// Parts of one message; a user's message with more is refused, a model's ends its turn with an error.
        parts_per_message: usize = 256, "Whole::<1, 4096>";
        /// Sessions of one client on disk; more are refused. 0: no limit.
        sessions_per_client: u64 = 100_000, "Whole::<0, 1_000_000_000>";
        /// Bytes of one client's sessions on disk; then it may begin nothing new. 0: no limit.
        session_bytes_per_client: u64 = 4 << 30, "Whole::<0, { 1 << 50 }>";
        /// Bytes of all sessions on disk; then nobody may begin anything new. 0: no limit.
        session_bytes: u64 = 32 << 30, "Whole::<0, { 1 << 50 }>";
        /// Steps of one turn; then the turn ends with an error.
        steps: usize = 50, "Whole::<1, 10_000>";
        /// Prompts that wait for the turns before them, per session; more are refused.
        queued_prompts: usize = 8, "Whole::<0, 1000>";
        /// How often in a row a model may repeat a call with the same input; then it is told, and then the turn ends.
        repeated_calls: usize = 3, "Whole::<1, 10_000>";
        /// Bytes of a tool's output that a model is shown; the rest is cut, with a note.
        tool_output: usize = 64 << 10, "Whole::<1, { 1024 * MIB }>";
    }
}

impl Limits {
    pub(crate) fn quotas(&self) -> Quotas {
        let most = |most: u64| if most == 0 { u64::MAX } else { most };
        Quotas {
            client_sessions: most(self.sessions_per_client),
            client_bytes: most(self.session_bytes_per_client),
            bytes: most(self.session_bytes),
        }
    }
}

/// How much may be stored. At a bound, everything that begins something new is refused: sessions, prompts, imports,
/// runs. Work in progress goes on, and results and the ends of turns are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quotas {
    /// Sessions of one client; more are refused.
    pub(crate) client_sessions: u64,
    /// Bytes of one client's sessions; then it may begin nothing new.
    pub(crate) client_bytes: u64,
    /// Bytes of all sessions; then nobody may begin anything new.
    pub(crate) bytes: u64,
}

/// A whole number within bounds, for `#[serde(with = …)]`.
pub struct Whole<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Whole<MIN, MAX> {
    /// Reads a number. The error says which are allowed.
    pub fn deserialize<'de, D: Deserializer<'de>, T: TryFrom<u64>>(deserializer: D) -> Result<T, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let number = value.as_u64().filter(|number| (MIN..=MAX).contains(number));
        number
            .and_then(|number| T::try_from(number).ok())
            .ok_or_else(|| D::Error::custom(format!("found {value}, expected a whole number from {MIN} to {MAX}")))
    }

    fn serialize<S: Serializer, T: Serialize>(number: &T, serializer: S) -> Result<S::Ok, S::Error> {
        number.serialize(serializer)
    }
}

/// A time in whole milliseconds within bounds, for `#[serde(with = …)]`.
pub struct Millis<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Millis<MIN, MAX> {
    /// Reads a time. The error says which are allowed.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        Whole::<MIN, MAX>::deserialize(deserializer).map(Duration::from_millis)
    }

    /// Writes a time.
    pub fn serialize<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        time.as_millis().serialize(serializer)
    }
}
