//! An agent that serves scripted streams, tools that count, and a recorder of all that is seen.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt, stream};
use handback_wire::agui::RunAgentInput;
use serde_json::{Value, json};

use super::super::*;
use crate::agui::conversation::{ConversationStatus, Item, ToolCall, ToolCallStatus};
use crate::agui::{AgentError, ClientTool, EventStream, Incoming, ToolContext};

/// Closed until it is cancelled.
pub(in crate::agui) type Gate = CancellationToken;

/// What a stream does next.
#[derive(Clone)]
pub(in crate::agui) enum Beat {
    Event(Value),
    Undecodable(&'static str),
    Lost,
    /// Nothing, until the gate is open.
    Wait(Gate),
    /// Nothing, for one poll.
    Pause,
}

/// What the agent does when it is asked.
#[derive(Clone)]
pub(in crate::agui) struct Script {
    gate: Option<Gate>,
    answer: Result<Vec<Beat>, AgentError>,
}

impl Script {
    pub(in crate::agui) fn refusing(error: AgentError) -> Self {
        Self { gate: None, answer: Err(error) }
    }

    /// A stream of just this.
    pub(in crate::agui) fn of(beats: Vec<Beat>) -> Self {
        Self { gate: None, answer: Ok(beats) }
    }

    /// A whole run.
    pub(in crate::agui) fn run(run_id: &str, events: &[Vec<Value>]) -> Self {
        let started = json!({"type": "RUN_STARTED", "threadId": "t", "runId": run_id});
        let finished = json!({"type": "RUN_FINISHED", "threadId": "t", "runId": run_id});
        Self::of(events_of(&[&[vec![started]], events, &[vec![finished]]].concat()))
    }

    /// Every event only on the next poll.
    pub(in crate::agui) fn slowly(mut self) -> Self {
        if let Ok(beats) = &mut self.answer {
            *beats = beats.drain(..).flat_map(|beat| [Beat::Pause, beat]).collect();
        }
        self
    }

    /// The same, with something more at the end.
    pub(in crate::agui) fn then(mut self, more: Beat) -> Self {
        if let Ok(beats) = &mut self.answer {
            beats.push(more);
        }
        self
    }

    /// The same, with something before the last event.
    pub(in crate::agui) fn before_the_end(mut self, more: Beat) -> Self {
        if let Ok(beats) = &mut self.answer {
            beats.insert(beats.len() - 1, more);
        }
        self
    }

    /// Answers when the gate is open.
    pub(in crate::agui) fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

pub(in crate::agui) fn events_of(events: &[Vec<Value>]) -> Vec<Beat> {
    events.concat().into_iter().map(Beat::Event).collect()
}

pub(in crate::agui) fn text(id: &str, text: &str) -> Vec<Value> {
    vec![
        json!({"type": "TEXT_MESSAGE_START", "messageId": id}),
        json!({"type": "TEXT_MESSAGE_CONTENT", "messageId": id, "delta": text}),
        json!({"type": "TEXT_MESSAGE_END", "messageId": id}),
    ]
}

pub(in crate::agui) fn call(id: &str, name: &str, arguments: &str) -> Vec<Value> {
    vec![
        json!({"type": "TOOL_CALL_START", "toolCallId": id, "toolCallName": name}),
        json!({"type": "TOOL_CALL_ARGS", "toolCallId": id, "delta": arguments}),
        json!({"type": "TOOL_CALL_END", "toolCallId": id}),
    ]
}

pub(in crate::agui) fn lost() -> AgentError {
    AgentError::NetworkLost { reason: "cut".to_owned() }
}

/// Something that is there until it is dropped.
pub(in crate::agui) struct Presence(Arc<AtomicUsize>);

impl Presence {
    pub(in crate::agui) fn of(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(counter))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// One poll's rest.
#[derive(Default)]
pub(in crate::agui) struct Pause(bool);

impl Future for Pause {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

/// An agent that serves one script after the other.
#[derive(Default)]
pub(in crate::agui) struct FakeAgent {
    scripts: Mutex<VecDeque<Script>>,
    inputs: Mutex<Vec<RunAgentInput>>,
    streams: Arc<AtomicUsize>,
}

impl FakeAgent {
    pub(in crate::agui) fn new(scripts: impl IntoIterator<Item = Script>) -> Arc<Self> {
        Arc::new(Self { scripts: Mutex::new(scripts.into_iter().collect()), ..Self::default() })
    }

