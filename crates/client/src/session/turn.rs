//! One turn: something is said, and what comes of it is told until it is answered.
//!
//! The events tell what happens; whether the turn is over, and what the answer is, is read from the server itself. So
//! it does not matter which events were missed while a connection was lost.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use handback_wire::session::{MessageWithParts, Prompt};
use tokio_util::sync::CancellationToken;

use super::driver::{Driver, abort};
use super::event::TurnEvent;
use crate::api::Api;
use crate::error::Error;
use crate::tools::ClientTools;

/// A turn under way: a stream of what happens in it, which ends with [`TurnEvent::Done`] or with an error.
///
/// What is said is said once, and each piece is told once, however often the connection is lost meanwhile. Where a
/// connection was lost, what was missed of a part may be told after pieces of a later one: pieces name their part.
///
/// Nothing is said before the stream is first polled. Dropping it stops listening and nothing else: the turn goes on,
/// unless it is [aborted](Turn::abort).
#[must_use = "nothing is said before it is polled"]
pub struct Turn {
    events: BoxStream<'static, Result<TurnEvent, Error>>,
    api: Api,
    session: String,
    aborted: CancellationToken,
}

impl Turn {
    pub(super) fn new(api: &Api, session: &str, prompt: Prompt, tools: Option<ClientTools>) -> Self {
        let aborted = CancellationToken::new();
        let driver = Driver::new(api.clone(), session.to_owned(), prompt, tools, aborted.clone());
        let events = stream::try_unfold(Some(driver), async |driver| match driver {
            Some(driver) => driver.next().await,
            None => Ok(None),
        });
        Self { events: events.boxed(), api: api.clone(), session: session.to_owned(), aborted }
    }

    /// What happens next; `None` when the turn is over. Safe to drop while it waits.
    ///
    /// # Errors
    /// [`Error::Refused`] if it could not be said or the session is gone, [`Error::NoAnswer`] if the turn is over and
    /// nothing answers, [`Error::TurnFailed`] if it has stopped before its end and nobody says why, [`Error::GivenUp`]
    /// after a minute without the server. It is the last item then.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, Error>> {
        self.events.next().await
    }

    /// Waits for the last message, and passes over all that comes before it: asks are left to others.
    ///
    /// # Errors
    /// As [`Turn::next`], and [`Error::TurnFailed`], with that message, if the turn ended with an error.
    pub async fn finish(mut self) -> Result<MessageWithParts, Error> {
        while let Some(event) = self.next().await {
            if let TurnEvent::Done { message, .. } = event? {
                return if message.info.error.is_some() { Err(Error::TurnFailed(message)) } else { Ok(*message) };
            }
        }
        Err(Error::NoAnswer { reason: "the turn was aborted before it began".to_owned() })
    }

    /// Stops the turn that is under way in the session, and returns when it is over: its open calls are cancelled. The
    /// stream goes on with what had come, and its end; if nothing was said yet, it just ends.
    ///
    /// # Errors
    /// [`Error::Refused`] if the session is gone, [`Error::GivenUp`] after a minute without the server.
    pub async fn abort(&mut self) -> Result<(), Error> {
        self.aborted.cancel();
        abort(&self.api, &self.session).await
    }
}

impl Stream for Turn {
    type Item = Result<TurnEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(context)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Turn").field("session", &self.session).finish_non_exhaustive()
    }
}
