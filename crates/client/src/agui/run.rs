//! A run of an agent, with the tools that it calls and the runs that continue it.
//!
//! ```text
//! ask ─► events … RUN_FINISHED ─► pending calls of ours? ── none ─► completed
//!  ▲                                        │
//!  │ continuation, with all results         ▼
//!  └────────────────────────────── all tools at once ─► results into the conversation
//! ```

mod course;
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

use self::course::Course;
use super::agent::Agent;
use super::conversation::Conversation;
use super::registry::ToolRegistry;

pub use self::handle::RunHandle;
pub use self::state::{Phase, RunError, RunState, View};

/// How a run behaves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RunOptions {
    /// How many continuations there may be; an agent that calls tools after them fails the run. 10 if nothing is said.
    pub depth_limit: u32,
    /// How long a tool may take that does not say it itself. 60 s if nothing is said.
    pub tool_timeout: Duration,
    /// What the model is to know besides the conversation.
    pub context: Vec<Context>,
    /// Whatever else the server is told, any JSON. An empty object if nothing is said.
    pub forwarded_props: Value,
    /// The state that the agent is given first, in place of the conversation's.
    pub state: Option<Value>,
    /// The version of the protocol that is spoken: 1.0 if nothing is said. `None` for servers from before it that do
    /// not take what they do not know.
    pub protocol_version: Option<String>,
}

impl RunOptions {
    /// The defaults, but for what `change` sets.
    pub fn with(change: impl FnOnce(&mut Self)) -> Self {
        let mut options = Self::default();
        change(&mut options);
        options
    }
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

/// Why nothing was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunRequestError {
    /// The agent wants answers first.
    #[error("the agent must know something first: answer its interrupts")]
    Interrupted,
    /// Not all that the agent wants to know is answered, or something else is.
    #[error("the answers do not fit: unanswered are {unanswered:?}, and not asked for are {unknown:?}")]
    Answers {
        /// Interrupts without an answer.
        unanswered: Vec<String>,
        /// Answers without an interrupt, or with one that is answered already.
        unknown: Vec<String>,
    },
}

