//! What makes a turn go on: says what is to be said, listens, and reads from the server what listening does not tell.

use std::collections::{HashSet, VecDeque};
use std::time::Duration;

use futures_util::StreamExt;
use handback_wire::event::Event;
use handback_wire::session::{Message, MessageWithParts, Permission, Prompt, Status};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ask::Ask;
use super::event::TurnEvent;
use super::transcript::Transcript;
use crate::api::Api;
use crate::error::Error;
use crate::events::{Events, Notice};
use crate::retry::{PATIENCE, Patience};
use crate::tools::{ClientTools, State};

/// When nothing was heard for this long, the server is asked whether the turn is still under way.
const QUIET: Duration = Duration::from_secs(15);
/// A request that failed is made again after this long, or when the server asks for it.
const RETRY: Duration = Duration::from_secs(1);
/// How long a turn may stand still without an end in a session that is idle: somebody else may take it up.
const STOPPED: Duration = Duration::from_secs(5);
/// So many of the newest messages are read: more than a turn has, and the older ones were told as they came.
const NEWEST_MESSAGES: usize = 256;

pub(super) struct Driver {
    api: Api,
    session: String,
    prompt: Prompt,
    /// The tools of the client that says it.
    tools: Option<ClientTools>,
    aborted: CancellationToken,
    events: Events,
    is_connected: bool,
    is_said: bool,
    /// A try to say it got no answer: it may have been heard.
    may_be_said: bool,
    /// Something was missed, and is to be read from the server.
    is_behind: bool,
    /// Something was missed, and the message that it may be part of is not complete.
    has_missed: bool,
    /// When the server is asked, unless something happens before.
    ask_at: Instant,
    lost_since: Option<Instant>,
    /// Since when the session is idle although the turn has not ended.
    stopped_since: Option<Instant>,
    transcript: Transcript,
    /// The asks that were told and are open: each comes in more than one event.
    asks: HashSet<String>,
    /// What is told next.
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
        // Known beforehand: by it a prompt that is repeated is not said twice, and its answers are found.
        let id = prompt.message_id.get_or_insert_with(|| format!("msg_{:032x}", fastrand::u128(..))).clone();
        Self {
            events: api.session_events(&session),
            api,
            session,
            prompt,
            tools,
            aborted,
            is_connected: false,
            is_said: false,
            may_be_said: false,
            is_behind: false,
            has_missed: false,
            ask_at: Instant::now(),
            lost_since: None,
            stopped_since: None,
            transcript: Transcript::new(id),
            asks: HashSet::new(),
            ready: VecDeque::new(),
            is_over: false,
        }
    }

    /// What is told next, and who tells what comes after it.
    pub(super) async fn next(mut self) -> Result<Option<(TurnEvent, Option<Self>)>, Error> {
        loop {
            match self.ready.pop_front() {
                // With it goes the connection.
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
            () = sleep_until(self.ask_at), if self.is_connected => return self.catch_up().await,
        };
        if !self.is_behind {
            self.ask_at = Instant::now() + QUIET;
        }
        match notice {
            Some(Ok(Notice::Event(event))) => self.hear(*event).await,
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

    async fn hear(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Connected {} => {
                self.is_connected = true;
                // Only now: whatever comes of what is said will be heard.
                if self.is_behind || !self.is_said { self.catch_up().await } else { Ok(()) }
            }
            Event::SessionIdle { session_id } if self.is_said && session_id == self.session => self.look().await,
            Event::SessionDeleted(gone) if gone.session_id == self.session => {
                Err(Error::NoAnswer { reason: "the session was deleted".to_owned() })
            }
            Event::PermissionUpdated(ask) | Event::PermissionAsked(ask) => {
                self.ask(ask);
                Ok(())
            }
            Event::PermissionReplied { permission_id, .. } => {
                self.close_asks(|id| *id == permission_id);
                Ok(())
            }
            other => {
                self.ready.extend(self.transcript.hear(&other));
                match other {
                    Event::MessageUpdated { info, .. } if self.may_complete(&info) => self.look().await,
                    _ => Ok(()),
                }
            }
        }
    }

    /// Whether a message is complete with which the turn may be, or which has parts that were missed.
    fn may_complete(&self, info: &Message) -> bool {
        let has_more = info.error.is_none() && info.finish.as_deref() == Some("tool-calls");
        self.transcript.is_answer(&info.id) && info.time.completed.is_some() && (self.has_missed || !has_more)
    }

    /// Does what could not be done while there was no connection: says what is to be said, and reads what was missed.
    async fn catch_up(&mut self) -> Result<(), Error> {
        if !self.is_said {
            self.say().await?;
            if !self.is_said || !self.is_behind {
                return Ok(());
            }
        }
        self.look().await?;
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

    /// Says it, once, however often it is tried.
    async fn say(&mut self) -> Result<(), Error> {
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
        let said = match self.api.prompt_async(&self.session, &prompt).await {
            // The id is taken, by this prompt or one of the same id before it; or too many wait. The messages tell which.
            Err(error) if error.status() == Some(409) => match self.is_kept().await {
                Ok(true) => {
                    self.is_behind = true;
                    Ok(())
                }
                Ok(false) if self.may_be_said => return self.lost(error.to_string(), RETRY),
                Ok(false) => Err(error),
                Err(error) => Err(error),
            },
            said => said,
        };
        self.may_be_said = true;
        self.is_said = self.unless_lost(said)?.is_some();
        if !self.is_said {
            return Ok(());
        }
        self.ask_at = Instant::now() + QUIET;
        // An abort that came before this was too early for the server to stop anything.
        if self.aborted.is_cancelled() { abort(&self.api, &self.session).await } else { Ok(()) }
    }

    async fn is_kept(&mut self) -> Result<bool, Error> {
        let messages = self.api.messages(&self.session, Some(NEWEST_MESSAGES)).await?;
        Ok(messages.iter().any(|message| Some(&message.info.id) == self.prompt.message_id.as_ref()))
    }

    /// Reads what the session has; the turn may be over by it.
    async fn look(&mut self) -> Result<(), Error> {
        // In this order: of a session that is idle, the messages are complete.
        let status = self.api.session_status().await;
        let Some(status) = self.unless_lost(status)? else { return Ok(()) };
        let messages = self.api.messages(&self.session, Some(NEWEST_MESSAGES)).await;
        let Some(messages) = self.unless_lost(messages)? else { return Ok(()) };
        self.found();
        self.ready.extend(self.transcript.read(&messages));
        let answer = messages.into_iter().rfind(|message| self.transcript.is_answer(&message.info.id)).map(Box::new);
        match answer {
            // Other prompts may wait, so that the session stays busy.
            Some(message) if is_last(&message) => {
                let tokens = self.transcript.tokens();
                self.ready.push_back(TurnEvent::Done { message, tokens });
                self.is_over = true;
                Ok(())
            }
            answer if status.get(&self.session) == Some(&Status::Busy) => {
                self.stopped_since = None;
                // A message that is being written may not be kept yet.
                let is_written = |message: &MessageWithParts| {
                    message.info.time.completed.is_none() || !self.transcript.is_last(&message.info.id)
                };
                self.has_missed &= answer.is_none_or(|message| is_written(&message));
                Ok(())
            }
            answer => self.stopped(answer),
        }
    }

    /// The session is idle, and the turn has not ended: it is given up if that stays so.
    fn stopped(&mut self, answer: Option<Box<MessageWithParts>>) -> Result<(), Error> {
        if self.stopped_since.get_or_insert_with(Instant::now).elapsed() < STOPPED {
            self.is_behind = true;
            self.ask_at = Instant::now() + RETRY;
            return Ok(());
        }
        Err(match answer {
            Some(message) => Error::TurnFailed(message),
            None => Error::NoAnswer { reason: "nothing has answered".to_owned() },
        })
    }

    /// A call asks to be allowed, maybe one of another turn.
    fn ask(&mut self, permission: Permission) {
        if self.transcript.is_answer(&permission.message_id) && self.asks.insert(permission.id.clone()) {
            self.ready.push_back(TurnEvent::Ask(Box::new(Ask { permission, api: self.api.clone() })));
        }
    }

    fn close_asks(&mut self, is_closed: impl Fn(&String) -> bool) {
        let closed = self.asks.extract_if(|id| is_closed(id));
        self.ready.extend(closed.map(|id| TurnEvent::AskClosed { id }));
    }

    /// What the server answered; `None` if it could not, and is asked again later.
    fn unless_lost<T>(&mut self, answer: Result<T, Error>) -> Result<Option<T>, Error> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if error.is_transient() => {
                let retry_in = error.retry_after().unwrap_or(RETRY).clamp(RETRY, PATIENCE);
                self.lost(error.to_string(), retry_in).map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    fn lost(&mut self, reason: String, retry_in: Duration) -> Result<(), Error> {
        self.is_behind = true;
        self.ask_at = Instant::now() + retry_in;
        match self.lost_since {
            Some(lost_since) if lost_since.elapsed() >= PATIENCE => Err(Error::GivenUp { reason, after: PATIENCE }),
            Some(_) => Ok(()),
            None => {
                self.lost_since = Some(Instant::now());
                self.ready.push_back(TurnEvent::Disconnected { reason });
                Ok(())
            }
        }
    }

    fn found(&mut self) {
        self.is_behind = false;
        self.ask_at = Instant::now() + QUIET;
        if self.lost_since.take().is_some() {
            self.ready.push_back(TurnEvent::Reconnected);
        }
    }
}

/// Whether nothing follows a message: it is complete, and no results of calls are to be answered.
fn is_last(message: &MessageWithParts) -> bool {
    let info = &message.info;
    info.time.completed.is_some() && (info.error.is_some() || !message.parts.iter().any(|part| part.kind == "tool"))
}

/// Waits until the tools can be called. If the server was lost, it may be another process, which knows no tools: then it
/// has to confirm them anew.
async fn tools_ready(tools: Option<ClientTools>, lost_since: Option<Instant>) -> Result<(), Error> {
    let Some(tools) = tools else { return Ok(()) };
    if lost_since.is_none() && tools.state().borrow().is_open() {
        return Ok(());
    }
    match timeout(PATIENCE, tools.confirm()).await {
        Ok(Ok(())) => Ok(()),
        // It was disconnected, or refused for good: whoever prompts all the same does without the tools.
        Ok(Err(_)) if matches!(*tools.state().borrow(), State::Closed(_)) => Ok(()),
        Ok(Err(error)) => Err(error),
        Err(_elapsed) => Err(Error::GivenUp { reason: "the tools cannot be called".to_owned(), after: PATIENCE }),
    }
}

/// Stops the turn of a session, and tries again for a while if the server cannot be reached.
pub(super) async fn abort(api: &Api, session: &str) -> Result<(), Error> {
    let mut patience = Patience::new();
    while let Err(error) = api.abort(session).await {
        patience.after(error).await?;
    }
    Ok(())
}
