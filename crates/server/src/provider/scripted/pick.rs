//! The tool that fits the words of the user.
//!
//! Each word of the user counts once for a tool: most if it is in the tool's name, less if in its description, least
//! if only its parameters have it. The best of those that reach [`ENOUGH`] is called, of equals the first.

use handback_core::tools::ModelTool;
use serde_json::Value;

use super::fill::{self, Filled, Own};
use super::schema::{self, Parameter};
use super::text::{Kind, Piece, Text};
use super::word;

/// Bytes of what the user says that are looked at; what comes after them is not.
pub(super) const MOST_TEXT: usize = 8 * 1024;
/// Different words of the user that are compared; later ones are not.
const MOST_WORDS: usize = 64;
/// Tools whose schema is looked into, the ones with the best names and descriptions; the others do not fit.
const MOST_CANDIDATES: usize = 8;
/// The server's own tool that lists the others: it is there always, and fits only who asks for it.
const LIST_TOOLS: &str = "list_tools";
/// How far before "tools" the word is that asks for them.
const ASKED_WITHIN: usize = 5;

/// What a word counts in a tool's name,
const IN_NAME: u32 = 4;
/// in its description,
const IN_DESCRIPTION: u32 = 2;
/// in an enumeration of its parameters,
const IN_CHOICES: u32 = 2;
/// in a parameter's name or description,
const IN_PARAMETER: u32 = 1;
/// and a word that many tools have, wherever it is.
const WEAK: u32 = 1;
/// What all words outside of names count at most: a long text has something in common with everything.
const MOST_OUTSIDE: u32 = 6;
/// What it counts that the user writes the name as it is, if it could not be just a word,
const MENTIONED: u32 = 8;
/// that the user says every word of the name,
const WHOLE_NAME: u32 = 2;
/// and that the tool has every word of the user; half as much for half of them.
const ALL_WORDS: u32 = 2;
/// A tool fits from here on: with a word in its name, two in its description, or one that is all that the user says.
const ENOUGH: u32 = 4;
/// How far a tool falls behind when a required parameter is missing.
const MISSING: u32 = 3;

/// What was picked.
#[derive(Debug)]
pub(super) enum Pick<'a> {
    /// A tool, with arguments that should do.
    Call { tool: ModelTool<'a>, arguments: String },
    /// A tool, but required parameters are missing: what each is called and what it takes.
    Missing { tool: ModelTool<'a>, parameters: Vec<String> },
    /// None fits.
    Nothing,
}

/// Picks the tool that fits a text.
pub(super) fn pick<'a>(text: &str, tools: &[ModelTool<'a>]) -> Pick<'a> {
    let text = Text::read(text);
    let (lists, tools): (Vec<ModelTool<'a>>, Vec<ModelTool<'a>>) =
        tools.iter().partition(|tool| tool.name == LIST_TOOLS && !tool.id.starts_with("client_"));
    if let (true, Some(tool)) = (asks_for_tools(&text), lists.first()) {
        return Pick::Call { tool: *tool, arguments: "{}".to_owned() };
    }
    let wish = Wish::of(&text);
    let mut candidates: Vec<Score<'a>> = tools.iter().map(|tool| Score::of(tool, &wish, &text)).collect();
    candidates.retain(|score| score.points() > 0);
    // Stable: of equals the first stays first, here and below.
    candidates.sort_by_key(|score| std::cmp::Reverse(score.points()));
    candidates.truncate(MOST_CANDIDATES);
    let fitting = candidates.into_iter().filter_map(|score| score.fit(&wish, &text));
    let best = fitting.reduce(|best, next| if next.rank > best.rank { next } else { best });
    match best {
        None => Pick::Nothing,
        Some(Fit { tool, filled, .. }) if filled.missing.is_empty() => Pick::Call { tool, arguments: filled.arguments },
        Some(Fit { tool, filled, .. }) => Pick::Missing { tool, parameters: filled.missing },
    }
}

/// Whether somebody says "list the tools", "which tools are there?", "show me all available tools", "list_tools".
fn asks_for_tools(text: &Text<'_>) -> bool {
    const ASKING: &[&str] = &["list", "show", "which", "what", "find", "discover", "name", "see"];
    const BETWEEN: &[&str] = &["the", "me", "us", "all", "of", "your", "my", "available"];
    let is_any = |piece: &Piece<'_>, words: &[&str]| words.iter().any(|word| piece.text.eq_ignore_ascii_case(word));
    text.pieces.iter().enumerate().any(|(at, piece)| {
        let before = text.pieces[..at].iter().rev().take(ASKED_WITHIN).find(|piece| !is_any(piece, BETWEEN));
        let is_asked_for = before.is_some_and(|piece| is_any(piece, ASKING));
        is_any(piece, &[LIST_TOOLS]) || (is_any(piece, &["tools", "tool"]) && is_asked_for)
    })
}

/// The words of the user that say something, as stems.
struct Wish {
    stems: Vec<String>,
    /// How many of them are words; the others stand for what is there: an address, a file.
    said: usize,
}

impl Wish {
    fn of(text: &Text<'_>) -> Self {
        let mut stems = Vec::new();
        let add = |stem: String, stems: &mut Vec<String>| {
            if stems.len() < MOST_WORDS && !stems.contains(&stem) {
                stems.push(stem);
            }
        };
        for piece in text.pieces.iter().filter(|piece| piece.is_word()) {
            word::stems(piece.text).for_each(|stem| add(stem, &mut stems));
        }
        let said = stems.len();
        for piece in &text.pieces {
            let name = match piece.kind {
                Kind::Url => "url",
                Kind::Email => "email",
                Kind::Path => "file",
                _ => continue,
            };
            add(word::stem(name), &mut stems);
        }
        Self { stems, said }
    }
}

