//! What a model thought goes back to its provider as it came: in the next step of the turn, in later turns, and after a
//! restart. Nobody else is shown more of it than its text.

use handback_core::sessions::ModelEvent;
use handback_core::store::{ModelRef, StopReason};
use handback_server::config::{Config, ProviderKind};
use handback_testkit::session::{events_until, text_prompt};
use handback_testkit::{Scratch, TestServer, Upstream};
use serde_json::{Value, json};

use super::World;

/// A provider's kind, what it streams, and what it has to get back for it.
struct Case {
    kind: ProviderKind,
    stream: Vec<Value>,
    back: Value,
}

fn chunk(delta: Value) -> Value {
    json!({ "choices": [{ "index": 0, "delta": delta }] })
}

/// A stream of an OpenAI kind with a call, and what goes back: the members of the message besides those of the call.
fn openai(thoughts: &[Value], call: Value, back: Value) -> Case {
    let mut whole = json!({ "index": 0, "id": "p1", "type": "function",
        "function": { "name": "list_tools", "arguments": "{}" } });
    let mut stream: Vec<Value> = thoughts.iter().cloned().map(chunk).collect();
    merge(&mut whole, &call);
    stream.push(chunk(json!({ "tool_calls": [whole] })));
    stream.push(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }));
    stream.push("[DONE]".into());
    let mut call_back = whole;
    call_back.as_object_mut().unwrap().remove("index");
    let mut message = json!({ "role": "assistant", "content": null, "tool_calls": [call_back] });
    merge(&mut message, &back);
    Case { kind: ProviderKind::OpenAi, stream, back: message }
}

fn anthropic(blocks: &[Value]) -> Case {
    let call = json!({ "type": "tool_use", "id": "p1", "name": "list_tools", "input": {} });
    let content: Vec<Value> = blocks.iter().cloned().chain([call]).collect();
    let mut stream = vec![json!({ "type": "message_start", "message": { "id": "m1" } })];
    for (index, block) in content.iter().enumerate() {
        stream.push(json!({ "type": "content_block_start", "index": index, "content_block": block }));
        stream.push(json!({ "type": "content_block_stop", "index": index }));
    }
    stream.push(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }));
    stream.push(json!({ "type": "message_stop" }));
    Case { kind: ProviderKind::Anthropic, stream, back: json!({ "role": "assistant", "content": content }) }
}

fn merge(one: &mut Value, other: &Value) {
    let (one, other) = (one.as_object_mut().unwrap(), other.as_object().unwrap());
    one.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
}

fn cases() -> Vec<Case> {
    let signature = json!({ "extra_content": { "google": { "thought_signature": "c2ln/bmVk+A==" } } });
    let details = json!([{ "type": "reasoning.encrypted", "data": "opaque", "id": "r1", "format": "x", "index": 0 }]);
    let thinking = |text: &str| json!({ "type": "thinking", "thinking": [{ "type": "text", "text": text }] });
    let text = |text: &str| json!({ "type": "text", "text": text });
    vec![
        // DeepSeek.
        openai(
            &[
                json!({ "reasoning_content": "" }),
                json!({ "reasoning_content": "I wo" }),
                json!({ "reasoning_content": "nder." }),
            ],
            json!({}),
            json!({ "reasoning_content": "I wonder." }),
        ),
        // One that need not think.
        openai(
            &[json!({ "reasoning_content": "", "content": "So." })],
            json!({}),
            json!({ "reasoning_content": "", "content": "So." }),
        ),
        // OpenRouter.
        openai(
            &[json!({ "reasoning": "I wonder.", "reasoning_details": details })],
            json!({}),
            json!({ "reasoning": "I wonder.", "reasoning_details": details }),
        ),
        // Gemini: with the call, or with the message.
        openai(&[], signature.clone(), json!({})),
        openai(std::slice::from_ref(&signature), json!({}), signature.clone()),
        // Mistral.
        openai(
            &[
                json!({ "content": [thinking("I wo")] }),
                json!({ "content": [thinking("nder.")] }),
                json!({ "content": "So." }),
                json!({ "content": [thinking("And?"), text("Well.")] }),
            ],
            json!({}),
            json!({ "content": [thinking("I wonder."), text("So."), thinking("And?"), text("Well.")] }),
        ),
        anthropic(&[
            json!({ "type": "thinking", "thinking": "I wonder.", "signature": "c2lnbmVk" }),
            text("So."),
            json!({ "type": "redacted_thinking", "data": "opaque" }),
            json!({ "type": "thinking", "thinking": "And then.", "signature": "YWdhaW4=" }),
        ]),
        anthropic(&[json!({ "type": "thinking", "thinking": "Not signed." })]),
    ]
}

