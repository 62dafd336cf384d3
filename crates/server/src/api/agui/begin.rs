//! What is new in an input begins a run: the user says something, or a turn goes on (go_on.rs, resume.rs).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use handback_core::id::MessageId;
use handback_core::message::{Message, Session};
use handback_core::sessions::{Audience, NewSession, Prompt, Prompted, SessionError, Sessions};

use handback_wire::error::ErrorCode;

use super::decode::{Input, Said};
use super::earlier;
use super::encode::{Encoder, Failure};
use super::go_on::{failed_turn, has_open_call};
use super::run::{Continuation, Reader, Run, Turn};
use crate::api::page::{self, Again};
use crate::api::session::must_own;
use crate::app::App;
use crate::auth::Principal;
use crate::problem::Problem;

/// Which thread a run is for: that which its input names.
pub(super) enum Thread {
    /// Of this agent, if one is named. It is made when there is none.
    Of(Option<String>),
    /// It was made before, in a room.
    OfRoom,
}

/// Begins a run.
pub(super) async fn run(
    app: &App,
    principal: &Principal,
    thread: Thread,
    mut input: Input,
    reader: Reader,
) -> Result<Run, Problem> {
    let agent = match &thread {
        Thread::Of(agent) => agent.as_deref(),
        Thread::OfRoom => None,
    };
    if let Principal::Client(own) = principal {
        principal.must_be_client(input.client.get_or_insert_with(|| own.client.clone()))?;
        principal.session(Some(input.thread.clone()))?;
    }
    let possible = must_be_possible(app, principal, agent, &input).await?;
    if possible.is_new && !input.resume.is_empty() {
        // No thread is made to say that there is nothing in it to answer.
        let session = Arc::new(possible.thread);
        let beginning = Beginning { app, principal, agent, session, input, reader };
        return Ok(beginning.failed("unknown_interrupt", "There is no such thread, and no interrupt in it".to_owned()));
    }
    let new = NewSession { client: input.client.clone(), agent: agent.map(Into::into), ..NewSession::default() };
    let session = match thread {
        Thread::Of(_) => app.sessions().get_or_create(input.thread.clone(), new).await?,
        // One that is deleted just now does not come back.
        Thread::OfRoom => app.sessions().get(&input.thread).await?,
    };
    // Somebody else may have made it just now.
    must_own(principal, &session)?;
    Beginning { app, principal, agent, session, input, reader }.begin(possible.has_news).await
}

/// What can be done.
struct Possible {
    /// The thread as the run will see it.
    thread: Session,
    /// Whether it is to be made.
    is_new: bool,
    /// Whether there is something new; if not, a turn that failed is tried again.
    has_news: bool,
}

/// Refuses what cannot be done, before anything is changed: no thread is made, stopped or forgotten for it.
async fn must_be_possible(
    app: &App,
    principal: &Principal,
    agent: Option<&str>,
    input: &Input,
) -> Result<Possible, Problem> {
    let sessions = app.sessions();
    if !app.hub().is_serving() {
        return Err(SessionError::ShuttingDown.into());
    }
    let known = match sessions.get(&input.thread).await {
        Ok(session) => Some(session),
        Err(SessionError::Unknown(_)) => None,
        Err(error) => return Err(error.into()),
    };
    principal.must_be_allowed(&sessions.setup().agents, agent, known.as_deref())?;
    if let Err(error @ SessionError::UnknownAgent { .. }) = sessions.must_know(agent, None) {
        return Err(Problem::not_found(error.to_string()));
    }
    sessions.must_know(None, input.model.as_ref())?;
    let calls: HashSet<&str> = input.results.iter().map(|(call, _)| call.as_str()).collect();
    let is_new = known.is_none();
    let mut has_news = input.has_new_results || !input.said.is_empty() || !input.resume.is_empty();
    let mut thread = match known {
        Some(session) => {
            must_own(principal, &session)?;
            has_news = has_news || has_open_call(sessions, &session, &calls).await?;
            if !has_news && sessions.is_busy(&session.id) {
                let problem = "there is nothing new in this run, and another of its thread is under way";
                return Err(Problem::new(ErrorCode::Conflict, problem));
            }
            if !has_news && failed_turn(sessions, &session).await?.is_none() {
                return Err(nothing_new());
            }
            Session::clone(&session)
        }
        None => {
            let draft = sessions.draft(NewSession { id: Some(input.thread.clone()), ..NewSession::default() })?;
            // It will be taken up.
            let said = earlier::read(app.hub(), &input.history).await?;
            let earlier = earlier::messages(app.hub(), &draft, sessions.model_of(&draft), said)?;
            let earlier: Vec<Arc<Message>> = earlier.into_iter().map(Arc::new).collect();
            must_be_users(&earlier, &input.said)?;
            let brings_results = input.has_new_results && page::known(&earlier, &calls).is_some();
            if input.said.is_empty() && input.resume.is_empty() && !brings_results {
                return Err(nothing_new());
            }
            draft
        }
    };
    if let Some(client) = &input.client
        && thread.client.get_or_insert_with(|| client.clone()) != client
    {
        return Err(SessionError::Forbidden.into());
    }
    page::must_not_shadow(
        &input.page_tools,
        &sessions.offered(&thread, thread.client.as_ref(), &BTreeMap::new(), &[]),
    )?;
    Ok(Possible { thread, is_new, has_news })
}

