//! A session, its messages, and the parts that they are made of. Pure data; its serde form is what stores keep.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::clock::Time;
use crate::id::{CallId, ClientId, InvalidId, MessageId, PartId, PermissionId, RequestId, SessionId};
use crate::store::call::Attachment;
use crate::store::user_message::{TurnNeeds, UserMessage};

/// The agent that answers when none is named.
pub const DEFAULT_AGENT: &str = "default";

/// A conversation with a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// The client whose tools it has; nobody else may use the session then.
    pub client: Option<ClientId>,
    /// A heading for people.
    pub title: String,
    /// The session that it came from.
    pub parent: Option<SessionId>,
    /// The agent, when a message does not name one.
    pub agent: Option<SmolStr>,
    /// The model, when a message does not name one.
    pub model: Option<ModelRef>,
    /// Whatever its maker wants to keep with it, an object.
    pub metadata: Option<Box<RawValue>>,
    /// Whether a frontend shows it, which can run the tools of frontends.
    #[serde(default)]
    pub has_frontend: bool,
    /// Full ids of tools that were allowed for as long as the session lives.
    pub approved: BTreeSet<String>,
    /// When it was made.
    pub created: Time,
    /// When something last happened in it.
    pub updated: Time,
}

impl Session {
    /// The agent that answers, where a message names none.
    pub fn agent_name(&self) -> &str {
        self.agent.as_deref().unwrap_or(DEFAULT_AGENT)
    }
}

/// A model by its provider and its name there: `providerID/modelID`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    /// The provider.
    pub provider: SmolStr,
    /// The model's name, which may contain slashes.
    pub model: SmolStr,
}

impl ModelRef {
    /// Takes both names as they are, if there is something to them.
    pub fn new(provider: &str, model: &str) -> Result<Self, InvalidId> {
        let allowed = |text: &str| (1..=256).contains(&text.len()) && !text.chars().any(char::is_control);
        if allowed(provider) && allowed(model) && !provider.contains('/') {
            Ok(Self { provider: provider.into(), model: model.into() })
        } else {
            Err(InvalidId::new("model", &format!("{provider}/{model}"), "providerID/modelID".to_owned()))
        }
    }

    /// Reads `providerID/modelID`.
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        let (provider, model) = text.split_once('/').unwrap_or((text, ""));
        Self::new(provider, model)
    }
}

impl fmt::Display for ModelRef {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.provider, self.model)
    }
}

/// One message. An assistant's message is one step of a turn: a turn with tool calls has several.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The session that it belongs to.
    pub session: SessionId,
    /// When it was made.
    pub created: Time,
    /// Who speaks.
    pub role: Role,
    /// What it is made of, in order.
    pub parts: Vec<Arc<Part>>,
}

impl Message {
    /// Whether it is a user's message that wants an answer.
    pub fn wants_reply(&self) -> bool {
        matches!(&self.role, Role::User(said) if said.wants_reply)
    }

    /// The same message of a user, when its turn is taken up again with these needs.
    pub(crate) fn taken_up(&self, needs: &TurnNeeds) -> Self {
        let mut message = self.clone();
        if let Role::User(said) = &mut message.role {
            said.needs = needs.clone().or(&said.needs);
        }
        message
    }

    /// The same message of a user, as it is stored once its turn is over, if that is less.
    pub(crate) fn after_turn(&self) -> Option<Self> {
        let Role::User(said) = &self.role else { return None };
        let needs = said.needs.after_turn()?;
        Some(Self { role: Role::User(UserMessage { needs, ..said.clone() }), ..self.clone() })
    }

    /// The user's message that it answers, if it is an answer.
    pub fn answers(&self) -> Option<&MessageId> {
        match &self.role {
            Role::Assistant(said) => Some(&said.parent),
            Role::User(_) => None,
        }
    }

    /// The message alone, where its parts are told apart from it.
    pub(crate) fn without_parts(&self) -> Self {
        let Self { id, session, created, role, parts: _ } = self;
        Self { id: id.clone(), session: session.clone(), created: *created, role: role.clone(), parts: Vec::new() }
    }

    /// Whether it is an answer that is no longer being written.
    pub fn is_complete(&self) -> bool {
        matches!(&self.role, Role::Assistant(said) if said.completed.is_some())
    }

