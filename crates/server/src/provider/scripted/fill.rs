//! Arguments from a text.
//!
//! An object in JSON whose fields are parameters is taken as it is. Otherwise what is clear goes first: values that are
//! named ("width 800", "3 days", `title: Groceries`), values of an enumeration, addresses, numbers, quotes. What remains
//! of the text is for the required parameters that are texts: a name after a preposition ("in Paris"), or all that is
//! left (`rest`). Each piece of the text is used once. An optional parameter is filled only by what is clear.

mod rest;

use std::collections::BTreeMap;
use std::ops::Range;

use serde::de::IgnoredAny;
use serde_json::{Deserializer, Map, Number, Value};

use super::schema::{Meaning, Parameter, Shape};
use super::text::{self, Kind, Piece, Text};
use super::word;

/// What came of filling the parameters of a tool.
#[derive(Debug)]
pub(super) struct Filled {
    /// The arguments, a JSON object.
    pub(super) arguments: String,
    /// Required parameters for which nothing was found: what each is called and what it takes.
    pub(super) missing: Vec<String>,
    /// How many required parameters had something that clearly was for them, up to [`MOST_EVIDENCE`].
    pub(super) evidence: u32,
}

/// More evidence than this says nothing more about a tool.
const MOST_EVIDENCE: u32 = 2;
/// Braces of a text that may begin an object; later ones do not.
const MOST_BRACES: usize = 8;

/// What a piece of the text says about the tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// It is in its name.
    Name,
    /// It is in its description.
    Description,
    Nothing,
}

/// Fills the parameters of a tool from a text, of whose pieces it is known what they say about the tool.
pub(super) fn fill(text: &Text<'_>, own: Vec<Own>, parameters: &[Parameter]) -> Filled {
    if let Some(object) = written_object(text.source, parameters) {
        return Filled { arguments: object.to_owned(), missing: Vec::new(), evidence: MOST_EVIDENCE };
    }
    let (values, used) = (vec![None; parameters.len()], vec![false; text.pieces.len()]);
    let mut filling = Filling { text, own, parameters, values, used };
    filling.take_what_is_clear();
    let clear = filling.required().filter(|(_, value)| value.is_some()).count() as u32;
    filling.take_the_rest();
    filling.each(|_, parameter| parameter.required.then(|| without_a_word(parameter)).flatten());
    let fields = parameters.iter().zip(&filling.values).filter_map(|(parameter, value)| {
        value.as_ref().map(|value| format!("{}:{value}", Value::from(parameter.name.as_str())))
    });
    let missing = filling.required().filter(|(_, value)| value.is_none());
    Filled {
        arguments: format!("{{{}}}", fields.collect::<Vec<_>>().join(",")),
        missing: missing.map(|(parameter, _)| parameter.describe()).collect(),
        evidence: clear.min(MOST_EVIDENCE),
    }
}

/// An object in the text that has fields, all of them parameters; any field will do where no parameters are known.
fn written_object<'a>(source: &'a str, parameters: &[Parameter]) -> Option<&'a str> {
    let is_known = |name: &String| parameters.is_empty() || parameters.iter().any(|parameter| parameter.name == *name);
    source.match_indices('{').take(MOST_BRACES).find_map(|(at, _)| {
        let mut objects = Deserializer::from_str(&source[at..]).into_iter::<BTreeMap<String, IgnoredAny>>();
        let fields = objects.next()?.ok()?;
        let is_meant = !fields.is_empty() && fields.keys().all(is_known);
        is_meant.then(|| &source[at..at + objects.byte_offset()])
    })
}

/// Parameters that are being filled. Those that come later get what those before have left.
struct Filling<'a> {
    text: &'a Text<'a>,
    /// What each piece of the text says about the tool.
    own: Vec<Own>,
    parameters: &'a [Parameter],
    /// The value of each parameter, once it is known.
    values: Vec<Option<Value>>,
    /// Which pieces of the text are used.
    used: Vec<bool>,
}

/// A value for a parameter, and the pieces that it is made of.
struct Found {
    value: Value,
    pieces: Vec<usize>,
}

