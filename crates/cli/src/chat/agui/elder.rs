//! Servers from before AG-UI 1.0, many of which refuse what they do not know.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_client::agui::wire::RunAgentInput;
use handback_client::agui::{Agent, AgentError, EventStream};

/// An agent that may be of a server from before 1.0. What it refuses as malformed it is asked again without what is new since;
/// nothing was run then, though a server that keeps threads may keep an empty one of it. Once that has helped, it is asked so
/// from the start.
pub(super) struct Elder {
    agent: Arc<dyn Agent>,
    is_old: Arc<AtomicBool>,
}

impl Elder {
    pub(super) fn new(agent: Arc<dyn Agent>) -> Self {
        Self { agent, is_old: Arc::default() }
    }
}

impl Agent for Elder {
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        let old_input = RunAgentInput { protocol_version: None, parent_run_id: None, ..input.clone() };
        if self.is_old.load(Ordering::Relaxed) {
            return self.agent.run(old_input);
        }
        let (asking, agent, is_old) = (self.agent.run(input), Arc::clone(&self.agent), Arc::clone(&self.is_old));
        async move {
            match asking.await {
                Err(AgentError::Refused { status: 400 | 422, message }) => match agent.run(old_input).await {
                    Ok(events) => {
                        is_old.store(true, Ordering::Relaxed);
                        Ok(events)
                    }
                    // What it said first was meant for what was asked.
                    Err(AgentError::Refused { status, .. }) => Err(AgentError::Refused { status, message }),
                    Err(error) => Err(error),
                },
                answered => answered,
            }
        }
        .boxed()
    }
}
