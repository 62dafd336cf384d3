//! What the Rust SDK reads of a server.

use std::sync::OnceLock;

use handback_client::Api;
use handback_client::agui::wire::Message;
use handback_client::agui::{Conversation, Incoming, messages, process};
use handback_client::fuzzing::{call_events, message_events, run_events, turn_events};

use super::{in_any_pieces, in_time, sections};

/// A stream of calls, or of the events of a session.
pub fn sdk_streams(bytes: &[u8]) {
    in_any_pieces(bytes, call_events);
    in_any_pieces(bytes, |pieces| async { format!("{:?}", turn_events("msg_1", pieces).await) });
}

/// Messages of a WebSocket.
pub fn sdk_messages(bytes: &[u8]) {
    static API: OnceLock<Api> = OnceLock::new();
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let api = API.get_or_init(|| Api::new("http://127.0.0.1:1", None).unwrap());
    let all: Vec<&str> = text.split("\n###\n").collect();
    in_time(async { message_events(api, &all).await });
}

/// The stream of one run of AG-UI or of several: the messages of the conversation that it makes can be sent to any server.
pub fn agui_runs(bytes: &[u8]) {
    let mut conversation = Conversation::default();
    for run in sections(bytes) {
        for incoming in in_any_pieces(run, run_events) {
            if let Incoming::Event(event) = incoming {
                conversation = process(conversation, &event);
            }
        }
    }
    let sent = messages(&conversation);
    let json = serde_json::to_string(&sent).unwrap();
    let read: Vec<Message> = serde_json::from_str(&json).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), json);
}
