//! What of a conversation any provider is sent: turns of the user and of the model that alternate, each with something
//! to say, and every call with its result. How it is written is up to each provider.

mod file;

use std::borrow::Cow;
use std::collections::HashSet;

use handback_core::sessions::ModelRequest;
use handback_core::store::{AssistantMessage, Attachment, Kept, Message, PartBody, Role, ToolPart, ToolState};
use handback_core::tools::ModelTool;
use serde::de::IgnoredAny;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

pub(super) use file::Image;

/// Images that a request shows, the newest; earlier ones are named in the text.
const MOST_IMAGES: usize = 20;
/// Bytes of the images that a request shows, the newest; earlier ones are named in the text. Providers take about 30 MB
/// in all.
const MOST_IMAGE_BYTES: usize = 20 << 20;
/// Characters of a tool's name.
const LONGEST_NAME: usize = 64;

/// What of a conversation is shown, besides what every model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    /// Images; otherwise they are named in the text.
    pub(super) images: bool,
    /// What the provider wants back.
    pub(super) kept: bool,
}

impl Shown {
    /// What of all this there is in a conversation.
    pub(super) fn of(turns: &[Turn<'_>]) -> Self {
        let is_image = |piece: &Piece<'_>| matches!(piece, Piece::Image(_));
        let mut shown = Self { images: false, kept: false };
        for turn in turns {
            match turn {
                Turn::User(pieces) => shown.images |= pieces.iter().any(is_image),
                Turn::Model(step) => {
                    shown.images |= step.calls().any(|call| call.output.iter().any(is_image));
                    shown.kept |= !step.kept.is_empty() || step.parts.iter().any(StepPart::is_kept);
                }
            }
        }
        shown
    }

    /// Whether this is no more than that.
    pub(super) fn is_within(self, most: Self) -> bool {
        self.images <= most.images && self.kept <= most.kept
    }
}

/// One turn. No two in a row are the user's; two in a row are the model's only if the first has calls.
#[derive(Debug)]
pub(super) enum Turn<'a> {
    /// The user's.
    User(Vec<Piece<'a>>),
    /// The model's, with the results of its calls.
    Model(Step<'a>),
}

/// What a model said and did.
#[derive(Debug, Default)]
pub(super) struct Step<'a> {
    /// All of it, in order.
    pub(super) parts: Vec<StepPart<'a>>,
    /// What the provider wants back with it.
    pub(super) kept: Vec<&'a Kept>,
}

/// A part of what a model said and did.
#[derive(Debug)]
pub(super) enum StepPart<'a> {
    /// What it thought, with what the provider wants back with it. Only the provider's own thoughts are here.
    Thought(&'a str, Option<&'a Kept>),
    /// Text that is not blank.
    Text(&'a str),
    /// A call.
    Call(Call<'a>),
}

impl StepPart<'_> {
    /// Whether the provider wants something back with it.
    fn is_kept(&self) -> bool {
        match self {
            Self::Thought(_, kept) | Self::Call(Call { kept, .. }) => kept.is_some(),
            Self::Text(_) => false,
        }
    }
}

impl<'a> Step<'a> {
    /// The calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Call<'a>> {
        self.parts.iter().filter_map(|part| match part {
            StepPart::Call(call) => Some(call),
            StepPart::Thought(..) | StepPart::Text(_) => None,
        })
    }

    /// Whether nothing was said or done, whatever was thought.
    fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, StepPart::Thought(..)))
    }
}

/// A call and its result.
#[derive(Debug)]
pub(super) struct Call<'a> {
    /// The provider's id of it.
    pub(super) id: &'a str,
    /// The tool's name.
    pub(super) name: Cow<'a, str>,
    /// Its arguments.
    pub(super) input: Input<'a>,
    /// What the provider wants back with it.
    pub(super) kept: Option<&'a Kept>,
    /// What came of it; no text is blank, and there may be nothing.
    pub(super) output: Vec<Piece<'a>>,
    /// Whether that is a failure.
    pub(super) failed: bool,
}

/// A piece of what a model is shown.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// Text that is not blank.
    Text(Cow<'a, str>),
    /// An image.
    Image(Image<'a>),
}

/// A call's arguments, always an object.
#[derive(Debug, Clone, Copy)]
pub(super) struct Input<'a>(Option<&'a RawValue>);

impl<'a> Input<'a> {
    fn of(call: &'a ToolPart) -> Self {
        let written = match &call.state {
            // What a model wrote when it was cut off is no JSON, which a provider would refuse for ever after.
            ToolState::Pending { raw } => serde_json::from_str(raw).ok(),
            ToolState::Running { input, .. } | ToolState::Yielded { input, .. } | ToolState::Done { input, .. } => {
                Some(&**input)
            }
        };
        Self(written.filter(|input| input.get().trim_start().starts_with('{')))
    }

