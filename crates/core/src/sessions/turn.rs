//! The turn engine: one turn of a session, from a prompt until the model has nothing more to do.
//!
//! ```text
//! turn   the conversation is read from the store; then, step by step:
//! step   1 the model is shown the conversation and the tools      (model.rs, toolbox.rs)
//!        2 its answer grows into a message                        (turn/draft.rs sends each piece)
//!        3 its calls are made, all at once, each on its own       (turn/calls.rs, delegate.rs)
//!        4 the message is complete; after calls comes another step, unless some are yielded to the page
//! end    the last message says how the turn ended, with the error if it was aborted or failed
//! ```
//!
//! The turn sends [`SessionEvent`](crate::events::SessionEvent)s to listeners and
//! [`TurnEvent`](crate::events::TurnEvent)s to its own [`Feed`](crate::events::Feed). It knows no protocol.

mod calls;
mod draft;
mod report;

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::HashMap;
use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;

pub(crate) use self::calls::result_for_model;
use self::calls::{CallContext, Calls};
use self::draft::Draft;
pub(crate) use self::report::never_began;
use self::report::{AnswerReport, TurnReport};
use crate::calls::Hub;
use crate::events::SessionEvent;
use crate::id::SessionId;
use crate::sessions::agent::Agent;
use crate::sessions::history::Conversation;
use crate::sessions::model::{ModelRequest, ModelStream};
use crate::sessions::{Queued, Sessions};
use crate::store::{
    AssistantMessage, Effect, IfFull, Message, PageTool, Part, PartBody, Role, Session, StoreError, StoreFuture,
    ToolSpec, TurnError, TurnNeeds, Usage, UserMessage,
};
use crate::tools::{ModelTool, guarded};

/// How many pieces of an answer are sent without a pause. Then listeners get a chance to run.
const TOLD_AT_ONCE: usize = 4;
/// How many pieces are taken without a pause when nobody listens. Then other tasks get a chance to run.
const TAKEN_AT_ONCE: usize = 64;

/// Runs a turn to its end. Returns the last message, or `None` if the session is gone.
pub(crate) async fn turn(
    sessions: &Sessions,
    id: &SessionId,
    queued: &mut Queued,
    abort: &CancellationToken,
) -> Option<Arc<Message>> {
    let entered = if queued.is_left { sessions.begin_life(queued, abort).await } else { Ok(()) };
    let Some(begun) = sessions.begin_turn(id, queued).await.transpose() else {
        never_began(sessions, id, "deleted");
        return None;
    };
    let (session, saving, failure) = match begun {
        Ok((session, saving)) => (session, Some(saving), entered.err()),
        Err(error) => (queued.session.clone(), None, Some(error)),
    };
    sessions.hub().tell(&session, || SessionEvent::Busy);
    let saving = saving.map(|kept| PendingSave { message: None, kept }).into_iter().collect();
    let report = TurnReport::begin(sessions, &session);
    let mut turn = Turn { sessions, session: &session, saving, queued, report, draft: None, unkept: None, last: None };
    let ended = match failure {
        Some(error) => {
            turn.take_up().await;
            Err(error)
        }
        None => {
            // Boxed: this future is most of the memory of a session that waits for a client.
            let run = Box::pin(guarded("The turn", turn.run()));
            tokio::select! {
                // What came in before the abort counts.
                biased;
                ended = run => ended.unwrap_or_else(|reason| Err(TurnError::Other(reason))),
                () = abort.cancelled() => Err(sessions.stopped()),
            }
        }
    };
    if ended.is_err() && sessions.hub().is_leaving() {
        // Nothing says that the turn is over, and the next process goes on with it.
        return None;
    }
    tokio::select! {
        biased;
        last = turn.end(ended) => Some(last),
        // Its end waits for room, and the next process comes to it again.
        () = sessions.left() => None,
    }
}

/// A running turn.
struct Turn<'a> {
    sessions: &'a Sessions,
    session: &'a Arc<Session>,
    /// Saves in progress. The store keeps their order.
    saving: VecDeque<PendingSave>,
    queued: &'a Queued,
    report: TurnReport<'a>,
    /// The message of the current step.
    draft: Option<Draft>,
    /// A complete message that could not be stored.
    unkept: Option<Arc<Message>>,
    /// The last complete message.
    last: Option<Arc<Message>>,
}

/// A save of the session or of a complete message.
struct PendingSave {
    message: Option<Arc<Message>>,
    kept: StoreFuture<()>,
}

struct TurnContext<'a> {
    said: &'a UserMessage,
    agent: &'a Agent,
    /// The model's instructions.
    system: Option<String>,
    page_tools: Vec<Arc<ToolSpec>>,
}

