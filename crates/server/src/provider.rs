//! The models that a session can talk to, each behind the core's [`Model`](handback_core::sessions::Model).
//!
//! - this file: the settings of a provider
//! - [`scripted`]: `demo/scripted`, which is built in, needs no key, and matches words with tools
//! - [`OpenAi`], [`Anthropic`]: the two protocols, each with `encode` (a conversation to a request) and `decode` (the
//!   events of the stream to the events of the model)
//! - `conversation`: which parts of a conversation a provider is sent
//! - `upstream`: sends a request, retries it, and leaves out what a provider refuses
//! - `answer`: reads the stream, bounded in size and time
//! - `queue`: the events that were read, and text that comes in pieces
//! - `fault`: what went wrong, in words

mod answer;
mod anthropic;
mod conversation;
mod fault;
mod openai;
mod queue;
pub mod scripted;
#[cfg(test)]
mod tests;
mod upstream;

use std::time::Duration;

use bytes::Bytes;
use handback_core::sessions::ModelEvent;

use crate::config::{ProviderKind, Secret};

pub use anthropic::Anthropic;
pub use openai::OpenAi;

/// The settings of a provider.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name in the configuration, and in `providerID/modelID`.
    pub name: String,
    /// Where its API is; a slash at the end does not matter.
    pub base_url: String,
    /// The key, for providers that want one.
    pub api_key: Option<Secret<String>>,
    /// Whether its models are shown images. If not, the text names them.
    pub images: bool,
    /// How many tokens an answer may have. By default as many as the provider allows (Anthropic: 8192).
    pub max_tokens: Option<u32>,
    /// The bounds of each request.
    pub bounds: RequestBounds,
}

impl Settings {
    /// A provider without a key, whose models are shown images.
    pub fn new(name: &str, base_url: &str) -> Self {
        Self {
            name: name.to_owned(),
            base_url: base_url.to_owned(),
            api_key: None,
            images: true,
            max_tokens: None,
            bounds: RequestBounds::default(),
        }
    }
}

/// The bounds of one request to a provider. What exceeds them ends the answer with an error.
#[derive(Debug, Clone, Copy)]
pub struct RequestBounds {
    /// How long a connection may take to open. After that the request is retried.
    pub connect: Duration,
    /// How long the provider may be silent before its first byte, while it loads the model or the model thinks. It
    /// applies to the head of the answer and again to its body.
    pub first_byte: Duration,
    /// How long it may be silent after that.
    pub stall: Duration,
    /// How long the rest of the stream may take once the model is done. Usage comes last, and some servers never end
    /// their stream.
    pub last_words: Duration,
    /// How long everything may take, retries and waits included.
    pub whole: Duration,
    /// How often a request is sent before its failure counts.
    pub tries: u32,
    /// The wait before the second try. It doubles with every try, up to 8 s, and is shortened at random.
    pub backoff: Duration,
    /// The longest `Retry-After` that is waited for. With a longer one the failure counts at once.
    pub retry_after: Duration,
    /// How many bytes one event of the stream may have, give or take one read.
    pub event_bytes: usize,
    /// How many bytes the whole stream may have.
    pub answer_bytes: usize,
}

impl Default for RequestBounds {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(10),
            first_byte: Duration::from_mins(5),
            stall: Duration::from_secs(60),
            last_words: Duration::from_secs(2),
            whole: Duration::from_hours(1),
            tries: 4,
            backoff: Duration::from_millis(500),
            retry_after: Duration::from_secs(30),
            event_bytes: 4 << 20,
            answer_bytes: 64 << 20,
        }
    }
}

/// Settings that no request can be made with.
#[derive(Debug, Clone, thiserror::Error)]
#[error("providers.{provider}{problem}")]
pub struct InvalidSettings {
    provider: String,
    problem: String,
}

/// Reads an answer that comes in these pieces. An error is in words.
pub(crate) async fn events_of(kind: ProviderKind, pieces: Vec<Bytes>) -> Vec<Result<ModelEvent, String>> {
    match kind {
        ProviderKind::OpenAi => answer::events_of(pieces, openai::Decoder::default()).await,
        ProviderKind::Anthropic => answer::events_of(pieces, anthropic::Decoder::default()).await,
    }
}
