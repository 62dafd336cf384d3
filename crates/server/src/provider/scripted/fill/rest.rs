//! What remains of a text, for parameters that are texts and for which nothing is clear.

use std::ops::Range;

use serde_json::Value;

use super::super::schema::{Meaning, Parameter, Shape};
use super::super::text::{Kind, Piece};
use super::super::word;
use super::{Filling, Found, Own, ends_item, fit};

/// Words that a name may follow.
const PREPOSITIONS: &[&str] =
    &["in", "for", "at", "to", "from", "of", "about", "near", "with", "by", "called", "named", "into", "on"];
/// Words that are no names, whatever they follow.
const TIMES: &[&str] = &["today", "tomorrow", "tonight", "yesterday", "currently", "outside", "right"];
/// A name in small letters has at most so many words; more are left.
const LONGEST_NAME: usize = 4;

impl<'a> Filling<'a> {
    /// Names go first: they take little, and the rest ends where they begin.
    pub(super) fn take_the_rest(&mut self) {
        self.each(|filling, parameter| {
            let first = filling.parameters.iter().find(|parameter| takes_a_name(parameter));
            let may = parameter.required || first.is_some_and(|first| std::ptr::eq(first, parameter));
            if may && takes_a_name(parameter) { filling.name_after(prepositions_of(parameter)) } else { None }
        });
        self.each(|filling, parameter| {
            if !parameter.required || !takes_a_name(parameter) {
                return None;
            }
            let address = filling.first(|_, piece| is_address(piece).then(|| piece.text.into()));
            address
                .or_else(|| filling.name_anywhere())
                .or_else(|| filling.words_after(prepositions_of(parameter)))
                .or_else(|| filling.short_rest(parameter))
        });
        self.each(|filling, parameter| match &parameter.shape {
            _ if !parameter.required || !parameter.choices.is_empty() => None,
            Shape::Text(Meaning::Free | Meaning::Path) | Shape::Anything => filling.rest(parameter),
            Shape::List(item, least) if item.choices.is_empty() => filling.listed_rest(parameter, item, *least),
            _ => None,
        });
    }

    /// What is written like a name and follows one of these words: "in New York".
    fn name_after(&self, prepositions: &[&str]) -> Option<Found> {
        self.places_after(prepositions).find_map(|at| self.name_at(at))
    }

    /// What is written like a name, but for the beginning of a sentence, where everything is.
    fn name_anywhere(&self) -> Option<Found> {
        let pieces = &self.text.pieces;
        (1..pieces.len()).filter(|at| !pieces[at - 1].ends_sentence()).find_map(|at| self.name_at(at))
    }

    fn name_at(&self, at: usize) -> Option<Found> {
        let is_name = |at: usize, piece: &Piece<'_>| !self.used[at] && piece.is_capital() && self.own[at] != Own::Name;
        self.run(at, usize::MAX, is_name)
    }