    /// Why the turn ended here, if it did so early.
    pub fn error(&self) -> Option<&TurnError> {
        match &self.role {
            Role::Assistant(said) => said.error.as_ref(),
            Role::User(_) => None,
        }
    }

    /// Whether the turn did not end here by itself: it failed, or nothing was said to the results of calls.
    pub fn broke_off(&self) -> bool {
        let has = |is_it: fn(&Part) -> bool| self.parts.iter().any(|part| is_it(part));
        self.error().is_some() || (has(Part::is_call) && !has(Part::is_yielded))
    }

    /// Whether the turn failed here, before any call was made.
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

/// What an assistant's message says besides its parts.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The user's message that it answers.
    pub parent: MessageId,
    /// The agent that answers.
    pub agent: SmolStr,
    /// The model that answers.
    pub model: ModelRef,
    /// When it was complete; `None` while it is being written.
    pub completed: Option<Time>,
    /// Why the model stopped.
    pub finish: Option<StopReason>,
    /// What it cost in tokens.
    pub usage: Usage,
    /// Why the turn ended here, if it did so early.
    pub error: Option<TurnError>,
    /// What the provider wants back with the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
}

/// What a provider wants back, unchanged, with what its model said: JSON that only the code of that provider reads. It
/// never goes to anybody else.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kept(Box<RawValue>);

impl Kept {
    /// Keeps a value.
    pub fn new(value: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::value::to_raw_value(value).map(Self)
    }

    /// The value, if it is one of that kind.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }

    /// How many bytes it has.
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
    /// It had said what it had to say.
    Stop,
    /// It wants tools to be run.
    ToolCalls,
    /// It ran out of tokens.
    Length,
    /// The provider's filter stopped it.
    ContentFilter,
    /// Something else.
    Other,
}

impl StopReason {
    /// Its name on the wire.
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

/// Tokens that were used. Those read from and written to a cache are not part of `input`; those of reasoning are not
/// part of `output`. `None` where the provider does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// Read.
    pub input: u64,
    /// Written.
    pub output: u64,
    /// Written while thinking.
    pub reasoning: Option<u64>,
    /// Read from the provider's cache.
    pub cache_read: Option<u64>,
    /// Put into the provider's cache.
    pub cache_write: Option<u64>,
}

impl Usage {
    /// All tokens that were read.
    pub fn read(&self) -> u64 {
        [self.cache_read, self.cache_write].into_iter().flatten().fold(self.input, u64::saturating_add)
    }

    /// What two answers used together, as far as they say.
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

    /// All tokens that were written.
    pub fn written(&self) -> u64 {
        self.output.saturating_add(self.reasoning.unwrap_or_default())
    }
}

/// Why a turn ended early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnError {
    /// Somebody stopped it.
    Aborted(String),
    /// The provider refuses our key.
    Auth {
        /// The provider.
        provider: SmolStr,
        /// What it says.
        message: String,
    },
    /// The provider failed.
    Provider {
        /// What happened.
        message: String,
        /// The status that it answered with.
        status: Option<u16>,
        /// Whether another try may help.
        retryable: bool,
    },
    /// The server stopped while the turn was under way.
    Stopped(String),
    /// It was not run, or not to its end, for a reason that programs know by a code.
    Refused {
        /// The code.
        code: SmolStr,
        /// What happened.
        message: String,
    },
    /// Anything else: too many steps, the same call over and over, our own fault.
    Other(String),
}

impl TurnError {
    /// What happened, in words.
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
    /// Its id.
    pub id: PartId,
    /// What it is.
    pub body: PartBody,
}

impl Part {
    /// Whether it is a tool call.
    pub fn is_call(&self) -> bool {
        matches!(self.body, PartBody::Tool(_))
    }

    /// Whether there is anything for people to see. A provider may hide a thought from everybody but itself.
    pub fn is_shown(&self) -> bool {
        !matches!(&self.body, PartBody::Reasoning { text, .. } if text.is_empty())
    }

    /// Whether it is a call that came to an end before its turn did, well or badly.
    pub fn is_completed_call(&self) -> bool {
        matches!(&self.body, PartBody::Tool(ToolPart { state: ToolState::Done { .. }, is_cut: false, .. }))
    }

    /// Whether it is a call that is the page's to run.
    pub fn is_yielded(&self) -> bool {
        matches!(&self.body, PartBody::Tool(ToolPart { state: ToolState::Yielded { .. }, .. }))
    }