impl Turn<'_> {
    /// Takes up the message that an earlier process left incomplete, for a turn that does not run: the message says how
    /// the turn ended, and its calls are cancelled.
    async fn take_up(&mut self) {
        let Ok(mut conversation) = self.sessions.conversation(&self.queued.user).await else { return };
        let Some(begun) = Entry::of(&mut conversation).begun else { return };
        let (hub, message) = (self.sessions.hub(), begun.id.clone());
        self.draft = Some(self.begin(begun));
        hub.cancel_where(|head| head.message == message && head.session == self.session.id).await;
    }

    async fn run(&mut self) -> Result<(), TurnError> {
        let Role::User(said) = &self.queued.user.role else { return Ok(()) };
        let agent = self.sessions.agent(Some(&said.agent)).map_err(|error| TurnError::Other(error.to_string()))?;
        let page_tools = page_tools(self.sessions.hub(), &said.needs).await?;
        let context = TurnContext { said, agent, system: system(said, agent), page_tools };
        let before = settle_and_read(self.sessions, self.session, self.queued);
        let mut conversation = before.await.map_err(|error| failed(&error))?;
        let Entry { mut begun, mut repeats, steps } = Entry::of(&mut conversation);
        if let Some(last) = conversation.turn.last().filter(|_| begun.is_none() && steps > 0)
            && is_last(last)
        {
            // An earlier process could not note that the turn was over.
            self.last = Some(last.clone());
            let user = self.sessions.current(&self.queued.user).after_turn(Some(last));
            let kept = self.sessions.save_message(&user, IfFull::Waits);
            self.saving.push_back(PendingSave { message: None, kept });
            return Ok(());
        }
        for _ in steps..self.sessions.hub().limits().steps {
            let message = self.step(&context, &conversation, &mut repeats, begun.take()).await?;
            let is_last = is_last(&message);
            conversation.turn.push(message);
            if is_last {
                return Ok(());
            }
            self.keep_all().await?;
        }
        let steps = self.sessions.hub().limits().steps;
        Err(TurnError::Other(format!("The turn was stopped after {steps} steps; say something to go on")))
    }

    async fn step(
        &mut self,
        context: &TurnContext<'_>,
        conversation: &Conversation,
        repeats: &mut Repeats,
        begun: Option<Message>,
    ) -> Result<Arc<Message>, TurnError> {
        let TurnContext { said, agent, system, page_tools } = context;
        let (wanted, needs) = (said.next_model(), &said.needs);
        let begun = begun.unwrap_or_else(|| answer(self.sessions, &self.queued.user));
        let begun = self.begin(begun);
        let draft = self.draft.insert(begun);
        let client = self.session.client.as_ref().or(needs.client.as_ref());
        let offered = self.sessions.offered(self.session, client, &needs.switches, page_tools);
        draft.know(&offered);
        let (sessions, session, feed) = (self.sessions, self.session, self.queued.feed.as_ref());
        let calls =
            CallContext { sessions, session, agent, offered: &offered, feed, connection: needs.connection.as_ref() };
        if draft.is_complete() {
            // An earlier process had the model's answer, and began its calls.
            calls.make_again(draft).await;
            return Ok(self.complete(None));
        }
        let tools: Vec<ModelTool<'_>> = offered.iter().map(|tool| tool.for_model()).collect();
        let Some(model) = self.sessions.setup().models.find(wanted) else {
            return Err(TurnError::Other(format!("the provider of the model {wanted} is not configured")));
        };
        let request = ModelRequest {
            model: &wanted.model,
            session: &self.session.id,
            system: system.as_deref(),
            earlier: conversation.earlier(),
            messages: &conversation.turn,
            tools: &tools,
            most_output: self.sessions.hub().limits().tool_output,
        };
        let mut report = self.report.ask(wanted);
        let heard = listen(draft, model.stream(request), &mut report).await;
        report.end(&heard);
        heard?;
        let ready = draft.calls(&offered);
        if !ready.is_empty() {
            let refused = repeats.count(&ready, self.sessions.hub().limits().repeated_calls)?;
            calls.make(draft, ready, refused).await;
        }
        Ok(self.complete(None))
    }

    fn begin(&self, message: Message) -> Draft {
        Draft::new(self.sessions, self.session, self.queued.feed.clone(), message)
    }

    /// Completes the draft, sends it and begins its save. The last message of the turn is stored together with the note
    /// that the turn is over. If a complete message could not be stored, that message is saved once more, with the error
    /// on it.
    fn complete(&mut self, error: Option<TurnError>) -> Arc<Message> {
        let draft = match (self.draft.take(), self.unkept.take()) {
            (Some(draft), _) => draft,
            (None, Some(unkept)) => self.begin(Message::clone(&unkept)),
            (None, None) => self.begin(answer(self.sessions, &self.queued.user)),
        };
        let message = draft.complete(error);
        let mut saved = vec![message.clone()];
        if is_last(&message) {
            saved.push(self.sessions.current(&self.queued.user).after_turn(Some(&message)));
        }
        let kept = self.sessions.save_messages(saved, IfFull::Waits);
        self.saving.push_back(PendingSave { message: Some(message.clone()), kept });
        self.last = Some(message.clone());
        message
    }

    /// Waits until everything is stored. Cancel safe.
    async fn keep_all(&mut self) -> Result<(), TurnError> {
        let mut ended = Ok(());
        while let Some(saving) = self.saving.front_mut() {
            let kept = (&mut saving.kept).await;
            let message = self.saving.pop_front().and_then(|saving| saving.message);
            if let Err(error) = kept {
                self.unkept = message;
                ended = Err(failed(&error));
            }
        }
        ended
    }

    async fn end(mut self, mut ended: Result<(), TurnError>) -> Arc<Message> {
        let id = &self.session.id;
        let mut changed = None;
        if ended.is_ok() {
            // The session is saved together with its last message.
            changed = self.sessions.change(id, |_| true);
            ended = self.keep_all().await;
        }
        if let Err(error) = ended {
            let told = Arc::new(error.clone());
            self.sessions.hub().tell(self.session, || SessionEvent::Failed(told));
            self.complete(Some(error));
            changed = self.sessions.change(id, |_| true);
            if let Err(unsaved) = self.keep_all().await {
                tracing::error!(session = id.as_str(), error = unsaved.message(), "the end of a turn was not kept");
            }
        }
        if let Some((_, saving)) = changed
            && let Err(error) = saving.await
        {
            tracing::error!(session = id.as_str(), %error, "the end of a turn was not kept");
        }
        let last = self.last.unwrap_or_else(|| {
            unstored_answer(self.sessions, &self.queued.user, TurnError::Other("the model said nothing".to_owned()))
        });
        self.report.end(&last);
        last
    }
}

