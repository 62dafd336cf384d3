//! Messages and their parts. Pure data; stores keep its serde form.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::clock::Time;
use crate::id::{CallId, MessageId, PartId, PermissionId, RequestId, RunId, SessionId};
use crate::store::call::Attachment;
use crate::store::session::ModelRef;
use crate::store::user_message::{NextTurn, OpenTurn, TurnNeeds, UserMessage};

/// A message. An assistant's message is one step of a turn: a turn with tool calls has several.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// The message's id.
    pub id: MessageId,
    /// The session that the message belongs to.
    pub session: SessionId,
    /// When the message was created.
    pub created: Time,
    /// Who speaks, with the fields that depend on that.
    pub role: Role,
    /// The parts of the message, in order.
    pub parts: Vec<Arc<Part>>,
}

impl Message {
    /// Whether this is a user's message that wants an answer.
    pub fn wants_reply(&self) -> bool {
        matches!(&self.role, Role::User(said) if said.wants_reply)
    }

    /// A copy of a user's message for a turn that is retried or continued with these needs.
    pub(crate) fn taken_up(&self, needs: &TurnNeeds) -> Self {
        self.changed(|said| said.needs = needs.clone().or(&said.needs))
    }

    /// A copy of a user's message whose turn this run tells of.
    pub(crate) fn in_run(&self, run: &RunId) -> Arc<Self> {
        Arc::new(self.changed(|said| said.needs.run = Some(run.clone())))
    }

    /// The run that tells of the turn of a user's message.
    pub(crate) fn run(&self) -> Option<&RunId> {
        match &self.role {
            Role::User(said) => said.needs.run.as_ref(),
            Role::Assistant(_) => None,
        }
    }

    /// A copy of a user's message for this turn.
    pub(crate) fn in_turn(&self, turn: OpenTurn) -> Arc<Self> {
        Arc::new(self.changed(|said| said.turn = Some(turn)))
    }

    /// A copy of a user's message whose running turn is continued.
    pub(crate) fn with_next(&self, next: NextTurn) -> Arc<Self> {
        Arc::new(self.changed(|said| said.next = Some(Box::new(next))))
    }

    /// What continues the open turn of a user's message.
    pub(crate) fn next(&self) -> Option<&NextTurn> {
        match &self.role {
            Role::User(said) => said.next.as_deref(),
            Role::Assistant(_) => None,
        }
    }

    /// A copy of a user's message for the turn that continues its open one.
    pub(crate) fn in_next(&self) -> Option<Arc<Self>> {
        let NextTurn { after, needs } = self.next()?.clone();
        let since = self.turn()?.since;
        Some(Arc::new(self.changed(|said| {
            (said.turn, said.needs, said.next) = (Some(OpenTurn::new(since, Some(after))), needs, None);
        })))
    }

    /// A copy of a user's message as it is stored after its turn, which ended with this answer: the turn is continued if
    /// that answer has calls whose results are here, and otherwise only what outlasts it is kept.
    pub(crate) fn after_turn(&self, last: Option<&Self>) -> Arc<Self> {
        if let (Some(next), Some(last)) = (self.next(), last)
            && last.parts.iter().any(|part| part.is_yielded() && part.is_call_of(&next.needs.results))
            && let Some(continued) = self.in_next()
        {
            return continued;
        }
        Arc::new(self.changed(|said| {
            (said.turn, said.next) = (None, None);
            said.needs.shrink();
        }))
    }

    fn changed(&self, change: impl FnOnce(&mut UserMessage)) -> Self {
        let mut message = self.clone();
        if let Role::User(said) = &mut message.role {
            change(said);
        }
        message
    }

    /// The open turn that answers a user's message.
    pub fn turn(&self) -> Option<&OpenTurn> {
        match &self.role {
            Role::User(said) => said.turn.as_ref(),
            Role::Assistant(_) => None,
        }
    }

    /// The user's message that this one answers, if it is an answer.
    pub fn answers(&self) -> Option<&MessageId> {
        match &self.role {
            Role::Assistant(said) => Some(&said.parent),
            Role::User(_) => None,
        }
    }

    /// A copy of the message without its parts, for events that send the parts separately.
    pub(crate) fn without_parts(&self) -> Self {
        let Self { id, session, created, role, parts: _ } = self;
        Self { id: id.clone(), session: session.clone(), created: *created, role: role.clone(), parts: Vec::new() }
    }