pub(super) fn nothing_new() -> Problem {
    Problem::invalid(
        "there is nothing to answer: after the last answer in `messages` there is neither a user's message nor what came of a \
         call that is known here, and `resume` is empty",
    )
}

/// A run that begins.
pub(super) struct Beginning<'a> {
    pub(super) app: &'a App,
    pub(super) principal: &'a Principal,
    pub(super) agent: Option<&'a str>,
    pub(super) session: Arc<Session>,
    pub(super) input: Input,
    pub(super) reader: Reader,
}

impl Beginning<'_> {
    async fn begin(self, has_news: bool) -> Result<Run, Problem> {
        let open = self.app.hub().asks(Some(&self.session.id));
        let covered = |id: &str| self.input.resume.iter().any(|resume| resume.interrupt_id == id);
        if let Some(ask) = open.iter().find(|ask| !covered(ask.id.as_str())) {
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
        match (self.input.said.is_empty(), has_news) {
            (false, _) => self.prompt().await,
            (true, true) => self.go_on().await,
            (true, false) => self.try_again().await,
        }
    }

    pub(super) fn sessions(&self) -> &Sessions {
        self.app.sessions()
    }

    /// Who follows the turns, and what it brings along for them.
    pub(super) fn audience(&self) -> Audience {
        Audience {
            follows: true,
            yields_asks: true,
            has_frontend: false,
            page_tools: self.input.page_tools.clone(),
            answers: Some(self.input.results.clone()),
            system: self.system(),
            model: self.input.model.clone(),
            connection: self.input.connection.clone(),
            client: self.input.client.clone(),
        }
    }

    /// The agent's instructions with those of the input, if it has some.
    fn system(&self) -> Option<String> {
        if self.input.instructions.is_empty() {
            return None;
        }
        let agent = self.agent.or(self.session.agent.as_deref());
        let own = self.sessions().agent(agent).ok().and_then(|agent| agent.system.clone());
        let all: Vec<String> = own.into_iter().chain(self.input.instructions.iter().cloned()).collect();
        Some(all.join("\n\n"))
    }

    pub(super) fn encoder(&self) -> Encoder {
        let has_hooks = !self.sessions().setup().hooks.is_empty();
        let page = self.input.page_tools.iter().filter(|_| has_hooks).map(|tool| tool.name.to_string());
        Encoder::new(&self.input, self.app.hub().limits().approval_timeout, page.collect())
    }

    pub(super) fn continuation(&mut self) -> Continuation {
        let (session, audience) = (self.session.clone(), self.audience());
        Continuation { session, audience, results: std::mem::take(&mut self.input.results) }
    }

    /// A run that goes on when a turn of it ends with calls that the front end has run already.
    pub(super) fn run(&mut self, encoder: Encoder) -> Run {
        Run::new(self.app, encoder, self.reader).then(self.continuation())
    }

    /// A run that tells a turn which begins.
    pub(super) fn run_of(&mut self, prompted: Prompted) -> Run {
        let turn = prompted.feed.map(|feed| Turn::new(self.app, prompted.user, &feed, self.reader));
        Run::new(self.app, self.encoder(), self.reader).of(turn)
    }

    /// A run that fails at once.
    pub(super) fn failed(&self, code: &'static str, message: String) -> Run {
        let mut encoder = self.encoder();
        encoder.fail(Failure { code, message });
        Run::new(self.app, encoder, self.reader).ended()
    }

    /// Takes up a conversation that only the front end knows of: the server has lost it, or never had it.
    async fn import(&self) -> Result<(), Problem> {
        let history = &self.input.history;
        let is_known = match &history.first {
            Some(first) => self.sessions().knows(&self.session.id, first).await?,
            // Only one that has no messages is taken up, whatever they are called.
            None => history.known == 0,
        };
        if is_known {
            return Ok(());
        }
        // What the user says now is to be answered, and not an earlier message.
        let most = if self.input.said.is_empty() { history.messages.len() } else { history.known };
        let model = self.input.model.as_ref().unwrap_or_else(|| self.sessions().model_of(&self.session));
        let said = earlier::read(self.app.hub(), history).await?;
        let is_result =
            |message: &&handback_wire::agui::Message| matches!(message, handback_wire::agui::Message::Tool { .. });
        let results = said.iter().skip(most).filter(is_result);
        let said = said.iter().take(most).chain(results).cloned().collect();
        let earlier = earlier::messages(self.app.hub(), &self.session, model, said)?;
        Ok(self.sessions().import(&self.session.id, earlier).await?)
    }

    /// The user says something. Calls that were the front end's to run are over then: with what came of them, or as
    /// failed.
    async fn prompt(mut self) -> Result<Run, Problem> {
        if let Some(prompted) = self.say().await? {
            return Ok(self.run_of(prompted));
        }
        let last = self.input.said.last().cloned().ok_or_else(nothing_new)?;
        let id = last.message.as_ref().ok_or_else(nothing_new)?;
        let (told, feed) = loop {
            match page::again(self.sessions(), &self.session, id, &self.audience()).await? {
                Again::Followed(told, feed) => break (told, feed),
                // The same again: it is answered anew.
                Again::Ended(_) | Again::Failed => {
                    let prompt = self.prompt_of(last.clone(), true);
                    match self.sessions().prompt_again(&self.session, prompt).await {
                        // Somebody else was quicker, and is followed.
                        Err(SessionError::DuplicateMessage(_)) => {}
                        prompted => return Ok(self.run_of(prompted?)),
                    }
                }
            }
        };
        let mut encoder = self.encoder();
        told.iter().filter(|answer| !page::has_told(&feed, &answer.id)).for_each(|answer| encoder.stored(answer));
        // That it broke off before is not how the run ends.
        encoder.forgive();
        let user = self.sessions().messages(&self.session.id).await?;
        let user = user.into_iter().find(|message| message.id == *id).ok_or_else(nothing_new)?;
        let turn = Turn::new(self.app, user, &feed, self.reader);
        Ok(self.run(encoder).of([turn]))
    }

    /// Says what is not stored yet; the last of it is answered. `None` if there is nothing.
    pub(super) async fn say(&self) -> Result<Option<Prompted>, Problem> {
        let mut unsaid = Vec::new();
        for said in self.input.said.iter().rev() {
            match &said.message {
                Some(message) if self.sessions().knows(&self.session.id, message).await? => break,
                _ => unsaid.push(said.clone()),
            }
        }
        let Some((last, earlier)) = unsaid.split_first() else { return Ok(None) };
        // Nothing of it is said if the last cannot be.
        self.sessions().must_have_room(&self.session.id)?;
        for said in earlier.iter().rev() {
            self.sessions().prompt(&self.session, self.prompt_of(said.clone(), false)).await?;
        }
        match self.sessions().prompt(&self.session, self.prompt_of(last.clone(), true)).await {
            // Somebody else has said it just now: it comes again.
            Err(SessionError::DuplicateMessage(_)) => Ok(None),
            prompted => Ok(Some(prompted?)),
        }
    }

    fn prompt_of(&self, said: Said, wants_reply: bool) -> Prompt {
        Prompt {
            client: self.input.client.clone(),
            message: said.message,
            agent: self.agent.map(Into::into),
            model: self.input.model.clone(),
            system: None,
            tools: BTreeMap::new(),
            parts: said.parts,
            wants_reply,
            audience: self.audience(),
        }
    }
}

/// Refuses what has the id of an answer: nothing is forgotten for it.
fn must_be_users(stored: &[Arc<Message>], said: &[Said]) -> Result<(), Problem> {
    let answers: HashSet<&MessageId> =
        stored.iter().filter(|message| message.answers().is_some()).map(|message| &message.id).collect();
    match said.iter().filter_map(|said| said.message.as_ref()).find(|id| answers.contains(id)) {
        Some(taken) => Err(SessionError::DuplicateMessage(taken.clone()).into()),
        None => Ok(()),
    }
}
