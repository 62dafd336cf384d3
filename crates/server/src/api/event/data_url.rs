//! Finds data URLs anywhere in JSON text and replaces them with a link.

const SCHEME: &str = "data:";

pub(super) fn without_data_urls(json: String, link: &str) -> String {
    let plain = plain(json);
    let Some(first) = find(&plain, 0) else { return plain };
    let mut changed = String::with_capacity(plain.len());
    let (mut kept, mut next) = (0, Some(first));
    while let Some((start, end)) = next {
        changed.push_str(&plain[kept..start]);
        changed.push_str(link);
        kept = end;
        next = find(&plain, end);
    }
    changed.push_str(&plain[kept..]);
    changed
}

/// Decodes escapes of ASCII characters, because an escape in raw JSON could hide a data URL.
fn plain(json: String) -> String {
    if !json.contains("\\u00") {
        return json;
    }
    let mut plain = String::with_capacity(json.len());
    let mut rest = json.as_str();
    while let Some(place) = rest.find('\\') {
        plain.push_str(&rest[..place]);
        rest = &rest[place..];
        let code = rest.get(..6).and_then(|escape| escape.strip_prefix("\\u00"));
        let letter = code.and_then(|code| u8::from_str_radix(code, 16).ok()).map(char::from);
        match letter.filter(|letter| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\')) {
            Some(letter) => {
                plain.push(letter);
                rest = &rest[6..];
            }
            None => {
                let (escape, after) = rest.split_at(rest.ceil_char_boundary(2));
                plain.push_str(escape);
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain
}

/// The start and the end of the next data URL.
fn find(json: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = from + find_scheme(&json[from..])?;
        let after = start + SCHEME.len();
        // A data URL has a media type and parameters, then a comma; in prose a blank or a quote comes before the comma.
        let head = json[after..].find(|letter: char| letter == ',' || !is_of_head(letter))?;
        if json[after + head..].starts_with(',') && !is_within_word(json, start) {
            let data = after + head + 1;
            let end = json[data..].find(|letter: char| !is_of_data(letter)).map_or(json.len(), |end| data + end);
            return Some((start, end));
        }
        from = after;
    }
}

fn find_scheme(text: &str) -> Option<usize> {
    text.as_bytes().windows(SCHEME.len()).position(|five| five.eq_ignore_ascii_case(SCHEME.as_bytes()))
}

/// Whether the scheme is only the end of another word, such as `metadata:`.
fn is_within_word(json: &str, start: usize) -> bool {
    json[..start].chars().next_back().is_some_and(|before| before.is_alphanumeric() || before == '_')
        // The letter of an escape such as `\\n` is not part of the word.
        && !["\\n", "\\t", "\\r", "\\b", "\\f"].iter().any(|escape| json[..start].ends_with(escape))
}

fn is_of_head(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "/+.-;=_!#$&^*%'~".contains(letter)
}

fn is_of_data(letter: char) -> bool {
    letter.is_ascii() && !letter.is_ascii_whitespace() && !letter.is_ascii_control() && !"\"\\<>()`".contains(letter)
}

#[cfg(test)]
mod tests;
