//! The threads of a chat: shows their events, and has their questions answered.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use anyhow::bail;
use handback_client::Error;
use tokio::time::{Instant, sleep_until};

use super::backend::{Backend, Event, ThreadState};
use super::keyboard::Keyboard;
use super::layout::Layout;
use super::paint::{Ink, usage};
use super::piece::Piece;
use super::question::{Answer, Approval, Question};
use super::screen::Screen;
use crate::exit::Interrupted;
use crate::output::plain;
use crate::signals::{Signals, Stop};

/// How much of a message is shown where it tells threads apart.
pub(super) const TITLE_CHARACTERS: usize = 100;

/// The most threads; one more is refused.
const MOST_THREADS: usize = 64;

/// A chat: its backend, its screen, and the state of its threads.
pub(super) struct Chat<B> {
    pub(super) backend: B,
    pub(super) screen: Screen,
    pub(super) keyboard: Keyboard,
    pub(super) threads: Vec<Thread>,
    /// Whether the user may type messages and commands while an answer comes, and not only answers to questions.
    pub(super) listens: bool,
    approval: Approval,
    /// The questions that wait for the user.
    questions: VecDeque<Question>,
    /// Whether the first question is on the screen.
    is_asking: bool,
    /// The events that are not shown yet, with their threads. No event is shown while a question is on the screen; few
    /// arrive then, because a model that waits for calls sends nothing.
    backlog: VecDeque<(usize, Event)>,
    /// When something was last shown or typed.
    waits_since: Instant,
    /// Whether the user has stopped all answers.
    is_stopping: bool,
}

/// A conversation.
#[derive(Default)]
pub(super) struct Thread {
    pub(super) state: ThreadState,
    /// The first message.
    pub(super) title: String,
    /// The messages to say when it has answered.
    pub(super) waiting: VecDeque<String>,
    /// The text of its answers.
    pub(super) answer: String,
    /// The part of the answer that was added last.
    part: String,
}

impl Thread {
    /// Whether an answer comes or waits for the user.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.state, ThreadState::Busy)
    }

    /// Adds pieces to the answer. Each part begins on a line of its own.
    fn keep_answer(&mut self, pieces: &[Piece]) {
        for piece in pieces {
            if let Piece::Text { part, text } = piece {
                if *part != self.part && !self.answer.is_empty() && !self.answer.ends_with('\n') {
                    self.answer.push('\n');
                }
                self.part.clone_from(part);
                self.answer.push_str(text);
            }
        }
    }
}

/// The event that the caller of [`Chat::next`] must act on.
pub(super) enum Next {
    /// The user typed a line; `None` when nothing more can be typed.
    Typed(Option<String>),
    /// A signal came, and all answers are being stopped.
    Stop(Stop),
    /// The answer of a thread is over.
    Ended(usize),
}

impl<B: Backend> Chat<B> {
    /// A chat without threads.
    pub(super) fn new(backend: B, screen: Screen, approval: Approval) -> Self {
        Self {
            backend,
            screen,
            keyboard: Keyboard::default(),
            threads: Vec::new(),
            listens: false,
            approval,
            questions: VecDeque::new(),
            is_asking: false,
            backlog: VecDeque::new(),
            waits_since: Instant::now(),
            is_stopping: false,
        }
    }

    /// Opens a thread and returns its number.
    pub(super) fn open(&mut self) -> anyhow::Result<usize> {
        if self.threads.len() >= MOST_THREADS {
            bail!("there are {MOST_THREADS} threads already");
        }
        self.threads.push(Thread::default());
        if self.threads.len() == 2 {
            self.screen.draw(Layout::share)?;
        }
        Ok(self.threads.len())
    }

    pub(super) fn thread(&mut self, number: usize) -> &mut Thread {
        &mut self.threads[number - 1]
    }

    /// Whether any thread is busy.
    pub(super) fn is_busy(&self) -> bool {
        self.threads.iter().any(Thread::is_busy)
    }

    /// Says something in a thread that is not busy.
    pub(super) fn say(&mut self, number: usize, text: &str) -> anyhow::Result<()> {
        self.backend.say(number, text)?;
        let thread = self.thread(number);
        if thread.title.is_empty() {
            text.clone_into(&mut thread.title);
        }
        self.begun(number);
        Ok(())
    }

