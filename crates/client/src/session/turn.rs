//! One turn: something is said, and what comes of it is told until it is answered.
//!
//! The events tell what happens; whether the turn is over, and what the answer is, is read from the server itself. So
//! it does not matter which events were missed while a connection was lost.

mod driver;

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt, stream};
use handback_wire::session::{MessageWithParts, Part, Prompt, Tokens};
use tokio_util::sync::CancellationToken;

use self::driver::Driver;
use super::ask::Ask;
use crate::api::Api;
use crate::error::Error;
use crate::patience::Patience;
use crate::tools::ClientTools;

/// What happens in a turn.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum TurnEvent {
    /// More of an answer.
    Text {
        /// The part that has grown: its pieces, joined, are its text.
        part: String,
        /// What was added.
        text: String,
    },
    /// More of what the model thinks before it answers.
    Reasoning {
        /// The part that has grown: its pieces, joined, are its text.
        part: String,
        /// What was added.
        text: String,
    },
    /// A call has come further: its `state.status` is `pending`, `running`, then `completed` or `error`, each told once;
    /// the earlier ones may be left out. While it is pending, `tool` may be the name that the model knows it by.
    Tool(Box<Part>),
    /// A call waits until somebody allows it.
    Ask(Box<Ask>),
    /// An ask is over: it was answered, here or elsewhere, or its time was over.
    AskClosed {
        /// The id of its permission.
        id: String,
    },
    /// The connection is lost; it is tried again. Nothing has to be done about it.
    Disconnected {
        /// Why.
        reason: String,
    },
    /// The connection is there again, and what was missed follows.
    Reconnected,
    /// The turn is over; always the last.
    Done {
        /// The last message of the answer. If the turn ended early, its `info.error` says why.
        message: Box<MessageWithParts>,
        /// What the whole turn cost.
        tokens: Tokens,
    },
}

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

/// Stops the turn of a session.
pub(super) async fn abort(api: &Api, session: &str) -> Result<(), Error> {
    let mut patience = Patience::new();
    while let Err(error) = api.abort(session).await {
        patience.after(error).await?;
    }
    Ok(())
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