fn is_answer(message: &&Value) -> bool {
    message["role"] == "assistant"
}

/// The first answer of the model in the last request.
fn first_answer(upstream: &Upstream) -> Value {
    let request = upstream.requests().pop().expect("a request");
    request["messages"].as_array().unwrap().iter().find(is_answer).cloned().expect("an answer")
}

fn says(kind: ProviderKind, text: &str) -> Vec<Value> {
    match kind {
        ProviderKind::OpenAi => {
            vec![chunk(json!({ "content": text })), json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] })]
        }
        ProviderKind::Anthropic => vec![
            json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": text } }),
            json!({ "type": "message_stop" }),
        ],
    }
}

#[tokio::test]
async fn what_a_model_thought_goes_back_to_its_provider_and_to_no_other() {
    for Case { kind, stream, back } in cases() {
        let (upstream, other, scratch) = (Upstream::start().await, Upstream::start().await, Scratch::new());
        let configure = |config: &mut Config| {
            config.providers.insert("one".to_owned(), upstream.provider(kind));
            config.providers.insert("two".to_owned(), other.provider(kind));
            config.data = Some(scratch.path().to_owned());
        };
        let prompt = |provider: &str| {
            let mut prompt = text_prompt("go");
            prompt["model"] = json!({ "providerID": provider, "modelID": "m" });
            prompt
        };
        let server = TestServer::with(configure).await;
        let session = server.session(json!({})).await;
        upstream.will(&stream);
        upstream.will(&says(kind, "Done."));
        let answer = server.prompt_with(&session, prompt("one")).await.unwrap();
        assert_eq!(answer.body["info"]["error"], Value::Null, "{answer:?}");
        assert_eq!(first_answer(&upstream), back, "in the next step");

        let told = server.get(&format!("/session/{session}/message")).await.body.to_string();
        for secret in ["opaque", "c2ln/bmVk", "c2lnbmVk", "YWdhaW4=", "extra_content", "spellings"] {
            assert!(!told.contains(secret), "{secret} is shown: {told}");
        }
        server.stop().await;

        let server = TestServer::with(configure).await;
        upstream.will(&says(kind, "Again."));
        server.prompt_with(&session, prompt("one")).await.unwrap();
        assert_eq!(first_answer(&upstream), back, "after a restart");

        other.will(&says(kind, "Me?"));
        server.prompt_with(&session, prompt("two")).await.unwrap();
        let shown = first_answer(&other).to_string();
        // Words that are long or have a space: a short one may stand in a call's id by chance.
        for secret in
            ["wonder", "Not signed", "opaque", "c2ln/bmVk", "c2lnbmVk", "reasoning", "extra_content", "thinking"]
        {
            assert!(!shown.contains(secret), "{secret} is shown to another provider: {shown}");
        }
    }
}

/// A provider of an OpenAI kind, a server whose model it has, and a session there.
async fn asking() -> (Upstream, TestServer, String) {
    let upstream = Upstream::start().await;
    let server = TestServer::with(|config| {
        config.providers.insert("one".to_owned(), upstream.provider(ProviderKind::OpenAi));
        config.model = ModelRef::parse("one/m").unwrap();
    })
    .await;
    let session = server.session(json!({})).await;
    (upstream, server, session)
}

