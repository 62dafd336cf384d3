//! The models that a session can talk to, each behind the core's [`Model`](handback_core::sessions::Model).
//!
//! - this file: what a provider is set up with
//! - [`scripted`]: `demo/scripted`, which is built in, needs no key, and matches words with tools
//! - [`OpenAi`], [`Anthropic`]: the two wires, each with its `encode` (a conversation to a request) and its `decode`
//!   (events of the stream to what the model says)
//! - `conversation`: what of a conversation any provider is sent, and what only some take
//! - `upstream`: sends a request: retries, and other words for what a provider refuses
//! - `said`: what a model has said so far, and text that comes in pieces
//! - `answer`: reads the stream, bounded in size and time
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

use crate::config::Secret;

pub use anthropic::Anthropic;
pub use openai::OpenAi;

/// What a provider is set up with.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What the configuration calls it, and `providerID/modelID` too.
    pub name: String,
    /// Where its API is; a slash at the end does not matter.
    pub base_url: String,
    /// The key, for providers that want one.
    pub api_key: Option<Secret<String>>,
    /// Whether its models are shown images; where they are not, images are named in the text.
    pub images: bool,
    /// How many tokens an answer may have; without it, what the provider allows (Anthropic: 8192).
    pub max_tokens: Option<u32>,
    /// Its bounds.
    pub bounds: Bounds,
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
            bounds: Bounds::default(),
        }
    }
}

/// Bounds of one question to a provider. What goes beyond them ends it with an error.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// How long a connection may take to open; then it is tried again.
    pub connect: Duration,
    /// How long the provider may be silent before its first byte, while a model is loaded or thinks. It counts for the
    /// head of the answer and again for its body.
    pub first_byte: Duration,
    /// How long it may be silent after that.
    pub stall: Duration,
    /// How long the rest may take once the model is done: what it used comes last, and some servers never end their stream.
    pub last_words: Duration,
    /// How long all of it may take, tries and waits included.
    pub whole: Duration,
    /// How often a request is sent before its failure counts.
    pub tries: u32,
    /// The wait before the second try; it doubles from try to try, up to 8 s, and is shortened by chance.
    pub backoff: Duration,
    /// The longest `Retry-After` that is waited for; with a longer one the failure counts at once.
    pub retry_after: Duration,
    /// Bytes of one event of the stream, give or take what is read at a time.
    pub event_bytes: usize,
    /// Bytes of the whole stream.
    pub answer_bytes: usize,
}

impl Default for Bounds {
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
pub enum InvalidSettings {
    /// The base URL is none.
    #[error("providers.{provider}.baseURL: {reason}")]
    BaseUrl {
        /// The provider.
        provider: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key has characters that no header may have. It is not shown.
    #[error("providers.{provider}.apiKey: the key has characters that cannot be sent, such as a line break")]
    ApiKey {
        /// The provider.
        provider: String,
    },
    /// The HTTP client could not be set up.
    #[error("providers.{provider}: no HTTP client: {reason}")]
    Http {
        /// The provider.
        provider: String,
        /// Why not.
        reason: String,
    },
}