/// A conversation with an agent whose tools run here: what is said goes out, and whatever the agent calls is run and
/// answered, until it is done.
///
/// A request, such as [`Run::say`], is a future that the caller polls; there is no task behind it. Dropping it stops
/// everything at once and in silence: nothing is asked for any more, no tool runs on, and what is [seen](Run::watch)
/// stays as it was. To stop it for others to see, there is [`RunHandle::cancel`].
pub struct Run {
    agent: Arc<dyn Agent>,
    tools: ToolRegistry,
    options: RunOptions,
    handle: RunHandle,
    /// Answers that may not have reached the agent.
    answers: Option<Vec<Resume>>,
    /// Called before every continuation.
    continued: Option<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Run")
            .field("tools", &self.tools)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Run {
    /// A run of `agent` with the tools that it may call here. The tools are those of now: registries do not change.
    pub fn new(
        agent: Arc<dyn Agent>,
        tools: ToolRegistry,
        mut conversation: Conversation,
        options: RunOptions,
    ) -> Self {
        if let Some(state) = &options.state {
            conversation.state = state.clone();
        }
        Self { agent, tools, options, handle: RunHandle::new(conversation), answers: None, continued: None }
    }

    /// A way to see and to stop it from elsewhere.
    pub fn handle(&self) -> RunHandle {
        self.handle.clone()
    }

    /// What is seen of it, now and as it changes: [`RunHandle::watch`].
    pub fn watch(&self) -> watch::Receiver<View> {
        self.handle.watch()
    }

    /// Calls `continued` before every continuation.
    pub(super) fn on_continue(&mut self, continued: impl Fn() + Send + Sync + 'static) {
        self.continued = Some(Box::new(continued));
    }

    /// Says something, and returns where the run stands when it has come to its end.
    pub async fn say(&mut self, text: impl Into<String>) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Say(text.into())).await
    }

    /// Asks the agent to go on with the conversation as it is.
    pub async fn start(&mut self) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Start).await
    }

    /// Asks again for what failed or was stopped. The results of tools that were run are sent again; the tools are not
    /// run again.
    pub async fn retry(&mut self) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Retry).await
    }

    /// Answers what the agent wants to know, and lets it go on.
    pub async fn resume(&mut self, answers: Vec<Resume>) -> Result<RunState, RunRequestError> {
        self.request(RunRequest::Resume(answers)).await
    }

    /// Does what [`Run::say`] and its like do, for those who decide elsewhere which.
    ///
    /// # Errors
    /// [`RunRequestError::Interrupted`] if the agent wants answers first, [`RunRequestError::Answers`] unless there is
    /// exactly one answer for each interrupt. Nothing is sent then.
    pub async fn request(&mut self, request: RunRequest) -> Result<RunState, RunRequestError> {
        let begun = self.begin(request)?;
        Ok(self.go(begun).await)
    }

    /// Begins a request for all to see: it is running, and can be cancelled, before anything is asked for.
    pub(super) fn begin(&mut self, request: RunRequest) -> Result<Begun, RunRequestError> {
        self.answers = match &request {
            RunRequest::Resume(answers) => {
                self.handle.see(|view| check(&view.conversation, answers))?;
                Some(answers.clone())
            }
            _ if self.handle.see(|view| matches!(view.state, RunState::Interrupted(_))) => {
                return Err(RunRequestError::Interrupted);
            }
            // Only while they are waited for: a run that came to its end has taken them.
            RunRequest::Retry => {
                let are_missing =
                    |answers: &Vec<Resume>| self.handle.see(|view| check(&view.conversation, answers).is_ok());
                self.answers.take().filter(are_missing)
            }
            RunRequest::Say(_) | RunRequest::Start => None,
        };
        let cancellation = self.handle.begin(|conversation| {
            conversation.abandon("the run was dropped before the tool was done");
            if let RunRequest::Say(text) = request {
                conversation.say(text);
            }
        });
        // What nobody has run by now is not for this request, whatever tools have come since; except for calls that wait
        // for its answers.
        let is_stale = |conversation: &Conversation, id: &str| self.answers.is_none() || !conversation.is_waiting(id);
        let stale = self.handle.see(|View { conversation, .. }| {
            let open = conversation.active_tool_calls().map(|call| call.id.as_str());
            open.filter(|id| is_stale(conversation, id)).map(str::to_owned).collect()
        });
        Ok(Begun { cancellation, stale })
    }

    /// Takes a request that was begun.
    pub(super) async fn go(&mut self, Begun { cancellation, stale }: Begun) -> RunState {
        let course = Course { run: self, cancellation: &cancellation, stale };
        // Cancelled, all that the request does is dropped.
        cancellation.run_until_cancelled(course.go()).await;
        self.handle.state()
    }
}

/// A request that was begun.
pub(super) struct Begun {
    cancellation: CancellationToken,
    /// Calls that are not for this request to run.
    stale: HashSet<String>,
}

/// What a run is asked for.
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

fn check(conversation: &Conversation, answers: &[Resume]) -> Result<(), RunRequestError> {
    let mut open: Vec<&str> = conversation.interrupts().iter().map(|interrupt| interrupt.id.as_str()).collect();
    let mut unknown = Vec::new();
    for answer in answers {
        match open.iter().position(|id| *id == answer.interrupt_id) {
            Some(position) => drop(open.remove(position)),
            None => unknown.push(answer.interrupt_id.clone()),
        }
    }
    if open.is_empty() && unknown.is_empty() && !answers.is_empty() {
        return Ok(());
    }
    Err(RunRequestError::Answers { unanswered: open.into_iter().map(str::to_owned).collect(), unknown })
}

#[cfg(test)]
pub(super) mod tests;
