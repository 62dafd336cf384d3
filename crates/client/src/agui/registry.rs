//! The tools that a front end runs itself.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use handback_wire::agui::Tool;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::conversation::ToolCall;
use super::no_arguments;
use crate::tool::{ToolError, schema_of};

/// The code of a tool.
type Executor = Arc<dyn Fn(ToolCall, ToolContext) -> BoxFuture<'static, Result<String, ToolError>> + Send + Sync>;

/// What a tool is told besides its arguments.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// Fires when nobody waits for the result any more: the run was cancelled or dropped, or the time is up. The tool
    /// itself is dropped then; what it has started elsewhere is not, and should heed this.
    pub cancellation: CancellationToken,
    /// The call.
    pub call_id: String,
    /// The conversation.
    pub thread_id: Option<String>,
    /// The run that made the call.
    pub run_id: Option<String>,
    /// When the time is up.
    pub deadline: Instant,
}

/// A tool that this front end runs: what the model is told about it, and its code.
#[derive(Clone)]
pub struct ClientTool {
    definition: Tool,
    timeout: Option<Duration>,
    executor: Executor,
}

impl ClientTool {
    /// A tool that reads its arguments itself: [`ToolCall::arguments`] is JSON, as text, and may be empty. Its schema
    /// is that of any object, unless [`ClientTool::parameters`] says more.
    ///
    /// Calls of one step run at the same time, also two of the same tool, and those of other runs besides: the code
    /// must be safe to run concurrently. It shares its thread with the other calls and with the run, so what takes long
    /// without awaiting belongs into `tokio::task::spawn_blocking`.
    pub fn new<F, R>(name: impl Into<String>, description: impl Into<String>, executor: F) -> Self
    where
        F: Fn(ToolCall, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        let executor: Executor = Arc::new(move |call, context| executor(call, context).boxed());
        Self { definition: definition(name.into(), description.into(), None), timeout: None, executor }
    }

    /// A tool whose arguments are read as `I`, and whose schema is that of `I`. As with [`ClientTool::new`], the code
    /// must be safe to run concurrently.
    pub fn typed<I, F, R>(name: impl Into<String>, description: impl Into<String>, executor: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        F: Fn(I, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        let executor: Executor = Arc::new(move |call, context| match read::<I>(&call.arguments) {
            Ok(arguments) => executor(arguments, context).boxed(),
            Err(error) => async { Err(error) }.boxed(),
        });
        Self { definition: definition(name.into(), description.into(), schema_of::<I>()), timeout: None, executor }
    }

    /// The JSON Schema of the arguments, where the tool's own type does not say it.
    #[must_use]
    pub fn parameters(mut self, schema: Box<RawValue>) -> Self {
        self.definition.parameters = Some(schema);
        self
    }

    /// How long a call may take; the run has a default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// What the model is told about it.
    pub fn definition(&self) -> &Tool {
        &self.definition
    }

    pub(super) fn own_timeout(&self) -> Option<Duration> {
        self.timeout
    }
}

fn definition(name: String, description: String, parameters: Option<Box<RawValue>>) -> Tool {
    let parameters = parameters.or_else(|| RawValue::from_string(ANY_OBJECT.to_owned()).ok());
    Tool { name, description, parameters, metadata: None }
}

/// Some servers refuse tools that have no parameters.
const ANY_OBJECT: &str = r#"{"type":"object","properties":{}}"#;

fn read<I: DeserializeOwned>(arguments: &str) -> Result<I, ToolError> {
    serde_json::from_str(no_arguments(arguments))
        .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")))
}

impl fmt::Debug for ClientTool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ClientTool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// There is no tool of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool \"{name}\" here")]
#[non_exhaustive]
pub struct UnknownTool {
    /// The name.
    pub name: String,
}

/// The tools of a front end. It never changes: whatever changes it gives another one. Clones are cheap.
///
/// Tools are run concurrently, in one run and in several: see [`ClientTool::new`].
#[derive(Debug, Clone, Default)]
pub struct ToolRegistry {
    contents: Arc<Contents>,
}

#[derive(Debug, Clone, Default)]
struct Contents {
    /// In the order in which they were registered.
    tools: Vec<ClientTool>,
    /// Other names, and the tools that they are for. None of them is the name of a tool.
    aliases: BTreeMap<String, String>,
}

impl Contents {
    fn position(&self, name: &str) -> Option<usize> {
        self.tools.iter().position(|tool| tool.definition.name == name)
    }

    fn find(&self, name: &str) -> Option<&ClientTool> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        self.tools.iter().find(|tool| tool.definition.name == name)
    }
}

impl ToolRegistry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// This registry and a tool, which must be safe to run concurrently (see [`ClientTool::new`]). One of the same name
    /// is replaced, in its place; an alias of that name goes.
    #[must_use]
    pub fn register(&self, tool: ClientTool) -> Self {
        self.changed(|contents| {
            contents.aliases.remove(&tool.definition.name);
            match contents.position(&tool.definition.name) {
                Some(position) => contents.tools[position] = tool,
                None => contents.tools.push(tool),
            }
        })
    }

    /// This registry without a tool and its aliases, or without an alias, whose tool stays. A name that is not known
    /// changes nothing.
    #[must_use]
    pub fn unregister(&self, name: &str) -> Self {
        self.changed(|contents| {
            if contents.aliases.remove(name).is_none() {
                contents.tools.retain(|tool| tool.definition.name != name);
                contents.aliases.retain(|_, tool| tool != name);
            }
        })
    }

    /// This registry with another name for a tool: calls by that name are the tool's too. The model is not told of it.
    ///
    /// # Errors
    /// [`UnknownTool`] if there is no tool `name`. An alias that is the name of a tool changes nothing.
    pub fn alias(&self, alias: impl Into<String>, name: &str) -> Result<Self, UnknownTool> {
        let (alias, name) = (alias.into(), self.lookup(name)?.definition.name.clone());
        Ok(self.changed(|contents| {
            if contents.position(&alias).is_none() {
                contents.aliases.insert(alias, name);
            }
        }))
    }

    /// The tool of this name or alias.
    ///
    /// # Errors
    /// [`UnknownTool`] if there is none.
    pub fn lookup(&self, name: &str) -> Result<&ClientTool, UnknownTool> {
        self.contents.find(name).ok_or_else(|| UnknownTool { name: name.to_owned() })
    }

    /// Whether there is a tool of this name or alias.
    pub fn contains(&self, name: &str) -> bool {
        self.contents.find(name).is_some()
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.contents.tools.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.contents.tools.is_empty()
    }

    /// What the model is told, in the order in which the tools were registered.
    pub fn definitions(&self) -> Vec<Tool> {
        self.contents.tools.iter().map(|tool| tool.definition.clone()).collect()
    }

    /// Runs a call.
    ///
    /// # Errors
    /// What the tool says went wrong; also that it panicked, or that there is no such tool.
    pub async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<String, ToolError> {
        let executor = Arc::clone(&self.lookup(&call.name)?.executor);
        let executing = async move { executor(call, context).await };
        let ended = AssertUnwindSafe(executing).catch_unwind().await;
        ended.unwrap_or_else(|_panic| Err(ToolError::new("the tool panicked")))
    }

    fn changed(&self, change: impl FnOnce(&mut Contents)) -> Self {
        let mut contents = Contents::clone(&self.contents);
        change(&mut contents);
        Self { contents: Arc::new(contents) }
    }
}

#[cfg(test)]
mod tests;
