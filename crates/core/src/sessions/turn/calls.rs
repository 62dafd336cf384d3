//! The calls of a step. They run at the same time, and no call depends on another.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use smol_str::SmolStr;
use tokio::sync::mpsc;

use super::draft::Draft;
use crate::calls::{Callee, NOT_ALLOWED, NewCall, Refusal, ServerCall, not_made, timeout_for};
use crate::clock::Time;
use crate::events::{Feed, TurnEvent};
use crate::id::{CallId, ClientId, ConnectionName, MessageId, RequestId};
use crate::json;
use crate::schema::{depth, empty_object, one_line};
use crate::sessions::Sessions;
use crate::sessions::agent::Agent;
use crate::store::{
    Ack, AckStatus, Ask, Executor, FinishedCall, Origin, Outcome, OutcomeKind, Reply, Session, Success, Tool, ToolPart,
    ToolResult, ToolSpec, ToolState,
};
use crate::tools::{Before, HookedCall, Invocation, Offered, Permission, Place, ServerTool, guarded};

/// What a model is told besides why a call has no result.
pub(super) const MAY_HAVE_RUN: &str = "; it may have run";

/// What panicked, in messages.
const TOOL: &str = "The tool";

/// The calls of a step, in the model's order.
pub(super) type Calls = Vec<ReadyCall>;

/// A call that the model asks for.
pub(super) struct ReadyCall {
    /// Its index among the parts of the message.
    pub(super) place: usize,
    pub(super) call: CallId,
    pub(super) alias: SmolStr,
    /// The index of the tool, if one has this name.
    pub(super) tool: Option<usize>,
    /// The input, or why the model's arguments can be none.
    pub(super) input: Result<Box<RawValue>, String>,
}

/// A call that has ended.
pub(super) struct Over {
    pub(super) place: usize,
    pub(super) input: Box<RawValue>,
    pub(super) start: Time,
    pub(super) result: ToolResult,
}

/// A call that hooks and schema allow, or the reason why not.
struct Prepared<'a> {
    place: usize,
    call: CallId,
    start: Time,
    /// The input, as far as it can be shown.
    input: Box<RawValue>,
    /// The tool, or the result of a call that is not made.
    tool: Result<&'a Offered, ToolResult>,
}

/// What all calls of a step share.
pub(super) struct CallContext<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) session: &'a Arc<Session>,
    pub(super) agent: &'a Agent,
    pub(super) offered: &'a [Offered],
    pub(super) feed: Option<&'a Feed>,
    /// The connection that is offered calls first.
    pub(super) connection: Option<&'a ConnectionName>,
}

/// A call whose part is stored.
struct BegunCall<'a> {
    /// Its index among the parts.
    place: usize,
    call: CallId,
    /// The tool's full id.
    id: SmolStr,
    /// The tool, if it is still offered.
    tool: Option<&'a Offered>,
    request: RequestId,
    input: Box<RawValue>,
    start: Time,
}

/// A call in progress.
struct RunningCall<'a> {
    context: &'a CallContext<'a>,
    message: &'a MessageId,
    call: CallId,
    /// The tool's full id.
    id: SmolStr,
    /// The tool, if it is still offered.
    tool: Option<&'a Offered>,
    request: RequestId,
    /// Its index among the parts, and the channel that reports when the call is shown to a frontend.
    place: usize,
    shown: mpsc::UnboundedSender<(usize, Box<RawValue>)>,
}

