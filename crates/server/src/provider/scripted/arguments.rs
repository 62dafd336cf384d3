//! Finds arguments for the parameters of a tool in a text.
//!
//! A JSON object whose fields are parameters is used as it is. Otherwise clear values come first: named ones ("width
//! 800", "3 days", `title: Groceries`), values of an enumeration, addresses, numbers, quotes. Required parameters then
//! get the rest of the text: a name after a joining word ("in Paris"), or all of it. Each piece is used once.

use std::collections::BTreeMap;
use std::ops::Range;

use handback_core::tools::ModelTool;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value, json};

use super::shorten;
use super::text::{self, Piece};

/// How many braces of a text are tried as the beginning of an object.
const MOST_BRACES: usize = 8;
/// Words that a name may follow.
const PREPOSITIONS: &[&str] = &["in", "for", "at", "to", "from", "of", "about", "near", "with", "by", "into"];
/// Words that turn a switch on.
const YES: &[&str] = &["on", "yes", "true", "enable", "enabled", "activate"];
/// Words that turn a switch off.
const NO: &[&str] = &["off", "no", "not", "false", "disable", "disabled", "deactivate", "without", "don"];
/// How many parameters of a tool are read, required ones first; the others are never filled.
const MOST_PARAMETERS: usize = 32;
/// How many values of an enumeration are read; the others are never found in a text.
const MOST_CHOICES: usize = 128;
/// How many references and alternatives are followed in a row; a parameter behind more of them accepts anything.
const MOST_HOPS: usize = 4;
/// How many values of an enumeration are shown when one is missing; dots stand for the others.
const SHOWN_CHOICES: usize = 8;
/// The clues that find values, best first. Names come before the rest of the text, which ends where a name begins.
const CLUES: [Clue; 7] = [Clue::Name, Clue::Kind, Clue::Quotes, Clue::Capitals, Clue::Place, Clue::Words, Clue::Rest];
/// Each kind with its name for people, its type and format in a schema, and words in the names of such parameters. The
/// first line whose type fits, together with its format or a word, wins; otherwise the last line whose type fits.
const KINDS: [(Kind, &str, &str, &str, &str); 13] = [
    (Kind::Number, "a number", "number", "", ""),
    (Kind::Integer, "a whole number", "integer", "", ""),
    (Kind::Boolean, "true or false", "boolean", "", ""),
    (Kind::Date, "a date like 2026-01-31", "string", "date", ""),
    (Kind::DateTime, "a time like 2026-01-31T12:00:00Z", "string", "date-time", ""),
    (Kind::Url, "a URL", "string", "uri", "url uri link href website"),
    (Kind::Email, "an email address", "string", "email", "email mail"),
    (Kind::Path, "a path", "string", "path", "path file filename filepath dir directory folder"),
    (Kind::TimeZone, "a text", "string", "time-zone", "timezone zone tz"),
    (Kind::Name, "a text", "string", "name", "name user username person contact recipient language to from origin"),
    (Kind::Name, "a text", "string", "place", "destination address place location city town region country station"),
    (Kind::Text, "a text", "string", "", ""),
    (Kind::Anything, "a value", "", "", ""),
];

/// The kind of value that a parameter takes. `Name` is a person or a place, `Choice` is a value of an enumeration, and
/// values of `Other` are never found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Integer,
    Boolean,
    Date,
    DateTime,
    Url,
    Email,
    Path,
    TimeZone,
    Name,
    Text,
    Anything,
    Choice,
    Other,
}

/// A parameter of a tool. For a list, the kind, choices and limits are those of its items.
#[derive(Debug)]
struct Parameter {
    name: String,
    /// The words that name the parameter in a text.
    words: Vec<String>,
    required: bool,
    is_list: bool,
    kind: Kind,
    /// The values of the enumeration, each as JSON, text and words.
    choices: Vec<(Value, String, Vec<String>)>,
    /// The least and the largest allowed number.
    limits: [Option<f64>; 2],
    schema: Value,
}

