//! What makes a turn go on: says what is to be said, listens, and reads from the server what listening does not tell.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt;
use handback_wire::event::Event;
use handback_wire::session::{Message, MessageWithParts, Permission, Prompt, Status};
use tokio::time::{Instant, sleep_until};

use super::{TurnEvent, abort};
use crate::api::Api;
use crate::error::Error;
use crate::events::{Events, Notice};
use crate::patience::PATIENCE;
use crate::session::ask::Ask;
use crate::session::transcript::Transcript;

/// When nothing was heard for this long, the server is asked whether the turn is still under way.
const QUIET: Duration = Duration::from_secs(15);
/// A request that failed is made again after this long, or when the server asks for it.
const RETRY: Duration = Duration::from_secs(1);
/// So many of the newest messages are read: more than a turn has, and the older ones were told as they came.
const NEWEST_MESSAGES: usize = 256;

pub(super) struct Driver {
    api: Api,
    session: String,
    prompt: Prompt,
    aborted: Arc<AtomicBool>,
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
    transcript: Transcript,
    /// The asks that were told and are open: each comes in more than one event.
    asks: HashSet<String>,
    /// What is told next.
    ready: VecDeque<TurnEvent>,
    is_over: bool,
}

impl Driver {
    pub(super) fn new(api: Api, session: String, mut prompt: Prompt, aborted: Arc<AtomicBool>) -> Self {
        // Known beforehand: by it a prompt that is repeated is not said twice, and its answers are found.
        let id = prompt.message_id.get_or_insert_with(|| format!("msg_{:032x}", fastrand::u128(..))).clone();
        Self {
            events: api.events(),
            api,
            session,
            prompt,
            aborted,
            is_connected: false,
            is_said: false,
            may_be_said: false,
            is_behind: false,
            has_missed: false,
            ask_at: Instant::now(),
            lost_since: None,
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
        if self.aborted.load(Ordering::Relaxed) {
            self.is_over = true;
            return Ok(());
        }
        let said = match self.api.prompt_async(&self.session, &self.prompt).await {
            // The id is taken, or too many prompts wait: the messages tell which.
            Err(error) if self.may_be_said && error.status() == Some(409) => match self.is_kept().await {
                Ok(true) => {
                    self.is_behind = true;
                    Ok(())
                }
                Ok(false) => return self.lost(error.to_string(), RETRY),
                Err(error) => Err(error),
            },
            said => said,
        };
        self.may_be_said = true;
        self.is_said = self.unless_lost(said)?.is_some();
        if self.is_said {
            self.ask_at = Instant::now() + QUIET;
            if self.aborted.load(Ordering::Relaxed) {
                // It came too early for the server to stop anything.
                abort(&self.api, &self.session).await?;
            }
        }
        Ok(())
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
        let is_busy = status.get(&self.session) == Some(&Status::Busy);
        let last = self.transcript.last().map(|last| last.id.clone());
        let answer = messages.into_iter().find(|message| Some(&message.info.id) == last.as_ref());
        match answer {
            // Other prompts may wait, so that the session stays busy.
            Some(message) if !is_busy || is_last(&message) => {
                let tokens = self.transcript.tokens();
                self.ready.push_back(TurnEvent::Done { message: Box::new(message), tokens });
                self.is_over = true;
                Ok(())
            }
            Some(message) => {
                self.has_missed &= message.info.time.completed.is_none();
                Ok(())
            }
            None if is_busy => Ok(()),
            None => Err(Error::NoAnswer { reason: "nothing has answered".to_owned() }),
        }
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
