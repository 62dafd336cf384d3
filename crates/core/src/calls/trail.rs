//! The log lines of calls: one for each stage, with the same names for the same ids everywhere. They have ids, outcomes and
//! times, and nothing that a tool gets or gives.

use std::time::Duration;

use tokio::time::Instant;

use crate::calls::approval::NotAnswered;
use crate::calls::delegate::{NotTaken, Refusal, Taken};
use crate::clock::milliseconds;
use crate::id::{CallId, ClientId, ConnectionName, PermissionId, RequestId, SessionId};
use crate::store::{Ask, CallHead, FinishedCall, Origin, Outcome, OutcomeKind};

/// How many bytes are logged of the name of a tool that may not be there. Models and callers name anything.
const MOST_NAME: usize = 256;

/// Writes a line about a call.
macro_rules! line {
    ($head:expr, $stage:literal $(, $field:ident = $value:expr)*) => {{
        let head: &CallHead = $head;
        tracing::info!(
            target: "handback::call",
            call = head.request.as_str(),
            tool = head.tool.id.as_str(),
            client = head.client().as_str(),
            session = known(head.session.as_str()),
            $($field = $value,)*
            $stage
        )
    }};
}

/// An id, unless it is empty.
fn known(id: &str) -> Option<&str> {
    (!id.is_empty()).then_some(id)
}

/// The call is entered in the table. If it cannot be journaled, it is refused after that.
pub(super) fn opened(head: &CallHead) {
    let origin = match head.origin {
        Origin::Model => "model",
        Origin::Application => "application",
    };
    line!(head, "opened", origin = origin, call_id = known(head.call.as_str()))
}

/// An earlier process left the call open.
pub(super) fn reopened(head: &CallHead) {
    line!(head, "reopened")
}

/// Another caller waits for the call as well, or wants its outcome.
pub(super) fn joined(head: &CallHead) {
    line!(head, "joined")
}

/// The call waits to be allowed.
pub(super) fn asked(head: &CallHead, ask: &Ask) {
    line!(head, "asked", permission = ask.id.as_str())
}

/// Somebody allowed the call. A call that is denied ends.
pub(super) fn allowed(head: &CallHead, ask: &Ask) {
    line!(head, "allowed", permission = ask.id.as_str())
}

/// A connection has taken the call, for the first time or again.
pub(super) fn offered(head: &CallHead, attempt: u32, connection: Option<&ConnectionName>) {
    line!(head, "offered", attempt = attempt, connection = connection.map(ConnectionName::as_str))
}

/// A frontend has claimed the call.
pub(super) fn claimed(head: &CallHead) {
    line!(head, "claimed")
}

/// A frontend has given its claim back.
pub(super) fn released(head: &CallHead) {
    line!(head, "released")
}

/// A result came after the end of the call, and is kept with it.
pub(super) fn late(head: &CallHead, outcome: &Outcome) {
    line!(head, "late result", outcome = outcome.kind().as_str())
}

/// The call is over.
pub(super) fn ended(call: &FinishedCall) {
    line!(
        &call.head,
        "ended",
        outcome = call.outcome.kind().as_str(),
        ms = milliseconds(call.phases.approval + call.phases.queue + call.phases.execute),
        attempt = call.attempt,
        may_have_run = call.may_have_run_without_result()
    )
}

impl Refusal {
    /// Writes to the log that a call was not made.
    pub fn log(&self, request: Option<&RequestId>, tool: &str, session: &SessionId) {
        let (call, session) = (request.map(RequestId::as_str), known(session.as_str()));
        tracing::info!(target: "handback::call", call, tool = cut(tool), session, reason = self.word(), "refused");
    }
}

/// A model's call was not made, for this reason in a word.
pub(crate) fn not_made(call: &CallId, tool: &str, session: &SessionId, reason: &'static str) {
    let (call_id, session) = (call.as_str(), session.as_str());
    tracing::info!(target: "handback::call", call_id, tool = cut(tool), session, reason, "refused");
}

/// The name of a tool that may not be there.
fn cut(tool: &str) -> &str {
    &tool[..tool.floor_char_boundary(MOST_NAME)]
}

/// An answer that does not end the call: it came again, or it is not accepted.
pub(super) fn answered(request: &RequestId, taken: &Result<Taken, NotTaken>) {
    let call = request.as_str();
    match taken {
        Ok(Taken::First) => {}
        Ok(Taken::Again) => tracing::info!(target: "handback::call", call, "answered again"),
        Err(why) => tracing::info!(target: "handback::call", call, reason = why.word(), "answer refused"),
    }
}

/// Somebody tried to cancel the call. If that ended it, the line of its end says so.
pub(super) fn cancelled(request: &RequestId, cancelled: &Result<(), NotTaken>) {
    if let Err(why) = cancelled {
        tracing::info!(target: "handback::call", call = request.as_str(), reason = why.word(), "cancel refused");
    }
}

/// A reply to an ask is not accepted.
pub(super) fn reply_refused(ask: &PermissionId, why: &NotAnswered) {
    tracing::info!(target: "handback::call", permission = ask.as_str(), reason = why.word(), "reply refused");
}

/// A call of a tool of the server itself, which runs in the turn. Its line is written when this is dropped: the turn may be
/// stopped meanwhile.
pub(crate) struct ServerCall<'a> {
    call: &'a CallId,
    tool: &'a str,
    session: &'a SessionId,
    began: Instant,
    outcome: OutcomeKind,
}

impl<'a> ServerCall<'a> {
    /// The tool begins to run.
    pub(crate) fn begin(call: &'a CallId, tool: &'a str, session: &'a SessionId) -> Self {
        Self { call, tool, session, began: Instant::now(), outcome: OutcomeKind::Cancelled }
    }

    /// The tool ended in this way.
    pub(crate) fn end(mut self, outcome: OutcomeKind) {
        self.outcome = outcome;
    }
}

impl Drop for ServerCall<'_> {
    fn drop(&mut self) {
        let (call_id, session, outcome) = (self.call.as_str(), self.session.as_str(), self.outcome.as_str());
        let (tool, ms) = (self.tool, milliseconds(self.began.elapsed()));
        tracing::info!(target: "handback::call", call_id, tool, session, outcome, ms, "ended");
    }
}

/// A client has opened a connection.
pub(super) fn connected(client: &ClientId, connection: Option<&ConnectionName>) {
    let (client, connection) = (client.as_str(), connection.map(ConnectionName::as_str));
    tracing::info!(target: "handback::client", client, connection, "connected");
}

/// A connection of a client has closed.
pub(super) fn disconnected(client: &ClientId, connection: Option<&ConnectionName>, open: Duration) {
    let (client, connection) = (client.as_str(), connection.map(ConnectionName::as_str));
    tracing::info!(target: "handback::client", client, connection, ms = milliseconds(open), "disconnected");
}

/// A client has registered tools.
pub(super) fn registered(client: &ClientId, tools: usize) {
    tracing::info!(target: "handback::client", client = client.as_str(), tools, "registered");
}

/// A client has taken tools back.
pub(super) fn unregistered(client: &ClientId, tools: usize) {
    tracing::info!(target: "handback::client", client = client.as_str(), tools, "unregistered");
}
