//! Reads the messages of a session from the store and writes them page by page, so that memory holds one page however
//! long the history is.

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use handback_core::id::{MessageId, SessionId};
use handback_core::store::Most;

use super::encode;
use crate::app::App;
use crate::problem::Problem;
use crate::transport::sse::WasCut;

/// How much is read at a time; a larger message comes alone.
const PAGE: Most = Most { items: 256, bytes: 256 << 10 };

/// A range of messages of a session, in their order.
pub(super) struct MessageStream {
    pub(super) app: App,
    pub(super) session: SessionId,
    /// The last message before the range.
    pub(super) after: Option<MessageId>,
    /// How many messages of the range are left.
    pub(super) left: usize,
}

impl MessageStream {
    /// Streams the messages as a JSON array. An error before the first byte is answered as a problem; a later one cuts
    /// the connection, so that nobody takes a part of the history for the whole.
    pub(super) async fn into_response(self) -> Result<Response, Problem> {
        let mut reading = Reading { history: self, is_begun: false, is_over: false };
        let first = reading.next().await?;
        let mut response = Response::new(Body::empty());
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *response.body_mut() = match reading.is_over {
            true => Body::from(first),
            false => Body::from_stream(stream::iter([Ok(first)]).chain(stream::try_unfold(reading, rest))),
        };
        Ok(response)
    }
}

async fn rest(mut reading: Reading) -> Result<Option<(Bytes, Reading)>, WasCut> {
    if reading.is_over {
        return Ok(None);
    }
    // If the history is in memory and its reader is quick, other tasks still get their turn between pages.
    tokio::task::yield_now().await;
    match reading.next().await {
        Ok(bytes) => Ok(Some((bytes, reading))),
        Err(problem) => {
            let session = &reading.history.session;
            tracing::warn!(
                session = session.as_str(),
                problem = problem.message,
                "the reader of a history was cut off"
            );
            Err(WasCut)
        }
    }
}

struct Reading {
    history: MessageStream,
    is_begun: bool,
    is_over: bool,
}

impl Reading {
    /// The next page as a piece of the array; the first and the last have the brackets.
    async fn next(&mut self) -> Result<Bytes, Problem> {
        let MessageStream { app, session, after, left } = &mut self.history;
        let most = Most { items: PAGE.items.min(*left), ..PAGE };
        let page = app.sessions().messages_after(session, after.as_ref(), most).await?;
        let page = page.ok_or_else(|| Problem::not_found("the session was deleted or changed while it was read"))?;
        let mut text = Vec::new();
        for message in &page.items {
            text.push(if self.is_begun { b',' } else { b'[' });
            self.is_begun = true;
            let written = serde_json::to_writer(&mut text, &encode::message_with_parts(message));
            written.map_err(|_| Problem::interrupted())?;
        }
        *left -= page.items.len();
        if let Some(last) = page.items.last() {
            *after = Some(last.id.clone());
        }
        self.is_over = !page.has_more || *left == 0;
        if self.is_over {
            text.extend_from_slice(if self.is_begun { b"]" } else { b"[]" });
        }
        Ok(text.into())
    }
}
