//! A tool: what a client can be asked to do.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{ClientId, ToolId, ToolName};
use crate::schema::Schema;

/// What running a tool does to the world, and so whether it may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effect {
    /// Changes nothing.
    Read,
    /// Changes something; twice is the same as once.
    Idempotent,
    /// Changes something each time.
    #[default]
    Write,
}

/// A tool as its client describes it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    /// The tool's own name.
    pub name: ToolName,
    /// What it does, for the model.
    pub description: String,
    /// What its input looks like.
    pub schema: Arc<Schema>,
    /// How long a call may take; `None`: the server's default.
    pub timeout: Option<Duration>,
    /// What running it does.
    pub effect: Effect,
    /// A version to show and pass on.
    pub version: Option<String>,
}

/// A registered tool.
#[derive(Debug)]
pub struct Tool {
    /// Its full id.
    pub id: ToolId,
    /// The client that runs it.
    pub client: ClientId,
    /// What the client said of it.
    pub spec: ToolSpec,
}

impl Tool {
    /// A tool as a journal of calls remembers it: enough to list a call. Nothing can be checked against its schema.
    pub fn remembered(client: ClientId, name: ToolName, effect: Effect) -> Self {
        let id = ToolId::new(&client, &name);
        let schema = Arc::new(Schema::any_object());
        let spec = ToolSpec { name, description: String::new(), schema, timeout: None, effect, version: None };
        Self { id, client, spec }
    }
}
