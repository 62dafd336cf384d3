//! Lines that ask for a call: `call <tool> <json>`.
//!
//! - White space, a bullet (`-`, `1.`) and backticks may stand around the line. `call` may be in any case.
//! - The tool is named by its full id, its alias or its own name, exactly or else in any case. An unknown tool is
//!   called by the name as written, so that the engine reports that it does not exist.
//! - The arguments are everything after the name, exactly as written, JSON or not; without any they are `{}`. JSON that
//!   is not complete at the end of the line goes on over the following lines, if they complete it and have nothing else.
//!
//! A line counts if its second word is a tool, unless the line goes on as a sentence ("call get_weather for Paris"); if
//! `{` or `[` follows that word; or if the word can only be a tool: it begins with `client_`, or it is the last one and
//! has one of `_ - . : @` in it (`call no_such_tool`). "call me maybe" is not a call.

use handback_core::tools::ModelTool;
use serde::de::IgnoredAny;

use super::text::JOINTS;

/// Characters that can precede the verb, besides digits: blanks, bullets and backticks.
const BEFORE: &str = " \t-*+•>.)`";
/// A longer word is not a tool: full ids have at most 200 bytes.
const LONGEST_NAME: usize = 256;

/// The calls that the lines of a text ask for: the tool's alias and the arguments.
pub(super) fn calls<'a>(mut text: &'a str, tools: &[ModelTool<'a>]) -> Vec<(String, String)> {
    let mut calls = Vec::new();
    while !text.is_empty() {
        let call = call(text, tools);
        calls.extend(call.map(|(name, arguments, _)| (name.to_owned(), arguments.to_owned())));
        text = call.map_or(split_line(text).1, |(.., after)| after);
    }
    calls
}

/// The call that the first line of a text asks for: the tool, the arguments, and the lines after it.
fn call<'a>(text: &'a str, tools: &[ModelTool<'a>]) -> Option<(&'a str, &'a str, &'a str)> {
    let line = text.trim_start_matches(|c: char| c.is_ascii_digit() || BEFORE.contains(c));
    let is_ticked = text[..text.len() - line.len()].contains('`');
    let (verb, rest) = line.split_at_checked("call".len())?;
    if !verb.eq_ignore_ascii_case("call") || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let rest = rest.trim_start_matches([' ', '\t']);
    let (name, rest) = match rest.strip_prefix('`') {
        Some(name) => name.split_once('`')?,
        None => rest.split_at(rest.find(|c: char| c.is_whitespace() || "{[`".contains(c)).unwrap_or(rest.len())),
    };
    if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_whitespace) {
        return None;
    }
    let (arguments, after) = arguments(rest.trim_start_matches([' ', '\t']), is_ticked);
    let word = arguments.split_whitespace().next().unwrap_or_default();
    let is_sentence = word.len() < arguments.len() && JOINTS.contains(&word.to_lowercase().as_str());
    let is_joined = name.starts_with(char::is_alphabetic)
        && name.ends_with(char::is_alphanumeric)
        && name.contains(['_', '-', '.', ':', '@']);
    let names = |tool: &ModelTool<'a>| [tool.id, tool.alias, tool.name];
    let exact = (0..3).find_map(|kind| tools.iter().find(|tool| names(tool)[kind] == name));
    let alike = || tools.iter().find(|tool| names(tool).iter().any(|known| known.eq_ignore_ascii_case(name)));
    let name = match exact.or_else(alike) {
        Some(tool) if !is_sentence => tool.alias,
        None if arguments.starts_with(['{', '[']) || name.starts_with("client_") => name,
        None if arguments.is_empty() && is_joined => name,
        _ => return None,
    };
    Some((name, if arguments.is_empty() { "{}" } else { arguments }, after))
}

/// The arguments after the name, without the backticks around the line, and the lines after them.
///
/// The cost stays at a few reads of the whole text: JSON that spans lines cannot go past the next line that begins with
/// "call", because a JSON string has no line breaks.
fn arguments(text: &str, is_ticked: bool) -> (&str, &str) {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    if text.starts_with(['{', '['])
        && let Some(Ok(IgnoredAny)) = values.next()
    {
        let (value, rest) = text.split_at(values.byte_offset());
        let (rest, after) = split_line(rest);
        if value.contains('\n') && rest.trim().trim_matches('`').is_empty() {
            return (value, after);
        }
    }
    let (line, after) = split_line(text);
    let line = line.trim_end();
    (if is_ticked { line.trim_end_matches('`').trim_end() } else { line }, after)
}

fn split_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}