impl CallContext<'_> {
    /// Makes the calls. Their parts show each change as it happens.
    pub(super) async fn make(&self, draft: &mut Draft, calls: Calls, refused: Vec<bool>) {
        let prepared = calls.into_iter().zip(refused).map(|(call, refused)| self.prepare(call, refused));
        let (mut begun, mut told, mut is_journaled) = (Vec::new(), Vec::new(), true);
        for Prepared { place, call, start, input, tool } in join_all(prepared).await {
            let tool = match tool {
                Ok(tool) => tool,
                Err(result) => {
                    draft.over(Over { place, input, start, result });
                    continue;
                }
            };
            is_journaled &= matches!(tool.place, Place::Client(_) | Place::Frontend(_));
            let request = match &tool.place {
                Place::Page(_) => {
                    draft.run(place, None, ToolState::Yielded { input, start });
                    told.push(place);
                    continue;
                }
                Place::Client(tool) => Some(self.sessions.hub().request_id(&tool.client)),
                Place::Frontend(_) => Some(RequestId::from(&call)),
                Place::Server(_) => None,
            };
            draft.run(place, request.as_ref(), ToolState::Running { input: input.clone(), start });
            // A frontend may act on what it sees, so it sees a call only when the call can be answered.
            if !matches!(tool.place, Place::Frontend(_)) {
                told.push(place);
            }
            let request = request.unwrap_or_else(|| RequestId::from(&call));
            begun.push(BegunCall { place, call, id: tool.id().into(), tool: Some(tool), request, input, start });
        }
        // The parts are stored before any call is made, and sent after that. Calls of clients are journaled behind this
        // save, so without listeners it is enough to wait for the journal.
        if is_journaled && !draft.is_watched() {
            draft.queue().await;
        } else {
            draft.keep().await;
        }
        told.into_iter().for_each(|place| draft.tell_call(place));
        self.run(draft, begun).await;
    }

    /// Goes on with the calls that an earlier process began. Their outcomes count, and clients are not asked twice.
    pub(super) async fn make_again(&self, draft: &mut Draft) {
        let mut begun = Vec::new();
        for (place, ToolPart { call, alias, tool: id, request, state, .. }) in draft.running() {
            let ToolState::Running { input, start } = state else { continue };
            let tool = self.offered.iter().find(|tool| tool.alias == alias);
            let is_here = request.is_none();
            if is_here && !tool.is_some_and(|tool| matches!(&tool.place, Place::Server(here) if here.is_repeatable())) {
                let reason = format!("The server was restarted while this tool ran{MAY_HAVE_RUN}");
                draft.over(Over { place, input, start, result: ToolResult::Failed(reason) });
                continue;
            }
            let request = request.unwrap_or_else(|| RequestId::from(&call));
            begun.push(BegunCall { place, call, id, tool, request, input, start });
        }
        self.run(draft, begun).await;
    }

    /// Runs calls to their ends.
    async fn run(&self, draft: &mut Draft, begun: Vec<BegunCall<'_>>) {
        let message = draft.id().clone();
        let (shown, mut now_shown) = mpsc::unbounded_channel();
        let mut running = FuturesUnordered::new();
        for BegunCall { place, call, id, tool, request, input, start } in begun {
            let call =
                RunningCall { context: self, message: &message, call, id, tool, request, place, shown: shown.clone() };
            // Boxed: calls wait long, and most steps have one.
            running.push(Box::pin(async move {
                let (input, result) = call.run(input).await;
                Over { place, input, start, result }
            }));
        }
        loop {
            tokio::select! {
                // A call is shown before its end.
                biased;
                Some((place, input)) = now_shown.recv() => {
                    // A reader that comes back must see the input that was allowed.
                    draft.show(place, input);
                    draft.save();
                    continue;
                }
                over = running.next() => match over {
                    Some(over) => draft.over(over),
                    None => break,
                },
                () = draft.save_again(), if draft.is_unsaved() => continue,
            }
            if !running.is_empty() {
                draft.save();
            }
        }
    }

    /// Checks whether a call can be made: reads its input and asks the hooks.
    async fn prepare(&self, ready: ReadyCall, refused: bool) -> Prepared<'_> {
        let ReadyCall { place, call, alias, tool, input } = ready;
        let start = self.sessions.clock().time();
        let prepared = |input, tool| Prepared { place, call: call.clone(), start, input, tool };
        let tool = tool.and_then(|tool| self.offered.get(tool));
        let refuse = |input, why, result| {
            not_made(&call, tool.map_or(alias.as_str(), Offered::id), &self.session.id, why);
            prepared(input, Err(result))
        };
        let failed = |input, why, reason| refuse(input, why, ToolResult::Failed(reason));
        let mut input = match input {
            Ok(input) => input,
            Err(reason) => return failed(empty_object(), "invalid_input", reason),
        };
        if refused {
            let reason = "This call was made several times in a row with the same input, and was not made again. \
                          Do something else, or answer with what you have.";
            return failed(input, "repeated", reason.to_owned());
        }
        let Some(tool) = tool else {
            let known: Vec<&str> = self.offered.iter().map(|tool| tool.alias.as_str()).take(32).collect();
            let reason = format!("There is no tool {}. There is: {}", short(&alias), known.join(", "));
            return failed(input, "unknown_tool", reason);
        };
        for hook in &self.sessions.setup().hooks {
            match guarded(TOOL, async { hook.before(self.hooked(&call, tool.id(), &input)).await }).await {
                Ok(Before::Go) => {}
                Ok(Before::Change(changed)) => input = one_line(changed),
                Ok(Before::Refuse(reason)) | Err(reason) => return failed(input, "hook", reason),
            }
        }
        let hub = self.sessions.hub();
        if let Err(error) = hub.schemas().check(tool.schema(), &input, hub.limits()).await {
            return failed(input, "invalid_input", format!("Invalid input: {error}"));
        }
        if matches!(tool.place, Place::Page(_)) && self.permission(tool) == Permission::Deny {
            return refuse(input, "denied", ToolResult::Denied { reason: NOT_ALLOWED.to_owned(), ask: None });
        }
        prepared(input, Ok(tool))
    }

    fn hooked<'b>(&'b self, call: &'b CallId, tool: &'b str, input: &'b RawValue) -> HookedCall<'b> {
        HookedCall { session: self.session, call, tool, input }
    }

    fn permission(&self, tool: &Offered) -> Permission {
        match self.agent.policy.decide(tool.named()) {
            Permission::Ask if self.sessions.is_always_allowed(&self.session.id, tool.id()) => Permission::Allow,
            permission => permission,
        }
    }
}

