//! The parameters of a tool, as far as they can be told from its schema without much ado.
//!
//! A schema is hostile until proven otherwise: nothing is taken apart before it is needed, references are followed
//! only so far, and what can not be read is a parameter that takes anything.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::answer::shorten;
use super::word;

/// Parameters that are looked at, those that are required first; the others are never filled.
const MOST_PARAMETERS: usize = 32;
/// Values of an enumeration that are looked at; the others are never found in a text.
const MOST_CHOICES: usize = 128;
/// References and alternatives that are followed, one after the other; what is behind them takes anything.
const MOST_HOPS: usize = 4;
/// Bytes of a description that are looked at.
pub(super) const MOST_DESCRIPTION: usize = 512;
/// A larger schema is not looked at: its tool has no parameters.
const LARGEST: usize = 256 * 1024;
/// A larger part of a schema is not looked into, since many parameters can refer to it: it takes anything.
const LARGEST_PART: usize = 16 * 1024;

/// A parameter of a tool.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    /// The words that its name is made of, as stems.
    pub(super) stems: Vec<String>,
    pub(super) description: String,
    pub(super) required: bool,
    pub(super) shape: Shape,
    /// The only values that it takes, if they are few.
    pub(super) choices: Vec<Value>,
    pub(super) default: Option<Value>,
    /// The numbers that it takes.
    pub(super) lowest: f64,
    pub(super) highest: f64,
}

impl Parameter {
    /// Its name and what it takes, for people.
    pub(super) fn describe(&self) -> String {
        let kind = match &self.shape {
            _ if !self.choices.is_empty() => {
                let choices: Vec<String> =
                    (self.choices.iter().take(SHOWN_CHOICES)).map(|choice| shorten(&choice.to_string())).collect();
                let more = if self.choices.len() > SHOWN_CHOICES { ", …" } else { "" };
                format!("one of {}{more}", choices.join(", "))
            }
            Shape::Text(Meaning::Url) => "a URL".to_owned(),
            Shape::Text(Meaning::Email) => "an email address".to_owned(),
            Shape::Text(Meaning::Path) => "a path".to_owned(),
            Shape::Text(Meaning::Date) => "a date like 2026-01-31".to_owned(),
            Shape::Text(Meaning::DateTime) => "a time like 2026-01-31T12:00:00Z".to_owned(),
            Shape::Text(_) => "a text".to_owned(),
            Shape::Number => format!("a number{}", self.range()),
            Shape::Integer => format!("a whole number{}", self.range()),
            Shape::Boolean => "true or false".to_owned(),
            Shape::List(..) => "a list".to_owned(),
            Shape::Null | Shape::Object(_) | Shape::Anything => "a value".to_owned(),
        };
        format!("`{}` ({kind})", shorten(&self.name))
    }

    fn range(&self) -> String {
        match (self.lowest.is_finite(), self.highest.is_finite()) {
            (true, true) => format!(" from {} to {}", self.lowest, self.highest),
            (true, false) => format!(" from {}", self.lowest),
            (false, true) => format!(" up to {}", self.highest),
            (false, false) => String::new(),
        }
    }
}

/// Values of an enumeration that are named when one is missing; dots stand for the others.
const SHOWN_CHOICES: usize = 8;

/// What kind of value a parameter takes.
#[derive(Debug)]
pub(super) enum Shape {
    Text(Meaning),
    Number,
    Integer,
    Boolean,
    Null,
    /// Values of one kind, at least so many.
    List(Box<Parameter>, usize),
    /// An object; whether an empty one will do.
    Object(bool),
    Anything,
}

/// What a text is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Url,
    Email,
    Path,
    /// A day, which must be written as one.
    Date,
    /// A day with its time, which must be written as one.
    DateTime,
    TimeZone,
    /// Somebody or some place.
    Name,
    Free,
}

/// The parameters of a tool, the required ones first, otherwise in the order of the schema.
pub(super) fn parameters(schema: &RawValue) -> Vec<Parameter> {
    let root = Fields::within(schema, LARGEST);
    let definitions = ["$defs", "definitions"].map(|key| root.read::<Fields<'_>>(key).unwrap_or_default());
    let reader = Reader { definitions };
    let root = reader.resolve(root, LARGEST);
    let mut required: Vec<String> = root.read("required").unwrap_or_default();
    required.truncate(MOST_PARAMETERS);
    let Fields(properties) = root.read("properties").unwrap_or_default();
    let nothing_known = required.iter().filter(|name| !properties.iter().any(|(known, _)| known == *name));
    let nothing_known: Vec<_> = nothing_known.map(|name| (name.clone(), RawValue::NULL)).collect();
    let (first, later): (Vec<_>, Vec<_>) = properties.into_iter().partition(|(name, _)| required.contains(name));
    let named = first.into_iter().chain(nothing_known).chain(later).take(MOST_PARAMETERS);
    named.map(|(name, raw)| reader.parameter(required.contains(&name), name, raw, Depth::Top)).collect()
}

/// The items of a list are looked into, lists of lists are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Item,
}

