//! Sessions that have turns to run: who waits, what runs, and the task that runs one turn after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{SessionError, Sessions};
use crate::event::SessionEvent;
use crate::id::{ClientId, MessageId, SessionId};
use crate::message::{Message, PartBody, Role, Session, TurnError};
use crate::run;
use crate::store::StoreError;

/// How a session is called until somebody says something in it.
pub(super) const UNTITLED: &str = "New session";
/// How much of the first prompt becomes the title.
const TITLE_CHARACTERS: usize = 60;

/// A session with turns to run.
pub(super) struct Live {
    /// Whose it is: its client's, or that of the first who prompts it.
    client: Option<ClientId>,
    /// The session, once its first turn has begun.
    session: Option<Arc<Session>>,
    running: MessageId,
    pub(super) abort: CancellationToken,
    /// Cancelled when the turn is over.
    pub(super) over: CancellationToken,
    queue: VecDeque<Queued>,
}

/// A prompt whose turn has not begun.
pub(crate) struct Queued {
    /// The session as it was when the prompt came.
    session: Arc<Session>,
    pub(crate) user: Arc<Message>,
    pub(crate) client: Option<ClientId>,
    /// False if it could not be kept. Before it is kept and told, its turn does not begin.
    kept: oneshot::Receiver<bool>,
    done: oneshot::Sender<Arc<Message>>,
}

/// How a turn is stopped, and how others learn that it is over.
type Handles = (CancellationToken, CancellationToken);

impl Sessions {
    /// Finds a place for a prompt: starts its turn if the session is idle, else it waits for those before it.
    pub(super) fn enqueue(
        &self,
        session: &Arc<Session>,
        user: &Arc<Message>,
        client: Option<ClientId>,
        kept: oneshot::Receiver<bool>,
    ) -> Result<Option<oneshot::Receiver<Arc<Message>>>, SessionError> {
        let mut live = self.lock();
        let known = live.get_mut(&session.id);
        let owner = known.as_ref().and_then(|live| live.client.as_ref()).or(session.client.as_ref());
        if let (Some(owner), Some(client)) = (owner, &client)
            && owner != client
        {
            return Err(SessionError::Forbidden);
        }
        if !matches!(&user.role, Role::User(said) if said.wants_reply) {
            return Ok(None);
        }
        let (done, answer) = oneshot::channel();
        let owner = owner.or(client.as_ref()).cloned();
        let queued = Queued { session: session.clone(), user: user.clone(), client, kept, done };
        match known {
            Some(live) => {
                let most = self.hub().limits().queued_prompts;
                if live.queue.len() >= most {
                    return Err(SessionError::QueueFull(most));
                }
                if live.running == user.id || live.queue.iter().any(|queued| queued.user.id == user.id) {
                    return Err(SessionError::DuplicateMessage(user.id.clone()));
                }
                live.client = owner;
                live.queue.push_back(queued);
            }
            None => {
                let (abort, over) = (self.0.stop.child_token(), CancellationToken::new());
                let turn = (abort.clone(), over.clone());
                let (running, queue) = (user.id.clone(), VecDeque::new());
                live.insert(session.id.clone(), Live { client: owner, session: None, running, abort, over, queue });
                let shared = &self.hub().0;
                shared.tasks.spawn_on(drive(self.clone(), session.id.clone(), queued, turn), &shared.runtime);
            }
        }
        Ok(Some(answer))
    }

    /// Whether a tool was allowed for as long as the session lives.
    pub(crate) fn is_approved(&self, id: &SessionId, tool: &str) -> bool {
        let live = self.lock();
        let session = live.get(id).and_then(|live| live.session.as_ref());
        session.is_some_and(|session| session.approved.contains(tool))
    }

