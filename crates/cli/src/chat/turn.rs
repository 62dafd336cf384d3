//! One turn: something is said, the answer is shown as it comes, and calls that ask for it are allowed or not.
//!
//! The events tell what happens; whether the turn is over, and what the answer is, is read from the server itself. So
//! it does not matter which events were missed while a connection was lost.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use anyhow::{anyhow, bail};
use futures_util::StreamExt;
use handback_client::{Api, Error, Notice};
use handback_wire::event::Event;
use handback_wire::session::{MessageWithParts, Permission, PermissionResponse, Prompt, Reply, Status};
use tokio::time::{Instant, sleep};

use super::layout::Ink;
use super::lines::Lines;
use super::question::{Question, Reading};
use super::screen::Screen;
use super::transcript::Transcript;

/// When nothing was heard for this long, the server is asked whether the turn is still under way.
const QUIET: Duration = Duration::from_secs(15);
/// A server that is gone for this long is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// So many of the newest messages are read: more than a turn has, and the older ones were shown as they came.
const NEWEST_MESSAGES: usize = 256;

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
    pub(super) transcript: Transcript,
    /// The asks that were seen: each comes in more than one event.
    asks: HashSet<String>,
    /// Those that wait for the user, the first of which is being asked.
    questions: VecDeque<Question>,
    lost_since: Option<Instant>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(
        api: &'a Api,
        session: &'a str,
        (screen, lines): (&'a mut Screen, &'a mut Lines),
        approval: Approval,
        transcript: Transcript,
    ) -> Self {
        let (asks, questions) = (HashSet::new(), VecDeque::new());
        Self { api, session, screen, lines, approval, transcript, asks, questions, lost_since: None }
    }

    /// Says it, and shows what comes, until the turn is over; gives the last message.
    pub(super) async fn run(&mut self, prompt: &Prompt) -> anyhow::Result<MessageWithParts> {
        let mut events = self.api.events();
        let mut is_said = false;
        loop {
            let answer = tokio::select! {
                notice = events.next() => match notice {
                    Some(Ok(Notice::Event(event))) if matches!(*event, Event::Connected {}) => {
                        // Only now: whatever comes of it will be heard.
                        if !is_said {
                            self.api.prompt_async(self.session, prompt).await?;
                            is_said = true;
                        }
                        self.catch_up().await?
                    }
                    Some(Ok(Notice::Event(event))) => self.hear(&event).await?,
                    Some(Ok(Notice::Disconnected { reason, .. })) => {
                        self.disconnected(&reason)?;
                        None
                    }
                    Some(Ok(_)) => None,
                    Some(Err(error)) => return Err(error.into()),
                    None => bail!("the events have ended"),
                },
                line = self.lines.next(), if !self.questions.is_empty() => {
                    self.reply(line?.as_deref()).await?;
                    None
                }
                () = sleep(QUIET), if is_said => self.look().await?,
            };
            if let Some(answer) = answer {
                return Ok(answer);
            }
        }
    }

    /// Stops the turn, and shows what had come of it.
    pub(super) async fn abort(&mut self) -> anyhow::Result<()> {
        self.questions.clear();
        self.screen.interrupted()?;
        self.api.abort(self.session).await?;
        let messages = self.api.messages(self.session, Some(NEWEST_MESSAGES)).await?;
        let pieces = self.transcript.read(&messages);
        Ok(self.screen.show(&pieces)?)
    }

    /// Shows an event, and gives the answer if the turn is over with it.
    async fn hear(&mut self, event: &Event) -> anyhow::Result<Option<MessageWithParts>> {
        match event {
            Event::SessionIdle { session_id } if session_id == self.session => return self.look().await,
            Event::SessionDeleted(gone) if gone.session_id == self.session => bail!("the session was deleted"),
            Event::PermissionUpdated(ask) | Event::PermissionAsked(ask) => self.ask(ask).await?,
            Event::PermissionReplied { permission_id, .. } => self.withdraw(|open| open.id == *permission_id)?,
            other => {
                let pieces = self.transcript.hear(other);
                self.screen.show(&pieces)?;
            }
        }
        Ok(None)
    }

    /// After a connection is there, again or for the first time: what may have been missed.
    async fn catch_up(&mut self) -> anyhow::Result<Option<MessageWithParts>> {
        if self.lost_since.take().is_none() {
            return Ok(None);
        }
        self.screen.line(Ink::Dim, "connected again")?;
        self.transcript.lose_track();
        if let Some(asks) = unless_lost(self.api.permissions().await)? {
            self.withdraw(|known| !asks.iter().any(|open| open.id == known.id))?;
            for ask in &asks {
                self.ask(ask).await?;
            }
        }
        self.look().await
    }

    /// Reads and shows what the session has; gives the answer if the turn is over.
    async fn look(&mut self) -> anyhow::Result<Option<MessageWithParts>> {
        // In this order: of a session that is idle, the messages are complete.
        let Some(status) = unless_lost(self.api.session_status().await)? else { return Ok(None) };
        let messages = self.api.messages(self.session, Some(NEWEST_MESSAGES)).await;
        let Some(messages) = unless_lost(messages)? else { return Ok(None) };
        let pieces = self.transcript.read(&messages);
        self.screen.show(&pieces)?;
        if status.get(self.session) == Some(&Status::Busy) {
            return Ok(None);
        }
        let last = self.transcript.last().ok_or_else(|| anyhow!("nothing has answered"))?;
        let answer = messages.into_iter().find(|message| message.info.id == last.id);
        answer.map(Some).ok_or_else(|| anyhow!("the answer is gone"))
    }

    fn disconnected(&mut self, reason: &str) -> anyhow::Result<()> {
        let lost_since = match self.lost_since {
            Some(lost_since) => lost_since,
            None => {
                self.screen.line(Ink::Yellow, &format!("{reason}; connecting again"))?;
                *self.lost_since.insert(Instant::now())
            }
        };
        if lost_since.elapsed() >= PATIENCE {
            bail!("{reason}; given up after {} s, the turn may go on without this chat", PATIENCE.as_secs());
        }
        Ok(())
    }

    /// A call asks to be allowed, maybe one of another session.
    async fn ask(&mut self, ask: &Permission) -> anyhow::Result<()> {
        if ask.session_id != self.session || !self.asks.insert(ask.id.clone()) {
            return Ok(());
        }
        let tool = self.transcript.short_name(&ask.tool).to_owned();
        let answer = match self.approval {
            Approval::User => {
                self.questions.push_back(Question::new(ask.clone(), &tool));
                return if self.questions.len() == 1 { self.put_question() } else { Ok(()) };
            }
            Approval::Allow => PermissionResponse { response: Reply::Once, input: None, message: None },
            Approval::Reject => {
                let note = format!("{tool} needs to be allowed, and nobody can be asked here; --yes allows");
                self.screen.line(Ink::Yellow, &note)?;
                let message = Some("This call needs to be allowed, and nobody could be asked".to_owned());
                PermissionResponse { response: Reply::Reject, input: None, message }
            }
        };
        match self.api.answer_permission(self.session, &ask.id, &answer).await {
            // Somebody else was quicker.
            Err(error) if error.status() == Some(404) => Ok(()),
            Err(error) if error.is_transient() => {
                // It is found again when the server is.
                self.asks.remove(&ask.id);
                Ok(())
            }
            answered => Ok(answered?),
        }
    }

    fn put_question(&mut self) -> anyhow::Result<()> {
        match self.questions.front() {
            Some(question) => {
                self.screen.hold()?;
                self.lines.forget_typed();
                self.screen.aside(Ink::Yellow, &question.text())?;
            }
            None => self.screen.release()?,
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
        let id = question.permission.id.clone();
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
        let tool = self.questions.pop_front().map(|question| question.permission.tool);
        if answer.response == Reply::Always {
            // The server allows the others of the tool as well.
            self.questions.retain(|other| Some(&other.permission.tool) != tool.as_ref());
        }
        self.put_question()
    }

    /// Takes back the questions that are not open any more.
    fn withdraw(&mut self, is_over: impl Fn(&Permission) -> bool) -> anyhow::Result<()> {
        let Some(asked) = self.questions.front().map(|question| question.permission.id.clone()) else {
            return Ok(());
        };
        self.questions.retain(|question| !is_over(&question.permission));
        if self.questions.front().map(|question| &question.permission.id) != Some(&asked) {
            self.screen.aside(Ink::Dim, "\nIt was answered elsewhere, or its time was over.\n")?;
            self.put_question()?;
        }
        Ok(())
    }
}

/// What the server answered; `None` if it could not, and the events will tell when it can.
fn unless_lost<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.is_transient() => Ok(None),
        Err(error) => Err(error),
    }
}
