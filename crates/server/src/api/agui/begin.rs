//! What is new in an input: it begins a turn, goes on with one, answers its interrupts, or has one told again.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use handback_core::id::{MessageId, PermissionId};
use handback_core::message::{Message, Role, Session};
use handback_core::permission::{Answer, NotAnswered, Reply};
use handback_core::sessions::{Audience, Feed, NewSession, Prompt, Prompted, RunEvent, SessionError, Sessions};
use handback_wire::error::ErrorCode;

use super::decode::{self, Input, Said};
use super::earlier;
use super::encode::{Encoder, Failure};
use super::run::{Reader, Run, Turn};
use crate::api::page::{self, Known};
use crate::api::session::must_own;
use crate::app::App;
use crate::auth::Principal;
use crate::problem::Problem;

/// Begins a run in the thread that its input names; the thread is made when there is none.
pub(super) async fn run(
    app: &App,
    principal: &Principal,
    agent: Option<&str>,
    mut input: Input,
    reader: Reader,
) -> Result<Run, Problem> {
    if let Principal::Client(own) = principal {
        principal.must_be_client(input.client.get_or_insert_with(|| own.client.clone()))?;
        principal.session(Some(input.thread.clone()))?;
    }
    if let Some(draft) = must_be_possible(app, principal, agent, &input).await?
        && !input.resume.is_empty()
    {
        // No thread is made to say that there is nothing in it to answer.
        let session = Arc::new(draft);
        return Ok(Beginning { app, principal, agent, session, input, reader }.unknown_interrupt());
    }
    let new = NewSession { client: input.client.clone(), agent: agent.map(Into::into), ..NewSession::default() };
    let session = app.sessions().get_or_create(input.thread.clone(), new).await?;
    // Somebody else may have made it just now.
    must_own(principal, &session)?;
    Beginning { app, principal, agent, session, input, reader }.begin().await
}

