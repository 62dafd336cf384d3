//! The tool that fits the words of the user.
//!
//! Each word of the user counts once for a tool: more if it is in the tool's name, less if it is in its description. The
//! best of the tools that reach [`ENOUGH`] is called, of equals the first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use handback_core::tools::ModelTool;

use super::arguments;
use super::text::{self, Piece};

/// Tools whose parameters are read, the ones with the best names and descriptions; the others do not fit.
const MOST_CANDIDATES: usize = 8;
/// The server's own tool that lists the others: it is there always, and fits only who asks for it.
const LIST_TOOLS: &str = "list_tools";
/// Words that many tools have in their names: one of them counts 1 wherever it is.
const WEAK: [&str; 11] = ["create", "find", "get", "list", "make", "on", "run", "set", "show", "take", "update"];
/// What a word counts that is in the name of a tool.
const IN_NAME: u32 = 4;
/// What a word counts that is in the description of a tool.
const IN_DESCRIPTION: u32 = 2;
/// What it counts that every word of the user is in the name or the description.
const ALL_WORDS: u32 = 2;
/// What it counts that the user writes a name of several words as it is.
const MENTIONED: u32 = 8;
/// A tool fits from here on: with a word in its name, two in its description, or one that is all that the user says.
const ENOUGH: u32 = 4;
/// How far a tool falls behind when a required parameter has no value.
const MISSING: u32 = 3;

/// Picks the tool that fits a text, with its arguments or the descriptions of the parameters that are missing.
pub(super) fn pick<'a>(text: &str, tools: &[ModelTool<'a>]) -> Option<(ModelTool<'a>, Result<String, Vec<String>>)> {
    let pieces = text::pieces(text);
    let lists_tools = |tool: &&ModelTool<'_>| tool.name == LIST_TOOLS && !tool.id.starts_with("client_");
    if let Some(tool) = tools.iter().find(lists_tools).filter(|_| asks_for_tools(&pieces)) {
        return Some((*tool, Ok("{}".to_owned())));
    }
    let words = pieces.iter().filter(|piece| !piece.word.is_empty());
    let wish: BTreeSet<String> = words.flat_map(|piece| text::telling_words(piece.text)).collect();
    let others = tools.iter().filter(|tool| !lists_tools(tool)).map(|tool| (points(tool, &wish, &pieces), tool));
    let mut candidates: Vec<(u32, &ModelTool<'_>)> = others.filter(|(points, _)| *points >= ENOUGH).collect();
    // Of equals the first stays first, here and below.
    candidates.sort_by_key(|(points, _)| Reverse(*points));
    let filled = candidates.into_iter().take(MOST_CANDIDATES).map(|(points, tool)| {
        let arguments = arguments::fill(tool, text, &pieces);
        (if arguments.is_ok() { points } else { points - MISSING }, tool, arguments)
    });
    filled.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, tool, arguments)| (*tool, arguments))
}

/// Whether somebody says "list the tools", "which tools are there?", "show me all available tools", "list_tools".
fn asks_for_tools(pieces: &[Piece<'_>]) -> bool {
    const ASKING: &[&str] = &["list", "show", "which", "what", "find", "discover", "name", "see"];
    const BETWEEN: &[&str] = &["the", "me", "us", "all", "of", "your", "my", "available"];
    let words: Vec<&str> =
        pieces.iter().map(|piece| piece.word.as_str()).filter(|word| !BETWEEN.contains(word)).collect();
    let asks = |pair: &[&str]| ASKING.contains(&pair[0]) && matches!(pair[1], "tool" | "tools");
    words.contains(&LIST_TOOLS) || words.windows(2).any(asks)
}

/// How well a tool fits the words of the user.
fn points(tool: &ModelTool<'_>, wish: &BTreeSet<String>, pieces: &[Piece<'_>]) -> u32 {
    let (name, description) = (text::telling_words(tool.name), text::telling_words(tool.description));
    let is_in = |words: &[String], word: &str| words.iter().any(|known| text::is_same(known, word));
    let weight = |word: &String| match (is_in(&name, word), is_in(&description, word)) {
        (false, false) => 0,
        _ if WEAK.contains(&word.as_str()) => 1,
        (true, _) => IN_NAME,
        (false, true) => IN_DESCRIPTION,
    };
    let weights: Vec<u32> = wish.iter().map(weight).collect();
    let covered = if weights.contains(&0) { 0 } else { ALL_WORDS };
    let is_called =
        |piece: &Piece<'_>| [tool.name, tool.alias, tool.id].iter().any(|name| piece.text.eq_ignore_ascii_case(name));
    let is_mentioned = text::words(tool.name).len() > 1 && pieces.iter().any(is_called);
    weights.iter().sum::<u32>() + covered + if is_mentioned { MENTIONED } else { 0 }
}