    /// The words that follow one of these, up to where something else begins: "in paris, please".
    fn words_after(&self, prepositions: &[&str]) -> Option<Found> {
        let is_name = |at: usize, piece: &Piece<'_>| {
            let can_be = matches!(piece.kind, Kind::Word | Kind::Number(_)) && !is_common(piece);
            !self.used[at] && self.own[at] != Own::Name && can_be
        };
        self.places_after(prepositions).find_map(|at| self.run(at, LONGEST_NAME, is_name))
    }

    /// Where something begins after one of these words and an article.
    fn places_after(&self, prepositions: &[&str]) -> impl Iterator<Item = usize> {
        let pieces = &self.text.pieces;
        let is_preposition = move |piece: &Piece<'_>| {
            let is = |word: &&str| piece.text.eq_ignore_ascii_case(word);
            piece.is_word() && piece.mark.is_none() && prepositions.iter().any(is)
        };
        let is_article = |piece: &Piece<'_>| matches!(piece.text, "the" | "a" | "an");
        let found = (0..pieces.len()).filter(move |at| is_preposition(&pieces[*at]));
        found.map(move |at| at + 1 + usize::from(pieces.get(at + 1).is_some_and(is_article)))
    }

    /// Pieces from a place on that belong together, none after punctuation.
    fn run(&self, from: usize, most: usize, belongs: impl Fn(usize, &Piece<'a>) -> bool) -> Option<Found> {
        let pieces = &self.text.pieces;
        let mut end = from;
        while end < pieces.len()
            && end - from < most
            && belongs(end, &pieces[end])
            && (end == from || pieces[end - 1].mark.is_none())
        {
            end += 1;
        }
        (end > from).then(|| self.slice(from..end))
    }

    /// What is left, if it can be a name: a few words that say something.
    fn short_rest(&self, parameter: &'a Parameter) -> Option<Found> {
        let range = self.rest_after(parameter)?;
        let is_name = range.len() <= LONGEST_NAME && !self.text.pieces[range.clone()].iter().any(is_common);
        is_name.then(|| self.slice(range))
    }

    /// All that is left, as it is written.
    fn rest(&self, parameter: &'a Parameter) -> Option<Found> {
        let range = self.rest_after(parameter).or_else(|| self.rest_before())?;
        let pieces = &self.text.pieces;
        if let [single] = &pieces[range.clone()] {
            let value = fit(parameter, single).unwrap_or_else(|| single.text.into());
            return Some(Found { value, pieces: vec![range.start] });
        }
        // From the end of the piece before, so that signs are not lost: "calculate (2 + 3) * 4".
        let start = if range.start == 0 { 0 } else { pieces[range.start - 1].end };
        let is_last = range.end == pieces.len();
        let end = if is_last { self.text.source.len() } else { pieces[range.end - 1].end };
        let marks = [',', ';', ':', '=', '.', '!', '?'];
        let text = self.text.source[start..end].trim_start().trim_start_matches(marks).trim();
        let text = if is_last { text.trim_end_matches(marks) } else { text };
        Some(Found { value: text.into(), pieces: range.collect() })
    }

    /// All that is left, taken apart at commas and "and".
    fn listed_rest(&self, parameter: &'a Parameter, item: &Parameter, least: usize) -> Option<Found> {
        let Shape::Text(Meaning::Free | Meaning::Name | Meaning::Path) = item.shape else { return None };
        let range = self.rest_after(parameter).or_else(|| self.rest_before())?;
        let pieces: Vec<usize> = range.clone().collect();
        let (mut items, mut start) = (Vec::new(), range.start);
        for at in range.clone() {
            let is_and = self.text.pieces[at].text.eq_ignore_ascii_case("and");
            if is_and || ends_item(&self.text.pieces[at]) || at + 1 == range.end {
                let end = if is_and { at } else { at + 1 };
                items.extend((end > start).then(|| self.slice(start..end).value));
                start = at + 1;
            }
        }
        (items.len() >= least.max(1)).then_some(Found { value: Value::Array(items), pieces })
    }

    /// What is left after the words that name the tool, up to the first piece that is used.
    fn rest_after(&self, parameter: &'a Parameter) -> Option<Range<usize>> {
        let pieces = &self.text.pieces;
        let named = self.named();
        let says_nothing = |at: usize| {
            self.used[at]
                || pieces[at].joins
                || self.own[at] == Own::Name
                || parameter.stems.contains(&pieces[at].stem)
                || (named.is_none() && pieces[at].is_silent)
                // "search the web for …", but not "search web frameworks".
                || (self.own[at] == Own::Description && (named.is_none() || at + 1 == pieces.len() || pieces[at + 1].joins))
        };
        let start = (named.unwrap_or(0)..pieces.len()).find(|at| !says_nothing(*at))?;
        let used = (start..pieces.len()).find(|at| self.used[*at]);
        let mut end = used.unwrap_or(pieces.len());
        let ends_badly = |at: usize| if used.is_some() { pieces[at].joins } else { pieces[at].text == "please" };
        while end > start && ends_badly(end - 1) {
            end -= 1;
        }
        (end > start).then_some(start..end)
    }

    /// What is left before the words that name the tool: "copy this line to the clipboard".
    fn rest_before(&self) -> Option<Range<usize>> {
        let pieces = &self.text.pieces;
        let says_nothing = |at: usize| {
            let piece = &pieces[at];
            let says_little = piece.is_silent || piece.joins || word::is_weak(&piece.stem);
            self.used[at] || self.own[at] != Own::Nothing || says_little
        };
        let named = self.named()?;
        let start = (0..named).find(|at| !says_nothing(*at))?;
        let mut end = (start..named).find(|at| self.used[*at]).unwrap_or(named);
        while end > start && says_nothing(end - 1) {
            end -= 1;
        }
        (end > start).then_some(start..end)
    }

    /// Where the tool's name begins.
    fn named(&self) -> Option<usize> {
        self.own.iter().position(|own| *own == Own::Name)
    }
}

/// Whether somebody or some place is meant. A time zone is one only if need be: "Tokyo" is not what it wants.
fn takes_a_name(parameter: &Parameter) -> bool {
    let takes = match parameter.shape {
        Shape::Text(Meaning::Name) => true,
        Shape::Text(Meaning::TimeZone) => parameter.required,
        _ => false,
    };
    takes && parameter.choices.is_empty()
}

/// The words that a parameter's value may follow.
fn prepositions_of(parameter: &Parameter) -> &'static [&'static str] {
    let has = |stems: &[&str]| parameter.stems.iter().any(|stem| stems.contains(&stem.as_str()));
    if has(&["from", "origin"]) {
        &["from"]
    } else if has(&["to", "destination", "recipient"]) {
        &["to"]
    } else if has(&["languag"]) {
        &["to", "into", "in"]
    } else {
        PREPOSITIONS
    }
}

fn is_address(piece: &Piece<'_>) -> bool {
    matches!(piece.kind, Kind::Email | Kind::Url)
}

/// Whether a word is no name.
fn is_common(piece: &Piece<'_>) -> bool {
    piece.is_silent || TIMES.contains(&piece.text.to_lowercase().as_str())
}
