//! A run of an agent, with the tools that it calls and the runs that continue it.
//!
//! ```text
//! ask ─► events … RUN_FINISHED ─► pending calls of ours? ── none ─► completed
//!  ▲                                        │
//!  │ continuation, with all results         ▼
//!  └────────────────────────────── all tools at once ─► results into the conversation
//! ```

mod state;
mod tools;

use std::collections::HashSet;
use std::fmt;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use handback_wire::agui::{Body, Context, Outcome, PROTOCOL_VERSION, Resume, RunAgentInput};
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::state::Board;
use self::tools::Caller;
use super::agent::{Agent, AgentError, EventStream, Incoming};
use super::conversation::{Conversation, Status, ToolCall, ToolCallStatus};
use super::registry::ToolRegistry;
use super::{mapper, new_id};

pub use self::state::{Phase, RunError, RunState, View};

/// How many calls of one step are run; those beyond fail.
const MOST_CALLS: usize = 1_024;

/// How a run behaves.
#[derive(Debug, Clone)]
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
pub enum TurnError {
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
/// A turn is a future that the caller polls; there is no task behind it. Dropping it stops everything at once and in
/// silence: nothing is asked for any more, no tool runs on, and what is [seen](Run::watch) stays as it was. To stop it
/// for others to see, there is [`RunHandle::cancel`].
pub struct Run {
    agent: Arc<dyn Agent>,
    tools: ToolRegistry,
    options: RunOptions,
    board: Arc<Board>,
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

/// A way to see and to stop a run from elsewhere. Clones are the same.
#[derive(Debug, Clone)]
pub struct RunHandle {
    board: Arc<Board>,
}

impl RunHandle {
    /// What is seen of the run, now and as it changes. Do not hold a borrowed view for long: the run waits for it.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.board.watch()
    }

    /// Where the run stands.
    pub fn state(&self) -> RunState {
        self.board.see(|view| view.state.clone())
    }

    /// The conversation as it is now.
    pub fn conversation(&self) -> Conversation {
        self.board.see(|view| view.conversation.clone())
    }

    /// Stops the turn that goes on; false if none does. When this returns, the state is [`RunState::Cancelled`] and
    /// stays so; tools and stream end after that.
    pub fn cancel(&self) -> bool {
        self.board.cancel()
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
        Self { agent, tools, options, board: Arc::new(Board::new(conversation)), answers: None, continued: None }
    }

    /// A way to see and to stop it from elsewhere.
    pub fn handle(&self) -> RunHandle {
        RunHandle { board: Arc::clone(&self.board) }
    }

    /// What is seen of it, now and as it changes. Do not hold a borrowed view for long: the run waits for it.
    pub fn watch(&self) -> watch::Receiver<View> {
        self.board.watch()
    }

    /// Calls `continued` before every continuation.
    pub(super) fn on_continue(&mut self, continued: impl Fn() + Send + Sync + 'static) {
        self.continued = Some(Box::new(continued));
    }

    /// Says something, and returns where the run stands when it has come to its end.
    ///
    /// # Errors
    /// [`TurnError::Interrupted`] if the agent wants answers; nothing is said then.
    pub async fn say(&mut self, text: impl Into<String>) -> Result<RunState, TurnError> {
        self.turn(Turn::Say(text.into())).await
    }

    /// Asks the agent to go on with the conversation as it is.
    ///
    /// # Errors
    /// [`TurnError::Interrupted`] if the agent wants answers.
    pub async fn start(&mut self) -> Result<RunState, TurnError> {
        self.turn(Turn::Start).await
    }

    /// Asks again for what failed or was stopped. The results of tools that were run are sent again; the tools are not
    /// run again.
    ///
    /// # Errors
    /// [`TurnError::Interrupted`] if the agent wants answers.
    pub async fn retry(&mut self) -> Result<RunState, TurnError> {
        self.turn(Turn::Retry).await
    }

    /// Answers what the agent wants to know, and lets it go on.
    ///
    /// # Errors
    /// [`TurnError::Answers`] unless there is exactly one answer for each interrupt; nothing is sent then.
    pub async fn resume(&mut self, answers: Vec<Resume>) -> Result<RunState, TurnError> {
        self.turn(Turn::Resume(answers)).await
    }

