//! The execution of one request of a run, from the first request to the agent to the end.

use std::future::pending;
use std::ops::ControlFlow;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use handback_wire::agui::{Body, Outcome, Resume, RunAgentInput};
use tokio::task::consume_budget;
use tokio::time::{Instant, timeout_at};

use super::{Phase, Run, RunError, RunOptions, RunState, View};
use crate::agui::agent::{AgentError, EventStream, Incoming};
use crate::agui::conversation::{Conversation, ConversationStatus, ToolCall};
use crate::agui::registry::ToolContext;
use crate::agui::{mapper, new_id};

/// How many calls of one step are run; those beyond fail.
const MAX_CALLS: usize = 1_024;
/// The longest timeout of a tool: thirty years are practically unlimited, and a deadline can hold them.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
/// The types of events that end a run.
const TERMINAL_TYPES: [&str; 2] = ["RUN_FINISHED", "RUN_ERROR"];

/// What follows an item of the stream: more items, or calls to run. Without calls, the request is over.
type Next = ControlFlow<Vec<ToolCall>>;

const OVER: Next = ControlFlow::Break(Vec::new());

impl Run {
    /// Executes the request to its end, which the view then shows.
    pub(super) async fn execute_request(&self) {
        let mut answers = self.answers.clone();
        for depth in 0.. {
            let Some((calls, rest)) = self.stream(answers.take(), depth).await else { return };
            self.execute_calls(calls, rest).await;
            let continuing = self.handle.update(|view| view.state = RunState::Running(Phase::Continuing));
            if continuing.is_none() {
                return;
            }
            if let Some(continued) = &self.continued {
                continued();
            }
        }
    }

    /// Requests a run and reads it to its end. Returns the calls to run and the rest of the stream; `None` if the
    /// request is over.
    async fn stream(&self, answers: Option<Vec<Resume>>, depth: u32) -> Option<(Vec<ToolCall>, EventStream)> {
        let asked = self.agent.run(self.input(answers)).await;
        let mut events = asked.map_err(|error| self.handle.fail(error)).ok()?;
        loop {
            let incoming = events.next().await.unwrap_or_else(|| Err(ended_early()));
            let incoming = incoming.map_err(|error| self.handle.fail(error)).ok()?;
            // The item and its consequences are one update, so that no watcher sees a state in between.
            if let ControlFlow::Break(calls) = self.handle.update(|view| self.take(view, &incoming, depth))? {
                return (!calls.is_empty()).then_some((calls, events));
            }
        }
    }

    fn take(&self, view: &mut View, incoming: &Incoming, depth: u32) -> Next {
        let event = match incoming {
            Incoming::Event(event) => event,
            Incoming::Undecodable { kind, reason } if TERMINAL_TYPES.contains(&kind.as_str()) => {
                let reason = format!("how the run ended cannot be read, {kind}: {reason}");
                view.fail(AgentError::Unexpected { reason }.into());
                return OVER;
            }
            Incoming::Undecodable { kind, reason } => {
                tracing::warn!(kind, reason, "an event that cannot be read; the run goes on");
                view.conversation.note_undecodable(kind, reason);
                return ControlFlow::Continue(());
            }
        };
        view.conversation.apply(event);
        view.state = match &event.body {
            Body::RunStarted { .. } => {
                view.state = RunState::Running(Phase::Streaming);
                return ControlFlow::Continue(());
            }
            Body::RunError { message, code, .. } => {
                RunState::Failed(RunError::Reported { message: message.clone(), code: code.clone() })
            }
            Body::RunFinished { outcome: Some(Outcome::Interrupt { interrupts }), .. } => {
                RunState::Interrupted(interrupts.clone())
            }
            Body::RunFinished { outcome: Some(Outcome::Cancelled), .. } => RunState::Cancelled,
            Body::RunFinished { .. } => return self.finished(view, depth),
            _ => return ControlFlow::Continue(()),
        };
        OVER
    }