    /// Requests an answer again that failed, was stopped or waits for the user; returns false if there is none.
    pub(super) fn retry(&mut self, number: usize) -> anyhow::Result<bool> {
        if matches!(self.thread(number).state, ThreadState::Idle | ThreadState::Busy) {
            return Ok(false);
        }
        self.backend.retry(number)?;
        self.begun(number);
        Ok(true)
    }

    /// Shows why an answer failed, if it did.
    pub(super) fn show_failure(&mut self, number: usize) -> io::Result<()> {
        match &self.threads[number - 1].state {
            ThreadState::Failed(error) => self.screen.line(number, Ink::Red, &format!("✗ {error:#}")),
            _ => Ok(()),
        }
    }

    fn begun(&mut self, number: usize) {
        self.thread(number).state = ThreadState::Busy;
        self.waits_since = Instant::now();
        self.is_stopping = false;
    }

    /// Shows events until the caller has to act. Ctrl-C stops all answers; a second one ends the chat at once.
    pub(super) async fn next(&mut self, signals: &mut Signals) -> anyhow::Result<Next> {
        let stop = tokio::select! {
            next = self.listen() => return next,
            stop = signals.next() => stop,
        };
        let is_second = std::mem::replace(&mut self.is_stopping, true);
        if !is_second {
            tokio::select! {
                stopped = self.interrupt_all() => return stopped.map(|()| Next::Stop(stop)),
                _ = signals.next() => {}
            }
        }
        Err(Interrupted("stopped at once").into())
    }

    /// Runs [`Chat::next`] until a signal comes. The signal drops this future at any await.
    async fn listen(&mut self) -> anyhow::Result<Next> {
        loop {
            if let Some(ended) = self.show_backlog().await? {
                return Ok(Next::Ended(ended));
            }
            self.put_question()?;
            let awaited = self.backend.awaited().filter(|_| !self.is_asking && !self.is_stopping);
            let seconds = self.waits_since.elapsed().as_secs() + 1;
            tokio::select! {
                line = self.keyboard.next_line(), if self.is_asking || self.listens => {
                    let line = line?;
                    // The terminal has echoed the line at the cursor.
                    self.screen.layout.move_on();
                    if !self.is_asking {
                        return Ok(Next::Typed(line));
                    }
                    self.take_answer(line.as_deref()).await?;
                }
                (number, events) = self.backend.next() => {
                    for event in events {
                        self.take(number, event)?;
                    }
                }
                () = sleep_until(self.waits_since + Duration::from_secs(seconds)), if awaited.is_some() => {
                    self.screen.waiting(&format!("waiting for {} · {seconds} s", awaited.unwrap_or_default()))?;
                }
            }
        }
    }

    /// Stops all answers and drops all questions.
    async fn interrupt_all(&mut self) -> anyhow::Result<()> {
        let asking: Vec<usize> = self.questions.drain(..).map(|question| question.thread).collect();
        if self.is_asking {
            self.close_question("\n")?;
        } else if self.keyboard.is_hidden() {
            // The terminal echoes nothing for Ctrl-C, so the current text may continue.
            if !self.screen.layout.is_in_text() {
                self.screen.draw(Layout::end_line)?;
            }
        } else {
            self.screen.draw(Layout::interrupted)?;
        }
        for number in 1..=self.threads.len() {
            if self.thread(number).is_busy() && !self.backend.interrupt(number).await? && asking.contains(&number) {
                self.thread(number).state = ThreadState::Unanswered;
                self.screen.line(number, Ink::Dim, "The question stays open; /retry asks it again.")?;
            }
        }
        Ok(())
    }