/// Refuses what cannot be done, before anything is changed: no thread is made, stopped or forgotten for it. Gives the
/// thread as it would be made, if there is none.
async fn must_be_possible(
    app: &App,
    principal: &Principal,
    agent: Option<&str>,
    input: &Input,
) -> Result<Option<Session>, Problem> {
    let sessions = app.sessions();
    if !app.hub().is_serving() {
        return Err(SessionError::ShuttingDown.into());
    }
    if let Err(error @ SessionError::UnknownAgent { .. }) = sessions.must_know(agent, None) {
        return Err(Problem::not_found(error.to_string()));
    }
    sessions.must_know(None, input.model.as_ref())?;
    let known = match sessions.get(&input.thread).await {
        Ok(session) => Some(session),
        Err(SessionError::Unknown(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let is_new = known.is_none();
    let has_news = !(input.results.is_empty() && input.said.is_empty() && input.resume.is_empty());
    let mut shown = match known {
        Some(session) => {
            must_own(principal, &session)?;
            if !has_news && failed_turn(sessions, &session).await?.is_none() {
                return Err(nothing_new());
            }
            Session::clone(&session)
        }
        None => {
            let draft = sessions.draft(NewSession { id: Some(input.thread.clone()), ..NewSession::default() })?;
            // It will be taken up.
            let said = earlier::read(&input.history, input.history.messages.len())?;
            let earlier = earlier::messages(app.hub(), &draft, &sessions.setup().default_model, said)?;
            let earlier: Vec<Arc<Message>> = earlier.into_iter().map(Arc::new).collect();
            let calls: HashSet<&str> = input.results.iter().map(|(call, _)| call.as_str()).collect();
            if input.said.is_empty() && input.resume.is_empty() && page::known(&earlier, &calls).is_none() {
                return Err(nothing_new());
            }
            draft
        }
    };
    if let Some(client) = &input.client
        && shown.client.get_or_insert_with(|| client.clone()) != client
    {
        return Err(SessionError::Forbidden.into());
    }
    page::must_not_shadow(&input.page_tools, &sessions.offered(&shown, &BTreeMap::new(), &[]))?;
    Ok(is_new.then_some(shown))
}

fn nothing_new() -> Problem {
    Problem::invalid(
        "there is nothing to answer: after the last answer in `messages` there is neither a user's message nor what came of a \
         call that is known here, and `resume` is empty",
    )
}

/// A run that begins.
struct Beginning<'a> {
    app: &'a App,
    principal: &'a Principal,
    agent: Option<&'a str>,
    session: Arc<Session>,
    input: Input,
    reader: Reader,
}

impl Beginning<'_> {
    async fn begin(self) -> Result<Run, Problem> {
        let open = self.app.hub().asks(Some(&self.session.id));
        let covered = |id: &PermissionId| self.input.resume.iter().any(|resume| resume.interrupt_id == id.as_str());
        if let Some(ask) = open.iter().find(|ask| !covered(&ask.id)) {
            let message = format!(
                "The thread waits for an answer: `resume` has to answer all open interrupts, and does not answer {}",
                ask.id
            );
            return Ok(self.failed("interrupts_open", message));
        }
        if !self.input.resume.is_empty() {
            return self.resume().await;
        }
        self.import().await?;
        match (self.input.said.is_empty(), self.input.results.is_empty()) {
            (false, _) => self.prompt().await,
            (true, false) => self.continue_turn().await,
            (true, true) => self.try_again().await,
        }
    }

    fn sessions(&self) -> &Sessions {
        self.app.sessions()
    }

    fn audience(&self) -> Audience {
        let page_tools = self.input.page_tools.clone();
        Audience { follows: true, yields_asks: true, has_frontend: false, page_tools }
    }

    fn encoder(&self) -> Encoder {
        let has_hooks = !self.sessions().setup().hooks.is_empty();
        let page = self.input.page_tools.iter().filter(|_| has_hooks).map(|tool| tool.name.to_string());
        Encoder::new(&self.input, self.app.hub().limits().approval_timeout, page.collect())
    }

    /// A run that tells these turns.
    fn run(&mut self, encoder: Encoder, turns: impl IntoIterator<Item = (Arc<Message>, Feed)>) -> Run {
        let turns = turns.into_iter().map(|(user, feed)| Turn { user, follower: feed.follow() });
        Run {
            sessions: self.sessions().clone(),
            session: self.session.clone(),
            encoder,
            turns: turns.collect(),
            results: std::mem::take(&mut self.input.results),
            audience: self.audience(),
            reader: self.reader,
            is_over: false,
        }
    }

    /// A run that fails at once.
    fn failed(mut self, code: &'static str, message: String) -> Run {
        let mut encoder = self.encoder();
        encoder.fail(Failure { code, message });
        let mut run = self.run(encoder, []);
        run.end();
        run
    }

    fn unknown_interrupt(self) -> Run {
        let message = "There is no such interrupt: it was answered, or its time is over, and its turn is over too";
        self.failed("unknown_interrupt", message.to_owned())
    }

    fn of_prompted(mut self, prompted: Prompted) -> Run {
        let Prompted { user, feed, .. } = prompted;
        let encoder = self.encoder();
        self.run(encoder, feed.map(|feed| (user, feed)))
    }

    /// Takes up a conversation that only the front end knows of: the server has lost it, or never had it.
    async fn import(&self) -> Result<(), Problem> {
        let Some(first) = &self.input.history.first else { return Ok(()) };
        if self.sessions().knows(&self.session.id, first).await? {
            return Ok(());
        }
        let history = &self.input.history;
        // What the user says now is to be answered, and not an earlier message.
        let most = if self.input.said.is_empty() { history.messages.len() } else { history.known };
        let model = self.input.model.as_ref().or(self.session.model.as_ref());
        let model = model.unwrap_or(&self.sessions().setup().default_model);
        let said = earlier::read(history, history.messages.len())?;
        let results =
            said.iter().skip(most).filter(|message| matches!(message, handback_wire::agui::Message::Tool { .. }));
        let said = said.iter().take(most).chain(results).cloned().collect();
        let earlier = earlier::messages(self.app.hub(), &self.session, model, said)?;
        Ok(self.sessions().import(&self.session.id, earlier).await?)
    }

    /// Answers the questions that an earlier run ended with, and tells how its turn goes on.
    async fn resume(mut self) -> Result<Run, Problem> {
        let Some(feed) = self.sessions().feed(&self.session.id) else { return Ok(self.unknown_interrupt()) };
        let mut answers: Vec<(PermissionId, Answer)> = Vec::new();
        for resume in &self.input.resume {
            match decode::answer(resume) {
                Ok(answer) => answers.push(answer),
                Err(reason) => {
                    let message = format!("The answer to interrupt {}: {reason}", resume.interrupt_id);
                    return Ok(self.failed("invalid_resume", message));
                }
            }
        }
        if let Err((code, message)) = self.must_be_answerable(&feed, &answers) {
            return Ok(self.failed(code, message));
        }
        let stored = self.sessions().messages(&self.session.id).await?;
        let Some(user) = stored.into_iter().find(|message| message.id == *feed.user()) else {
            return Err(nothing_new());
        };
        let mut encoder = self.encoder();
        if let Some(ask) = last_asked(&feed, &answers) {
            encoder.pass_over(ask);
        }
        // What the user says besides comes after it.
        let unknown = self.unknown().await?;
        let later = self.say(unknown).await?;
        for (ask, answer) in answers {
            match self.sessions().answer(&ask, &self.principal.caller(), answer).await {
                // Somebody else was quicker.
                Ok(_) | Err(NotAnswered::Unknown(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let later = later.and_then(|prompted| Some((prompted.user, prompted.feed?)));
        Ok(self.run(encoder, [(user, feed)].into_iter().chain(later)))
    }

    /// Whether all of these questions were asked in the turn, and can be answered so, or have been.
    fn must_be_answerable(
        &self,
        feed: &Feed,
        answers: &[(PermissionId, Answer)],
    ) -> Result<(), (&'static str, String)> {
        for (id, answer) in answers {
            let is_allowed = match ask_told(feed, id) {
                None => return Err(("unknown_interrupt", format!("There is no interrupt {id} in this thread"))),
                Some(is_allowed) => is_allowed,
            };
            if is_allowed.is_some_and(|is_allowed| is_allowed != (answer.reply != Reply::Reject)) {
                let message = format!("Interrupt {id} was answered otherwise, or its time is over");
                return Err(("unknown_interrupt", message));
            }
            if let (Some(ask), Some(input)) = (self.app.hub().ask(id), &answer.input) {
                let checked = ask.call.tool.spec.schema.check(input, self.app.hub().limits());
                checked.map_err(|error| {
                    let message = format!("The answer to interrupt {id}: `editedArgs` does not fit the tool: {error}");
                    ("invalid_resume", message)
                })?;
            }
        }
        Ok(())
    }

    /// Of what the user has said, what is not stored yet.
    async fn unknown(&self) -> Result<Vec<Said>, Problem> {
        let mut unknown = Vec::new();
        for said in &self.input.said {
            match &said.message {
                Some(message) if self.sessions().knows(&self.session.id, message).await? => {}
                _ => unknown.push(said.clone()),
            }
        }
        Ok(unknown)
    }

    /// Says it; the last of it is answered.
    async fn say(&self, mut said: Vec<Said>) -> Result<Option<Prompted>, Problem> {
        let Some(last) = said.pop() else { return Ok(None) };
        for said in said {
            self.sessions().prompt(&self.session, self.prompt_of(said, false)).await?;
        }
        Ok(Some(self.sessions().prompt(&self.session, self.prompt_of(last, true)).await?))
    }

    fn prompt_of(&self, said: Said, wants_reply: bool) -> Prompt {
        let agent = self.agent.map(Into::into).or_else(|| self.session.agent.clone());
        let own = self.sessions().agent(agent.as_deref()).ok().and_then(|agent| agent.system.clone());
        let instructions: Vec<String> = own.into_iter().chain(self.input.instructions.iter().cloned()).collect();
        Prompt {
            client: self.input.client.clone(),
            message: said.message,
            agent,
            model: self.input.model.clone(),
            system: (!self.input.instructions.is_empty()).then(|| instructions.join("\n\n")),
            tools: BTreeMap::new(),
            parts: said.parts,
            wants_reply,
            audience: self.audience(),
        }
    }

    /// The user says something.
    async fn prompt(mut self) -> Result<Run, Problem> {
        self.settle_calls().await?;
        let unknown = self.unknown().await?;
        let prompted = match self.say(unknown).await? {
            Some(prompted) => prompted,
            None => {
                // The same again: it is answered anew.
                let Some(last) = self.input.said.last().cloned() else { return Err(nothing_new()) };
                self.must_be_users(&last).await?;
                self.sessions().prompt_anew(&self.session, self.prompt_of(last, true)).await?
            }
        };
        Ok(self.of_prompted(prompted))
    }

    /// Refuses what has the id of an answer: nothing is forgotten for it.
    async fn must_be_users(&self, said: &Said) -> Result<(), Problem> {
        let Some(id) = &said.message else { return Ok(()) };
        let stored = self.sessions().messages(&self.session.id).await?;
        match stored.iter().any(|message| message.id == *id && message.answers().is_some()) {
            true => Err(SessionError::DuplicateMessage(id.clone()).into()),
            false => Ok(()),
        }
    }

    /// Calls that were the front end's to run are over when the user says something else: with what came of them, or
    /// as failed.
    async fn settle_calls(&mut self) -> Result<(), Problem> {
        if self.sessions().is_busy(&self.session.id) {
            // They belong to a turn that is under way.
            return Ok(());
        }
        let stored = self.sessions().messages(&self.session.id).await?;
        let is_open = |message: &&Arc<Message>| message.parts.iter().any(|part| part.is_yielded());
        let users: HashSet<&MessageId> =
            stored.iter().filter(is_open).filter_map(|message| message.answers()).collect();
        for user in users {
            self.sessions().keep_late(&self.session, user, self.input.results.clone()).await?;
        }
        self.input.results.clear();
        Ok(())
    }

    /// The front end says what came of its calls.
    async fn continue_turn(mut self) -> Result<Run, Problem> {
        let stored = self.sessions().messages(&self.session.id).await?;
        let calls: HashSet<&str> = self.input.results.iter().map(|(call, _)| call.as_str()).collect();
        let Known { user, last, is_current } = page::known(&stored, &calls).ok_or_else(nothing_new)?;
        if !is_current {
            let results = std::mem::take(&mut self.input.results);
            self.sessions().keep_late(&self.session, &user.id, results).await?;
            let problem = "the conversation has gone on since; nothing is answered to this";
            return Err(Problem::new(ErrorCode::Conflict, problem));
        }
        if let Some(feed) = self.sessions().feed_of(&self.session.id, &user.id) {
            // It goes on already; or it is not done, and goes on when it is.
            let encoder = self.encoder();
            return Ok(self.run(encoder, [(user, feed)]));
        }
        let answers = page::answers(stored, &user.id);
        let place = answers.iter().position(|answer| answer.id == last).unwrap_or_default();
        let later = answers.get(place + 1..).unwrap_or_default();
        let ended = match later.last() {
            None => {
                let results = std::mem::take(&mut self.input.results);
                self.sessions().go_on(&self.session, &user, &last, self.audience(), results).await
            }
            // It went on before, and failed.
            Some(latest) if latest.error().is_some() => {
                self.sessions().try_again(&self.session, &user, self.audience()).await
            }
            Some(_) => return Ok(self.told_again(later)),
        };
        match ended {
            Ok(prompted) => Ok(self.of_prompted(prompted)),
            // Somebody else goes on with it just now.
            Err(SessionError::DuplicateMessage(_)) => {
                let problem = "another run goes on with this thread; try again when it is over";
                Err(Problem::new(ErrorCode::Conflict, problem))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// There is nothing new: the last turn failed, and is tried again.
    async fn try_again(self) -> Result<Run, Problem> {
        let user = failed_turn(self.sessions(), &self.session).await?.ok_or_else(nothing_new)?;
        let prompted = self.sessions().try_again(&self.session, &user, self.audience()).await?;
        Ok(self.of_prompted(prompted))
    }

    /// A run that tells answers which are complete.
    fn told_again(mut self, answers: &[Arc<Message>]) -> Run {
        let mut encoder = self.encoder();
        answers.iter().for_each(|answer| encoder.stored(answer));
        let mut run = self.run(encoder, []);
        run.end();
        run
    }
}

/// What the user said last, if its turn failed or was stopped.
async fn failed_turn(sessions: &Sessions, session: &Session) -> Result<Option<Arc<Message>>, Problem> {
    let stored = sessions.messages(&session.id).await?;
    let wants_reply = |message: &&Arc<Message>| matches!(&message.role, Role::User(said) if said.wants_reply);
    let Some(user) = stored.iter().rfind(wants_reply).cloned() else { return Ok(None) };
    let has_failed = page::answers(stored, &user.id).pop().is_some_and(|last| last.error().is_some());
    Ok(has_failed.then_some(user))
}

/// What a turn has told of a question: whether it was allowed, if that is known; `None` if it was not asked.
fn ask_told(feed: &Feed, id: &PermissionId) -> Option<Option<bool>> {
    let told = |event: &RunEvent| match event {
        RunEvent::Asked(ask) if ask.id == *id => Some(None),
        RunEvent::Answered(ask, reply) if ask.id == *id => Some(Some(*reply != Reply::Reject)),
        _ => None,
    };
    feed.look(|events| events.iter().rev().find_map(told))
}

/// Of these questions, the one that a turn has asked last.
fn last_asked(feed: &Feed, answers: &[(PermissionId, Answer)]) -> Option<PermissionId> {
    let told = |event: &RunEvent| match event {
        RunEvent::Asked(ask) if answers.iter().any(|(id, _)| *id == ask.id) => Some(ask.id.clone()),
        _ => None,
    };
    feed.look(|events| events.iter().rev().find_map(told))
}
