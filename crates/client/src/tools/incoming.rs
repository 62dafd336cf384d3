//! What comes from the server, whatever carries it.

use futures_util::stream::BoxStream;
use handback_wire::client_tools::{ToolCancel, ToolRequest};
use tokio::time::Instant;

use crate::error::Error;

/// All that comes on one connection. An error says why the connection is lost. Dropping the stream closes the connection.
pub(super) type IncomingStream = BoxStream<'static, Result<Incoming, Error>>;

/// Something that came from the server.
#[derive(Debug)]
pub(super) enum Incoming {
    /// A call to run, and when it expires; `None`: it has.
    Request(ToolRequest, Option<Instant>),
    /// A call that is over.
    Cancel(ToolCancel),
    /// All up to the event of this id has been given; it is sent when the connection is opened again.
    Seen(Option<String>),
}
