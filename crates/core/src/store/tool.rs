//! A tool: something that a model can call.

use std::sync::Arc;
use std::time::Duration;

use crate::id::{ClientId, ToolId, ToolName};
use crate::schema::Schema;

/// The effect of running a tool. It decides whether the tool may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Effect {
    /// It changes nothing.
    Read,
    /// It changes something; running it twice is the same as once.
    Idempotent,
    /// It changes something each time.
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
    /// The JSON Schema of its input.
    pub schema: Arc<Schema>,
    /// How long a call may take; `None` means the server's default.
    pub timeout: Option<Duration>,
    /// The effect of running it.
    pub effect: Effect,
    /// A version to show and pass on.
    pub version: Option<String>,
}

impl ToolSpec {
    /// Whether both describe the same tool, word for word.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let Self { name, description, schema, timeout, effect, version } = self;
        *name == other.name
            && *description == other.description
            && schema.source().get() == other.schema.source().get()
            && *timeout == other.timeout
            && *effect == other.effect
            && *version == other.version
    }
}

/// Who runs a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Executor {
    /// The client that registered the tool. A call is offered to one of its connections.
    #[default]
    Client,
    /// The frontend that shows the session. It shows the call and acknowledges it (see `calls/frontend.rs`).
    Frontend,
}

/// A tool that can be called.
#[derive(Debug)]
pub struct Tool {
    /// The tool's full id.
    pub id: ToolId,
    /// The client that runs the tool; for a frontend tool, the client of the session in which it is called.
    pub client: ClientId,
    /// Who runs the tool.
    pub executor: Executor,
    /// The tool's description.
    pub spec: ToolSpec,
}

impl Tool {
    /// A client tool.
    pub fn of_client(client: ClientId, spec: ToolSpec) -> Self {
        Self { id: ToolId::new(&client, &spec.name), client, executor: Executor::Client, spec }
    }

    /// A frontend tool, called in a session of that client.
    pub fn of_frontend(client: ClientId, spec: ToolSpec) -> Self {
        Self { id: ToolId::of_frontend(&spec.name), client, executor: Executor::Frontend, spec }
    }

    /// A tool as the journal has it, which is enough to list a call. No input can be checked against its schema.
    pub fn remembered(client: ClientId, executor: Executor, name: ToolName, effect: Effect) -> Self {
        let schema = Arc::new(Schema::any_object());
        let spec = ToolSpec { name, description: String::new(), schema, timeout: None, effect, version: None };
        match executor {
            Executor::Client => Self::of_client(client, spec),
            Executor::Frontend => Self::of_frontend(client, spec),
        }
    }
}
