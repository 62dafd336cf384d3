//! The calls of a step: all at once, each on its own, whatever becomes of the others.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::value::RawValue;
use smol_str::SmolStr;

use super::draft::Draft;
use crate::agent::Agent;
use crate::call::{FinishedCall, Outcome, Success};
use crate::clock::Time;
use crate::delegate::{NewCall, Origin, Refusal};
use crate::id::{CallId, MessageId, RequestId};
use crate::message::{Session, ToolResult, ToolState};
use crate::policy::Permission;
use crate::schema::{depth, one_line};
use crate::sessions::Sessions;
use crate::tool::Tool;
use crate::toolbox::{Before, HookedCall, Invocation, Offered, Place, ServerTool, guarded};

/// What panics, in words.
const TOOL: &str = "The tool";

/// The calls of a step, in the model's order.
pub(super) type Calls = Vec<ReadyCall>;

/// A call that the model wants.
pub(super) struct ReadyCall {
    /// Its place among the parts of the message.
    pub(super) place: usize,
    pub(super) call: CallId,
    pub(super) alias: SmolStr,
    /// The tool, if there is one of that name.
    pub(super) tool: Option<usize>,
    pub(super) arguments: String,
}

/// A call that is over.
pub(super) struct Over {
    pub(super) place: usize,
    pub(super) input: Box<RawValue>,
    pub(super) start: Time,
    pub(super) result: ToolResult,
}

/// A call that is not made.
struct NotMade {
    /// The input, as far as it can be shown.
    input: Box<RawValue>,
    /// What the model is told.
    reason: String,
}

/// What calls are made with.
pub(super) struct CallContext<'a> {
    pub(super) sessions: &'a Sessions,
    pub(super) session: &'a Arc<Session>,
    pub(super) agent: &'a Agent,
    pub(super) offered: &'a [Offered],
}

/// A call on its way.
struct Call<'a> {
    context: &'a CallContext<'a>,
    message: &'a MessageId,
    call: CallId,
    request: RequestId,
}

