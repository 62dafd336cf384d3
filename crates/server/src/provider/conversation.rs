//! Which parts of a conversation a provider is sent: entries of the user and of the model that alternate, none of them
//! empty, and every call with its result. Each provider writes them in its own form.

mod file;

use std::borrow::Cow;
use std::collections::HashSet;

use handback_core::sessions::ModelRequest;
use handback_core::store::{AssistantMessage, Kept, Message, PartBody, Role, ToolPart, ToolState};
use handback_core::tools::ModelTool;
use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

pub(super) use file::Image;

/// How many images a request shows. The newest are shown, and the text names the others.
const MOST_IMAGES: usize = 20;
/// How many bytes of images a request shows. The newest are shown, and the text names the others. Providers take about
/// 30 MB in all.
const MOST_IMAGE_BYTES: usize = 20 << 20;
/// How many characters a tool's name has at most.
const LONGEST_NAME: usize = 64;

/// What a request shows besides what every model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// Whether it shows images. If not, the text names them.
    pub(super) images: bool,
    /// Whether it sends back what the provider wants back.
    pub(super) kept: bool,
}

impl Shown {
    /// Whether this is no more than that.
    pub(super) fn is_within(self, most: Self) -> bool {
        self.images <= most.images && self.kept <= most.kept
    }
}

/// An entry of a conversation. No two in a row are the user's; two in a row are the model's only if the first has calls.
#[derive(Debug)]
pub(super) enum ChatEntry<'a> {
    /// From the user.
    User(Vec<ContentPiece<'a>>),
    /// From the model, with the results of its calls.
    Model(Step<'a>),
}

/// What a model said and did.
#[derive(Debug, Default)]
pub(super) struct Step<'a> {
    /// Its parts, in order.
    pub(super) parts: Vec<StepPart<'a>>,
    /// What the provider wants back with it.
    pub(super) kept: Vec<&'a Kept>,
}

/// A part of what a model said and did.
#[derive(Debug)]
pub(super) enum StepPart<'a> {
    /// A thought, and what the provider wants back with it. Other providers' thoughts are left out.
    Thought(&'a str, Option<&'a Kept>),
    /// Text that is not blank.
    Text(&'a str),
    /// A call.
    Call(PastCall<'a>),
}

impl<'a> Step<'a> {
    /// The calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = &PastCall<'a>> {
        self.parts.iter().filter_map(|part| match part {
            StepPart::Call(call) => Some(call),
            StepPart::Thought(..) | StepPart::Text(_) => None,
        })
    }

    /// Whether it has nothing but thoughts.
    fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, StepPart::Thought(..)))
    }

    /// Whether the provider wants anything back with it.
    fn has_kept(&self) -> bool {
        let part_has = |part: &StepPart<'_>| match part {
            StepPart::Thought(_, kept) | StepPart::Call(PastCall { kept, .. }) => kept.is_some(),
            StepPart::Text(_) => false,
        };
        !self.kept.is_empty() || self.parts.iter().any(part_has)
    }
}

/// A call and its result.
#[derive(Debug)]
pub(super) struct PastCall<'a> {
    /// The provider's id of it.
    pub(super) id: &'a str,
    /// The tool's name.
    pub(super) name: Cow<'a, str>,
    /// Its arguments.
    pub(super) input: CallInput<'a>,
    /// What the provider wants back with it.
    pub(super) kept: Option<&'a Kept>,
    /// Its result, which may be empty.
    pub(super) output: Vec<ContentPiece<'a>>,
    /// Whether the result is a failure.
    pub(super) failed: bool,
}

/// A piece of what a model is shown.
#[derive(Debug)]
pub(super) enum ContentPiece<'a> {
    /// Text that is not blank.
    Text(Cow<'a, str>),
    /// An image.
    Image(Image<'a>),
}

/// The arguments of a call, always an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallInput<'a>(Option<&'a RawValue>);

impl<'a> CallInput<'a> {
    fn of(call: &'a ToolPart) -> Self {
        let written = match &call.state {
            // A model that was cut off leaves invalid JSON, which a provider would refuse in every later request.
            ToolState::Pending { raw } => serde_json::from_str(raw).ok(),
            ToolState::Running { input, .. } | ToolState::Yielded { input, .. } | ToolState::Done { input, .. } => {
                Some(&**input)
            }
        };
        Self(written.filter(|input| input.get().trim_start().starts_with('{')))
    }

    /// The arguments as JSON text.
    pub(super) fn get(&self) -> &'a str {
        self.0.map_or("{}", RawValue::get)
    }
}

impl Serialize for CallInput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(input) => input.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

/// The entries of a conversation for a provider that is shown at most `most`, and what they show.
pub(super) fn entries<'a>(request: &ModelRequest<'a>, provider: &str, most: Shown) -> (Vec<ChatEntry<'a>>, Shown) {
    let mut entries: Vec<ChatEntry<'a>> = Vec::with_capacity(request.earlier.len() + request.messages.len());
    for message in request.earlier.iter().chain(request.messages) {
        match (&message.role, entries.last_mut()) {
            (Role::User(_), Some(ChatEntry::User(pieces))) => pieces.extend(user_pieces(message, most)),
            (Role::User(_), _) => entries.push(ChatEntry::User(user_pieces(message, most))),
            (Role::Assistant(author), last) => {
                let step = step(message, author, request.most_output, provider, most);
                match last {
                    // The turn failed before the model said anything.
                    _ if step.is_empty() => {}
                    Some(ChatEntry::Model(earlier)) if earlier.calls().next().is_none() => {
                        earlier.parts.extend(step.parts);
                        earlier.kept.extend(step.kept);
                    }
                    _ => entries.push(ChatEntry::Model(step)),
                }
            }
        }
    }
    // The model does not continue an answer that was cut off: it starts a new one.
    entries.pop_if(|entry| matches!(entry, ChatEntry::Model(step) if step.calls().next().is_none()));
    let images = bound_images(&mut entries) > 0;
    let kept = entries.iter().any(|entry| matches!(entry, ChatEntry::Model(step) if step.has_kept()));
    (entries, Shown { images, kept })
}