struct Reader<'a> {
    definitions: [Fields<'a>; 2],
}

impl<'a> Reader<'a> {
    fn parameter(&self, required: bool, name: String, raw: &'a RawValue, depth: Depth) -> Parameter {
        let fields = self.resolve(Fields::within(raw, LARGEST_PART), LARGEST_PART);
        let mut choices = match fields.read("const") {
            Some(only) => vec![only],
            None => fields.read("enum").unwrap_or_default(),
        };
        choices.truncate(MOST_CHOICES);
        let mut description: String = fields.read("description").unwrap_or_default();
        description.truncate(description.floor_char_boundary(MOST_DESCRIPTION));
        Parameter {
            stems: word::split(&name).map(word::stem).collect(),
            description,
            required,
            shape: self.shape(&name, &fields, depth),
            choices,
            default: fields.read("default"),
            lowest: fields.read("minimum").unwrap_or(f64::NEG_INFINITY),
            highest: fields.read("maximum").unwrap_or(f64::INFINITY),
            name,
        }
    }

    fn shape(&self, name: &str, fields: &Fields<'a>, depth: Depth) -> Shape {
        let types = fields.read::<Vec<String>>("type").or_else(|| fields.read("type").map(|one| vec![one]));
        let types = types.unwrap_or_default();
        match types.iter().find(|kind| *kind != "null").or(types.first()).map(String::as_str) {
            Some("string") => Shape::Text(meaning(name, &fields.read::<String>("format").unwrap_or_default())),
            Some("number") => Shape::Number,
            Some("integer") => Shape::Integer,
            Some("boolean") => Shape::Boolean,
            Some("null") => Shape::Null,
            Some("array") if depth == Depth::Top => {
                let items = fields.get("items").unwrap_or(RawValue::NULL);
                let item = self.parameter(true, name.to_owned(), items, Depth::Item);
                Shape::List(Box::new(item), fields.read("minItems").unwrap_or(0))
            }
            Some("object") => Shape::Object(fields.read::<Vec<String>>("required").unwrap_or_default().is_empty()),
            _ => Shape::Anything,
        }
    }

    /// Follows references, and of alternatives the first that is not null, if they are not larger than this. What
    /// stands beside them goes first.
    fn resolve(&self, mut fields: Fields<'a>, largest: usize) -> Fields<'a> {
        for _ in 0..MOST_HOPS {
            let target = match fields.read::<String>("$ref") {
                Some(reference) => self.definition(&reference),
                None => ["anyOf", "oneOf", "allOf"].iter().find_map(|key| {
                    let alternatives: Vec<&RawValue> = fields.read(key)?;
                    alternatives
                        .into_iter()
                        .find(|raw| Fields::within(raw, largest).read::<&str>("type") != Some("null"))
                }),
            };
            let Some(target) = target else { break };
            fields.0.retain(|(key, _)| !matches!(key.as_str(), "$ref" | "anyOf" | "oneOf" | "allOf"));
            fields.0.extend(Fields::within(target, largest).0);
        }
        fields
    }

    fn definition(&self, reference: &str) -> Option<&'a RawValue> {
        let (place, name) = reference.strip_prefix("#/")?.split_once('/')?;
        match place {
            "$defs" => self.definitions[0].get(name),
            "definitions" => self.definitions[1].get(name),
            _ => None,
        }
    }
}

fn meaning(name: &str, format: &str) -> Meaning {
    match format {
        "uri" | "url" | "uri-reference" | "iri" => return Meaning::Url,
        "email" => return Meaning::Email,
        "date" => return Meaning::Date,
        "date-time" => return Meaning::DateTime,
        _ => {}
    }
    let words: Vec<String> = word::split(name).map(str::to_lowercase).collect();
    let has = |known: &str| known.split(' ').any(|known| words.iter().any(|word| word == known));
    if has("url uri link href website") {
        Meaning::Url
    } else if has("email mail") {
        Meaning::Email
    } else if has("path file filename filepath dir directory folder") {
        Meaning::Path
    } else if has("timezone zone tz") {
        Meaning::TimeZone
    } else if has("name user username person contact recipient from to origin destination language")
        || has("address place location city town region country station airport")
    {
        Meaning::Name
    } else {
        Meaning::Free
    }
}

/// The fields of a JSON object in the order in which they are written, each looked into only when it is read. A value
/// that is no object has none.
#[derive(Default)]
struct Fields<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// The fields of a value that is not larger than this; a larger one has none.
    fn within(raw: &'a RawValue, largest: usize) -> Self {
        if raw.get().len() > largest { Self::default() } else { serde_json::from_str(raw.get()).unwrap_or_default() }
    }

    fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| *value)
    }

    /// A field, if it is there and what is expected.
    fn read<T: Deserialize<'a>>(&self, key: &str) -> Option<T> {
        serde_json::from_str(self.get(key)?.get()).ok()
    }
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}
