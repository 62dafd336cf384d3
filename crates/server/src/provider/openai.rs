//! OpenAI's chat completions, and the many servers that speak them: Ollama, vLLM, llama.cpp, OpenRouter and others.

mod decode;
mod encode;
mod kept;

use std::sync::Arc;

use handback_core::sessions::{Model, ModelRequest, ModelStream};
use reqwest::header::AUTHORIZATION;

use super::answer;
use super::upstream::{OptionalMember, Upstream, base_url, join};
use super::{InvalidSettings, Settings};
pub(super) use decode::Decoder;
use encode::{MaxTokens, body};

/// A provider that speaks OpenAI's chat completions. Its base URL ends before `/chat/completions`, mostly with `/v1`.
pub struct OpenAi {
    upstream: Arc<Upstream>,
    max_tokens: MaxTokens,
}

impl OpenAi {
    /// Sets the provider up, without sending anything yet.
    pub fn new(settings: Settings) -> Result<Self, InvalidSettings> {
        let url = join(base_url(&settings)?, &["chat", "completions"]);
        let max_tokens = MaxTokens::new(settings.max_tokens, url.host_str().unwrap_or_default());
        let mut upstream = Upstream::new(settings, url, (AUTHORIZATION, "Bearer "))?;
        let json = r#""stream_options":{"include_usage":true},"#;
        upstream.optional = Some(OptionalMember { json, names: &["stream_options", "include_usage"] });
        Ok(Self { upstream: Arc::new(upstream), max_tokens })
    }
}

impl Model for OpenAi {
    fn stream(&self, request: ModelRequest<'_>) -> ModelStream {
        let write = |entries| body(&request, entries, self.max_tokens);
        answer::stream(&self.upstream, &request, write, Decoder::default())
    }
}
