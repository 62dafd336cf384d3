//! What a page sends becomes a plan, and the plan a turn: once, for every protocol by which pages talk to a session.
//!
//! A page sends what is new in a conversation: what the user says, what came of the calls that were the page's to run, what
//! the user answered to asks. What is to be done follows from that and from what is stored. Requests may come twice, late,
//! and several at once: each is planned anew until what it found still holds when it is done.

use std::sync::Arc;

use smol_str::SmolStr;
use std::collections::HashSet;

use super::playback::Playback;
use super::{Prompt, Prompted, SessionError, Sessions};
use crate::calls::{Actor, NotAnswered};
use crate::events::{Feed, TurnEvent};
use crate::id::{CallId, MessageId, PermissionId};
use crate::schema::InputError;
use crate::store::{Answer, Message, Part, PartBody, Reply, Session, ToolResult, TurnNeeds};

/// What a page sends.
#[derive(Debug, Default)]
pub struct PageRequest {
    /// What the user has said and the page has no answer to; the last of it is answered.
    pub said: Vec<Said>,
    /// Whether it is said in place of what was said under the same id: that and all after it is forgotten.
    pub replaces: bool,
    /// What came of calls that were the page's to run.
    pub results: Vec<(CallId, ToolResult)>,
    /// Whether some results are new. If not, only results of open calls count.
    pub has_new_results: bool,
    /// The calls that the page shows. They identify the turn to continue. `None`: the calls that it has results for.
    pub shown: Option<HashSet<CallId>>,
    /// Calls of which it knows the end.
    pub ended: HashSet<CallId>,
    /// What the user answered to asks.
    pub answers: Vec<(PermissionId, Answer)>,
    /// The agent that is to answer.
    pub agent: Option<SmolStr>,
    /// What its turns need.
    pub needs: TurnNeeds,
    /// How its protocol wants things.
    pub manners: Manners,
}

/// Something that the user says.
#[derive(Debug, Clone)]
pub struct Said {
    /// The message's id; made when `None`.
    pub message: Option<MessageId>,
    /// What is said.
    pub parts: Vec<PartBody>,
}

/// Where protocols differ in what they expect.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    /// A message whose turn ended by itself is answered anew when it comes again; otherwise its answer is told again.
    pub answers_anew: bool,
    /// Every open ask has to be answered before anything else happens; otherwise those that are not open are passed over.
    pub answers_all_asks: bool,
    /// A request with nothing new takes up a turn that failed.
    pub retries: bool,
    /// What the user says ends the calls that earlier turns have left to the page.
    pub settles_calls: bool,
    /// Turns that nobody else follows are stopped when the reader leaves.
    pub stops_turns: bool,
}

/// Why nothing was done for a request.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// There is nothing to answer.
    #[error("there is nothing new to answer")]
    NothingNew,
    /// There is nothing new, and a turn is under way.
    #[error("there is nothing new in this request, and a turn of its conversation is under way")]
    Busy,
    /// The calls that it speaks of are not of the last turn. What came of them is kept.
    #[error("the conversation has gone on since; nothing is answered to this")]
    GoneOn,
    /// The message is being answered where nobody can follow.
    #[error("this message is being answered elsewhere; try again later")]
    AnsweredElsewhere,
    /// An ask is open that it does not answer.
    #[error("the ask {0} is open and has to be answered first")]
    AskOpen(PermissionId),
    /// It answers an ask that is not open.
    #[error("there is no open ask {0} in this session")]
    UnknownAsk(PermissionId),
    /// It answers an ask that was answered otherwise, or whose time is over.
    #[error("the ask {0} was answered otherwise, or its time is over")]
    AnsweredOtherwise(PermissionId),
    /// It answers an ask of somebody else's call.
    #[error("the ask {0} is not yours to answer")]
    NotYourAsk(PermissionId),
    /// It has two answers to one ask.
    #[error("there are two answers to the ask {0}")]
    TwoAnswers(PermissionId),
    /// An answer has an input that the tool does not take.
    #[error("the input in the answer to the ask {0} does not fit the tool: {1}")]
    InvalidInput(PermissionId, InputError),
    /// An ask was not answered.
    #[error(transparent)]
    NotAnswered(#[from] NotAnswered),
    /// The session does not take it.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// What is to be done for a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Plan {
    /// The user's answers go to the asks, and the turn that asked goes on.
    Resume,
    /// What the user says is answered.
    Prompt,
    /// The same, in place of what was said before.
    Replace,
    /// A message comes again: its turn is followed, told again, taken up or run anew.
    Repeat(MessageId),
    /// A turn goes on that ended with calls of the page.
    Continue(KnownTurn),
    /// A turn that failed is taken up.
    Retry(Arc<Message>),
}

