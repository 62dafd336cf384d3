//! Threads that go on at the same time: what happens in them is shown, and what they ask is answered.

use std::collections::VecDeque;
use std::sync::Arc;

use anyhow::bail;
use futures_util::StreamExt;
use futures_util::future::{pending, select_all};
use futures_util::stream::BoxStream;
use handback_client::agui::wire::Resume;
use handback_client::agui::{Ending, Lifecycle, Run, RunKey, RunOptions, RunRegistry, RunState, Turn};

use super::address::Address;
use super::ask::{Answer, Ask};
use super::screen::Screen;
use super::thread::{Standing, Thread};
use super::tools::Commands;
use super::usage::Counted;
use crate::chat::layout::{Ink, usage};
use crate::chat::lines::Lines;
use crate::chat::turn::Approval;
use crate::signals::{Signals, Stop};

/// There are at most so many threads; one more is refused.
const MOST_THREADS: usize = 64;

/// All threads, and those who talk in them. Threads are counted from 1.
pub(super) struct Talk {
    pub(super) address: Address,
    pub(super) commands: Commands,
    pub(super) options: RunOptions,
    pub(super) approval: Approval,
    pub(super) screen: Screen,
    lines: Lines,
    runs: RunRegistry,
    lifecycle: BoxStream<'static, Lifecycle>,
    threads: Vec<Thread>,
    /// What waits for the user, the first of which is being asked.
    asks: VecDeque<Ask>,
}

/// What whoever leads the talk must know.
pub(super) enum Event {
    /// The user has typed something; `None` when there will be nothing more.
    Typed(Option<String>),
    /// A signal came.
    Stop(Stop),
    /// A thread has answered, or given up.
    Ended(usize),
}

/// Whether the user may type whatever they like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Listening {
    /// They may.
    Always,
    /// Only to answer what is asked.
    WhenAsked,
}

impl Talk {
    pub(super) fn new(
        address: Address,
        commands: Commands,
        options: RunOptions,
        approval: Approval,
        screen: Screen,
    ) -> Self {
        let runs = RunRegistry::new();
        let lifecycle = runs.lifecycle();
        let (lines, threads, asks) = (Lines::default(), Vec::new(), VecDeque::new());
        Self { address, commands, options, approval, screen, lines, runs, lifecycle, threads, asks }
    }

    /// Opens a thread in which nothing is said yet.
    pub(super) fn open(&mut self) -> anyhow::Result<usize> {
        if self.threads.len() >= MOST_THREADS {
            bail!("there are {MOST_THREADS} threads already");
        }
        self.threads.push(Thread::new());
        if self.threads.len() == 2 {
            self.screen.share()?;
        }
        Ok(self.threads.len())
    }

    pub(super) fn thread(&mut self, number: usize) -> &mut Thread {
        &mut self.threads[number - 1]
    }

    pub(super) fn threads(&self) -> impl ExactSizeIterator<Item = (usize, &Thread)> {
        self.threads.iter().enumerate().map(|(index, thread)| (index + 1, thread))
    }

    /// Whether something goes on in any thread.
    pub(super) fn is_busy(&self) -> bool {
        self.threads.iter().any(Thread::is_busy)
    }

    /// Says something in a thread that is not busy. Whoever says something else than what the agent must know has not
    /// answered it.
    pub(super) fn say(&mut self, number: usize, text: &str) -> anyhow::Result<()> {
        let thread = self.thread(number);
        if thread.title.is_empty() {
            text.clone_into(&mut thread.title);
        }
        let refusals = thread.refusals();
        if refusals.is_empty() {
            return self.start(number, Turn::Say(text.to_owned()));
        }
        self.resume(number, refusals, Some(text))
    }

    /// Asks again for what failed, was stopped, or was not answered; false if nothing was.
    pub(super) fn retry(&mut self, number: usize) -> anyhow::Result<bool> {
        let thread = self.thread(number);
        match &thread.standing {
            Standing::Unanswered => self.ask(number)?,
            Standing::Failed(_) | Standing::Stopped if !thread.open.is_empty() => {
                let answers = thread.answers.clone();
                self.resume(number, answers, None)?;
            }
            Standing::Failed(_) | Standing::Stopped => self.start(number, Turn::Retry)?,
            Standing::Idle | Standing::Running | Standing::Asking => return Ok(false),
        }
        Ok(true)
    }