    /// Changes a session that is live, and keeps the change; `None` if it is gone.
    pub(crate) fn update(&self, id: &SessionId, change: impl FnOnce(&mut Session)) -> Option<Arc<Session>> {
        let mut live = self.lock();
        let session = live.get_mut(id)?.session.as_mut()?;
        let now = self.clock().time();
        let changed = Arc::make_mut(session);
        change(changed);
        changed.updated = now;
        let session = session.clone();
        // Not awaited: the store keeps the order, and the end of the turn is awaited.
        drop(self.store().save_session(&session));
        drop(live);
        self.tell(&session, SessionEvent::Updated);
        Some(session)
    }

    /// The session as it is now, for its turn that begins; `None` if it was deleted.
    pub(crate) async fn begin_turn(&self, id: &SessionId, queued: &Queued) -> Result<Option<Arc<Session>>, StoreError> {
        let stored = self.store().session(id).await?;
        {
            let mut live = self.lock();
            let (Some(live), Some(stored)) = (live.get_mut(id), stored) else { return Ok(None) };
            live.session = Some(stored);
        }
        Ok(self.update(id, |session| {
            if session.client.is_none() {
                session.client.clone_from(&queued.client);
            }
            if session.title == UNTITLED
                && let Some(title) = title_of(&queued.user)
            {
                session.title = title;
            }
        }))
    }

    /// Why turns end that are stopped now.
    pub(crate) fn stopped(&self) -> TurnError {
        if self.0.stop.is_cancelled() {
            TurnError::Aborted("The server was stopped while this turn was under way".to_owned())
        } else {
            TurnError::Aborted("The turn was aborted".to_owned())
        }
    }

    /// Takes the next prompt, or ends the session's life.
    fn next_turn(&self, id: &SessionId, running: &MessageId) -> Option<(Queued, Handles)> {
        let mut sessions = self.lock();
        // It may have been deleted.
        let live = sessions.get_mut(id).filter(|live| live.running == *running)?;
        let Some(queued) = live.queue.pop_front() else {
            sessions.remove(id);
            drop(sessions);
            self.0.idle.notify_waiters();
            return None;
        };
        live.running = queued.user.id.clone();
        live.abort = self.0.stop.child_token();
        live.over = CancellationToken::new();
        Some((queued, (live.abort.clone(), live.over.clone())))
    }
}

/// Runs the turns of a session, one after the other, until no more prompts wait.
async fn drive(sessions: Sessions, id: SessionId, first: Queued, turn: Handles) {
    let mut next = Some((first, turn));
    let mut alive = Alive { sessions: &sessions, id: &id, running: None };
    while let Some((mut queued, (abort, over))) = next {
        alive.running = Some((queued.user.id.clone(), over.drop_guard()));
        // If whoever prompted has gone meanwhile, it is kept all the same.
        if !(&mut queued.kept).await.unwrap_or(true) {
            next = sessions.next_turn(&id, &queued.user.id);
            continue;
        }
        let (session, answer) = run::turn(&sessions, &id, &queued, &abort).await;
        next = sessions.next_turn(&id, &queued.user.id);
        if next.is_none() {
            sessions.tell(session.as_ref().unwrap_or(&queued.session), SessionEvent::Idle);
        }
        // Whoever waits may have gone.
        _ = queued.done.send(answer);
    }
    alive.running = None;
}

/// However the task of a session ends, the session is not left busy for ever.
struct Alive<'a> {
    sessions: &'a Sessions,
    id: &'a SessionId,
    running: Option<(MessageId, DropGuard)>,
}

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        if let Some((running, _over)) = self.running.take() {
            let mut sessions = self.sessions.lock();
            if sessions.get(self.id).is_some_and(|live| live.running == running) {
                sessions.remove(self.id);
            }
            drop(sessions);
            self.sessions.0.idle.notify_waiters();
        }
    }
}

/// The first line of what was said.
fn title_of(user: &Message) -> Option<String> {
    let text = user.parts.iter().find_map(|part| match &part.body {
        PartBody::Text { text, .. } => text.lines().map(str::trim).find(|line| !line.is_empty()),
        _ => None,
    })?;
    let mut title: String = text.chars().take(TITLE_CHARACTERS).collect();
    if text.chars().nth(TITLE_CHARACTERS).is_some() {
        title.push('…');
    }
    Some(title)
}