/// The turn that a page speaks of.
#[derive(Debug)]
pub struct KnownTurn {
    /// The user's message that it answers.
    user: Arc<Message>,
    /// The last answer of which the page shows a call.
    last: MessageId,
}

impl PageRequest {
    /// What is to be done, given what is stored. Pure: nothing is changed yet.
    pub fn plan(&self, stored: &[Arc<Message>], is_busy: bool) -> Result<Plan, NotPlanned> {
        if !self.answers.is_empty() && (self.manners.answers_all_asks || self.said.is_empty()) {
            return Ok(Plan::Resume);
        }
        if let Some(last) = self.said.last() {
            self.must_be_users(stored)?;
            return Ok(match &last.message {
                Some(_) if self.replaces => Plan::Replace,
                Some(id) if stored.iter().any(|message| message.id == *id) => Plan::Repeat(id.clone()),
                _ => Plan::Prompt,
            });
        }
        if self.has_new_results || self.has_open_call(stored) {
            return self.known_turn(stored).map(Plan::Continue).ok_or(NotPlanned::NothingNew);
        }
        if is_busy {
            return Err(NotPlanned::Busy);
        }
        failed_turn(stored).map(Plan::Retry).ok_or(NotPlanned::NothingNew)
    }

    /// Whether it has the result of a call that is still the page's to run.
    fn has_open_call(&self, stored: &[Arc<Message>]) -> bool {
        let mut open = stored.iter().flat_map(|message| &message.parts).filter(|part| part.is_yielded());
        open.any(|part| part.is_call_of(&self.results))
    }

    /// The turn that goes on.
    fn known_turn(&self, stored: &[Arc<Message>]) -> Option<KnownTurn> {
        let is_shown = |part: &Arc<Part>| match (&part.body, &self.shown) {
            (PartBody::Tool(tool), Some(shown)) => shown.contains(&tool.call),
            (PartBody::Tool(_), None) => part.is_call_of(&self.results),
            _ => false,
        };
        let last = stored.iter().rev().find(|message| message.parts.iter().any(is_shown))?;
        let user = stored.iter().find(|message| Some(&message.id) == last.answers())?;
        Some(KnownTurn { user: user.clone(), last: last.id.clone() })
    }

    /// Refuses what has the id of an answer: nothing is forgotten for it.
    fn must_be_users(&self, stored: &[Arc<Message>]) -> Result<(), SessionError> {
        let ids: HashSet<&MessageId> = self.said.iter().filter_map(|said| said.message.as_ref()).collect();
        let mut answers = stored.iter().filter(|message| message.answers().is_some());
        match answers.find(|message| ids.contains(&message.id)) {
            Some(taken) => Err(SessionError::DuplicateMessage(taken.id.clone())),
            None => Ok(()),
        }
    }

    fn prompt(&self, said: Said, wants_reply: bool) -> Prompt {
        Prompt {
            message: said.message,
            parts: said.parts,
            agent: self.agent.clone(),
            wants_reply,
            needs: self.needs.clone(),
        }
    }
}

/// What the user said last, if its turn failed or was stopped.
fn failed_turn(stored: &[Arc<Message>]) -> Option<Arc<Message>> {
    let user = stored.iter().rfind(|message| message.wants_reply())?;
    let last = stored.iter().rfind(|message| message.answers() == Some(&user.id))?;
    last.error().is_some().then(|| user.clone())
}

/// The answers to a user's message.
fn answers_to(stored: Vec<Arc<Message>>, user: &MessageId) -> Vec<Arc<Message>> {
    stored.into_iter().filter(|message| message.answers() == Some(user)).collect()
}

