//! How much work a schema can make of checking a value.
//!
//! References that fan out double the work at each level of the schema, and references back to where one is double it
//! at each level of the value. The first is refused, the second bounds how deep a value may be.

use std::collections::HashMap;

use serde_json::Value;

/// How many subschemas may be visited for one part of a value, references followed.
const MOST_VISITS: usize = 200_000;
/// How often a part of a value may be checked against the same subschema.
const MOST_REPETITIONS: f64 = 1e6;

/// What a schema makes of checking a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// In proportion to the value.
    Little,
    /// More with each level of the value: so deep and no deeper.
    Multiplying {
        /// The depth up to which it can be checked.
        deepest: usize,
    },
    /// Too much for any value.
    TooMuch,
}

/// Follows all references of a schema once.
pub(super) fn of(schema: &Value) -> Work {
    let mut named = HashMap::new();
    collect_names(schema, &mut named);
    let mut walk = Walk { root: schema, named, visits: 0, targets: vec![schema], returns: HashMap::new() };
    walk.visit(schema, None);
    if walk.visits > MOST_VISITS {
        return Work::TooMuch;
    }
    let any = |target: usize| walk.returns.get(&(target, Step::Any)).copied().unwrap_or(0);
    let ways = walk.returns.iter().map(|((target, step), ways)| match step {
        Step::Any => *ways,
        Step::Name(_) => ways + any(*target),
    });
    match ways.max() {
        Some(ways @ 2..) => {
            let deepest = (MOST_REPETITIONS.ln() / f64::from(ways).ln()) as usize;
            Work::Multiplying { deepest: deepest.max(1) }
        }
        _ => Work::Little,
    }
}

/// How many patterns a schema has; what only looks like one counts too.
pub(super) fn patterns(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => fields.iter().map(|(key, value)| own_patterns(key, value) + patterns(value)).sum(),
        Value::Array(items) => items.iter().map(patterns).sum(),
        _ => 0,
    }
}

fn own_patterns(key: &str, value: &Value) -> usize {
    match (key, value) {
        ("pattern", Value::String(_)) => 1,
        ("patternProperties", Value::Object(properties)) => properties.len(),
        _ => 0,
    }
}

/// A step from a value to one of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step<'a> {
    /// The property of that name.
    Name(&'a str),
    /// Whichever.
    Any,
}

struct Walk<'a> {
    root: &'a Value,
    /// Subschemas by `$anchor` or by the last part of their `$id`.
    named: HashMap<&'a str, &'a Value>,
    visits: usize,
    /// What is being visited, each by a reference from the one before.
    targets: Vec<&'a Value>,
    /// In how many ways a reference leads back, by the target that it is in and the first step from there.
    returns: HashMap<(usize, Step<'a>), u32>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, schema: &'a Value, step: Option<Step<'a>>) {
        self.visits += 1;
        let Value::Object(fields) = schema else { return };
        if self.visits > MOST_VISITS {
            return;
        }
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => self.follow(reference, step),
                ("properties", Value::Object(parts)) => {
                    parts.iter().for_each(|(name, part)| self.visit(part, step.or(Some(Step::Name(name)))));
                }
                ("patternProperties", Value::Object(parts)) => {
                    parts.values().for_each(|part| self.visit(part, step.or(Some(Step::Any))));
                }
                ("items" | "prefixItems", Value::Array(parts)) => {
                    parts.iter().for_each(|part| self.visit(part, step.or(Some(Step::Any))));
                }
                (
                    "items"
                    | "additionalItems"
                    | "additionalProperties"
                    | "unevaluatedItems"
                    | "unevaluatedProperties"
                    | "contains",
                    part,
                ) => self.visit(part, step.or(Some(Step::Any))),
                ("allOf" | "anyOf" | "oneOf", Value::Array(same)) => {
                    same.iter().for_each(|same| self.visit(same, step));
                }
                ("not" | "if" | "then" | "else", same) => self.visit(same, step),
                ("dependentSchemas" | "dependencies", Value::Object(same)) => {
                    same.values().for_each(|same| self.visit(same, step));
                }
                // Says something about the value itself, or is only a place for definitions.
                _ => {}
            }
        }
    }

    fn follow(&mut self, reference: &'a str, step: Option<Step<'a>>) {
        let Some(target) = self.resolve(reference) else { return };
        if self.targets.iter().any(|known| std::ptr::eq(*known, target)) {
            // Without a step it leads nowhere, and the validator knows.
            if let (Some(step), Some(innermost)) = (step, self.targets.last()) {
                *self.returns.entry((std::ptr::from_ref(*innermost).addr(), step)).or_default() += 1;
            }
            return;
        }
        self.targets.push(target);
        self.visit(target, None);
        self.targets.pop();
    }

    fn resolve(&self, reference: &'a str) -> Option<&'a Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let document = match last_part(document) {
            "" => self.root,
            name => self.named.get(name)?,
        };
        match fragment {
            "" => Some(document),
            pointer if pointer.starts_with('/') => document.pointer(pointer),
            anchor => self.named.get(anchor).copied(),
        }
    }
}

fn collect_names<'a>(schema: &'a Value, named: &mut HashMap<&'a str, &'a Value>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| collect_names(item, named)),
        Value::Object(fields) => {
            for key in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                if let Some(name) = fields.get(key).and_then(Value::as_str) {
                    named.insert(last_part(name.trim_start_matches('#')), schema);
                }
            }
            fields.values().for_each(|value| collect_names(value, named));
        }
        _ => {}
    }
}

fn last_part(uri: &str) -> &str {
    uri.rsplit('/').next().unwrap_or(uri)
}
