//! Files as models get them: images as images, texts of the user as text, all others by name.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use handback_core::store::Attachment;
use percent_encoding::percent_decode_str;

/// Bytes of a text file that are shown; the rest is cut, with a note.
const MOST_TEXT: usize = 64 << 10;
/// The kinds of images that providers take, and what they call them.
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
    file: &'a Attachment,
    /// Its media type.
    pub(in crate::provider) mime: &'static str,
    /// Its content in base64, if the URL has it.
    pub(in crate::provider) base64: Option<&'a str>,
}

impl<'a> Image<'a> {
    /// The file, if it is an image of a kind and at a place that models take.
    pub(super) fn of(file: &'a Attachment) -> Option<Self> {
        let mime = essence(&file.mime);
        let (_, mime) = IMAGES.into_iter().find(|(name, _)| mime.eq_ignore_ascii_case(name))?;
        let base64 = match data(&file.url) {
            Some((Encoding::Base64, data)) => Some(data),
            Some((Encoding::Percent, _)) => return None,
            None if file.url.starts_with("https://") || file.url.starts_with("http://") => None,
            None => return None,
        };
        Some(Self { file, mime, base64 })
    }

    /// Where it is.
    pub(in crate::provider) fn url(&self) -> &'a str {
        &self.file.url
    }

    /// The file itself.
    pub(super) fn file(&self) -> &'a Attachment {
        self.file
    }
}

/// A file by its name and kind.
pub(super) fn named(file: &Attachment) -> String {
    match file.filename.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("[attachment: {name}, {}]", file.mime),
        None => format!("[attachment: {}]", file.mime),
    }
}

/// A file by its name and kind, with what it says if it is a text.
pub(super) fn told(file: &Attachment) -> String {
    let name = named(file);
    let mime = essence(&file.mime);
    if !mime.starts_with("text/") && mime != "application/json" {
        return name;
    }
    let Some(text) = data(&file.url).and_then(|(encoding, data)| encoding.decode(data)) else { return name };
    let end = text.floor_char_boundary(MOST_TEXT);
    let note =
        if end < text.len() { format!("\n[cut: {end} of {} bytes are shown]", text.len()) } else { String::new() };
    format!("{name}\n{}{note}", &text[..end])
}

/// A media type without its parameters.
fn essence(mime: &str) -> &str {
    mime.split(';').next().unwrap_or_default().trim()
}

#[derive(Debug, Clone, Copy)]
enum Encoding {
    Base64,
    Percent,
}

impl Encoding {
    fn decode(self, data: &str) -> Option<String> {
        match self {
            Self::Base64 => String::from_utf8(STANDARD.decode(data).ok()?).ok(),
            Self::Percent => percent_decode_str(data).decode_utf8().ok().map(Cow::into_owned),
        }
    }
}

/// What a data URL holds.
fn data(url: &str) -> Option<(Encoding, &str)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let is_base64 = head.rsplit(';').next().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64"));
    Some((if is_base64 { Encoding::Base64 } else { Encoding::Percent }, data))
}
