//! A call that waits until somebody allows it.

use std::sync::atomic::{AtomicBool, Ordering};

use handback_wire::session::{Permission, PermissionResponse, Reply};
use serde_json::value::RawValue;

use crate::api::Api;
use crate::error::Error;
use crate::retry::with_retries;

/// A call that waits until somebody allows it. After a while (5 minutes by default) the server treats a missing answer
/// as a rejection. Dropping an ask does not answer it.
///
/// Every answer is retried for up to a minute while the server cannot be reached. It fails as [`Ask::answer`] does.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The tool, its input, and whose call it is.
    pub permission: Permission,
    pub(super) api: Api,
}

impl Ask {
    /// Allows the call.
    pub async fn allow(&self) -> Result<(), Error> {
        self.answer(&response(Reply::Once)).await
    }

    /// Allows the call with this input in place of the model's; it must fit the tool's schema.
    pub async fn allow_with(&self, input: Box<RawValue>) -> Result<(), Error> {
        self.answer(&PermissionResponse { input: Some(input), ..response(Reply::Once) }).await
    }

    /// Allows the call, and all further calls of this tool in this session.
    pub async fn allow_always(&self) -> Result<(), Error> {
        self.answer(&response(Reply::Always)).await
    }

    /// Rejects the call; the model gets the reason.
    pub async fn reject(&self, reason: &str) -> Result<(), Error> {
        self.answer(&PermissionResponse { message: Some(reason.to_owned()), ..response(Reply::Reject) }).await
    }

    /// Sends an answer.
    ///
    /// # Errors
    /// [`Error::Refused`] with status 404 if somebody else has answered or the ask has expired; with status 400 if the
    /// input does not match the schema, and then the ask stays open. [`Error::GivenUp`] after that minute.
    pub async fn answer(&self, answer: &PermissionResponse) -> Result<(), Error> {
        let Permission { id, session_id, .. } = &self.permission;
        let may_be_answered = AtomicBool::new(false);
        with_retries(|| async {
            match self.api.answer_permission(session_id, id, answer).await {
                // An earlier try has answered the ask, and the server's response did not arrive.
                Err(error)
                    if error.status() == Some(404) && !error.may_pass() && may_be_answered.load(Ordering::Relaxed) =>
                {
                    Ok(())
                }
                answered => {
                    let may_be = answered.as_ref().is_err_and(Error::may_have_taken_effect);
                    may_be_answered.fetch_or(may_be, Ordering::Relaxed);
                    answered
                }
            }
        })
        .await
    }
}

fn response(response: Reply) -> PermissionResponse {
    PermissionResponse { response, input: None, message: None }
}