/// Takes the pieces of a model's answer until it is complete.
async fn listen(
    draft: &mut Draft,
    mut stream: ModelStream,
    report: &mut AnswerReport<'_, '_>,
) -> Result<(), TurnError> {
    let mut pieces = 0;
    let at_once = if draft.is_watched() { TOLD_AT_ONCE } else { TAKEN_AT_ONCE };
    while !draft.is_complete() {
        let piece = match stream.next().now_or_never() {
            Some(piece) if pieces < at_once => piece,
            piece => {
                draft.tell();
                pieces = 0;
                match piece {
                    Some(piece) => {
                        tokio::task::yield_now().await;
                        piece
                    }
                    None => {
                        draft.save_first();
                        stream.next().await
                    }
                }
            }
        };
        pieces += 1;
        let piece = piece.ok_or_else(cut_off)??;
        let taken = draft.take(piece);
        report.piece(draft.usage());
        taken?;
    }
    Ok(())
}

fn system(said: &UserMessage, agent: &Agent) -> Option<String> {
    let own = said.needs.system.as_ref().or(agent.system.as_ref());
    let all: Vec<&str> = own.into_iter().chain(&said.needs.instructions).map(String::as_str).collect();
    (!all.is_empty()).then(|| all.join("\n\n"))
}

/// The page's tools, with their schemas compiled.
async fn page_tools(hub: &Hub, needs: &TurnNeeds) -> Result<Vec<Arc<ToolSpec>>, TurnError> {
    let mut tools = Vec::with_capacity(needs.page_tools.len());
    for PageTool { name, description, parameters } in &needs.page_tools {
        let schema = hub.schemas().compile(parameters.as_deref(), hub.limits()).await;
        let schema = schema.map_err(|error| TurnError::Other(format!("the page's tool \"{name}\": {error}")))?;
        let (name, description, effect) = (name.clone(), description.clone(), Effect::Write);
        tools.push(Arc::new(ToolSpec { name, description, schema, timeout: None, effect, version: None }));
    }
    Ok(tools)
}

/// The conversation before the turn. Ends the calls that earlier turns yielded to the page first, if wanted.
async fn settle_and_read(
    sessions: &Sessions,
    session: &Arc<Session>,
    queued: &Queued,
) -> Result<Conversation, StoreError> {
    let conversation = sessions.conversation(&queued.user).await?;
    if let Role::User(UserMessage { needs: TurnNeeds { settles_calls: true, results, .. }, .. }) = &queued.user.role
        && conversation.own == 0
    {
        drop(conversation);
        let settled = sessions.settle_yielded(session, results).await?;
        if let Some(feed) = &queued.feed {
            settled.into_iter().for_each(|event| feed.tell(event));
        }
        return sessions.conversation(&queued.user).await;
    }
    Ok(conversation)
}

/// Whether a turn ends with this message: it has no calls, or some are yielded to the page, or it failed.
fn is_last(message: &Message) -> bool {
    let has = |is_it: fn(&Part) -> bool| message.parts.iter().any(|part| is_it(part));
    message.error().is_some() || has(Part::is_yielded) || !has(Part::is_call)
}

