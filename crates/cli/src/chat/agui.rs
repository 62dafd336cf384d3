//! An agent that speaks AG-UI as who answers in the threads of a chat.
//!
//! | module | responsibility |
//! | --- | --- |
//! | `address` | where the agent is, and how it is asked |
//! | `interrupts` | what the agent must know before it goes on |
//! | `pieces` | what of a conversation is new |
//! | `tools` | local commands as the tools of the front end |

mod address;
mod interrupts;
mod pieces;
mod tools;

use std::future::pending;
use std::sync::Arc;

use anyhow::anyhow;
use futures_util::future::select_all;
use handback_client::Error;
use handback_client::agui::wire::{Interrupt, Resume};
use handback_client::agui::{
    Agent, Conversation, Run, RunError, RunHandle, RunKey, RunOptions, RunRegistry, RunRequest, RunState, StartError,
    Usage, View, messages,
};
use handback_wire::session::{Reply, Tokens};
use reqwest::Url;
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use self::interrupts::{is_allowed, question, resume};
use self::pieces::Pieces;
use self::tools::Times;
use super::args::{ChatArgs, Property};
use super::backend::{Backend, Event, Standing};
use super::layout::CallStyle;
use super::question::{Answer, Approval, Question};
use super::tools::LocalTool;
use crate::output::print_json;

/// The code of an agent that was not told what it must know.
const STILL_OPEN: &str = "interrupts_open";

/// An agent, and the threads in which it answers.
pub(super) struct Agents {
    agent: Arc<dyn Agent>,
    url: Url,
    options: RunOptions,
    tools: Vec<LocalTool>,
    /// The commands that run.
    commands: TaskTracker,
    runs: RunRegistry,
    threads: Vec<AgentThread>,
}

/// A conversation, and what is known and shown of it.
#[derive(Default)]
struct AgentThread {
    /// Its latest run.
    run: Option<(RunHandle, watch::Receiver<View>)>,
    /// Whether the end of that run is still to be told.
    is_running: bool,
    pieces: Pieces,
    times: Times,
    /// What it took, as far as that is told.
    usage: Usage,
    /// What the agent must know, as far as is known here.
    open: Vec<Interrupt>,
    /// The answers to that, as far as they are given; they may not have reached the agent.
    answers: Vec<Resume>,
}

impl AgentThread {
    fn conversation(&self) -> Conversation {
        self.run.as_ref().map(|(handle, _)| handle.conversation()).unwrap_or_default()
    }

    /// What has happened.
    fn news(&mut self, number: usize) -> Vec<Event> {
        let Some((_, view)) = &mut self.run else { return Vec::new() };
        let View { state, conversation, .. } = &*view.borrow_and_update();
        let mut events = vec![Event::Show(self.pieces.of(conversation, &self.times))];
        let standing = match state {
            RunState::Running(_) => return events,
            RunState::Completed => Standing::Idle,
            RunState::Cancelled => Standing::Stopped,
            RunState::Failed(error) => Standing::Failed(error.clone().into()),
            RunState::Interrupted(_) => Standing::Unanswered,
            // Nothing was asked for, or the SDK knows of a state that this chat does not.
            _ => Standing::Failed(anyhow!("nothing was asked for")),
        };
        self.is_running = false;
        // Where the agent could not be asked, or was stopped, it is not known whether it was told what it must know.
        let is_open = match state {
            RunState::Interrupted(_) | RunState::Cancelled | RunState::Failed(RunError::Agent(_)) => true,
            RunState::Failed(RunError::Reported { code, .. }) => code.as_deref() == Some(STILL_OPEN),
            _ => false,
        };
        self.open = if is_open { conversation.interrupts().to_vec() } else { Vec::new() };
        if let Standing::Unanswered = standing {
            events.extend(ask(number, &self.open, conversation));
            self.answers.clear();
        } else {
            let usage = conversation.usage();
            let told = std::mem::replace(&mut self.usage, usage);
            let input = usage.input_tokens.saturating_sub(told.input_tokens);
            let output = usage.output_tokens.saturating_sub(told.output_tokens);
            events.push(Event::Ended(standing, Tokens { input, output, ..Tokens::default() }));
        }
        events
    }
}

/// The next thread in which something happens.
async fn changed(threads: &mut [AgentThread]) -> usize {
    let running = (1..).zip(threads).filter_map(|(number, thread)| match &mut thread.run {
        Some((_, view)) if thread.is_running => Some(Box::pin(async move {
            // It does not fail: the thread holds what is watched.
            let _ = view.changed().await;
            number
        })),
        _ => None,
    });
    let running: Vec<_> = running.collect();
    if running.is_empty() { pending().await } else { select_all(running).await.0 }
}

