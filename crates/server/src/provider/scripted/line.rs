//! Lines that say which call to make: `call <tool> <json>`.
//!
//! - White space, a bullet (`-`, `*`, `+`, `•`, `>`, `1.`, `1)`) and backticks may stand around the line. `call` is
//!   the first word, in any case.
//! - The tool is named by its full id, its alias or its own name, exactly or else in any case. The call is made by
//!   the alias; a tool that is not there is called by the very name, so that the engine says that there is none.
//! - The arguments are everything after the name, exactly as written, JSON or not; without any they are `{}`. JSON that
//!   begins with `{` or `[` and is not complete at the end of the line goes on over the following lines, if they
//!   complete it and have nothing after it.
//!
//! Not every line that begins with "call" is meant so ("call me maybe"). A line counts when its second word
//!
//! - is a tool that is offered, unless a word that only joins follows ("call get_weather for Paris" is a sentence);
//! - or is followed by `{` or `[`;
//! - or looks like nothing but a name: it begins with `client_`, or is all there is on the line, begins with a letter
//!   and has one of `_ - . : @` between others (`call no_such_tool`).

use handback_core::tools::ModelTool;
use serde::de::IgnoredAny;

use super::speech::Call;
use super::word;

/// Calls that are made in one step; what more lines ask for is left out, and the answer says so.
pub(super) const MOST_CALLS: usize = 1_024;
/// A longer word is no tool: full ids have at most 200 bytes.
const LONGEST_NAME: usize = 256;

/// The calls that texts ask for by such lines, and how many more there were than are made.
pub(super) fn calls<'a>(texts: impl Iterator<Item = &'a str>, tools: &[ModelTool<'a>]) -> (Vec<Call<'a>>, usize) {
    let (mut calls, mut left_out) = (Vec::new(), 0);
    for text in texts {
        let mut rest = text;
        while !rest.is_empty() {
            let Some((call, after)) = call(rest, tools) else {
                rest = split_line(rest).1;
                continue;
            };
            if calls.len() < MOST_CALLS {
                calls.push(call);
            } else {
                left_out += 1;
            }
            rest = after;
        }
    }
    (calls, left_out)
}

/// The call that the first line of a text asks for, and the lines after it.
fn call<'a>(text: &'a str, tools: &[ModelTool<'a>]) -> Option<(Call<'a>, &'a str)> {
    let text = after_bullet(skip_blanks(text));
    let unticked = text.trim_start_matches('`');
    let ticks = text.len() - unticked.len();
    let (verb, rest) = unticked.split_at_checked("call".len())?;
    if !verb.eq_ignore_ascii_case("call") || !rest.starts_with([' ', '\t']) {
        return None;
    }
    let (name, rest) = name(skip_blanks(rest))?;
    let (arguments, after) = arguments(rest, ticks);
    let name = match resolve(name, tools) {
        Some(tool) => (!is_sentence(arguments)).then_some(tool.alias)?,
        None => looks_like_a_tool(name, arguments).then_some(name)?,
    };
    let arguments = if arguments.is_empty() { "{}" } else { arguments };
    Some((Call { name, arguments: arguments.into() }, after))
}

/// A tool by its full id, its alias or its own name.
fn resolve<'t, 'a>(name: &str, tools: &'t [ModelTool<'a>]) -> Option<&'t ModelTool<'a>> {
    let same = |known: &str| known == name;
    let alike = |known: &str| known.eq_ignore_ascii_case(name);
    (tools.iter().find(|tool| same(tool.id)))
        .or_else(|| tools.iter().find(|tool| same(tool.alias)))
        .or_else(|| tools.iter().find(|tool| same(tool.name)))
        .or_else(|| tools.iter().find(|tool| alike(tool.id) || alike(tool.alias) || alike(tool.name)))
}

fn looks_like_a_tool(name: &str, arguments: &str) -> bool {
    let is_joint = |character: char| matches!(character, '_' | '-' | '.' | ':' | '@');
    let joined = || {
        name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.ends_with(|last: char| last.is_ascii_alphanumeric())
            && name.chars().all(|character| character.is_ascii_alphanumeric() || is_joint(character))
            && name.contains(is_joint)
    };
    arguments.starts_with(['{', '[']) || name.starts_with("client_") || (arguments.is_empty() && joined())
}

/// Whether what stands in the place of the arguments goes on as a sentence does.
fn is_sentence(arguments: &str) -> bool {
    let word = arguments.split_whitespace().next().unwrap_or_default();
    word.len() < arguments.len() && word::joins(word)
}

/// The name of a tool, perhaps in backticks, and what comes after it.
fn name(text: &str) -> Option<(&str, &str)> {
    let (name, rest) = match text.strip_prefix('`') {
        Some(text) => text.split_once('`')?,
        None => text.split_at(text.find(|c: char| c.is_whitespace() || "{[`".contains(c)).unwrap_or(text.len())),
    };
    (!name.is_empty() && name.len() <= LONGEST_NAME && !name.contains(char::is_whitespace)).then_some((name, rest))
}

/// What is written after the name, without the ticks around the line, and the lines after it.
///
/// All of a text costs no more than reading it a few times: whatever JSON goes on over several lines, it can not go
/// past the next line that begins with "call", since a string in JSON has no line breaks.
fn arguments(text: &str, ticks: usize) -> (&str, &str) {
    let text = skip_blanks(text);
    if text.starts_with(['{', '[']) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
        if let Some(Ok(IgnoredAny)) = values.next() {
            let (value, rest) = text.split_at(values.byte_offset());
            let (rest, after) = split_line(rest);
            if value.contains('\n') && rest.trim().trim_matches('`').is_empty() {
                return (value, after);
            }
        }
    }
    let (line, after) = split_line(text);
    let mut line = line.trim_end();
    for _ in 0..ticks {
        line = line.strip_suffix('`').unwrap_or(line);
    }
    (line.trim_end(), after)
}

fn after_bullet(line: &str) -> &str {
    let digits = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let bulleted = if digits.len() < line.len() {
        digits.strip_prefix(['.', ')'])
    } else {
        line.strip_prefix(['-', '*', '+', '•', '>'])
    };
    match bulleted {
        Some(text) if text.starts_with([' ', '\t']) => skip_blanks(text),
        _ => line,
    }
}

/// White space within a line.
fn skip_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t'])
}

fn split_line(text: &str) -> (&str, &str) {
    text.split_once('\n').unwrap_or((text, ""))
}
