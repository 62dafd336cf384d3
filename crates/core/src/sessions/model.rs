//! A model: it is shown a conversation and tools, and streams what it says.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use smol_str::SmolStr;

use crate::id::SessionId;
use crate::store::{Kept, Message, ModelRef, StopReason, TurnError, Usage};
use crate::tools::ModelTool;

/// What a model is shown. Only borrowed: whatever a model keeps for its stream it takes before it returns.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The model's name at its provider.
    pub model: &'a str,
    /// The session, for providers that cache by it.
    pub session: &'a SessionId,
    /// Instructions.
    pub system: Option<&'a str>,
    /// What was said before: each user's message followed by its answers.
    pub earlier: &'a [Arc<Message>],
    /// The rest of the conversation; the last is what is to be answered, or the last step with the results of its calls.
    pub messages: &'a [Arc<Message>],
    /// The tools that may be called.
    pub tools: &'a [ModelTool<'a>],
    /// How many bytes of a tool's output are shown.
    pub most_output: usize,
}

/// What a model says, piece by piece. Calls are told apart by `index`: any number, new for each call of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More of the answer.
    Text(String),
    /// More of what it thinks.
    Reasoning(String),
    /// A thought is complete, and goes back to the provider with this. Without it a thought stays here.
    Thought(Kept),
    /// It begins to call a tool.
    CallStarted {
        /// Which call.
        index: usize,
        /// The provider's id of it; empty if it gives none.
        id: String,
        /// The tool, as the model calls it.
        name: String,
    },
    /// More of a call's arguments.
    Arguments {
        /// Which call.
        index: usize,
        /// The piece, exactly as it came.
        delta: String,
    },
    /// A call's arguments are complete.
    CallEnded {
        /// Which call.
        index: usize,
        /// What goes back to the provider with the call.
        kept: Option<Kept>,
    },
    /// What goes back to the provider with the whole answer.
    Kept(Kept),
    /// The provider begins its answer anew: nothing that came before counts.
    Restarted,
    /// Tokens used by this answer, all of them; a later one replaces an earlier one.
    Usage(Usage),
    /// The answer is complete. A stream that ends without it was cut.
    Stop(StopReason),
}

/// What a model streams. Dropping it stops the model.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, TurnError>> + Send>>;

/// A provider of models.
///
/// Guarantees: `stream` returns at once; nothing is asked of the provider before the stream is polled or after it is
/// dropped. A stream ends after `Stop` or after an error, always, in bounded time: a provider that stalls is an error.
/// Failures before the first event may have been tried again; after it nothing is ever repeated. The pieces of a call's
/// arguments, put together, are exactly what the model wrote.
pub trait Model: Send + Sync + 'static {
    /// Answers a conversation.
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream;
}

/// The providers, by name.
#[derive(Clone, Default)]
pub struct Models(BTreeMap<SmolStr, Arc<dyn Model>>);

impl Models {
    /// Adds a provider, or replaces the one of that name.
    pub fn insert(&mut self, provider: &str, model: Arc<dyn Model>) {
        self.0.insert(provider.into(), model);
    }

    /// The provider of a model.
    pub fn find(&self, model: &ModelRef) -> Option<&Arc<dyn Model>> {
        self.0.get(&model.provider)
    }

    /// The names of the providers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(SmolStr::as_str)
    }
}
