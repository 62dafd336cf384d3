//! What providers are sent.

use std::sync::Arc;

use handback_core::id::CallId;
use handback_core::store::{Attachment, Kept, Message, PartBody, ToolPart, ToolResult, ToolState, TurnError};
use handback_core::tools::ModelTool;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fake::{Fake, Request};
use super::{BOTH, KEY, MODEL, SPAN, TIME, Wire, ask, assistant, collect, hello, raw, settings, stream, text, user};
use crate::provider::Settings;

pub(super) const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";

pub(super) fn file(mime: &str, filename: Option<&str>, url: &str) -> Attachment {
    Attachment { mime: mime.to_owned(), filename: filename.map(str::to_owned), url: url.to_owned() }
}

fn thought(text: &str, signature: Option<&str>) -> PartBody {
    let kept = signature.map(|signature| Kept::new(&signature).unwrap());
    PartBody::Reasoning { text: text.to_owned(), kept, span: SPAN }
}

fn tool(call: &str, provider_call: &str, alias: &str, state: ToolState) -> PartBody {
    PartBody::Tool(ToolPart {
        call: CallId::parse(call).unwrap(),
        provider_call: provider_call.to_owned(),
        alias: alias.into(),
        tool: alias.into(),
        request: None,
        is_cut: false,
        is_half_said: false,
        kept: None,
        state,
    })
}

fn completed(input: &str, output: &str, attachments: Vec<Attachment>) -> ToolState {
    let result = ToolResult::Completed { title: String::new(), output: output.to_owned(), metadata: None, attachments };
    ToolState::Done { input: raw(input), start: TIME, end: TIME, result }
}

fn failed(error: &str) -> ToolState {
    ToolState::Done { input: raw("{}"), start: TIME, end: TIME, result: ToolResult::Failed(error.to_owned()) }
}

/// A conversation with a bit of everything, in which the first answer is this provider's own.
fn conversation(provider: &str) -> Vec<Arc<Message>> {
    let cut = Some(TurnError::Other("cut".to_owned()));
    vec![
        user(vec![
            text("Look at this."),
            PartBody::File(file("image/png", Some("a.png"), PNG)),
            PartBody::File(file("image/JPG; q=1", None, "https://example.com/b.jpg")),
            PartBody::File(file("text/plain", Some("c.txt"), "data:text/plain;base64,aGVsbG8=")),
            PartBody::File(file("application/pdf", Some("d.pdf"), "data:application/pdf;base64,AAAA")),
        ]),
        assistant(
            provider,
            None,
            vec![
                PartBody::StepStart,
                thought("Hm.", Some("SIGNED")),
                thought("Unsigned.", None),
                text("I take a picture."),
                text(" \n"),
                text("Or two."),
                tool(
                    "cal_1",
                    "p:1",
                    "screenshot",
                    completed(
                        r#"{"full": true}"#,
                        "Taken.",
                        vec![
                            file("application/zip", None, "https://example.com/e.zip"),
                            file("image/png", Some("f.png"), PNG),
                        ],
                    ),
                ),
                tool("cal_2", "p:2", "made up!", failed("There is no such tool.")),
                tool("cal_3", "p:3", "list", ToolState::Pending { raw: r#"{"dir": "#.to_owned() }),
                tool("cal_4", "", "list", completed("{}", "", vec![])),
            ],
        ),
        assistant(provider, cut, vec![PartBody::StepStart, thought("Just thought.", Some("SIGNED"))]),
        user(vec![text("And now?")]),
        user(vec![text("")]),
        assistant(
            "other",
            None,
            vec![
                thought("Signed by another.", Some("OTHER")),
                tool(
                    "cal_5",
                    "functions.list:0",
                    "list",
                    ToolState::Running { input: raw(r#"{"dir":"/"}"#), start: TIME },
                ),
                tool("cal_6", "functions.list:1", "list", completed("{}", &"x".repeat(50), vec![])),
            ],
        ),
    ]
}

fn tools<'a>(complete: &'a RawValue, bare: &'a RawValue) -> [ModelTool<'a>; 2] {
    let tool = |alias, description, schema| ModelTool { alias, id: "client_x_y", name: "y", description, schema };
    [tool("screenshot", "Takes a picture.", complete), tool("list", "", bare)]
}

/// What is sent of the whole conversation.
async fn sent(wire: Wire, change: impl FnOnce(&mut Settings)) -> Request {
    let fake = Fake::start().await;
    let mut settings = settings(wire, &fake);
    change(&mut settings);
    let model = wire.model(settings);
    let complete = raw(r#"{"properties":{"full":{"type":"boolean"}},"type":"object"}"#);
    let bare = raw(r#"{ "additionalProperties": false }"#);
    let answer = stream(&*model, &conversation(wire.name()), &tools(&complete, &bare));
    let (events, request) = tokio::join!(collect(answer), fake.stream(wire.stream()));
    assert_eq!(events, hello());
    request
}

const LEFT_OPEN: &str = "The turn ended before this call was over; its outcome is unknown.";

fn openai_calls() -> Value {
    json!([
        {"id": "p:1", "type": "function", "function": {"name": "screenshot", "arguments": "{\"full\": true}"}},
        {"id": "p:2", "type": "function", "function": {"name": "made_up_", "arguments": "{}"}},
        {"id": "p:3", "type": "function", "function": {"name": "list", "arguments": "{}"}},
        {"id": "cal_4", "type": "function", "function": {"name": "list", "arguments": "{}"}},
    ])
}

fn openai_end() -> [Value; 3] {
    [
        json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "cal_5", "type": "function", "function": {"name": "list", "arguments": "{\"dir\":\"/\"}"}},
            {"id": "cal_6", "type": "function", "function": {"name": "list", "arguments": "{}"}},
        ]}),
        json!({"role": "tool", "tool_call_id": "cal_5", "content": LEFT_OPEN}),
        json!({"role": "tool", "tool_call_id": "cal_6", "content": format!("{}\n\n[cut: 40 of 50 bytes are shown]", "x".repeat(40))}),
    ]
}

#[tokio::test]
async fn openai_with_images() {
    let request = sent(Wire::OpenAi, |_| {}).await;
    let [asked, first, second] = openai_end();
    let expected = json!({
        "model": MODEL,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": [
            {"role": "system", "content": "Be short."},
            {"role": "user", "content": [
                {"type": "text", "text": "Look at this."},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "image_url", "image_url": {"url": "https://example.com/b.jpg"}},
                {"type": "text", "text": "[attachment: c.txt, text/plain]\nhello"},
                {"type": "text", "text": "[attachment: d.pdf, application/pdf]"},
            ]},
            {"role": "assistant", "content": "I take a picture.\n\nOr two.", "tool_calls": openai_calls()},
            {"role": "tool", "tool_call_id": "p:1", "content": "Taken.\n\n[attachment: application/zip]"},
            {"role": "tool", "tool_call_id": "p:2", "content": "There is no such tool."},
            {"role": "tool", "tool_call_id": "p:3", "content": LEFT_OPEN},
            {"role": "tool", "tool_call_id": "cal_4", "content": ""},
            {"role": "user", "content": [
                {"type": "text", "text": "[images from the result of screenshot, call p:1]"},
                {"type": "image_url", "image_url": {"url": PNG}},
                {"type": "text", "text": "And now?"},
                {"type": "text", "text": "[empty message]"},
            ]},
            asked, first, second,
        ],
        "tools": [
            {"type": "function", "function": {"name": "screenshot", "description": "Takes a picture.", "parameters": {
                "properties": {"full": {"type": "boolean"}}, "type": "object",
            }}},
            {"type": "function", "function": {"name": "list", "description": "", "parameters": {
                "type": "object", "properties": {}, "additionalProperties": false,
            }}},
        ],
    });
    assert_eq!(request.body, expected);
    assert_eq!(request.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("accept"), Some("text/event-stream"));
    assert_eq!(request.head.lines().next(), Some("POST /v1/chat/completions HTTP/1.1"));
}

