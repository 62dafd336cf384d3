//! The threads of a chat: what happens in them is shown, and what they ask is answered.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use anyhow::bail;
use handback_client::Error;
use handback_wire::session::Reply;
use tokio::time::{Instant, sleep_until};

use super::backend::{Backend, Event, Standing};
use super::layout::Layout;
use super::lines::Lines;
use super::paint::{Ink, usage};
use super::piece::Piece;
use super::question::{Answer, Approval, Question, Reading};
use super::screen::Screen;
use crate::failure::Interrupted;
use crate::output::plain;
use crate::signals::{Signals, Stop};

/// So much of a message is shown, where it tells threads apart.
pub(super) const TITLE_CHARACTERS: usize = 100;

/// There are at most so many threads; one more is refused.
const MOST_THREADS: usize = 64;

/// A chat: who answers in it, what is shown of it, and where its threads stand.
pub(super) struct Chat<B> {
    pub(super) backend: B,
    pub(super) screen: Screen,
    pub(super) lines: Lines,
    pub(super) threads: Vec<Thread>,
    /// Whether the user may type whatever they like while an answer comes, and not only to answer what is asked.
    pub(super) listens: bool,
    approval: Approval,
    /// What waits for the user.
    questions: VecDeque<Question>,
    /// Whether the first question is on the screen.
    is_asking: bool,
    /// What has happened and is not shown yet. While a question is on the screen nothing is: little happens then, since a
    /// model that waits for calls says nothing.
    happened: VecDeque<(usize, Event)>,
    /// Since when nothing was shown, and the user was not heard.
    waits_since: Instant,
    /// Whether the user has stopped what goes on.
    is_stopping: bool,
}

/// A conversation.
#[derive(Default)]
pub(super) struct Thread {
    pub(super) standing: Standing,
    /// What was said first.
    pub(super) title: String,
    /// What is said when it has answered.
    pub(super) waiting: VecDeque<String>,
    /// Its answers, as they are printed.
    pub(super) answer: String,
    /// The part of the answer that came last.
    part: String,
}

impl Thread {
    /// Whether an answer comes, or the user is asked.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.standing, Standing::Busy)
    }

    /// Adds what is new to the answer, each part of which begins on a line of its own.
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

/// What whoever leads the chat must know.
pub(super) enum Next {
    /// The user has typed something; `None` when there will be nothing more.
    Typed(Option<String>),
    /// A signal came, and what went on is stopped.
    Stop(Stop),
    /// A thread has answered, or given up.
    Ended(usize),
}

impl<B: Backend> Chat<B> {
    /// A chat without threads.
    pub(super) fn new(backend: B, screen: Screen, approval: Approval) -> Self {
        Self {
            backend,
            screen,
            lines: Lines::default(),
            threads: Vec::new(),
            listens: false,
            approval,
            questions: VecDeque::new(),
            is_asking: false,
            happened: VecDeque::new(),
            waits_since: Instant::now(),
            is_stopping: false,
        }
    }

    /// Opens a thread in which nothing is said yet.
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

    /// Whether something goes on in any thread.
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

    /// Asks again for what failed, was stopped, or was not answered; false if nothing was.
    pub(super) fn retry(&mut self, number: usize) -> anyhow::Result<bool> {
        if matches!(self.thread(number).standing, Standing::Idle | Standing::Busy) {
            return Ok(false);
        }
        self.backend.retry(number)?;
        self.begun(number);
        Ok(true)
    }

    /// Says why an answer failed, if it did.
    pub(super) fn tell_failure(&mut self, number: usize) -> io::Result<()> {
        match &self.threads[number - 1].standing {
            Standing::Failed(error) => self.screen.line(number, Ink::Red, &format!("✗ {error:#}")),
            _ => Ok(()),
        }
    }

    fn begun(&mut self, number: usize) {
        self.thread(number).standing = Standing::Busy;
        self.waits_since = Instant::now();
        self.is_stopping = false;
    }

    /// Shows what happens until there is something to decide. Ctrl-C stops all that goes on; a second one stops at once.
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