    /// Stops what goes on in a thread; false if nothing does.
    pub(super) fn cancel(&mut self, number: usize) -> bool {
        let thread = self.thread(number);
        match (&thread.standing, &thread.run) {
            (Standing::Running, Some((handle, _))) => handle.cancel(),
            _ => false,
        }
    }

    /// Stops all that goes on, and asks nothing any more.
    pub(super) fn cancel_all(&mut self) -> anyhow::Result<()> {
        self.screen.interrupted()?;
        for ask in std::mem::take(&mut self.asks) {
            let thread = self.thread(ask.thread);
            if thread.is_busy() {
                thread.standing = Standing::Unanswered;
                self.screen.line(Some(ask.thread), Ink::Dim, "The question stays open; /retry asks it again.")?;
            }
        }
        for number in 1..=self.threads.len() {
            self.cancel(number);
        }
        Ok(())
    }

    /// Ends all, and waits until it has ended.
    pub(super) async fn close(&self) {
        self.runs.close().await;
        self.commands.wait().await;
    }

    /// Shows what happens until there is something to decide.
    pub(super) async fn next(&mut self, signals: &mut Signals, listening: Listening) -> anyhow::Result<Event> {
        loop {
            let is_asking = !self.asks.is_empty();
            tokio::select! {
                stop = signals.next() => return Ok(Event::Stop(stop)),
                line = self.lines.next(), if is_asking || listening == Listening::Always => {
                    let line = line?;
                    self.screen.typed();
                    if !is_asking {
                        return Ok(Event::Typed(line));
                    }
                    self.take_answer(line.as_deref())?;
                }
                // While a question is open nothing else is shown: it is there for later.
                told = self.lifecycle.next(), if !is_asking => {
                    if let Some(number) = self.take_lifecycle(told)? {
                        return Ok(Event::Ended(number));
                    }
                }
                number = changed(&mut self.threads), if !is_asking => self.show(number)?,
            }
        }
    }

    /// Shows what is new of a thread.
    fn show(&mut self, number: usize) -> anyhow::Result<()> {
        let news = self.thread(number).news();
        Ok(self.screen.show(number, &news)?)
    }

    /// Gives the thread that has ended with it, if one has.
    fn take_lifecycle(&mut self, told: Option<Lifecycle>) -> anyhow::Result<Option<usize>> {
        match told {
            Some(Lifecycle::Completed { key, ending, .. }) => match key.thread.parse() {
                Ok(number) => self.end(number, ending),
                Err(_) => Ok(None),
            },
            Some(Lifecycle::Missed(_)) => {
                // The first one that has ended; the others tell it themselves, or are found when it is missed again.
                let ended = self.threads().find_map(|(number, thread)| match (&thread.standing, &thread.run) {
                    (Standing::Running, Some((handle, _))) if !handle.state().is_running() => {
                        Some((number, handle.state()))
                    }
                    _ => None,
                });
                ended.map_or(Ok(None), |(number, state)| self.end(number, Ending::Ended(state)))
            }
            // From the first run to the last continuation it is one and the same to the user.
            Some(_) | None => Ok(None),
        }
    }

    fn end(&mut self, number: usize, ending: Ending) -> anyhow::Result<Option<usize>> {
        self.show(number)?;
        self.screen.end(number)?;
        let thread = self.thread(number);
        thread.note_open(&ending);
        thread.standing = match ending {
            Ending::Ended(RunState::Interrupted(_)) => {
                self.ask(number)?;
                return Ok(None);
            }
            Ending::Ended(RunState::Failed(error)) => Standing::Failed(error.into()),
            Ending::Refused(error) => Standing::Failed(error.into()),
            Ending::Ended(RunState::Cancelled) | Ending::Stopped | Ending::Replaced => Standing::Stopped,
            Ending::Ended(RunState::Completed | RunState::Idle | RunState::Running(_)) => Standing::Idle,
        };
        if let Some(usage) = usage(thread.usage.take()) {
            self.screen.line(Some(number), Ink::Dim, &usage)?;
        }
        Ok(Some(number))
    }

