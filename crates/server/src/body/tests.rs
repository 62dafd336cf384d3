use std::collections::HashMap;

use serde::Deserialize;

use super::*;

#[derive(Debug, Deserialize)]
struct Order {
    #[serde(rename = "count")]
    _count: HashMap<String, u32>,
}

/// What is said about a body that is refused.
fn refusal(text: &str) -> String {
    parse::<Order>(text).unwrap_err().message
}

#[test]
fn an_error_says_which_field_is_wrong() {
    let told = "`count.apples`: invalid type: string \"two\", expected u32 at line 1 column 24";
    assert_eq!(refusal(r#"{"count":{"apples":"two"}}"#), told);
}

#[test]
fn an_error_repeats_little_of_what_was_sent() {
    let long = "é".repeat(300_000);
    let begin = "`count.apples`: invalid type: string \"";
    let told = format!("{begin}{}…", "é".repeat(500 - begin.len()));
    assert_eq!(refusal(&format!(r#"{{"count":{{"apples":"{long}"}}}}"#)), told);
    let told = format!("`count.{}…", "é".repeat(500 - "`count.".len()));
    assert_eq!(refusal(&format!(r#"{{"count":{{"{long}":"two"}}}}"#)), told);
}