    /// Queues an event until it can be shown. Events that close questions take effect at once.
    fn take(&mut self, number: usize, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Ask(question) if self.approval == Approval::User => self.questions.push_back(question),
            Event::AskClosed(id) => {
                let remark = "\nIt was answered elsewhere, or its time was over.\n";
                self.withdraw(|question| question.id == id, remark)?;
            }
            Event::Ended(..) => {
                self.withdraw(|question| question.thread == number, "\n")?;
                self.backlog.push_back((number, event));
            }
            event => self.backlog.push_back((number, event)),
        }
        Ok(())
    }

    /// Shows the backlog up to the end of an answer, and returns the thread of that answer.
    async fn show_backlog(&mut self) -> anyhow::Result<Option<usize>> {
        while !self.is_asking
            && let Some((number, event)) = self.backlog.pop_front()
        {
            match event {
                Event::Show(pieces) => {
                    self.thread(number).keep_answer(&pieces);
                    if !pieces.is_empty() {
                        self.waits_since = Instant::now();
                    }
                    self.screen.draw(|layout| layout.show(number, &pieces))?;
                }
                Event::Ask(question) => self.decide(question).await?,
                // The event took effect when it arrived.
                Event::AskClosed(_) => {}
                Event::Ended(state, tokens) => {
                    self.screen.draw(|layout| layout.end(number))?;
                    if let Some(usage) = usage(tokens) {
                        self.screen.line(number, Ink::Dim, &usage)?;
                    }
                    self.thread(number).state = state;
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    /// Answers a question for a user who cannot be asked, or who has allowed every call.
    async fn decide(&mut self, question: Question) -> anyhow::Result<()> {
        let answer = match question.allowed().filter(|_| self.approval == Approval::Allow) {
            Some(answer) => answer,
            None => {
                let note =
                    format!("{} needs to be allowed, and nobody can be asked here; --yes allows", question.subject);
                self.screen.line(question.thread, Ink::Yellow, &note)?;
                question.rejected("This call needs to be allowed, and nobody could be asked")
            }
        };
        self.deliver(&question, answer).await
    }

    /// Gives the backend an answer. A question that somebody else has answered meanwhile is not an error.
    async fn deliver(&mut self, question: &Question, answer: Answer) -> anyhow::Result<()> {
        match self.backend.answer(question, answer).await {
            Err(error) if is_closed(&error) => Ok(()),
            answered => answered,
        }
    }

    /// Puts the first question on the screen.
    fn put_question(&mut self) -> io::Result<()> {
        let Some(question) = self.questions.front().filter(|_| !self.is_asking) else { return Ok(()) };
        self.screen.draw(|layout| layout.end(question.thread))?;
        self.keyboard.ask();
        self.screen.aside(question.thread, Ink::Yellow, &question.text())?;
        self.is_asking = true;
        Ok(())
    }

    /// Takes the question off the screen, with a remark.
    fn close_question(&mut self, remark: &str) -> io::Result<()> {
        self.is_asking = false;
        self.keyboard.stop_asking();
        self.waits_since = Instant::now();
        self.screen.aside(None, Ink::Dim, remark)
    }

    /// Takes a line that the user typed while a question was on the screen.
    async fn take_answer(&mut self, line: Option<&str>) -> anyhow::Result<()> {
        let Some(question) = self.questions.front_mut() else { return Ok(()) };
        let answer = match question.read(line) {
            Ok(answer) => answer,
            Err(remark) => return Ok(self.close_question(&remark)?),
        };
        let is_always = answer.is_always();
        let mut remark = "";
        match self.backend.answer(question, answer).await {
            Ok(()) => {}
            Err(error) if is_closed(&error) => remark = "It was answered already, or its time was over.\n",
            Err(error) => {
                self.screen.aside(None, Ink::Red, &format!("{}\n", plain(&error.to_string())))?;
                return Ok(self.close_question("")?);
            }
        }
        let answered = self.questions.pop_front();
        self.close_question(remark)?;
        if let Some(answered) = answered.filter(|_| is_always) {
            // The other calls of the tool that wait in this thread are allowed as well.
            let is_same = |other: &Question| other.thread == answered.thread && other.tool() == answered.tool();
            let (same, others) = std::mem::take(&mut self.questions).into_iter().partition(is_same);
            self.questions = others;
            for question in same {
                if let Some(allowed) = question.allowed() {
                    self.deliver(&question, allowed).await?;
                }
            }
        }
        Ok(())
    }

    /// Drops questions that are closed.
    fn withdraw(&mut self, is_closed: impl Fn(&Question) -> bool, remark: &str) -> io::Result<()> {
        let is_on_screen = self.is_asking && self.questions.front().is_some_and(&is_closed);
        self.questions.retain(|question| !is_closed(question));
        if is_on_screen { self.close_question(remark) } else { Ok(()) }
    }
}

/// Whether an answer failed because the question is closed.
fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref().and_then(Error::status) == Some(404)
}

#[cfg(test)]
mod tests;
