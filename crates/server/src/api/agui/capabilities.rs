//! What front ends can expect of an agent.

use handback_core::store::DEFAULT_AGENT;
use handback_wire::agui::{
    AgentCapabilities, ExecutionCapabilities, HumanInTheLoopCapabilities, IdentityCapabilities, ReasoningCapabilities,
    StateCapabilities, Tool, ToolsCapabilities, TransportCapabilities,
};

use crate::app::App;

/// What front ends can expect.
pub(super) fn of(app: &App, agent: Option<&str>) -> AgentCapabilities {
    let name = agent.unwrap_or(DEFAULT_AGENT).to_owned();
    let tools = app.sessions().setup().tools.iter().map(|tool| {
        let spec = tool.spec();
        let (name, parameters) = (spec.name().to_owned(), Some(spec.schema.source().to_owned()));
        Tool { name, description: spec.description.clone(), parameters, metadata: None }
    });
    AgentCapabilities {
        identity: Some(IdentityCapabilities {
            name: Some(name),
            kind: Some("handback".to_owned()),
            version: Some(env!("CARGO_PKG_VERSION").to_owned()),
            ..IdentityCapabilities::default()
        }),
        transport: Some(TransportCapabilities {
            streaming: Some(true),
            websocket: Some(false),
            http_binary: Some(true),
            ..TransportCapabilities::default()
        }),
        tools: Some(ToolsCapabilities {
            supported: Some(true),
            items: Some(tools.collect()),
            parallel_calls: Some(true),
            client_provided: Some(true),
        }),
        state: Some(StateCapabilities { snapshots: Some(true), deltas: Some(false), ..StateCapabilities::default() }),
        reasoning: Some(ReasoningCapabilities { supported: Some(true), streaming: Some(true), encrypted: Some(false) }),
        execution: Some(ExecutionCapabilities {
            max_iterations: Some(app.hub().limits().steps as u64),
            ..ExecutionCapabilities::default()
        }),
        human_in_the_loop: Some(HumanInTheLoopCapabilities {
            supported: Some(true),
            approvals: Some(true),
            interrupts: Some(true),
            approve_with_edits: Some(true),
            ..HumanInTheLoopCapabilities::default()
        }),
        ..AgentCapabilities::default()
    }
}