    /// Whether this is an answer that is no longer being written.
    pub fn is_complete(&self) -> bool {
        matches!(&self.role, Role::Assistant(said) if said.completed.is_some())
    }

    /// Why the turn ended early with this message, if it did.
    pub fn error(&self) -> Option<&TurnError> {
        match &self.role {
            Role::Assistant(said) => said.error.as_ref(),
            Role::User(_) => None,
        }
    }

    /// Whether the turn broke off with this message: it failed, or the model did not see the results of its calls.
    pub fn broke_off(&self) -> bool {
        let has = |is_it: fn(&Part) -> bool| self.parts.iter().any(|part| is_it(part));
        self.error().is_some() || (has(Part::is_call) && !has(Part::is_yielded))
    }

    /// Whether the turn failed with this message before it made any call.
    pub fn failed_without_calls(&self) -> bool {
        self.error().is_some() && !self.parts.iter().any(|part| part.is_call())
    }
}

/// Who speaks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Role {
    /// Whoever talks to the model.
    User(UserMessage),
    /// The model.
    Assistant(AssistantMessage),
}

/// The fields of an assistant's message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The user's message that this one answers.
    pub parent: MessageId,
    /// The agent that answers.
    pub agent: SmolStr,
    /// The model that answers.
    pub model: ModelRef,
    /// When the message was complete; `None` while it is being written.
    pub completed: Option<Time>,
    /// Why the model stopped.
    pub finish: Option<StopReason>,
    /// The tokens that it used.
    pub usage: Usage,
    /// Why the turn ended early with this message, if it did.
    pub error: Option<TurnError>,
    /// A value that the provider wants back with the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// A value that a provider wants back unchanged with what its model said. It is JSON that only the code of that
/// provider reads, and it is never sent to anybody else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kept(Box<RawValue>);

impl Kept {
    /// Wraps a value.
    pub fn new(value: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// Returns the value, if it has the form of `T`.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// The length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.get().len()
    }
}

impl PartialEq for Kept {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for Kept {}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StopReason {
    /// The model had nothing more to say.
    Stop,
    /// The model wants tools to be run.
    ToolCalls,
    /// The model ran out of tokens.
    Length,
    /// The provider's filter stopped the model.
    ContentFilter,
    /// The model stopped for another reason.
    Other,
}

impl StopReason {
    /// The reason's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::ToolCalls => "tool-calls",
            Self::Length => "length",
            Self::ContentFilter => "content-filter",
            Self::Other => "other",
        }
    }
}

/// Numbers of tokens. `input` does not include those read from or written to a cache, and `output` does not include
/// those of reasoning. `None` if the provider does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that the model read.
    pub input: u64,
    /// Tokens that the model wrote.
    pub output: u64,
    /// Tokens that the model wrote as reasoning.
    pub reasoning: Option<u64>,
    /// Tokens that were read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Tokens that were written to the provider's cache.
    pub cache_write: Option<u64>,
}

impl Usage {
    /// All tokens that the model read.
    pub fn read(&self) -> u64 {
        [self.cache_read, self.cache_write].into_iter().flatten().fold(self.input, u64::saturating_add)
    }

    /// The sum of both, as far as they are known.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let sum = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).reduce(u64::saturating_add);
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            reasoning: sum(self.reasoning, other.reasoning),
            cache_read: sum(self.cache_read, other.cache_read),
            cache_write: sum(self.cache_write, other.cache_write),
        }
    }

    /// All tokens that the model wrote.
    pub fn written(&self) -> u64 {
        self.output.saturating_add(self.reasoning.unwrap_or_default())
    }
}

/// Why a turn ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnError {
    /// Somebody stopped the turn.
    Aborted(String),
    /// The provider rejects the server's key.
    Auth {
        /// The provider.
        provider: SmolStr,
        /// What the provider says.
        message: String,
    },
    /// The provider failed.
    Provider {
        /// What happened.
        message: String,
        /// The HTTP status of the provider's answer.
        status: Option<u16>,
        /// Whether a retry may help.
        retryable: bool,
    },
    /// The server stopped during the turn.
    Stopped(String),
    /// The turn was not run, or not to its end, for a reason that has a code.
    Refused {
        /// The code.
        code: SmolStr,
        /// What happened.
        message: String,
    },
    /// Anything else: too many steps, the same call again and again, or a fault of the server.
    Other(String),
}

