//! An agent that speaks AG-UI, as the backend of a chat.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `address` | finds the agent at a URL |
//! | `interrupts` | translates interrupts of the agent into questions |
//! | `tools` | local commands as the tools of the front end |
//! | `translator` | translates a conversation into the pieces that are new |

mod address;
mod interrupts;
mod tools;
mod translator;

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use futures_util::future::select_all;
use handback_client::agui::wire::{Interrupt, Resume};
use handback_client::agui::{
    Agent, Conversation, Run, RunError, RunHandle, RunKey, RunOptions, RunRegistry, RunRequest, RunState, StartError,
    Usage, View, messages,
};
use handback_client::{Error, Tool};
use handback_wire::session::Tokens;
use reqwest::Url;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use self::interrupts::{is_allowed, question, resume};
use self::tools::Times;
use self::translator::Translator;
use super::args::ChatArgs;
use super::backend::{Backend, Event, ThreadState};
use super::question::{Answer, Question};
use crate::output::print_json;

/// The error code of a run whose interrupts are still open.
const STILL_OPEN: &str = "interrupts_open";

/// How long commands may take to stop at the end: the time that each command gets, and a little more.
const STOP: Duration = Duration::from_secs(3);

/// An agent, and the threads in which it answers.
pub(super) struct AgentBackend {
    agent: Arc<dyn Agent>,
    url: Url,
    options: RunOptions,
    tools: Vec<Tool>,
    /// The commands that run.
    commands: TaskTracker,
    runs: RunRegistry,
    threads: Vec<AgentThread>,
}

/// A conversation, and how much of it was received and shown.
#[derive(Default)]
struct AgentThread {
    /// Its latest run.
    run: Option<(RunHandle, watch::Receiver<View>)>,
    /// Whether the end of that run must still be reported.
    is_running: bool,
    translator: Translator,
    times: Times,
    /// The usage that was reported so far.
    usage: Usage,
    /// The interrupts that the agent may still wait for.
    open: Vec<Interrupt>,
    /// The answers so far, which may not have reached the agent.
    answers: Vec<Resume>,
}

impl AgentThread {
    fn conversation(&self) -> Conversation {
        self.run.as_ref().map(|(handle, _)| handle.conversation()).unwrap_or_default()
    }

    /// The events since the last call.
    fn events(&mut self, number: usize) -> Vec<Event> {
        let Some((_, view)) = &mut self.run else { return Vec::new() };
        let View { state, conversation, .. } = &*view.borrow_and_update();
        let mut events = vec![Event::Show(self.translator.translate(conversation, &self.times))];
        // A run that was stopped, or whose agent could not be reached, may not have delivered the answers.
        let (thread_state, is_open) = match state {
            RunState::Running(_) => return events,
            RunState::Completed => (ThreadState::Idle, false),
            RunState::Cancelled => (ThreadState::Stopped, true),
            RunState::Interrupted(_) => (ThreadState::Unanswered, true),
            RunState::Failed(error) => {
                let is_open = match error {
                    RunError::Agent(_) => true,
                    RunError::Reported { code, .. } => code.as_deref() == Some(STILL_OPEN),
                    _ => false,
                };
                (ThreadState::Failed(error.clone().into()), is_open)
            }
            // No run was started, or the SDK has a state that this chat does not know.
            _ => (ThreadState::Failed(anyhow!("nothing was asked for")), false),
        };
        self.is_running = false;
        self.open = if is_open { conversation.interrupts().to_vec() } else { Vec::new() };
        if let ThreadState::Unanswered = thread_state {
            events.extend(self.open.iter().map(|interrupt| Event::Ask(question(number, interrupt, conversation))));
            self.answers.clear();
        } else {
            let usage = conversation.usage();
            let reported = std::mem::replace(&mut self.usage, usage);
            let input = usage.input_tokens.saturating_sub(reported.input_tokens);
            let output = usage.output_tokens.saturating_sub(reported.output_tokens);
            events.push(Event::Ended(thread_state, Tokens { input, output, ..Tokens::default() }));
        }
        events
    }
}

impl AgentBackend {
    /// The agent at a URL.
    pub(super) fn new(url: &str, args: &ChatArgs) -> anyhow::Result<Self> {
        let (agent, url) = address::find(url, &args.server)?;
        let properties = args.forward.iter().cloned().collect();
        let options = RunOptions::with(|options| options.forwarded_props = Value::Object(properties));
        let (tools, commands, runs) = (args.attach.clone(), TaskTracker::new(), RunRegistry::new());
        Ok(Self { agent, url, options, tools, commands, runs, threads: Vec::new() })
    }

    fn thread(&mut self, number: usize) -> &mut AgentThread {
        while self.threads.len() < number {
            self.threads.push(AgentThread::default());
        }
        &mut self.threads[number - 1]
    }

