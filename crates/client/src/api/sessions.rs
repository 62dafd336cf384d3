//! Sessions: conversations with a model that may call the tools of a client.

use std::collections::BTreeMap;

use handback_wire::session::{
    CreateSession, MessageWithParts, OfferedTool, Permission, PermissionResponse, Prompt, Session, Status,
};
use reqwest::{Method, RequestBuilder, Response};

use super::{ANSWER_TIMEOUT, Api};
use crate::error::Error;

impl Api {
    /// Makes a session; `client_id` binds it to the client whose tools the model may call.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn create_session(&self, request: &CreateSession) -> Result<Session, Error> {
        self.write(Method::POST, &["session"], request).await
    }

    /// The sessions, those used last first: at most `limit`, and at most as many as the server lists (1,000).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn sessions(&self, limit: Option<usize>) -> Result<Vec<Session>, Error> {
        let query = [("limit", limit.map(|limit| limit.to_string()))];
        self.send(self.get(&["session"], &query).timeout(ANSWER_TIMEOUT)).await
    }

    /// A session.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn session(&self, id: &str) -> Result<Session, Error> {
        self.send(self.get(&["session", id], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// Deletes a session with its messages and calls; what is under way in it is stopped.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn delete_session(&self, id: &str) -> Result<(), Error> {
        let request = self.http.delete(self.endpoint(&["session", id])).timeout(ANSWER_TIMEOUT);
        self.done(request).await
    }

    /// Whether a turn is under way, by session. A session that is not listed is idle.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn session_status(&self) -> Result<BTreeMap<String, Status>, Error> {
        self.send(self.get(&["session", "status"], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// Says something and waits for the last message of the answer, as long as that takes. A turn that ends early is no
    /// error: `info.error` says why. The turn goes on when this future is dropped; see [`Api::abort`].
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn prompt(&self, session: &str, prompt: &Prompt) -> Result<MessageWithParts, Error> {
        self.send(self.http.post(self.endpoint(&["session", session, "message"])).json(prompt)).await
    }

    /// Says something and does not wait: the answer comes as [`events`](Api::events), and is among the
    /// [`messages`](Api::messages) in the end, with `prompt.message_id` as their parent.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn prompt_async(&self, session: &str, prompt: &Prompt) -> Result<(), Error> {
        let url = self.endpoint(&["session", session, "prompt_async"]);
        self.done(self.timed(self.http.post(url).json(prompt))?).await
    }

    /// The messages of a session, in order: all of them, or the newest `limit`.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn messages(&self, session: &str, limit: Option<usize>) -> Result<Vec<MessageWithParts>, Error> {
        let query = [("limit", limit.map(|limit| limit.to_string()))];
        self.send(self.get(&["session", session, "message"], &query).timeout(ANSWER_TIMEOUT)).await
    }

    /// Stops the turn that is under way, if there is one, and returns when it is over. Its open calls are cancelled.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn abort(&self, session: &str) -> Result<(), Error> {
        let url = self.endpoint(&["session", session, "abort"]);
        self.done(self.http.post(url).timeout(ANSWER_TIMEOUT)).await
    }

    /// What the model is offered in a session, and where each tool runs.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn session_tools(&self, session: &str) -> Result<Vec<OfferedTool>, Error> {
        self.send(self.get(&["session", session, "tools"], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// The calls that wait until somebody allows them, of all sessions, the oldest first.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn permissions(&self) -> Result<Vec<Permission>, Error> {
        self.send(self.get(&["permission"], &[]).timeout(ANSWER_TIMEOUT)).await
    }

    /// Allows or rejects a call that waits for it; `input` replaces the model's, and must fit the tool's schema.
    ///
    /// # Errors
    /// See [`Error`]; one that was answered already, or whose time is over, is [`Error::Refused`] with status 404.
    pub async fn answer_permission(
        &self,
        session: &str,
        permission: &str,
        answer: &PermissionResponse,
    ) -> Result<(), Error> {
        let url = self.endpoint(&["session", session, "permissions", permission]);
        self.done(self.http.post(url).json(answer).timeout(ANSWER_TIMEOUT)).await
    }

    /// Opens the stream of what happens, in one session or everywhere.
    pub(crate) async fn open_events(&self, session: Option<&str>) -> Result<Response, Error> {
        self.open(self.get(&["event"], &[("sessionID", session.map(str::to_owned))])).await
    }

    /// Sends a request whose answer says nothing but that it succeeded.
    async fn done(&self, request: RequestBuilder) -> Result<(), Error> {
        let response = request.send().await.map_err(|error| self.failed(&error))?;
        self.accepted(response).await.map(drop)
    }
}