/// The parameters of a tool, the required ones first, otherwise in the order in which the schema names them.
fn parameters(schema: &str) -> Vec<Parameter> {
    let root: Value = serde_json::from_str(schema).unwrap_or_default();
    let whole = resolve(&root, &root);
    let required: Vec<&str> = items(&whole["required"]).filter_map(Value::as_str).take(MOST_PARAMETERS).collect();
    let others = whole["properties"].as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    let names = required.iter().copied().chain(others.filter(|name| !required.contains(name)));
    let mut names: Vec<&str> = names.take(MOST_PARAMETERS).collect();
    names.sort_by_key(|name| (!required.contains(name), schema.find(&format!("\"{name}\""))));
    let read = |name| Parameter::read(name, required.contains(&name), &whole["properties"][name], &root);
    names.into_iter().map(read).collect()
}

/// Merges a schema with the one that it refers to, or with its first alternative that is not null.
fn resolve(schema: &Value, root: &Value) -> Value {
    let mut fields = schema.as_object().cloned().unwrap_or_default();
    for _ in 0..MOST_HOPS {
        let reference = fields.remove("$ref");
        let alternatives = ["anyOf", "oneOf", "allOf"].iter().find_map(|key| fields.remove(*key));
        let target = match reference.as_ref().and_then(Value::as_str) {
            Some(reference) => root.pointer(reference.trim_start_matches('#')),
            None => alternatives.iter().flat_map(items).find(|schema| schema["type"] != "null"),
        };
        for (key, value) in target.and_then(Value::as_object).into_iter().flatten() {
            fields.entry(key).or_insert_with(|| value.clone());
        }
    }
    fields.into()
}

/// The items of a list; none for other values.
fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// The type in a schema; of several types, the first that is not null.
fn type_of(schema: &Value) -> &str {
    let several = items(&schema["type"]).filter_map(Value::as_str).find(|name| *name != "null");
    several.or(schema["type"].as_str()).unwrap_or_default()
}

impl Parameter {
    /// Reads the schema of a parameter, which may refer to parts of the whole schema.
    fn read(name: &str, required: bool, property: &Value, root: &Value) -> Self {
        let schema = resolve(property, root);
        let is_list = type_of(&schema) == "array";
        let item = if is_list { resolve(&schema["items"], root) } else { schema.clone() };
        let choices = item.get("const").into_iter().chain(items(&item["enum"])).take(MOST_CHOICES);
        let written = |choice: &Value| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
        let choices = choices.map(|choice| (choice.clone(), written(choice), text::words(&written(choice))));
        let choices: Vec<(Value, String, Vec<String>)> = choices.collect();
        let (of, format, words) = (type_of(&item), item["format"].as_str().unwrap_or_default(), text::words(name));
        let has = |known: &str| known.split(' ').any(|known| words.iter().any(|word| word == known));
        let known = KINDS.iter().find(|kind| kind.2 == of && (kind.3 == format || has(kind.4)));
        let kind = known.or_else(|| KINDS.iter().rfind(|kind| kind.2 == of)).map_or(Kind::Other, |kind| kind.0);
        let kind = if choices.is_empty() { kind } else { Kind::Choice };
        let prepositions = [("origin", "from"), ("destination", "to")].into_iter().filter(|(name, _)| has(name));
        let words = words.iter().cloned().chain(prepositions.map(|(_, word)| word.to_owned())).collect();
        let limits = ["minimum", "maximum"].map(|key| item[key].as_f64());
        Self { name: name.to_owned(), words, required, is_list, kind, choices, limits, schema }
    }

