//! A conversation as the request for a message.

use std::borrow::Cow;
use std::collections::BTreeSet;

use handback_core::sessions::ModelRequest;
use serde::Serialize;
use serde_json::value::RawValue;

use super::super::conversation::{Call, Image, Input, Piece, Step, StepPart, Turn, schema};
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
        source: Source<'a>,
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
        input: Input<'a>,
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
enum Source<'a> {
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
    turns: Vec<Turn<'a>>,
    max_tokens: u32,
) -> serde_json::Result<Vec<u8>> {
    let mut tools: Vec<Tool<'a>> = request
        .tools
        .iter()
        .map(|tool| Tool { name: tool.alias.into(), description: tool.description, input_schema: schema(tool) })
        .collect();
    let mut tool_choice = None;
    if tools.is_empty() {
        tools = bygone_tools(&turns)?;
        tool_choice = (!tools.is_empty()).then_some(ToolChoice::None);
    }
    let body = Body {
        model: request.model,
        max_tokens,
        stream: true,
        system: request.system.filter(|system| !system.trim().is_empty()),
        messages: messages(turns),
        tools,
        tool_choice,
    };
    serde_json::to_vec(&body)
}

/// Tools that were called before and are gone: calls are refused in a request that defines no tool at all.
fn bygone_tools<'a>(turns: &[Turn<'a>]) -> serde_json::Result<Vec<Tool<'a>>> {
    let steps = turns.iter().filter_map(|turn| match turn {
        Turn::User(_) => None,
        Turn::Model(step) => Some(step),
    });
    let names: BTreeSet<&Cow<'a, str>> = steps.flat_map(Step::calls).map(|call| &call.name).collect();
    names
        .into_iter()
        .map(|name| {
            let input_schema = RawValue::from_string(r#"{"type":"object"}"#.to_owned())?;
            Ok(Tool {
                name: name.clone(),
                description: "Not available any more.",
                input_schema: Cow::Owned(input_schema),
            })
        })
        .collect()
}

fn messages<'a>(turns: Vec<Turn<'a>>) -> Vec<Message<'a>> {
    let mut messages = Vec::with_capacity(2 * turns.len());
    // The results of a step, which have to come first in what the user says next.
    let mut results: Vec<Block<'a>> = Vec::new();
    for turn in turns {
        match turn {
            Turn::User(pieces) => {
                results.extend(pieces.into_iter().map(block));
                messages.extend(user(std::mem::take(&mut results)));
            }
            Turn::Model(step) => {
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

fn block(piece: Piece<'_>) -> Block<'_> {
    match piece {
        Piece::Text(text) => Block::Text { text },
        Piece::Image(image) => Block::Image { source: source(image) },
    }
}

fn source(image: Image<'_>) -> Source<'_> {
    match image.base64 {
        Some(data) => Source::Base64 { media_type: image.mime, data },
        None => Source::Url { url: image.url() },
    }
}

/// What the model said, in its order. The results of its calls are left for the user.
fn said<'a>(step: Step<'a>, results: &mut Vec<Block<'a>>) -> Vec<Block<'a>> {
    let mut content = Vec::with_capacity(step.parts.len());
    for part in step.parts {
        match part {
            StepPart::Thought(thinking, kept) => {
                // A thought that was cut off is not taken back.
                content.extend(kept.and_then(|kept| kept.read()).map(|kept| match kept {
                    KeptThought::Signed(signature) => Block::Thinking { thinking, signature: Some(signature) },
                    KeptThought::Redacted { data } => Block::RedactedThinking { data },
                    KeptThought::Unsigned {} => Block::Thinking { thinking, signature: None },
                }));
            }
            StepPart::Text(text) => content.push(Block::Text { text: text.into() }),
            StepPart::Call(Call { id, name, input, output, failed, .. }) => {
                content.push(Block::ToolUse { id, name, input });
                let output = output.into_iter().map(block).collect();
                results.push(Block::ToolResult { tool_use_id: id, content: output, is_error: failed });
            }
        }
    }
    // A thought that nothing came of is refused at the end.
    while content.pop_if(|block| matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. })).is_some() {}
    content
}
