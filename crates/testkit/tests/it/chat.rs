//! Chats over real sockets: what a page posts, and the whole stream that it gets.

mod approvals;
mod bad_requests;
mod ends;
mod events;
mod held;
mod histories;
mod ownership;
mod repeats;
mod resuming;
mod sessions;
mod yielded;

use handback_testkit::chat::saying;
use serde_json::{Value, json};

use crate::world::World;

impl World {
    /// The messages of a chat as a page gets them when it comes back.
    async fn page(&self, chat: &str) -> Vec<Value> {
        let answer = self.server.get(&format!("/api/chat/{chat}")).await;
        assert_eq!((answer.status, &answer.body["id"]), (200, &json!(chat)), "{answer:?}");
        serde_json::from_value(answer.body["messages"].clone()).unwrap()
    }
}

/// An address to be opened.
fn url() -> Value {
    json!({ "url": "https://example.org/" })
}

/// A prompt of a page that has the tool `pick`, which takes an integer `n`.
fn picking(chat: &str, message: &str) -> Value {
    let mut body = saying(chat, message, "go");
    body["tools"] = page_tools();
    body
}

fn page_tools() -> Value {
    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    json!([{ "name": "pick", "description": "Lets the user pick", "parameters": parameters }])
}