#[tokio::test]
async fn openai_without_images() {
    let request = sent(Wire::OpenAi, |settings| {
        settings.images = false;
        settings.max_tokens = Some(77);
    })
    .await;
    let [asked, first, second] = openai_end();
    let user = "Look at this.\n\n[attachment: a.png, image/png]\n\n[attachment: image/JPG; q=1]\n\n\
                [attachment: c.txt, text/plain]\nhello\n\n[attachment: d.pdf, application/pdf]";
    let expected = json!([
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": user},
        {"role": "assistant", "content": "I take a picture.\n\nOr two.", "tool_calls": openai_calls()},
        {"role": "tool", "tool_call_id": "p:1",
         "content": "Taken.\n\n[attachment: application/zip]\n\n[attachment: f.png, image/png]"},
        {"role": "tool", "tool_call_id": "p:2", "content": "There is no such tool."},
        {"role": "tool", "tool_call_id": "p:3", "content": LEFT_OPEN},
        {"role": "tool", "tool_call_id": "cal_4", "content": ""},
        {"role": "user", "content": "And now?\n\n[empty message]"},
        asked, first, second,
    ]);
    assert_eq!(request.body["messages"], expected);
    assert_eq!(request.body["max_tokens"], 77);
}

fn anthropic_messages(shown_to: Value, taken: Value) -> Value {
    let says = |text: &str| json!([{"type": "text", "text": text}]);
    json!([
        {"role": "user", "content": shown_to},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "SIGNED"},
            {"type": "text", "text": "I take a picture."},
            {"type": "text", "text": "Or two."},
            {"type": "tool_use", "id": "p:1", "name": "screenshot", "input": {"full": true}},
            {"type": "tool_use", "id": "p:2", "name": "made_up_", "input": {}},
            {"type": "tool_use", "id": "p:3", "name": "list", "input": {}},
            {"type": "tool_use", "id": "cal_4", "name": "list", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "p:1", "content": taken},
            {"type": "tool_result", "tool_use_id": "p:2", "content": says("There is no such tool."), "is_error": true},
            {"type": "tool_result", "tool_use_id": "p:3", "content": says(LEFT_OPEN), "is_error": true},
            {"type": "tool_result", "tool_use_id": "cal_4"},
            {"type": "text", "text": "And now?"},
            {"type": "text", "text": "[empty message]"},
        ]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "cal_5", "name": "list", "input": {"dir": "/"}},
            {"type": "tool_use", "id": "cal_6", "name": "list", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "cal_5", "content": says(LEFT_OPEN), "is_error": true},
            {"type": "tool_result", "tool_use_id": "cal_6",
             "content": says(&format!("{}\n\n[cut: 40 of 50 bytes are shown]", "x".repeat(40)))},
        ]},
    ])
}

