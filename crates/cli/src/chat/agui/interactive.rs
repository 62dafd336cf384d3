//! A talk at a terminal: a prompt, commands, and what is said.

use super::super::layout::{Ink, excerpt};
use super::super::prompt::Prompt;
use super::talk::{Event, Listening, Talk};
use super::thread::{Standing, Thread};
use super::{TITLE_CHARACTERS, tell_failure};
use crate::output::Table;
use crate::signals::{Signals, Stop};

const HELP: &str = "\
/new [MESSAGE]  open another thread, also while others answer
/threads        the threads, and where they stand
/thread N       go on in thread N
/cancel [N]     stop the answer of this thread, or of thread N
/retry          ask again for an answer that failed; tools that were run are not run again
/tools          the tools that the agent may call here
/quit           leave; so does Ctrl-D
What you say while a thread answers is said when it has. Ctrl-C stops all answers, or takes back what is typed.
At the prompt, a line that ends with \\ goes on in the next.";

/// What was typed.
#[derive(Debug, PartialEq)]
enum Typed<'a> {
    Nothing,
    Message(&'a str),
    New(&'a str),
    Threads,
    Thread(&'a str),
    Cancel(&'a str),
    Retry,
    Tools,
    Help,
    Quit,
    Unknown(&'a str),
}

impl<'a> Typed<'a> {
    fn read(line: &'a str) -> Self {
        let line = line.trim();
        let (first, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        match first {
            "" => Self::Nothing,
            "/new" => Self::New(rest),
            "/threads" => Self::Threads,
            "/thread" => Self::Thread(rest),
            "/cancel" => Self::Cancel(rest),
            "/retry" => Self::Retry,
            "/tools" => Self::Tools,
            "/help" | "/?" => Self::Help,
            "/quit" | "/exit" => Self::Quit,
            // A path, or a lone slash, is no command.
            other if other.len() > 1 && other.starts_with('/') && !other[1..].contains('/') => Self::Unknown(other),
            _ => Self::Message(line),
        }
    }
}

/// A talk, and which of its threads the user is in.
struct Chat<'a> {
    talk: &'a mut Talk,
    current: usize,
    prompt: Prompt,
}

/// Talks until the user leaves.
pub(super) async fn run(talk: &mut Talk, signals: &mut Signals) -> anyhow::Result<()> {
    let current = talk.open()?;
    let prompt = Prompt::new(talk.screen.paint())?;
    let mut chat = Chat { talk, current, prompt };
    chat.introduce()?;
    loop {
        let event = if chat.talk.is_busy() {
            chat.talk.next(signals, Listening::Always).await?
        } else {
            Event::Typed(chat.prompt(signals).await?)
        };
        match event {
            Event::Stop(Stop::Interrupt) => chat.talk.cancel_all()?,
            Event::Stop(Stop::Terminate) | Event::Typed(None) => return Ok(()),
            Event::Typed(Some(typed)) => {
                if !chat.act(Typed::read(&typed))? {
                    return Ok(());
                }
            }
            Event::Ended(number) => chat.ended(number)?,
        }
    }
}

impl Chat<'_> {
    /// The first lines: where this is, and how to leave.
    fn introduce(&mut self) -> anyhow::Result<()> {
        let names = self.talk.commands.names().join(", ");
        let names = if names.is_empty() { "none; see --attach" } else { &names };
        let text = format!(
            "agent    {}\ntools    {names}\n/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.",
            self.talk.address.url
        );
        Ok(self.talk.screen.line(None, Ink::Dim, &text)?)
    }

    /// What is typed while nothing goes on; `None` if the user leaves instead.
    async fn prompt(&mut self, signals: &mut Signals) -> anyhow::Result<Option<String>> {
        self.talk.screen.aside(None, Ink::Bold, "\n")?;
        let text = if self.talk.threads().len() > 1 { format!("[{}] > ", self.current) } else { "> ".to_owned() };
        Ok(self.prompt.next(&text, signals).await?)
    }

    /// Does what was typed; says whether the talk goes on.
    fn act(&mut self, typed: Typed<'_>) -> anyhow::Result<bool> {
        match typed {
            Typed::Nothing => {}
            Typed::Quit => return Ok(false),
            Typed::Message(text) => self.say(text)?,
            Typed::New(text) => match self.talk.open() {
                Ok(number) => {
                    self.current = number;
                    self.note(Ink::Dim, "A new thread.")?;
                    if !text.is_empty() {
                        self.say(text)?;
                    }
                }
                Err(error) => self.note(Ink::Yellow, &error.to_string())?,
            },
            Typed::Threads => {
                let table = threads(self.current, self.talk.threads()).text();
                self.talk.screen.line(None, Ink::Dim, &table)?;
            }
            Typed::Thread(number) => {
                if let Some(number) = self.find(number)? {
                    self.current = number;
                }
            }
            Typed::Cancel(number) => {
                if let Some(number) = self.find(number)?
                    && !self.talk.cancel(number)
                {
                    self.note(Ink::Yellow, "There is nothing to stop.")?;
                }
            }
            Typed::Retry => {
                if !self.talk.retry(self.current)? {
                    self.note(Ink::Yellow, "There is nothing to ask again.")?;
                }
            }
            Typed::Tools => {
                let names = self.talk.commands.names().join("\n");
                let names = if names.is_empty() { "no tools" } else { &names };
                self.talk.screen.line(None, Ink::Dim, names)?;
            }
            Typed::Help => self.talk.screen.line(None, Ink::Dim, HELP)?,
            Typed::Unknown(command) => {
                self.note(Ink::Yellow, &format!("There is no {command}; /help lists what there is."))?;
            }
        }
        Ok(true)
    }

    /// Says something in the thread that the user is in, now or when it has answered.
    fn say(&mut self, text: &str) -> anyhow::Result<()> {
        if !self.talk.thread(self.current).is_busy() {
            return self.talk.say(self.current, text);
        }
        if self.talk.thread(self.current).wait(text) {
            self.note(Ink::Dim, "It is said when this thread has answered; /new says it at once, in another.")
        } else {
            self.note(Ink::Yellow, "It is not said: too much waits in this thread already.")
        }
    }

    /// A thread has answered, or given up: what waits is said, or not.
    fn ended(&mut self, number: usize) -> anyhow::Result<()> {
        tell_failure(self.talk, number)?;
        match &self.talk.thread(number).standing {
            Standing::Idle => {
                if let Some(text) = self.talk.thread(number).next_message() {
                    let title = format!("> {}", excerpt(&text, TITLE_CHARACTERS));
                    self.talk.screen.line(Some(number), Ink::Dim, &title)?;
                    self.talk.say(number, &text)?;
                }
                return Ok(());
            }
            Standing::Failed(_) => self.talk.screen.line(Some(number), Ink::Dim, "/retry asks again.")?,
            Standing::Stopped => self.talk.screen.line(Some(number), Ink::Yellow, "The turn was aborted.")?,
            Standing::Running | Standing::Asking | Standing::Unanswered => {}
        }
        while let Some(text) = self.talk.thread(number).next_message() {
            let note = format!("Not said: {}", excerpt(&text, TITLE_CHARACTERS));
            self.talk.screen.line(Some(number), Ink::Yellow, &note)?;
        }
        Ok(())
    }

    /// The thread of this number; the one that the user is in if there is none.
    fn find(&mut self, number: &str) -> anyhow::Result<Option<usize>> {
        if number.is_empty() {
            return Ok(Some(self.current));
        }
        match number.parse() {
            Ok(number) if (1..=self.talk.threads().len()).contains(&number) => Ok(Some(number)),
            _ => {
                self.note(Ink::Yellow, &format!("There is no thread {number}; /threads lists what there is."))?;
                Ok(None)
            }
        }
    }

    fn note(&mut self, ink: Ink, text: &str) -> anyhow::Result<()> {
        Ok(self.talk.screen.line(Some(self.current), ink, text)?)
    }
}

fn threads<'a>(current: usize, threads: impl Iterator<Item = (usize, &'a Thread)>) -> Table {
    let rows = threads.map(|(number, thread)| {
        let here = if number == current { "here" } else { "" };
        [number.to_string(), here.to_owned(), thread.words().to_owned(), thread.title.clone()]
    });
    Table::new(["THREAD", "", "STATE", "FIRST SAID"], "no threads", rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        for (line, expected) in [
            ("  \t", Typed::Nothing),
            (" hello there ", Typed::Message("hello there")),
            ("/new", Typed::New("")),
            ("/new  what day is it? ", Typed::New("what day is it?")),
            ("/thread 2", Typed::Thread("2")),
            ("/cancel", Typed::Cancel("")),
            ("/retry", Typed::Retry),
            ("/exit", Typed::Quit),
            ("/halp me", Typed::Unknown("/halp")),
            ("/etc/hosts: what is that?", Typed::Message("/etc/hosts: what is that?")),
        ] {
            assert_eq!(Typed::read(line), expected, "{line}");
        }
    }
}
