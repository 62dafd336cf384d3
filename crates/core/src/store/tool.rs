//! A tool: something that a model can call.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::clock::Time;
use crate::id::{ClientId, SessionId, ToolId, ToolName};
use crate::schema::Schema;

/// The effect of running a tool. It decides whether the tool may be run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
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

/// Where a tool is offered.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scope {
    /// In all sessions of the client.
    pub everywhere: bool,
    /// In these sessions, as long as the client is there.
    pub sessions: BTreeSet<SessionId>,
    /// In these sessions, each as long as somebody who is limited to it is there.
    pub limited: BTreeSet<SessionId>,
}

/// A registered tool, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredTool {
    /// The tool's own name.
    pub name: ToolName,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its input.
    pub schema: Box<RawValue>,
    /// How long a call may take.
    pub timeout: Option<Duration>,
    /// The effect of running it.
    pub effect: Effect,
    /// Its version.
    pub version: Option<String>,
    /// Where it is offered.
    pub scope: Scope,
}

impl StoredTool {
    /// The stored form of a tool.
    pub(crate) fn new(spec: &ToolSpec, scope: &Scope) -> Self {
        Self {
            name: spec.name.clone(),
            description: spec.description.clone(),
            schema: spec.schema.source().to_owned(),
            timeout: spec.timeout,
            effect: spec.effect,
            version: spec.version.clone(),
            scope: scope.clone(),
        }
    }
}

/// A client that has tools, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoredClient {
    /// The client.
    pub id: ClientId,
    /// When it was first seen.
    pub since: Time,
    /// For how long its connections want to be waited for, if that is long: those without a limit, and those that are
    /// limited to a session.
    pub graces: Vec<(Option<SessionId>, Duration)>,
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