    /// Takes a turn: what [`Run::say`] and its like do, for those who decide elsewhere.
    ///
    /// # Errors
    /// See there.
    pub async fn turn(&mut self, turn: Turn) -> Result<RunState, TurnError> {
        self.answers = match &turn {
            Turn::Resume(answers) => {
                self.board.see(|view| check(&view.conversation, answers))?;
                Some(answers.clone())
            }
            _ if self.board.see(|view| matches!(view.state, RunState::Interrupted(_))) => {
                return Err(TurnError::Interrupted);
            }
            Turn::Retry => self.answers.take(),
            Turn::Say(_) | Turn::Start => None,
        };
        let is_new = !matches!(turn, Turn::Resume(_));
        let cancellation = self.board.begin(|conversation| {
            let gone = "the run was dropped while the tool ran";
            conversation.fail_calls(gone, |call| call.status == ToolCallStatus::Executing);
            if let Turn::Say(text) = turn {
                conversation.say(text);
            }
        });
        let course = Course {
            run: self,
            cancellation: &cancellation,
            // What nobody has run by now is not for this turn, whatever tools have come since.
            stale: if is_new { self.board.see(|view| open_calls(&view.conversation)) } else { HashSet::new() },
        };
        // Cancelled, all that the turn does is dropped.
        cancellation.run_until_cancelled(course.go()).await;
        let state = self.board.see(|view| view.state.clone());
        if !matches!(state, RunState::Failed(_) | RunState::Cancelled) {
            self.answers = None;
        }
        Ok(state)
    }
}

/// What a run is asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Turn {
    /// See [`Run::say`].
    Say(String),
    /// See [`Run::start`].
    Start,
    /// See [`Run::retry`].
    Retry,
    /// See [`Run::resume`].
    Resume(Vec<Resume>),
}

fn check(conversation: &Conversation, answers: &[Resume]) -> Result<(), TurnError> {
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
    Err(TurnError::Answers { unanswered: open.into_iter().map(str::to_owned).collect(), unknown })
}

fn open_calls(conversation: &Conversation) -> HashSet<String> {
    conversation.active_tool_calls().map(|call| call.id.clone()).collect()
}

/// One turn on its way.
struct Course<'a> {
    run: &'a Run,
    cancellation: &'a CancellationToken,
    /// Calls that were open before it.
    stale: HashSet<String>,
}

/// What follows from something that came.
enum Step {
    More,
    Execute(Vec<ToolCall>),
    Over,
}

