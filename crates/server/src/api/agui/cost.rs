//! What a run costs.

use handback_core::message::{ModelRef, Usage};
use handback_wire::agui::TokenUsage;

/// What a run cost.
#[derive(Debug, Clone, Default)]
pub(super) struct Cost {
    pub(super) models: Vec<(ModelRef, Usage)>,
    pub(super) requests: u64,
    pub(super) calls: u64,
}

impl Cost {
    pub(super) fn add(&mut self, model: &ModelRef, used: &Usage) {
        self.requests += 1;
        let place = self.models.iter().position(|(known, _)| known == model).unwrap_or_else(|| {
            self.models.push((model.clone(), Usage::default()));
            self.models.len() - 1
        });
        if let Some((_, sum)) = self.models.get_mut(place) {
            sum.input += used.input;
            sum.output += used.output;
            sum.reasoning += used.reasoning;
            sum.cache_read += used.cache_read;
            sum.cache_write += used.cache_write;
        }
    }

    pub(super) fn usage(&self) -> Option<Vec<TokenUsage>> {
        let told = self.models.iter().filter(|(_, used)| *used != Usage::default());
        let usage: Vec<TokenUsage> = told.map(|(model, used)| usage(model, used)).collect();
        (!usage.is_empty()).then_some(usage)
    }
}

/// Tokens, where those of reasoning and of caches are parts of the totals.
fn usage(model: &ModelRef, used: &Usage) -> TokenUsage {
    let some = |tokens: u64| (tokens > 0).then_some(tokens);
    let (input, output) = (tokens_read(used), tokens_written(used));
    TokenUsage {
        provider: Some(model.provider.to_string()),
        model: Some(model.model.to_string()),
        input_tokens: Some(input),
        output_tokens: Some(output),
        total_tokens: Some(input + output),
        reasoning_tokens: some(used.reasoning),
        cached_input_tokens: some(used.cache_read),
        cache_write_input_tokens: some(used.cache_write),
    }
}

/// All tokens that were read.
pub(super) fn tokens_read(used: &Usage) -> u64 {
    used.input + used.cache_read + used.cache_write
}

/// All tokens that were written.
pub(super) fn tokens_written(used: &Usage) -> u64 {
    used.output + used.reasoning
}