/// At which number a turn has begun a step.
fn began(feed: &Feed, message: &MessageId) -> Option<usize> {
    let is_it = |event: &TurnEvent| matches!(event, TurnEvent::StepBegan(begun) if begun.id == *message);
    feed.milestones().into_iter().find(|(_, event)| is_it(event)).map(|(number, _)| number)
}

/// What comes of a plan; `None`: something else came first, and it has to be planned anew.
type Done = Option<Playback>;

impl Sessions {
    /// Does what a page asks for on somebody's behalf, and tells what comes of it.
    pub async fn converse(
        &self,
        session: &Arc<Session>,
        actor: &Actor,
        request: &PageRequest,
    ) -> Result<Playback, NotPlanned> {
        self.must_be_serving()?;
        if request.manners.answers_all_asks {
            self.must_answer_all(session, request)?;
        }
        loop {
            let stored = self.messages(&session.id).await?;
            let talk = Talk { sessions: self, session, actor, request };
            let done = match request.plan(&stored, self.is_busy(&session.id))? {
                Plan::Resume => talk.resume().await?,
                Plan::Prompt => talk.prompt().await?,
                Plan::Replace => talk.replace().await?,
                Plan::Repeat(user) => talk.repeat(&user).await?,
                Plan::Continue(turn) => talk.go_on(turn, stored).await?,
                Plan::Retry(user) => talk.retry(&user).await?,
            };
            if let Some(playback) = done {
                return Ok(playback);
            }
            tokio::task::yield_now().await;
        }
    }

    fn must_answer_all(&self, session: &Session, request: &PageRequest) -> Result<(), NotPlanned> {
        let is_answered = |id: &PermissionId| request.answers.iter().any(|(answered, _)| answered == id);
        match self.hub().asks(Some(&session.id)).iter().find(|ask| !is_answered(&ask.id)) {
            Some(ask) => Err(NotPlanned::AskOpen(ask.id.clone())),
            None => Ok(()),
        }
    }

    /// Tells the turn that is under way, from its beginning; `None` if there is none that can be followed.
    pub async fn play_back(&self, session: &Arc<Session>) -> Result<Option<Playback>, SessionError> {
        let Some(turn) = self.running(&session.id) else { return Ok(None) };
        let answers = answers_to(self.messages(&session.id).await?, &turn.user);
        Ok(Some(self.whole_turn(session, &answers, &turn.feed).yielding_asks(turn.yields_asks)))
    }

    /// Tells a turn from its beginning: first what was answered before it went on.
    fn whole_turn(&self, session: &Session, answers: &[Arc<Message>], feed: &Feed) -> Playback {
        let is_before = |answer: &&Arc<Message>| answer.is_complete() && began(feed, &answer.id).is_none();
        // What the model was saying when it broke off is said anew.
        let before = answers.iter().filter(is_before).filter(|answer| !answer.failed_without_calls());
        Playback::new(self, &session.id).after(before).then(feed, 0)
    }
}

/// A request on its way to a turn.
struct Talk<'a> {
    sessions: &'a Sessions,
    session: &'a Arc<Session>,
    actor: &'a Actor,
    request: &'a PageRequest,
}