impl RunningCall<'_> {
    /// Runs a call. Returns the input that was used in the end, and the result after the hooks.
    async fn run(&self, input: Box<RawValue>) -> (Box<RawValue>, ToolResult) {
        let (input, mut result) = match self.tool.map(|tool| &tool.place) {
            Some(Place::Client(tool)) => {
                let (id, client) = (tool.id.as_str().to_owned(), tool.client.clone());
                let callee = Callee::Registered { tool: id, client: Some(client) };
                self.delegate(callee, None, input).await
            }
            Some(Place::Frontend(spec)) => {
                let session = self.context.session;
                let owner = session.client.clone().unwrap_or_else(|| ClientId::from(&session.id));
                let callee = Callee::Frontend(Arc::new(Tool::of_frontend(owner, ToolSpec::clone(spec))));
                let timeout = timeout_for(spec, &input);
                self.delegate(callee, Some(timeout), input).await
            }
            Some(Place::Server(server)) => {
                let result = self.run_here(&**server, &input).await;
                (input, result)
            }
            // Page calls are yielded before this.
            Some(Place::Page(_)) => return (input, ToolResult::Failed("This call is the page's to run".to_owned())),
            // The tool is gone, but the call may be open, or over.
            None => self.delegate(Callee::Gone(self.id.to_string()), None, input).await,
        };
        for hook in &self.context.sessions.setup().hooks {
            let after = guarded(TOOL, async {
                let call = self.context.hooked(&self.call, &self.id, &input);
                hook.after(call, result).await
            });
            result = after.await.unwrap_or_else(ToolResult::Failed);
        }
        (input, result)
    }

    /// Lets a client or a frontend run the call, through the hub.
    async fn delegate(
        &self,
        callee: Callee,
        timeout: Option<Duration>,
        input: Box<RawValue>,
    ) -> (Box<RawValue>, ToolResult) {
        let hub = self.context.sessions.hub();
        let new = NewCall {
            callee,
            request: Some(self.request.clone()),
            session: self.context.session.id.clone(),
            message: self.message.clone(),
            call: self.call.clone(),
            input: input.clone(),
            timeout,
            origin: Origin::Model,
            permission: self.tool.map_or(Permission::Deny, |tool| self.context.permission(tool)),
            connection: self.context.connection.cloned(),
        };
        let mut open = match hub.open(new).await {
            Ok(open) => open,
            // The next process makes the call.
            Err(Refusal::ShuttingDown) if hub.is_leaving() => return std::future::pending().await,
            Err(refusal) => {
                refusal.log(Some(&self.request), &self.id, &self.context.session.id);
                return (input, ToolResult::Failed(refused(refusal)));
            }
        };
        let ask = open.ask().cloned();
        let tell = |event: &dyn Fn(&Ask) -> TurnEvent| {
            if let (Some(feed), Some(ask)) = (self.context.feed, &ask) {
                feed.tell(event(ask));
            }
        };
        tell(&|ask| TurnEvent::Asked(Arc::new(ask.into())));
        let is_allowed = open.allowed().await;
        let reply = if is_allowed { Reply::Once } else { Reply::Reject };
        tell(&|ask| TurnEvent::Answered { ask: ask.id.clone(), call: self.call.clone(), reply });
        let is_frontend = open.head().tool.executor == Executor::Frontend;
        if is_allowed && (is_frontend || open.head().input.get() != input.get()) {
            // The receiver outlives this future.
            _ = self.shown.send((self.place, open.head().input.clone()));
        }
        let finished = match open.outcome().await {
            Ok(finished) => finished,
            Err(Refusal::ShuttingDown) => return std::future::pending().await,
            Err(refusal) => return (input, ToolResult::Failed(refused(refusal))),
        };
        (finished.head.input.clone(), result_for_model(&finished))
    }

    /// Runs a server tool, with the bounds of other tools.
    async fn run_here(&self, tool: &dyn ServerTool, input: &RawValue) -> ToolResult {
        let limits = self.context.sessions.hub().limits();
        let invocation = Invocation {
            session: self.context.session,
            message: self.message,
            call: &self.call,
            input,
            tools: self.context.offered,
        };
        let patience = limits.clocks.default_timeout;
        let trail = ServerCall::begin(&self.call, &self.id, &self.context.session.id);
        let run = guarded(TOOL, async { tool.run(invocation).await });
        let (outcome, result) = match tokio::time::timeout(patience, run).await {
            Ok(Ok(Ok(success))) => (OutcomeKind::Success, completed(&success)),
            Ok(Ok(Err(error)) | Err(error)) => (OutcomeKind::Error, ToolResult::Failed(error)),
            Err(_) => {
                let message = format!("The tool timed out after {}ms", patience.as_millis());
                (OutcomeKind::Timeout, ToolResult::Failed(message))
            }
        };
        trail.end(outcome);
        result
    }
}