/// What the agent must know, as questions.
fn ask(thread: usize, open: &[Interrupt], conversation: &Conversation) -> Vec<Event> {
    open.iter().map(|interrupt| Event::Ask(question(thread, interrupt, conversation))).collect()
}

impl Agents {
    /// The agent at a URL.
    pub(super) fn new(url: &str, args: &ChatArgs) -> anyhow::Result<Self> {
        let (agent, url) = address::find(url, &args.server)?;
        let properties = args.forward.iter().cloned().map(|Property { name, value }| (name, value));
        let options = RunOptions::with(|options| options.forwarded_props = Value::Object(properties.collect()));
        let (tools, commands, runs) = (args.attach.clone(), TaskTracker::new(), RunRegistry::new());
        Ok(Self { agent, url, options, tools, commands, runs, threads: Vec::new() })
    }

    /// Ends all, and waits until it has ended.
    pub(super) async fn close(&self) {
        self.runs.close().await;
        tools::wait(&self.commands).await;
    }

    fn thread(&mut self, number: usize) -> &mut AgentThread {
        while self.threads.len() < number {
            self.threads.push(AgentThread::default());
        }
        &mut self.threads[number - 1]
    }

    /// Tells the agent what it must know, and what else the user says.
    fn resume(&mut self, number: usize, text: Option<&str>) -> Result<(), StartError> {
        let thread = self.thread(number);
        let answers = thread.answers.clone();
        for interrupt in &thread.open {
            let is_rejected = |answer: &Resume| answer.interrupt_id == interrupt.id && !is_allowed(answer);
            if let Some(call) = &interrupt.tool_call_id
                && answers.iter().any(is_rejected)
            {
                thread.pieces.reject(call);
            }
        }
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
        // What has happened by now is seen as well.
        view.mark_changed();
        let thread = self.thread(number);
        thread.run = Some((handle, view));
        thread.is_running = true;
        Ok(())
    }
}

impl Backend for Agents {
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
    const CALL_STYLE: CallStyle = CallStyle::Stages;

    /// Whoever says something else than what the agent must know has not answered it.
    fn say(&mut self, number: usize, text: &str) -> anyhow::Result<()> {
        let thread = self.thread(number);
        if thread.open.is_empty() {
            return Ok(self.start(number, RunRequest::Say(text.to_owned()), None)?);
        }
        thread.answers = thread.open.iter().map(|interrupt| resume(&interrupt.id, Answer::Words(None))).collect();
        Ok(self.resume(number, Some(text))?)
    }

    fn retry(&mut self, number: usize) -> anyhow::Result<()> {
        let thread = self.thread(number);
        match &mut thread.run {
            Some((_, view)) if thread.answers.len() < thread.open.len() => {
                // The end of the run is told again, and so is what the agent must know.
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

    /// The agent is told when all that it must know is answered.
    async fn answer(&mut self, question: &Question, answer: Answer, _by: Approval) -> anyhow::Result<()> {
        let thread = self.thread(question.thread);
        let is_always = matches!(&answer, Answer::Call(answer) if answer.response == Reply::Always);
        thread.answers.push(resume(&question.id, answer));
        if is_always {
            let conversation = thread.conversation();
            for interrupt in &thread.open {
                let other = interrupts::question(question.thread, interrupt, &conversation);
                let is_open = !thread.answers.iter().any(|answer| answer.interrupt_id == interrupt.id);
                if let Some(allowed) = other.allowed().filter(|_| is_open && other.tool() == question.tool()) {
                    thread.answers.push(resume(&interrupt.id, allowed));
                }
            }
        }
        if thread.answers.len() == thread.open.len() {
            self.resume(question.thread, None)?;
        }
        Ok(())
    }

    async fn next(&mut self) -> (usize, Vec<Event>) {
        let number = changed(&mut self.threads).await;
        (number, self.thread(number).news(number))
    }

    async fn introduction(&mut self) -> Result<String, Error> {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() { "none; see --attach".to_owned() } else { names.join(", ") };
        let agent = &self.url;
        Ok(format!("agent    {agent}\ntools    {names}\n/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves."))
    }

    async fn command(&mut self, command: &str, _argument: &str) -> anyhow::Result<Option<String>> {
        let names: Vec<&str> = self.tools.iter().map(|tool| tool.name.as_str()).collect();
        let names = if names.is_empty() { "no tools".to_owned() } else { names.join("\n") };
        Ok((command == "/tools").then_some(names))
    }

    fn print_json(&self) -> anyhow::Result<()> {
        self.threads.iter().try_for_each(|thread| print_json(&messages(&thread.conversation())))
    }
}