fn user_pieces(message: &Message, most: Shown) -> Vec<ContentPiece<'_>> {
    let mut pieces = Vec::new();
    for part in &message.parts {
        match &part.body {
            PartBody::Text { text, .. } if !text.trim().is_empty() => pieces.push(ContentPiece::Text(text.into())),
            PartBody::File(file) => pieces.push(match Image::of(file) {
                Some(image) if most.images => ContentPiece::Image(image),
                _ => ContentPiece::Text(file::quoted(file).into()),
            }),
            _ => {}
        }
    }
    if pieces.is_empty() {
        // Without it, two answers would follow each other.
        pieces.push(ContentPiece::Text("[empty message]".into()));
    }
    pieces
}

fn step<'a>(
    message: &'a Message,
    author: &'a AssistantMessage,
    most_output: usize,
    provider: &str,
    most: Shown,
) -> Step<'a> {
    // Only the provider that answered understands what it wants back, and its own ids.
    let is_own = author.model.provider == provider;
    let keeps = is_own && most.kept;
    let mut step = Step { parts: Vec::new(), kept: author.kept.iter().filter(|_| keeps).collect() };
    let mut ids = HashSet::new();
    for part in &message.parts {
        match &part.body {
            PartBody::Text { text, .. } if !text.trim().is_empty() => step.parts.push(StepPart::Text(text)),
            PartBody::Reasoning { text, kept, .. } if keeps => {
                step.parts.push(StepPart::Thought(text, kept.as_ref()));
            }
            PartBody::Tool(call) if !call.is_half_said => {
                let (text, failed) = call.result_for_model(most_output);
                let text = Some(text).filter(|text| !text.trim().is_empty());
                let files = call.attachments().iter().map(|file| match Image::of(file) {
                    Some(image) if most.images => ContentPiece::Image(image),
                    _ => ContentPiece::Text(file::named(file).into()),
                });
                // Another provider may refuse the characters of this id, and some providers repeat ids within a step.
                let has_id = is_own && !call.provider_call.is_empty() && ids.insert(&call.provider_call);
                step.parts.push(StepPart::Call(PastCall {
                    id: if has_id { &call.provider_call } else { call.call.as_str() },
                    name: allowed_name(&call.alias),
                    input: CallInput::of(call),
                    kept: call.kept.as_ref().filter(|_| keeps),
                    output: text.map(|text| ContentPiece::Text(text.into())).into_iter().chain(files).collect(),
                    failed,
                }));
            }
            _ => {}
        }
    }
    step
}

/// The name of a called tool in a form that providers take back: a model can make up a name with any characters.
fn allowed_name(name: &str) -> Cow<'_, str> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    if name.is_empty() {
        return "unknown".into();
    }
    if name.len() <= LONGEST_NAME && name.chars().all(allowed) {
        return name.into();
    }
    name.chars().take(LONGEST_NAME).map(|character| if allowed(character) { character } else { '_' }).collect()
}

/// Keeps the newest images within the bounds, and replaces the others by their names. Returns how many are left.
fn bound_images(entries: &mut [ChatEntry<'_>]) -> usize {
    let mut pieces: Vec<&mut ContentPiece<'_>> = Vec::new();
    for entry in entries {
        match entry {
            ChatEntry::User(all) => pieces.extend(all),
            ChatEntry::Model(step) => pieces.extend(step.parts.iter_mut().flat_map(|part| match part {
                StepPart::Call(call) => call.output.as_mut_slice(),
                StepPart::Thought(..) | StepPart::Text(_) => &mut [],
            })),
        }
    }
    let (mut count, mut bytes, mut left) = (0, 0, 0);
    for piece in pieces.into_iter().rev() {
        if let ContentPiece::Image(image) = piece {
            count += 1;
            bytes += image.file.url.len();
            if count > MOST_IMAGES || bytes > MOST_IMAGE_BYTES {
                *piece = ContentPiece::Text(file::named(image.file).into());
            } else {
                left += 1;
            }
        }
    }
    left
}

/// A tool's schema, with the members that some providers insist on. They do not change what the schema allows.
pub(super) fn schema<'a>(tool: &ModelTool<'a>) -> Cow<'a, RawValue> {
    #[derive(Default, Deserialize)]
    struct Present {
        r#type: Option<IgnoredAny>,
        properties: Option<IgnoredAny>,
    }
    let present: Present = serde_json::from_str(tool.schema.get()).unwrap_or_default();
    if present.r#type.is_some() && present.properties.is_some() {
        return Cow::Borrowed(tool.schema);
    }
    let mut members = Vec::new();
    if present.r#type.is_none() {
        members.push(r#""type":"object""#);
    }
    if present.properties.is_none() {
        members.push(r#""properties":{}"#);
    }
    let rest = tool.schema.get().trim().strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    if !rest.trim().is_empty() {
        members.push(rest);
    }
    RawValue::from_string(format!("{{{}}}", members.join(","))).map_or(Cow::Borrowed(tool.schema), Cow::Owned)
}

#[cfg(test)]
mod tests;
