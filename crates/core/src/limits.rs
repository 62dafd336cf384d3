//! Every bound and default, in one struct. What happens at a bound is written beside it.

use std::time::Duration;

/// The bounds and defaults of a hub.
#[derive(Debug, Clone)]
pub struct Limits {
    /// How long a call may take when neither the call nor the tool says; then its outcome is a timeout.
    pub default_timeout: Duration,
    /// How long an ask stays open; then the call is denied.
    pub approval_timeout: Duration,
    /// The longest a call may take; more is clamped.
    pub largest_timeout: Duration,
    /// The longest grace that a connection may ask for; more is clamped.
    pub largest_grace: Duration,
    /// How long the tools of a client that does not connect are kept; then they are unregistered.
    pub unconnected_tools: Duration,
    /// Calls that models may ask of one client in a minute; more are refused. 0: no limit.
    pub model_calls_per_minute: u32,
    /// Calls that the application may ask of one client in a minute; more are refused. 0: no limit.
    pub execute_calls_per_minute: u32,
    /// Tools of one client; a registration that would exceed it is refused.
    pub tools_per_client: usize,
    /// Sessions that one tool is registered for by name; a registration that would exceed it is refused.
    pub sessions_per_tool: usize,
    /// Size of a tool's schema; a larger one is refused.
    pub schema_bytes: usize,
    /// Depth of a tool's schema; a deeper one is refused.
    pub schema_depth: usize,
    /// Depth of a call's input and of a result's metadata; deeper ones are refused.
    pub input_depth: usize,
    /// Calls under way of one client; more are refused.
    pub calls_per_client: usize,
    /// Clients known at a time; more are refused.
    pub clients: usize,
    /// Connections of one client; more are refused.
    pub connections_per_client: usize,
    /// How long the calls of a turn wait for the lost connection that its prompt came from; then they go to another.
    pub preferred_connection: Duration,
    /// Finished calls that are remembered for late and repeated answers; then the oldest are forgotten. Twice as many if one
    /// client has most of them: it does not take the others' share.
    pub remembered_calls: usize,
    /// How long a finished call is remembered.
    pub remembered_for: Duration,
    /// Frames per connection that can be sent again on return; a client further behind is offered its calls anew.
    pub replay: usize,
    /// Parts of one message; one of a user with more is refused, one of a model ends its turn with an error.
    pub parts_per_message: usize,
    /// Steps of one turn; then the turn ends with an error.
    pub steps: usize,
    /// How often in a row the same call with the same input is made; then the model is told so, and then the turn ends.
    pub repeated_calls: usize,
    /// Prompts that wait for the turns before them, per session; more are refused.
    pub queued_prompts: usize,
    /// Bytes of a tool's output that a model is shown; the rest is cut, with a note.
    pub tool_output: usize,
    /// Events that a listener may be behind; then it is disconnected.
    pub event_buffer: usize,
    /// About how many bytes the events that wait for listeners may hold on to, in all; when there are more, the oldest are
    /// dropped where many wait, and listeners that have not had them are disconnected.
    pub event_bytes: usize,
    /// About how many bytes of histories are held in memory for sessions that are not in use.
    pub history_bytes: usize,
    /// How much is kept before nothing new is begun.
    pub quotas: Quotas,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            default_timeout: Duration::from_secs(30),
            approval_timeout: Duration::from_secs(5 * 60),
            largest_timeout: Duration::from_secs(24 * 60 * 60),
            largest_grace: Duration::from_secs(5 * 60),
            unconnected_tools: Duration::from_secs(5 * 60),
            model_calls_per_minute: 100,
            execute_calls_per_minute: 0,
            tools_per_client: 128,
            sessions_per_tool: 10_000,
            schema_bytes: 64 * 1024,
            schema_depth: 32,
            input_depth: 128,
            calls_per_client: 1_024,
            clients: 100_000,
            connections_per_client: 64,
            preferred_connection: Duration::from_secs(10),
            remembered_calls: 100_000,
            remembered_for: Duration::from_secs(10 * 60),
            replay: 256,
            parts_per_message: 256,
            steps: 50,
            repeated_calls: 3,
            queued_prompts: 8,
            tool_output: 64 * 1024,
            event_buffer: 8_192,
            event_bytes: 64 << 20,
            history_bytes: 256 << 20,
            quotas: Quotas::NONE,
        }
    }
}

/// How much may be kept. At a bound whatever begins something new is refused: sessions, prompts, imports, runs. What is
/// under way goes on, and results and the ends of turns are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quotas {
    /// Sessions of one client; then it makes no more.
    pub client_sessions: u64,
    /// Bytes of one client's sessions; then it begins nothing.
    pub client_bytes: u64,
    /// Bytes of all sessions; then nobody begins anything.
    pub bytes: u64,
}

impl Quotas {
    /// Nothing is ever refused.
    pub const NONE: Self = Self { client_sessions: u64::MAX, client_bytes: u64::MAX, bytes: u64::MAX };
}
