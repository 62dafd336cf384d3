//! Anthropic's messages.

mod decode;
mod encode;

use std::sync::Arc;

use handback_core::sessions::{Model, ModelRequest, ModelStream};
use reqwest::header::{HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use super::answer;
use super::upstream::{Upstream, base_url, join};
use super::{InvalidSettings, Settings};
pub(super) use decode::Decoder;
use encode::body;

/// How many tokens an answer may have if the settings do not say, because this API wants a number.
const MAX_TOKENS: u32 = 8192;

/// What the provider wants back with a thought. This form is stored; earlier versions stored signatures alone.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum KeptThought {
    /// Its signature.
    Signed(String),
    /// The thought itself, which only the provider can read.
    Redacted { data: String },
    /// Nothing: some servers do not sign.
    Unsigned {},
}

/// A provider that speaks Anthropic's messages. Its base URL ends before `/v1/messages` or before `/messages`.
pub struct Anthropic {
    upstream: Arc<Upstream>,
    max_tokens: u32,
}

impl Anthropic {
    /// Sets the provider up, without sending anything yet.
    pub fn new(settings: Settings) -> Result<Self, InvalidSettings> {
        let base = base_url(&settings)?;
        let has_version = base.path().trim_end_matches('/').ends_with("/v1");
        let url = join(base, if has_version { &["messages"] } else { &["v1", "messages"] });
        let max_tokens = settings.max_tokens.unwrap_or(MAX_TOKENS);
        let mut upstream = Upstream::new(settings, url, (HeaderName::from_static("x-api-key"), ""))?;
        upstream.headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        Ok(Self { upstream: Arc::new(upstream), max_tokens })
    }
}

impl Model for Anthropic {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let write = |entries| body(&request, entries, self.max_tokens);
        answer::stream(&self.upstream, &request, write, Decoder::default())
    }
}
