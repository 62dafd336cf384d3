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

impl ToolSpec {
    /// Whether another describes the same tool, word for word.
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
    /// A client that registered it: a call is offered to one of its connections.
    #[default]
    Client,
    /// Whatever shows the session to a user: a call is shown there, and acknowledged (see `calls/frontend.rs`).
    Frontend,
}

/// A tool that can be called.
#[derive(Debug)]
pub struct Tool {
    /// Its full id.
    pub id: ToolId,
    /// The client that runs it; for a frontend's tool, the one whose session it is called in.
    pub client: ClientId,
    /// Who runs it.
    pub executor: Executor,
    /// What is said of it.
    pub spec: ToolSpec,
}

impl Tool {
    /// A client's tool.
    pub fn of_client(client: ClientId, spec: ToolSpec) -> Self {
        Self { id: ToolId::new(&client, &spec.name), client, executor: Executor::Client, spec }
    }

    /// A frontend's tool, called in a session of that client.
    pub fn of_frontend(client: ClientId, spec: ToolSpec) -> Self {
        Self { id: ToolId::of_frontend(&spec.name), client, executor: Executor::Frontend, spec }
    }

    /// A tool as a journal of calls remembers it: enough to list a call. Nothing can be checked against its schema.
    pub fn remembered(client: ClientId, executor: Executor, name: ToolName, effect: Effect) -> Self {
        let schema = Arc::new(Schema::any_object());
        let spec = ToolSpec { name, description: String::new(), schema, timeout: None, effect, version: None };
        match executor {
            Executor::Client => Self::of_client(client, spec),
            Executor::Frontend => Self::of_frontend(client, spec),
        }
    }
}
