//! What a run does with one request, from the first question to the agent to the end.

use std::collections::HashSet;
use std::future::pending;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use handback_wire::agui::{Body, Outcome, Resume, RunAgentInput};
use tokio::task::consume_budget;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{Phase, Run, RunError, RunOptions, RunState, View};
use crate::agui::agent::{AgentError, EventStream, Incoming};
use crate::agui::conversation::{Conversation, Status, ToolCall};
use crate::agui::registry::ToolContext;
use crate::agui::{mapper, new_id};

/// How many calls of one step are run; those beyond fail.
const MOST_CALLS: usize = 1_024;
/// How long a tool may take at most, whatever is said: thirty years are for ever, and a deadline can be told.
const LONGEST: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
/// The types of events that end a run.
const ENDS: [&str; 2] = ["RUN_FINISHED", "RUN_ERROR"];

/// One request of a run on its way.
pub(super) struct Course<'a> {
    pub(super) run: &'a Run,
    pub(super) cancellation: &'a CancellationToken,
    /// Calls that are not for this request to run.
    pub(super) stale: HashSet<String>,
}

/// What follows from something that came.
enum Step {
    More,
    Execute(Vec<ToolCall>),
    Over,
}

impl Course<'_> {
    /// Goes on until the end, which the handle shows then.
    pub(super) async fn go(&self) {
        let mut answers = self.run.answers.clone();
        let mut depth = 0;
        loop {
            let Some((calls, rest)) = self.stream(answers.take(), depth).await else { return };
            self.execute(calls, rest).await;
            let continuing = self.run.handle.update(|view| view.state = RunState::Running(Phase::Continuing));
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
    /// there are none, and the request is over.
    async fn stream(&self, answers: Option<Vec<Resume>>, depth: u32) -> Option<(Vec<ToolCall>, EventStream)> {
        let handle = &self.run.handle;
        let asked = self.run.agent.run(self.input(answers)).await;
        let mut events = asked.map_err(|error| handle.fail(error)).ok()?;
        loop {
            let incoming = events.next().await.unwrap_or_else(|| Err(ended_early()));
            let incoming = incoming.map_err(|error| handle.fail(error)).ok()?;
            match handle.update(|view| self.take(view, &incoming, depth))? {
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
            Incoming::Undecodable { kind, reason } if ENDS.contains(&kind.as_str()) => {
                // Nothing comes after it, so that there is nothing to wait for.
                let reason = format!("how the run ended cannot be read, {kind}: {reason}");
                view.fail(AgentError::Unexpected { reason }.into());
                return Step::Over;
            }
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
            Some(Outcome::Success { .. } | Outcome::Other(_)) | None => self.own_calls(&view.conversation),
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

    /// The calls that are this front end's to run: pending, of a tool that it has, and made in this request.
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
        let handle = &self.run.handle;
        for call in calls.split_off(calls.len().min(MOST_CALLS)) {
            let error = format!("more than {MOST_CALLS} calls at once; it was not run");
            handle.update(|view| view.conversation.end_call(&call.id, Err(error)));
        }
        let mut running: FuturesUnordered<_> = calls.into_iter().map(|call| self.execute_one(call)).collect();
        let executing = async {
            while let Some((id, result)) = running.next().await {
                handle.update(|view| view.conversation.end_call(&id, result));
            }
        };
        // Meanwhile the stream is read to where the server closes it, so that its connection can be used again. Nothing
        // that comes after the end of a run changes it.
        let draining = async {
            // A stream that always has more leaves room for the tools, too.
            rest.for_each(|_late| consume_budget()).await;
            pending::<()>().await;
        };
        tokio::select! {
            () = executing => {}
            () = draining => {}
        }
    }

    /// Runs one call: its id, and what came of it. Whatever happens in the tool stays in it.
    async fn execute_one(&self, call: ToolCall) -> (String, Result<String, String>) {
        let Run { tools, options, handle, .. } = self.run;
        let own_timeout = tools.lookup(&call.name).ok().and_then(|tool| tool.own_timeout());
        let timeout = own_timeout.unwrap_or(options.tool_timeout);
        let cancellation = self.cancellation.child_token();
        // Fires when the call is dropped, whether its time is up or the run is gone.
        let guard = cancellation.clone().drop_guard();
        let (thread_id, run_id) =
            handle.see(|view| (view.conversation.thread_id.clone(), view.conversation.parent_run_id.clone()));
        let (id, deadline) = (call.id.clone(), Instant::now() + timeout.min(LONGEST));
        let context = ToolContext { cancellation, call_id: id.clone(), thread_id, run_id, deadline };
        let Ok(ended) = timeout_at(deadline, tools.execute(call, context)).await else {
            return (id, Err(format!("the tool did not finish within {}", humantime::format_duration(timeout))));
        };
        guard.disarm();
        (id, ended.map_err(|error| error.message().to_owned()))
    }

    fn input(&self, resume: Option<Vec<Resume>>) -> RunAgentInput {
        let RunOptions { context, forwarded_props, protocol_version, .. } = &self.run.options;
        self.run.handle.see(|View { conversation, .. }| RunAgentInput {
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

fn ended_early() -> AgentError {
    AgentError::NetworkLost { reason: "the stream ended before the run did".to_owned() }
}