impl TurnError {
    /// The kind of the error as a word, for metrics and the log.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Aborted(_) => "aborted",
            Self::Auth { .. } => "auth",
            Self::Provider { .. } => "provider",
            Self::Stopped(_) => "stopped",
            Self::Refused { .. } => "refused",
            Self::Other(_) => "error",
        }
    }

    /// The status that the provider failed with.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Provider { status, .. } => *status,
            _ => None,
        }
    }

    /// What happened, as text.
    pub fn message(&self) -> &str {
        match self {
            Self::Aborted(message) | Self::Stopped(message) | Self::Other(message) => message,
            Self::Auth { message, .. } | Self::Provider { message, .. } | Self::Refused { message, .. } => message,
        }
    }
}

/// A part of a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Part {
    /// The part's id.
    pub id: PartId,
    /// The part's content.
    pub body: PartBody,
}

impl Part {
    /// Whether the part is a tool call.
    pub fn is_call(&self) -> bool {
        matches!(self.body, PartBody::Tool(_))
    }

    /// Whether people can see something of the part. A provider may hide its reasoning from everybody but itself.
    pub fn is_shown(&self) -> bool {
        !matches!(&self.body, PartBody::Reasoning { text, .. } if text.is_empty())
    }

    /// Whether the part is a call that ended, well or badly, before its turn did.
    pub fn is_completed_call(&self) -> bool {
        matches!(&self.body, PartBody::Tool(ToolPart { state: ToolState::Done { .. }, is_cut: false, .. }))
    }

    /// Whether the part is a call that is yielded to the page.
    pub fn is_yielded(&self) -> bool {
        matches!(&self.body, PartBody::Tool(ToolPart { state: ToolState::Yielded { .. }, .. }))
    }

    /// Whether the part is a call that is running, or waits to be allowed.
    pub fn is_running(&self) -> bool {
        matches!(&self.body, PartBody::Tool(ToolPart { state: ToolState::Running { .. }, .. }))
    }

    /// Whether the part is a call with one of these results.
    pub(crate) fn is_call_of(&self, results: &[(CallId, ToolResult)]) -> bool {
        matches!(&self.body, PartBody::Tool(tool) if results.iter().any(|(call, _)| *call == tool.call))
    }

    /// Replaces the result of a call, because its real result became known late.
    pub(crate) fn recall(&mut self, given: ToolResult) {
        if let PartBody::Tool(ToolPart { state: ToolState::Done { result, .. }, is_cut, .. }) = &mut self.body {
            (*result, *is_cut) = (given, false);
        }
    }

    /// Ends a yielded call with the page's result, or as failed. Returns whether the part is a yielded call.
    pub(crate) fn answer(self: &mut Arc<Self>, results: &[(CallId, ToolResult)], now: Time) -> bool {
        if !self.is_yielded() {
            return false;
        }
        let PartBody::Tool(tool) = &mut Arc::make_mut(self).body else { return false };
        let ToolState::Yielded { input, start } = &tool.state else { return false };
        let given = results.iter().find(|(call, _)| *call == tool.call).map(|(_, result)| result.clone());
        let result = given.unwrap_or_else(|| ToolResult::Failed("The page did not run this call".to_owned()));
        tool.state = ToolState::Done { input: input.clone(), start: *start, end: now, result };
        true
    }
}

/// The content of a part.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PartBody {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// When it began and ended.
        span: Span,
    },
    /// The model's reasoning.
    Reasoning {
        /// The text.
        text: String,
        /// A value that the provider wants back with the text. Earlier versions stored a signature here, as one kind.
        #[serde(rename = "signature")]
        kept: Option<Kept>,
        /// When it began and ended.
        span: Span,
    },
    /// A file from the user.
    File(Attachment),
    /// A tool call.
    Tool(ToolPart),
    /// A step begins.
    StepStart,
    /// A step ends.
    StepFinish {
        /// Why the model stopped.
        reason: StopReason,
        /// The tokens that it used.
        usage: Usage,
    },
}

