//! The trait of models: a model gets a conversation and tools, and streams its answer.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use smol_str::SmolStr;

use crate::id::SessionId;
use crate::store::{Kept, Message, ModelRef, StopReason, TurnError, Usage};
use crate::tools::ModelTool;

/// What a model is shown. It is borrowed: a model copies what its stream needs before it returns.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The model's name at its provider.
    pub model: &'a str,
    /// The session, for providers whose caches need a key.
    pub session: &'a SessionId,
    /// The instructions.
    pub system: Option<&'a str>,
    /// The messages before this turn: each user's message followed by its answers.
    pub earlier: &'a [Arc<Message>],
    /// The rest of the conversation. The last message is the one to answer, or the last step with its calls' results.
    pub messages: &'a [Arc<Message>],
    /// The tools that the model may call.
    pub tools: &'a [ModelTool<'a>],
    /// How many bytes of a tool's output are shown.
    pub most_output: usize,
}

/// A piece of a model's answer. `index` identifies a call: any number that is new for each call of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ModelEvent {
    /// More of the answer.
    Text(String),
    /// More of the model's reasoning.
    Reasoning(String),
    /// A piece of reasoning is complete. It is sent back to the provider with this value, and never without one.
    Thought(Kept),
    /// A call of a tool begins.
    CallStarted {
        /// The call.
        index: usize,
        /// The provider's id of the call; empty if it gives none.
        id: String,
        /// The tool's name as the model knows it.
        name: String,
    },
    /// More of a call's arguments.
    Arguments {
        /// The call.
        index: usize,
        /// The piece, exactly as it came.
        delta: String,
    },
    /// A call's arguments are complete.
    CallEnded {
        /// The call.
        index: usize,
        /// A value to send back to the provider with the call.
        kept: Option<Kept>,
    },
    /// A value to send back to the provider with the whole answer.
    Kept(Kept),
    /// The provider begins its answer anew: discard all earlier events.
    Restarted,
    /// The tokens used by this answer in total. A later value replaces an earlier one.
    Usage(Usage),
    /// The answer is complete. A stream that ends without this event was cut off.
    Stop(StopReason),
}

/// The stream of a model's answer. Dropping it stops the model.
pub type ModelStream = Pin<Box<dyn Stream<Item = Result<ModelEvent, TurnError>> + Send>>;

/// A provider of models.
///
/// Guarantees: `stream` returns at once. The provider is not called before the stream is polled or after it is dropped.
/// A stream always ends after `Stop` or an error, in bounded time: a provider that stalls is an error. Failures before
/// the first event may be retried; after it nothing is repeated. The pieces of a call's arguments, put together, are
/// exactly what the model wrote.
pub trait Model: Send + Sync + 'static {
    /// Answers a conversation.
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream;
}

/// The providers, by name.
#[derive(Clone, Default)]
pub struct Models(BTreeMap<SmolStr, Arc<dyn Model>>);

impl Models {
    /// Adds a provider, or replaces the one with this name.
    pub fn insert(&mut self, provider: &str, model: Arc<dyn Model>) {
        self.0.insert(provider.into(), model);
    }

    /// Returns the provider of a model.
    pub fn find(&self, model: &ModelRef) -> Option<&Arc<dyn Model>> {
        self.0.get(&model.provider)
    }

    /// The names of the providers.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(SmolStr::as_str)
    }
}
