//! The capabilities of an agent, for front ends.

use handback_core::store::DEFAULT_AGENT;
use serde_json::{Value, json};

use crate::app::App;

/// Describes an agent as `AgentCapabilities` of AG-UI.
pub(super) fn of(app: &App, agent: Option<&str>) -> Value {
    let tool = |spec: &handback_core::tools::ServerToolSpec| json!({ "name": spec.name(), "description": spec.description, "parameters": spec.schema.source() });
    let tools: Vec<Value> = app.sessions().setup().tools.iter().map(|known| tool(known.spec())).collect();
    json!({
        "identity": {
            "name": agent.unwrap_or(DEFAULT_AGENT), "type": "handback", "version": env!("CARGO_PKG_VERSION"),
        },
        "transport": { "streaming": true, "websocket": false, "httpBinary": true },
        "tools": { "supported": true, "items": tools, "parallelCalls": true, "clientProvided": true },
        "state": { "snapshots": true, "deltas": false },
        "reasoning": { "supported": true, "streaming": true, "encrypted": false },
        "execution": { "maxIterations": app.hub().limits().steps },
        "humanInTheLoop": { "supported": true, "approvals": true, "interrupts": true, "approveWithEdits": true },
    })
}
