//! A page that shows a chat: what it posts, the UI message stream that it reads, and its acks and claims.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::frames::{self, Frames};
use crate::server::{Answer, TestServer};
use crate::tidy::Tidier;

/// A UI message stream that is being read, byte by byte: a frame that is no chunk is a failed test.
pub struct ChatStream {
    /// What it was answered with.
    pub headers: HeaderMap,
    frames: Frames,
    chunks: Vec<Value>,
}

impl ChatStream {
    /// Opens a stream; it must be answered with 200.
    pub async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the server answers");
        if response.status() != 200 {
            panic!("{}: {:?}", response.status(), response.text().await);
        }
        Self { headers: response.headers().clone(), frames: Frames::of(response), chunks: Vec::new() }
    }

    /// The next chunk; `None` when the stream has said that it is done, and is.
    pub async fn try_next(&mut self) -> Option<Value> {
        let frame = self.frames.next().await.expect("the stream ends with [DONE]");
        let data = frame.strip_prefix("data: ").unwrap_or_else(|| panic!("a frame of data: {frame:?}"));
        if data == "[DONE]" {
            assert_eq!(self.frames.next().await, None, "nothing follows [DONE]");
            return None;
        }
        let chunk: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        self.chunks.push(chunk.clone());
        Some(chunk)
    }

    /// The next chunk.
    pub async fn next(&mut self) -> Value {
        self.try_next().await.expect("the stream goes on")
    }

    /// Reads up to the next chunk of that type; gives it.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let chunk = self.next().await;
            if chunk["type"] == kind {
                return chunk;
            }
        }
    }

    /// Reads up to the next call that is handed out; gives its id.
    pub async fn call(&mut self) -> String {
        self.until("tool-input-available").await["toolCallId"].as_str().expect("an id").to_owned()
    }

    /// Reads up to the end; gives every chunk since the beginning, one line each: the type and the other fields, ids
    /// numbered, pieces that follow each other as one.
    pub async fn lines(&mut self) -> Vec<String> {
        while self.try_next().await.is_some() {}
        lines(&self.chunks)
    }

    /// Reads up to where the stream is cut; gives the types of all chunks. It must not be whole.
    pub async fn until_cut(&mut self) -> Vec<String> {
        for frame in self.frames.until_cut().await {
            let data = frame.strip_prefix("data: ").unwrap_or_else(|| panic!("a frame of data: {frame:?}"));
            assert_ne!(data, "[DONE]", "the stream is cut");
            self.chunks.push(serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}")));
        }
        self.chunks.iter().map(|chunk| chunk["type"].as_str().expect("a type").to_owned()).collect()
    }

    /// The chunks so far.
    pub fn seen(&self) -> &[Value] {
        &self.chunks
    }
}

/// Chunks in lines; see [`ChatStream::lines`].
pub fn lines(chunks: &[Value]) -> Vec<String> {
    frames::lines(chunks, &mut Tidier::default())
}

/// What a page posts: the user says something in a chat.
pub fn saying(chat: &str, message: &str, text: &str) -> Value {
    json!({ "id": chat, "messages": [user(message, text)], "trigger": "submit-message" })
}

/// A user's message, as pages have it.
pub fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "parts": [{ "type": "text", "text": text }] })
}

/// An assistant's message, as pages have it.
pub fn assistant(id: &str, parts: Value) -> Value {
    json!({ "id": id, "role": "assistant", "parts": parts })
}

/// A call in an assistant's message that the page has run.
pub fn ran(tool: &str, call: &str, output: Value) -> Value {
    json!({
        "type": format!("tool-{tool}"), "toolCallId": call, "state": "output-available", "input": {}, "output": output,
    })
}

impl TestServer {
    /// Posts to a chat; the answer must be a stream.
    pub async fn chat(&self, body: &Value) -> ChatStream {
        ChatStream::open(self.request(Method::POST, "/api/chat").json(body)).await
    }

    /// Posts to a chat what must be refused. A stream is not read: it might never end.
    pub async fn refused_chat(&self, body: &Value) -> Answer {
        let response = self.request(Method::POST, "/api/chat").json(body).send().await.expect("the server answers");
        assert_ne!(response.status().as_u16(), 200, "{body}");
        Answer::read(response).await
    }

    /// Posts to a chat, and reads the stream to its end.
    pub async fn chat_lines(&self, body: &Value) -> Vec<String> {
        self.chat(body).await.lines().await
    }

    /// Comes back to a chat whose turn is under way; `chat` is encoded as paths are.
    pub async fn resume_chat(&self, chat: &str) -> ChatStream {
        ChatStream::open(self.request(Method::GET, &format!("/api/chat/{chat}/stream"))).await
    }

    /// Says how a call went.
    pub async fn ack(&self, body: &Value) -> Answer {
        self.post("/api/tools/ack", body.clone()).await
    }

    /// Says that a call went well, with this output; it must count.
    pub async fn ack_success(&self, call: &str, output: Value) {
        let ack = json!({ "toolCallId": call, "status": "success", "output": output });
        self.ack(&ack).await.must_be(200, &json!({ "ok": true }));
    }

    /// Claims a call.
    pub async fn claim(&self, call: &str, claimant: &str) -> Answer {
        self.post("/api/tools/claim", json!({ "toolCallId": call, "claimant": claimant })).await
    }

    /// Lets go of a call.
    pub async fn release(&self, call: &str, claimant: &str) -> Answer {
        self.post("/api/tools/claim", json!({ "toolCallId": call, "claimant": claimant, "release": true })).await
    }
}
