//! Anthropic's messages.

mod decode;
mod encode;

use std::sync::Arc;

use handback_core::sessions::{Model, ModelRequest, ModelStream};
use reqwest::header::HeaderName;
use serde::{Deserialize, Serialize};

use super::conversation::Shown;
use super::upstream::{Question, Upstream, base_url, join};
use super::{InvalidSettings, Settings, answer};
use decode::Decoder;
use encode::body;

/// Tokens of an answer when the settings do not say: this API wants a number.
const MAX_TOKENS: u32 = 8192;

/// What the provider wants back with a thought. Its stored form: earlier versions stored signatures alone.
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
    shown: Shown,
    max_tokens: u32,
}

impl Anthropic {
    /// Where Anthropic's own API is.
    pub const BASE_URL: &str = "https://api.anthropic.com";

    /// The provider with these settings.
    ///
    /// # Errors
    /// [`InvalidSettings`]; the provider is not spoken to yet.
    pub fn new(settings: Settings) -> Result<Self, InvalidSettings> {
        let base = base_url(&settings)?;
        let has_version = base.path().trim_end_matches('/').ends_with("/v1");
        let url = join(base, if has_version { &["messages"] } else { &["v1", "messages"] });
        let shown = Shown { images: settings.images, kept: true };
        let max_tokens = settings.max_tokens.unwrap_or(MAX_TOKENS);
        let upstream = Upstream::new(settings, url, (HeaderName::from_static("x-api-key"), ""), None)?;
        let upstream = upstream.with_header("anthropic-version", "2023-06-01");
        Ok(Self { upstream: Arc::new(upstream), shown, max_tokens })
    }
}

impl Model for Anthropic {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let question =
            Question::new(&request, self.upstream.name(), self.shown, |turns| body(&request, turns, self.max_tokens));
        answer::stream(&self.upstream, request.model, question, Decoder::default())
    }
}