impl Talk<'_> {
    /// A user's message whose turn is taken up again for the request.
    fn taken_up(&self, user: &Message) -> Arc<Message> {
        Arc::new(user.taken_up(&self.request.needs))
    }

    /// Tells something as the request wants it.
    fn playing(&self, playback: Playback) -> Result<Done, NotPlanned> {
        let Manners { stops_turns, .. } = self.request.manners;
        let yields_asks = self.request.needs.yields_asks;
        Ok(Some(playback.yielding_asks(yields_asks).stopping_turns(stops_turns)))
    }

    fn playback(&self) -> Playback {
        Playback::new(self.sessions, &self.session.id)
    }

    /// Tells a turn that begins.
    fn begun(&self, prompted: Prompted) -> Result<Done, NotPlanned> {
        let feed = prompted.feed.ok_or(NotPlanned::NothingNew)?;
        self.playing(self.playback().then(&feed, 0))
    }

    /// The user says something. If the request has results for the page's calls, those calls end.
    async fn prompt(&self) -> Result<Done, NotPlanned> {
        match self.say().await? {
            Some(prompted) => self.begun(prompted),
            // Somebody else has said it just now: it comes again.
            None => Ok(None),
        }
    }

    /// Says what is not stored yet; the last of it is answered. `None` if there is nothing.
    async fn say(&self) -> Result<Option<Prompted>, NotPlanned> {
        let mut unsaid = Vec::new();
        for said in self.request.said.iter().rev() {
            match &said.message {
                Some(message) if self.sessions.knows(&self.session.id, message).await? => break,
                _ => unsaid.push(said.clone()),
            }
        }
        let Some((last, earlier)) = unsaid.split_first() else { return Ok(None) };
        // Nothing of it is said if the last cannot be.
        self.sessions.must_have_room(&self.session.id)?;
        for said in earlier.iter().rev() {
            self.sessions.prompt(self.session, self.request.prompt(said.clone(), false)).await?;
        }
        match self.sessions.prompt(self.session, self.request.prompt(last.clone(), true)).await {
            Err(SessionError::DuplicateMessage(_)) => Ok(None),
            prompted => Ok(Some(prompted?)),
        }
    }

    async fn replace(&self) -> Result<Done, NotPlanned> {
        let said = self.request.said.last().cloned().ok_or(NotPlanned::NothingNew)?;
        self.begun(self.sessions.prompt_anew(self.session, self.request.prompt(said, true)).await?)
    }

    /// The same message again, because its answer may have been lost on its way. If its turn broke off after a call of it
    /// was completed, it goes on from there: nothing that was done is done again.
    async fn repeat(&self, id: &MessageId) -> Result<Done, NotPlanned> {
        let (sessions, session) = (self.sessions, self.session);
        // Before what is stored: a turn that ends meanwhile is found there.
        let running = sessions.feed_of(&session.id, id);
        if running.is_none() && sessions.is_answering(&session.id, id) {
            return Err(NotPlanned::AnsweredElsewhere);
        }
        let stored = sessions.messages(&session.id).await?;
        let Some(user) = stored.iter().find(|message| message.id == *id).cloned() else { return Ok(None) };
        if user.answers().is_some() {
            return Err(SessionError::DuplicateMessage(id.clone()).into());
        }
        let is_newest = stored.last().is_some_and(|newest| newest.id == *id || newest.answers() == Some(id));
        let mut answers = answers_to(stored, id);
        if let Some(feed) = running {
            return self.playing(sessions.whole_turn(session, &answers, &feed));
        }
        if answers.last().is_some_and(|last| last.broke_off()) {
            answers = sessions.recall(session, answers).await?;
            if answers.iter().flat_map(|answer| &answer.parts).any(|part| part.is_completed_call()) {
                return match sessions.try_again(session, &self.taken_up(&user)).await {
                    Ok(Prompted { feed: Some(feed), .. }) => {
                        self.playing(sessions.whole_turn(session, &answers, &feed))
                    }
                    // Somebody else was quicker.
                    Ok(_) | Err(SessionError::DuplicateMessage(_)) => Ok(None),
                    Err(error) => Err(error.into()),
                };
            }
        } else if !answers.is_empty() && !self.request.manners.answers_anew {
            return self.playing(self.playback().after(&answers));
        }
        // Nothing that counts was done for it so far.
        if !self.request.manners.answers_anew && (!is_newest || sessions.is_busy(&session.id)) {
            let is_answered_now = sessions.is_answering(&session.id, id);
            return if is_answered_now { Ok(None) } else { Err(NotPlanned::AnsweredElsewhere) };
        }
        let said = self.request.said.last().cloned().ok_or(NotPlanned::NothingNew)?;
        match sessions.prompt_again(session, self.request.prompt(said, true)).await {
            Err(SessionError::DuplicateMessage(_)) => Ok(None),
            prompted => self.begun(prompted?),
        }
    }

    /// A turn goes on with what came of the page's calls. Of several who want that at once one does, and the others follow.
    async fn go_on(&self, turn: KnownTurn, stored: Vec<Arc<Message>>) -> Result<Done, NotPlanned> {
        let (sessions, session, request) = (self.sessions, self.session, self.request);
        let KnownTurn { user, last } = turn;
        let newest = stored.iter().rfind(|message| message.wants_reply());
        if newest.is_none_or(|newest| newest.id != user.id) {
            sessions.keep_late(session, &user.id, request.results.clone()).await?;
            return Err(NotPlanned::GoneOn);
        }
        if let Some(feed) = sessions.feed_of(&session.id, &user.id) {
            // It is under way: the step that the page shows is part of it, or comes before it.
            let from = began(&feed, &last).map_or(0, |number| number + 1);
            let mut playback = self.playback().then(&feed, from);
            if from > 0 && !request.results.is_empty() {
                match sessions.go_on_after(session, &self.taken_up(&user), &last, request.results.clone())? {
                    Some(next) => playback = playback.then(&next, 0),
                    None => return Ok(None),
                }
            }
            return self.playing(playback);
        }
        if sessions.is_answering(&session.id, &user.id) {
            return Err(NotPlanned::AnsweredElsewhere);
        }
        let mut answers = answers_to(stored, &user.id);
        let place = answers.iter().position(|answer| answer.id == last).map_or(0, |place| place + 1);
        let mut later = answers.split_off(place);
        // What ended while the page was away.
        let playback = match (&request.shown, answers.last()) {
            (Some(shown), Some(known)) => {
                self.playback().after_ends(known, |call| shown.contains(call) && !request.ended.contains(call))
            }
            _ => self.playback(),
        };
        let gone_on = match later.last() {
            None => sessions.go_on(session, &self.taken_up(&user), &last, request.results.clone()).await,
            // It went on before, and failed.
            Some(latest) if request.manners.retries && latest.error().is_some() => {
                sessions.try_again(session, &self.taken_up(&user)).await
            }
            Some(_) => {
                if request.manners.retries {
                    later.retain(|answer| !answer.failed_without_calls());
                }
                return self.playing(playback.after(&later));
            }
        };
        match gone_on {
            Ok(Prompted { feed: Some(feed), .. }) => self.playing(playback.then(&feed, 0)),
            // Somebody else goes on with it, or has gone on.
            Ok(_) | Err(SessionError::DuplicateMessage(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn retry(&self, user: &Message) -> Result<Done, NotPlanned> {
        self.begun(self.sessions.try_again(self.session, &self.taken_up(user)).await?)
    }

    /// Answers the asks that a turn waits for, and tells how it goes on.
    async fn resume(&self) -> Result<Done, NotPlanned> {
        let (sessions, session) = (self.sessions, self.session);
        let running = sessions.running(&session.id);
        let feed = running.as_ref().map(|turn| &turn.feed);
        let answers = self.answers(feed).await?;
        let asked = feed.and_then(|feed| Some((feed, self.asked(feed)?)));
        // What the user says besides comes after it.
        let later = self.say().await?.and_then(|prompted| prompted.feed);
        let mut playback = self.playback();
        if let Some((feed, number)) = asked {
            playback = playback.then(feed, number).answering(&self.request.answers);
            if let Some(turn) = running.as_ref().filter(|_| !self.request.results.is_empty()) {
                playback = self.bring_results(playback, &turn.user).await?;
            }
        }
        if let Some(later) = &later {
            playback = playback.then(later, 0);
        }
        for (ask, answer) in answers {
            match sessions.answer(&ask, self.actor, answer).await {
                // Somebody else was quicker.
                Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if asked.is_none() && later.is_none() && !self.request.manners.answers_all_asks {
            // The turn is over, or went on long ago.
            let stored = sessions.messages(&session.id).await?;
            let turn = self.request.known_turn(&stored).ok_or(NotPlanned::NothingNew)?;
            return self.go_on(turn, stored).await;
        }
        self.playing(playback)
    }

    /// The turn goes on with the results that came with the answers, if it ends with calls of the page.
    async fn bring_results(&self, playback: Playback, user: &MessageId) -> Result<Playback, NotPlanned> {
        let stored = self.sessions.messages(&self.session.id).await?;
        let Some(user) = stored.iter().find(|message| message.id == *user) else { return Ok(playback) };
        let Some(last) = stored.iter().rfind(|message| message.answers() == Some(&user.id)) else {
            return Ok(playback);
        };
        let results = self.request.results.clone();
        let next = self.sessions.go_on_after(self.session, &self.taken_up(user), &last.id, results)?;
        Ok(match next {
            Some(next) => playback.then(&next, 0),
            None => playback,
        })
    }

    /// The number from which a reader that has seen these asks goes on: the first answer after the last of them.
    fn asked(&self, feed: &Feed) -> Option<usize> {
        let is_ours = |id: &PermissionId| self.request.answers.iter().any(|(ask, _)| ask == id);
        let (told, milestones) = (feed.len(), feed.milestones());
        let asked =
            milestones.iter().rposition(|(_, event)| matches!(event, TurnEvent::Asked(ask) if is_ours(&ask.id)))?;
        let is_answer = |event: &TurnEvent| matches!(event, TurnEvent::Answered { ask, .. } if is_ours(ask));
        let answered = milestones.iter().skip(asked).find(|(_, event)| is_answer(event));
        Some(answered.map_or(told, |(number, _)| *number))
    }

    /// The answers to give. Where every ask must be answered, one that cannot be refuses all of them; elsewhere answers to
    /// asks that are not open are dropped.
    async fn answers(&self, feed: Option<&Feed>) -> Result<Vec<(PermissionId, Answer)>, NotPlanned> {
        let mut answers = Vec::with_capacity(self.request.answers.len());
        let mut known = HashSet::new();
        for (ask, answer) in &self.request.answers {
            if self.request.manners.answers_all_asks {
                if !known.insert(ask) {
                    return Err(NotPlanned::TwoAnswers(ask.clone()));
                }
                self.must_be_answerable(feed, ask, answer).await?;
            } else if self.sessions.hub().ask(ask).is_none_or(|open| open.call.session != self.session.id) {
                continue;
            }
            answers.push((ask.clone(), answer.clone()));
        }
        // An answer for all calls of a tool comes last: it must not answer what has an answer of its own.
        answers.sort_by_key(|(_, answer)| answer.reply == Reply::Always);
        Ok(answers)
    }

    /// Whether an ask belongs to this session, and can be answered so, or has been.
    async fn must_be_answerable(
        &self,
        feed: Option<&Feed>,
        id: &PermissionId,
        answer: &Answer,
    ) -> Result<(), NotPlanned> {
        let hub = self.sessions.hub();
        let Some(ask) = hub.ask(id).filter(|ask| ask.call.session == self.session.id) else {
            return match feed.and_then(|feed| told_of(feed, id)) {
                None => Err(NotPlanned::UnknownAsk(id.clone())),
                Some(Some(is_allowed)) if is_allowed != (answer.reply != Reply::Reject) => {
                    Err(NotPlanned::AnsweredOtherwise(id.clone()))
                }
                Some(_) => Ok(()),
            };
        };
        if !self.actor.may_touch(ask.call.client(), &ask.call.session) {
            return Err(NotPlanned::NotYourAsk(id.clone()));
        }
        let Some(input) = &answer.input else { return Ok(()) };
        let checked = hub.schemas().check(&ask.call.tool.spec.schema, input, hub.limits()).await;
        checked.map_err(|error| NotPlanned::InvalidInput(id.clone(), error))
    }
}

/// What a turn has told of an ask: whether it was allowed, if that is known; `None` if it was not asked.
fn told_of(feed: &Feed, id: &PermissionId) -> Option<Option<bool>> {
    let told = |event: &TurnEvent| match event {
        TurnEvent::Asked(ask) if ask.id == *id => Some(None),
        TurnEvent::Answered { ask, reply, .. } if ask == id => Some(Some(*reply != Reply::Reject)),
        _ => None,
    };
    feed.milestones().iter().rev().find_map(|(_, event)| told(event))
}

#[cfg(test)]
mod tests;
