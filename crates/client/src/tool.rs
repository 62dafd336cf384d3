//! A tool: what the server is told about it, and the code that runs it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use handback_wire::client_tools::{self, Effect, Success, ToolRequest};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The code of a tool. The error is a text that the model reads.
pub type Handler = Arc<dyn Fn(Invocation) -> BoxFuture<'static, Result<Success, String>> + Send + Sync>;

/// A tool that this process offers.
#[derive(Clone)]
pub struct Tool {
    /// What the server is told: name, description, schema of the input, timeout, effect.
    pub definition: client_tools::Tool,
    /// The code that runs it.
    pub handler: Handler,
}

impl Tool {
    /// A tool of this name that takes any object and whose effect is `write`.
    pub fn new<F, R>(name: impl Into<String>, handler: F) -> Self
    where
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Success, String>> + Send + 'static,
    {
        let definition = client_tools::Tool {
            id: name.into(),
            description: String::new(),
            parameters: None,
            timeout: None,
            effect: None,
            version: None,
        };
        Self { definition, handler: Arc::new(move |invocation| Box::pin(handler(invocation))) }
    }

    /// What the tool does, for the model.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.definition.description = description.into();
        self
    }

    /// What running the tool does to the world, and so whether it may be run again.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.definition.effect = Some(effect);
        self
    }
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// One call of a tool.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// The call, as the server sent it.
    pub request: ToolRequest,
    /// When the call expires. Nobody reads a result that comes later.
    pub deadline: Instant,
    /// Fires when the call is over before the tool is: cancelled, expired, or this client stops. The handler then has
    /// a few seconds to clean up before it is dropped.
    pub cancellation: CancellationToken,
}

impl Invocation {
    /// The input, read as a type of the tool's own.
    ///
    /// # Errors
    /// A text that says what does not fit, for the model.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_str(self.request.input.get()).map_err(|error| format!("the input does not fit: {error}"))
    }
}
