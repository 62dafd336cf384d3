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

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::HashMap;
use futures_util::{FutureExt, StreamExt};
use tokio_util::sync::CancellationToken;

pub(crate) use self::calls::result_for_model;
use self::calls::{CallContext, Calls};
use self::draft::Draft;
use crate::calls::Hub;
use crate::events::SessionEvent;
use crate::id::SessionId;
use crate::sessions::agent::Agent;
use crate::sessions::history::Conversation;
use crate::sessions::model::ModelRequest;
use crate::sessions::{Queued, Sessions};
use crate::store::{
    AssistantMessage, Effect, Message, PageTool, Role, Session, StoreError, StoreFuture, ToolSpec, TurnError,
    TurnNeeds, Usage, UserMessage,
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
    queued: &Queued,
    abort: &CancellationToken,
) -> Option<Arc<Message>> {
    let (session, saving, failure) = match sessions.begin_turn(id, queued).await.transpose()? {
        Ok((session, saving)) => (session, Some(saving), None),
        Err(error) => (queued.session.clone(), None, Some(error)),
    };
    sessions.hub().tell(&session, || SessionEvent::Busy);
    let saving = saving.map(|kept| PendingSave { message: None, kept }).into_iter().collect();
    let mut turn = Turn { sessions, session: &session, saving, queued, draft: None, unkept: None, last: None };
    let ended = match failure {
        Some(error) => Err(error),
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
    Some(turn.end(ended).await)
}

/// A running turn.
struct Turn<'a> {
    sessions: &'a Sessions,
    session: &'a Arc<Session>,
    /// Saves in progress. The store keeps their order.
    saving: VecDeque<PendingSave>,
    queued: &'a Queued,
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
    async fn run(&mut self) -> Result<(), TurnError> {
        let Role::User(said) = &self.queued.user.role else { return Ok(()) };
        let agent = self.sessions.agent(Some(&said.agent)).map_err(|error| TurnError::Other(error.to_string()))?;
        let page_tools = page_tools(self.sessions.hub(), &said.needs).await?;
        let context = TurnContext { said, agent, system: system(said, agent), page_tools };
        let before = settle_and_read(self.sessions, self.session, self.queued);
        let mut conversation = before.await.map_err(|error| failed(&error))?;
        let mut repeats = Repeats::default();
        for _ in 0..self.sessions.hub().limits().steps {
            let message = self.step(&context, &conversation, &mut repeats).await?;
            let wants_more = message.parts.iter().any(|part| part.is_call());
            let yields = message.parts.iter().any(|part| part.is_yielded());
            conversation.turn.push(message);
            if yields || !wants_more {
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
    ) -> Result<Arc<Message>, TurnError> {
        let TurnContext { said, agent, system, page_tools } = context;
        let (wanted, needs) = (said.next_model(), &said.needs);
        let begun = self.begin(answer(self.sessions, &self.queued.user));
        let draft = self.draft.insert(begun);
        let client = self.session.client.as_ref().or(needs.client.as_ref());
        let offered = self.sessions.offered(self.session, client, &needs.switches, page_tools);
        draft.know(&offered);
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
        let mut stream = model.stream(request);
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
            match piece {
                Some(piece) => draft.take(piece?)?,
                None => return Err(cut_off()),
            }
        }
        drop(stream);
        let calls = draft.calls(&offered);
        if !calls.is_empty() {
            let refused = repeats.count(&calls, self.sessions.hub().limits().repeated_calls)?;
            let (sessions, session, feed) = (self.sessions, self.session, self.queued.feed.as_ref());
            let connection = needs.connection.as_ref();
            let context = CallContext { sessions, session, agent, offered: &offered, feed, connection };
            context.make(draft, calls, refused).await;
        }
        Ok(self.complete(None))
    }

    fn begin(&self, message: Message) -> Draft {
        Draft::new(self.sessions, self.session, self.queued.feed.clone(), message)
    }

    /// Completes the draft, sends it and begins its save. If a complete message could not be stored, that message is
    /// saved once more, with the error on it.
    fn complete(&mut self, error: Option<TurnError>) -> Arc<Message> {
        let draft = match (self.draft.take(), self.unkept.take()) {
            (Some(draft), _) => draft,
            (None, Some(unkept)) => self.begin(Message::clone(&unkept)),
            (None, None) => self.begin(answer(self.sessions, &self.queued.user)),
        };
        let (message, kept) = draft.complete(error);
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
        if let Some(user) = self.queued.user.after_turn() {
            self.saving.push_back(PendingSave { message: None, kept: self.sessions.save_message(&Arc::new(user)) });
        }
        let mut changed = None;
        if ended.is_ok() {
            // The session is saved together with its last message.
            changed = self.sessions.change(id, |_| true);
            ended = self.keep_all().await;
        }
        if let Err(error) = ended {
            tracing::info!(session = %id, error = error.message(), "a turn ended early");
            let told = Arc::new(error.clone());
            self.sessions.hub().tell(self.session, || SessionEvent::Failed(told));
            self.complete(Some(error));
            changed = self.sessions.change(id, |_| true);
            if let Err(unsaved) = self.keep_all().await {
                tracing::error!(session = %id, error = unsaved.message(), "the end of a turn was not kept");
            }
        }
        if let Some((_, saving)) = changed
            && let Err(error) = saving.await
        {
            tracing::error!(session = %id, %error, "the end of a turn was not kept");
        }
        match self.last {
            Some(last) => last,
            None => {
                unstored_answer(self.sessions, &self.queued.user, TurnError::Other("the model said nothing".to_owned()))
            }
        }
    }
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
    if let Role::User(UserMessage { needs: TurnNeeds { settles_calls: true, results, .. }, .. }) = &queued.user.role {
        let settled = sessions.settle_yielded(session, results).await?;
        if let Some(feed) = &queued.feed {
            settled.into_iter().for_each(|event| feed.tell(event));
        }
    }
    sessions.conversation(&queued.user).await
}

/// Marks a message that an earlier process left unfinished as interrupted, or answers it with that error.
pub(crate) async fn mark_interrupted(
    sessions: &Sessions,
    message: &Arc<Message>,
    error: TurnError,
) -> Result<(), StoreError> {
    let Some(session) = sessions.find(&message.session).await? else { return Ok(()) };
    let begun = match &message.role {
        Role::Assistant(_) => Message::clone(message),
        Role::User(_) => answer(sessions, message),
    };
    let (_, saving) = Draft::new(sessions, &session, None, begun).complete(Some(error));
    saving.await
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
            let key = (call.alias.to_string(), call.arguments.clone());
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
}

#[cfg(test)]
mod tests;
