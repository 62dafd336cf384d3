//! One turn: a prompt, and the events until it is answered.
//!
//! Events show the progress. The end of the turn and its answer are read from the server, so that missed events do not
//! matter.

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

/// A turn under way: a stream of its events, which ends with [`TurnEvent::Done`] or with an error.
///
/// The prompt is sent once, and each piece of the answer comes once, however often the connection is lost. After a lost
/// connection, missed pieces of a part may come after pieces of a later one: pieces name their part. If the server was
/// restarted while the model spoke, the model speaks again in new parts, and the last message lacks the earlier ones.
///
/// The prompt is sent when the stream is first polled. Dropping the stream only stops listening: the turn goes on,
/// unless it is [aborted](Turn::abort).
#[must_use = "the prompt is not sent before it is polled"]
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

    /// The next event; `None` when the turn is over. Safe to drop while it waits. An error is the last item.
    ///
    /// # Errors
    /// [`Error::Refused`] if the server refuses the prompt or the session is gone, [`Error::NoAnswer`] if the turn is
    /// over without an answer, [`Error::TurnFailed`] if it stopped before its end for an unknown reason,
    /// [`Error::GivenUp`] after a minute without the server.
    pub async fn next(&mut self) -> Option<Result<TurnEvent, Error>> {
        self.events.next().await
    }

    /// Waits for the last message, and ignores all events before it; asks are left to others.
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

    /// Stops the turn that is under way in the session and cancels its open calls, and returns when it is over. The
    /// stream goes on to its end; if the prompt was not sent yet, it ends at once.
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