    /// What was asked for.
    pub(in crate::agui) fn inputs(&self) -> Vec<RunAgentInput> {
        self.inputs.lock().unwrap().clone()
    }

    /// How many streams are open, or are being opened.
    pub(in crate::agui) fn streams(&self) -> usize {
        self.streams.load(Ordering::SeqCst)
    }
}

impl Agent for FakeAgent {
    fn run(&self, input: RunAgentInput) -> BoxFuture<'static, Result<EventStream, AgentError>> {
        self.inputs.lock().unwrap().push(input);
        let script = self.scripts.lock().unwrap().pop_front().expect("the test has a script for it");
        let presence = Presence::of(&self.streams);
        async move {
            // Whoever asks has to wait at least once.
            Pause::default().await;
            if let Some(gate) = &script.gate {
                gate.cancelled().await;
            }
            let beats = script.answer?.into_iter();
            Ok(stream::unfold((beats, presence), |(mut beats, presence)| async move {
                loop {
                    let incoming = match beats.next()? {
                        Beat::Event(event) => Ok(Incoming::Event(serde_json::from_value(event).unwrap())),
                        Beat::Undecodable(kind) => {
                            Ok(Incoming::Undecodable { kind: kind.to_owned(), reason: "unknown".to_owned() })
                        }
                        Beat::Lost => Err(lost()),
                        Beat::Wait(gate) => {
                            gate.cancelled().await;
                            continue;
                        }
                        Beat::Pause => {
                            Pause::default().await;
                            continue;
                        }
                    };
                    return Some((incoming, (beats, presence)));
                }
            })
            .boxed())
        }
        .boxed()
    }
}

/// Tools that are watched.
#[derive(Clone, Default)]
pub(in crate::agui) struct Workshop {
    /// The calls that were begun, by their ids.
    pub(in crate::agui) begun: Arc<Mutex<Vec<String>>>,
    pub(in crate::agui) running: Arc<AtomicUsize>,
    pub(in crate::agui) most: Arc<AtomicUsize>,
    pub(in crate::agui) contexts: Arc<Mutex<Vec<ToolContext>>>,
}

impl Workshop {
    /// A tool that does `work` and returns what comes of it.
    pub(in crate::agui) fn tool<F, R>(&self, name: &str, work: F) -> ClientTool
    where
        F: Fn(ToolCall) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, crate::ToolError>> + Send + 'static,
    {
        let workshop = self.clone();
        ClientTool::new(name, format!("Does {name}"), move |call, context| {
            let (workshop, working) = (workshop.clone(), work(call.clone()));
            async move {
                workshop.begun.lock().unwrap().push(call.id);
                workshop.contexts.lock().unwrap().push(context);
                let _presence = Presence::of(&workshop.running);
                workshop.most.fetch_max(workshop.running(), Ordering::SeqCst);
                working.await
            }
        })
    }

    /// A tool that echoes its arguments.
    pub(in crate::agui) fn echo(&self, name: &str) -> ClientTool {
        self.tool(name, |call| async move { Ok(format!("echo {}", call.arguments)) })
    }

    /// A tool that fires `begun` and waits for `gate`.
    pub(in crate::agui) fn gated(&self, name: &str, begun: &Gate, gate: &Gate) -> ClientTool {
        let (begun, gate) = (begun.clone(), gate.clone());
        self.tool(name, move |_call| {
            let (begun, gate) = (begun.clone(), gate.clone());
            async move {
                begun.cancel();
                gate.cancelled().await;
                Ok("done".to_owned())
            }
        })
    }

