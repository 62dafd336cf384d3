//! Writes a conversation as the request for a message.

use std::borrow::Cow;
use std::collections::BTreeSet;

use handback_core::sessions::ModelRequest;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::conversation::{CallInput, ChatEntry, ContentPiece, Image, PastCall, Step, StepPart, schema};
use super::KeptThought;

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<ToolChoice>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: ImageSource<'a>,
    },
    Thinking {
        thinking: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    RedactedThinking {
        data: String,
    },
    ToolUse {
        id: &'a str,
        name: Cow<'a, str>,
        input: CallInput<'a>,
    },
    ToolResult {
        tool_use_id: &'a str,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Block<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ImageSource<'a> {
    Base64 { media_type: &'static str, data: &'a str },
    Url { url: &'a str },
}

#[derive(Serialize)]
struct Tool<'a> {
    name: Cow<'a, str>,
    description: &'a str,
    input_schema: Cow<'a, RawValue>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ToolChoice {
    None,
}

/// The body of the request.
pub(super) fn body<'a>(
    request: &ModelRequest<'a>,
    entries: Vec<ChatEntry<'a>>,
    max_tokens: u32,
) -> serde_json::Result<Vec<u8>> {
    let mut tools: Vec<Tool<'a>> = request
        .tools
        .iter()
        .map(|tool| Tool { name: tool.alias.into(), description: tool.description, input_schema: schema(tool) })
        .collect();
    let mut tool_choice = None;
    if tools.is_empty() {
        tools = bygone_tools(&entries)?;
        tool_choice = (!tools.is_empty()).then_some(ToolChoice::None);
    }
    let body = Body {
        model: request.model,
        max_tokens,
        stream: true,
        system: request.system.filter(|system| !system.trim().is_empty()),
        messages: messages(entries),
        tools,
        tool_choice,
    };
    serde_json::to_vec(&body)
}

/// Stands for tools that were called before and are gone, because a request with calls must define tools.
fn bygone_tools<'a>(entries: &[ChatEntry<'a>]) -> serde_json::Result<Vec<Tool<'a>>> {
    let steps = entries.iter().filter_map(|entry| match entry {
        ChatEntry::User(_) => None,
        ChatEntry::Model(step) => Some(step),
    });
    let names: BTreeSet<&Cow<'a, str>> = steps.flat_map(Step::calls).map(|call| &call.name).collect();
    let input_schema: &RawValue = serde_json::from_str(r#"{"type":"object"}"#)?;
    let (description, input_schema) = ("Not available any more.", Cow::Borrowed(input_schema));
    let tool = |name: &Cow<'a, str>| Tool { name: name.clone(), description, input_schema: input_schema.clone() };
    Ok(names.into_iter().map(tool).collect())
}

fn messages<'a>(entries: Vec<ChatEntry<'a>>) -> Vec<Message<'a>> {
    let mut messages = Vec::with_capacity(2 * entries.len());
    // The results of a step, which must come first in the user's next message.
    let mut results: Vec<Block<'a>> = Vec::new();
    for entry in entries {
        match entry {
            ChatEntry::User(pieces) => {
                results.extend(pieces.into_iter().map(block));
                messages.extend(user(std::mem::take(&mut results)));
            }
            ChatEntry::Model(step) => {
                messages.extend(user(std::mem::take(&mut results)));
                let content = said(step, &mut results);
                messages.push(Message { role: "assistant", content });
            }
        }
    }
    messages.extend(user(results));
    messages
}

fn user(content: Vec<Block<'_>>) -> Option<Message<'_>> {
    (!content.is_empty()).then_some(Message { role: "user", content })
}

fn block(piece: ContentPiece<'_>) -> Block<'_> {
    match piece {
        ContentPiece::Text(text) => Block::Text { text },
        ContentPiece::Image(image) => Block::Image { source: source(image) },
    }
}

fn source(image: Image<'_>) -> ImageSource<'_> {
    match image.base64 {
        Some(data) => ImageSource::Base64 { media_type: image.mime, data },
        None => ImageSource::Url { url: &image.file.url },
    }
}

/// What the model said, in order. The results of its calls go into the user's next message.
fn said<'a>(step: Step<'a>, results: &mut Vec<Block<'a>>) -> Vec<Block<'a>> {
    let mut content = Vec::with_capacity(step.parts.len());
    for part in step.parts {
        match part {
            StepPart::Thought(thinking, kept) => {
                // The provider refuses a thought that was cut off, and such a thought has nothing kept.
                content.extend(kept.and_then(|kept| kept.read()).map(|kept| match kept {
                    KeptThought::Signed(signature) => Block::Thinking { thinking, signature: Some(signature) },
                    KeptThought::Redacted { data } => Block::RedactedThinking { data },
                    KeptThought::Unsigned {} => Block::Thinking { thinking, signature: None },
                }));
            }
            StepPart::Text(text) => content.push(Block::Text { text: text.into() }),
            StepPart::Call(PastCall { id, name, input, output, failed, .. }) => {
                content.push(Block::ToolUse { id, name, input });
                let output = output.into_iter().map(block).collect();
                results.push(Block::ToolResult { tool_use_id: id, content: output, is_error: failed });
            }
        }
    }
    // The provider refuses a message that ends with a thought.
    while content.pop_if(|block| matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. })).is_some() {}
    content
}
