//! A run of an agent, with the tools that it calls and the runs that continue it.
//!
//! ```text
//! ask ─► events … RUN_FINISHED ─► pending calls of ours? ── none ─► completed
//!  ▲                                        │
//!  │ continuation, with all results         ▼
//!  └────────────────────────────── all tools at once ─► results into the conversation
//! ```

mod execution;
mod handle;
mod state;

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use handback_wire::agui::{Context, PROTOCOL_VERSION, Resume};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::agent::Agent;
use super::conversation::Conversation;
use super::registry::ToolRegistry;

pub use self::handle::RunHandle;
pub use self::state::{Phase, RunError, RunState, View};

/// How a run behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// How many continuations a run may have (default: 10). If the agent calls tools after them, the run fails.
    pub depth_limit: u32,
    /// How long a tool may take that has no timeout of its own (default: 60 s).
    pub tool_timeout: Duration,
    /// More context for the model, besides the conversation.
    pub context: Vec<Context>,
    /// Any other JSON for the server (default: an empty object).
    pub forwarded_props: Value,
    /// The first state that the agent gets, in place of the conversation's.
    pub state: Option<Value>,
    /// The protocol version that the run claims (default: 1.0). `None` is for older servers that refuse unknown fields.
    pub protocol_version: Option<String>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            depth_limit: 10,
            tool_timeout: Duration::from_secs(60),
            context: Vec::new(),
            forwarded_props: Value::Object(Map::new()),
            state: None,
            protocol_version: Some(PROTOCOL_VERSION.to_owned()),
        }
    }
}

/// A request to a run.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunRequest {
    /// See [`Run::say`].
    Say(String),
    /// See [`Run::start`].
    Start,
    /// See [`Run::retry`].
    Retry,
    /// See [`Run::resume`].
    Resume(Vec<Resume>),
}

/// Why a request was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunRequestError {
    /// The agent waits for answers to its interrupts.
    #[error("the agent must know something first: answer its interrupts")]
    Interrupted,
    /// There is not exactly one answer for each interrupt.
    #[error("the answers do not fit: unanswered are {unanswered:?}, and not asked for are {unknown:?}")]
    Answers {
        /// Interrupts without an answer.
        unanswered: Vec<String>,
        /// Answers without an interrupt, or with one that is answered already.
        unknown: Vec<String>,
    },
}

/// A conversation with an agent whose tools run here: a request goes to the agent, and the tools that the agent calls
/// run and are answered until the agent is done.
///
/// A request, such as [`Run::say`], is a future that the caller polls; it has no task of its own. Dropping the future
/// stops the request and its tools at once, and the [view](Run::watch) stays as it was. [`RunHandle::cancel`] stops a
/// request and shows that in the view.
pub struct Run {
    agent: Arc<dyn Agent>,
    tools: ToolRegistry,
    options: RunOptions,
    handle: RunHandle,
    /// Answers to interrupts that may not have reached the agent.
    answers: Option<Vec<Resume>>,
    /// Calls that the current request must not run: they were open before it.
    stale: HashSet<String>,
    /// Fires when the current request is cancelled.
    cancellation: CancellationToken,
    /// Is called before every continuation.
    continued: Option<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Run");
        debug.field("tools", &self.tools).field("options", &self.options).finish_non_exhaustive()
    }
}

impl Run {
    /// A run of `agent`, which may call these tools.
    pub fn new(
        agent: Arc<dyn Agent>,
        tools: ToolRegistry,
        mut conversation: Conversation,
        options: RunOptions,
    ) -> Self {
        if let Some(state) = &options.state {
            conversation.state.0 = state.clone();
        }
        let (stale, cancellation) = (HashSet::new(), CancellationToken::new());
        let handle = RunHandle::new(conversation);
        Self { agent, tools, options, handle, answers: None, stale, cancellation, continued: None }
    }

    /// A handle to watch and to cancel the run from elsewhere.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// The view of the run as it changes: [`RunHandle::watch`].
    pub fn watch(&self) -> watch::Receiver<View> {
        self.handle.watch()
    }

    /// Calls `continued` before every continuation.
    pub(super) fn on_continue(&mut self, continued: impl Fn() + Send + Sync + 'static) {
        self.continued = Some(Box::new(continued));
    }

    /// Says something, and returns the state in which the run ends.
    pub async fn say(&mut self, text: impl Into<String>) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Say(text.into())).await
    }

    /// Asks the agent to continue with the conversation as it is.
    pub async fn start(&mut self) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Start).await
    }

    /// Repeats a request that failed or was stopped. Results of tools are sent again; the tools do not run again.
    pub async fn retry(&mut self) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Retry).await
    }

    /// Answers the agent's interrupts, so that it continues.
    pub async fn resume(&mut self, answers: Vec<Resume>) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Resume(answers)).await
    }

    /// Sends any of the requests above.
    ///
    /// # Errors
    /// [`RunRequestError::Interrupted`] if the agent waits for answers, [`RunRequestError::Answers`] unless there is
    /// exactly one answer for each interrupt. Nothing is sent then.
    pub async fn request(&mut self, request: RunRequest) -> Result<RunState, RunRequestError> {
        self.begin(request)?;
        Ok(self.go().await)
    }

    /// Begins a request: from now on the view shows it as running, and it can be cancelled. [`Run::go`] sends it.
    pub(super) fn begin(&mut self, request: RunRequest) -> Result<(), RunRequestError> {
        self.answers = match &request {
            RunRequest::Resume(answers) => {
                self.handle.see(|view| check_answers(&view.conversation, answers))?;
                Some(answers.clone())
            }
            _ if self.handle.see(|view| matches!(view.state, RunState::Interrupted(_))) => {
                return Err(RunRequestError::Interrupted);
            }
            // Answers are sent again only while the agent waits for them.
            RunRequest::Retry => {
                let are_missing =
                    |answers: &Vec<Resume>| self.handle.see(|view| check_answers(&view.conversation, answers).is_ok());
                self.answers.take().filter(are_missing)
            }
            RunRequest::Say(_) | RunRequest::Start => None,
        };
        self.cancellation = self.handle.begin(|conversation| {
            conversation.abandon("the run was dropped before the tool was done");
            if let RunRequest::Say(text) = request {
                conversation.say(text);
            }
        });
        // Calls that are still open belong to earlier requests, except those that wait for the answers of this one.
        let resumes = self.answers.is_some();
        self.stale = self.handle.see(|View { conversation, .. }| {
            let open = conversation.active_tool_calls().map(|call| &call.id);
            open.filter(|id| !(resumes && conversation.waiting.contains(*id))).cloned().collect()
        });
        Ok(())
    }

    /// Carries out the request that was begun. Cancelling it drops all that it does.
    pub(super) async fn go(&mut self) -> RunState {
        self.cancellation.run_until_cancelled(self.execute_request()).await;
        self.handle.state()
    }
}

fn check_answers(conversation: &Conversation, answers: &[Resume]) -> Result<(), RunRequestError> {
    let mut unanswered: Vec<String> = conversation.interrupts().iter().map(|interrupt| interrupt.id.clone()).collect();
    let mut unknown = Vec::new();
    for Resume { interrupt_id, .. } in answers {
        match unanswered.iter().position(|id| id == interrupt_id) {
            Some(position) => drop(unanswered.remove(position)),
            None => unknown.push(interrupt_id.clone()),
        }
    }
    let fit = unanswered.is_empty() && unknown.is_empty() && !answers.is_empty();
    if fit { Ok(()) } else { Err(RunRequestError::Answers { unanswered, unknown }) }
}

#[cfg(test)]
pub(super) mod tests;