#[tokio::test]
async fn anthropic_with_images() {
    let request = sent(Wire::Anthropic, |_| {}).await;
    let png = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let expected = json!({
        "model": MODEL,
        "max_tokens": 8192,
        "stream": true,
        "system": "Be short.",
        "messages": anthropic_messages(
            json!([
                {"type": "text", "text": "Look at this."},
                png,
                {"type": "image", "source": {"type": "url", "url": "https://example.com/b.jpg"}},
                {"type": "text", "text": "[attachment: c.txt, text/plain]\nhello"},
                {"type": "text", "text": "[attachment: d.pdf, application/pdf]"},
            ]),
            json!([{"type": "text", "text": "Taken."}, {"type": "text", "text": "[attachment: application/zip]"}, png]),
        ),
        "tools": [
            {"name": "screenshot", "description": "Takes a picture.", "input_schema": {
                "properties": {"full": {"type": "boolean"}}, "type": "object",
            }},
            {"name": "list", "description": "", "input_schema": {
                "type": "object", "properties": {}, "additionalProperties": false,
            }},
        ],
    });
    assert_eq!(request.body, expected);
    assert_eq!(request.header("x-api-key"), Some(KEY));
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(request.head.lines().next(), Some("POST /v1/messages HTTP/1.1"));
}

#[tokio::test]
async fn anthropic_without_images() {
    let request = sent(Wire::Anthropic, |settings| {
        settings.images = false;
        settings.max_tokens = Some(77);
    })
    .await;
    let says = |text: &str| json!({"type": "text", "text": text});
    let expected = anthropic_messages(
        json!([
            says("Look at this."),
            says("[attachment: a.png, image/png]"),
            says("[attachment: image/JPG; q=1]"),
            says("[attachment: c.txt, text/plain]\nhello"),
            says("[attachment: d.pdf, application/pdf]"),
        ]),
        json!([says("Taken."), says("[attachment: application/zip]"), says("[attachment: f.png, image/png]")]),
    );
    assert_eq!(request.body["messages"], expected);
    assert_eq!(request.body["max_tokens"], 77);
}

#[tokio::test]
async fn anthropic_is_told_of_tools_that_are_gone() {
    let fake = Fake::start().await;
    let model = Wire::Anthropic.model(settings(Wire::Anthropic, &fake));
    let answer = stream(&*model, &conversation("anthropic"), &[]);
    let (_, request) = tokio::join!(collect(answer), fake.stream(Wire::Anthropic.stream()));
    let gone = |name: &str| json!({"name": name, "description": "Not available any more.", "input_schema": {"type": "object"}});
    assert_eq!(request.body["tools"], json!([gone("list"), gone("made_up_"), gone("screenshot")]));
    assert_eq!(request.body["tool_choice"], json!({"type": "none"}));
}

#[tokio::test]
async fn without_tools_none_are_mentioned() {
    for wire in BOTH {
        let fake = Fake::start().await;
        let model = wire.model(settings(wire, &fake));
        let (_, request) = tokio::join!(collect(ask(&*model)), fake.stream(wire.stream()));
        assert_eq!(request.body.get("tools"), None);
        assert_eq!(request.body.get("tool_choice"), None);
    }
}

#[tokio::test]
async fn base_urls_may_end_in_a_slash_and_for_anthropic_in_a_version() {
    let cases = [
        (Wire::OpenAi, "/v1", "/v1/chat/completions"),
        (Wire::OpenAi, "/v1/", "/v1/chat/completions"),
        (Wire::OpenAi, "", "/chat/completions"),
        (Wire::OpenAi, "/api/v2/?api-version=3", "/api/v2/chat/completions?api-version=3"),
        (Wire::Anthropic, "", "/v1/messages"),
        (Wire::Anthropic, "/", "/v1/messages"),
        (Wire::Anthropic, "/v1", "/v1/messages"),
        (Wire::Anthropic, "/proxy/v1/", "/proxy/v1/messages"),
        (Wire::Anthropic, "/proxy", "/proxy/v1/messages"),
    ];
    for (wire, path, expected) in cases {
        let fake = Fake::start().await;
        let mut settings = settings(wire, &fake);
        settings.base_url = format!("{}{path}", fake.url.strip_suffix("/v1").unwrap());
        let model = wire.model(settings);
        let (_, request) = tokio::join!(collect(ask(&*model)), fake.stream(wire.stream()));
        assert_eq!(request.head.lines().next(), Some(&*format!("POST {expected} HTTP/1.1")));
    }
}
