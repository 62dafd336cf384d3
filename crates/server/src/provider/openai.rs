//! OpenAI's chat completions, and the many servers that speak them: Ollama, vLLM, llama.cpp, OpenRouter and others.

mod decode;
mod encode;
mod kept;

use std::sync::Arc;

use handback_core::sessions::{Model, ModelRequest, ModelStream};
use reqwest::header::AUTHORIZATION;

use super::conversation::Shown;
use super::upstream::{Optional, Question, Upstream, base_url, join};
use super::{InvalidSettings, Settings, answer};
use decode::Decoder;
use encode::{MaxTokens, body};

/// A provider that speaks OpenAI's chat completions. Its base URL ends before `/chat/completions`, mostly with `/v1`.
pub struct OpenAi {
    upstream: Arc<Upstream>,
    shown: Shown,
    max_tokens: MaxTokens,
}

impl OpenAi {
    /// Where OpenAI's own API is.
    pub const BASE_URL: &str = "https://api.openai.com/v1";

    /// The provider with these settings.
    ///
    /// # Errors
    /// [`InvalidSettings`]; the provider is not spoken to yet.
    pub fn new(settings: Settings) -> Result<Self, InvalidSettings> {
        let url = join(base_url(&settings)?, &["chat", "completions"]);
        let shown = Shown { images: settings.images, kept: true };
        let host = url.host_str().unwrap_or_default();
        let max_tokens = MaxTokens::new(settings.max_tokens, host);
        let optional = Optional { beginning: encode::WITH_USAGE, names: &["stream_options", "include_usage"] };
        let upstream = Upstream::new(settings, url, (AUTHORIZATION, "Bearer "), Some(optional))?;
        Ok(Self { upstream: Arc::new(upstream), shown, max_tokens })
    }
}

impl Model for OpenAi {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let question =
            Question::new(&request, self.upstream.name(), self.shown, |turns| body(&request, turns, self.max_tokens));
        answer::stream(&self.upstream, request.model, question, Decoder::default())
    }
}