    /// Whether it is one of these calls.
    pub(crate) fn is_call_of(&self, results: &[(CallId, ToolResult)]) -> bool {
        matches!(&self.body, PartBody::Tool(tool) if results.iter().any(|(call, _)| *call == tool.call))
    }

    /// What came of a call is known after all.
    pub(crate) fn recall(&mut self, given: ToolResult) {
        if let PartBody::Tool(ToolPart { state: ToolState::Done { result, .. }, is_cut, .. }) = &mut self.body {
            (*result, *is_cut) = (given, false);
        }
    }

    /// Ends a call that was the page's to run with what the page says of it; says whether this is one.
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

/// What a part is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum PartBody {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// When it began and ended.
        span: Span,
    },
    /// What the model thought.
    Reasoning {
        /// The text.
        text: String,
        /// What the provider wants back with the text. Earlier versions stored its signature here, which is one kind.
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
        /// What it cost.
        usage: Usage,
    },
}

/// When something began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Its beginning.
    pub start: Time,
    /// Its end; `None` while it goes on.
    pub end: Option<Time>,
}

/// A tool call of a model.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ToolPart {
    /// Our own id of the call, unique.
    pub call: CallId,
    /// The provider's id of the call, which goes back to it unchanged.
    pub provider_call: String,
    /// What the model called the tool.
    pub alias: SmolStr,
    /// The tool's full id; the same as `alias` when there is no such tool.
    pub tool: SmolStr,
    /// The call that a client was given, if it came to that.
    pub request: Option<RequestId>,
    /// Whether its turn broke off before it was over: what came of it was not known then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut: bool,
    /// Whether the model was cut off while it wrote the call. Such a call was never made, and is not sent to a model again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_half_said: bool,
    /// What the provider wants back with the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<Kept>,
    /// Where it stands.
    pub state: ToolState,
}

/// Where a model's tool call stands.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToolState {
    /// The model writes its arguments.
    Pending {
        /// The arguments so far.
        raw: String,
    },
    /// It is being run, or waits to be allowed.
    Running {
        /// The input.
        input: Box<RawValue>,
        /// Since when.
        start: Time,
    },
    /// It is the page's to run: the turn has ended, and the next request brings what came of it.
    Yielded {
        /// The input.
        input: Box<RawValue>,
        /// Since when.
        start: Time,
    },
    /// It is over.
    Done {
        /// The input, an object; an empty one when what the model wrote is none.
        input: Box<RawValue>,
        /// When it began.
        start: Time,
        /// When it ended.
        end: Time,
        /// What came of it.
        result: ToolResult,
    },
}

/// What came of a tool call.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum ToolResult {
    /// The tool ran.
    Completed {
        /// A short heading for people.
        title: String,
        /// The output, for the model.
        output: String,
        /// Whatever else the tool passed on, an object.
        metadata: Option<Box<RawValue>>,
        /// Files that belong to the output.
        attachments: Vec<Attachment>,
    },
    /// A frontend or a page says what came of it.
    Given {
        /// What it gave, any JSON, for the model.
        output: Box<RawValue>,
        /// What went wrong, if it says that something did.
        error: Option<String>,
    },
    /// It was not allowed.
    Denied {
        /// Why, for people and the model.
        reason: String,
        /// The question that was answered with no, or by nobody; `None` if nobody was asked.
        ask: Option<PermissionId>,
    },
    /// It failed, was refused, or never ran; this says what happened, to people and to the model.
    Failed(String),
}

impl ToolPart {
    /// The arguments as the model wrote them, or as they were replaced.
    pub fn arguments(&self) -> &str {
        match &self.state {
            ToolState::Pending { raw } => raw,
            ToolState::Running { input, .. } | ToolState::Yielded { input, .. } | ToolState::Done { input, .. } => {
                input.get()
            }
        }
    }

    /// What the model is told: text of at most about so many bytes, and whether it is a failure.
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

    /// Files that came with the result.
    pub fn attachments(&self) -> &[Attachment] {
        match &self.state {
            ToolState::Done { result: ToolResult::Completed { attachments, .. }, .. } => attachments,
            _ => &[],
        }
    }
}

/// A text that is not too long, or its beginning with a note that it was cut.
fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most);
    format!("{}\n\n[cut: {} of {} bytes are shown]", &text[..end], end, text.len())
}
