//! One turn at the terminal: the answer is shown as it comes, and calls that ask for it are allowed or not.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{anyhow, bail};
use handback_client::{Api, Ask, Error, TurnEvent};
use handback_wire::session::{MessageWithParts, Permission, Reply, Tokens};
use tokio::time::{Instant, Sleep, sleep_until};

use super::layout::Ink;
use super::lines::Lines;
use super::pieces::Pieces;
use super::question::{Choices, Question, Reading};
use super::screen::Screen;

/// Who decides about calls that ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Approval {
    /// Whoever sits at the terminal.
    User,
    /// Each is allowed, once.
    Allow,
    /// There is nobody to ask: each is rejected.
    Reject,
}

/// A turn under way.
pub(super) struct Turn<'a> {
    pub(super) api: &'a Api,
    pub(super) session: &'a str,
    pub(super) screen: &'a mut Screen,
    pub(super) lines: &'a mut Lines,
    pub(super) approval: Approval,
    pub(super) pieces: Pieces,
    pub(super) events: handback_client::Turn,
    /// When something was last shown, or the user was heard.
    pub(super) waits_since: Instant,
    /// The asks that wait for the user, the first of which is being asked.
    pub(super) questions: VecDeque<Question>,
    /// What it cost, once it is over.
    pub(super) tokens: Tokens,
}

impl Turn<'_> {
    /// Says it, and shows what comes, until the turn is over; gives the last message.
    pub(super) async fn run(&mut self) -> anyhow::Result<MessageWithParts> {
        loop {
            let next_second = self.next_second();
            let event = tokio::select! {
                event = self.events.next() => event.ok_or_else(|| anyhow!("the turn was not begun"))?,
                line = self.lines.next(), if !self.questions.is_empty() => {
                    self.reply(line?.as_deref()).await?;
                    continue;
                }
                () = next_second => {
                    let seconds = self.waits_since.elapsed().as_secs();
                    self.screen.waiting(&format!("waiting for {} · {seconds} s", self.pieces.awaited()))?;
                    continue;
                }
            };
            match event {
                Ok(TurnEvent::Ask(ask)) => self.ask(*ask).await?,
                Ok(event) => {
                    if let Some(answer) = self.show(event)? {
                        return Ok(answer);
                    }
                }
                Err(error @ Error::GivenUp { .. }) => bail!("{error}, the turn may go on without this chat"),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until another second has gone by in which nothing was shown.
    fn next_second(&self) -> Sleep {
        let seconds = self.waits_since.elapsed().as_secs() + 1;
        sleep_until(self.waits_since + Duration::from_secs(seconds))
    }

    /// Stops the turn, and shows what had come of it.
    pub(super) async fn abort(&mut self) -> anyhow::Result<()> {
        self.questions.clear();
        if self.lines.are_hidden() {
            self.end()?;
        } else {
            self.screen.interrupted()?;
        }
        self.events.abort().await?;
        while let Some(event) = self.events.next().await {
            self.show(event?)?;
        }
        Ok(())
    }

    /// Ends the question and the line that are open: nothing more is asked or shown.
    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.lines.stop_asking();
        self.screen.leave_question()?;
        Ok(self.screen.end_line()?)
    }

    /// Shows what happens; gives the answer if the turn is over with it.
    fn show(&mut self, event: TurnEvent) -> anyhow::Result<Option<MessageWithParts>> {
        match event {
            TurnEvent::Done { message, tokens } => {
                self.tokens = tokens;
                return Ok(Some(*message));
            }
            TurnEvent::AskClosed { id } => self.withdraw(&id)?,
            TurnEvent::Disconnected { reason } => {
                self.screen.line(Ink::Yellow, &format!("{reason}; connecting again"))?;
            }
            TurnEvent::Reconnected => self.screen.line(Ink::Dim, "connected again")?,
            other => {
                let pieces = self.pieces.of(other);
                if !pieces.is_empty() {
                    self.waits_since = Instant::now();
                }
                self.screen.show(&pieces)?;
            }
        }
        Ok(None)
    }

    /// A call asks to be allowed.
    async fn ask(&mut self, ask: Ask) -> anyhow::Result<()> {
        let tool = self.pieces.short_name(&ask.permission.tool).to_owned();
        let answered = match self.approval {
            Approval::User => {
                let Permission { id, tool: full, input, .. } = &ask.permission;
                let choices = Choices { always: true, edit: true };
                self.questions.push_back(Question::new(id, full, &tool, input.get(), choices));
                return if self.questions.len() == 1 { self.put_question() } else { Ok(()) };
            }
            Approval::Allow => ask.allow().await,
            Approval::Reject => {
                let note = format!("{tool} needs to be allowed, and nobody can be asked here; --yes allows");
                self.screen.line(Ink::Yellow, &note)?;
                ask.reject("This call needs to be allowed, and nobody could be asked").await
            }
        };
        match answered {
            // Somebody else was quicker.
            Err(error) if error.status() == Some(404) => Ok(()),
            answered => Ok(answered?),
        }
    }

    fn put_question(&mut self) -> anyhow::Result<()> {
        match self.questions.front() {
            Some(question) => {
                self.screen.hold()?;
                self.lines.ask();
                self.screen.aside(Ink::Yellow, &question.text())?;
            }
            None => {
                self.lines.stop_asking();
                self.waits_since = Instant::now();
                self.screen.release()?;
            }
        }
        Ok(())
    }

    /// The user has typed something.
    async fn reply(&mut self, line: Option<&str>) -> anyhow::Result<()> {
        let Some(question) = self.questions.front_mut() else { return Ok(()) };
        let answer = match question.read(line) {
            Reading::Answer(answer) => answer,
            Reading::Again(remark) => {
                self.screen.aside(Ink::Dim, &remark)?;
                return self.put_question();
            }
        };
        let id = question.id.clone();
        match self.api.answer_permission(self.session, &id, &answer).await {
            Err(error) if error.status() == Some(404) => {
                self.screen.aside(Ink::Dim, "It was answered already, or its time was over.\n")?;
            }
            Err(error) => {
                question.start_over();
                self.screen.aside(Ink::Red, &format!("{}\n", crate::output::plain(&error.to_string())))?;
                return self.put_question();
            }
            Ok(()) => {}
        }
        let tool = self.questions.pop_front().map(|question| question.tool);
        if answer.response == Reply::Always {
            // The server allows the others of the tool as well.
            self.questions.retain(|other| Some(&other.tool) != tool.as_ref());
        }
        self.put_question()
    }

    /// Takes a question back that is not open any more.
    fn withdraw(&mut self, id: &str) -> anyhow::Result<()> {
        let is_asked = self.questions.front().is_some_and(|question| question.id == id);
        self.questions.retain(|question| question.id != id);
        if is_asked {
            self.screen.aside(Ink::Dim, "\nIt was answered elsewhere, or its time was over.\n")?;
            self.put_question()?;
        }
        Ok(())
    }
}