/// When something began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// When it began.
    pub start: Time,
    /// When it ended; `None` while it goes on.
    pub end: Option<Time>,
}

/// A tool call of a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolPart {
    /// The server's own unique id of the call.
    pub call: CallId,
    /// The provider's id of the call, which is sent back unchanged.
    pub provider_call: String,
    /// The model's name for the tool.
    pub alias: SmolStr,
    /// The tool's full id; the same as `alias` when there is no such tool.
    pub tool: SmolStr,
    /// The id of the call that a client or frontend was given, if there is one.
    pub request: Option<RequestId>,
    /// Whether the turn broke off before the call was over. Its result was unknown at that time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Whether the model was cut off while it wrote the call. Such a call is never made, and not sent to a model again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_half_said: bool,
    /// A value that the provider wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// The state of the call.
    pub state: ToolState,
}

/// The state of a model's tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToolState {
    /// The model is writing the arguments.
    Pending {
        /// The arguments so far.
        raw: String,
    },
    /// The call is running, or waits to be allowed.
    Running {
        /// The input.
        input: Box<RawValue>,
        /// When the call began.
        start: Time,
    },
    /// The call is yielded to the page: the turn has ended, and the next request brings the result.
    Yielded {
        /// The input.
        input: Box<RawValue>,
        /// When the call began.
        start: Time,
    },
    /// The call is over.
    Done {
        /// The input, an object. It is empty if the model wrote no valid object.
        input: Box<RawValue>,
        /// When the call began.
        start: Time,
        /// When the call ended.
        end: Time,
        /// The call's result.
        result: ToolResult,
    },
}

/// The result of a tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToolResult {
    /// The tool ran.
    Completed {
        /// A short title for people.
        title: String,
        /// The output, for the model.
        output: String,
        /// A JSON object with whatever else the tool returned.
        metadata: Option<Box<RawValue>>,
        /// Files that belong to the output.
        attachments: Vec<Attachment>,
    },
    /// A frontend or a page gave the result.
    Given {
        /// The result for the model, any JSON.
        output: Box<RawValue>,
        /// What went wrong, if the frontend or page reports a failure.
        error: Option<String>,
    },
    /// The call was not allowed.
    Denied {
        /// The reason, for people and the model.
        reason: String,
        /// The ask that was rejected or that nobody answered; `None` if nobody was asked.
        ask: Option<PermissionId>,
    },
    /// The call failed, was refused, or never ran. The text is for people and the model.
    Failed(String),
}

impl ToolPart {
    /// Whether a frontend runs the call: it has the session's own id of it.
    pub(crate) fn is_of_frontend(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.as_str() == self.call.as_str())
    }

    /// The arguments as the model wrote them, or as they were replaced.
    pub fn arguments(&self) -> &str {
        match &self.state {
            ToolState::Pending { raw } => raw,
            ToolState::Running { input, .. } | ToolState::Yielded { input, .. } | ToolState::Done { input, .. } => {
                input.get()
            }
        }
    }

    /// The result for the model: text of at most about `most` bytes, and whether the call failed.
    pub fn result_for_model(&self, most: usize) -> (String, bool) {
        match &self.state {
            ToolState::Pending { .. } | ToolState::Running { .. } => {
                ("The turn ended before this call was over; its outcome is unknown.".to_owned(), true)
            }
            ToolState::Yielded { .. } => {
                ("The page did not answer this call; its outcome is unknown.".to_owned(), true)
            }
            ToolState::Done {
                result: ToolResult::Failed(error) | ToolResult::Denied { reason: error, .. }, ..
            } => (cut(error, most), true),
            ToolState::Done { result: ToolResult::Given { output, error }, .. } => {
                let said = serde_json::from_str::<String>(output.get());
                (cut(said.as_deref().unwrap_or(output.get()), most), error.is_some())
            }
            ToolState::Done { result: ToolResult::Completed { output, .. }, .. } => (cut(output, most), false),
        }
    }

    /// Files that belong to the result.
    pub fn attachments(&self) -> &[Attachment] {
        match &self.state {
            ToolState::Done { result: ToolResult::Completed { attachments, .. }, .. } => attachments,
            _ => &[],
        }
    }
}

/// Returns the text, or its beginning with a note that it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n\n[cut: {} of {} bytes are shown]", &text[..end], end, text.len())
}
