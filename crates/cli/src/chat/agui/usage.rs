//! What the runs of a thread cost.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, TryFutureExt};
use handback_client::agui::wire::{Body, RunAgentInput};
use handback_client::agui::{Agent, AgentError, EventStream, Incoming};
use handback_wire::session::Tokens;

/// The tokens of a thread since they were last taken. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Usage(Arc<Mutex<Tokens>>);

impl Usage {
    /// What was counted since this was last asked.
    pub(super) fn take(&self) -> Tokens {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, incoming: &Incoming) {
        let Incoming::Event(event) = incoming else { return };
        let (Body::RunFinished { usage, .. } | Body::RunError { usage, .. }) = &event.body else { return };
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for usage in usage.iter().flatten() {
            // What was read from a cache and what was thought is part of these.
            tokens.input = tokens.input.saturating_add(usage.input_tokens.unwrap_or_default());
            tokens.output = tokens.output.saturating_add(usage.output_tokens.unwrap_or_default());
        }
    }
}

/// An agent whose runs are counted.
pub(super) struct Counted {
    pub(super) agent: Arc<dyn Agent>,
    pub(super) usage: Usage,
}

impl Agent for Counted {
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let usage = self.usage.clone();
        let counted = move |events: EventStream| {
            let count = move |incoming: &Result<Incoming, AgentError>| {
                if let Ok(incoming) = incoming {
                    usage.count(incoming);
                }
            };
            events.inspect(count).boxed()
        };
        self.agent.run(input).map_ok(counted).boxed()
    }
}
