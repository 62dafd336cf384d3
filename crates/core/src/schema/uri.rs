//! References between schemas: as much of RFC 3986 as is needed to find a schema by its name.

use std::borrow::Cow;

/// Splits an address into the part before its fragment, and the fragment.
pub(super) fn split_fragment(uri: &str) -> (&str, &str) {
    uri.split_once('#').unwrap_or((uri, ""))
}

/// Resolves a reference against a base. Neither has a fragment.
pub(super) fn resolve(base: &str, reference: &str) -> String {
    if reference.is_empty() {
        return base.to_owned();
    }
    if scheme(reference).is_some() {
        return reference.to_owned();
    }
    let scheme_end = scheme(base).map_or(0, |scheme| scheme.len() + 1);
    let (scheme, rest) = base.split_at(scheme_end);
    if reference.starts_with("//") {
        return format!("{scheme}{reference}");
    }
    let authority_end = match rest.strip_prefix("//") {
        Some(after) => 2 + after.find(['/', '?']).unwrap_or(after.len()),
        None => 0,
    };
    let (authority, rest) = rest.split_at(authority_end);
    let path = rest.split('?').next().unwrap_or(rest);
    if reference.starts_with('?') {
        return format!("{scheme}{authority}{path}{reference}");
    }
    let (reference, query) = match reference.find('?') {
        Some(at) => reference.split_at(at),
        None => (reference, ""),
    };
    let merged: Cow<'_, str> = match (reference.starts_with('/'), path.rfind('/')) {
        (true, _) => reference.into(),
        (false, Some(last)) => format!("{}{reference}", &path[..=last]).into(),
        (false, None) if authority.is_empty() => reference.into(),
        (false, None) => format!("/{reference}").into(),
    };
    format!("{scheme}{authority}{}{query}", without_dots(&merged))
}

fn scheme(uri: &str) -> Option<&str> {
    let (scheme, _) = uri.split_once(':')?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    is_scheme.then_some(scheme)
}

fn without_dots(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = path.split('/').peekable();
    while let Some(part) = parts.next() {
        let is_last = parts.peek().is_none();
        match part {
            "." | ".." => {
                // The empty segment before the first slash stays.
                if part == ".." && segments.len() > 1 {
                    segments.pop();
                }
                if is_last {
                    segments.push("");
                }
            }
            part => segments.push(part),
        }
    }
    segments.join("/")
}

/// Decodes each `%XX`. `None` if one is malformed or the result is not UTF-8.
pub(super) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
