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
            sum.input = sum.input.saturating_add(used.input);
            sum.output = sum.output.saturating_add(used.output);
            sum.reasoning = sum_of(sum.reasoning, used.reasoning);
            sum.cache_read = sum_of(sum.cache_read, used.cache_read);
            sum.cache_write = sum_of(sum.cache_write, used.cache_write);
        }
    }

    pub(super) fn usage(&self) -> Option<Vec<TokenUsage>> {
        let told = self.models.iter().filter(|(_, used)| *used != Usage::default());
        let usage: Vec<TokenUsage> = told.map(|(model, used)| usage(model, used)).collect();
        (!usage.is_empty()).then_some(usage)
    }
}

/// What two answers used, as far as they say.
fn sum_of(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).reduce(u64::saturating_add)
}

/// Tokens, where those of reasoning and of caches are parts of the totals.
fn usage(model: &ModelRef, used: &Usage) -> TokenUsage {
    let (input, output) = (used.read(), used.written());
    TokenUsage {
        provider: Some(model.provider.to_string()),
        model: Some(model.model.to_string()),
        input_tokens: Some(input),
        output_tokens: Some(output),
        total_tokens: Some(input.saturating_add(output)),
        reasoning_tokens: used.reasoning,
        cached_input_tokens: used.cache_read,
        cache_write_input_tokens: used.cache_write,
    }
}