    /// As text.
    pub(super) fn get(&self) -> &'a str {
        self.0.map_or("{}", RawValue::get)
    }
}

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(input) => input.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

/// The turns of a conversation, for this provider.
pub(super) fn turns<'a>(request: &ModelRequest<'a>, provider: &str, shown: Shown) -> Vec<Turn<'a>> {
    let mut turns: Vec<Turn<'a>> = Vec::with_capacity(request.earlier.len() + request.messages.len());
    for message in request.earlier.iter().chain(request.messages) {
        match (&message.role, turns.last_mut()) {
            (Role::User(_), Some(Turn::User(pieces))) => pieces.extend(user_pieces(message, shown)),
            (Role::User(_), _) => turns.push(Turn::User(user_pieces(message, shown))),
            (Role::Assistant(author), last) => {
                let step = step(message, author, request.most_output, provider, shown);
                match last {
                    // A turn that failed before the model said anything.
                    _ if step.is_empty() => {}
                    Some(Turn::Model(earlier)) if earlier.calls().next().is_none() => {
                        earlier.parts.extend(step.parts);
                        earlier.kept.extend(step.kept);
                    }
                    _ => turns.push(Turn::Model(step)),
                }
            }
        }
    }
    // What a model was cut off in is not for it to go on with: it answers anew.
    turns.pop_if(|turn| matches!(turn, Turn::Model(step) if step.calls().next().is_none()));
    name_earlier_images(&mut turns);
    turns
}

fn user_pieces(message: &Message, shown: Shown) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for part in &message.parts {
        match &part.body {
            PartBody::Text { text, .. } if !text.trim().is_empty() => pieces.push(Piece::Text(text.into())),
            PartBody::File(file) => {
                let image = Image::of(file).filter(|_| shown.images);
                pieces.push(image.map_or_else(|| Piece::Text(file::told(file).into()), Piece::Image));
            }
            _ => {}
        }
    }
    if pieces.is_empty() {
        // Left out, it would leave two answers in a row.
        pieces.push(Piece::Text("[empty message]".into()));
    }
    pieces
}

fn step<'a>(
    message: &'a Message,
    author: &'a AssistantMessage,
    most_output: usize,
    provider: &str,
    shown: Shown,
) -> Step<'a> {
    // Only the provider that said something knows what to make of what it keeps, and of its ids.
    let own = author.model.provider == provider;
    let keeps = own && shown.kept;
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
                // Another provider may not allow the characters of that id. Some repeat theirs within a step.
                let has_id = own && !call.provider_call.is_empty() && ids.insert(&call.provider_call);
                step.parts.push(StepPart::Call(Call {
                    id: if has_id { &call.provider_call } else { call.call.as_str() },
                    name: allowed_name(&call.alias),
                    input: Input::of(call),
                    kept: call.kept.as_ref().filter(|_| keeps),
                    output: output(text, call.attachments(), shown),
                    failed,
                }));
            }
            _ => {}
        }
    }
    step
}

fn output(text: String, attachments: &[Attachment], shown: Shown) -> Vec<Piece<'_>> {
    let mut pieces = Vec::with_capacity(1 + attachments.len());
    if !text.trim().is_empty() {
        pieces.push(Piece::Text(text.into()));
    }
    pieces.extend(attachments.iter().map(|file| match Image::of(file) {
        Some(image) if shown.images => Piece::Image(image),
        _ => Piece::Text(file::named(file).into()),
    }));
    pieces
}

/// What the model called a tool, as far as providers take it back: a name that it made up may have any characters.
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

/// Keeps to the bounds of what is shown, from the newest image to the oldest.
fn name_earlier_images(turns: &mut [Turn<'_>]) {
    let mut pieces: Vec<&mut Piece<'_>> = Vec::new();
    for turn in turns {
        match turn {
            Turn::User(all) => pieces.extend(all),
            Turn::Model(step) => pieces.extend(step.parts.iter_mut().flat_map(|part| match part {
                StepPart::Call(call) => call.output.as_mut_slice(),
                StepPart::Thought(..) | StepPart::Text(_) => &mut [],
            })),
        }
    }
    let (mut count, mut bytes) = (0, 0);
    for piece in pieces.into_iter().rev() {
        if let Piece::Image(image) = piece {
            count += 1;
            bytes += image.url().len();
            if count > MOST_IMAGES || bytes > MOST_IMAGE_BYTES {
                *piece = Piece::Text(file::named(image.file()).into());
            }
        }
    }
}

/// A tool's schema as it is, but with the members that some providers insist on; neither changes what it allows.
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