    /// Converts a piece of text to a value, if it is of the right kind.
    fn value(&self, piece: &str) -> Option<Value> {
        let [least, most] = self.limits;
        let is_within = |value: f64| least.is_none_or(|least| least <= value) && most.is_none_or(|most| value <= most);
        let number = text::as_number(piece).filter(|number| number.as_f64().is_some_and(is_within));
        let is_zone = matches!(piece, "UTC" | "GMT") || (piece.starts_with(char::is_uppercase) && piece.contains('/'));
        let (day, time) = piece.split_at_checked("2026-01-31".len()).unwrap_or_default();
        let is_day = day.split('-').map(str::len).eq([4, 2, 2]) && day.replace('-', "").parse::<u32>().is_ok();
        // `notes.txt` and `example.com`, but not `3.5mm` and `e.g`.
        let is_ending = |end: &str| (2..=5).contains(&end.len()) && end.starts_with(char::is_alphabetic);
        let is_dotted =
            |name: &str| !name.contains(' ') && name.rsplit_once('.').is_some_and(|(_, end)| is_ending(end));
        match self.kind {
            Kind::Number | Kind::Anything => number.map(Value::Number),
            Kind::Integer => number.filter(|number| !number.is_f64()).map(Value::Number),
            Kind::Date if is_day => Some(day.into()),
            Kind::DateTime if is_day && time.is_empty() => Some(format!("{day}T00:00:00Z").into()),
            Kind::DateTime if is_day => Some(piece.into()),
            Kind::Url if piece.contains("://") => Some(piece.into()),
            Kind::Url if piece.split('/').next().is_some_and(is_dotted) => Some(format!("https://{piece}").into()),
            Kind::Email | Kind::Name if piece.find('@') > Some(0) && piece.contains('.') => Some(piece.into()),
            Kind::TimeZone if is_zone => Some(piece.into()),
            Kind::Path if is_dotted(piece) || piece.starts_with(['/', '.', '~']) => Some(piece.into()),
            _ => None,
        }
    }

    /// The value if the text has none: the default, or the only possible value.
    fn default(&self) -> Option<Value> {
        match (self.schema.get("default"), &self.choices[..], type_of(&self.schema)) {
            (Some(default), _, _) => Some(default.clone()),
            (None, [(only, ..)], _) if !self.is_list => Some(only.clone()),
            (None, [], "null") => Some(Value::Null),
            (None, [], "object") if items(&self.schema["required"]).next().is_none() => Some(json!({})),
            _ => None,
        }
    }

    /// The name and kind of the parameter, for people.
    fn describe(&self) -> String {
        let choices = self.choices.iter().take(SHOWN_CHOICES).map(|(choice, ..)| shorten(&choice.to_string()));
        let dots = (self.choices.len() > SHOWN_CHOICES).then(|| "…".to_owned());
        let called = KINDS.iter().find(|kind| kind.0 == self.kind).map_or("a value", |kind| kind.1);
        let takes = match self.limits {
            _ if self.is_list => "a list".to_owned(),
            _ if self.kind == Kind::Choice => format!("one of {}", choices.chain(dots).collect::<Vec<_>>().join(", ")),
            [Some(least), Some(most)] => format!("{called} from {least} to {most}"),
            [Some(least), None] => format!("{called} from {least}"),
            [None, Some(most)] => format!("{called} up to {most}"),
            [None, None] => called.to_owned(),
        };
        format!("`{}` ({takes})", shorten(&self.name))
    }
}

/// The reason to use a value for a parameter: it is beside the parameter's name, of its kind, in quotes, capitalised
/// like a name, after a preposition, made of words that can be a name, or all that is left.
#[derive(Debug, Clone, Copy)]
enum Clue {
    Name,
    Kind,
    Quotes,
    Capitals,
    Place,
    Words,
    Rest,
}

/// The text that arguments are taken from.
struct Source<'a> {
    text: &'a str,
    pieces: &'a [Piece<'a>],
    /// The index of the piece that names the tool, or the number of pieces if none does.
    named: usize,
    /// Whether each piece only describes the tool.
    describes: Vec<bool>,
    /// Whether each piece is used, as part of a value or to name the tool.
    used: Vec<bool>,
    /// Whether the tool has only one parameter.
    is_single: bool,
}

