//! Plans what a page's request asks for, and carries the plan out. All protocols for pages share this.
//!
//! A page sends what is new in a conversation: what the user says, results of yielded calls, the user's answers to
//! asks. The plan follows from the request and the stored messages. Requests may come twice, late, and several at once:
//! if the store has changed when the plan is carried out, it is made again.

use std::sync::Arc;

use smol_str::SmolStr;
use std::collections::HashSet;

use super::playback::Playback;
use super::{Prompt, Prompted, Result, SessionError, Sessions};
use crate::calls::{Actor, NotAnswered};
use crate::events::{Feed, TurnEvent};
use crate::id::{CallId, MessageId, PermissionId};
use crate::schema::InputError;
use crate::store::{Answer, Message, Part, PartBody, Reply, Session, ToolResult, TurnNeeds};

/// A request of a page.
#[derive(Debug, Default)]
pub struct PageRequest {
    /// What the user has said that the page has no answer to. The last entry is answered.
    pub said: Vec<Said>,
    /// Whether `said` replaces the message with the same id. That message and all later ones are deleted.
    pub replaces: bool,
    /// Results of calls that were yielded to the page.
    pub results: Vec<(CallId, ToolResult)>,
    /// Whether some results are new. If not, only results of open calls count.
    pub has_new_results: bool,
    /// The calls that the page shows. They identify the turn to continue. `None` means those that it has results for.
    pub shown: Option<HashSet<CallId>>,
    /// Calls whose end the page knows.
    pub ended: HashSet<CallId>,
    /// The user's answers to asks.
    pub answers: Vec<(PermissionId, Answer)>,
    /// The agent that is to answer.
    pub agent: Option<SmolStr>,
    /// What the request's turns need.
    pub needs: TurnNeeds,
    /// The rules of the request's protocol.
    pub manners: Manners,
}

/// Something that the user says.
#[derive(Debug, Clone)]
pub struct Said {
    /// The message's id; generated when `None`.
    pub message: Option<MessageId>,
    /// The content of the message.
    pub parts: Vec<PartBody>,
}

/// The rules in which protocols differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct Manners {
    /// A repeated message whose turn ended by itself is answered anew. Otherwise its stored answer is sent again.
    pub answers_anew: bool,
    /// Every open ask must be answered before anything else. Otherwise answers to asks that are not open are ignored.
    pub answers_all_asks: bool,
    /// A request with nothing new retries a failed turn.
    pub retries: bool,
    /// A new message ends the calls that earlier turns yielded to the page.
    pub settles_calls: bool,
    /// When the reader leaves, turns that nobody else follows are stopped.
    pub stops_turns: bool,
}

/// Why a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum NotPlanned {
    /// The request has nothing to answer.
    #[error("there is nothing new to answer")]
    NothingNew,
    /// The request has nothing new, and a turn is running.
    #[error("there is nothing new in this request, and a turn of its conversation is under way")]
    Busy,
    /// The request's calls are not of the last turn. Their results are stored.
    #[error("the conversation has gone on since; nothing is answered to this")]
    GoneOn,
    /// The message is being answered by a turn that cannot be followed.
    #[error("this message is being answered elsewhere; try again later")]
    AnsweredElsewhere,
    /// The request leaves an open ask unanswered.
    #[error("the ask {0} is open and has to be answered first")]
    AskOpen(PermissionId),
    /// The request answers an ask that is not open.
    #[error("there is no open ask {0} in this session")]
    UnknownAsk(PermissionId),
    /// The request answers an ask that was answered differently, or whose time is over.
    #[error("the ask {0} was answered otherwise, or its time is over")]
    AnsweredOtherwise(PermissionId),
    /// The request answers an ask of another actor's call.
    #[error("the ask {0} is not yours to answer")]
    NotYourAsk(PermissionId),
    /// The request has two answers to one ask.
    #[error("there are two answers to the ask {0}")]
    TwoAnswers(PermissionId),
    /// An answer has an input that the tool does not accept.
    #[error("the input in the answer to the ask {0} does not fit the tool: {1}")]
    InvalidInput(PermissionId, InputError),
    /// Answering an ask failed.
    #[error(transparent)]
    NotAnswered(#[from] NotAnswered),
    /// The session refused the request.
    #[error(transparent)]
    Session(#[from] SessionError),
}

/// What is to be done for a request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Plan {
    /// Give the user's answers to the asks; the turn that asked goes on.
    Resume,
    /// Answer what the user says.
    Prompt,
    /// Answer what the user says, in place of an earlier message.
    Replace,
    /// A message comes again: follow its turn, send the answer again, retry it or run it anew.
    Repeat(MessageId),
    /// Continue a turn that ended with yielded calls.
    Continue(KnownTurn),
    /// Retry a turn that failed.
    Retry(Arc<Message>),
}

