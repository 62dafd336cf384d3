//! A chat at a terminal: a prompt for messages and commands.

use std::io;

use rustyline::error::ReadlineError;

use super::backend::{Backend, ThreadState};
use super::paint::Ink;
use super::prompt::LineEditor;
use super::threads::{Chat, Next, TITLE_CHARACTERS};
use crate::exit::Interrupted;
use crate::output::{Table, excerpt, plain};
use crate::signals::{Signals, Stop};

/// The most messages that wait until a thread has answered; one more is refused.
const MOST_WAITING: usize = 16;

/// A chat, and the state of its user.
struct Interactive<'a, B> {
    chat: &'a mut Chat<B>,
    /// The thread that the user is in.
    current: usize,
    prompt: LineEditor,
    /// Whether the chat ends as soon as no thread is busy.
    is_leaving: bool,
}

/// Talks until the user leaves.
pub(super) async fn run<B: Backend>(chat: &mut Chat<B>, signals: &mut Signals) -> anyhow::Result<()> {
    chat.listens = B::HAS_THREADS;
    if !chat.listens {
        // Text that is typed while an answer comes is for the next prompt.
        chat.keyboard.hide();
    }
    let prompt = LineEditor::new(chat.screen.layout.paint)?;
    let introduction = chat.backend.introduction().await?;
    chat.screen.line(None, Ink::Dim, &introduction)?;
    let current = chat.open()?;
    let mut interactive = Interactive { chat, current, prompt, is_leaving: false };
    loop {
        match interactive.step(signals).await {
            Ok(true) => {}
            Ok(false) => break,
            // The user stopped the chat, or the terminal cannot be used.
            Err(error) if error.is::<Interrupted>() || error.is::<io::Error>() || error.is::<ReadlineError>() => {
                return Err(error);
            }
            // The user may try again.
            Err(error) => interactive.chat.screen.line(None, Ink::Red, &format!("✗ {error:#}"))?,
        }
    }
    if let Some(farewell) = chat.backend.leave().await {
        chat.screen.line(None, Ink::Dim, &farewell)?;
    }
    Ok(())
}