    fn tool_names(&self, separator: &str) -> Option<String> {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.definition.id.as_str()).collect();
        (!names.is_empty()).then(|| names.join(separator))
    }

    /// Sends the answers to the interrupts, and another text of the user.
    fn resume(&mut self, number: usize, text: Option<&str>) -> Result<(), StartError> {
        let thread = self.thread(number);
        for answer in thread.answers.iter().filter(|answer| !is_allowed(answer)) {
            let interrupt = thread.open.iter().find(|interrupt| interrupt.id == answer.interrupt_id);
            if let Some(call) = interrupt.and_then(|interrupt| interrupt.tool_call_id.as_ref()) {
                thread.translator.reject(call);
            }
        }
        let answers = thread.answers.clone();
        self.start(number, RunRequest::Resume(answers), text)
    }

    fn start(&mut self, number: usize, request: RunRequest, text: Option<&str>) -> Result<(), StartError> {
        let thread = self.thread(number);
        let (mut conversation, times) = (thread.conversation(), thread.times.clone());
        if let Some(text) = text {
            conversation.say(text);
        }
        let tools = tools::registry(&self.tools, &times, &self.commands);
        let run = Run::new(Arc::clone(&self.agent), tools, conversation, self.options.clone());
        let key = RunKey::new(self.url.origin().ascii_serialization(), self.url.path(), number.to_string());
        let handle = self.runs.start(key, run, request)?;
        let mut view = handle.watch();
        // The first view counts as a change, so that nothing is missed.
        view.mark_changed();
        let thread = self.thread(number);
        thread.run = Some((handle, view));
        thread.is_running = true;
        Ok(())
    }
}

impl Backend for AgentBackend {
    const HELP: &'static str = "\
/new [MESSAGE]  open another thread, also while others answer
/threads        the threads, and where they stand
/thread N       go on in thread N
/cancel [N]     stop the answer of this thread, or of thread N
/retry          ask again for an answer that failed; tools that were run are not run again
/tools          the tools that the agent may call here
/quit           leave; so does Ctrl-D
What you say while a thread answers is said when it has. Ctrl-C stops all answers, or takes back what is typed.
At the prompt, a line that ends with \\ goes on in the next.";
    const HAS_THREADS: bool = true;

    /// Says something. If interrupts are open, this refuses to answer them.
    fn say(&mut self, number: usize, text: &str) -> anyhow::Result<()> {
        let thread = self.thread(number);
        if thread.open.is_empty() {
            return Ok(self.start(number, RunRequest::Say(text.to_owned()), None)?);
        }
        thread.answers = thread.open.iter().map(|interrupt| resume(&interrupt.id, Answer::Value(None))).collect();
        Ok(self.resume(number, Some(text))?)
    }

    fn retry(&mut self, number: usize) -> anyhow::Result<()> {
        let thread = self.thread(number);
        match &mut thread.run {
            Some((_, view)) if thread.answers.len() < thread.open.len() => {
                // The end of the run is reported again, together with its questions.
                view.mark_changed();
                thread.is_running = true;
                Ok(())
            }
            _ if thread.open.is_empty() => Ok(self.start(number, RunRequest::Retry, None)?),
            _ => Ok(self.resume(number, None)?),
        }
    }

    async fn interrupt(&mut self, number: usize) -> Result<bool, Error> {
        let thread = self.thread(number);
        if let Some((handle, _)) = &thread.run {
            handle.cancel();
        }
        Ok(thread.is_running)
    }

    /// Keeps an answer. All answers are sent together when every interrupt has one.
    async fn answer(&mut self, question: &Question, answer: Answer) -> anyhow::Result<()> {
        let thread = self.thread(question.thread);
        thread.answers.push(resume(&question.id, answer));
        if thread.answers.len() == thread.open.len() {
            self.resume(question.thread, None)?;
        }
        Ok(())
    }

    async fn next(&mut self) -> (usize, Vec<Event>) {
        let running = (1..).zip(&mut self.threads).filter(|(_, thread)| thread.is_running);
        let running = running.filter_map(|(number, thread)| {
            let (_, view) = thread.run.as_mut()?;
            Some(Box::pin(async move {
                // This cannot fail, because the thread holds the run that is watched.
                let _ = view.changed().await;
                number
            }))
        });
        let running: Vec<_> = running.collect();
        if running.is_empty() {
            return pending().await;
        }
        let (number, ..) = select_all(running).await;
        (number, self.thread(number).events(number))
    }

    async fn introduction(&mut self) -> Result<String, Error> {
        let (agent, tools) = (&self.url, self.tool_names(", "));
        let tools = tools.as_deref().unwrap_or("none; see --attach");
        Ok(format!("agent    {agent}\ntools    {tools}\n/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves."))
    }

    async fn command(&mut self, command: &str, _argument: &str) -> anyhow::Result<Option<String>> {
        Ok((command == "/tools").then(|| self.tool_names("\n").unwrap_or_else(|| "no tools".to_owned())))
    }

    fn print_json(&self) -> anyhow::Result<()> {
        self.threads.iter().try_for_each(|thread| print_json(&messages(&thread.conversation())))
    }

    async fn close(&self) {
        self.runs.close().await;
        self.commands.close();
        // Commands that do not stop in time are killed when this process ends.
        let _ = timeout(STOP, self.commands.wait()).await;
    }
}