/// The turn that a page's request refers to.
#[derive(Debug)]
pub struct KnownTurn {
    /// The user's message that the turn answers.
    user: Arc<Message>,
    /// The last answer with a call that the page shows.
    last: MessageId,
}

impl PageRequest {
    /// Plans a request, given the stored messages. Pure: nothing is changed.
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

    /// Whether the request has the result of a call that is still yielded.
    fn has_open_call(&self, stored: &[Arc<Message>]) -> bool {
        let mut open = stored.iter().flat_map(|message| &message.parts).filter(|part| part.is_yielded());
        open.any(|part| part.is_call_of(&self.results))
    }

    /// The turn to continue.
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

    /// Refuses a user's message that has the id of an answer, so that nothing is deleted for it.
    fn must_be_users(&self, stored: &[Arc<Message>]) -> Result<()> {
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

/// The last user's message, if its turn failed or was stopped.
fn failed_turn(stored: &[Arc<Message>]) -> Option<Arc<Message>> {
    let user = stored.iter().rfind(|message| message.wants_reply())?;
    let last = stored.iter().rfind(|message| message.answers() == Some(&user.id))?;
    last.error().is_some().then(|| user.clone())
}

fn answers_to(stored: Vec<Arc<Message>>, user: &MessageId) -> Vec<Arc<Message>> {
    stored.into_iter().filter(|message| message.answers() == Some(user)).collect()
}

/// The number of the event with which a step began.
fn began(feed: &Feed, message: &MessageId) -> Option<usize> {
    let is_it = |event: &TurnEvent| matches!(event, TurnEvent::StepBegan(begun) if begun.id == *message);
    feed.milestones().into_iter().find(|(_, event)| is_it(event)).map(|(number, _)| number)
}

/// The result of a plan. `None`: something else came first, and the request must be planned again.
type Done = Option<Playback>;

impl Sessions {
    /// Does what a page asks for on an actor's behalf, and returns the events that answer it.
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
                Plan::Continue(turn) => talk.continue_turn(turn, stored).await?,
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

    /// Plays the running turn from its beginning; `None` if no turn can be followed.
    pub async fn play_back(&self, session: &Arc<Session>) -> Result<Option<Playback>> {
        let Some(turn) = self.running(&session.id) else { return Ok(None) };
        let answers = answers_to(self.messages(&session.id).await?, &turn.user);
        let whole = self.whole_turn(session, &answers, &turn.feed);
        let whole = turn.next.iter().fold(whole, |whole, next| whole.then(next, 0));
        Ok(Some(whole.yielding_asks(turn.yields_asks)))
    }

    /// Plays a turn from its beginning, with the answers that are older than its feed first.
    fn whole_turn(&self, session: &Session, answers: &[Arc<Message>], feed: &Feed) -> Playback {
        let is_before = |answer: &&Arc<Message>| answer.is_complete() && began(feed, &answer.id).is_none();
        // An answer that broke off without calls is left out, because the model answers again.
        let before = answers.iter().filter(is_before).filter(|answer| !answer.failed_without_calls());
        Playback::new(self, &session.id).after(before).then(feed, 0)
    }
}

/// A request that is being carried out.
struct Talk<'a> {
    sessions: &'a Sessions,
    session: &'a Arc<Session>,
    actor: &'a Actor,
    request: &'a PageRequest,
}

impl Talk<'_> {
    /// A user's message with the needs of the request, for a turn that is retried or continued.
    fn taken_up(&self, user: &Message) -> Arc<Message> {
        Arc::new(user.taken_up(&self.request.needs))
    }

