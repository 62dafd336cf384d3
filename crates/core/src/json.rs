//! Repairs and reads JSON text that others write.

use std::borrow::Cow;

use serde_json::value::RawValue;

/// The replacement for half of a surrogate pair whose other half is missing.
const REPLACEMENT: &str = "\\ufffd";
/// Bytes of an escape such as `\ud83c`.
const ESCAPE: usize = 6;

/// The same JSON text, with lone surrogates replaced. JavaScript and Python write a text that was cut within an emoji
/// as `"\ud83c"`, which is not valid Unicode, and which strict readers refuse.
pub fn mend(json: &str) -> Cow<'_, str> {
    let mut mended = String::new();
    // How much of the text is in `mended`, and how much was scanned.
    let (mut copied, mut at) = (0, 0);
    // In JSON, backslashes are only in strings, each before what it escapes.
    while let Some(found) = json[at..].find('\\') {
        let start = at + found;
        at = match unit(json, start) {
            Some(0xD800..=0xDBFF) if matches!(unit(json, start + ESCAPE), Some(0xDC00..=0xDFFF)) => start + 2 * ESCAPE,
            Some(0xD800..=0xDFFF) => {
                mended.push_str(&json[copied..start]);
                mended.push_str(REPLACEMENT);
                copied = start + ESCAPE;
                copied
            }
            Some(_) => start + ESCAPE,
            None => start + 1 + json[start + 1..].chars().next().map_or(0, char::len_utf8),
        };
    }
    if copied == 0 {
        return json.into();
    }
    mended.push_str(&json[copied..]);
    mended.into()
}

/// Mends a text and reads it as JSON.
pub fn read(text: String) -> serde_json::Result<Box<RawValue>> {
    let mended = match mend(&text) {
        Cow::Borrowed(_) => None,
        Cow::Owned(mended) => Some(mended),
    };
    RawValue::from_string(mended.unwrap_or(text))
}

/// The number in an escape such as `\ud83c`, if there is one.
fn unit(json: &str, at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix("\\u")?;
    // Checked first, since `from_str_radix` accepts a sign.
    if digits.bytes().all(|digit| digit.is_ascii_hexdigit()) { u16::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests;