/// Finds the arguments of a tool, or describes the required parameters that have no value.
pub(super) fn fill(tool: &ModelTool<'_>, text: &str, pieces: &[Piece<'_>]) -> Result<String, Vec<String>> {
    let parameters = parameters(tool.schema.get());
    let (name, description) = (text::telling_words(tool.name), text::telling_words(tool.description));
    let is_in = |words: &[String], word: &str| words.iter().any(|known| text::is_same(known, word));
    let is_new = |at: usize| !pieces[..at].iter().any(|earlier| earlier.word == pieces[at].word);
    let is_name = |at: usize| is_new(at) && text::words(pieces[at].text).iter().all(|word| is_in(&name, word));
    let used: Vec<bool> = (0..pieces.len()).map(|at| !pieces[at].word.is_empty() && is_name(at)).collect();
    let named = used.iter().position(|used| *used).unwrap_or(pieces.len());
    // "web" describes a tool in "search the web for rust", but not in "search web frameworks".
    let is_end = |at: usize| at < named || pieces.get(at + 1).is_none_or(|next| next.joins());
    let describes = (0..pieces.len()).map(|at| is_end(at) && is_in(&description, &pieces[at].word)).collect();
    let mut source = Source { text, pieces, named, describes, used, is_single: parameters.len() == 1 };
    if let Some(object) = source.written_object(&parameters) {
        return Ok(object.to_owned());
    }
    let mut values = vec![None; parameters.len()];
    for clue in CLUES {
        for (parameter, value) in parameters.iter().zip(&mut values).filter(|(_, value)| value.is_none()) {
            *value = source.take(parameter, clue);
        }
    }
    let (mut fields, mut missing) = (Vec::new(), Vec::new());
    for (parameter, value) in parameters.iter().zip(values) {
        match value.or_else(|| parameter.default().filter(|_| parameter.required)) {
            Some(value) => fields.push(format!("{}:{value}", Value::from(parameter.name.as_str()))),
            None if parameter.required => missing.push(parameter.describe()),
            None => {}
        }
    }
    if missing.is_empty() { Ok(format!("{{{}}}", fields.join(","))) } else { Err(missing) }
}