    /// What [`Chat::next`] does until a signal comes, which drops this in the middle.
    async fn listen(&mut self) -> anyhow::Result<Next> {
        loop {
            if let Some(ended) = self.show_happened().await? {
                return Ok(Next::Ended(ended));
            }
            self.put_question()?;
            let awaited = self.backend.awaited().filter(|_| !self.is_asking && !self.is_stopping);
            let seconds = self.waits_since.elapsed().as_secs() + 1;
            tokio::select! {
                line = self.lines.next(), if self.is_asking || self.listens => {
                    let line = line?;
                    // The terminal shows it below what was there.
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

    /// Stops all that goes on, and asks nothing any more.
    async fn interrupt_all(&mut self) -> anyhow::Result<()> {
        let asking: Vec<usize> = self.questions.drain(..).map(|question| question.thread).collect();
        if self.is_asking {
            self.close_question("\n")?;
        } else if self.lines.are_hidden() {
            // The terminal shows nothing of Ctrl-C.
            self.screen.draw(|layout| layout.make_room().unwrap_or_default())?;
        } else {
            self.screen.draw(Layout::interrupted)?;
        }
        for number in 1..=self.threads.len() {
            if self.thread(number).is_busy() && !self.backend.interrupt(number).await? && asking.contains(&number) {
                self.thread(number).standing = Standing::Unanswered;
                self.screen.line(number, Ink::Dim, "The question stays open; /retry asks it again.")?;
            }
        }
        Ok(())
    }

    /// Takes what happens, to be shown when no question is on the screen; what concerns that question is heeded at once.
    fn take(&mut self, number: usize, event: Event) -> anyhow::Result<()> {
        match event {
            Event::Ask(question) if self.approval == Approval::User => self.questions.push_back(question),
            Event::AskClosed(id) => {
                let remark = "\nIt was answered elsewhere, or its time was over.\n";
                self.withdraw(|question| question.id == id, remark)?;
            }
            Event::Ended(..) => {
                self.withdraw(|question| question.thread == number, "\n")?;
                self.happened.push_back((number, event));
            }
            event => self.happened.push_back((number, event)),
        }
        Ok(())
    }

    /// Shows what has happened, until a thread has ended with it.
    async fn show_happened(&mut self) -> anyhow::Result<Option<usize>> {
        while !self.is_asking
            && let Some((number, event)) = self.happened.pop_front()
        {
            match event {
                Event::Show(pieces) => self.show(number, &pieces)?,
                Event::Ask(question) => self.decide(question).await?,
                // Heeded already.
                Event::AskClosed(_) => {}
                Event::Ended(standing, tokens) => {
                    self.screen.draw(|layout| layout.end(number))?;
                    if let Some(usage) = usage(tokens) {
                        self.screen.line(number, Ink::Dim, &usage)?;
                    }
                    self.thread(number).standing = standing;
                    return Ok(Some(number));
                }
            }
        }
        Ok(None)
    }

    fn show(&mut self, number: usize, pieces: &[Piece]) -> io::Result<()> {
        self.thread(number).keep_answer(pieces);
        if !pieces.is_empty() {
            self.waits_since = Instant::now();
        }
        self.screen.draw(|layout| layout.show(number, pieces))
    }

    /// Answers a question for the user, who cannot be asked or has allowed every call.
    async fn decide(&mut self, question: Question) -> anyhow::Result<()> {
        let allowed = question.allowed().filter(|_| self.approval == Approval::Allow);
        let answer = match allowed {
            Some(answer) => answer,
            None => {
                let note =
                    format!("{} needs to be allowed, and nobody can be asked here; --yes allows", question.subject);
                self.screen.line(question.thread, Ink::Yellow, &note)?;
                question.rejected("This call needs to be allowed, and nobody could be asked")
            }
        };
        match self.backend.answer(&question, answer, self.approval).await {
            // Somebody else was quicker.
            Err(error) if is_closed(&error) => Ok(()),
            answered => answered,
        }
    }

    fn put_question(&mut self) -> io::Result<()> {
        let Some(question) = self.questions.front().filter(|_| !self.is_asking) else { return Ok(()) };
        self.screen.draw(|layout| layout.end(question.thread))?;
        self.lines.ask();
        self.screen.aside(question.thread, Ink::Yellow, &question.text())?;
        self.is_asking = true;
        Ok(())
    }

    /// The question is not on the screen any more.
    fn close_question(&mut self, remark: &str) -> io::Result<()> {
        self.is_asking = false;
        self.lines.stop_asking();
        self.waits_since = Instant::now();
        self.screen.aside(None, Ink::Dim, remark)
    }

    /// The user has typed something while they were asked.
    async fn take_answer(&mut self, line: Option<&str>) -> anyhow::Result<()> {
        let Some(question) = self.questions.front_mut() else { return Ok(()) };
        let answer = match question.read(line) {
            Reading::Answer(answer) => answer,
            Reading::Again(remark) => return Ok(self.close_question(&remark)?),
        };
        let is_always = matches!(&answer, Answer::Call(answer) if answer.response == Reply::Always);
        let mut remark = "";
        match self.backend.answer(question, answer, Approval::User).await {
            Ok(()) => {}
            Err(error) if is_closed(&error) => remark = "It was answered already, or its time was over.\n",
            Err(error) => {
                question.start_over();
                self.screen.aside(None, Ink::Red, &format!("{}\n", plain(&error.to_string())))?;
                return Ok(self.close_question("")?);
            }
        }
        if let Some(answered) = self.questions.pop_front().filter(|_| is_always) {
            // The other calls of the tool in this thread are allowed with it.
            let is_other = |other: &Question| other.thread != answered.thread || other.tool() != answered.tool();
            self.questions.retain(is_other);
        }
        Ok(self.close_question(remark)?)
    }

    /// Takes questions back that are not open any more.
    fn withdraw(&mut self, is_closed: impl Fn(&Question) -> bool, remark: &str) -> io::Result<()> {
        let is_on_screen = self.is_asking && self.questions.front().is_some_and(&is_closed);
        self.questions.retain(|question| !is_closed(question));
        if is_on_screen { self.close_question(remark) } else { Ok(()) }
    }
}

/// Whether a question could not be answered since it is not open any more.
fn is_closed(error: &anyhow::Error) -> bool {
    error.downcast_ref().and_then(Error::status) == Some(404)
}

#[cfg(test)]
mod tests;
