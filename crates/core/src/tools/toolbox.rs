//! What a model is offered in a session: client tools and server tools, and the names by which the model knows them.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::FutureExt;
use serde::Serialize;
use serde_json::value::RawValue;
use smol_str::{SmolStr, format_smolstr};

use crate::id::{CallId, InvalidId, MessageId};
use crate::schema::Schema;
use crate::store::{Session, Success, Tool, ToolResult, ToolSpec};
use crate::tools::policy::Named;

/// The longest name of a tool that providers allow.
const LONGEST_ALIAS: usize = 64;

/// The future of an asynchronous method that an embedding program implements.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A tool that runs on the server, in every session.
pub trait ServerTool: Send + Sync + 'static {
    /// What the model is told about the tool.
    fn spec(&self) -> &ServerToolSpec;
    /// Runs the tool. The model is shown an error. The future is dropped when the turn is stopped or the time is over.
    fn run<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Success, String>>;
    /// Whether the tool may run again if the server was restarted while it ran. Otherwise such a call fails, and the
    /// model is told that it may have run.
    fn is_repeatable(&self) -> bool {
        false
    }
}

/// What a model is told about a server tool.
#[derive(Debug)]
#[non_exhaustive]
pub struct ServerToolSpec {
    name: SmolStr,
    /// What the tool does.
    pub description: String,
    /// The JSON Schema of its input.
    pub schema: Arc<Schema>,
}

impl ServerToolSpec {
    /// Describes a tool. Providers must allow its name.
    pub fn new(name: &str, description: &str, schema: Arc<Schema>) -> Result<Self, InvalidId> {
        if fits(name) {
            Ok(Self { name: name.into(), description: description.to_owned(), schema })
        } else {
            Err(InvalidId::new("server tool", name, format!("1 to {LONGEST_ALIAS} of A-Z a-z 0-9 _ -")))
        }
    }

    /// The tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// A call of a server tool.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Invocation<'a> {
    /// The session.
    pub session: &'a Session,
    /// The message that makes the call.
    pub message: &'a MessageId,
    /// The call.
    pub call: &'a CallId,
    /// The input, which fits the schema.
    pub input: &'a RawValue,
    /// Everything that the model is offered.
    pub tools: &'a [Offered],
}

/// Looks at calls of models, before and after. Hooks run in the order in which they were added.
pub trait Hook: Send + Sync + 'static {
    /// Decides what happens before a call is made.
    fn before<'a>(&'a self, _call: HookedCall<'a>) -> BoxFuture<'a, Before> {
        Box::pin(std::future::ready(Before::Go))
    }

    /// Sees the result of a call, and returns the result for the model.
    fn after<'a>(&'a self, _call: HookedCall<'a>, result: ToolResult) -> BoxFuture<'a, ToolResult> {
        Box::pin(std::future::ready(result))
    }
}

/// A call as hooks see it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct HookedCall<'a> {
    /// The session.
    pub session: &'a Session,
    /// The call.
    pub call: &'a CallId,
    /// The tool's full id.
    pub tool: &'a str,
    /// The input, an object.
    pub input: &'a RawValue,
}

/// What a hook decides before a call.
#[derive(Debug)]
#[non_exhaustive]
pub enum Before {
    /// The call is made unchanged.
    Go,
    /// The call is made with this input.
    Change(Box<RawValue>),
    /// The call is not made. The model is told the reason.
    Refuse(String),
}

/// A tool as a model sees it.
#[derive(Debug, Clone, Copy)]
pub struct ModelTool<'a> {
    /// The name that a provider accepts: 1 to 64 of letters, digits, `_` and `-`.
    pub alias: &'a str,
    /// The full id.
    pub id: &'a str,
    /// The tool's own name.
    pub name: &'a str,
    /// What the tool does.
    pub description: &'a str,
    /// The JSON Schema of its input, an object.
    pub schema: &'a RawValue,
}

/// A tool that a model is offered.
#[derive(Clone)]
#[non_exhaustive]
pub struct Offered {
    /// The name by which the model knows the tool.
    pub alias: SmolStr,
    /// Where the tool runs.
    pub place: Place,
}

impl std::fmt::Debug for Offered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Offered").field(&self.alias).field(&self.id()).finish()
    }
}

/// Where a tool runs.
#[derive(Clone)]
pub enum Place {
    /// On a client.
    Client(Arc<Tool>),
    /// In the frontend that shows the session. The turn goes on when the frontend reports how it went.
    Frontend(Arc<ToolSpec>),
    /// In the page that prompts: the turn ends, and the page's next request brings the result.
    Page(Arc<ToolSpec>),
    /// On the server.
    Server(Arc<dyn ServerTool>),
}

impl Offered {
    /// The tool's full id.
    pub fn id(&self) -> &str {
        match &self.place {
            Place::Client(tool) => tool.id.as_str(),
            Place::Frontend(spec) | Place::Page(spec) => spec.name.as_str(),
            Place::Server(tool) => tool.spec().name(),
        }
    }

