//! Files as models get them: images as images, the user's text files as text, all others by name.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use handback_core::store::Attachment;
use percent_encoding::percent_decode_str;

/// How many bytes of a text file are shown. The rest is cut, with a note.
const MOST_TEXT: usize = 64 << 10;
/// The types of images that providers take, and what they call them.
const IMAGES: [(&str, &str); 5] = [
    ("image/png", "image/png"),
    ("image/jpeg", "image/jpeg"),
    ("image/jpg", "image/jpeg"),
    ("image/gif", "image/gif"),
    ("image/webp", "image/webp"),
];

/// An image that a model can be shown.
#[derive(Debug, Clone, Copy)]
pub(in crate::provider) struct Image<'a> {
    /// The file.
    pub(in crate::provider) file: &'a Attachment,
    /// Its media type.
    pub(in crate::provider) mime: &'static str,
    /// Its content in base64, if the URL has it.
    pub(in crate::provider) base64: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// The file as an image, if models take its type and its URL.
    pub(super) fn of(file: &'a Attachment) -> Option<Self> {
        let mime = essence(&file.mime);
        let (_, mime) = IMAGES.into_iter().find(|(name, _)| mime.eq_ignore_ascii_case(name))?;
        let base64 = match Data::of(&file.url) {
            Some(Data::Base64(data)) => Some(data),
            Some(Data::Percent(_)) => return None,
            None if file.url.starts_with("https://") || file.url.starts_with("http://") => None,
            None => return None,
        };
        Some(Self { file, mime, base64 })
    }
}

/// A file's name and type.
pub(super) fn named(file: &Attachment) -> String {
    match file.filename.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("[attachment: {name}, {}]", file.mime),
        None => format!("[attachment: {}]", file.mime),
    }
}

/// A file's name and type, with its content if it is text.
pub(super) fn quoted(file: &Attachment) -> String {
    let name = named(file);
    let mime = essence(&file.mime);
    if !mime.starts_with("text/") && mime != "application/json" {
        return name;
    }
    let Some(text) = Data::of(&file.url).and_then(Data::decode) else { return name };
    let end = text.floor_char_boundary(MOST_TEXT);
    let note =
        if end < text.len() { format!("\n[cut: {end} of {} bytes are shown]", text.len()) } else { String::new() };
    format!("{name}\n{}{note}", &text[..end])
}

/// A media type without its parameters.
fn essence(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default().trim()
}

/// The content of a data URL, by its encoding.
enum Data<'a> {
    Base64(&'a str),
    Percent(&'a str),
}

impl<'a> Data<'a> {
    fn of(url: &'a str) -> Option<Self> {
        let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
        let is_base64 = head.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64"));
        Some(if is_base64 { Self::Base64(data) } else { Self::Percent(data) })
    }

    fn decode(self) -> Option<String> {
        match self {
            Self::Base64(data) => String::from_utf8(STANDARD.decode(data).ok()?).ok(),
            Self::Percent(data) => percent_decode_str(data).decode_utf8().ok().map(Cow::into_owned),
        }
    }
}