impl CallContext<'_> {
    /// Makes the calls; their parts say what becomes of them, as it happens.
    pub(super) async fn make(&self, draft: &mut Draft, calls: Calls, refused: Vec<bool>) {
        let message = draft.id().clone();
        let clock = self.sessions.clock();
        let (mut running, mut not_made) = (FuturesUnordered::new(), Vec::new());
        for (ready, refused) in calls.into_iter().zip(refused) {
            let ReadyCall { place, call, alias, tool, arguments } = ready;
            let (start, request) = (clock.time(), clock.request_id());
            let (input, on_client) = match self.prepare(&alias, tool, arguments, refused) {
                Ok((tool, input)) => {
                    let shown = (input.clone(), matches!(tool.place, Place::Client(_)).then(|| request.clone()));
                    let call = Call { context: self, message: &message, call, request };
                    // Boxed: they wait long, and most steps have one.
                    running.push(Box::pin(async move {
                        let (input, result) = call.run(tool, input).await;
                        Over { place, input, start, result }
                    }));
                    shown
                }
                Err(NotMade { input, reason }) => {
                    let result = ToolResult::Failed(reason);
                    not_made.push(Over { place, input: input.clone(), start, result });
                    (input, None)
                }
            };
            draft.run(place, on_client.as_ref(), ToolState::Running { input, start });
        }
        // Kept before any of them is made, and told when it is.
        draft.keep().await;
        draft.tell_running();
        not_made.into_iter().for_each(|over| draft.over(over));
        loop {
            tokio::select! {
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

    /// The tool and the input of a call, if it can be made.
    fn prepare(
        &self,
        alias: &str,
        tool: Option<usize>,
        arguments: String,
        refused: bool,
    ) -> Result<(&Offered, Box<RawValue>), NotMade> {
        let arguments = if arguments.trim().is_empty() { "{}".to_owned() } else { arguments };
        let input = match RawValue::from_string(arguments) {
            Ok(input) if input.get().starts_with('{') => one_line(input),
            Ok(input) => {
                let reason = format!("Invalid input: the arguments must be a JSON object, not {}", short(input.get()));
                return Err(NotMade { input: empty_object(), reason });
            }
            Err(error) => {
                let reason = format!("Invalid input: the arguments are not JSON: {error}");
                return Err(NotMade { input: empty_object(), reason });
            }
        };
        let deepest = self.sessions.hub().limits().input_depth;
        if depth(input.get()) > deepest {
            let reason = format!("Invalid input: the arguments are nested more than {deepest} deep");
            return Err(NotMade { input: empty_object(), reason });
        }
        if refused {
            let reason = "This call was made several times in a row with the same input, and was not made again. \
                          Do something else, or answer with what you have.";
            return Err(NotMade { input, reason: reason.to_owned() });
        }
        match tool.and_then(|tool| self.offered.get(tool)) {
            Some(tool) => Ok((tool, input)),
            None => {
                let known: Vec<&str> = self.offered.iter().map(|tool| tool.alias.as_str()).take(32).collect();
                let reason = format!("There is no tool {}. There is: {}", short(alias), known.join(", "));
                Err(NotMade { input, reason })
            }
        }
    }
}

impl Call<'_> {
    /// Runs a call past the hooks; gives the input that counted in the end, and what came of it.
    async fn run(&self, tool: &Offered, input: Box<RawValue>) -> (Box<RawValue>, ToolResult) {
        let mut input = input;
        let hooks = &self.context.sessions.setup().hooks;
        for hook in hooks {
            match guarded(TOOL, async { hook.before(self.hooked(tool, &input)).await }).await {
                Ok(Before::Go) => {}
                Ok(Before::Change(changed)) => input = one_line(changed),
                Ok(Before::Refuse(reason)) | Err(reason) => return (input, ToolResult::Failed(reason)),
            }
        }
        let (input, mut result) = match &tool.place {
            Place::Client(client) => self.delegate(client, input).await,
            Place::Server(server) => {
                let result = self.run_here(&**server, &input).await;
                (input, result)
            }
        };
        for hook in hooks {
            result = match guarded(TOOL, async { hook.after(self.hooked(tool, &input), result).await }).await {
                Ok(result) => result,
                Err(reason) => ToolResult::Failed(reason),
            };
        }
        (input, result)
    }

    fn hooked<'b>(&'b self, tool: &'b Offered, input: &'b RawValue) -> HookedCall<'b> {
        HookedCall { session: self.context.session, call: &self.call, tool: tool.id(), input }
    }

    /// A client runs it: this is where a session meets the line.
    async fn delegate(&self, tool: &Tool, input: Box<RawValue>) -> (Box<RawValue>, ToolResult) {
        let hub = self.context.sessions.hub();
        let new = NewCall {
            tool: tool.id.as_str().to_owned(),
            client: Some(tool.client.clone()),
            request: Some(self.request.clone()),
            session: self.context.session.id.clone(),
            message: self.message.clone(),
            call: self.call.clone(),
            input: input.clone(),
            timeout: None,
            origin: Origin::Model,
            permission: self.permission(tool),
        };
        match hub.open(new).await {
            Ok(open) => {
                let finished = open.outcome().await;
                (finished.head.input.clone(), told(&finished))
            }
            Err(refusal) => (input, ToolResult::Failed(refused(refusal))),
        }
    }

    fn permission(&self, tool: &Tool) -> Permission {
        let permission = self.context.agent.policy.decide(tool.id.as_str());
        if permission == Permission::Ask
            && self.context.sessions.is_approved(&self.context.session.id, tool.id.as_str())
        {
            return Permission::Allow;
        }
        permission
    }

    /// The server's own tool, bounded as others are.
    async fn run_here(&self, tool: &dyn ServerTool, input: &RawValue) -> ToolResult {
        let limits = self.context.sessions.hub().limits();
        if let Err(error) = tool.spec().schema.check(input, limits) {
            return ToolResult::Failed(format!("Invalid input: {error}"));
        }
        let invocation = Invocation {
            session: self.context.session,
            message: self.message,
            call: &self.call,
            input,
            tools: self.context.offered,
        };
        let run = guarded(TOOL, async { tool.run(invocation).await });
        match tokio::time::timeout(limits.default_timeout, run).await {
            Ok(Ok(Ok(success))) => completed(&success),
            Ok(Ok(Err(error)) | Err(error)) => ToolResult::Failed(error),
            Err(_) => ToolResult::Failed(format!("The tool timed out after {}ms", limits.default_timeout.as_millis())),
        }
    }
}

/// What a model is told of a call that is over.
fn told(finished: &FinishedCall) -> ToolResult {
    match &finished.outcome {
        Outcome::Success(success) => completed(success),
        other => ToolResult::Failed(other.failure().unwrap_or_default()),
    }
}

fn completed(success: &Success) -> ToolResult {
    ToolResult::Completed {
        title: success.title.clone(),
        output: success.output.clone(),
        metadata: success.metadata.clone(),
        attachments: success.attachments.clone().unwrap_or_default(),
    }
}

/// What a model is told of a call that was not made.
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

/// The input of a call whose arguments cannot be shown.
pub(super) fn empty_object() -> Box<RawValue> {
    serde_json::value::to_raw_value(&serde_json::Map::new()).unwrap_or_default()
}

fn short(text: &str) -> String {
    let shown: String = text.chars().take(60).collect();
    if shown.len() < text.len() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