    /// The tool's own name.
    pub fn name(&self) -> &str {
        match &self.place {
            Place::Client(tool) => tool.spec.name.as_str(),
            Place::Frontend(spec) | Place::Page(spec) => spec.name.as_str(),
            Place::Server(tool) => tool.spec().name(),
        }
    }

    /// The tool's names, for matching patterns.
    pub fn named(&self) -> Named<'_> {
        let client = match &self.place {
            Place::Client(tool) => Some(tool.client.as_str()),
            Place::Frontend(_) | Place::Page(_) | Place::Server(_) => None,
        };
        Named { id: self.id(), name: self.name(), client }
    }

    /// What the tool does.
    pub fn description(&self) -> &str {
        match &self.place {
            Place::Client(tool) => &tool.spec.description,
            Place::Frontend(spec) | Place::Page(spec) => &spec.description,
            Place::Server(tool) => &tool.spec().description,
        }
    }

    /// The JSON Schema of its input.
    pub fn schema(&self) -> &Arc<Schema> {
        match &self.place {
            Place::Client(tool) => &tool.spec.schema,
            Place::Frontend(spec) | Place::Page(spec) => &spec.schema,
            Place::Server(tool) => &tool.spec().schema,
        }
    }

    /// The tool as a model sees it.
    pub fn for_model(&self) -> ModelTool<'_> {
        ModelTool {
            alias: &self.alias,
            id: self.id(),
            name: self.name(),
            description: self.description(),
            schema: self.schema().source(),
        }
    }
}

/// Gives every tool a unique name that providers allow. Server tools keep their own names.
pub fn offer(places: impl IntoIterator<Item = Place>) -> Vec<Offered> {
    let places = places.into_iter();
    let mut offered: Vec<Offered> = Vec::with_capacity(places.size_hint().0);
    for place in places {
        let tool = Offered { alias: SmolStr::default(), place };
        let mut aliases = (0..).map(|salt| alias(tool.id(), tool.name(), salt));
        if let Some(alias) = aliases.find(|alias| !offered.iter().any(|known| known.alias == *alias)) {
            offered.push(Offered { alias, ..tool });
        }
    }
    offered
}

fn fits(name: &str) -> bool {
    (1..=LONGEST_ALIAS).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A stable name for a tool: its id if that is allowed, else as much of its own name as fits and eight hex digits of
/// its id. `salt` gives another name, for two tools with the same digits.
fn alias(id: &str, name: &str, salt: u32) -> SmolStr {
    if salt == 0 && fits(id) {
        return id.into();
    }
    let shown: SmolStr =
        name.chars().map(|letter| if u8::try_from(letter).is_ok_and(is_allowed) { letter } else { '_' }).collect();
    let shown = &shown[..shown.len().min(LONGEST_ALIAS - 9)];
    // FNV-1a: short, and the same for ever.
    let hash = id.bytes().chain(salt.to_le_bytes().into_iter().filter(|_| salt > 0));
    let hash = hash.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format_smolstr!("{shown}_{hash:08x}")
}

/// Runs code of an embedding program. A panic is a failure of this call alone.
pub(crate) async fn guarded<T>(what: &str, future: impl Future<Output = T>) -> Result<T, String> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|panic| {
        let reason = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
        tracing::error!(reason, "something of an embedding program, or of ours, panicked");
        format!("{what} failed inside the server; see its log")
    })
}

/// The one built-in server tool: it lets a model list the tools.
pub struct ListTools {
    spec: ServerToolSpec,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    description: &'a str,
    runs: &'static str,
    parameters: &'a RawValue,
}

impl Default for ListTools {
    fn default() -> Self {
        let description = "Lists the tools that are available in this session, with what they do and where they run.";
        let (name, schema) = (SmolStr::new_static("list_tools"), Arc::new(Schema::any_object()));
        Self { spec: ServerToolSpec { name, description: description.to_owned(), schema } }
    }
}

impl ServerTool for ListTools {
    fn spec(&self) -> &ServerToolSpec {
        &self.spec
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn run<'a>(&'a self, invocation: Invocation<'a>) -> BoxFuture<'a, Result<Success, String>> {
        let others = invocation.tools.iter().filter(|tool| tool.alias != self.spec.name);
        let listed: Vec<Listed<'_>> = others
            .map(|tool| Listed {
                name: &tool.alias,
                description: tool.description(),
                runs: match tool.place {
                    Place::Client(_) => "on the client",
                    Place::Frontend(_) | Place::Page(_) => "in the frontend",
                    Place::Server(_) => "on the server",
                },
                parameters: tool.schema().source(),
            })
            .collect();
        let title = match listed.len() {
            0 => "No tools".to_owned(),
            1 => "1 tool".to_owned(),
            many => format!("{many} tools"),
        };
        let output = serde_json::to_string(&listed).map_err(|error| error.to_string());
        Box::pin(std::future::ready(output.map(|output| Success { title, output, ..Success::default() })))
    }
}

#[cfg(test)]
mod tests;