impl Source<'_> {
    /// Finds a JSON object whose fields are all parameters. If no parameters are known, any field is accepted.
    fn written_object(&self, parameters: &[Parameter]) -> Option<&str> {
        let is_known = |name: &String| parameters.is_empty() || parameters.iter().any(|known| known.name == *name);
        self.text.match_indices('{').take(MOST_BRACES).find_map(|(at, _)| {
            let mut objects = Deserializer::from_str(&self.text[at..]).into_iter::<BTreeMap<String, IgnoredAny>>();
            let fields = objects.next()?.ok()?;
            (!fields.is_empty() && fields.keys().all(is_known)).then(|| &self.text[at..at + objects.byte_offset()])
        })
    }

    /// Takes the first value with a clue, preferably after the tool's name. A list takes all, if they are enough.
    fn take(&mut self, parameter: &Parameter, clue: Clue) -> Option<Value> {
        let mut values = Vec::new();
        let places = (self.named..self.pieces.len()).chain(0..self.named);
        let find = |source: &Self| places.clone().find_map(|at| source.find(parameter, clue, at));
        while let Some((value, range)) = find(self) {
            self.used[range].fill(true);
            if !parameter.is_list {
                return Some(value);
            }
            values.push(value);
        }
        let least = parameter.schema["minItems"].as_u64().unwrap_or_default().max(1);
        (values.len() as u64 >= least).then_some(Value::Array(values))
    }

    /// Finds the value that begins at a piece, if it has the clue.
    fn find(&self, parameter: &Parameter, clue: Clue, at: usize) -> Option<(Value, Range<usize>)> {
        let piece = &self.pieces[at];
        let is_name = |piece: &Piece<'_>| parameter.words.iter().any(|word| text::is_same(word, &piece.word));
        let mut before = self.pieces[..at].iter().rev().take(3);
        let is_named = before.find(|piece| is_name(piece) || !piece.joins()).is_some_and(is_name);
        let is_counted = self.pieces.get(at + 1).is_some_and(is_name) && text::as_number(piece.text).is_some();
        let is_placed = at > 0 && PREPOSITIONS.contains(&self.pieces[at - 1].word.as_str());
        let begins_rest = parameter.required && !self.describes[at] && !piece.joins() && !is_name(piece);
        let is_number = matches!(parameter.kind, Kind::Number | Kind::Integer | Kind::Anything);
        let takes_name = parameter.kind == Kind::Name || (parameter.kind == Kind::TimeZone && parameter.required);
        let takes_rest = matches!(parameter.kind, Kind::Text | Kind::Path | Kind::Anything);
        let takes_text = takes_name || takes_rest;
        let is_colon = |at: usize| self.pieces.get(at).is_some_and(|piece| matches!(piece.text, ":" | "="));
        let ends_item = |at: usize| matches!(self.pieces[at].text, "," | ";" | "\n");
        let ends_words = |at: usize| self.pieces[at].word.is_empty() || text::is_silent(&self.pieces[at].word);
        let ends_name = |at: usize| ends_words(at) || !self.pieces[at].text.starts_with(char::is_uppercase);
        let ends_list_item = |at: usize| parameter.is_list && (ends_item(at) || self.pieces[at].word == "and");
        let value = || self.value(parameter, at);
        let quote = || (piece.is_quoted && takes_text).then(|| (piece.text.into(), at..at + 1));
        let name = || if takes_name { self.text_until(at, ends_name) } else { None };
        let item = || self.text_until(at, |at| ends_item(at) || is_colon(at + 1));
        let label = || if is_colon(at - 1) && takes_text { item() } else { name() };
        match clue {
            _ if self.used[at] => None,
            Clue::Name if is_named => value().or_else(quote).or_else(label),
            Clue::Name if is_counted => value(),
            Clue::Kind if parameter.required || self.is_single || !is_number => value(),
            Clue::Quotes => quote(),
            Clue::Capitals if is_placed || (parameter.required && at > 0) => name(),
            Clue::Place if is_placed && takes_name && parameter.required => self.text_until(at, ends_words),
            Clue::Words if begins_rest && takes_name && at > self.named => self.text_until(at, ends_words),
            Clue::Rest if begins_rest && takes_rest => self.text_until(at, |at| at == self.named || ends_list_item(at)),
            _ => None,
        }
    }

    /// Finds a value of the right kind that begins at a piece. Of an enumeration the longest wins, then the first.
    fn value(&self, parameter: &Parameter, at: usize) -> Option<(Value, Range<usize>)> {
        let (piece, pieces) = (&self.pieces[at], &self.pieces[at..]);
        let is_same = |(word, piece): (&String, &Piece<'_>)| text::is_same(word, &piece.word);
        let begins = |words: &[String]| words.len() <= pieces.len() && words.iter().zip(pieces).all(is_same);
        let length = |(_, text, words): &(Value, String, Vec<String>)| match words.len() {
            _ if piece.text.eq_ignore_ascii_case(text) => 1,
            length if begins(words) => length,
            _ => 0,
        };
        let says = |piece: &Piece<'_>, words: &[&str]| words.contains(&piece.word.as_str());
        match parameter.kind {
            Kind::Choice => {
                let choice = parameter.choices.iter().rev().max_by_key(|choice| length(choice))?;
                let range = at..at + length(choice);
                (!range.is_empty() && !self.used[range.clone()].contains(&true)).then(|| (choice.0.clone(), range))
            }
            // A boolean is set if the text names it, or if it is required and the text contains a yes or no word.
            Kind::Boolean => {
                let is_set = begins(&parameter.words) || (parameter.required && (says(piece, YES) || says(piece, NO)));
                is_set.then(|| ((!self.pieces.iter().any(|piece| says(piece, NO))).into(), at..at + 1))
            }
            _ => Some((parameter.value(piece.text)?, at..at + 1)),
        }
    }

    /// The text from a piece up to the first used piece or the end, without trailing joining words.
    fn text_until(&self, from: usize, ends: impl Fn(usize) -> bool) -> Option<(Value, Range<usize>)> {
        let all = self.pieces.len();
        let end = (from..all).find(|at| self.used[*at] || ends(*at)).unwrap_or(all);
        let trails = |word: &str| end < all || matches!(word, "" | "please");
        let last = (from..end).rev().find(|at| !self.pieces[*at].joins() || !trails(&self.pieces[*at].word))?;
        Some((self.text[self.pieces[from].start..self.pieces[last].end].into(), from..last + 1))
    }
}
