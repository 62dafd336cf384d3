//! A page that speaks AG-UI: what it posts, the streams that it reads, and what it makes of them.
//!
//! Every stream is watched over by [`Rules`]: one that breaks them is a failed test, whatever the test is about.

pub mod rules;

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use crate::frames::{self, Frames};
use crate::server::{Answer, TestServer};
use crate::tidy::Tidier;
pub use rules::Rules;

/// A run's stream that is being read, byte by byte: a frame that is no event, or comes where it may not, is a failed
/// test.
pub struct AguiStream {
    /// What it was answered with.
    pub headers: HeaderMap,
    frames: Frames,
    rules: Option<Rules>,
    events: Vec<Value>,
    ids: Vec<String>,
}

impl AguiStream {
    /// Opens the stream that answers this input; it must be answered with 200.
    pub async fn open(request: RequestBuilder, input: &Value) -> Self {
        Self { rules: Some(Rules::new(input)), ..Self::read(request.json(input)).await }
    }

    /// Opens a stream that does not begin with a run's beginning; whoever reads it checks what it is a part of.
    pub async fn read(request: RequestBuilder) -> Self {
        let response = request.send().await.expect("the server answers");
        if response.status() != 200 {
            panic!("{}: {:?}", response.status(), response.text().await);
        }
        let (headers, frames) = (response.headers().clone(), Frames::of(response));
        Self { headers, frames, rules: None, events: Vec::new(), ids: Vec::new() }
    }

    /// The next event; `None` when the stream is over, which it may be after a terminal event alone.
    pub async fn try_next(&mut self) -> Option<Value> {
        let Some(frame) = self.frames.next().await else {
            if let Some(rules) = &self.rules {
                rules.end().unwrap_or_else(|broken| panic!("{broken}; it was {:#?}", self.events));
            }
            return None;
        };
        let event = self.event(&frame);
        if let Some(rules) = &mut self.rules {
            rules.take(&event).unwrap_or_else(|broken| panic!("{broken}; before it came {:#?}", self.events));
        }
        self.events.push(event.clone());
        Some(event)
    }

    /// Takes a frame apart: one line of data, and one with an id where frames have ids.
    fn event(&mut self, frame: &str) -> Value {
        assert!(!frame.contains('\r'), "lines end with LF alone: {frame:?}");
        let mut data = None;
        for line in frame.split('\n') {
            match line.split_once(": ") {
                Some(("data", text)) if data.is_none() => data = Some(text),
                Some(("id", id)) => self.ids.push(id.to_owned()),
                _ => panic!("a frame has one line of data: {frame:?}"),
            }
        }
        let data = data.unwrap_or_else(|| panic!("a frame of data: {frame:?}"));
        let event: Value = serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {data}"));
        assert!(event["type"].is_string(), "an event has a type: {data}");
        event
    }

    /// The next event.
    pub async fn next(&mut self) -> Value {
        self.try_next().await.expect("the stream goes on")
    }

    /// Reads up to the next event of that type; gives it.
    pub async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await;
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Waits for a comment, which readers pass over; there must be no event before it.
    pub async fn comment(&mut self) -> String {
        let frame = self.frames.next_of_any_kind().await.expect("the stream goes on");
        assert!(frame.starts_with(':'), "a comment: {frame:?}");
        frame
    }

    /// Reads up to the end; gives every event since the beginning, one line each: the type and the other fields, ids
    /// numbered, pieces that follow each other as one.
    pub async fn lines(&mut self) -> Vec<String> {
        self.lines_with(&mut Tidier::default()).await
    }

    /// The same, with the names that ids have elsewhere.
    pub async fn lines_with(&mut self, tidier: &mut Tidier) -> Vec<String> {
        while self.try_next().await.is_some() {}
        frames::lines(&self.events, tidier)
    }

    /// Reads up to the end; gives the last event.
    pub async fn last(&mut self) -> Value {
        while self.try_next().await.is_some() {}
        self.events.last().cloned().expect("a stream says something")
    }

    /// The events so far.
    pub fn seen(&self) -> &[Value] {
        &self.events
    }

    /// The ids of the frames so far, where they have some.
    pub fn ids(&self) -> &[String] {
        &self.ids
    }

    /// The calls so far, by tool, in their order.
    pub fn calls(&self, tool: &str) -> Vec<String> {
        let calls = self.events.iter().filter(|event| event["toolCallName"] == tool);
        calls.map(|call| call["toolCallId"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// The interrupts that it ended with.
    pub fn interrupts(&self) -> Vec<Value> {
        let last = self.events.last().expect("a stream says something");
        last["outcome"]["interrupts"].as_array().cloned().unwrap_or_default()
    }
}

/// Which generation of the protocol a page speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Generation {
    /// Before 1.0: there is no `protocolVersion`.
    Old,
    /// 1.0.
    New,
}

/// A page: it keeps the conversation as clients of AG-UI do, and sends all of it every time.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its thread.
    pub thread: String,
    /// The conversation as it knows it.
    pub messages: Vec<Value>,
    /// Its tools.
    pub tools: Value,
    /// What else its inputs have; may replace what they would have.
    pub more: Value,
    /// What it speaks.
    pub generation: Generation,
    runs: usize,
    results: usize,
}

impl Page {
    /// A page with a tool `pick`, which takes an integer `n`.
    pub fn new(thread: &str) -> Self {
        let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        Self {
            thread: thread.to_owned(),
            messages: Vec::new(),
            tools: json!([{ "name": "pick", "description": "Lets the user pick", "parameters": parameters }]),
            more: json!({}),
            generation: Generation::Old,
            runs: 0,
            results: 0,
        }
    }

    /// One that speaks that generation of the protocol.
    pub fn speaking(thread: &str, generation: Generation) -> Self {
        Self { generation, ..Self::new(thread) }
    }