    pub(in crate::agui) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    pub(in crate::agui) fn begun(&self) -> Vec<String> {
        self.begun.lock().unwrap().clone()
    }
}

/// What was seen at one moment.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::agui) struct Seen {
    pub(in crate::agui) state: RunState,
    pub(in crate::agui) status: ConversationStatus,
    pub(in crate::agui) calls: Vec<(String, ToolCallStatus)>,
}

/// Records all that is seen of a run, also what a watcher would miss.
#[derive(Clone, Default)]
pub(in crate::agui) struct Recorder {
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Recorder {
    pub(in crate::agui) fn of(run: &Run) -> Self {
        let recorder = Self::default();
        let seen = Arc::clone(&recorder.seen);
        run.handle.tap(move |view| {
            seen.lock().unwrap().push(Seen {
                state: view.state.clone(),
                status: view.conversation.status().clone(),
                calls: view.conversation.tool_calls().map(|call| (call.id.clone(), call.status)).collect(),
            });
        });
        recorder
    }

    pub(in crate::agui) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The phases in order, each once for as long as it lasted.
    pub(in crate::agui) fn phases(&self) -> Vec<Phase> {
        let phases = self.seen().into_iter().filter_map(|seen| match seen.state {
            RunState::Running(phase) => Some(phase),
            _ => None,
        });
        let mut phases: Vec<Phase> = phases.collect();
        phases.dedup();
        phases
    }

    /// So many turns came to their end, and before it there was nothing but `Running`. No call ever went back.
    pub(in crate::agui) fn assert_no_flash(&self, endings: usize) {
        let seen = self.seen();
        let over: Vec<&RunState> = seen.iter().map(|now| &now.state).filter(|state| !state.is_running()).collect();
        assert_eq!(over.len(), endings, "{seen:#?}");
        let mut furthest: HashMap<String, ToolCallStatus> = HashMap::new();
        for (index, now) in seen.iter().enumerate() {
            assert_eq!(now.status == ConversationStatus::Running, now.state.is_running(), "{index} of {seen:#?}");
            let begins = index == 0 || !seen[index - 1].state.is_running();
            assert!(!begins || now.state == RunState::Running(Phase::Streaming), "{index} of {seen:#?}");
            for (id, status) in &now.calls {
                let furthest = furthest.entry(id.clone()).or_insert(*status);
                assert!(*status >= *furthest, "{id} went back to {status:?} at {index} of {seen:#?}");
                *furthest = *status;
            }
        }
    }
}

/// A run, and all who watch it. When it is dropped, it checks that there was no flash.
pub(in crate::agui) struct Scenario {
    pub(in crate::agui) run: Run,
    pub(in crate::agui) agent: Arc<FakeAgent>,
    pub(in crate::agui) recorder: Recorder,
    /// How many turns came to their end.
    pub(in crate::agui) endings: usize,
}

impl Scenario {
    pub(in crate::agui) fn new(
        scripts: impl IntoIterator<Item = Script>,
        tools: impl IntoIterator<Item = ClientTool>,
    ) -> Self {
        Self::with(scripts, tools, RunOptions::default())
    }

    pub(in crate::agui) fn with(
        scripts: impl IntoIterator<Item = Script>,
        tools: impl IntoIterator<Item = ClientTool>,
        options: RunOptions,
    ) -> Self {
        let agent = FakeAgent::new(scripts);
        let tools = tools.into_iter().fold(ToolRegistry::new(), |registry, tool| registry.register(tool));
        let run = Run::new(Arc::clone(&agent) as Arc<dyn Agent>, tools, Conversation::default(), options);
        let recorder = Recorder::of(&run);
        Self { run, agent, recorder, endings: 0 }
    }

    /// Says something and waits for the end.
    pub(in crate::agui) async fn say(&mut self) -> RunState {
        self.turn(RunRequest::Say("Hi".to_owned())).await
    }

    pub(in crate::agui) async fn turn(&mut self, turn: RunRequest) -> RunState {
        let state = self.run.request(turn).await.unwrap();
        self.endings += 1;
        state
    }

    pub(in crate::agui) fn conversation(&self) -> Conversation {
        self.run.handle().conversation()
    }

    /// Each call's status and result.
    pub(in crate::agui) fn calls(&self) -> Vec<(String, ToolCallStatus, Option<String>)> {
        let conversation = self.conversation();
        conversation.tool_calls().map(|call| (call.id.clone(), call.status, call.result.clone())).collect()
    }

    /// The last text.
    pub(in crate::agui) fn last_text(&self) -> String {
        let conversation = self.conversation();
        let text = conversation.items().iter().rev().find_map(|item| match item {
            Item::Text(text) => Some(text.text.clone()),
            _ => None,
        });
        text.unwrap_or_default()
    }

    /// The messages of the request with this number, as JSON, without the ids that are made by chance.
    pub(in crate::agui) fn messages(&self, request: usize) -> Value {
        let mut messages = serde_json::to_value(&self.agent.inputs()[request].messages).unwrap();
        for message in messages.as_array_mut().unwrap() {
            if message["id"].as_str().unwrap().starts_with("msg_") {
                message["id"] = json!("*");
            }
        }
        messages
    }
}

impl Drop for Scenario {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.recorder.assert_no_flash(self.endings);
        }
    }
}