#[tokio::test]
async fn ids_that_a_provider_repeats_are_told_apart_when_they_go_back() {
    let (upstream, server, session) = asking().await;
    let call =
        |index: usize| json!({ "index": index, "id": "same", "function": { "name": "list_tools", "arguments": "{}" } });
    upstream.will(&[chunk(json!({ "tool_calls": [call(0), call(1)] })), "[DONE]".into()]);
    upstream.will(&says(ProviderKind::OpenAi, "Done."));
    server.say(&session, "go").await;
    let messages = upstream.requests()[1]["messages"].as_array().unwrap().clone();
    let ids = |name: &str| -> Vec<Value> {
        let calls = messages.iter().flat_map(|message| message["tool_calls"].as_array().into_iter().flatten());
        match name {
            "id" => calls.map(|call| call["id"].clone()).collect(),
            name => messages.iter().filter_map(|message| message.get(name).cloned()).collect(),
        }
    };
    let called = ids("id");
    assert_eq!(called, ids("tool_call_id"));
    assert_eq!(called[0], "same");
    assert!(called[1].as_str().unwrap().starts_with("cal_"), "{called:?}");
}

/// A call without the thoughts that led to it is refused by some; one that was half said is not worth telling.
#[tokio::test]
async fn a_call_that_was_cut_off_does_not_go_back() {
    let (upstream, server, session) = asking().await;
    let call = json!({ "index": 0, "id": "p1", "function": { "name": "list_tools", "arguments": "{}" } });
    upstream.will(&[chunk(json!({ "reasoning_content": "Hm." })), chunk(json!({ "tool_calls": [call] }))]);
    assert_eq!(server.say(&session, "go").await["info"]["error"]["name"], "APIError");
    upstream.will(&says(ProviderKind::OpenAi, "Done."));
    assert_eq!(server.say(&session, "go on").await["info"]["error"], Value::Null);
    let expected = json!([{ "role": "user", "content": "go\n\ngo on" }]);
    assert_eq!(upstream.requests()[1]["messages"], expected);
}

/// A provider that begins anew in the middle of an answer: its first attempt is as if it had never been.
#[tokio::test]
async fn an_answer_that_begins_anew_leaves_nothing_of_the_first_attempt() {
    let mut world = World::start().await;
    let mut events = world.server.events().await;
    let attempt = |text: &str| {
        vec![
            Ok(ModelEvent::Reasoning(format!("thinks {text}"))),
            Ok(ModelEvent::Text(text.to_owned())),
            Ok(ModelEvent::CallStarted { index: 0, id: "p".to_owned(), name: "client_tab_b".to_owned() }),
            Ok(ModelEvent::Arguments { index: 0, delta: "{}".to_owned() }),
        ]
    };
    let end = vec![Ok(ModelEvent::CallEnded { index: 0, kept: None }), Ok(ModelEvent::Stop(StopReason::ToolCalls))];
    world.model.will([attempt("first"), vec![Ok(ModelEvent::Restarted)], attempt("second"), end].concat());
    world.model.will(vec![Ok(ModelEvent::Text("Done.".to_owned())), Ok(ModelEvent::Stop(StopReason::Stop))]);
    let prompt = world.server.prompt(&world.session, "go");
    world.answer_next("once").await;
    prompt.await.unwrap();
    let expected = [
        "user | go",
        "assistant | (thinks second) | second | client_tab_b {} → once | <tool-calls>",
        "assistant | Done. | <stop>",
    ];
    assert_eq!(world.history().await, expected);
    assert_eq!(world.server.get("/client-tools/calls").await.body.as_array().unwrap().len(), 1);
    let seen = events_until(&mut events, "session.idle").await;
    let ids = |kind: &str| -> Vec<Value> {
        let of_kind = seen.iter().filter(|event| event["type"] == kind);
        of_kind.map(|event| event["properties"]["partID"].clone()).collect()
    };
    // What it thought, its text and its call.
    assert_eq!(ids("message.part.removed").len(), 3, "{seen:?}");
}
