//! The state machine of a turn: sends the prompt, listens to events, and reads from the server what it missed.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use handback_wire::event::Event;
use handback_wire::session::{Message, MessageWithParts, Permission, Prompt, Status as SessionStatus};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ask::Ask;
use super::event::TurnEvent;
use super::transcript::Transcript;
use crate::api::Api;
use crate::error::Error;
use crate::events::{EventFilter, Events, Notice};
use crate::retry::{PATIENCE, with_retries};
use crate::tools::{ClientTools, State};

/// After this long without an event, the server is asked whether the turn is still under way.
const QUIET: Duration = Duration::from_secs(15);
/// The delay before a failed request is retried, unless the server asks for a longer one.
const RETRY: Duration = Duration::from_secs(1);
/// How long the session may be idle before the turn is over: another process may resume the turn until then.
const STOPPED: Duration = Duration::from_secs(5);
/// How many messages are read, the newest ones: more than a turn has.
const NEWEST_MESSAGES: usize = 256;

pub(super) struct Driver {
    api: Api,
    session: String,
    prompt: Prompt,
    /// The tools of the client that prompts.
    tools: Option<ClientTools>,
    aborted: CancellationToken,
    events: Events,
    is_connected: bool,
    is_sent: bool,
    /// Whether an earlier try to send the prompt got no answer: the server may have the prompt.
    may_be_sent: bool,
    /// Whether events were missed, so that the session has to be read.
    is_behind: bool,
    /// Whether events were missed that may belong to a message that is not complete yet.
    has_missed: bool,
    /// When the session is read, unless an event comes before.
    read_at: Instant,
    lost_since: Option<Instant>,
    /// Since when the session is idle although the turn has not ended.
    stopped_since: Option<Instant>,
    transcript: Transcript,
    /// The ids of the open asks: each ask comes in more than one event.
    asks: HashSet<String>,
    /// The events that the turn gives next.
    ready: VecDeque<TurnEvent>,
    is_over: bool,
}

