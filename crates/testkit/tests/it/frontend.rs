//! Tools that a frontend runs, over real sockets: acks, claims, and the clock that a call is on.

mod acks;
mod bad_acks;
mod claims;
mod deadlines;
mod races;
mod tokens;

use handback_testkit::ChatStream;
use handback_testkit::chat::saying;
use serde_json::{Value, json};

use crate::world::World;

impl World {
    /// A chat whose model wants an address opened: its stream, and the call, which is handed out.
    async fn held(&self, chat: &str) -> (ChatStream, String) {
        self.held_with(chat, json!({ "url": "https://example.org/" })).await
    }

    /// The same with an input of the test's own.
    async fn held_with(&self, chat: &str, input: Value) -> (ChatStream, String) {
        self.model.will_call(&[("open-url", input)]);
        let mut stream = self.server.chat(&saying(chat, "u1", "open it")).await;
        let call = stream.call().await;
        (stream, call)
    }

    /// The model says its last word, and the stream is read to its end; what came of the calls, as the model saw it.
    async fn results(&self, stream: &mut ChatStream) -> Vec<String> {
        let asked = self.model.asked().await;
        let results = asked.shown.results.clone();
        asked.answer("Done.");
        stream.lines().await;
        results
    }
}

fn success(call: &str, output: Value) -> Value {
    json!({ "toolCallId": call, "status": "success", "output": output })
}

fn taken() -> Value {
    json!({ "ok": true })
}

fn ignored() -> Value {
    json!({ "ok": true, "ignored": true })
}

fn refused(reason: &str) -> Value {
    json!({ "ok": false, "reason": reason })
}
