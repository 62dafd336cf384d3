//! Writes a conversation as the request of a chat completion.

use std::borrow::Cow;

use handback_core::sessions::ModelRequest;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::super::conversation::{ChatEntry, ContentPiece, PastCall, Step, StepPart, schema};
use super::kept::{KeptCall, KeptMessage, Spelling, merge};

/// How many tokens an answer may have. OpenAI's newer models refuse the name that all others know.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MaxTokens {
    MaxTokens(Option<u32>),
    MaxCompletionTokens(Option<u32>),
}

impl MaxTokens {
    /// The bound under the name that the host knows.
    pub(super) fn new(most: Option<u32>, host: &str) -> Self {
        let is_of = |domain: &str| host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        if is_of("openai.com") || is_of("openai.azure.com") {
            Self::MaxCompletionTokens(most)
        } else {
            Self::MaxTokens(most)
        }
    }

    fn is_none(&self) -> bool {
        matches!(self, Self::MaxTokens(None) | Self::MaxCompletionTokens(None))
    }
}

#[derive(Serialize)]
struct Body<'a> {
    stream: bool,
    model: &'a str,
    #[serde(flatten, skip_serializing_if = "MaxTokens::is_none")]
    max_tokens: MaxTokens,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
enum Message<'a> {
    System {
        content: &'a str,
    },
    User {
        content: Content<'a>,
    },
    Assistant {
        content: Option<Content<'a>>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall<'a>>,
        #[serde(flatten)]
        kept: Map<String, Value>,
    },
    Tool {
        tool_call_id: &'a str,
        content: Cow<'a, str>,
    },
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    /// Every server understands this.
    Text(Cow<'a, str>),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: Cow<'a, str> },
    Thinking { thinking: [Box<Part<'a>>; 1] },
    ImageUrl { image_url: ImageUrl<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: &'a str,
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CalledFunction<'a>,
    #[serde(flatten)]
    kept: Map<String, Value>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: Cow<'a, str>,
    arguments: &'a str,
    #[serde(flatten)]
    kept: Map<String, Value>,
}

#[derive(Serialize)]
struct Tool<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Cow<'a, RawValue>,
}

/// The body of the request.
pub(super) fn body<'a>(
    request: &ModelRequest<'a>,
    entries: Vec<ChatEntry<'a>>,
    max_tokens: MaxTokens,
) -> serde_json::Result<Vec<u8>> {
    let tools = request.tools.iter().map(|tool| Tool {
        r#type: "function",
        function: Function { name: tool.alias, description: tool.description, parameters: schema(tool) },
    });
    let body = Body {
        stream: true,
        model: request.model,
        max_tokens,
        messages: messages(request.system, entries),
        tools: tools.collect(),
    };
    serde_json::to_vec(&body)
}

fn messages<'a>(system: Option<&'a str>, entries: Vec<ChatEntry<'a>>) -> Vec<Message<'a>> {
    let system = system.filter(|system| !system.trim().is_empty());
    let mut messages: Vec<Message<'a>> = system.map(|content| Message::System { content }).into_iter().collect();
    // The images in results, which only a user may show, and only after all results of a step.
    let mut shown: Vec<ContentPiece<'a>> = Vec::new();
    for entry in entries {
        match entry {
            ChatEntry::User(pieces) => {
                shown.extend(pieces);
                messages.extend(user(std::mem::take(&mut shown)));
            }
            ChatEntry::Model(step) => {
                messages.extend(user(std::mem::take(&mut shown)));
                messages.extend(said(step, &mut shown));
            }
        }
    }
    messages.extend(user(shown));
    messages
}

/// What the model said, and the results of its calls.
fn said<'a>(step: Step<'a>, shown: &mut Vec<ContentPiece<'a>>) -> Vec<Message<'a>> {
    let mut kept = Map::new();
    let mut spellings = Vec::new();
    for message in step.kept.into_iter().filter_map(|kept| kept.read::<KeptMessage>()) {
        message.members.into_iter().for_each(|(name, value)| merge(&mut kept, &name, value));
        spellings.extend(message.spellings);
    }
    let thinks_in_parts = spellings.contains(&Spelling::ThinkingPart);
    let (mut thoughts, mut parts, mut calls, mut results) = (String::new(), Vec::new(), Vec::new(), Vec::new());
    for part in step.parts {
        match part {
            StepPart::Thought(thought, _) => {
                thoughts.push_str(thought);
                if thinks_in_parts {
                    parts.push(Part::Thinking { thinking: [Box::new(Part::Text { text: thought.into() })] });
                }
            }
            StepPart::Text(text) => parts.push(Part::Text { text: text.into() }),
            StepPart::Call(call) => {
                let (call, result) = written(call, shown);
                calls.push(call);
                results.push(result);
            }
        }
    }
    for name in spellings.iter().filter_map(|spelling| spelling.member()) {
        kept.insert(name.to_owned(), thoughts.as_str().into());
    }
    let content = if thinks_in_parts {
        Some(Content::Parts(parts))
    } else {
        let texts = parts.into_iter().filter_map(|part| match part {
            Part::Text { text } => Some(text),
            Part::Thinking { .. } | Part::ImageUrl { .. } => None,
        });
        join(texts).map(Content::Text)
    };
    let mut messages = vec![Message::Assistant { content, tool_calls: calls, kept }];
    messages.extend(results);
    messages
}

fn user(pieces: Vec<ContentPiece<'_>>) -> Option<Message<'_>> {
    if pieces.is_empty() {
        return None;
    }
    let has_image = pieces.iter().any(|piece| matches!(piece, ContentPiece::Image(_)));
    let content = if has_image {
        let part = |piece| match piece {
            ContentPiece::Text(text) => Part::Text { text },
            ContentPiece::Image(image) => Part::ImageUrl { image_url: ImageUrl { url: &image.file.url } },
        };
        Content::Parts(pieces.into_iter().map(part).collect())
    } else {
        Content::Text(join(texts(pieces)).unwrap_or_default())
    };
    Some(Message::User { content })
}

/// A call and its result. The images of the result go into the user's next message.
fn written<'a>(call: PastCall<'a>, shown: &mut Vec<ContentPiece<'a>>) -> (ToolCall<'a>, Message<'a>) {
    let (images, output): (Vec<_>, Vec<_>) =
        call.output.into_iter().partition(|piece| matches!(piece, ContentPiece::Image(_)));
    if !images.is_empty() {
        shown.push(ContentPiece::Text(format!("[images from the result of {}, call {}]", call.name, call.id).into()));
        shown.extend(images);
    }
    let result = Message::Tool { tool_call_id: call.id, content: join(texts(output)).unwrap_or_default() };
    let kept: KeptCall = call.kept.and_then(|kept| kept.read()).unwrap_or_default();
    let function = CalledFunction { name: call.name, arguments: call.input.get(), kept: kept.function };
    (ToolCall { id: call.id, r#type: "function", function, kept: kept.members }, result)
}

fn texts(pieces: Vec<ContentPiece<'_>>) -> impl Iterator<Item = Cow<'_, str>> {
    pieces.into_iter().filter_map(|piece| match piece {
        ContentPiece::Text(text) => Some(text),
        ContentPiece::Image(_) => None,
    })
}

/// The texts as one, if there are any.
fn join<'a>(texts: impl Iterator<Item = Cow<'a, str>>) -> Option<Cow<'a, str>> {
    texts.reduce(|mut all, text| {
        all.to_mut().push_str("\n\n");
        all.to_mut().push_str(&text);
        all
    })
}

#[cfg(test)]
mod tests;