/// How well a tool fits.
struct Score<'a> {
    tool: ModelTool<'a>,
    /// The words of its name.
    name: Vec<String>,
    /// What each word of the user counts, in the name and outside of it.
    inside: Vec<u32>,
    outside: Vec<u32>,
    /// What the name counts as a whole.
    whole: u32,
}

/// A tool that fits.
struct Fit<'a> {
    tool: ModelTool<'a>,
    rank: u32,
    filled: Filled,
}

impl<'a> Score<'a> {
    /// Looks at the name and the description.
    fn of(tool: &ModelTool<'a>, wish: &Wish, text: &Text<'_>) -> Self {
        let name: Vec<String> = word::stems(tool.name).collect();
        let telling: Vec<&String> = match name.iter().any(|stem| !word::is_weak(stem)) {
            true => name.iter().filter(|stem| !word::is_weak(stem)).collect(),
            false => name.iter().collect(),
        };
        let inside = wish.stems.iter().map(|stem| match name.contains(stem) {
            true if telling.contains(&stem) => IN_NAME,
            true => WEAK,
            false => 0,
        });
        let is_mentioned =
            word::split(tool.name).nth(1).is_some() && text.pieces.iter().any(|piece| is_name(piece, tool));
        let is_whole = !telling.is_empty() && telling.iter().all(|stem| wish.stems.contains(stem));
        let mut score = Self {
            tool: *tool,
            inside: inside.collect(),
            outside: vec![0; wish.stems.len()],
            whole: if is_mentioned { MENTIONED } else { 0 } + if is_whole { WHOLE_NAME } else { 0 },
            name,
        };
        score.add(beginning(tool.description), IN_DESCRIPTION, wish);
        score
    }

    fn add(&mut self, text: &str, weight: u32, wish: &Wish) {
        for stem in word::stems(text) {
            if let Some(index) = wish.stems.iter().position(|known| *known == stem) {
                let weight = if word::is_weak(&stem) { WEAK } else { weight };
                self.outside[index] = self.outside[index].max(weight);
            }
        }
    }

    fn points(&self) -> u32 {
        let outside = self.inside.iter().zip(&self.outside).filter(|(inside, _)| **inside == 0);
        let outside: u32 = outside.map(|(_, outside)| outside).sum();
        self.inside.iter().sum::<u32>() + outside.min(MOST_OUTSIDE) + self.whole
    }

    /// Looks at the parameters as well, and fills them; `None` if it is not enough.
    fn fit(mut self, wish: &Wish, text: &Text<'_>) -> Option<Fit<'a>> {
        let described = wish.stems.iter().zip(&self.outside).filter(|(_, weight)| **weight > 0);
        let described: Vec<&str> = described.map(|(stem, _)| stem.as_str()).collect();
        let parameters = schema::parameters(self.tool.schema);
        let own = text.pieces.iter().map(|piece| match piece {
            piece if self.is_own(piece) => Own::Name,
            piece if described.contains(&piece.stem.as_str()) => Own::Description,
            _ => Own::Nothing,
        });
        let filled = fill::fill(text, own.collect(), &parameters);

        let without_parameters = self.points();
        parameters.iter().for_each(|parameter| self.add_parameter(parameter, wish));
        let known = self.inside.iter().zip(&self.outside).take(wish.said);
        let known = known.filter(|(inside, outside)| **inside + **outside > 0).count();
        let coverage = match known {
            all if all == wish.said => ALL_WORDS,
            some if some * 2 >= wish.said => ALL_WORDS / 2,
            _ => 0,
        };
        let points = self.points() + coverage;
        // Who says little about the tool has hardly meant it if it can not be called.
        let is_meant = without_parameters >= ENOUGH || filled.missing.is_empty();
        if points < ENOUGH || !is_meant {
            return None;
        }
        let behind = if filled.missing.is_empty() { 0 } else { MISSING };
        Some(Fit { tool: self.tool, rank: points + filled.evidence - behind, filled })
    }

    /// Whether a piece of the text says nothing but what the tool is called.
    fn is_own(&self, piece: &Piece<'_>) -> bool {
        let mut stems = word::split(piece.text).map(word::stem).peekable();
        let is_made_of = piece.is_word() && stems.peek().is_some() && stems.all(|stem| self.name.contains(&stem));
        is_made_of || is_name(piece, &self.tool)
    }

    fn add_parameter(&mut self, parameter: &Parameter, wish: &Wish) {
        self.add(&parameter.name, IN_PARAMETER, wish);
        self.add(&parameter.description, IN_PARAMETER, wish);
        for choice in parameter.choices.iter().filter_map(Value::as_str) {
            self.add(choice, IN_CHOICES, wish);
        }
    }
}

/// Whether a piece of the text is what the tool is called.
fn is_name(piece: &Piece<'_>, tool: &ModelTool<'_>) -> bool {
    [tool.name, tool.alias, tool.id].iter().any(|name| piece.text.eq_ignore_ascii_case(name))
}

/// As much of a description as is looked at.
fn beginning(description: &str) -> &str {
    &description[..description.floor_char_boundary(schema::MOST_DESCRIPTION)]
}