/// The result that a model is shown for a call that has ended.
pub(crate) fn result_for_model(finished: &FinishedCall) -> ToolResult {
    match &finished.outcome {
        Outcome::Success(success) => completed(success),
        Outcome::Acknowledged(ack) => acknowledged(ack),
        Outcome::Denied(reason) => ToolResult::Denied { reason: reason.clone(), ask: finished.ask.clone() },
        // The same as if the frontend had reported the timeout itself.
        Outcome::Timeout(_) if finished.head.tool.executor == Executor::Frontend => acknowledged(&Ack::timeout()),
        Outcome::Error(error) => ToolResult::Failed(error.clone()),
        other => {
            let failure = other.failure().unwrap_or_default();
            ToolResult::Failed(if finished.may_have_run { failure + MAY_HAVE_RUN } else { failure })
        }
    }
}

/// A frontend's report goes to the model unchanged. A timeout is an answer too, and not a failure of the call.
fn acknowledged(ack: &Ack) -> ToolResult {
    let error = (ack.status == AckStatus::Failed).then(|| ack.failure()).flatten();
    ToolResult::Given { output: ack.payload(), error }
}

fn completed(success: &Success) -> ToolResult {
    ToolResult::Completed {
        title: success.title.clone(),
        output: success.output.clone(),
        metadata: success.metadata.clone(),
        attachments: success.attachments.clone().unwrap_or_default(),
    }
}

/// Reads the model's arguments, if they can be the input of a tool.
pub(super) fn read(arguments: String, deepest: usize) -> Result<Box<RawValue>, String> {
    let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
    let input = match json::read(arguments) {
        Ok(input) if input.get().starts_with('{') => one_line(input),
        Ok(input) => {
            return Err(format!("Invalid input: the arguments must be a JSON object, not {}", short(input.get())));
        }
        Err(error) => return Err(format!("Invalid input: the arguments are not JSON: {error}")),
    };
    if depth(input.get()) > deepest {
        return Err(format!("Invalid input: the arguments are nested more than {deepest} deep"));
    }
    Ok(input)
}

/// The message that a model is shown for a call that was not made.
fn refused(refusal: Refusal) -> String {
    match refusal {
        Refusal::InvalidInput(error) => format!("Invalid input: {error}"),
        Refusal::UnknownTool(tool) => format!("The tool {tool} is no longer there: its client has gone"),
        Refusal::Store(error) => {
            tracing::error!(%error, "a call could not be journaled");
            "The call could not be recorded by the server and was not made".to_owned()
        }
        other => format!("The call was not made: {other}"),
    }
}

fn short(text: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