    /// Applies the manners of the request to a playback.
    fn playing(&self, playback: Playback) -> Result<Done, NotPlanned> {
        let Manners { stops_turns, .. } = self.request.manners;
        let yields_asks = self.request.needs.yields_asks;
        Ok(Some(playback.yielding_asks(yields_asks).stopping_turns(stops_turns)))
    }

    fn playback(&self) -> Playback {
        Playback::new(self.sessions, &self.session.id)
    }

    /// Plays a turn that begins.
    fn begun(&self, prompted: Prompted) -> Result<Done, NotPlanned> {
        let feed = prompted.feed.ok_or(NotPlanned::NothingNew)?;
        self.playing(self.playback().then(&feed, 0))
    }

    /// Prompts with what the user says. If the request has results for yielded calls, those calls end.
    async fn prompt(&self) -> Result<Done, NotPlanned> {
        match self.say().await? {
            Some(prompted) => self.begun(prompted),
            // Another request has just stored the same message, so this one repeats it.
            None => Ok(None),
        }
    }

    /// Stores what is not stored yet and answers the last of it. `None` if everything is stored.
    async fn say(&self) -> Result<Option<Prompted>, NotPlanned> {
        let mut unsaid = Vec::new();
        for said in self.request.said.iter().rev() {
            match &said.message {
                Some(message) if self.sessions.knows(&self.session.id, message).await? => break,
                _ => unsaid.push(said.clone()),
            }
        }
        let Some((last, earlier)) = unsaid.split_first() else { return Ok(None) };
        // If the last message has no room in the queue, none is stored.
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

    /// The same message comes again, because its answer may have been lost. If its turn broke off after a completed
    /// call, the turn goes on from there: no completed call is made again.
    async fn repeat(&self, id: &MessageId) -> Result<Done, NotPlanned> {
        let (sessions, session) = (self.sessions, self.session);
        // Look for the feed before reading the store: a turn that ends in between is found in the store.
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
                    // Another request was first.
                    Ok(_) | Err(SessionError::DuplicateMessage(_)) => Ok(None),
                    Err(error) => Err(error.into()),
                };
            }
        } else if !answers.is_empty() && !self.request.manners.answers_anew {
            return self.playing(self.playback().after(&answers));
        }
        // No completed work exists for this message.
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

    /// Continues a turn with the results of yielded calls. Of several such requests, one does so and the others follow.
    async fn continue_turn(&self, turn: KnownTurn, stored: Vec<Arc<Message>>) -> Result<Done, NotPlanned> {
        let (sessions, session, request) = (self.sessions, self.session, self.request);
        let KnownTurn { user, last } = turn;
        let newest = stored.iter().rfind(|message| message.wants_reply());
        if newest.is_none_or(|newest| newest.id != user.id) {
            sessions.keep_late(session, &user.id, request.results.clone()).await?;
            return Err(NotPlanned::GoneOn);
        }
        if let Some(feed) = sessions.feed_of(&session.id, &user.id) {
            // The turn is running. The step that the page shows is part of its feed, or older than it.
            let from = began(&feed, &last).map_or(0, |number| number + 1);
            let mut playback = self.playback().then(&feed, from);
            if from > 0 && !request.results.is_empty() {
                match sessions.go_on_after(session, &self.taken_up(&user), &last, request.results.clone()).await? {
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
        // The ends of calls that the page does not know yet come first.
        let playback = match (&request.shown, answers.last()) {
            (Some(shown), Some(known)) => {
                self.playback().after_ends(known, |call| shown.contains(call) && !request.ended.contains(call))
            }
            _ => self.playback(),
        };
        let gone_on = match later.last() {
            None => sessions.go_on(session, &self.taken_up(&user), &last, request.results.clone()).await,
            // The turn was continued before, and failed.
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
            // Another request continues the turn, or has continued it.
            Ok(_) | Err(SessionError::DuplicateMessage(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn retry(&self, user: &Message) -> Result<Done, NotPlanned> {
        self.begun(self.sessions.try_again(self.session, &self.taken_up(user)).await?)
    }

    /// Answers the asks that a turn waits for, and plays how it goes on.
    async fn resume(&self) -> Result<Done, NotPlanned> {
        let (sessions, session) = (self.sessions, self.session);
        let running = sessions.running(&session.id);
        let feed = running.as_ref().map(|turn| &turn.feed);
        if let Some(feed) = feed {
            self.until_asked(feed).await;
        }
        let answers = self.answers(feed).await?;
        let asked = feed.and_then(|feed| Some((feed, self.asked(feed)?)));
        // A message of the user in the same request is answered after the resumed turn.
        let later = self.say().await?.and_then(|prompted| prompted.feed);
        let mut playback = self.playback();
        if let (Some(turn), Some(run)) = (&running, self.request.needs.run.as_ref().filter(|_| asked.is_some())) {
            sessions.move_to_run(&session.id, &turn.user, run).await.map_err(SessionError::from)?;
        }
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
                // Somebody else has answered it first.
                Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if asked.is_none() && later.is_none() && !self.request.manners.answers_all_asks {
            // The turn is over, or has gone on long ago.
            let stored = sessions.messages(&session.id).await?;
            let turn = self.request.known_turn(&stored).ok_or(NotPlanned::NothingNew)?;
            return self.continue_turn(turn, stored).await;
        }
        self.playing(playback)
    }

    /// Waits until a turn has told of the open asks that are answered. One that an earlier process left does so when it is
    /// entered again, and its asks are open before that.
    async fn until_asked(&self, feed: &Feed) {
        let mut follower = feed.follow(0);
        for (id, _) in &self.request.answers {
            let is_open = || self.sessions.hub().ask(id).is_some_and(|ask| ask.call.session == self.session.id);
            while is_open() && told_of(feed, id).is_none() && follower.next().await.is_some() {}
        }
    }

    /// Queues a continuation with the results that came with the answers, in case the turn ends with yielded calls.
    async fn bring_results(&self, playback: Playback, user: &MessageId) -> Result<Playback, NotPlanned> {
        let stored = self.sessions.messages(&self.session.id).await?;
        let Some(user) = stored.iter().find(|message| message.id == *user) else { return Ok(playback) };
        let Some(last) = stored.iter().rfind(|message| message.answers() == Some(&user.id)) else {
            return Ok(playback);
        };
        let results = self.request.results.clone();
        let next = self.sessions.go_on_after(self.session, &self.taken_up(user), &last.id, results).await?;
        Ok(match next {
            Some(next) => playback.then(&next, 0),
            None => playback,
        })
    }

    /// The number from which a reader that has seen these asks goes on: the first answer after the last ask.
    fn asked(&self, feed: &Feed) -> Option<usize> {
        let is_ours = |id: &PermissionId| self.request.answers.iter().any(|(ask, _)| ask == id);
        let (told, milestones) = (feed.len(), feed.milestones());
        let asked =
            milestones.iter().rposition(|(_, event)| matches!(event, TurnEvent::Asked(ask) if is_ours(&ask.id)))?;
        let is_answer = |event: &TurnEvent| matches!(event, TurnEvent::Answered { ask, .. } if is_ours(ask));
        let answered = milestones.iter().skip(asked).find(|(_, event)| is_answer(event));
        Some(answered.map_or(told, |(number, _)| *number))
    }

    /// The answers to give. If the protocol wants every ask answered, one wrong answer refuses them all. Otherwise
    /// answers to asks that are not open are dropped.
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
        // An `Always` answer comes last, so that it does not answer asks that have answers of their own.
        answers.sort_by_key(|(_, answer)| answer.reply == Reply::Always);
        Ok(answers)
    }

    /// Checks that an ask belongs to this session, and can be answered like this or already was.
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

/// What a feed says about an ask: whether it was allowed, if that is known. `None` if the feed has no such ask.
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
