//! What the server sends to a client.

use handback_wire::client_tools::{ToolCancel, ToolRequest};
use serde::de::DeserializeOwned;
use sse_stream::Sse;

/// What the server sends to a client.
#[derive(Debug)]
pub(super) enum Event {
    /// A call to run.
    Request(ToolRequest),
    /// A call that is over.
    Cancel(ToolCancel),
    /// A keep-alive, or an event of a later version.
    Other,
}

/// Reads an event. The stream also has blocks without data, which are no events but may carry an id.
pub(super) fn read(event: &Sse) -> Event {
    match (event.event.as_deref(), event.data.as_deref()) {
        (Some("tool-request"), Some(data)) => decode(data).map_or(Event::Other, Event::Request),
        (Some("tool-cancel"), Some(data)) => decode(data).map_or(Event::Other, Event::Cancel),
        _ => Event::Other,
    }
}

/// An event that cannot be read cannot be answered either; one bad event must not end the connection.
fn decode<T: DeserializeOwned>(data: &str) -> Option<T> {
    serde_json::from_str(data).inspect_err(|error| tracing::warn!(%error, "an event that cannot be read")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_told_apart_and_those_that_cannot_be_read_are_passed_over() {
        let kind = |event: &str, data: &str| {
            let event = Sse { event: Some(event.to_owned()), data: Some(data.to_owned()), ..Sse::default() };
            match read(&event) {
                Event::Request(request) => request.request_id,
                Event::Cancel(cancel) => cancel.request_id,
                Event::Other => "other".to_owned(),
            }
        };
        assert_eq!(kind("tool-cancel", r#"{"requestID":"a","reason":"b"}"#), "a");
        assert_eq!(kind("tool-request", "{"), "other");
        assert_eq!(kind("ping", ""), "other");
        assert!(matches!(read(&Sse { id: Some("e-1".to_owned()), ..Sse::default() }), Event::Other));
    }
}
