//! A call that waits until somebody allows it.

use handback_wire::session::{Permission, PermissionResponse, Reply};
use serde_json::value::RawValue;

use crate::api::Api;
use crate::error::Error;
use crate::retry::Patience;

/// A call that waits until somebody allows it. Nobody's answer, for as long as the server waits (5 minutes unless it is
/// configured otherwise), is a no; so dropping it answers nothing.
///
/// Every answer is tried again for up to a minute while the server cannot be reached, and fails as [`Ask::answer`] does.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The tool, its input, and whose call it is.
    pub permission: Permission,
    pub(super) api: Api,
}

impl Ask {
    /// The call may be made.
    pub async fn allow(&self) -> Result<(), Error> {
        self.answer(&response(Reply::Once)).await
    }

    /// The call may be made with this input in place of the model's; it must fit the tool's schema.
    pub async fn allow_with(&self, input: Box<RawValue>) -> Result<(), Error> {
        self.answer(&PermissionResponse { input: Some(input), ..response(Reply::Once) }).await
    }

    /// The call and all others of this tool in this session may be made.
    pub async fn allow_always(&self) -> Result<(), Error> {
        self.answer(&response(Reply::Always)).await
    }

    /// The call may not be made; the model is told why.
    pub async fn reject(&self, reason: &str) -> Result<(), Error> {
        self.answer(&PermissionResponse { message: Some(reason.to_owned()), ..response(Reply::Reject) }).await
    }

    /// Answers.
    ///
    /// # Errors
    /// [`Error::Refused`] with status 404 if somebody else has answered, or the time for it is over; with 400 if the
    /// input does not fit, and then the ask stays open. [`Error::GivenUp`] after that minute.
    pub async fn answer(&self, answer: &PermissionResponse) -> Result<(), Error> {
        let Permission { id, session_id, .. } = &self.permission;
        let (mut patience, mut may_be_answered) = (Patience::new(), false);
        while let Err(error) = self.api.answer_permission(session_id, id, answer).await {
            if may_be_answered && error.status() == Some(404) {
                // By the try before this one, whose answer was lost.
                return Ok(());
            }
            may_be_answered |= matches!(error, Error::Interrupted { .. });
            patience.after(error).await?;
        }
        Ok(())
    }
}

fn response(response: Reply) -> PermissionResponse {
    PermissionResponse { response, input: None, message: None }
}