    /// Handles the end of a run of the agent: the calls that it leaves for this front end are next.
    fn finished(&self, view: &mut View, depth: u32) -> Next {
        let calls = self.own_calls(&view.conversation);
        if calls.is_empty() {
            view.state = RunState::Completed;
            return OVER;
        }
        if depth >= self.options.depth_limit {
            view.fail(RunError::DepthLimit { limit: self.options.depth_limit });
            return OVER;
        }
        for call in &calls {
            view.conversation.begin_call(&call.id);
        }
        view.conversation.status = ConversationStatus::Running;
        view.state = RunState::Running(Phase::Executing);
        ControlFlow::Break(calls)
    }

    /// The open calls of this request whose tool is registered here.
    fn own_calls(&self, conversation: &Conversation) -> Vec<ToolCall> {
        let open = conversation.active_tool_calls().filter(|call| !self.stale.contains(&call.id));
        let is_own = |call: &&ToolCall| {
            let is_own = self.tools.contains(&call.name);
            if !is_own {
                tracing::warn!(name = call.name, id = call.id, "a call of a tool that is not here; it is not run");
            }
            is_own
        };
        open.filter(is_own).cloned().collect()
    }

    /// Runs all calls at once, and puts their results into the conversation.
    async fn execute_calls(&self, mut calls: Vec<ToolCall>, rest: EventStream) {
        for call in calls.split_off(calls.len().min(MAX_CALLS)) {
            let error = format!("more than {MAX_CALLS} calls at once; it was not run");
            self.handle.update(|view| view.conversation.end_call(&call.id, Err(error)));
        }
        let mut running: FuturesUnordered<_> = calls.into_iter().map(|call| self.execute_call(call)).collect();
        let executing = async {
            while let Some((id, result)) = running.next().await {
                self.handle.update(|view| view.conversation.end_call(&id, result));
            }
        };
        // Meanwhile the rest of the stream is read and ignored, so that its connection can be used again.
        let draining = async {
            // The budget lets the tools run even if the stream never ends.
            rest.for_each(|_late| consume_budget()).await;
            pending::<()>().await;
        };
        tokio::select! {
            () = executing => {}
            () = draining => {}
        }
    }

    /// Runs one call, and returns its id and result. A failure or a panic of the tool is a result.
    async fn execute_call(&self, call: ToolCall) -> (String, Result<String, String>) {
        let own_timeout = self.tools.lookup(&call.name).ok().and_then(|tool| tool.timeout);
        let timeout = own_timeout.unwrap_or(self.options.tool_timeout);
        let cancellation = self.cancellation.child_token();
        // The token fires when the call is dropped, because it timed out or the run is gone.
        let guard = cancellation.clone().drop_guard();
        let (thread_id, run_id) =
            self.handle.see(|view| (view.conversation.thread_id.clone(), view.conversation.parent_run_id.clone()));
        let (id, deadline) = (call.id.clone(), Instant::now() + timeout.min(MAX_TIMEOUT));
        let context = ToolContext { cancellation, call_id: id.clone(), thread_id, run_id, deadline };
        let Ok(ended) = timeout_at(deadline, self.tools.execute(call, context)).await else {
            return (id, Err(format!("the tool did not finish within {}", humantime::format_duration(timeout))));
        };
        guard.disarm();
        (id, ended.map_err(|error| error.message().to_owned()))
    }

    fn input(&self, resume: Option<Vec<Resume>>) -> RunAgentInput {
        let RunOptions { context, forwarded_props, protocol_version, .. } = &self.options;
        self.handle.see(|View { conversation, .. }| RunAgentInput {
            thread_id: conversation.thread_id.clone().unwrap_or_default(),
            run_id: new_id("run"),
            protocol_version: protocol_version.clone(),
            parent_run_id: conversation.parent_run_id.clone(),
            state: Some(conversation.state().clone()),
            messages: mapper::messages(conversation),
            tools: self.tools.definitions(),
            context: context.clone(),
            forwarded_props: Some(forwarded_props.clone()),
            resume,
        })
    }
}

fn ended_early() -> AgentError {
    AgentError::NetworkLost { reason: "the stream ended before the run did".to_owned() }
}