    /// The agent must know something: the user is asked, or it is answered for them.
    fn ask(&mut self, number: usize) -> anyhow::Result<()> {
        let thread = self.thread(number);
        let conversation = thread.conversation();
        let asks: Vec<Ask> = thread.open.iter().map(|interrupt| Ask::new(number, interrupt, &conversation)).collect();
        if self.approval == Approval::User {
            let is_first = self.asks.is_empty();
            self.asks.extend(asks);
            let thread = self.thread(number);
            thread.standing = Standing::Asking;
            thread.answers.clear();
            return if is_first { self.put_question() } else { Ok(()) };
        }
        let mut answers = Vec::new();
        for ask in asks {
            let allowed = if self.approval == Approval::Allow { ask.allowed() } else { None };
            answers.push(match allowed {
                Some(answer) => answer,
                None => {
                    let note =
                        format!("{} needs to be allowed, and nobody can be asked here; --yes allows", ask.subject());
                    self.screen.line(Some(number), Ink::Yellow, &note)?;
                    ask.rejected("This call needs to be allowed, and nobody could be asked")
                }
            });
        }
        self.resume(number, answers, None)
    }

    fn put_question(&mut self) -> anyhow::Result<()> {
        if let Some(ask) = self.asks.front() {
            self.lines.ask();
            self.screen.aside(Some(ask.thread), Ink::Yellow, &ask.text())?;
        }
        Ok(())
    }

    /// The user has typed something while they were asked.
    fn take_answer(&mut self, line: Option<&str>) -> anyhow::Result<()> {
        let Some(ask) = self.asks.front_mut() else { return Ok(()) };
        let thread = ask.thread;
        match ask.read(line) {
            Answer::Again(remark) => {
                self.screen.aside(None, Ink::Dim, &remark)?;
                return self.put_question();
            }
            Answer::Given(answer) => {
                self.asks.pop_front();
                self.thread(thread).answers.push(answer);
            }
            Answer::Always(answer) => {
                let tool = ask.subject().to_owned();
                self.asks.pop_front();
                let mut answers = vec![answer];
                self.asks.retain(|other| {
                    let is_same = other.thread == thread && other.subject() == tool;
                    answers.extend(other.allowed().filter(|_| is_same));
                    !is_same
                });
                self.thread(thread).answers.append(&mut answers);
            }
        }
        if !self.asks.iter().any(|ask| ask.thread == thread) {
            let answers = self.thread(thread).answers.clone();
            self.resume(thread, answers, None)?;
        }
        self.put_question()
    }

    /// Tells the agent what it must know, and something else besides.
    fn resume(&mut self, number: usize, answers: Vec<Resume>, text: Option<&str>) -> anyhow::Result<()> {
        let thread = self.thread(number);
        thread.note_rejected(&answers);
        thread.answers.clone_from(&answers);
        self.start_with(number, Turn::Resume(answers), text)
    }

    fn start(&mut self, number: usize, turn: Turn) -> anyhow::Result<()> {
        self.start_with(number, turn, None)
    }

    fn start_with(&mut self, number: usize, turn: Turn, text: Option<&str>) -> anyhow::Result<()> {
        let thread = &self.threads[number - 1];
        let mut conversation = thread.conversation();
        if let Some(text) = text {
            conversation.say(text);
        }
        let tools = self.commands.registry(&thread.times);
        let agent = Counted { agent: Arc::clone(&self.address.agent), usage: thread.usage.clone() };
        let run = Run::new(Arc::new(agent), tools, conversation, self.options.clone());
        let url = &self.address.url;
        let key = RunKey::new(url.origin().ascii_serialization(), url.path(), number.to_string());
        let handle = self.runs.start(key, run, turn)?;
        let mut view = handle.watch();
        // What has happened by now is seen as well.
        view.mark_changed();
        let thread = self.thread(number);
        thread.run = Some((handle, view));
        thread.standing = Standing::Running;
        Ok(())
    }
}

/// The next thread in which something happens.
async fn changed(threads: &mut [Thread]) -> usize {
    let running =
        threads.iter_mut().enumerate().filter_map(|(index, thread)| match (&thread.standing, &mut thread.run) {
            (Standing::Running, Some((_, view))) => Some(Box::pin(async move {
                match view.changed().await {
                    Ok(()) => index + 1,
                    // It has ended, and that is told elsewhere.
                    Err(_) => pending().await,
                }
            })),
            _ => None,
        });
    let running: Vec<_> = running.collect();
    if running.is_empty() { pending().await } else { select_all(running).await.0 }
}
