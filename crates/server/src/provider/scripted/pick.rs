//! Picks the tool that fits the words of the user.
//!
//! Each word of the user counts once for a tool: more in the tool's name, less in its description. Of the tools that
//! reach [`ENOUGH`], the best is called; on a tie, the first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use handback_core::tools::ModelTool;

use super::arguments;
use super::text::{self, Piece};

/// How many tools have their parameters read: those with the best names and descriptions. The others do not fit.
const MOST_CANDIDATES: usize = 8;
/// The server tool that lists the others. It is always there, and fits only a user who asks for it.
const LIST_TOOLS: &str = "list_tools";
/// Words that many tool names contain. Such a word counts 1, wherever it is found.
const WEAK: [&str; 11] = ["create", "find", "get", "list", "make", "on", "run", "set", "show", "take", "update"];
/// The points of a word in the name of a tool.
const IN_NAME: u32 = 4;
/// The points of a word in the description of a tool.
const IN_DESCRIPTION: u32 = 2;
/// The points if every word of the user is in the name or the description.
const ALL_WORDS: u32 = 2;
/// The points if the user writes a name of several words exactly.
const MENTIONED: u32 = 8;
/// The points from which a tool fits: a word in its name, two in its description, or the user's only word in it.
const ENOUGH: u32 = 4;
/// The points that a tool loses if a required parameter has no value.
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
    // The sort is stable: on a tie the first tool stays first, here and below.
    candidates.sort_by_key(|(points, _)| Reverse(*points));
    let filled = candidates.into_iter().take(MOST_CANDIDATES).map(|(points, tool)| {
        let arguments = arguments::fill(tool, text, &pieces);
        (if arguments.is_ok() { points } else { points - MISSING }, tool, arguments)
    });
    filled.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, tool, arguments)| (*tool, arguments))
}

/// Whether the user says "list the tools", "which tools are there?", "show me all available tools", "list_tools".
fn asks_for_tools(pieces: &[Piece<'_>]) -> bool {
    const ASKING: &[&str] = &["list", "show", "which", "what", "find", "discover", "name", "see"];
    const BETWEEN: &[&str] = &["the", "me", "us", "all", "of", "your", "my", "available"];
    let words: Vec<&str> =
        pieces.iter().map(|piece| piece.word.as_str()).filter(|word| !BETWEEN.contains(word)).collect();
    let asks = |pair: &[&str]| ASKING.contains(&pair[0]) && matches!(pair[1], "tool" | "tools");
    words.contains(&LIST_TOOLS) || words.windows(2).any(asks)
}

/// The points of a tool for the words of the user.
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
