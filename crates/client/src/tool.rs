//! A tool: its definition for the server, and its code.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use handback_wire::client_tools::{self, Effect, Success, ToolRequest};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The code of a tool.
pub type Handler = Arc<dyn Fn(Invocation) -> BoxFuture<'static, Result<Success, ToolError>> + Send + Sync>;

/// A tool that this process offers.
#[derive(Clone)]
#[non_exhaustive]
pub struct Tool {
    /// The definition for the server: name, description, schema of the input, timeout, effect.
    pub definition: client_tools::Tool,
    /// The code that runs it.
    pub handler: Handler,
}

impl Tool {
    /// A tool whose input is read as `I`, and whose schema is that of `I`. Its effect is [`Effect::Write`] by default.
    ///
    /// ```
    /// use handback_client::{Effect, Tool};
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Greeting {
    ///     /// Who is greeted.
    ///     name: String,
    /// }
    ///
    /// let greet = Tool::typed("greet", "Greets somebody", |greeting: Greeting, _call| async move {
    ///     Ok(format!("Hello, {}!", greeting.name))
    /// });
    /// assert_eq!(
    ///     greet.effect(Effect::Read).definition.parameters.unwrap().get(),
    ///     r#"{"type":"object","properties":{"name":{"description":"Who is greeted.","type":"string"}},"required":["name"]}"#,
    /// );
    /// ```
    pub fn typed<I, O, F, R>(name: impl Into<String>, description: impl Into<String>, handler: F) -> Self
    where
        I: DeserializeOwned + JsonSchema,
        O: Into<Success>,
        F: Fn(I, Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let mut tool = Self::new(name, description, move |invocation: Invocation| {
            let handling = invocation.input::<I>().map(|input| handler(input, invocation));
            async move { handling?.await }
        });
        tool.definition.parameters = schema_of::<I>();
        tool
    }

    /// A tool that takes any object, as JSON.
    pub fn new<O, F, R>(name: impl Into<String>, description: impl Into<String>, handler: F) -> Self
    where
        O: Into<Success>,
        F: Fn(Invocation) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, ToolError>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |invocation| {
            let handling = handler(invocation);
            Box::pin(async move { handling.await.map(Into::into) })
        });
        let (id, description) = (name.into(), description.into());
        let definition =
            client_tools::Tool { id, description, parameters: None, timeout: None, effect: None, version: None };
        Self { definition, handler }
    }

    /// Sets whether the tool changes something, and so whether a call may be run again.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.definition.effect = Some(effect);
        self
    }

    /// Sets how long a call may take; the server has a default (30 s).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.definition.timeout = Some(timeout.as_secs_f64() * 1_000.0);
        self
    }

    /// Sets the JSON Schema of the input.
    #[must_use]
    pub fn parameters(mut self, schema: Box<RawValue>) -> Self {
        self.definition.parameters = Some(schema);
        self
    }
}

/// The schema of a type in the form that suits models: inlined, and without the name of the Rust type.
pub(crate) fn schema_of<T: JsonSchema>() -> Option<Box<RawValue>> {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    // A schema is a JSON value, so this does not fail.
    to_raw_value(&schema).ok()
}

impl fmt::Debug for Tool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Tool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

/// Why a tool failed, for the model to read. The `?` operator converts any error to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The message for the model.
    pub fn message(&self) -> &str {
        &self.0
    }
}

// `ToolError` does not implement `Error`, because this implementation would conflict with `From<T> for T`.
impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            let text = error.to_string();
            // Some errors repeat their cause.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = error.source();
        }
        Self(message)
    }
}

/// One call of a tool.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Invocation {
    /// The call, as the server sent it: its ids, its input, its attempt.
    pub request: ToolRequest,
    /// When the call expires. A later result is ignored.
    pub deadline: Instant,
    /// Fires when the call is cancelled or expires, or the client stops. The handler then has a few seconds to clean up
    /// before it is dropped.
    pub cancellation: CancellationToken,
}

impl Invocation {
    /// A call that does not come from the server.
    pub fn new(request: ToolRequest, deadline: Instant, cancellation: CancellationToken) -> Self {
        Self { request, deadline, cancellation }
    }

    /// Reads the input as `T`.
    ///
    /// # Errors
    /// The input does not fit; the error explains it to the model.
    pub fn input<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        serde_json::from_str(self.request.input.get())
            .map_err(|error| ToolError::new(format!("the input does not fit: {error}")))
    }
}

#[cfg(test)]
mod tests;
