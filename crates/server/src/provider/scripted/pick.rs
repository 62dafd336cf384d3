//! The tool that fits the words of the user.
//!
//! Each word of the user counts once for a tool: most if it is in the tool's name, less if in its description, least
//! if only its parameters have it. The best of those that reach [`ENOUGH`] is called, of equals the first.

use handback_core::model::ModelTool;
use serde_json::Value;

use super::fill::{self, Filled};
use super::schema::{self, Parameter};
use super::text::{Kind, Text};
use super::word;

/// Bytes of what the user says that are looked at; what comes after them is not.
pub(super) const MOST_TEXT: usize = 8 * 1024;
/// Different words of the user that are compared; later ones are not.
const MOST_WORDS: usize = 64;
/// Tools whose schema is looked into, the ones with the best names and descriptions; the others do not fit.
const MOST_CANDIDATES: usize = 8;
/// The server's own tool that lists the others: it is there always, and fits only who asks for it.
const LIST_TOOLS: &str = "list_tools";

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
/// What it counts that the user says every word of the name,
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
        tools.iter().partition(|tool| tool.name == LIST_TOOLS && tool.id == LIST_TOOLS);
    if let (true, Some(tool)) = (asks_for_tools(&text), lists.first()) {
        return Pick::Call { tool: *tool, arguments: "{}".to_owned() };
    }
    let wish = Wish::of(&text);
    let mut candidates: Vec<Score<'a>> = tools.iter().map(|tool| Score::of(tool, &wish)).collect();
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

/// Whether somebody says "list the tools", "which tools are there?", "show me all available tools".
fn asks_for_tools(text: &Text<'_>) -> bool {
    text.pieces.iter().enumerate().any(|(at, piece)| {
        let before = text.pieces[..at].iter().rev().filter(|piece| !matches!(&*piece.stem, "availabl" | "client"));
        let mut before =
            before.skip_while(|piece| piece.is_word() && matches!(&*piece.stem, "th" | "me" | "al" | "your" | "my"));
        piece.is_word()
            && piece.stem == "tol"
            && before.next().is_some_and(|word| {
                matches!(
                    &*word.stem,
                    "list" | "show" | "which" | "what" | "find" | "discov" | "discover" | "nam" | "se"
                )
            })
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
    whole_name: bool,
}

/// A tool that fits.
struct Fit<'a> {
    tool: ModelTool<'a>,
    rank: u32,
    filled: Filled,
}

impl<'a> Score<'a> {
    /// Looks at the name and the description.
    fn of(tool: &ModelTool<'a>, wish: &Wish) -> Self {
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
        let mut score = Self {
            tool: *tool,
            inside: inside.collect(),
            outside: vec![0; wish.stems.len()],
            whole_name: !telling.is_empty() && telling.iter().all(|stem| wish.stems.contains(stem)),
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
        let whole_name = if self.whole_name { WHOLE_NAME } else { 0 };
        self.inside.iter().sum::<u32>() + outside.min(MOST_OUTSIDE) + whole_name
    }

    /// Looks at the parameters as well, and fills them; `None` if it is not enough.
    fn fit(mut self, wish: &Wish, text: &Text<'_>) -> Option<Fit<'a>> {
        let parameters = schema::parameters(self.tool.schema);
        parameters.iter().for_each(|parameter| self.add_parameter(parameter, wish));
        let known = self.inside.iter().zip(&self.outside).take(wish.said);
        let known = known.filter(|(inside, outside)| **inside + **outside > 0).count();
        let coverage = match known {
            all if all == wish.said => ALL_WORDS,
            some if some * 2 >= wish.said => ALL_WORDS / 2,
            _ => 0,
        };
        let points = self.points() + coverage;
        let filled = fill::fill(text, &self.name, &parameters);
        // Who does not say a word of the name has hardly meant the tool if it can not be called.
        let named = self.inside.contains(&IN_NAME);
        if points < ENOUGH || !(named || filled.missing.is_empty()) {
            return None;
        }
        let behind = if filled.missing.is_empty() { 0 } else { MISSING };
        Some(Fit { tool: self.tool, rank: points + filled.evidence - behind, filled })
    }

    fn add_parameter(&mut self, parameter: &Parameter, wish: &Wish) {
        self.add(&parameter.name, IN_PARAMETER, wish);
        self.add(&parameter.description, IN_PARAMETER, wish);
        for choice in parameter.choices.iter().filter_map(Value::as_str) {
            self.add(choice, IN_CHOICES, wish);
        }
    }
}

/// As much of a description as is looked at.
fn beginning(description: &str) -> &str {
    &description[..description.floor_char_boundary(schema::MOST_DESCRIPTION)]
}
