//! Data URLs in JSON text: found wherever they are in a string, and replaced by a link.

const SCHEME: &str = "data:";

/// JSON with a link in place of each data URL.
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

/// The same JSON with characters of ASCII as themselves: an escape could hide a data URL in raw JSON of others.
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

/// The next data URL: where it begins, and where it ends.
fn find(json: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = from + find_scheme(&json[from..])?;
        let after = start + SCHEME.len();
        // Media type and parameters, then a comma; in prose a blank or a quote comes first.
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
        // The letter of an escape such as `\\n` is none of the word.
        && !["\\n", "\\t", "\\r", "\\b", "\\f"].iter().any(|escape| json[..start].ends_with(escape))
}

fn is_of_head(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "/+.-;=_!#$&^*%'~".contains(letter)
}

fn is_of_data(letter: char) -> bool {
    letter.is_ascii() && !letter.is_ascii_whitespace() && !letter.is_ascii_control() && !"\"\\<>()`".contains(letter)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn changed(json: &str) -> String {
        without_data_urls(json.to_owned(), "/link")
    }

    #[test]
    fn data_urls_are_replaced_wherever_they_are() {
        let cases = [
            (r#"{"image":"data:image/png;base64,AAAA+/="}"#, r#"{"image":"/link"}"#),
            (r#"["DATA:,x","a data:text/plain,b c"]"#, r#"["/link","a /link c"]"#),
            (r#"{"text":"![x](data:image/png;base64,AA==) and more"}"#, r#"{"text":"![x](/link) and more"}"#),
            (r#"{"raw":"{\"url\":\"data:image/png;base64,AAAA\"}"}"#, r#"{"raw":"{\"url\":\"/link\"}"}"#),
            (r#"{"raw":"{\"url\":\"data:image/png;base64,AAAA"}"#, r#"{"raw":"{\"url\":\"/link"}"#),
            (r#"{"hidden":"\u0064ata:,x","more":"d\u0061ta\u003a,y"}"#, r#"{"hidden":"/link","more":"/link"}"#),
            (
                r#"{"hidden":"data:image/png\u003bbase64\u002cAA\u003d, \\u0064ata:,x"}"#,
                r#"{"hidden":"/link \\u0064ata:,x"}"#,
            ),
            (r#"{"text":"line\ndata:,x"}"#, r#"{"text":"line\n/link"}"#),
        ];
        for (json, expected) in cases {
            assert_eq!(changed(json), expected);
        }
    }

    #[test]
    fn what_is_none_stays_as_it_is() {
        for json in [
            r#"{"text":"the data: field, and more"}"#,
            r#"{"metadata:x":"metadata:a,b","data":1}"#,
            r#"{"text":"data:image/png"}"#,
            r#"{"text":"data:"}"#,
            r#"{ "b": 1.0,  "a": "text \u00e9 \u2028" }"#,
            "",
        ] {
            assert_eq!(changed(json), json);
        }
    }

    proptest::proptest! {
        #[test]
        fn json_stays_json_and_nothing_but_data_urls_changes(text in "([ a-z\"\\\\]|data:|image/png|;base64|,|é){0,40}") {
            let json = serde_json::json!({ "text": text }).to_string();
            let changed = changed(&json);
            let value: Value = serde_json::from_str(&changed).unwrap();
            proptest::prop_assert!(find(&changed, 0).is_none(), "{changed}");
            if find(&json, 0).is_none() {
                proptest::prop_assert_eq!(value, serde_json::from_str::<Value>(&json).unwrap());
            }
        }
    }
}
