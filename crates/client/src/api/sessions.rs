//! Sessions: conversations with a model that may call the tools of a client.

use std::collections::BTreeMap;

use handback_wire::session::{
    CreateSession, MessageWithParts, OfferedTool, Permission, PermissionResponse, Prompt, Session,
    Status as SessionStatus,
};
use reqwest::{Method, Response};
use tokio::time::Instant;

use super::{ANSWER_TIMEOUT, Api};
use crate::error::Error;
use crate::events::EventFilter;
use crate::retry::{PATIENCE, retry_until};

impl Api {
    /// Creates a session; `client_id` binds it to the client whose tools the model may call. See [`Api::start_session`].
    pub async fn create_session(&self, request: &CreateSession) -> Result<Session, Error> {
        self.write(Method::POST, &["session"], request).await
    }

    /// Creates a session, and waits up to a minute for a server that is lost. A request without an id gets a random one,
    /// so that a repeat whose first answer was lost makes no second session.
    pub async fn start_session(&self, mut request: CreateSession) -> Result<Session, Error> {
        request.id.get_or_insert_with(|| format!("ses_{:032x}", fastrand::u128(..)));
        let limit = Instant::now() + PATIENCE;
        // Whether a Handback server is there at all, this request may be the first to find out.
        retry_until(|error| error.is_transient().then_some(limit), || self.create_session(&request)).await
    }

    /// The sessions, those used last first: at most `limit`, and at most as many as the server lists (1,000).
    pub async fn sessions(&self, limit: Option<usize>) -> Result<Vec<Session>, Error> {
        self.get(&["session"], &[("limit", limit.map(|limit| limit.to_string()))]).await
    }

    /// A session.
    pub async fn session(&self, id: &str) -> Result<Session, Error> {
        self.get(&["session", id], &[]).await
    }

    /// Deletes a session with its messages and calls, and stops its turn.
    pub async fn delete_session(&self, id: &str) -> Result<(), Error> {
        let request = self.request(Method::DELETE, &["session", id]).timeout(ANSWER_TIMEOUT);
        self.http.send(request).await.map(drop)
    }

    /// Whether a turn is under way, by session. A session that is not listed is idle.
    pub async fn session_status(&self) -> Result<BTreeMap<String, SessionStatus>, Error> {
        self.get(&["session", "status"], &[]).await
    }

    /// Sends a prompt and waits for the last message of the answer, however long that takes. A turn that ends early is
    /// not an error: `info.error` says why. The turn continues when this future is dropped; see [`Api::abort`].
    pub async fn prompt(&self, session: &str, prompt: &Prompt) -> Result<MessageWithParts, Error> {
        self.read(self.request(Method::POST, &["session", session, "message"]).json(prompt)).await
    }

    /// Sends a prompt without waiting: the answer comes as [`events`](Api::events), and is finally among the
    /// [`messages`](Api::messages), with `prompt.message_id` as their parent.
    pub async fn prompt_async(&self, session: &str, prompt: &Prompt) -> Result<(), Error> {
        let request = self.request(Method::POST, &["session", session, "prompt_async"]).json(prompt);
        self.http.send(self.http.timed(request)?).await.map(drop)
    }

    /// The messages of a session, in order: all of them, or the newest `limit`.
    pub async fn messages(&self, session: &str, limit: Option<usize>) -> Result<Vec<MessageWithParts>, Error> {
        self.get(&["session", session, "message"], &[("limit", limit.map(|limit| limit.to_string()))]).await
    }

    /// Stops the turn that is under way, if there is one, and returns when it is over. Its open calls are cancelled.
    pub async fn abort(&self, session: &str) -> Result<(), Error> {
        let request = self.request(Method::POST, &["session", session, "abort"]).timeout(ANSWER_TIMEOUT);
        self.http.send(request).await.map(drop)
    }

    /// The tools that the model is offered in a session, and where each runs.
    pub async fn session_tools(&self, session: &str) -> Result<Vec<OfferedTool>, Error> {
        self.get(&["session", session, "tools"], &[]).await
    }

    /// The calls of all sessions that wait until somebody allows them, the oldest first.
    pub async fn permissions(&self) -> Result<Vec<Permission>, Error> {
        self.get(&["permission"], &[]).await
    }

    /// Allows or rejects a waiting call; `input` overrides the model's, and must match the tool's schema. If the call
    /// was answered already or its ask has expired, this is [`Error::Refused`] with status 404.
    pub async fn answer_permission(
        &self,
        session: &str,
        permission: &str,
        answer: &PermissionResponse,
    ) -> Result<(), Error> {
        let request = self.request(Method::POST, &["session", session, "permissions", permission]).json(answer);
        self.http.send(request.timeout(ANSWER_TIMEOUT)).await.map(drop)
    }

    /// Opens the stream of events.
    pub(crate) async fn open_events(&self, filter: &EventFilter) -> Result<Response, Error> {
        let query = [("sessionID", filter.session_id.clone()), ("clientID", filter.client_id.clone())];
        let request = self.query(&["event"], &query);
        self.noted(self.http.open(request, ANSWER_TIMEOUT).await)
    }
}