impl Course<'_> {
    /// Goes on until the end, which is on the board then.
    async fn go(&self) {
        let mut answers = self.run.answers.clone();
        let mut depth = 0;
        loop {
            let Some((calls, rest)) = self.stream(answers.take(), depth).await else { return };
            self.execute(calls, rest).await;
            let continuing = self.run.board.update(|view| view.state = RunState::Running(Phase::Continuing));
            if continuing.is_none() {
                return;
            }
            if let Some(continued) = &self.run.continued {
                continued();
            }
            depth += 1;
        }
    }

    /// Asks for a run and reads it to its end. The calls that are to be run, and the rest of its stream; `None` if
    /// there are none, and the turn is over.
    async fn stream(&self, answers: Option<Vec<Resume>>, depth: u32) -> Option<(Vec<ToolCall>, EventStream)> {
        let board = &self.run.board;
        let mut events = match self.run.agent.run(self.input(answers)).await {
            Ok(events) => events,
            Err(error) => {
                board.fail(error.into());
                return None;
            }
        };
        loop {
            let step = match events.next().await {
                Some(Ok(incoming)) => board.update(|view| self.take(view, &incoming, depth))?,
                Some(Err(error)) => {
                    board.fail(error.into());
                    Step::Over
                }
                None => {
                    let reason = "the stream ended before the run did".to_owned();
                    board.fail(AgentError::NetworkLost { reason }.into());
                    Step::Over
                }
            };
            match step {
                Step::More => {}
                Step::Execute(calls) => return Some((calls, events)),
                Step::Over => return None,
            }
        }
    }

    /// Takes in what came. What follows from it is seen together with it: there is nothing in between.
    fn take(&self, view: &mut View, incoming: &Incoming, depth: u32) -> Step {
        let event = match incoming {
            Incoming::Event(event) => event,
            Incoming::Undecodable { kind, reason } => {
                tracing::warn!(kind, reason, "an event that cannot be read; the run goes on");
                view.conversation.note_undecodable(kind, reason);
                return Step::More;
            }
        };
        view.conversation.apply(event);
        match &event.body {
            Body::RunStarted { .. } => {
                view.state = RunState::Running(Phase::Streaming);
                Step::More
            }
            Body::RunError { message, code, .. } => {
                view.state = RunState::Failed(RunError::Reported { message: message.clone(), code: code.clone() });
                Step::Over
            }
            Body::RunFinished { outcome, .. } => self.finished(view, outcome.as_ref(), depth),
            _ => Step::More,
        }
    }

    fn finished(&self, view: &mut View, outcome: Option<&Outcome>, depth: u32) -> Step {
        let calls = match outcome {
            Some(Outcome::Interrupt { interrupts }) => {
                view.state = RunState::Interrupted(interrupts.clone());
                return Step::Over;
            }
            Some(Outcome::Cancelled) => {
                view.state = RunState::Cancelled;
                return Step::Over;
            }
            Some(Outcome::Success { .. }) | None => self.own_calls(&view.conversation),
        };
        if calls.is_empty() {
            view.state = RunState::Completed;
            return Step::Over;
        }
        if depth >= self.run.options.depth_limit {
            view.fail(RunError::DepthLimit { limit: self.run.options.depth_limit });
            return Step::Over;
        }
        for call in &calls {
            view.conversation.begin_call(&call.id);
        }
        view.conversation.status = Status::Running;
        view.state = RunState::Running(Phase::Executing);
        Step::Execute(calls)
    }

    /// The calls that are this front end's to run: pending, of a tool that it has, and made in this turn.
    fn own_calls(&self, conversation: &Conversation) -> Vec<ToolCall> {
        let mut calls = Vec::new();
        for call in conversation.active_tool_calls().filter(|call| !self.stale.contains(&call.id)) {
            if self.run.tools.contains(&call.name) {
                calls.push(call.clone());
            } else {
                tracing::warn!(name = call.name, id = call.id, "a call of a tool that is not here; it is not run");
            }
        }
        calls
    }

    /// Runs all calls at once, and puts what comes of them into the conversation.
    async fn execute(&self, mut calls: Vec<ToolCall>, rest: EventStream) {
        let board = &self.run.board;
        for call in calls.split_off(calls.len().min(MOST_CALLS)) {
            let error = format!("more than {MOST_CALLS} calls at once; it was not run");
            board.update(|view| view.conversation.end_call(&call.id, Err(error)));
        }
        let (thread_id, run_id) =
            board.see(|view| (view.conversation.thread_id.clone(), view.conversation.parent_run_id.clone()));
        let caller = Caller {
            tools: &self.run.tools,
            thread_id,
            run_id,
            timeout: self.run.options.tool_timeout,
            cancellation: self.cancellation,
        };
        let mut running: FuturesUnordered<_> = calls.into_iter().map(|call| caller.execute(call)).collect();
        let executing = async {
            while let Some((id, result)) = running.next().await {
                board.update(|view| view.conversation.end_call(&id, result));
            }
        };
        // Meanwhile the stream is read to where the server closes it, so that its connection can be used again. Nothing
        // that comes after the end of a run changes it.
        let draining = async {
            rest.for_each(|_late| async {}).await;
            pending::<()>().await;
        };
        tokio::select! {
            () = executing => {}
            () = draining => {}
        }
    }

    fn input(&self, resume: Option<Vec<Resume>>) -> RunAgentInput {
        let RunOptions { context, forwarded_props, protocol_version, .. } = &self.run.options;
        self.run.board.see(|View { conversation, .. }| RunAgentInput {
            thread_id: conversation.thread_id.clone().unwrap_or_default(),
            run_id: new_id("run"),
            protocol_version: protocol_version.clone(),
            parent_run_id: conversation.parent_run_id.clone(),
            state: Some(conversation.state.clone()),
            messages: mapper::messages(conversation),
            tools: self.run.tools.definitions(),
            context: context.clone(),
            forwarded_props: Some(forwarded_props.clone()),
            resume,
        })
    }
}

#[cfg(test)]
pub(super) mod tests;