impl<B: Backend> Interactive<'_, B> {
    /// Waits for the user or for the end of an answer, and acts on it. Returns whether the chat goes on.
    async fn step(&mut self, signals: &mut Signals) -> anyhow::Result<bool> {
        if self.is_leaving && !self.chat.is_busy() {
            return Ok(false);
        }
        let next =
            if self.chat.is_busy() { self.chat.next(signals).await? } else { Next::Typed(self.prompt(signals).await?) };
        match next {
            Next::Typed(Some(typed)) => return self.act(typed.trim()).await,
            Next::Typed(None) => return Ok(false),
            Next::Stop(stop) => self.is_leaving |= stop == Stop::Terminate,
            Next::Ended(number) => self.ended(number)?,
        }
        Ok(true)
    }

    /// Prompts the user while no thread is busy; `None` if the user leaves.
    async fn prompt(&mut self, signals: &mut Signals) -> anyhow::Result<Option<String>> {
        self.chat.screen.aside(None, Ink::Bold, "\n")?;
        let text = if self.chat.threads.len() > 1 { format!("[{}] > ", self.current) } else { "> ".to_owned() };
        loop {
            tokio::select! {
                typed = self.prompt.next(&text, signals) => return Ok(typed?),
                note = self.chat.backend.connection_change() => self.prompt.print(Ink::Yellow, &plain(&note))?,
            }
        }
    }

    /// Acts on typed text. Returns whether the chat goes on.
    async fn act(&mut self, typed: &str) -> anyhow::Result<bool> {
        let Some((command, argument)) = as_command(typed) else {
            if !typed.is_empty() {
                self.say(typed)?;
            }
            return Ok(true);
        };
        match command {
            "/quit" | "/exit" => return Ok(false),
            "/help" | "/?" => self.chat.screen.line(None, Ink::Dim, B::HELP)?,
            "/new" if B::HAS_THREADS => match self.chat.open() {
                Ok(number) => {
                    self.current = number;
                    self.note(Ink::Dim, "A new thread.")?;
                    if !argument.is_empty() {
                        self.say(argument)?;
                    }
                }
                Err(error) => self.note(Ink::Yellow, &error.to_string())?,
            },
            "/threads" if B::HAS_THREADS => {
                let table = self.threads();
                self.chat.screen.line(None, Ink::Dim, table.text())?;
            }
            "/thread" if B::HAS_THREADS => self.current = self.find(argument)?.unwrap_or(self.current),
            "/cancel" if B::HAS_THREADS => {
                if let Some(number) = self.find(argument)?
                    && !(self.chat.thread(number).is_busy() && self.chat.backend.interrupt(number).await?)
                {
                    self.note(Ink::Yellow, "There is nothing to stop.")?;
                }
            }
            "/retry" if B::HAS_THREADS => {
                if !self.chat.retry(self.current)? {
                    self.note(Ink::Yellow, "There is nothing to ask again.")?;
                }
            }
            _ => match self.chat.backend.command(command, argument).await? {
                Some(text) => self.chat.screen.line(None, Ink::Dim, &text)?,
                None => self.note(Ink::Yellow, &format!("There is no {command}; /help lists what there is."))?,
            },
        }
        Ok(true)
    }

    /// Says something in the current thread, now or when it has answered.
    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        let thread = self.chat.thread(self.current);
        if !thread.is_busy() {
            return self.chat.say(self.current, text);
        }
        if thread.waiting.len() >= MOST_WAITING {
            return Ok(self.note(Ink::Yellow, "It is not said: too much waits in this thread already.")?);
        }
        thread.waiting.push_back(text.to_owned());
        Ok(self.note(Ink::Dim, "It is said when this thread has answered; /new says it at once, in another.")?)
    }

    /// Handles the end of an answer: shows how it ended, and says the next message that waits or drops them all.
    fn ended(&mut self, number: usize) -> anyhow::Result<()> {
        self.chat.show_failure(number)?;
        let thread = self.chat.thread(number);
        match &thread.state {
            ThreadState::Idle => {
                if let Some(text) = thread.waiting.pop_front() {
                    self.chat.screen.line(number, Ink::Dim, &format!("> {}", excerpt(&text, TITLE_CHARACTERS)))?;
                    self.chat.say(number, &text)?;
                }
                return Ok(());
            }
            ThreadState::Failed(_) if B::HAS_THREADS => {
                self.chat.screen.line(number, Ink::Dim, "/retry asks again.")?;
            }
            ThreadState::Stopped if !self.is_leaving => {
                self.chat.screen.line(number, Ink::Yellow, "The turn was aborted.")?;
            }
            _ => {}
        }
        for text in std::mem::take(&mut self.chat.thread(number).waiting) {
            let note = format!("Not said: {}", excerpt(&text, TITLE_CHARACTERS));
            self.chat.screen.line(number, Ink::Yellow, &note)?;
        }
        Ok(())
    }

    /// The thread with a number, or the current one if the number is empty.
    fn find(&mut self, number: &str) -> io::Result<Option<usize>> {
        if number.is_empty() {
            return Ok(Some(self.current));
        }
        match number.parse() {
            Ok(number) if (1..=self.chat.threads.len()).contains(&number) => Ok(Some(number)),
            _ => {
                self.note(Ink::Yellow, &format!("There is no thread {number}; /threads lists what there is."))?;
                Ok(None)
            }
        }
    }

    fn threads(&self) -> Table {
        let rows = (1..).zip(&self.chat.threads).map(|(number, thread)| {
            let here = if number == self.current { "here" } else { "" };
            let state = match thread.state {
                ThreadState::Idle => "idle",
                ThreadState::Busy => "running",
                ThreadState::Unanswered => "asks you",
                ThreadState::Failed(_) => "failed",
                ThreadState::Stopped => "stopped",
            };
            [number.to_string(), here.to_owned(), state.to_owned(), thread.title.clone()]
        });
        Table::new(["THREAD", "", "STATE", "FIRST SAID"], "no threads", rows)
    }

    /// Shows a line that belongs to the current thread.
    fn note(&mut self, ink: Ink, text: &str) -> io::Result<()> {
        self.chat.screen.line(self.current, ink, text)
    }
}

/// Splits typed text into a command and its argument; `None` for a message. A path or a lone slash is not a command.
fn as_command(typed: &str) -> Option<(&str, &str)> {
    let (first, rest) = typed.split_once(char::is_whitespace).unwrap_or((typed, ""));
    let name = first.strip_prefix('/')?;
    (!name.is_empty() && !name.contains('/')).then_some((first, rest.trim()))
}

#[cfg(test)]
mod tests;
