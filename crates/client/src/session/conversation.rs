//! A session that others talk in: what was said, and what is said from now on.

use std::collections::{HashSet, VecDeque};
use std::slice;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use handback_wire::event::Event;
use handback_wire::session::{Message, Part, Permission};

use super::ask::Ask;
use super::event::TurnEvent;
use super::transcript::Transcript;
use crate::api::Api;
use crate::error::Error;
use crate::events::{EventFilter, Events, Notice};
use crate::retry::with_retries;

/// What is said in a session: first all that is stored, then what happens. See [`Api::follow`].
pub type Conversation = BoxStream<'static, Result<SessionEvent, Error>>;

/// An event of a session that is followed. Each comes once, however often the connection is lost.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum SessionEvent {
    /// A part of a message of a user, which comes as a whole.
    Said(Box<Part>),
    /// More of an answer. [`TurnEvent::Done`] is not among these: [`SessionEvent::Completed`] comes instead.
    Answer(TurnEvent),
    /// A message of an answer is complete. If its turn ended early, its `error` says why.
    Completed(Box<Message>),
    /// Everything that is stored has come. It comes again after a lost connection.
    CaughtUp,
}

pub(super) fn follow(api: Api, session: String) -> Conversation {
    let follower = Follower {
        events: api.events_of(EventFilter::with(|filter| filter.session_id = Some(session.clone()))),
        api,
        session,
        is_lost: false,
        has_missed: true,
        transcript: Transcript::of_session(),
        questions: HashSet::new(),
        given: HashSet::new(),
        asks: HashSet::new(),
        ready: VecDeque::new(),
    };
    stream::try_unfold(follower, Follower::next).boxed()
}

struct Follower {
    api: Api,
    session: String,
    events: Events,
    is_lost: bool,
    /// Whether events were missed that may belong to a message that is not complete yet.
    has_missed: bool,
    /// The answers.
    transcript: Transcript,
    /// The ids of the messages of users.
    questions: HashSet<String>,
    /// The ids of the parts of users and of the complete messages that were given.
    given: HashSet<String>,
    /// The ids of the open asks.
    asks: HashSet<String>,
    /// The events to give next.
    ready: VecDeque<SessionEvent>,
}

impl Follower {
    /// Returns the next event, and the follower for the events after it.
    async fn next(mut self) -> Result<Option<(SessionEvent, Self)>, Error> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some((event, self)));
            }
            match self.events.next().await.transpose()? {
                Some(Notice::Event(event)) => self.handle(*event).await?,
                Some(Notice::Disconnected { reason, .. }) => {
                    self.has_missed = true;
                    self.transcript.lose_track();
                    if !std::mem::replace(&mut self.is_lost, true) {
                        self.answer(TurnEvent::Disconnected { reason });
                    }
                }
                None => return Ok(None),
            }
        }
    }

    async fn handle(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Connected {} => {
                // Events that happen meanwhile wait in the connection, so that none is missed.
                self.read().await?;
                self.ready.push_back(SessionEvent::CaughtUp);
            }
            Event::SessionDeleted(gone) if gone.session_id == self.session => {
                return Err(Error::NoAnswer { reason: "the session was deleted".to_owned() });
            }
            Event::PermissionUpdated(ask) | Event::PermissionAsked(ask) => self.ask(ask),
            Event::PermissionReplied { permission_id, .. } => self.close_asks(|id| *id == permission_id),
            Event::PartUpdated { part, .. } if self.questions.contains(&part.message_id) => self.said(part),
            Event::MessageUpdated { info, .. } if info.role == "user" => _ = self.questions.insert(info.id),
            Event::MessageUpdated { info, .. } if info.time.completed.is_some() && self.has_missed => {
                self.read().await?;
                // The server may not have stored this message yet; then the next one is read again, too.
                self.has_missed = !self.given.contains(&info.id);
                self.completed(info);
            }
            other => {
                self.ready.extend(self.transcript.hear(&other).map(SessionEvent::Answer));
                if let Event::MessageUpdated { info, .. } = other {
                    self.completed(info);
                }
            }
        }
        Ok(())
    }

    /// Reads the session, and gives what is new in it.
    async fn read(&mut self) -> Result<(), Error> {
        let messages = with_retries(|| self.api.messages(&self.session, None)).await?;
        let asks = with_retries(|| self.api.permissions()).await?;
        if std::mem::take(&mut self.is_lost) {
            self.answer(TurnEvent::Reconnected);
        }
        for message in messages {
            if message.info.role == "user" {
                self.questions.insert(message.info.id);
                message.parts.into_iter().for_each(|part| self.said(part));
            } else {
                self.ready
                    .extend(self.transcript.read(slice::from_ref(&message)).into_iter().map(SessionEvent::Answer));
                self.completed(message.info);
            }
        }
        self.close_asks(|id| !asks.iter().any(|open| open.id == *id));
        asks.into_iter().for_each(|ask| self.ask(ask));
        Ok(())
    }

    fn said(&mut self, part: Part) {
        if self.given.insert(part.id.clone()) {
            self.ready.push_back(SessionEvent::Said(Box::new(part)));
        }
    }

    fn completed(&mut self, message: Message) {
        if message.time.completed.is_some() && self.given.insert(message.id.clone()) {
            self.ready.push_back(SessionEvent::Completed(Box::new(message)));
        }
    }

    fn ask(&mut self, permission: Permission) {
        if permission.session_id == self.session && self.asks.insert(permission.id.clone()) {
            self.answer(TurnEvent::Ask(Box::new(Ask { permission, api: self.api.clone() })));
        }
    }

    fn close_asks(&mut self, is_closed: impl Fn(&String) -> bool) {
        let closed = self.asks.extract_if(|id| is_closed(id));
        self.ready.extend(closed.map(|id| SessionEvent::Answer(TurnEvent::AskClosed { id })));
    }

    fn answer(&mut self, event: TurnEvent) {
        self.ready.push_back(SessionEvent::Answer(event));
    }
}