impl<'a> Filling<'a> {
    fn take_what_is_clear(&mut self) {
        self.each(|filling, parameter| {
            let value = |piece| fit(parameter, piece).or_else(|| quote(parameter, piece));
            filling.first(|at, piece| if filling.is_named_before(parameter, at) { value(piece) } else { None })
        });
        self.each(|filling, parameter| {
            let value = |piece| fit(parameter, piece);
            filling.first(|at, piece| if filling.is_named_after(parameter, at) { value(piece) } else { None })
        });
        self.each(Self::choice);
        self.each(Self::boolean);
        self.each(Self::labelled_text);
        self.each(|filling, parameter| match parameter.shape {
            Shape::Text(Meaning::Name | Meaning::Free) | Shape::Anything => None,
            Shape::Number | Shape::Integer if !filling.is_wanted(parameter) => None,
            _ => filling.first(|_, piece| fit(parameter, piece)),
        });
        self.each(|filling, parameter| match &parameter.shape {
            Shape::List(item, least) => filling.list(parameter, item, *least),
            _ => filling.first(|_, piece| quote(parameter, piece)),
        });
    }

    /// Looks for a value of each parameter that has none, one after the other.
    fn each(&mut self, find: impl Fn(&Self, &'a Parameter) -> Option<Found>) {
        for (index, parameter) in self.parameters.iter().enumerate() {
            if self.values[index].is_some() {
                continue;
            }
            if let Some(found) = find(self, parameter) {
                self.values[index] = Some(found.value);
                found.pieces.into_iter().for_each(|piece| self.used[piece] = true);
            }
        }
    }

    /// The first piece that makes a value and is not used.
    fn first(&self, value: impl Fn(usize, &'a Piece<'a>) -> Option<Value>) -> Option<Found> {
        self.unused().find_map(|(at, piece)| value(at, piece).map(|value| Found { value, pieces: vec![at] }))
    }

    fn unused(&self) -> impl Iterator<Item = (usize, &'a Piece<'a>)> {
        self.text.pieces.iter().enumerate().filter(|(at, _)| !self.used[*at])
    }

    fn required(&self) -> impl Iterator<Item = (&'a Parameter, &Option<Value>)> {
        self.parameters.iter().zip(&self.values).filter(|(parameter, _)| parameter.required)
    }

    /// Whether a parameter may take what is not clearly for it: it must have a value, or there is no other.
    fn is_wanted(&self, parameter: &Parameter) -> bool {
        parameter.required || self.parameters.len() == 1
    }

    /// Whether the parameter's name stands before a piece, with nothing between but words that join.
    fn is_named_before(&self, parameter: &Parameter, at: usize) -> bool {
        let before = self.text.pieces[..at].iter().rev().take(3).take_while(|piece| !piece.ends_sentence());
        for piece in before {
            if parameter.stems.contains(&piece.stem) {
                return true;
            }
            if !piece.joins {
                return false;
            }
        }
        false
    }

    /// Whether the parameter's name stands right after a piece, as in "3 days".
    fn is_named_after(&self, parameter: &Parameter, at: usize) -> bool {
        let pieces = &self.text.pieces;
        pieces[at].mark.is_none() && pieces.get(at + 1).is_some_and(|piece| parameter.stems.contains(&piece.stem))
    }

    /// A value of the parameter's enumeration: first one that is named, last one that is a word of the tool's name.
    fn choice(&self, parameter: &'a Parameter) -> Option<Found> {
        let rank =
            |range: &Range<usize>| (!self.is_named_before(parameter, range.start), self.own[range.start] == Own::Name);
        let mentioned = self.mentions(parameter).into_iter().min_by_key(|(range, _)| rank(range));
        if let Some((range, value)) = mentioned {
            return Some(Found { value: value.clone(), pieces: range.collect() });
        }
        // Signs are no pieces: "2 + 3".
        let is_sign = |sign: &str| !sign.is_empty() && !sign.contains(char::is_alphanumeric);
        let mut signs = parameter.choices.iter().filter(|choice| choice.as_str().is_some_and(is_sign));
        let sign = signs.find(|sign| self.text.source.split_whitespace().any(|chunk| Some(chunk) == sign.as_str()))?;
        Some(Found { value: sign.clone(), pieces: Vec::new() })
    }

    /// Where the text has values of an enumeration; where several begin, the longest.
    fn mentions(&self, parameter: &'a Parameter) -> Vec<(Range<usize>, &'a Value)> {
        let choices: Vec<(&Value, String, Vec<String>)> = (parameter.choices.iter())
            .map(|choice| {
                let text = choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
                let stems = word::split(&text).map(word::stem).collect();
                (choice, text, stems)
            })
            .collect();
        let length = |at: usize, text: &str, stems: &[String]| {
            let pieces = &self.text.pieces[at..];
            let same = || stems.iter().zip(pieces).all(|(stem, piece)| *stem == piece.stem);
            if pieces[0].text.eq_ignore_ascii_case(text) {
                1
            } else if stems.len() <= pieces.len() && same() {
                stems.len()
            } else {
                0
            }
        };
        let longest = |at: usize| {
            let lengths = choices.iter().map(|(choice, text, stems)| (length(at, text, stems), *choice));
            // Of equals the first.
            lengths.rev().max_by_key(|(length, _)| *length).filter(|(length, _)| *length > 0)
        };
        let found = self.unused().filter_map(|(at, _)| longest(at).map(|(length, choice)| (at..at + length, choice)));
        found.filter(|(range, _)| !self.used[range.clone()].contains(&true)).collect()
    }

    /// A switch that is named, or for one that must be set whichever way the text has it.
    fn boolean(&self, parameter: &'a Parameter) -> Option<Found> {
        const YES: &[&str] = &["on", "yes", "true", "enable", "enabled", "activate"];
        const NO: &[&str] = &["off", "no", "not", "false", "disable", "disabled", "deactivate", "without", "don't"];
        if !matches!(parameter.shape, Shape::Boolean) {
            return None;
        }
        let says = |piece: &Piece<'_>, words: &[&str]| words.iter().any(|word| piece.text.eq_ignore_ascii_case(word));
        let pieces = &self.text.pieces;
        let place = |stem: &String| pieces.iter().position(|piece| piece.stem == *stem);
        let telling = parameter.stems.iter().filter(|stem| !matches!(stem.as_str(), "is" | "has" | "includ" | "enabl"));
        let places: Option<Vec<usize>> = telling.map(place).collect();
        if let Some((first, last)) = places.and_then(|places| Some((*places.iter().min()?, *places.iter().max()?))) {
            let around = &pieces[first.saturating_sub(2)..(last + 3).min(pieces.len())];
            let is_off = around.iter().any(|piece| says(piece, NO));
            return Some(Found { value: Value::Bool(!is_off), pieces: Vec::new() });
        }
        let set = |piece: &Piece<'_>| if says(piece, YES) { Some(true) } else { says(piece, NO).then_some(false) };
        if parameter.required { self.first(|_, piece| set(piece).map(Value::Bool)) } else { None }
    }

    /// A text behind the parameter's name and a colon or `=`, up to where something else begins.
    fn labelled_text(&self, parameter: &'a Parameter) -> Option<Found> {
        let Shape::Text(Meaning::Name | Meaning::Free | Meaning::Path | Meaning::TimeZone) = parameter.shape else {
            return None;
        };
        let pieces = &self.text.pieces;
        let is_label = |at: usize, parameter: &Parameter| {
            matches!(pieces[at].mark, Some(':' | '=')) && parameter.stems.contains(&pieces[at].stem)
        };
        let label = (0..pieces.len()).find(|at| is_label(*at, parameter))?;
        let is_free = |at: usize| !self.used[at] && !self.parameters.iter().any(|other| is_label(at, other));
        let mut end = label + 1;
        while end < pieces.len() && is_free(end) && (end == label + 1 || !ends_item(&pieces[end - 1])) {
            end += 1;
        }
        (end > label + 1 && parameter.choices.is_empty()).then(|| self.slice(label + 1..end))
    }

    /// All that fits a list.
    fn list(&self, list: &'a Parameter, item: &'a Parameter, least: usize) -> Option<Found> {
        let found: Vec<(Vec<usize>, Value)> = if !item.choices.is_empty() {
            self.mentions(item).into_iter().map(|(range, value)| (range.collect(), value.clone())).collect()
        } else if matches!(item.shape, Shape::Text(_)) || self.is_wanted(list) {
            let value = |piece| fit(item, piece).or_else(|| quote(item, piece));
            self.unused().filter_map(|(at, piece)| value(piece).map(|value| (vec![at], value))).collect()
        } else {
            Vec::new()
        };
        if found.len() < least.max(1) {
            return None;
        }
        let (pieces, values): (Vec<Vec<usize>>, Vec<Value>) = found.into_iter().unzip();
        Some(Found { value: Value::Array(values), pieces: pieces.concat() })
    }

    /// What stands in the text from one piece to another, as it is written.
    fn slice(&self, range: Range<usize>) -> Found {
        let pieces = &self.text.pieces[range.clone()];
        let (start, end) = (pieces.first().map_or(0, |piece| piece.start), pieces.last().map_or(0, |piece| piece.end));
        let text = match pieces {
            [single] => single.text,
            _ => &self.text.source[start..end],
        };
        Found { value: text.into(), pieces: range.collect() }
    }
}

/// Whether what is listed or labelled ends after a piece.
fn ends_item(piece: &Piece<'_>) -> bool {
    matches!(piece.mark, Some(',' | ';' | '\n'))
}

/// What a piece is worth to a parameter, if it is of its kind.
fn fit(parameter: &Parameter, piece: &Piece<'_>) -> Option<Value> {
    if !parameter.choices.is_empty() {
        return None;
    }
    let quoted = if piece.kind == Kind::Quoted { text::address(piece.text) } else { None };
    let text = || Some(Value::from(piece.text));
    match (&parameter.shape, quoted.as_ref().unwrap_or(&piece.kind)) {
        (Shape::Number | Shape::Integer | Shape::Anything, Kind::Number(number)) => fit_number(parameter, number),
        (Shape::Text(Meaning::Url), Kind::Url) if piece.text.contains("://") => text(),
        (Shape::Text(Meaning::Url), Kind::Url) => Some(format!("https://{}", piece.text).into()),
        (Shape::Text(Meaning::Email | Meaning::Name), Kind::Email) => text(),
        (Shape::Text(Meaning::Path), Kind::Path) => text(),
        (Shape::Text(Meaning::Date), Kind::Date) => piece.text.split(['T', 't']).next().map(Value::from),
        (Shape::Text(Meaning::DateTime), Kind::Date) if piece.text.contains(['T', 't']) => text(),
        (Shape::Text(Meaning::DateTime), Kind::Date) => Some(format!("{}T00:00:00Z", piece.text).into()),
        (Shape::Text(Meaning::TimeZone), Kind::Word) if is_time_zone(piece) => text(),
        _ => None,
    }
}

fn fit_number(parameter: &Parameter, number: &Number) -> Option<Value> {
    let value = number.as_f64()?;
    if !(parameter.lowest..=parameter.highest).contains(&value) {
        return None;
    }
    match parameter.shape {
        Shape::Integer if number.is_f64() => {
            (value.fract() == 0.0 && value.abs() < 1e15).then(|| (value as i64).into())
        }
        _ => Some(Value::Number(number.clone())),
    }
}

/// `Europe/Paris`, `UTC`.
fn is_time_zone(piece: &Piece<'_>) -> bool {
    matches!(piece.text, "UTC" | "GMT") || (piece.is_capital() && piece.text.contains('/'))
}

/// What stands in quotes, for a parameter that takes any text.
fn quote(parameter: &Parameter, piece: &Piece<'_>) -> Option<Value> {
    let takes_any = match parameter.shape {
        Shape::Text(Meaning::Url | Meaning::Email | Meaning::Date | Meaning::DateTime) => false,
        Shape::Text(_) | Shape::Anything => parameter.choices.is_empty(),
        _ => false,
    };
    (takes_any && piece.kind == Kind::Quoted).then(|| piece.text.into())
}

/// What a parameter that must have a value gets when the text has none for it.
fn without_a_word(parameter: &Parameter) -> Option<Found> {
    let value = match (&parameter.default, &parameter.choices[..], &parameter.shape) {
        (Some(default), _, _) => default.clone(),
        (None, [only], _) => only.clone(),
        (None, [], Shape::Null) => Value::Null,
        (None, [], Shape::Object(true)) => Value::Object(Map::new()),
        _ => return None,
    };
    Some(Found { value, pieces: Vec::new() })
}
