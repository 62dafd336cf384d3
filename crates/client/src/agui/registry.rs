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

use super::arguments_or_empty;
use super::conversation::ToolCall;
use crate::tool::{ToolError, schema_of};

/// The code of a tool.
type Executor = Arc<dyn Fn(ToolCall, ToolContext) -> BoxFuture<'static, Result<String, ToolError>> + Send + Sync>;

/// The schema of a tool that declares none: some servers refuse tools without parameters.
const ANY_OBJECT: &str = r#"{"type":"object","properties":{}}"#;

/// The context that a tool gets besides its arguments.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolContext {
    /// Fires when nobody waits for the result any more, because the run was cancelled or dropped, or the deadline has
    /// passed. The tool itself is dropped then; work that it started elsewhere must watch this token.
    pub cancellation: CancellationToken,
    /// The id of the call.
    pub call_id: String,
    /// The thread of the conversation.
    pub thread_id: Option<String>,
    /// The run that made the call.
    pub run_id: Option<String>,
    /// When the call times out.
    pub deadline: Instant,
}

/// A tool that this front end runs: its definition for the model, and its code.
///
/// Calls of one step run concurrently, even two of the same tool, and so do calls of other runs: the code must be safe
/// for that. It shares a thread with the other calls and with the run, so blocking work belongs into
/// `tokio::task::spawn_blocking`.
#[derive(Clone)]
pub struct ClientTool {
    definition: Tool,
    /// How long a call may take, if the tool has a limit of its own.
    pub(super) timeout: Option<Duration>,
    executor: Executor,
}

impl ClientTool {
    /// A tool that reads its arguments itself: [`ToolCall::arguments`] is JSON text, and may be empty. Its schema is
    /// that of any object, unless [`ClientTool::parameters`] sets another.
    pub fn new<F, R>(name: impl Into<String>, description: impl Into<String>, executor: F) -> Self
    where
        F: Fn(ToolCall, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        let parameters = RawValue::from_string(ANY_OBJECT.to_owned()).ok();
        let definition = Tool { name: name.into(), description: description.into(), parameters, metadata: None };
        let executor: Executor = Arc::new(move |call, context| executor(call, context).boxed());
        Self { definition, timeout: None, executor }
    }

    /// A tool whose arguments are read as `I`, and whose schema is that of `I`.
    pub fn typed<I, F, R>(name: impl Into<String>, description: impl Into<String>, executor: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        F: Fn(I, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolError>> + Send + 'static,
    {
        let tool = Self::new(name, description, move |call, context| {
            let executing = serde_json::from_str(arguments_or_empty(&call.arguments))
                .map(|arguments: I| executor(arguments, context))
                .map_err(|error| ToolError::new(format!("the arguments do not fit: {error}")));
            async move { executing?.await }
        });
        match schema_of::<I>() {
            Some(schema) => tool.parameters(schema),
            None => tool,
        }
    }

    /// Sets the JSON Schema of the arguments.
    #[must_use]
    pub fn parameters(mut self, schema: Box<RawValue>) -> Self {
        self.definition.parameters = Some(schema);
        self
    }

    /// Sets how long a call may take; the run has a default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The definition that the model gets.
    pub fn definition(&self) -> &Tool {
        &self.definition
    }
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

/// The tools of a front end. A registry never changes: methods that change something give a new one. Clones are cheap.
#[derive(Debug, Clone, Default)]
pub struct ToolRegistry {
    /// In the order of registration.
    tools: Arc<Vec<ClientTool>>,
    /// Aliases, and the names of their tools. No alias is the name of a tool.
    aliases: Arc<BTreeMap<String, String>>,
}

impl ToolRegistry {
    /// A registry without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// This registry with one more tool, which takes the place of a tool or an alias of the same name.
    #[must_use]
    pub fn register(&self, tool: ClientTool) -> Self {
        let mut changed = self.clone();
        Arc::make_mut(&mut changed.aliases).remove(&tool.definition.name);
        let tools = Arc::make_mut(&mut changed.tools);
        match tools.iter_mut().find(|known| known.definition.name == tool.definition.name) {
            Some(known) => *known = tool,
            None => tools.push(tool),
        }
        changed
    }

    /// This registry without a tool and its aliases, or without an alias, whose tool stays. An unknown name changes
    /// nothing.
    #[must_use]
    pub fn unregister(&self, name: &str) -> Self {
        let mut changed = self.clone();
        let aliases = Arc::make_mut(&mut changed.aliases);
        if aliases.remove(name).is_none() {
            aliases.retain(|_, tool| tool != name);
            Arc::make_mut(&mut changed.tools).retain(|tool| tool.definition.name != name);
        }
        changed
    }

    /// This registry with an alias for a tool. The model does not see the alias.
    ///
    /// # Errors
    /// [`UnknownTool`] if there is no tool `name`. An alias that is the name of a tool changes nothing.
    pub fn alias(&self, alias: impl Into<String>, name: &str) -> Result<Self, UnknownTool> {
        let (alias, name) = (alias.into(), self.lookup(name)?.definition.name.clone());
        let mut changed = self.clone();
        if !self.tools.iter().any(|tool| tool.definition.name == alias) {
            Arc::make_mut(&mut changed.aliases).insert(alias, name);
        }
        Ok(changed)
    }

    /// The tool of this name or alias.
    ///
    /// # Errors
    /// [`UnknownTool`] if there is none.
    pub fn lookup(&self, name: &str) -> Result<&ClientTool, UnknownTool> {
        let own_name = self.aliases.get(name).map_or(name, String::as_str);
        let found = self.tools.iter().find(|tool| tool.definition.name == own_name);
        found.ok_or_else(|| UnknownTool { name: name.to_owned() })
    }

    /// Whether there is a tool of this name or alias.
    pub fn contains(&self, name: &str) -> bool {
        self.lookup(name).is_ok()
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The definitions that the model gets, in the order of registration.
    pub fn definitions(&self) -> Vec<Tool> {
        self.tools.iter().map(|tool| tool.definition.clone()).collect()
    }

    /// Runs a call.
    ///
    /// # Errors
    /// The tool failed or panicked, or there is no such tool.
    pub async fn execute(&self, call: ToolCall, context: ToolContext) -> Result<String, ToolError> {
        let executor = Arc::clone(&self.lookup(&call.name)?.executor);
        let executing = async move { executor(call, context).await };
        let ended = AssertUnwindSafe(executing).catch_unwind().await;
        ended.unwrap_or_else(|_panic| Err(ToolError::new("the tool panicked")))
    }
}

#[cfg(test)]
mod tests;