/// Where a turn goes on: at its beginning, or where an earlier process left it.
struct Entry {
    /// The message of the step that is not complete.
    begun: Option<Message>,
    repeats: Repeats,
    /// How many steps are complete.
    steps: usize,
}

impl Entry {
    /// Takes the incomplete message out of the conversation. If the model had not said everything, what it said is
    /// dropped, and it is asked again.
    fn of(conversation: &mut Conversation) -> Self {
        let mut steps = conversation.own;
        let mut begun = None;
        if steps > 0 && conversation.turn.last().is_some_and(|last| !last.is_complete()) {
            begun = conversation.turn.pop().map(Arc::unwrap_or_clone);
            steps -= 1;
        }
        let mut repeats = Repeats::default();
        conversation.turn[conversation.turn.len() - steps..].iter().for_each(|message| repeats.recall(message));
        if let Some(message) = &mut begun
            && let Role::Assistant(said) = &mut message.role
        {
            if said.finish.is_some() {
                repeats.recall(message);
            } else {
                said.kept = None;
                message.parts.clear();
            }
        }
        Self { begun, repeats, steps }
    }
}

/// Marks a message that an earlier version left unfinished as interrupted, or answers it with that error.
pub(crate) async fn mark_interrupted(
    sessions: &Sessions,
    session: &Arc<Session>,
    message: &Arc<Message>,
    error: TurnError,
) -> Result<(), StoreError> {
    let (begun, user) = match &message.role {
        Role::Assistant(_) => (Message::clone(message), None),
        Role::User(_) => (answer(sessions, message), Some(message.clone())),
    };
    let interrupted = Draft::new(sessions, session, None, begun).complete(Some(error));
    sessions.save_messages([interrupted].into_iter().chain(user).collect(), IfFull::Fails).await
}

/// A new message that answers a user's message, with the agent and the model that it names.
fn answer(sessions: &Sessions, user: &Message) -> Message {
    let (agent, model) = match &user.role {
        Role::User(said) => (said.agent.clone(), said.next_model().clone()),
        Role::Assistant(said) => (said.agent.clone(), said.model.clone()),
    };
    Message {
        id: sessions.clock().message_id(),
        session: user.session.clone(),
        created: sessions.clock().time(),
        role: Role::Assistant(AssistantMessage {
            parent: user.id.clone(),
            agent,
            model,
            completed: None,
            finish: None,
            usage: Usage::default(),
            error: None,
            kept: None,
        }),
        parts: Vec::new(),
    }
}

/// An answer for the caller of a turn that completed no message. It is not stored.
fn unstored_answer(sessions: &Sessions, user: &Message, error: TurnError) -> Arc<Message> {
    let mut message = answer(sessions, user);
    if let Role::Assistant(said) = &mut message.role {
        said.completed = Some(message.created);
        said.error = Some(error);
    }
    Arc::new(message)
}

/// Logs why the store failed; the turn's error does not have the cause.
pub(crate) fn failed(error: &StoreError) -> TurnError {
    tracing::error!(%error, "a turn could not be kept");
    TurnError::Other("The turn could not be saved; see the server's log".to_owned())
}

fn cut_off() -> TurnError {
    TurnError::Provider { message: "The model's answer was cut off".to_owned(), status: None, retryable: true }
}

/// Counts how often in a row a model makes the same call.
#[derive(Default)]
struct Repeats(HashMap<(String, String), usize>);

impl Repeats {
    /// Counts the calls of a step and returns which were made too often. Fails if the model repeats a refused call.
    fn count(&mut self, calls: &Calls, most: usize) -> Result<Vec<bool>, TurnError> {
        let before = std::mem::take(&mut self.0);
        let mut refused = Vec::with_capacity(calls.len());
        for call in calls {
            let input = call.input.as_ref().map_or_else(String::as_str, |input| input.get());
            let key = (call.alias.to_string(), input.to_owned());
            let times = before.get(&key).copied().unwrap_or(0) + 1;
            if times > most + 1 {
                let name = &call.alias;
                return Err(TurnError::Other(format!(
                    "The turn was stopped: the model called {name} with the same input over and over"
                )));
            }
            refused.push(times > most);
            self.0.insert(key, times);
        }
        Ok(refused)
    }

    /// Counts the calls of a step that an earlier process made.
    fn recall(&mut self, message: &Message) {
        let before = std::mem::take(&mut self.0);
        for part in &message.parts {
            if let PartBody::Tool(tool) = &part.body {
                let key = (tool.alias.to_string(), tool.arguments().to_owned());
                let times = before.get(&key).copied().unwrap_or(0) + 1;
                self.0.insert(key, times);
            }
        }
    }
}

#[cfg(test)]
mod tests;
