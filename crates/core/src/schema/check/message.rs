//! Checks of keywords without subschemas, and the messages for violations.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Number, Value};

use super::super::equal::is_equal;
use super::super::node::Keyword;
use super::super::number::compare;

/// How many bytes of a value are shown.
const SHOWN_BYTES: usize = 200;
/// How many names are shown.
const SHOWN_NAMES: usize = 3;

/// The path of a value in the input.
pub(super) enum Pointer<'a> {
    Root,
    Name(&'a Pointer<'a>, &'a str),
    Item(&'a Pointer<'a>, usize),
}

impl fmt::Display for Pointer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps = Vec::new();
        let mut place = self;
        loop {
            place = match place {
                Self::Root => break,
                Self::Name(parent, name) => {
                    let name: String = name.chars().take(SHOWN_BYTES).collect();
                    steps.push(name.replace('~', "~0").replace('/', "~1"));
                    parent
                }
                Self::Item(parent, index) => {
                    steps.push(index.to_string());
                    parent
                }
            };
        }
        steps.reverse();
        if steps.is_empty() { f.write_str("the input") } else { write!(f, "at /{}", cut(steps.join("/"))) }
    }
}

/// The value as JSON, or its beginning. No more of it is read than is shown.
pub(super) fn show(value: &Value) -> String {
    let mut shown = String::new();
    show_in(&mut shown, value);
    cut(shown)
}

fn show_in(shown: &mut String, value: &Value) {
    match value {
        _ if shown.len() > SHOWN_BYTES => {}
        Value::String(text) => show_text(shown, text),
        Value::Array(items) => {
            shown.push('[');
            for (index, item) in items.iter().take(SHOWN_BYTES).enumerate() {
                shown.push_str(if index == 0 { "" } else { "," });
                show_in(shown, item);
            }
            shown.push(']');
        }
        Value::Object(fields) => {
            shown.push('{');
            for (index, (name, field)) in fields.iter().take(SHOWN_BYTES).enumerate() {
                shown.push_str(if index == 0 { "" } else { "," });
                show_text(shown, name);
                shown.push(':');
                show_in(shown, field);
            }
            shown.push('}');
        }
        other => shown.push_str(&other.to_string()),
    }
}

fn show_text(shown: &mut String, text: &str) {
    let beginning = &text[..text.floor_char_boundary(SHOWN_BYTES + 1)];
    shown.push_str(&Value::from(beginning).to_string());
}

fn cut(text: String) -> String {
    if text.len() <= SHOWN_BYTES { text } else { format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES)]) }
}

/// The message for names that are not allowed.
pub(super) fn unexpected(what: &str, names: &[&str]) -> String {
    let shown: Vec<String> =
        names.iter().take(SHOWN_NAMES).map(|name| format!("'{}'", cut((*name).to_owned()))).collect();
    let more = if names.len() > SHOWN_NAMES { ", …" } else { "" };
    let were = if names.len() == 1 { "was" } else { "were" };
    format!("{what} are not allowed ({}{more} {were} unexpected)", shown.join(", "))
}

/// Checks a value against a keyword without subschemas. Values of other types always pass.
pub(super) fn assertion(keyword: &Keyword, value: &Value) -> bool {
    let ordered = |limit: &Number, allowed: &[Ordering]| match value {
        Value::Number(number) => allowed.contains(&compare(number, limit)),
        _ => true,
    };
    let has = |name: &str| value.get(name).is_some();
    match (keyword, value) {
        (Keyword::Never, _) => false,
        (Keyword::Type(types), _) => types.contains(value),
        (Keyword::Enum(values), _) => values.iter().any(|known| is_equal(known, value)),
        (Keyword::Const(known), _) => is_equal(known, value),
        (Keyword::Minimum(limit), _) => ordered(limit, &[Ordering::Equal, Ordering::Greater]),
        (Keyword::Maximum(limit), _) => ordered(limit, &[Ordering::Equal, Ordering::Less]),
        (Keyword::ExclusiveMinimum(limit), _) => ordered(limit, &[Ordering::Greater]),
        (Keyword::ExclusiveMaximum(limit), _) => ordered(limit, &[Ordering::Less]),
        (Keyword::MultipleOf(_, divisor), Value::Number(number)) => divisor.divides(number),
        (Keyword::MinLength(least), Value::String(text)) => text.chars().count() as u64 >= *least,
        (Keyword::MaxLength(most), Value::String(text)) => text.chars().count() as u64 <= *most,
        (Keyword::MinItems(least), Value::Array(items)) => items.len() as u64 >= *least,
        (Keyword::MaxItems(most), Value::Array(items)) => items.len() as u64 <= *most,
        (Keyword::MinProperties(least), Value::Object(fields)) => fields.len() as u64 >= *least,
        (Keyword::MaxProperties(most), Value::Object(fields)) => fields.len() as u64 <= *most,
        (Keyword::Required(names), Value::Object(_)) => names.iter().all(|name| has(name)),
        (Keyword::DependentRequired(all), Value::Object(_)) => {
            all.iter().all(|(name, others)| !has(name) || others.iter().all(|other| has(other)))
        }
        _ => true,
    }
}

/// The message for a value that a keyword does not allow.
pub(super) fn expected(keyword: &Keyword, value: &Value) -> String {
    let shown = show(value);
    let missing = |names: &[Box<str>]| {
        let missing = names.iter().find(|name| value.get(&***name).is_none());
        format!("{} is a required property", show(&missing.map_or("", |name| name).into()))
    };
    match keyword {
        Keyword::Type(types) => {
            let names: Vec<String> = types.names().map(|name| format!("{name:?}")).collect();
            let word = if names.len() == 1 { "type" } else { "types" };
            format!("{shown} is not of {word} {}", names.join(", "))
        }
        Keyword::Enum(values) => {
            let known: Vec<String> = values.iter().take(SHOWN_NAMES).map(show).collect();
            let more = if values.len() > SHOWN_NAMES { ", …" } else { "" };
            format!("{shown} is not one of {}{more}", known.join(", "))
        }
        Keyword::Const(known) => format!("{} was expected", show(known)),
        Keyword::Minimum(limit) => format!("{shown} is less than the minimum of {limit}"),
        Keyword::Maximum(limit) => format!("{shown} is greater than the maximum of {limit}"),
        Keyword::ExclusiveMinimum(limit) => format!("{shown} is less than or equal to the minimum of {limit}"),
        Keyword::ExclusiveMaximum(limit) => format!("{shown} is greater than or equal to the maximum of {limit}"),
        Keyword::MultipleOf(of, _) => format!("{shown} is not a multiple of {of}"),
        Keyword::MinLength(least) => format!("{shown} is shorter than {least} characters"),
        Keyword::MaxLength(most) => format!("{shown} is longer than {most} characters"),
        Keyword::MinItems(least) => format!("{shown} has less than {least} items"),
        Keyword::MaxItems(most) => format!("{shown} has more than {most} items"),
        Keyword::MinProperties(least) => format!("{shown} has less than {least} properties"),
        Keyword::MaxProperties(most) => format!("{shown} has more than {most} properties"),
        Keyword::Required(names) => missing(names),
        Keyword::DependentRequired(all) => {
            let is_broken = |others: &[Box<str>]| others.iter().any(|other| value.get(&**other).is_none());
            let broken = all.iter().find(|(name, others)| value.get(&**name).is_some() && is_broken(others));
            broken.map_or_else(String::new, |(_, others)| missing(others))
        }
        _ => format!("False schema does not allow {shown}"),
    }
}