impl Driver {
    pub(super) fn new(
        api: Api,
        session: String,
        mut prompt: Prompt,
        tools: Option<ClientTools>,
        aborted: CancellationToken,
    ) -> Self {
        // The id lets the server recognise a repeated prompt, and the turn its answers.
        let id = prompt.message_id.get_or_insert_with(|| format!("msg_{:032x}", fastrand::u128(..))).clone();
        Self {
            events: api.events_of(EventFilter::with(|filter| filter.session_id = Some(session.clone()))),
            api,
            session,
            prompt,
            tools,
            aborted,
            is_connected: false,
            is_sent: false,
            may_be_sent: false,
            is_behind: false,
            has_missed: false,
            read_at: Instant::now(),
            lost_since: None,
            stopped_since: None,
            transcript: Transcript::new(id),
            asks: HashSet::new(),
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    /// Returns the next event, and the driver for the events after it.
    pub(super) async fn next(mut self) -> Result<Option<(TurnEvent, Option<Self>)>, Error> {
        loop {
            match self.ready.pop_front() {
                // The driver is dropped with its connection.
                Some(done @ TurnEvent::Done { .. }) => return Ok(Some((done, None))),
                Some(event) => return Ok(Some((event, Some(self)))),
                None if self.is_over => return Ok(None),
                None => self.advance().await?,
            }
        }
    }

    async fn advance(&mut self) -> Result<(), Error> {
        let notice = tokio::select! {
            notice = self.events.next() => notice,
            () = sleep_until(self.read_at), if self.is_connected => return self.catch_up().await,
        };
        if !self.is_behind {
            self.read_at = Instant::now() + QUIET;
        }
        match notice {
            Some(Ok(Notice::Event(event))) => self.handle(*event).await,
            Some(Ok(Notice::Disconnected { reason, .. })) => {
                self.is_connected = false;
                self.has_missed = true;
                self.transcript.lose_track();
                self.lost(reason, RETRY)
            }
            Some(Err(error)) => Err(error),
            None => Err(Error::NoAnswer { reason: "the events have ended".to_owned() }),
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Connected {} => {
                self.is_connected = true;
                // The prompt is sent only now, so that no event of its turn is missed.
                if self.is_behind || !self.is_sent {
                    self.catch_up().await?;
                }
            }
            Event::SessionIdle { session_id } if self.is_sent && session_id == self.session => {
                self.read_session().await?;
            }
            Event::SessionDeleted(gone) if gone.session_id == self.session => {
                return Err(Error::NoAnswer { reason: "the session was deleted".to_owned() });
            }
            Event::PermissionUpdated(ask) | Event::PermissionAsked(ask) => self.ask(ask),
            Event::PermissionReplied { permission_id, .. } => self.close_asks(|id| *id == permission_id),
            other => {
                self.ready.extend(self.transcript.hear(&other));
                if let Event::MessageUpdated { info, .. } = other
                    && self.may_complete(&info)
                {
                    self.read_session().await?;
                }
            }
        }
        Ok(())
    }

    /// Whether a message is complete, and may be the last of the turn or have parts that were missed.
    fn may_complete(&self, info: &Message) -> bool {
        let has_more = info.error.is_none() && info.finish.as_deref() == Some("tool-calls");
        self.transcript.is_answer(&info.id) && info.time.completed.is_some() && (self.has_missed || !has_more)
    }

    /// Sends the prompt if it is not sent yet, and reads what was missed.
    async fn catch_up(&mut self) -> Result<(), Error> {
        if !self.is_sent {
            self.send().await?;
            if !self.is_sent || !self.is_behind {
                return Ok(());
            }
        }
        self.read_session().await?;
        if self.is_behind || self.is_over {
            return Ok(());
        }
        let asks = self.api.permissions().await;
        if let Some(asks) = self.unless_lost(asks)? {
            self.close_asks(|id| !asks.iter().any(|open| open.id == *id));
            asks.into_iter().for_each(|ask| self.ask(ask));
        }
        Ok(())
    }

    /// Sends the prompt. However often this is tried, the server takes the prompt once.
    async fn send(&mut self) -> Result<(), Error> {
        tokio::select! {
            biased;
            () = self.aborted.cancelled() => {
                self.is_over = true;
                return Ok(());
            }
            ready = tools_ready(self.tools.clone(), self.lost_since) => ready?,
        }
        let connection = self.prompt.connection.clone().or_else(|| self.tools.as_ref()?.connection());
        let prompt = Prompt { connection, ..self.prompt.clone() };
        let sent = match self.api.prompt_async(&self.session, &prompt).await {
            // Either the id is taken, by an earlier try or another prompt, or too many prompts wait.
            Err(error) if error.status() == Some(409) => match self.is_kept().await {
                Ok(true) => {
                    self.is_behind = true;
                    Ok(())
                }
                Ok(false) if self.may_be_sent => return self.lost(error.to_string(), RETRY),
                Ok(false) => Err(error),
                Err(error) => Err(error),
            },
            sent => sent,
        };
        self.may_be_sent = true;
        self.is_sent = self.unless_lost(sent)?.is_some();
        if !self.is_sent {
            return Ok(());
        }
        self.read_at = Instant::now() + QUIET;
        // An abort before this point found no turn to stop.
        if self.aborted.is_cancelled() { abort(&self.api, &self.session).await } else { Ok(()) }
    }

    /// Whether the session has the prompt.
    async fn is_kept(&mut self) -> Result<bool, Error> {
        let messages = self.api.messages(&self.session, Some(NEWEST_MESSAGES)).await?;
        Ok(messages.iter().any(|message| Some(&message.info.id) == self.prompt.message_id.as_ref()))
    }

    /// Reads the session, which may show that the turn is over.
    async fn read_session(&mut self) -> Result<(), Error> {
        // The status is read first: if the session is idle, the messages that are read after it are complete.
        let status = self.api.session_status().await;
        let Some(status) = self.unless_lost(status)? else { return Ok(()) };
        let messages = self.api.messages(&self.session, Some(NEWEST_MESSAGES)).await;
        let Some(messages) = self.unless_lost(messages)? else { return Ok(()) };
        self.found();
        self.ready.extend(self.transcript.read(&messages));
        let answer = messages.into_iter().rfind(|message| self.transcript.is_answer(&message.info.id)).map(Box::new);
        match answer {
            // The status does not matter, because the session stays busy while other prompts wait.
            Some(message) if is_last(&message) => {
                let tokens = self.transcript.tokens();
                self.ready.push_back(TurnEvent::Done { message, tokens });
                self.is_over = true;
                Ok(())
            }
            answer if status.get(&self.session) == Some(&SessionStatus::Busy) => {
                self.stopped_since = None;
                // The server may not have stored the message that is being written.
                let is_written = |message: &MessageWithParts| {
                    message.info.time.completed.is_none() || !self.transcript.is_last(&message.info.id)
                };
                self.has_missed &= answer.is_none_or(|message| is_written(&message));
                Ok(())
            }
            answer => self.stopped(answer),
        }
    }

    /// Handles a session that is idle although the turn has not ended: an error if it stays idle.
    fn stopped(&mut self, answer: Option<Box<MessageWithParts>>) -> Result<(), Error> {
        if self.stopped_since.get_or_insert_with(Instant::now).elapsed() < STOPPED {
            self.is_behind = true;
            self.read_at = Instant::now() + RETRY;
            return Ok(());
        }
        Err(match answer {
            Some(message) => Error::TurnFailed(message),
            None => Error::NoAnswer { reason: "nothing has answered".to_owned() },
        })
    }

    /// Emits an ask if it belongs to this turn and is new.
    fn ask(&mut self, permission: Permission) {
        if self.transcript.is_answer(&permission.message_id) && self.asks.insert(permission.id.clone()) {
            self.ready.push_back(TurnEvent::Ask(Box::new(Ask { permission, api: self.api.clone() })));
        }
    }

    fn close_asks(&mut self, is_closed: impl Fn(&String) -> bool) {
        let closed = self.asks.extract_if(|id| is_closed(id));
        self.ready.extend(closed.map(|id| TurnEvent::AskClosed { id }));
    }

    /// The answer of the server; `None` if it failed with an error that may pass, and is retried later.
    fn unless_lost<T>(&mut self, answer: Result<T, Error>) -> Result<Option<T>, Error> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.may_pass() => {
                let retry_in = error.retry_after().unwrap_or(RETRY).clamp(RETRY, PATIENCE);
                self.lost(error.to_string(), retry_in).map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// Handles a server that cannot be reached: an error if that lasts for too long.
    fn lost(&mut self, reason: String, retry_in: Duration) -> Result<(), Error> {
        self.is_behind = true;
        self.read_at = Instant::now() + retry_in;
        match self.lost_since {
            Some(since) if since.elapsed() >= PATIENCE => return Err(Error::GivenUp { reason, after: PATIENCE }),
            Some(_) => {}
            None => {
                self.lost_since = Some(Instant::now());
                self.ready.push_back(TurnEvent::Disconnected { reason });
            }
        }
        Ok(())
    }

    fn found(&mut self) {
        self.is_behind = false;
        self.read_at = Instant::now() + QUIET;
        if self.lost_since.take().is_some() {
            self.ready.push_back(TurnEvent::Reconnected);
        }
    }
}

/// Whether a message is the last of a turn: it is complete, and has no calls whose results the model must answer.
fn is_last(message: &MessageWithParts) -> bool {
    let info = &message.info;
    info.time.completed.is_some() && (info.error.is_some() || !message.parts.iter().any(|part| part.kind == "tool"))
}

/// Waits until the tools can be called. A server that was lost may have restarted, and has to confirm them again.
async fn tools_ready(tools: Option<ClientTools>, lost_since: Option<Instant>) -> Result<(), Error> {
    let Some(tools) = tools else { return Ok(()) };
    if lost_since.is_none() && tools.state().borrow().is_open() {
        return Ok(());
    }
    match timeout(PATIENCE, tools.confirm()).await {
        // Tools that were disconnected or refused for good are not waited for: the prompt goes on without them.
        Ok(Err(_)) if matches!(*tools.state().borrow(), State::Closed(_)) => Ok(()),
        Ok(confirmed) => confirmed,
        Err(_elapsed) => Err(Error::GivenUp { reason: "the tools cannot be called".to_owned(), after: PATIENCE }),
    }
}

/// Stops the turn of a session, with retries while the server cannot be reached.
pub(super) async fn abort(api: &Api, session: &str) -> Result<(), Error> {
    with_retries(|| api.abort(session)).await
}