    /// The user says something.
    pub fn say(&mut self, message: &str, text: &str) {
        self.messages.push(user(message, text));
    }

    /// The page has run a call.
    pub fn answer(&mut self, call: &str, content: impl Into<Value>) {
        self.results += 1;
        self.messages.push(result(&format!("result-{}", self.results), call, content));
    }

    /// What it posts next.
    pub fn input(&mut self) -> Value {
        self.runs += 1;
        let mut input = json!({
            "threadId": self.thread, "runId": format!("r{}", self.runs), "messages": self.messages, "tools": self.tools,
            "context": [], "forwardedProps": {}, "state": {},
        });
        let fields = input.as_object_mut().expect("an input is an object");
        if self.generation == Generation::New {
            fields.insert("protocolVersion".to_owned(), "1.0".into());
        }
        fields.extend(self.more.as_object().expect("an object").clone());
        input
    }

    /// Begins a run.
    pub async fn begin(&mut self, server: &TestServer) -> AguiStream {
        server.agui(&self.input()).await
    }

    /// Runs, and takes what the run tells; gives the stream that has ended.
    pub async fn run(&mut self, server: &TestServer) -> AguiStream {
        let mut stream = self.begin(server).await;
        self.read(&mut stream).await;
        stream
    }

    /// Runs, answering interrupts.
    pub async fn resume(&mut self, server: &TestServer, resume: Value) -> AguiStream {
        let mut input = self.input();
        input["resume"] = resume;
        let mut stream = server.agui(&input).await;
        self.read(&mut stream).await;
        stream
    }

    /// Reads a stream to its end, and takes what it tells.
    pub async fn read(&mut self, stream: &mut AguiStream) {
        stream.last().await;
        self.take(stream.seen());
    }

    /// Makes of events what clients make of them.
    pub fn take(&mut self, events: &[Value]) {
        for event in events {
            match event["type"].as_str().unwrap_or_default() {
                "TEXT_MESSAGE_START" => _ = self.message(&event["messageId"]),
                "TEXT_MESSAGE_CONTENT" => {
                    let message = self.message(&event["messageId"]);
                    append(&mut message["content"], &event["delta"]);
                }
                "REASONING_MESSAGE_START" => {
                    self.messages.push(json!({ "id": event["messageId"], "role": "reasoning", "content": "" }));
                }
                "REASONING_MESSAGE_CONTENT" => {
                    let message = self.messages.iter_mut().rfind(|message| message["id"] == event["messageId"]);
                    append(&mut message.expect("it has begun")["content"], &event["delta"]);
                }
                "TOOL_CALL_START" => self.begin_call(event),
                "TOOL_CALL_ARGS" => {
                    let call = self.call(&event["toolCallId"]);
                    append(&mut call["function"]["arguments"], &event["delta"]);
                }
                "TOOL_CALL_RESULT" => {
                    let [id, call, content] = ["messageId", "toolCallId", "content"].map(|key| event[key].clone());
                    self.messages.push(json!({ "id": id, "role": "tool", "toolCallId": call, "content": content }));
                }
                _ => {}
            }
        }
    }

    /// The assistant's message of that id, which is made when there is none.
    fn message(&mut self, id: &Value) -> &mut Value {
        let known = self.messages.iter().position(|message| message["id"] == *id);
        let place = known.unwrap_or_else(|| {
            self.messages.push(json!({ "id": id, "role": "assistant", "content": "" }));
            self.messages.len() - 1
        });
        &mut self.messages[place]
    }

    fn begin_call(&mut self, event: &Value) {
        let parent = event.get("parentMessageId").unwrap_or(&event["toolCallId"]);
        let function = json!({ "name": event["toolCallName"], "arguments": "" });
        let call = json!({ "id": event["toolCallId"], "type": "function", "function": function });
        let message = self.message(parent);
        match message["toolCalls"].as_array_mut() {
            Some(calls) => calls.push(call),
            None => message["toolCalls"] = json!([call]),
        }
    }

    fn call(&mut self, id: &Value) -> &mut Value {
        let calls = self.messages.iter_mut().filter_map(|message| message.get_mut("toolCalls")?.as_array_mut());
        calls.flatten().find(|call| call["id"] == *id).expect("the call has begun")
    }
}

fn append(text: &mut Value, delta: &Value) {
    let [before, delta] = [&*text, delta].map(|text| text.as_str().unwrap_or_default());
    *text = format!("{before}{delta}").into();
}

/// A user's message.
pub fn user(id: &str, text: &str) -> Value {
    json!({ "id": id, "role": "user", "content": text })
}

/// The message that says what came of a call.
pub fn result(id: &str, call: &str, content: impl Into<Value>) -> Value {
    json!({ "id": id, "role": "tool", "toolCallId": call, "content": content.into() })
}

/// An answer to an interrupt.
pub fn resolved(interrupt: &Value, payload: Value) -> Value {
    json!({ "interruptId": interrupt["id"], "status": "resolved", "payload": payload })
}

impl TestServer {
    /// Runs the default agent; the answer must be a stream.
    pub async fn agui(&self, input: &Value) -> AguiStream {
        AguiStream::open(self.request(Method::POST, "/agui"), input).await
    }

    /// Posts an input that must be refused. A stream is not read: it might never end.
    pub async fn refused_agui(&self, path: &str, input: &Value) -> Answer {
        refused(self.request(Method::POST, path).json(input)).await
    }
}

/// Sends what must be refused. A stream is not read: it might never end.
pub async fn refused(request: RequestBuilder) -> Answer {
    let response = request.send().await.expect("the server answers");
    assert_ne!(response.status().as_u16(), 200);
    Answer::read(response).await
}
